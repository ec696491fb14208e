"""Functions of list columns, and looking for a value among their items."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError
from lance_spark.expr.comparison import compare
from lance_spark.expr.function_names import FunctionName
from lance_spark.expr.functions.base import ScalarFunction, constant_number
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
    contains = _lists_with(equal.fill_null(False), lengths)
    if not lists.null_count and not equal.null_count:
        return pa.array(contains)
    unknown = lists.is_null().to_numpy(zero_copy_only=False)
    if equal.null_count:
        unknown = unknown | _lists_with(equal.is_null(), lengths)
    return pa.array(contains, mask=unknown & ~contains)


def is_list(type_: pa.DataType) -> bool:
    """Whether values of a type are lists of items."""
    kinds = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(is_kind(type_) for is_kind in kinds)


def _lists_with(items: pa.Array, lengths: pa.Array) -> npt.NDArray[np.bool_]:
    """bool[n]: which lists have an item that is true. List i has `lengths[i]` of `items`, which have no nulls."""
    has_item = np.zeros(len(lengths), np.bool_)
    bits, numbers = items.buffers()[1], lengths.to_numpy()
    if bits is not None:
        first = bits.address + (items.offset >> 3)
        places = address_of(numbers), numbers.itemsize, len(numbers)
        mark_ranges(first, items.offset & 7, len(items), *places, address_of(has_item))
    return has_item


def _cardinality(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
    return pc.list_value_length(_lists("cardinality", arguments[0])).cast(pa.int64())


def _array_element(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
    """Item n of each list, counted from 1, or from -1 at the end; null where the list has no such item."""
    lists, number = _lists("array_element", arguments[0]), constant_number("array_element", arguments[1])
    items = plain(pc.list_flatten(lists))
    if not number or abs(number) > len(items):
        return pa.nulls(len(lists), items.type)
    # Not the offsets: items that lie below null lists are left out by `list_flatten`.
    lengths = pc.list_value_length(lists).fill_null(0).cast(pa.int64()).to_numpy()
    ends = np.cumsum(lengths)
    places = ends - lengths + (number - 1) if number > 0 else ends + number
    return items.take(pa.array(places, mask=lengths < abs(number)))


def _lists(name: str, operand: Operand) -> pa.Array:
    if not is_list(operand.type) or isinstance(operand, pa.Scalar):
        raise InvalidInputError(f"{name} takes a list column, got {operand.type}")
    return operand


LIST_FUNCTIONS: dict[FunctionName, ScalarFunction] = {
    FunctionName.CARDINALITY: ScalarFunction((), _cardinality, is_strict=False),
    FunctionName.ARRAY_ELEMENT: ScalarFunction((), _array_element, is_strict=False),
}
