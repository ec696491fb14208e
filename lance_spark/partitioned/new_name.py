"""The names of tables that are being made.

A plain table, and any table of a catalog that somebody else keeps, has its name reserved before its rows are written;
the name leads to a table from its first version on. A partitioned table of a directory catalog is written first, and
its directory gets the name after the first version. Such a directory has no `.lance` at its end, so listings of the
root do not show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from lance_spark.errors import NotFoundError, UnsupportedFeatureError
from lance_spark.namespace.base import Namespace
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.namespace.directory.places import delete_tables_in
from lance_spark.namespace.external.vended_credentials import merged
from lance_spark.namespace.locations import hashed_directory, location_uri, requested_location
from lance_spark.namespace.object_id import Identifier, object_id
from lance_spark.partitioned.access import find_table
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.partitioned.table import is_partitioned_table
from lance_spark.storage import open_store
from lance_spark.storage.paths import UriOrPath, with_absolute_path
from lance_spark.table.access import located
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.row_level.write_target import remove_late_files


@dataclass(frozen=True, slots=True)
class NewName:
    """A name for a table that is being made.

    Attributes:
        uri: where the table will be.
        location: the directory that gets the name after the table's first version, relative to the root of a directory
            catalog; None: the name is reserved.
        has_own_place: whether the catalog has chosen the place for this table alone; a user's may hold other files.
        is_ours: whether nobody else can have reserved the name, so that it may be taken back.
    """

    names: Namespace
    identifier: Identifier
    uri: str
    storage_options: Mapping[str, str] = field(default_factory=dict)
    location: str | None = None
    has_own_place: bool = True
    is_ours: bool = True

    @classmethod
    def reserve(
        cls,
        names: Namespace,
        identifier: Identifier,
        storage_options: Mapping[str, str],
        *,
        partitioned: bool,
        location: UriOrPath | None = None,
    ) -> NewName:
        """A name for a new table, in an existing namespace.

        Args:
            storage_options: of the store, where the catalog sends none.
            location: where a user wants it; None: the catalog chooses.

        Raises:
            AlreadyExistsError: an object with this name exists.
            NotFoundError: the namespace does not exist.
            InvalidInputError: the location is invalid, or belongs to another table.
        """
        has_own_place = location is None
        if partitioned and isinstance(names, DirectoryNamespace):
            place = (
                hashed_directory(object_id(identifier))
                if location is None
                else requested_location(names.root, location)
            )
            uri = location_uri(names.root, place)
            return cls(names, identifier, uri, dict(storage_options), place, has_own_place)
        entry = names.declare_table(identifier, location=location, properties={})
        options = merged(storage_options, entry.storage_options)
        return cls(
            names,
            identifier,
            entry.uri,
            options,
            has_own_place=has_own_place,
            is_ours=not entry.may_be_anothers,
        )

    def give(self, replaces: str | None = None) -> None:
        """Makes the name lead to the table, whose first version is there.

        Args:
            replaces: URI of the table that has the name until now.

        Raises:
            AlreadyExistsError: another writer was first with the name.
            NotFoundError: the table that is to be replaced no longer exists.
        """
        if self.location is None:
            return
        if replaces is None:
            self.names.declare_table(self.identifier, location=self.location)
        else:
            cast(DirectoryNamespace, self.names).replace_table(self.identifier, replaces, self.location)

    def withdraw(self) -> None:
        """Takes back what a failed statement has reserved, unless there is a table."""
        if not self.is_ours or self._is_made():
            return
        if self.location is None:
            self._release()
        elif self.has_own_place:
            self.delete_files()
            # Tasks that Spark is still killing may make the directory again.
            remove_late_files(f"the table at {self.uri}", self.delete_files)

    def delete_files(self) -> None:
        """Deletes the directory of a table that did not get its name."""
        assert self.location is not None, "a reserved name is released"
        assert self.has_own_place, "others may use a place that a user has chosen"
        root = cast(DirectoryNamespace, self.names).root
        delete_tables_in(open_store(root, self.storage_options), root, self.location, self.storage_options)

    def _is_made(self) -> bool:
        is_plain = TableLocation(self.uri, self.storage_options).latest() is not None
        return is_plain or is_partitioned_table(self.uri, self.storage_options)

    def _release(self) -> None:
        """Frees a reserved name; the job has removed its files."""
        try:
            self.names.drop_table(self.identifier, purge=self.has_own_place)
        except NotFoundError:
            pass
        except UnsupportedFeatureError:
            if not self.has_own_place:
                raise
            self.names.drop_table(self.identifier, purge=False)  # Some catalogs delete no files.


def register(
    names: Namespace, identifier: Identifier, location: UriOrPath, storage_options: Mapping[str, str]
) -> tuple[Dataset | PartitionedDataset, str]:
    """Gives a table that is there a name; returns its newest version, and its place.

    Args:
        location: as the catalog takes it.
        storage_options: of the store, where the catalog sends none.

    Raises:
        AlreadyExistsError: an object with this name exists.
        NotFoundError: the namespace does not exist, or there is no table at the location.
    """
    if isinstance(names, DirectoryNamespace):
        uri = location_uri(names.root, requested_location(names.root, location))
        found = find_table(located(uri, storage_options))
        if found is None:
            raise NotFoundError(f"there is no Lance table at {with_absolute_path(uri)}")
        names.register_table(identifier, location)
        return found, uri
    entry = names.register_table(identifier, location)
    found = find_table(located(entry.uri, merged(storage_options, entry.storage_options)))
    if found is None:
        names.deregister_table(identifier)
        raise NotFoundError(f"there is no Lance table at {entry.uri}; its name was withdrawn")
    return found, entry.uri
