"""Ranges of versions: by number or by commit time, with inclusive or exclusive ends."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.table.location import TableLocation
from lance_spark.table.moments import Moment, in_utc, is_moment
from lance_spark.table.paths import is_detached


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The requested versions of a change feed: `first` to `last`, inclusive; none if `last` is below `first`."""

    first: int
    last: int

    @classmethod
    def of(
        cls,
        table: TableLocation,
        start: int | Moment,
        end: int | Moment,
        *,
        from_inclusive: bool = True,
        to_inclusive: bool = True,
    ) -> VersionRange:
        """The versions of the branch `table` from `start` to `end`: versions or commit times.

        Raises:
            InvalidInputError: an invalid version number, or the range ends before it begins.
            NotFoundError: the table was created after the time `end`.
        """
        first = _first_after(table, start, from_inclusive) if is_moment(start) else _number(start)
        last = _last_before(table, end, to_inclusive) if is_moment(end) else _number(end)
        if is_moment(start) and is_moment(end):
            if in_utc(start) > in_utc(end):
                raise InvalidInputError(f"there are no versions from {start} to {end}")
        elif not is_moment(start) and not is_moment(end) and last < first:
            raise InvalidInputError(f"there are no versions from {start} to {end}")
        if not is_moment(start) and not from_inclusive:
            first += 1
        if not is_moment(end) and not to_inclusive:
            last -= 1
        if first < 1:
            raise InvalidInputError(f"{start} is not a version; versions are counted from 1")
        return cls(first, max(last, first - 1))


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0 or is_detached(value):
        raise InvalidInputError(f"{value!r} is no version of a table's history")
    return value


def _first_after(table: TableLocation, moment: Moment, inclusive: bool) -> int:
    """The first version committed after `moment`, or at it; the number of the next version if there is none."""
    try:
        manifest = table.as_of(moment).manifest
    except NotFoundError:
        return min((location.version for location in table.history.locations()), default=1)
    at_it = manifest.timestamp == in_utc(moment)
    return manifest.version if at_it and inclusive else manifest.version + 1


def _last_before(table: TableLocation, moment: Moment, inclusive: bool) -> int:
    manifest = table.as_of(moment).manifest
    at_it = manifest.timestamp == in_utc(moment)
    return manifest.version - 1 if at_it and not inclusive else manifest.version
