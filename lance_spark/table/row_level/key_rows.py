"""Finds the rows of a version that have one of some keys, through indexes or by reading the key columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.encodings.blocks import Int64Array
from lance_spark.expr.columns import column_values
from lance_spark.expr.nodes import And, Column, Expr, InArray
from lance_spark.index.planner import Plan
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.projection import find
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.index_candidates import Candidates, index_plan
from lance_spark.table.reading.scan import Scan
from lance_spark.table.row_level.key_index import KeyIndex
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.rows.row_address import UInt64Array

_MAX_KEYS = 100_000
"""An index is not asked for more keys at once."""

_ROWS_PER_KEY = 512
"""Nor if the table has fewer rows for each key: reading the column is cheaper."""


class KeyRows:
    """The rows of a version, with their keys.

    Args:
        scan: reads the key columns and, as the last column, the address of each row.
        manifest: the version.
        paths: the key columns.
        index: the keys.
        matched_only: rows with other keys may be left out.
    """

    def __init__(
        self, scan: Scan, manifest: Manifest, paths: Sequence[tuple[str, ...]], index: KeyIndex, *, matched_only: bool
    ) -> None:
        self._scan = scan
        self._paths = paths
        self._index = index
        self._plan = Plan()
        condition = _condition(scan, paths, index) if matched_only and _is_selective(manifest, index) else None
        filtered = replace(scan, filter=condition)
        if condition is not None:
            self._plan = index_plan(filtered, manifest)
        self._candidates = Candidates(filtered, self._plan)

    def read(self, fragments: Iterable[DataFragment]) -> Iterator[tuple[UInt64Array, Int64Array]]:
        """(addresses, numbers of their keys, -1 for others) of rows of some fragments, in batches; small fragments are
        read together.
        """
        for is_answered, run in groupby(fragments, lambda fragment: fragment.id in self._plan.matches):
            source = self._candidates if is_answered else self._scan
            for batch in source.read(run):
                addresses: UInt64Array = batch.column(batch.num_columns - 1).to_numpy()
                yield addresses, self._index.find([column_values(batch, path) for path in self._paths])


def _is_selective(manifest: Manifest, index: KeyIndex) -> bool:
    if not manifest.index_section or not 0 < index.num_keys <= _MAX_KEYS:
        return False
    num_rows = sum(message.physical_rows for message in manifest.fragments.messages)
    return num_rows >= index.num_keys * _ROWS_PER_KEY


def _condition(scan: Scan, paths: Sequence[tuple[str, ...]], index: KeyIndex) -> Expr | None:
    """A condition that all rows with one of the keys satisfy; None if no index can know it."""
    terms: list[Expr] = []
    for path, values in zip(paths, index.distinct_values, strict=True):
        dtype = to_arrow_type(find(scan.schema, path)[-1])
        if values.type == dtype and _is_exact(dtype):
            terms.append(InArray(Column(path), values))
    return None if not terms else terms[0] if len(terms) == 1 else And(tuple(terms))


def _is_exact(dtype: pa.DataType) -> bool:
    """Whether values of a type are equal only if their bytes are."""
    return bool(
        pt.is_integer(dtype)
        or pt.is_string(dtype)
        or pt.is_large_string(dtype)
        or pt.is_date32(dtype)
        or pt.is_timestamp(dtype)
    )
