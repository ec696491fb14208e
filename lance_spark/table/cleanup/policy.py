"""Policy of a clean-up: the versions and files that it removes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from lance_spark.errors import InvalidInputError
from lance_spark.table.moments import Moment, in_utc

DEFAULT_AGE = timedelta(days=14)
SAFETY_WINDOW = timedelta(days=7)
"""Age up to which a file that no version names may belong to a writer that is still at work."""


@dataclass(frozen=True, slots=True)
class CleanupPolicy:
    """Versions that are removed, and files that no version names.

    A version is removed if it is older than `older_than` and not one of the newest `keep_versions`, as far as these are
    set; if neither is, versions older than two weeks are removed.

    Attributes:
        older_than: an age or a moment; a moment without a zone is local time.
        keep_versions: keeps this many of the newest versions.
        delete_unverified: removes files that no version ever named whatever their age; nobody may be writing then.
        error_if_tagged_old_versions: refuses to clean up if tagged versions would be removed; they stay anyway.
        dry_run: only reports what would be removed.
    """

    older_than: timedelta | Moment | None = None
    keep_versions: int | None = None
    delete_unverified: bool = False
    error_if_tagged_old_versions: bool = True
    dry_run: bool = False

    def __post_init__(self) -> None:
        if self.keep_versions is not None and self.keep_versions < 1:
            raise InvalidInputError(f"{self.keep_versions} versions cannot be kept; the newest one always stays")
        if isinstance(self.older_than, timedelta) and self.older_than < timedelta(0):
            raise InvalidInputError(f"an age of {self.older_than} lies in the future")
        if self.older_than is not None and not isinstance(self.older_than, timedelta):
            in_utc(self.older_than)

    def horizon(self, now: datetime) -> datetime | None:
        """Versions from before this may go; None: whatever their age."""
        if self.older_than is None and self.keep_versions is not None:
            return None
        older_than = DEFAULT_AGE if self.older_than is None else self.older_than
        return ago(now, older_than) if isinstance(older_than, timedelta) else in_utc(older_than)


def ago(now: datetime, age: timedelta) -> datetime:
    """A moment before `now`; the first one that there is, if it is earlier than that."""
    try:
        return now - age
    except OverflowError:
        return datetime.min.replace(tzinfo=timezone.utc)
