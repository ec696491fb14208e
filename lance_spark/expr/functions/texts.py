"""Functions of texts and binaries."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError
from lance_spark.expr.function_names import FunctionName
from lance_spark.expr.functions.base import (
    BYTES,
    TEXT,
    FunctionBody,
    ScalarFunction,
    constant_count,
    constant_number,
    constant_text,
    distinct_mapped,
)
from lance_spark.expr.values import Family, Operand, family_of, null_like

_MOST_BYTES = 1 << 24
"""The longest text that `repeat`, `lpad` and `rpad` make: a filter must not fill the memory."""

_MOST_BYTES_OF_A_BATCH = (1 << 31) - 1
"""What all of them in a batch take at most, as those of texts with offsets of 32 bits do."""


def _case(ascii_case: Callable[[Operand], Operand], unicode_case: Callable[[str], str]) -> FunctionBody:
    def body(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
        text = arguments[0]
        if isinstance(text, pa.Array) and pc.all(pc.string_is_ascii(text)).as_py() is not False:
            return ascii_case(text)
        # Arrow maps character by character; in Spark (and Python) the upper case of one may be two.
        return distinct_mapped(text, unicode_case, text.type)

    return body


def _trimmed(name: str, trim: Callable[..., Operand]) -> FunctionBody:
    def body(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
        # Spark trims blanks only, no tabs or line ends.
        characters = constant_text(name, arguments[1]) if len(arguments) > 1 else " "
        if characters is None:
            return null_like(arguments[0], arguments[0].type)
        return trim(arguments[0], characters=characters) if characters else arguments[0]

    return body


def _concat(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
    # Null as soon as one part is null.
    type_ = _joined_type("concat", arguments)
    return pc.binary_join_element_wise(*(part.cast(type_) for part in arguments), pa.scalar("", type_))


def _concat_ws(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
    # Nulls are left out, with their separators; a null separator makes null.
    type_ = _joined_type("concat_ws", arguments)
    separator = constant_text("concat_ws", arguments[0])
    if separator is None:
        return pa.scalar(None, type_)
    before, nothing = pa.scalar(separator, type_), pa.scalar("", type_)
    # Not Arrow's own `null_handling="skip"`, which loses rows that are null throughout.
    parts = [pc.binary_join_element_wise(before, part.cast(type_), nothing) for part in arguments[1:]]
    joined = pc.binary_join_element_wise(*(pc.fill_null(part, nothing) for part in parts), nothing)
    return _sliced(joined, len(separator), None)


def _joined_type(name: str, arguments: tuple[Operand, ...]) -> pa.DataType:
    # Numbers and dates need a CAST, because Spark and Arrow write them differently.
    for argument in arguments:
        if family_of(argument.type) not in (Family.STRING, Family.NULL):
            raise InvalidInputError(f"{name} takes strings, got {argument.type}; CAST it")
    return pa.large_string() if any(pa.types.is_large_string(part.type) for part in arguments) else pa.string()


def _length(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
    value = arguments[0]
    # Bytes of a binary, characters (code points) of a string.
    length = pc.binary_length(value) if family_of(value.type) is Family.BINARY else pc.utf8_length(value)
    return length.cast(pa.int64())


def _octet_length(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
    return pc.binary_length(arguments[0]).cast(pa.int64())


def _bit_length(arguments: tuple[Operand, ...], time_zone: str) -> Operand:
    return pc.multiply(_octet_length(arguments, time_zone), 8)


def _substring(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
    value, bounds = arguments[0], [_position(argument) for argument in arguments[1:]]
    if None in bounds:
        return null_like(value, value.type)
    return _sliced(value, *substring_bounds(*bounds))  # type: ignore[arg-type]


def _sliced(value: Operand, start: int, stop: int | None) -> Operand:
    """Python's slice of each value."""
    slice_ = pc.binary_slice if family_of(value.type) is Family.BINARY else pc.utf8_slice_codeunits
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


def _position(argument: Operand) -> int | None:
    if not isinstance(argument, pa.Scalar) or family_of(argument.type) is not Family.INTEGER:
        raise InvalidInputError("substring takes constant integers as position and length")
    value: int | None = argument.as_py()
    return value


