"""Functions of list columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError
from lance_spark.expr.array_match import is_list
from lance_spark.expr.function_names import FunctionName
from lance_spark.expr.functions.base import ScalarFunction, constant_number
from lance_spark.expr.values import Operand, plain


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
