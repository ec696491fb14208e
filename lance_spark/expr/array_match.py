"""Looking for a value among the items of list columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError
from lance_spark.expr.comparison import compare
from lance_spark.expr.nodes import ComparisonOp
from lance_spark.expr.values import Operand, as_array, plain
from lance_spark.kernels.bits import mark_ranges
from lance_spark.kernels.jit import address_of


def array_contains(lists: Operand, item: pa.Scalar, time_zone: str) -> pa.Array:
    """Whether each list has an item that equals `item`, which is not null: null for a null list, and for a list
    without such an item that has a null.

    Raises:
        InvalidInputError: the values are no lists, or their items cannot be compared with `item`.
    """
    if not is_list(lists.type) or isinstance(lists, pa.Scalar):
        raise InvalidInputError(f"array_contains takes a list column, got {lists.type}")
    items = plain(pc.list_flatten(lists))
    # Not the offsets: items that lie below null lists are left out by `list_flatten`.
    lengths = pc.list_value_length(lists).fill_null(0)
    equal = as_array(compare(ComparisonOp.EQ, items, item, time_zone), len(items))
    found = _lists_with(equal.fill_null(False), lengths)
    if not lists.null_count and not equal.null_count:
        return pa.array(found)
    unknown = lists.is_null().to_numpy(zero_copy_only=False)
    if equal.null_count:
        unknown = unknown | _lists_with(equal.is_null(), lengths)
    return pa.array(found, mask=unknown & ~found)


def is_list(type_: pa.DataType) -> bool:
    """Whether values of a type are lists of items."""
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(is_kind(type_) for is_kind in kinds)


def _lists_with(items: pa.Array, lengths: pa.Array) -> npt.NDArray[np.bool_]:
    """bool[n]: which lists have an item that is true. List i has `lengths[i]` of `items`, which have no nulls."""
    found = np.zeros(len(lengths), np.bool_)
    bits, numbers = items.buffers()[1], lengths.to_numpy()
    if bits is not None:
        first = bits.address + (items.offset >> 3)
        places = address_of(numbers), numbers.itemsize, len(numbers)
        mark_ranges(first, items.offset & 7, len(items), *places, address_of(found))
    return found
