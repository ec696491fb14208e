"""Dropped tables whose files still exist: finds them, and deletes their files.

Each drop is recorded in `.lance-dropped/` of the root: name, directory and time. A record does not prove that the
directory is unused: a directory of a table in the catalog or a listing is never treated as dropped, whatever the
records say. `docs/design/008-clean-up-safety.md` has the rules.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from urllib.parse import quote

from lance_spark.errors import CorruptFileError, InvalidInputError, LanceError, NotFoundError
from lance_spark.namespace.directory.catalog_table import CatalogTable
from lance_spark.namespace.directory.listing import DEREGISTERED_MARKER
from lance_spark.namespace.directory.places import delete_tables_in
from lance_spark.namespace.locations import (
    checked_location,
    is_external,
    listed_name,
    location_uri,
    overlaps,
    requested_location,
)
from lance_spark.namespace.object_id import Identifier
from lance_spark.storage import open_store
from lance_spark.storage.base import ObjectStore, PutResult
from lance_spark.storage.overlap import overlapped
from lance_spark.storage.paths import below, parse_root
from lance_spark.table.base_places import resolved
from lance_spark.table.cleanup.auto_cleanup import DROPPED_TABLE_RETENTION, FOREVER
from lance_spark.table.cleanup.references import detached_versions
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.history import History
from lance_spark.table.paths import VERSIONS, parse_manifest_name
from lance_spark.table.refs.clone_tags import CloneTag, clone_tags, root_of_clone_tag
from lance_spark.table.refs.refs import Refs

RECORDS = ".lance-dropped"
"""The folder of the root with a record of each dropped table."""

_CLAIMS = f"{RECORDS}/claims"
"""The folder with an object for each directory whose files are being deleted."""
_SEARCHES = f"{RECORDS}/searches"
_CLAIM_AGE = timedelta(days=1)
"""The claim of a purge that was killed is taken over after this time."""
_STILL_WRITING = timedelta(hours=1)
"""For how long after a drop statements that had begun before may write to the table."""
_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class DroppedTable:
    """A dropped table whose files still exist.

    Attributes:
        name: its former name.
        location: of its files, relative to the root.
        dropped_at: when it was dropped, in UTC; None if unknown.
        is_recorded: whether this library has dropped it, and not only another one marked its directory.
        retention: the table's property `DROPPED_TABLE_RETENTION` when it was dropped.
    """

    name: Identifier
    location: str
    dropped_at: datetime | None
    is_recorded: bool = False
    retention: str | None = None


@dataclass(frozen=True, slots=True)
class DroppedFiles:
    """The files in the directory of a dropped table.

    Attributes:
        versions: number of manifests, including those of branches and partitions.
    """

    versions: int = 0
    files: int = 0
    num_bytes: int = 0


class DroppedTables:
    """The dropped tables below a root.

    Args:
        live: returns the current locations of all tables; called each time.
    """

    def __init__(
        self, root: str, storage_options: Mapping[str, str] | None, live: Callable[[], frozenset[str]]
    ) -> None:
        self._root = root
        self._options = storage_options
        self._store: ObjectStore = open_store(root, storage_options)
        self._live = live

    def record(self, name: Identifier, location: str, retention: str | None = None) -> None:
        """Records that the table at `location` is about to be dropped; ignores locations outside of the root.

        Args:
            retention: for how long its files are kept; None: as the table and the catalog say.
        """
        if not is_external(location):
            retention = self._retention(location) if retention is None else retention
            now = datetime.now(timezone.utc).isoformat()
            body = {"name": list(name), "location": location, "dropped_at": now}
            body |= {} if retention is None else {"retention": retention}
            self._store.put(_record_path(location), json.dumps(body).encode())

    def take_back(self, location: str, undo: Callable[[], object]) -> None:
        """Removes the record of a table that has a name again.

        Args:
            undo: takes the name away.

        Raises:
            InvalidInputError: its files are being deleted; `undo` was called.
        """
        if self._is_claimed(location):
            undo()
            raise InvalidInputError(f"the files at {location!r} are being deleted, as those of a dropped table")
        self._store.delete(_record_path(location))

    def begin_search(self, interval: timedelta) -> bool:
        """Whether the last search for tables to remove was this long ago; then another one begins."""
        now = datetime.now(timezone.utc)
        if any(entry.modified is None or now - entry.modified < interval for entry in self._store.list(_SEARCHES)):
            return False
        self._store.put(f"{_SEARCHES}/last", b"")
        return True

    def find(self) -> list[DroppedTable]:
        """All dropped tables with files, ordered by name.

        Raises:
            CorruptFileError: a record is damaged.
        """
        live = self._live()
        by_location = {item.location: item for item in self._marked()}
        for item in self._recorded():
            marked = by_location.get(item.location)
            # Another library may have dropped the table later.
            moments = [mark.dropped_at for mark in (item, marked) if mark is not None and mark.dropped_at is not None]
            by_location[item.location] = replace(item, dropped_at=max(moments, default=None))
        free = [item for item in by_location.values() if not any(overlaps(item.location, other) for other in live)]
        left = overlapped(self._has_files, free, _AT_ONCE)
        return sorted((item for item, has in zip(free, left, strict=True) if has), key=lambda item: item.name)

    def files(self, item: DroppedTable) -> DroppedFiles:
        """The files in the directory of `item`."""
        entries = list(self._store.list(item.location, recursive=True))
        versions = [entry for entry in entries if _manifest_root(entry.path) is not None]
        return DroppedFiles(len(versions), len(entries), sum(entry.size for entry in entries))

    def users(self, item: DroppedTable) -> list[str]:
        """Locations of other tables of this catalog, including dropped ones, that read files of `item`: shallow clones.

        Raises:
            CorruptFileError, UnsupportedFeatureError: a version of another table, which may be a clone, cannot be read.
        """
        return self._users(item, self._bases_of_all())

    def _users(self, item: DroppedTable, bases: Mapping[str, set[str]]) -> list[str]:
        """Users of `item`, from the base paths of all tables of the catalog by location."""
        return sorted(other for other in bases if other != item.location and self._lead_to(bases[other], item.location))

    def _bases_of_all(self) -> dict[str, set[str]]:
        """The base paths of all tables of the catalog, including dropped ones, by location."""
        locations = sorted({*self._live(), *(item.location for item in self.find())})
        return dict(zip(locations, overlapped(self._bases, locations, _AT_ONCE), strict=True))

    def check_no_clones(self, locations: Sequence[str]) -> None:
        """Checks that the tables at `locations` have no tags for shallow clones, except for each other.

        Raises:
            InvalidInputError: one has.
        """
        for location in locations:
            self._check_no_tags(location, locations, "; or drop the table without PURGE")

    def _check_no_tags(self, location: str, purged: Sequence[str], remedy: str = "") -> None:
        """Checks that the table at `location` has no tags for clones but those whose files go with it.

        Args:
            purged: locations of the tables whose files go.
            remedy: what else can be done.
        """
        tags = self._clone_tags(location, purged)
        if not tags:
            return
        uri, tag = tags[0]
        clone = "a shallow clone" if tag.clone is None else f"a shallow clone at {tag.clone!r}"
        others = f" ({len(tags) - 1} more: {', '.join(other.name for _, other in tags[1:])})" if tags[1:] else ""
        raise InvalidInputError(
            f"the tag {tag.name!r} keeps the files at {uri!r} for {clone}{others}; drop that with PURGE, or remove the "
            f"tag, with delete_tag of lance_spark.open({uri!r}), when the clone no longer exists or has files of its "
            f"own only{remedy}"
        )

    def _clone_tags(self, location: str, purged: Sequence[str]) -> list[tuple[str, CloneTag]]:
        """(URI of the table, tag) of the table at `location` and its partitions, for clones whose files stay."""
        store = open_store(location_uri(self._root, location), self._options)
        roots = {root_of_clone_tag(entry.path) for entry in store.list("", recursive=True)}
        tags: list[tuple[str, CloneTag]] = []
        for root in sorted(root for root in roots if root is not None):
            uri = below(store.uri, root) if root else store.uri
            of_table = clone_tags(Refs(open_store(uri, self._options)))
            tags += [(uri, tag) for tag in of_table if not self._goes_too(tag, [location, *purged])]
        return tags

    def _goes_too(self, tag: CloneTag, purged: Sequence[str]) -> bool:
        """Whether the clone of a tag is in one of the directories `purged`."""
        try:
            clone = None if tag.clone is None else requested_location(self._root, tag.clone)
        except LanceError:
            return False  # No place that a table can have.
        return clone is not None and any(f"{clone}/".startswith(f"{location}/") for location in purged)

    def _lead_to(self, bases: Iterable[str], location: str) -> bool:
        """Whether one of the base paths is in the directory `location`, or the other way round."""
        place = parse_root(location_uri(self._root, location))
        roots = map(parse_root, bases)
        return any(
            root.scheme == place.scheme and overlaps(root.location.rstrip("/"), place.location) for root in roots
        )

    def check_unused(self, item: DroppedTable) -> None:
        """Checks that no other table of the catalog reads files of `item`, and that it has no tags for clones.

        Raises:
            InvalidInputError: one does, or there is such a tag.
        """
        users = self.users(item)
        if users:
            raise InvalidInputError(
                f"the files of the dropped table {'.'.join(item.name)!r} at {item.location!r} are read by the table at "
                f"{users[0]!r}, a shallow clone; drop and purge that first, or keep the files"
            )
        self._check_no_tags(item.location, ())

    def purge(self, item: DroppedTable) -> None:
        """Deletes the files of a dropped table.

        Raises:
            InvalidInputError: another table now has its files there, or reads files of it, or it has a tag for a clone.
                Nothing was deleted.
            StorageError: the store failed; some files may remain, and the table is still found.
        """
        self.check_unused(item)
        self._delete(item)

    def removable(self, items: Sequence[DroppedTable]) -> Iterator[DroppedTable]:
        """Dropped tables among `items` that can be purged: nobody else reads their files, they have no tags for clones,
        and nobody has written to them since they were dropped.

        Raises: as `users`.
        """
        bases = self._bases_of_all() if items else {}
        for item in items:
            is_kept = self._users(item, bases) or self._clone_tags(item.location, ())
            if not is_kept and not self._is_written(item):
                yield item

    def purge_unused(self, items: Sequence[DroppedTable], until: float) -> Iterator[DroppedTable]:
        """Deletes the files of the removable ones of `items`; yields them.

        Args:
            until: no further one is begun after this time of `time.monotonic`.

        Raises: as `purge`, except `InvalidInputError`.
        """
        for item in self.removable(items):
            if time.monotonic() > until:
                return
            with suppress(InvalidInputError):  # Somebody gave it a name again, or is deleting it.
                self._delete(item)
                yield item

    def _delete(self, item: DroppedTable) -> None:
        """Deletes the files of `item`, while nobody gives it a name again."""
        claim = self._claim(item)
        try:
            # Whoever gives the directory a name looks for the claim afterwards: one of the two sees the other.
            if not any(item == other for other in self.find()):
                raise InvalidInputError(
                    f"there is a table again at {item.location!r}, or it was dropped again meanwhile; list the dropped "
                    "tables again"
                )
            marker = f"{item.location}/{DEREGISTERED_MARKER}"
            delete_tables_in(self._store, self._root, item.location, self._options, last=[marker])
            self._store.delete(_record_path(item.location))
        finally:
            with suppress(LanceError):
                self._store.delete(claim)

    def _claim(self, item: DroppedTable) -> str:
        """The path of a new claim on the files of `item`.

        Raises:
            InvalidInputError: somebody else is deleting them.
            StorageError: the store did not say whether the claim was made.
        """
        path = _claim_path(item.location)
        if self._store.put_if_absent(path, secrets.token_bytes(16)) is PutResult.CREATED:
            return path
        now = datetime.now(timezone.utc)
        for entry in self._store.list(_CLAIMS):
            if entry.path == path and entry.modified is not None and now - entry.modified > _CLAIM_AGE:
                self._store.delete(path)
                return self._claim(item)
        raise InvalidInputError(
            f"the files at {item.location!r} are being deleted already; if that was stopped, remove {path!r} from the "
            "root of the catalog and repeat it"
        )

    def _is_claimed(self, location: str) -> bool:
        try:
            self._store.size(_claim_path(location))
        except NotFoundError:
            return False
        return True

    def _is_written(self, item: DroppedTable) -> bool:
        """Whether somebody has written to `item` after it was dropped, or it is unknown."""
        assert item.dropped_at is not None, "the drop is recorded"
        latest = item.dropped_at + _STILL_WRITING
        entries = self._store.list(item.location, recursive=True)
        marker = f"{item.location}/{DEREGISTERED_MARKER}"
        return any(entry.path != marker and (entry.modified is None or entry.modified > latest) for entry in entries)

    def _retention(self, location: str) -> str | None:
        """The table's property; the longest one if the table cannot be read."""
        uri = location_uri(self._root, location)
        try:
            manifest = TableLocation(uri, self._options).latest()
            if manifest is None:
                return CatalogTable(uri, self._options).load().properties.get(DROPPED_TABLE_RETENTION)
            return manifest.config.get(DROPPED_TABLE_RETENTION)
        except LanceError:
            return FOREVER

    def _recorded(self) -> Iterator[DroppedTable]:
        paths = [entry.path for entry in self._store.list(RECORDS)]
        for record in overlapped(self._read, paths, _AT_ONCE):
            if record is not None:
                yield record

    def _read(self, path: str) -> DroppedTable | None:
        try:
            data = self._store.read(path).to_pybytes()
        except NotFoundError:
            return None
        try:
            body = json.loads(data)
            name, location = tuple(map(str, body["name"])), checked_location(body["location"])
            retention = body.get("retention")
            moment = datetime.fromisoformat(body["dropped_at"]).astimezone(timezone.utc)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptFileError(f"not a record of a dropped table: {error}", path=path) from error
        if _record_path(location) != path or is_external(location):
            raise CorruptFileError(f"the record of a dropped table is about {location!r}", path=path)
        return DroppedTable(name, location, moment, True, None if retention is None else str(retention))

    def _marked(self) -> Iterator[DroppedTable]:
        """Directories that are hidden from listings by the marker, which other writers create too."""
        for folder in self._store.list_folders(""):
            name = listed_name(folder)
            if name is None:
                continue
            marker = f"{folder}/{DEREGISTERED_MARKER}"
            modified = [entry.modified for entry in self._store.list(folder) if entry.path == marker]
            if modified:
                yield DroppedTable((name,), folder, modified[0])

    def _has_files(self, item: DroppedTable) -> bool:
        marker = f"{item.location}/{DEREGISTERED_MARKER}"
        return any(entry.path != marker for entry in self._store.list(item.location, recursive=True))

    def _bases(self, location: str) -> set[str]:
        """The external roots referenced by any version of a table, its branches and partitions."""
        store = open_store(location_uri(self._root, location), self._options)
        # The manifests of a table are directly below its root, or deeper for branches and partitions.
        roots = {root for entry in store.list("", recursive=True) if (root := _manifest_root(entry.path)) is not None}
        locations: set[str] = set()
        for root in sorted(roots):
            uri = store.uri if not root else below(store.uri, root)
            locations.update(resolved(path, uri) for path in _bases_of(History(open_store(uri, self._options))))
        return locations


def _bases_of(history: History) -> Iterable[str]:
    numbers = [item.version for item in history.locations()] + detached_versions(history.store)
    for number in numbers:
        try:
            yield from (base.path for base in history.load(number).manifest.base_paths)
        except NotFoundError:
            continue  # Cleaned up since the listing.


def _manifest_root(path: str) -> str | None:
    """The root of a manifest's path; None if it is not a manifest."""
    folder, _, name = path.rpartition("/")
    root, _, last = f"/{folder}".rpartition("/")
    if last != VERSIONS or not (name.startswith("d") or parse_manifest_name(name) is not None):
        return None
    return root.removeprefix("/")


def _record_path(location: str) -> str:
    return f"{RECORDS}/{quote(location, safe='')}.json"


def _claim_path(location: str) -> str:
    return f"{_CLAIMS}/{quote(location, safe='')}"
