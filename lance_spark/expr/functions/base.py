"""Base of all scalar functions: their declaration, and constant arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.values import Family, Operand, family_of

FunctionBody: TypeAlias = Callable[[tuple[Operand, ...], str], Operand]
"""The value of the function for its arguments (plain) in the session's time zone."""

TEXT = (Family.STRING,)
BYTES = (Family.STRING, Family.BINARY)


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A scalar function.

    Args:
        accepted: the families of its first argument; empty if the body checks its arguments.
        body: computes it.
        is_strict: the result is NULL where an argument is NULL as a constant without a type.
    """

    accepted: tuple[Family, ...]
    body: FunctionBody
    is_strict: bool = True


def constant_number(name: str, argument: Operand) -> int | None:
    """The whole number that is an argument; None for NULL.

    Raises:
        InvalidInputError: the argument is a column or no whole number.
    """
    value: int | None = _constant(name, argument, Family.INTEGER, "whole number")
    return value


def constant_count(name: str, argument: Operand) -> int | None:
    """`constant_number`, which is not negative: there Spark and the reference library have different results."""
    count = constant_number(name, argument)
    if count is not None and count < 0:
        raise InvalidInputError(f"{name} takes a number >= 0 here, got {count}")
    return count


def constant_text(name: str, argument: Operand) -> str | None:
    """The text that is an argument; None for NULL. Raises as `constant_number`."""
    value: str | None = _constant(name, argument, Family.STRING, "text")
    return value


def _constant(name: str, argument: Operand, family: Family, what: str) -> Any:
    if not isinstance(argument, pa.Scalar) or family_of(argument.type) not in (family, Family.NULL):
        raise InvalidInputError(f"{name} takes a constant {what} here")
    return argument.as_py()


def distinct_mapped(text: Operand, change: Callable[[str], Any], type_: pa.DataType) -> Operand:
    """`change` of each distinct text, as values of `type_`; null for null."""
    if isinstance(text, pa.Scalar):
        return pa.scalar(change(text.as_py()) if text.is_valid else None, type_)
    distinct = text.dictionary_encode()
    return pa.array([change(value) for value in distinct.dictionary.to_pylist()], type_).take(distinct.indices)
