"""Retention of dropped tables: after later drops in a catalog, the files of those that were dropped long ago go.

Only what is provably a dropped table of the catalog goes: one with a record of its drop, in a directory that the
catalog chose, which no table uses, no other table reads from, and nobody has written to since.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone

from lance_spark.errors import InvalidInputError, LanceError
from lance_spark.namespace.directory.dropped_tables import DroppedTable, DroppedTables
from lance_spark.namespace.locations import listed_name
from lance_spark.namespace.object_id import format_identifier
from lance_spark.table.cleanup.auto_cleanup import parse_retention

_log = logging.getLogger(__name__)

DEFAULT_RETENTION = timedelta(days=7)

_HASHED = re.compile(r"[0-9a-f]{8}_[A-Za-z0-9_.$-]+")
"""Directories with names that the catalog made up."""

_INTERVAL = timedelta(hours=1)
"""The least time between two searches, which read the versions of all tables."""
_MAX_SECONDS = 60.0
"""For how long the statement that drops a table may remove others; what is left goes later."""


def kept_until(item: DroppedTable, default: timedelta | None) -> datetime | None:
    """When the files of `item` may go; None if they stay until somebody removes them.

    Args:
        default: the retention of a table whose properties say nothing.
    """
    is_chosen = listed_name(item.location) is not None or _HASHED.fullmatch(item.location)
    if item.dropped_at is None or not item.is_recorded or not is_chosen:
        return None
    try:
        retention = default if item.retention is None else parse_retention(item.retention)
        return None if retention is None else item.dropped_at + retention
    except (InvalidInputError, OverflowError):
        return None


def expired(items: Iterable[DroppedTable], default: timedelta | None) -> list[DroppedTable]:
    """The dropped tables among `items` whose retention is over."""
    now = datetime.now(timezone.utc)
    ends = ((item, kept_until(item, default)) for item in items)
    return [item for item, end in ends if end is not None and end <= now]


def remove_expired(dropped: DroppedTables, default: timedelta | None) -> None:
    """Deletes the files of dropped tables whose retention is over.

    Failures are logged, never raised: the statement that calls it has done its own work.
    """
    interval = _INTERVAL if default is None else min(_INTERVAL, default / 24)
    until = time.monotonic() + _MAX_SECONDS
    try:
        if not dropped.begin_search(interval):
            return
        for item in dropped.purge_unused(expired(dropped.find(), default), until):
            _log.info("removed the files of %s, dropped on %s", format_identifier(item.name), item.dropped_at)
    except LanceError as error:
        _log.warning(
            "files of tables that were dropped long ago are left; CALL system.purge(expired => true) removes them: %s",
            error,
        )