def _left(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
    count = constant_count("left", arguments[1])
    return null_like(arguments[0], arguments[0].type) if count is None else _sliced(arguments[0], 0, count)


def _right(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
    count = constant_count("right", arguments[1])
    if count is None:
        return null_like(arguments[0], arguments[0].type)
    return _sliced(arguments[0], -count, None) if count else _sliced(arguments[0], 0, 0)


def _padded(name: str, pad: Callable[..., Operand]) -> FunctionBody:
    def body(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
        text, width = arguments[0], constant_count(name, arguments[1])
        filler = constant_text(name, arguments[2]) if len(arguments) > 2 else " "
        if width is None or filler is None:
            return null_like(text, text.type)
        if len(filler) != 1 or width > _MOST_BYTES:
            raise InvalidInputError(f"{name} pads with one character, to {_MOST_BYTES} characters at most")
        # Arrow reserves four bytes for each character, also for an ASCII filler.
        _require_room(name, _num_bytes(text) + _num_values(text) * width * 4)
        return _sliced(pad(text, width=width, padding=filler), 0, width)

    return body


def _require_room(name: str, num_bytes: int) -> None:
    if num_bytes > _MOST_BYTES_OF_A_BATCH:
        raise InvalidInputError(
            f"{name} takes at most {_MOST_BYTES_OF_A_BATCH} bytes for the texts of a batch, not {num_bytes}; "
            "read smaller batches"
        )


def _num_values(value: Operand) -> int:
    return len(value) if isinstance(value, pa.Array) else 1


def _num_bytes(value: Operand) -> int:
    """Bytes of all values."""
    length = pc.binary_length(value)
    return int((length if isinstance(length, pa.Scalar) else pc.sum(length)).as_py() or 0)


def _repeat(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
    text, times = arguments[0], constant_number("repeat", arguments[1])
    if times is None:
        return null_like(text, text.type)
    if times * _longest(text) > _MOST_BYTES:
        raise InvalidInputError(f"repeat makes texts of {_MOST_BYTES} bytes at most")
    _require_room("repeat", times * _num_bytes(text))
    return pc.binary_repeat(text, max(times, 0))


def _reverse(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
    return pc.utf8_reverse(arguments[0])


def _replace(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
    text, old, new = arguments[0], *(constant_text("replace", argument) for argument in arguments[1:])
    if old is None or new is None:
        return null_like(text, text.type)
    if not old:
        raise InvalidInputError("replace takes a text to search for that is not empty")
    return pc.replace_substring(text, old, new)


def _instr(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
    text, part = arguments[0], constant_text("instr", arguments[1])
    if part is None:
        return null_like(text, pa.int64())
    if isinstance(text, pa.Array) and pc.all(pc.string_is_ascii(text)).as_py() is not False:
        return pc.add(pc.find_substring(text, part).cast(pa.int64()), 1)
    # Arrow finds bytes, SQL characters.
    return distinct_mapped(text, lambda value: value.find(part) + 1, pa.int64())


def _split_part(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
    text, separator = arguments[0], constant_text("split_part", arguments[1])
    number = constant_number("split_part", arguments[2])
    if separator is None or number is None:
        return null_like(text, text.type)
    if number == 0:
        raise InvalidInputError("split_part counts from 1, or from -1 at the end")
    place = number - 1 if number > 0 else number

    def part(value: str) -> str:
        parts = value.split(separator) if separator else [value]
        return parts[place] if -len(parts) <= place < len(parts) else ""

    return distinct_mapped(text, part, text.type)


def _regexp_like(arguments: tuple[Operand, ...], _time_zone: str) -> Operand:
    pattern = constant_text("regexp_like", arguments[1])
    flags = constant_text("regexp_like", arguments[2]) if len(arguments) > 2 else ""
    if pattern is None or flags is None:
        return null_like(arguments[0], pa.bool_())
    if flags not in ("", "i"):
        raise InvalidInputError(f"the flags {flags!r} of regexp_like are not supported; 'i' ignores the case")
    try:
        return pc.match_substring_regex(arguments[0], pattern, ignore_case=bool(flags))
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"{pattern!r} is not a regular expression of RE2: {error}") from error


def _regexp_match(arguments: tuple[Operand, ...], time_zone: str) -> Operand:
    # As a condition the reference library asks whether there is a match, which is never NULL.
    if family_of(arguments[0].type) is Family.NULL:
        return pa.scalar(False)
    return pc.fill_null(_regexp_like(arguments, time_zone), False)


TEXT_FUNCTIONS: dict[FunctionName, ScalarFunction] = {
    FunctionName.LOWER: ScalarFunction(TEXT, _case(pc.ascii_lower, str.lower)),
    FunctionName.UPPER: ScalarFunction(TEXT, _case(pc.ascii_upper, str.upper)),
    FunctionName.LENGTH: ScalarFunction(BYTES, _length),
    FunctionName.OCTET_LENGTH: ScalarFunction(BYTES, _octet_length),
    FunctionName.BIT_LENGTH: ScalarFunction(BYTES, _bit_length),
    FunctionName.SUBSTRING: ScalarFunction(BYTES, _substring),
    FunctionName.LEFT: ScalarFunction(TEXT, _left),
    FunctionName.RIGHT: ScalarFunction(TEXT, _right),
    FunctionName.TRIM: ScalarFunction(TEXT, _trimmed("trim", pc.utf8_trim)),
    FunctionName.LTRIM: ScalarFunction(TEXT, _trimmed("ltrim", pc.utf8_ltrim)),
    FunctionName.RTRIM: ScalarFunction(TEXT, _trimmed("rtrim", pc.utf8_rtrim)),
    FunctionName.BTRIM: ScalarFunction(TEXT, _trimmed("btrim", pc.utf8_trim)),
    FunctionName.LPAD: ScalarFunction(TEXT, _padded("lpad", pc.utf8_lpad)),
    FunctionName.RPAD: ScalarFunction(TEXT, _padded("rpad", pc.utf8_rpad)),
    FunctionName.REPEAT: ScalarFunction(TEXT, _repeat),
    FunctionName.REVERSE: ScalarFunction(TEXT, _reverse),
    FunctionName.REPLACE: ScalarFunction(TEXT, _replace),
    FunctionName.INSTR: ScalarFunction(TEXT, _instr),
    FunctionName.SPLIT_PART: ScalarFunction(TEXT, _split_part),
    FunctionName.CONCAT: ScalarFunction(TEXT, _concat),
    FunctionName.CONCAT_WS: ScalarFunction(TEXT, _concat_ws, is_strict=False),
    FunctionName.REGEXP_LIKE: ScalarFunction(TEXT, _regexp_like),
    FunctionName.REGEXP_MATCH: ScalarFunction(TEXT, _regexp_match, is_strict=False),
}
