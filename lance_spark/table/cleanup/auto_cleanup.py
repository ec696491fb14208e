"""Cleaning up after commits, for tables whose config asks for it (Lance table configuration, ``lance.auto_cleanup.*``).

=================================  ==========================================================================
``lance.auto_cleanup.interval``    clean up after every version whose number is a multiple of this
``lance.auto_cleanup.older_than``  versions older than this go: ``14days``, ``1h 30m``; two weeks if it is not set
``lance.auto_cleanup.retain_versions``  keeps this many of the newest versions
=================================  ==========================================================================

The files of dropped tables are kept for ``lance.dropped_table_retention``.

>>> parse_duration("1day 12h"), parse_duration("2weeks")
(datetime.timedelta(days=1, seconds=43200), datetime.timedelta(days=14))
>>> parse_retention("7 days"), parse_retention("forever")
(datetime.timedelta(days=7), None)
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from datetime import timedelta

from lance_spark.errors import InvalidInputError, LanceError
from lance_spark.table.cleanup.policy import CleanupPolicy
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.base import OperationKind

_log = logging.getLogger(__name__)

INTERVAL = "lance.auto_cleanup.interval"
OLDER_THAN = "lance.auto_cleanup.older_than"
RETAIN_VERSIONS = "lance.auto_cleanup.retain_versions"

_DAY = 86_400.0
_SECONDS = {
    **dict.fromkeys(("nsec", "ns"), 1e-9),
    **dict.fromkeys(("usec", "us"), 1e-6),
    **dict.fromkeys(("msec", "ms"), 1e-3),
    **dict.fromkeys(("seconds", "second", "sec", "s"), 1.0),
    **dict.fromkeys(("minutes", "minute", "min", "mins", "m"), 60.0),
    **dict.fromkeys(("hours", "hour", "hr", "hrs", "h"), 3600.0),
    **dict.fromkeys(("days", "day", "d"), _DAY),
    **dict.fromkeys(("weeks", "week", "w", "wk", "wks"), 7 * _DAY),
    **dict.fromkeys(("months", "month", "M"), 30.44 * _DAY),
    **dict.fromkeys(("years", "year", "y", "yr", "yrs"), 365.25 * _DAY),
}
_PART = re.compile(r"\s*([0-9]{1,18})\s*([A-Za-z]+)\s*")

DROPPED_TABLE_RETENTION = "lance.dropped_table_retention"
FOREVER = "forever"


def clean_up_after(table: TableLocation, made: Manifest, kind: OperationKind) -> None:
    """Cleans up if the version `made` is one after which the config asks for it. Failures are logged, never raised."""
    try:
        policy = policy_after(made.version, made.config)
        if policy is None:
            return
        from lance_spark.table.cleanup.cleanup import cleanup

        stats = cleanup(table, policy)
    except LanceError as error:
        _log.warning("version %d of %s is committed; cleaning up after it failed: %s", made.version, table.uri, error)
        return
    _log.info("cleaned up after version %d of %s: %s", made.version, table.uri, stats)


def policy_after(version: int, config: Mapping[str, str]) -> CleanupPolicy | None:
    """Clean-up policy after a version; None if the config sets no interval, or the version is no multiple of it.

    Raises:
        InvalidInputError: an entry of the config is invalid.
    """
    interval = _number(config, INTERVAL)
    if interval is None or version % interval:
        return None
    older_than = config.get(OLDER_THAN)
    return CleanupPolicy(
        older_than=None if older_than is None else parse_duration(older_than),
        keep_versions=_number(config, RETAIN_VERSIONS),
        error_if_tagged_old_versions=False,
    )


def parse_duration(text: str) -> timedelta:
    """The time that a text such as ``14days`` or ``1h 30m`` stands for.

    Raises:
        InvalidInputError: it stands for none.
    """
    seconds, end = 0.0, 0
    while end < len(text) or not text:
        part = _PART.match(text, end)
        if part is None or part[2] not in _SECONDS:
            raise InvalidInputError(f"{text!r} is no length of time; write it like 14days or 1h 30m")
        seconds += int(part[1]) * _SECONDS[part[2]]
        end = part.end()
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        raise InvalidInputError(f"{text!r} is too long a time") from None


def _number(config: Mapping[str, str], key: str) -> int | None:
    text = config.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 18 or int(text) == 0:
        raise InvalidInputError(f"{key} is {text!r}, which is no positive number")
    return int(text)


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
