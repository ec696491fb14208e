"""String, number, date, time, interval and binary literals of SQL.

Strings are in single or double quotes with backslash escapes (`\\n`, `\\'`, `\\u0041`, `\\101`; a doubled quote is
one quote), or raw after an R. As in Spark, `5` is an integer, `5.0` a decimal and `5e0` a double; a suffix sets
another type: `5L` bigint, `5S` smallint, `5Y` tinyint, `5D` double, `5F` float, `5BD` decimal.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.datetime_text import parse_date, parse_time, parse_timestamp
from lance_spark.expr.literals import (
    EXACT,
    Literal,
    decimal_literal,
    duration_literal,
    literal,
    time_literal,
    timestamp_literal,
)

STRING = re.compile(
    r"""(?:[rR](?:'[^']*'|"[^"]*")|"""
    r"""'[^'\\]*(?:(?:\\.|'')[^'\\]*)*'(?!')|"[^"\\]*(?:(?:\\.|"")[^"\\]*)*"(?!"))""",
    re.DOTALL,
)
"""A string literal with its quotes."""

NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:[bB][dD]|[LSYFDlsyfd])?")
"""A number literal without sign."""

_BIGINT = pa.int64()

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_CONTROLS = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def read_string(text: str) -> str:
    """The value of a `STRING` (Spark's `unescapeSQLString`). `\\%` and `\\_` stay escaped, for LIKE.

    Raises:
        InvalidInputError: an escape of half a surrogate pair, or of an invalid code point.
    """
    if text[0] in "rR":
        return text[2:-1]
    quote, inner = text[0], text[1:-1]
    if "\\" not in inner and quote not in inner:
        return inner
    pieces = re.split(r"(\\.)", inner, flags=re.DOTALL)
    # A doubled quote is one quote, unless the first of the two is escaped by a backslash.
    doubled = "".join(piece if index % 2 else piece.replace(quote * 2, quote) for index, piece in enumerate(pieces))
    return _ESCAPE.sub(_escaped_character, doubled)


def _escaped_character(match: re.Match[str]) -> str:
    four, eight, octal, single = match.groups()
    if octal:
        return chr(int(octal, 8))
    if single:
        return _CONTROLS.get(single, match[0] if single in "%_" else single)
    code = int(four or eight, 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise InvalidInputError(f"{match[0]} is no character")
    return chr(code)


def read_number(text: str) -> Literal | None:
    """The literal of a number with its sign and suffix; None if it does not fit the type of the suffix."""
    if len(text) <= 18 and (text.isdecimal() or text.removeprefix("-").isdecimal()):
        return Literal(int(text), _BIGINT)  # Most numbers are.
    digits = text.upper()
    for suffix, make in _NUMBER_SUFFIXES.items():
        if digits.endswith(suffix):
            return make(digits.removesuffix(suffix))
    return _plain_number(digits)


def _plain_number(digits: str) -> Literal | None:
    if "E" in digits:
        return _double(digits)
    return _decimal(digits) if "." in digits else literal(int(digits)) if len(digits) <= 77 else None


def _double(digits: str) -> Literal | None:
    value = float(digits)
    return None if value in (float("inf"), float("-inf")) else literal(value)


def _float(digits: str) -> Literal | None:
    # Rounded once from the text, as in Java, not through a double.
    value = pa.array([digits]).cast(pa.float32())[0].as_py()
    return None if value in (float("inf"), float("-inf")) else Literal(value, pa.float32())


def _decimal(digits: str) -> Literal | None:
    try:
        return decimal_literal(decimal.Decimal(digits))
    except (InvalidInputError, decimal.InvalidOperation):
        return None


def _integer(bits: int) -> Callable[[str], Literal | None]:
    def make(digits: str) -> Literal | None:
        if not digits.lstrip("-").isdecimal() or len(digits) > 20:
            return None
        return literal(int(digits)) if -(2 ** (bits - 1)) <= int(digits) < 2 ** (bits - 1) else None

    return make


_NUMBER_SUFFIXES: dict[str, Callable[[str], Literal | None]] = {
    "BD": _decimal,
    "D": _double,
    "F": _float,
    "L": _integer(64),
    "S": _integer(16),
    "Y": _integer(8),
}


def read_typed(word: str, text: str, time_zone: str) -> Literal | None:
    """The literal `word 'text'`, where word is one of `TYPED_LITERALS`; None if the text is invalid."""
    try:
        return TYPED_LITERALS[word](text, time_zone)
    except InvalidInputError:
        # Beyond the range of its type.
        return None


def _date(text: str, _time_zone: str) -> Literal | None:
    days = parse_date(text)
    return None if days is None or abs(days) >= 2**31 else Literal(days, pa.date32())


def _timestamp(text: str, time_zone: str) -> Literal | None:
    parsed = parse_timestamp(text, time_zone)
    return None if parsed is None else timestamp_literal(parsed.nanos, has_zone=True)


def _timestamp_ntz(text: str, _time_zone: str) -> Literal | None:
    parsed = parse_timestamp(text, "UTC")
    return None if parsed is None else timestamp_literal(parsed.local_nanos, has_zone=False)


def _time(text: str, _time_zone: str) -> Literal | None:
    nanos = parse_time(text)
    return None if nanos is None else time_literal(nanos)


def _binary(text: str, _time_zone: str) -> Literal | None:
    if not all(digit in "0123456789abcdefABCDEF" for digit in text):
        return None
    return literal(bytes.fromhex(text.rjust(len(text) + len(text) % 2, "0")))


TYPED_LITERALS: dict[str, Callable[[str, str], Literal | None]] = {
    "DATE": _date,
    "TIMESTAMP": _timestamp,
    "TIMESTAMP_LTZ": _timestamp,
    "TIMESTAMP_NTZ": _timestamp_ntz,
    "TIME": _time,
    "X": _binary,
}
"""Keywords of typed literals."""

INTERVAL_UNITS = {"DAY": 86_400, "HOUR": 3_600, "MINUTE": 60, "SECOND": 1}
"""Units of INTERVAL literals in seconds."""

_MOST_DIGITS = 30
"""More digits than any duration has. Python is slow to parse an integer of a million digits."""


def read_interval(text: str, unit: str) -> Literal | None:
    """The duration of `text` units; None if the text is not a number or the duration not in integer nanoseconds.

    Without a unit the text has it, as in ``'7 days'``.
    """
    if not unit:
        text, _, unit = text.strip().rpartition(" ")
        unit = unit.upper().removesuffix("S")
        if unit not in INTERVAL_UNITS:
            return None
    try:
        nanos = EXACT.multiply(EXACT.create_decimal(text.strip()), decimal.Decimal(INTERVAL_UNITS[unit] * 10**9))
        if nanos and nanos.adjusted() > _MOST_DIGITS:
            return None
        return duration_literal(int(nanos)) if nanos == int(nanos) else None
    except (decimal.DecimalException, OverflowError, ValueError):
        # Not a number, too many digits, an infinity or NaN, or (an InvalidInputError) beyond 64 bits.
        return None
