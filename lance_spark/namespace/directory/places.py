"""The directories of a namespace's tables: looks them up, chooses, reserves, hides and deletes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType

from lance_spark.errors import LanceError, StorageError
from lance_spark.namespace.base import TableEntry
from lance_spark.namespace.directory.catalog_rows import CatalogRows
from lance_spark.namespace.directory.guards import exists, require_unshared
from lance_spark.namespace.directory.listing import DEREGISTERED_MARKER, DirectoryListing, DirectoryState
from lance_spark.namespace.locations import hashed_directory, is_external, listed_directory, listed_name, location_uri
from lance_spark.namespace.object_id import Identifier, object_id
from lance_spark.storage import open_manifest_table, open_store
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.deletion import delete_folder
from lance_spark.storage.paths import below
from lance_spark.table.location import TableLocation
from lance_spark.table.paths import VERSIONS
from lance_spark.table.refs.clone_tags import tags_for_clone
from lance_spark.table.refs.tagging import delete_tag


@dataclass(frozen=True, slots=True)
class LocatedTable:
    """A table of a catalog: its checked location, and its properties if it has a row."""

    location: str
    properties: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    in_catalog: bool = False


@dataclass(slots=True)
class Place:
    """The location of a table that is being declared.

    Attributes:
        location: None until it is chosen.
        is_reserved: whether our marker exists.
    """

    location: str | None
    is_reserved: bool = False

    def required(self) -> str:
        if self.location is None:
            raise AssertionError("a committed table has a location")
        return self.location


class TableDirectories:
    """The directories below a root.

    Args:
        root: its URI.
    """

    def __init__(self, root: str, storage_options: Mapping[str, str] | None) -> None:
        self._root = root
        self._options = storage_options
        self._store = open_store(root, storage_options)
        self.listing = DirectoryListing(self._store)

    def entry(self, location: str, properties: Mapping[str, str]) -> TableEntry:
        uri = location_uri(self._root, location)
        return TableEntry(
            uri, dict(properties), lambda: TableLocation(uri, self._options).history.latest_location() is None
        )

    def is_listed(self, identifier: Identifier, rows: CatalogRows) -> bool:
        """Whether a directory without a row is a table with this name."""
        directory = listed_directory(identifier[0]) if len(identifier) == 1 else None
        if directory is None or any(entry.location == directory for entry in rows.tables_at(directory)):
            return False
        return self.listing.state(identifier[0]) is DirectoryState.TABLE

    def listed_alike(self, name: str, *, versions_only: bool = False) -> list[str]:
        """Names of tables that have a directory in the root and differ from `name` at most in case.

        Args:
            versions_only: whether to skip tables without a version, which are about to be created.
        """
        names = []
        for other in self.listing.alike(name):
            directory = listed_directory(other)
            if directory is not None and not (versions_only and self.entry(directory, {}).is_declared):
                names.append(other)
        return names

    def reserve(self, place: Place, identifier: Identifier, rows: CatalogRows) -> None:
        """The first time, chooses a directory for a new table and creates a marker; later only checks it."""
        if place.location is not None:
            require_unshared(rows, [place.location])
        if place.is_reserved:
            return
        if self.is_listed(identifier, rows):
            raise exists(identifier)
        if place.location is not None:
            if not is_external(place.location):
                place.is_reserved = self.listing.reserve(place.location)
            return
        directory = listed_directory(identifier[0]) if len(identifier) == 1 else None
        is_free = directory is not None and self.listing.state(identifier[0]) is DirectoryState.FREE
        if directory is not None and is_free and not rows.tables_at(directory):
            if not self.listing.reserve(directory):
                raise exists(identifier)
            place.location, place.is_reserved = directory, True
            return
        while not place.is_reserved:
            location = hashed_directory(object_id(identifier))
            place.is_reserved = self.listing.reserve(location)
            place.location = location

    def hide(self, locations: Iterable[str]) -> list[str]:
        """Hides directories that a listing of the root contains; returns those newly hidden."""
        hidden = []
        for location in locations:
            name = listed_name(location)
            if name is not None and self.listing.state(name) is DirectoryState.TABLE:
                self.listing.hide(location)
                hidden.append(location)
        return hidden

    def delete(self, locations: Iterable[str]) -> None:
        """Deletes the files of tables that are no longer in the catalog."""
        for location in locations:
            try:
                marker = f"{location}/{DEREGISTERED_MARKER}"
                delete_tables_in(self._store, self._root, location, self._options, last=[marker])
            except StorageError as error:
                raise StorageError(
                    f"the table is dropped, but files of it are left in {location!r}: {error}"
                ) from error


def delete_tables_in(
    store: ObjectStore,
    root: str,
    location: str,
    storage_options: Mapping[str, str] | None,
    *,
    last: Iterable[str] = (),
) -> None:
    """Deletes everything in a directory, and the entries of its tables in an external manifest store.

    Branches and the partitions of a partitioned table are in the directory too, and have separate entries. If the table
    is a shallow clone, the tags that keep versions of other tables for it go too.

    Args:
        store: the store of the root.
        root: its URI, the key of the entries.
        location: the directory, relative to the root.
        last: objects to delete after all others.

    Raises:
        StorageError: the store or the service failed; something may remain.
    """
    tags = tags_for_clone(TableLocation(below(root, location), storage_options))
    # First: a new table in this directory must not start with entries of deleted versions.
    if open_manifest_table(root, storage_options) is not None:
        for table in {location, *_roots_of_versions(store, location)}:
            entries = open_manifest_table(below(root, table), storage_options)
            if entries is not None:
                entries.clear()
    delete_folder(store, location, last=last)
    for other, name in tags:
        # A tag that is left keeps files that nobody needs, and can be removed by hand.
        with suppress(LanceError):
            delete_tag(other, name)


def _roots_of_versions(store: ObjectStore, location: str) -> Iterator[str]:
    """The directories below `location` that have manifests."""
    for entry in store.list(location, recursive=True):
        folder, separator, _name = entry.path.rpartition(f"/{VERSIONS}/")
        if separator:
            yield folder
