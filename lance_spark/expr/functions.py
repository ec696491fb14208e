"""The scalar functions of a filter, with Spark's semantics."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError
from lance_spark.expr.arithmetic import absolute
from lance_spark.expr.nodes import FunctionName
from lance_spark.expr.temporal import to_local
from lance_spark.expr.values import Family, Operand, family_of, null_like, required_family

FunctionBody = Callable[[tuple[Operand, ...], str], Operand]


def call(name: FunctionName, arguments: tuple[Operand, ...], time_zone: str) -> Operand:
    """The function's value; the arguments are plain. COALESCE is not here: it does not evaluate all of them.

    Raises:
        InvalidInputError: the function does not support the type of an argument.
    """
    families = [required_family(argument, name.value) for argument in arguments]
    accepted = _ACCEPTED[name]
    if families[0] is not Family.NULL and families[0] not in accepted:
        raise InvalidInputError(
            f"{name.value} takes {' or '.join(family.value for family in accepted)}, got {arguments[0].type}"
        )
    if Family.NULL in families:
        return null_like(arguments[0], pa.null())
    return _BODIES[name](arguments, time_zone)


_TEXT = (Family.STRING,)
_DATES = (Family.DATE, Family.TIMESTAMP, Family.TIMESTAMP_NTZ)
_CLOCKS = (Family.TIMESTAMP, Family.TIMESTAMP_NTZ, Family.TIME)

_ACCEPTED: dict[FunctionName, tuple[Family, ...]] = {
    FunctionName.LOWER: _TEXT,
    FunctionName.UPPER: _TEXT,
    FunctionName.TRIM: _TEXT,
    FunctionName.CONCAT: _TEXT,
    FunctionName.LENGTH: (Family.STRING, Family.BINARY),
    FunctionName.SUBSTRING: (Family.STRING, Family.BINARY),
    FunctionName.ABS: (Family.INTEGER, Family.DECIMAL, Family.FLOAT),
    FunctionName.YEAR: _DATES,
    FunctionName.MONTH: _DATES,
    FunctionName.DAY: _DATES,
    FunctionName.HOUR: _CLOCKS,
    FunctionName.MINUTE: _CLOCKS,
    FunctionName.SECOND: _CLOCKS,
}


def _case(ascii_case: Callable[[Operand], Operand], unicode_case: Callable[[str], str]) -> FunctionBody:
    def body(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
        text = arguments[0]
        if isinstance(text, pa.Scalar):
            return pa.scalar(unicode_case(text.as_py()) if text.is_valid else None, text.type)
        if pc.all(pc.string_is_ascii(text)).as_py() is not False:
            return ascii_case(text)
        # Arrow maps character by character; in Spark (and Python) the upper case of one may be two.
        distinct = text.dictionary_encode()
        mapped = [unicode_case(value) for value in distinct.dictionary.to_pylist()]
        return pa.array(mapped, text.type).take(distinct.indices)

    return body


def _trim(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
    # Spark trims blanks only, no tabs or line ends.
    return pc.utf8_trim(arguments[0], characters=" ")


def _concat(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
    # Null as soon as one part is null. Numbers and dates need a CAST, because Spark and Arrow write them differently.
    for argument in arguments:
        if family_of(argument.type) is not Family.STRING:
            raise InvalidInputError(f"concat takes strings, got {argument.type}; CAST it")
    text = pa.large_string() if any(pa.types.is_large_string(part.type) for part in arguments) else pa.string()
    return pc.binary_join_element_wise(*(part.cast(text) for part in arguments), pa.scalar("", text))


def _length(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
    value = arguments[0]
    # Bytes of a binary, characters (code points) of a string.
    length = pc.binary_length(value) if family_of(value.type) is Family.BINARY else pc.utf8_length(value)
    return length.cast(pa.int64())


def _substring(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
    value, bounds = arguments[0], [_constant(argument) for argument in arguments[1:]]
    if None in bounds:
        return null_like(value, value.type)
    slice_ = pc.binary_slice if family_of(value.type) is Family.BINARY else pc.utf8_slice_codeunits
    start, stop = substring_bounds(*bounds)  # type: ignore[arg-type]
    # Arrow computes with these numbers in 64 bits without overflow checks, and `binary_slice` needs a stop.
    longest = _longest(value)
    start, stop = _clamped(start, longest), _clamped(longest if stop is None else stop, longest)
    if stop <= start and (start < 0) == (stop < 0):
        # All results are empty.
        start, stop = 0, 0
    return slice_(value, start=start, stop=stop)


def _longest(value: Operand) -> int:
    """Bytes of the longest value, 0 without values. No string has more characters than bytes."""
    length = pc.binary_length(value)
    return int((length if isinstance(length, pa.Scalar) else pc.max(length)).as_py() or 0)


def _clamped(bound: int, longest: int) -> int:
    """`bound`, or a smaller one with the same result for values of at most `longest` units."""
    return min(max(bound, -longest - 1), longest + 1)


_SPARK_NO_LENGTH = 2**31 - 1
"""Spark's default length; too short for a start before the longest possible value."""


def substring_bounds(position: int, length: int | None = None) -> tuple[int, int | None]:
    """Python's slice bounds for Spark's `substring(value, position, length)`: 1 is the first, -1 the last character.

    >>> substring_bounds(2, 3), substring_bounds(0, 3), substring_bounds(-3, 2), substring_bounds(-3, 3)
    ((1, 4), (0, 3), (-3, -1), (-3, None))
    """
    start = position - 1 if position > 0 else position
    if length is None:
        if start >= -_SPARK_NO_LENGTH:
            return start, None
        length = _SPARK_NO_LENGTH
    stop = start + max(length, 0)
    return start, None if start < 0 <= stop else stop


def _constant(argument: Operand) -> int | None:
    if not isinstance(argument, pa.Scalar) or family_of(argument.type) is not Family.INTEGER:
        raise InvalidInputError("substring takes constant integers as position and length")
    value: int | None = argument.as_py()
    return value


def _absolute(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
    return absolute(arguments[0])


def _part(extract: Callable[[Operand], Operand]) -> FunctionBody:
    def body(arguments: tuple[Operand, ...], time_zone: str) -> Operand:
        value = arguments[0]
        local = to_local(value, time_zone) if family_of(value.type) is Family.TIMESTAMP else value
        return extract(local).cast(pa.int64())

    return body


_BODIES: dict[FunctionName, FunctionBody] = {
    FunctionName.LOWER: _case(pc.ascii_lower, str.lower),
    FunctionName.UPPER: _case(pc.ascii_upper, str.upper),
    FunctionName.TRIM: _trim,
    FunctionName.CONCAT: _concat,
    FunctionName.LENGTH: _length,
    FunctionName.SUBSTRING: _substring,
    FunctionName.ABS: _absolute,
    FunctionName.YEAR: _part(pc.year),
    FunctionName.MONTH: _part(pc.month),
    FunctionName.DAY: _part(pc.day),
    FunctionName.HOUR: _part(pc.hour),
    FunctionName.MINUTE: _part(pc.minute),
    FunctionName.SECOND: _part(pc.second),
}
