"""LABEL_LIST: for each distinct item of a list column the set of rows whose list has it.

The file is that of a BITMAP over the items, with rows of lists that have a null item under a null key. A global buffer
holds the address map of the rows whose list is null. `array_contains` and its negation are answered exactly; files of
releases up to 0.39 do not know null lists, so they do not answer a negation.
"""

from __future__ import annotations

import numpy as np

from lance_spark.expr.comparison import compare
from lance_spark.expr.functions.lists import is_list
from lance_spark.expr.literals import Literal
from lance_spark.expr.nodes import ArrayContains, Column, ComparisonOp, Expr, Not
from lance_spark.expr.values import as_array, plain
from lance_spark.index.base import Fit, Predicate, ScalarIndex, SearchResult
from lance_spark.index.bitmap import BITMAP_FILE, find_bitmaps, load_keys
from lance_spark.index.row_set import RowSet, union_all

NULL_LISTS = "lance:label_list_nulls"


class LabelListIndex(ScalarIndex):
    """A segment of a LABEL_LIST index."""

    type_name = "LABEL_LIST"
    type_url = "/lance.table.LabelListIndexDetails"
    max_version = 1

    @classmethod
    def holds_row_ids(cls, version: int) -> bool:
        return version < 2

    @classmethod
    def fit(cls, predicate: Predicate) -> Fit:
        return Fit.EXACT if is_list(predicate.dtype) and _searched_item(predicate.expr) is not None else Fit.NONE

    def search(self, predicate: Predicate) -> SearchResult | None:
        item = _searched_item(predicate.expr)
        is_negated = isinstance(predicate.expr, Not)
        file = self._files.open(BITMAP_FILE)
        nulls = file.buffer_named_by(NULL_LISTS)
        if item is None or (is_negated and nulls is None):
            return None
        keys = load_keys(file, predicate.dtype.value_type)
        equal = as_array(compare(ComparisonOp.EQ, plain(keys), item.scalar(), predicate.time_zone), len(keys))
        # A null key compares as null: its rows are neither TRUE nor FALSE, and excluded from a negation.
        wanted = equal.fill_null(is_negated).to_numpy(zero_copy_only=False)
        found = union_all(find_bitmaps(file, np.flatnonzero(wanted), self._coverage.fragment_rows))
        if not is_negated:
            return SearchResult(found)
        null_lists = RowSet.of_address_map(nulls or b"", self._coverage.fragment_rows)
        return SearchResult(found.union(null_lists), is_complement=True)


def _searched_item(expr: Expr) -> Literal | None:
    """The constant of `array_contains(column, constant)` or of its negation."""
    if isinstance(expr, Not):
        return _searched_item(expr.value) if isinstance(expr.value, ArrayContains) else None
    if isinstance(expr, ArrayContains) and isinstance(expr.value, Column) and isinstance(expr.item, Literal):
        return expr.item
    return None
