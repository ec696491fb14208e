"""Looking for a value among the items of list columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError
from lance_spark.expr.comparison import compare
from lance_spark.expr.nodes import ComparisonOp
from lance_spark.expr.values import Operand, as_array, plain


def array_contains(lists: Operand, item: pa.Scalar, time_zone: str) -> pa.Array:
    """Whether each list has an item that equals `item`, which is not null: null for a null list, and for a list
    without such an item that has a null.

    Raises:
        InvalidInputError: the values are no lists, or their items cannot be compared with `item`.
    """
    if not is_list(lists.type) or isinstance(lists, pa.Scalar):
        raise InvalidInputError(f"array_contains takes a list column, got {lists.type}")
    items = plain(pc.list_flatten(lists))
    # Not `list_parent_indices`: it counts the items that lie below null lists, which `list_flatten` leaves out.
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False)
    parents = np.repeat(np.arange(len(lists)), lengths)
    equal = as_array(compare(ComparisonOp.EQ, items, item, time_zone), len(items))
    found = np.zeros(len(lists), np.bool_)
    found[parents[_true(equal)]] = True
    unknown = lists.is_null().to_numpy(zero_copy_only=False).copy()
    unknown[parents[equal.is_null().to_numpy(zero_copy_only=False)]] = True
    return pa.array(found, mask=unknown & ~found)


def is_list(type_: pa.DataType) -> bool:
    """Whether values of a type are lists of items."""
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(is_kind(type_) for is_kind in kinds)


def _true(values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    known: np.ndarray[tuple[int], np.dtype[np.bool_]] = values.fill_null(False).to_numpy(zero_copy_only=False)
    return known
