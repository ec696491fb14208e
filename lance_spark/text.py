"""Validation of text: it must be encodable as UTF-8. Values for messages and listings.

Python strings may contain lone surrogates (from `json`, broken UTF-16, names of files that are not UTF-8); files of the
format, Arrow and Spark cannot.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import InvalidInputError


def check_text(text: str, what: str) -> str:
    """Validates `text` and returns it.

    Raises:
        InvalidInputError: it contains a lone surrogate.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        place = f"character {error.start + 1} ({ascii(text[error.start])[1:-1]})"
        raise InvalidInputError(f"{what} is no text: {place} is half of a surrogate pair") from error
    return text


def shown_values(values: Iterable[pa.Scalar]) -> list[object]:
    """Values as Python has them; moments of nanoseconds, which Python does not have, as text.

    >>> shown_values([pa.scalar(7), pa.scalar(1, pa.time64("ns"))])
    [7, '00:00:00.000000001']
    """
    return [_shown(value) for value in values]


def _shown(value: pa.Scalar) -> object:
    dtype = value.type
    if (pt.is_timestamp(dtype) or pt.is_time64(dtype)) and dtype.unit == "ns":
        return value.cast(pa.string()).as_py()
    return value.as_py()
