"""Validation of text: it must be encodable as UTF-8.

Python strings may contain lone surrogates (from `json`, broken UTF-16, names of files that are not UTF-8); files of the
format, Arrow and Spark cannot.
"""

from __future__ import annotations

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
