"""The property of a table that says how long its files are kept after it was dropped.

>>> parse_retention("7 days"), parse_retention("forever")
(datetime.timedelta(days=7), None)
"""

from __future__ import annotations

from datetime import timedelta

from lance_spark.errors import InvalidInputError
from lance_spark.table.cleanup.auto_cleanup import parse_duration

DROPPED_TABLE_RETENTION = "lance.dropped_table_retention"
FOREVER = "forever"


def parse_retention(text: str) -> timedelta | None:
    """Parses the retention of dropped tables' files; None: they are kept until somebody removes them.

    Raises:
        InvalidInputError: it is neither a length of time nor `forever`.
    """
    if text.strip().lower() == FOREVER:
        return None
    try:
        return parse_duration(text.strip())
    except InvalidInputError as error:
        raise InvalidInputError(f"{error}, or {FOREVER}") from None
