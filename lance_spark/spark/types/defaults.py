"""DEFAULT values of columns: Lance keeps the SQL text in the metadata of the field, and Spark fills the values in.

Spark evaluates the text of a DEFAULT, and a table can come from anywhere. So only literals, and functions for the
current time, are taken and handed over; never a text that could call anything else.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from functools import lru_cache

import pyarrow as pa

from lance_spark.errors import InvalidInputError, LanceError
from lance_spark.expr.literals import Literal

DEFAULT = b"lance-spark:default"
"""Field metadata of a column: the SQL text of its DEFAULT."""

EXISTING_VALUE = b"lance-spark:existing-value"
"""Field metadata of a column that came with a DEFAULT: the value that the rows got that were there, as SQL text."""

CURRENT_DEFAULT = "CURRENT_DEFAULT"
"""Spark's metadata of a column with a DEFAULT."""

_TEXT = r"'[^'\\]*'"
_ALLOWED = re.compile(
    rf"""
      NULL | TRUE | FALSE
    | [+-]? (?: \d+ (?:\.\d*)? | \.\d+ ) (?:E[+-]?\d+)? (?: L | S | Y | F | D | BD )?
    | (?: DATE | TIMESTAMP | TIMESTAMP_NTZ | TIMESTAMP_LTZ | TIME | X )? \s* {_TEXT}
    | (?: CURRENT_TIMESTAMP | CURRENT_DATE ) (?: \s* \( \s* \) )?
    | NOW \s* \( \s* \)
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)

_log = logging.getLogger(__name__)


def checked_default(column: str, text: str) -> str:
    """The SQL text of a DEFAULT that a user gives.

    Raises:
        InvalidInputError: it is something else than a literal or the current time.
    """
    if _ALLOWED.fullmatch(text.strip()) is None:
        raise InvalidInputError(
            f"column {column!r}: DEFAULT {text} cannot be kept; give a literal without quotes or backslashes inside, "
            "current_timestamp(), now() or current_date()"
        )
    return text.strip()


def default_of(column: str, metadata: Mapping[bytes, bytes] | None) -> str | None:
    """The DEFAULT that the metadata of a field has; None if there is none, or one that is not taken."""
    text = (metadata or {}).get(DEFAULT, b"").decode("utf-8", "replace").strip()
    if text and _ALLOWED.fullmatch(text) is None:
        _log.warning("the DEFAULT of column %r is ignored: %r is neither a literal nor the current time", column, text)
        return None
    return text or None


def existing_value_of(column: str, metadata: Mapping[str, bytes], type_: pa.DataType) -> Literal | None:
    """The value that the rows got that were there when a column came; None if the metadata of its field has none, or
    anything else than a constant that a column of this type holds.
    """
    text = metadata.get(EXISTING_VALUE.decode(), b"").decode("utf-8", "replace")
    return _existing_value(column, text, type_) if text else None


@lru_cache(maxsize=64)
def _existing_value(column: str, text: str, type_: pa.DataType) -> Literal | None:
    from lance_spark.expr.assign import constant
    from lance_spark.expr.sql.parse import parse

    try:
        value = parse(text)
        if isinstance(value, Literal):
            constant(value, type_)
            return value
        reason = "it is no constant"
    except LanceError as error:
        reason = str(error)
    _log.warning("the value of column %r in older rows is ignored: %r: %s", column, text, reason)
    return None
