"""Dates, timestamps and times as text, by the rules of Spark's CAST from string.

Accepted: ``[+-]yyyy[-m[-d]]``, then for timestamps ``[ T]h[:m[:s[.fraction]]]`` and a zone (``Z``, ``UTC``,
``+hh[:mm]``, ``GMT+h``, ``Europe/Paris``). Fractions are read to nanoseconds. Values are plain integers counted from
1970-01-01, because Python's `datetime` holds neither nanoseconds nor years beyond 9999.

>>> parse_date("2024-2-1")
19754
>>> parse_timestamp("1970-01-01 01:00:00.5+01:00", "UTC")
ParsedTimestamp(nanos=500000000, local_nanos=3600500000000, has_zone=True)
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass

import numpy as np

from lance_spark.errors import InvalidInputError

NANOS_PER_UNIT = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
NANOS_PER_DAY = 86_400 * 10**9

_DATE = r"(?P<year>[+-]?\d{4,7})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})"
_CLOCK = r"(?P<hour>\d{1,2})(?::(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<fraction>\d*))?)?)?"
_ZONE = r"(?P<zone>Z|(?:UTC|GMT|UT)?[+-]\d{1,2}(?::?\d{2}(?::?\d{2})?)?|[A-Za-z][A-Za-z_/]*(?:[+-]\d+)?)"
_DATE_TEXT = re.compile(rf"\s*{_DATE}(?:[ T].*)?)?)?\s*\Z", re.DOTALL)
_TIMESTAMP_TEXT = re.compile(rf"\s*{_DATE}(?:[ T](?:{_CLOCK}\s*{_ZONE}?)?)?)?)?\s*\Z")
_TIME_TEXT = re.compile(rf"\s*{_CLOCK}\s*\Z")
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?\Z")


@dataclass(frozen=True, slots=True)
class ParsedTimestamp:
    """The instant and the local time of the text, both in nanoseconds since 1970-01-01."""

    nanos: int
    local_nanos: int
    has_zone: bool


def parse_date(text: str) -> int | None:
    """Days since 1970-01-01; None if the text is not a date. A time after the date is ignored, as in Spark."""
    match = _DATE_TEXT.match(text)
    return _days(match) if match else None


def parse_timestamp(text: str, time_zone: str) -> ParsedTimestamp | None:
    """Parses a timestamp; `time_zone` is the default zone. None if the text is not a timestamp."""
    match = _TIMESTAMP_TEXT.match(text)
    days = _days(match) if match else None
    clock = _clock_nanos(match) if match else None
    if match is None or days is None or clock is None:
        return None
    local = days * NANOS_PER_DAY + clock
    offset = _offset_seconds(match["zone"] or time_zone, local)
    return None if offset is None else ParsedTimestamp(local - offset * 10**9, local, match["zone"] is not None)


def parse_time(text: str) -> int | None:
    """Nanoseconds since midnight; None if the text is not a time of day."""
    match = _TIME_TEXT.match(text)
    return _clock_nanos(match) if match and match["minute"] else None


def check_time_zone(zone: str) -> None:
    """Validates a time zone.

    Raises:
        InvalidInputError: no such time zone.
    """
    if zone != "UTC" and _offset_seconds(zone, 0) is None:
        raise InvalidInputError(f"unknown time zone {zone!r}; use UTC, an offset such as +01:00, or a region's name")


def is_utc(zone: str) -> bool:
    """Whether the zone is always equal to UTC."""
    return zone.upper() in ("UTC", "Z", "GMT", "UT", "ETC/UTC", "+00:00", "-00:00")


def format_date(days: int) -> str:
    """`yyyy-mm-dd`; a sign and more digits for years outside 0 to 9999."""
    date = np.datetime64(days, "D")
    year = int(date.astype("M8[Y]").astype(np.int64)) + 1970
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}{str(date)[-6:]}"


def format_timestamp(value: int, unit: str) -> str:
    """`yyyy-mm-ddThh:mm:ss[.fraction]`; nine digits of fraction for nanoseconds, else six or none."""
    days, rest = divmod(value * NANOS_PER_UNIT[unit], NANOS_PER_DAY)
    return f"{format_date(days)}T{format_time(rest // NANOS_PER_UNIT[unit], unit)}"


def format_time(value: int, unit: str) -> str:
    """`hh:mm:ss[.fraction]`; nine digits of fraction for nanoseconds, else six or none."""
    seconds, nanos = divmod(value * NANOS_PER_UNIT[unit], 10**9)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if unit == "ns":
        return f"{clock}.{nanos:09}"
    return f"{clock}.{nanos // 1000:06}" if nanos else clock


def _days(match: re.Match[str]) -> int | None:
    year, month, day = int(match["year"]), int(match["month"] or 1), int(match["day"] or 1)
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return None
    first = (np.datetime64(year - 1970, "Y").astype("M8[M]") + np.timedelta64(month - 1, "M")).astype("M8[D]")
    days = int((first + np.timedelta64(day - 1, "D")).astype(np.int64))
    # A day beyond the end of its month would be in the next one.
    same_month = np.datetime64(days, "D").astype("M8[M]") == first.astype("M8[M]")
    return days if same_month else None


def _clock_nanos(match: re.Match[str]) -> int | None:
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        return None
    fraction = (match["fraction"] or "")[:9].ljust(9, "0")
    return ((hour * 60 + minute) * 60 + second) * 10**9 + int(fraction)


def _offset_seconds(zone: str, local_nanos: int) -> int | None:
    """The UTC offset in seconds at the local time `local_nanos`; None for an unknown zone.

    In an overlap the earlier instant is chosen, and a local time in a gap is shifted forward by the length of the gap:
    both as in `java.time.ZonedDateTime`.
    """
    import zoneinfo

    if is_utc(zone):
        return 0
    offset = _OFFSET.match(zone)
    if offset:
        hours, minutes, seconds = (int(part or 0) for part in offset.groups()[1:])
        total = hours * 3600 + minutes * 60 + seconds
        return None if total > 18 * 3600 else -total if offset[1] == "-" else total
    try:
        region = zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None
    # Outside the years of `datetime` a zone has the offset of the nearest year.
    seconds = min(max(local_nanos // 10**9, -62_135_596_800), 253_402_300_799)
    local = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    ahead = local.replace(tzinfo=region).utcoffset()
    return None if ahead is None else ahead.days * 86_400 + ahead.seconds
