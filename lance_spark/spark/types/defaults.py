"""DEFAULT values of columns: Lance keeps the SQL text in the metadata of the field, and Spark fills the values in.

Spark evaluates the text of a DEFAULT, and a table can come from anywhere. So only literals, and functions for the
current time, are taken and handed over; never a text that could call anything else.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

from lance_spark.errors import InvalidInputError

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
