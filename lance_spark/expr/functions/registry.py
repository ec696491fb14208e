"""Calls the scalar functions of a filter by name."""

from __future__ import annotations

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.function_names import FunctionName
from lance_spark.expr.functions.base import ScalarFunction
from lance_spark.expr.functions.lists import LIST_FUNCTIONS
from lance_spark.expr.functions.moments import MOMENT_FUNCTIONS
from lance_spark.expr.functions.numbers import NUMBER_FUNCTIONS
from lance_spark.expr.functions.texts import TEXT_FUNCTIONS
from lance_spark.expr.values import Family, Operand, broadcast_shape, null_like, required_family

_FUNCTIONS: dict[FunctionName, ScalarFunction] = {
    **TEXT_FUNCTIONS,
    **NUMBER_FUNCTIONS,
    **MOMENT_FUNCTIONS,
    **LIST_FUNCTIONS,
}

FALLIBLE = frozenset({FunctionName.ABS, FunctionName.ROUND, FunctionName.FLOOR, FunctionName.CEIL, FunctionName.REPEAT})
"""Functions that fail on some values of the right type."""


def call(name: FunctionName, arguments: tuple[Operand, ...], time_zone: str) -> Operand:
    """The function's value; the arguments are plain. COALESCE and IF are not here: they do not evaluate all of them.

    Raises:
        InvalidInputError: the function does not support the type of an argument, or fails on a value.
    """
    function = _FUNCTIONS[name]
    if function.accepted:
        family = required_family(arguments[0], name.value)
        if family is not Family.NULL and family not in function.accepted:
            accepted = " or ".join(each.value for each in function.accepted)
            raise InvalidInputError(f"{name.value} takes {accepted}, got {arguments[0].type}")
    if function.is_strict and any(required_family(each, name.value) is Family.NULL for each in arguments):
        shape = arguments[0]
        for argument in arguments[1:]:
            shape = broadcast_shape(shape, argument)
        return null_like(shape, pa.null())
    try:
        return function.body(arguments, time_zone)
    except (pa.ArrowInvalid, pa.ArrowCapacityError) as error:
        # Such as texts of a batch that take more than 2 GiB together.
        raise InvalidInputError(f"{name.value} fails: {error}") from error
