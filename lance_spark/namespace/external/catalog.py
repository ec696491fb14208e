"""Catalogs of other formats that keep names and locations of Lance tables beside their own: Glue, Hive, Iceberg REST,
Polaris, Unity.

Versions are committed by the object store, as everywhere; such a catalog is asked for a name and a place. A catalog
fills in the methods of `ExternalCatalog` that are abstract there.
"""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from lance_spark.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotEmptyError,
    NotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_spark.namespace.base import Namespace, TableEntry
from lance_spark.namespace.directory.catalog_table import has_table
from lance_spark.namespace.directory.places import delete_tables_in
from lance_spark.namespace.object_id import Identifier, checked, format_identifier
from lance_spark.storage import open_store
from lance_spark.storage.paths import UriOrPath, absolute_uri, below, parse_root, split_object, uri_text
from lance_spark.table.location import TableLocation
from lance_spark.table.paths import TREE, VERSIONS

TABLE_TYPE = "table_type"
"""The property of a table in a catalog that says its format; "lance" in any case for ours."""

_OWN_FOLDERS = (f"{TREE}/", "_mem_wal/")
"""Folders of a table in which tables of its own lie: branches, and rows that are not merged yet."""

CREATION = "lance_spark.creation"
"""The property of a new table with a random value, by which its creator knows it if the reply got lost: two writers of
one name may ask for the same place.
"""


class Kind(Enum):
    """The kind of an object in a namespace."""

    TABLE = "a Lance table"
    VIEW = "a view of ours"
    OTHER = "an object of another format"


@dataclass(frozen=True, slots=True)
class CatalogedTable:
    """A table as the catalog describes it.

    Attributes:
        location: as the catalog writes it; empty if it says none.
        table_format: what the catalog says of its format; "lance" in any case for a Lance table.
        properties: of the table in the catalog, without those that the catalog adds.
        storage_options: credentials and endpoint, if the catalog sends them.
        creation: the value of `CREATION`; empty if its creator gave none.
        is_view: whether it is a view of ours instead.
    """

    location: str
    table_format: str
    properties: Mapping[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, str] = field(default_factory=dict)
    creation: str = ""
    is_view: bool = False

    @property
    def kind(self) -> Kind:
        """Whether it is one of our tables or views."""
        if self.is_view:
            return Kind.VIEW
        return Kind.TABLE if self.table_format.lower() == "lance" else Kind.OTHER

    @property
    def is_lance(self) -> bool:
        """Whether it is a Lance table."""
        return self.kind is Kind.TABLE


class ExternalCatalog(Namespace):
    """The Lance tables of a catalog that has tables of other formats too.

    Args:
        description: of the catalog, for messages.
        parent: the levels above the root of this catalog, which stand before each name.
        storage_options: of the store, where the catalog sends none.

    Attributes:
        folds_case: whether the catalog keeps names in lower case, and finds them by any.
    """

    folds_case = False

    def __init__(
        self, description: str, parent: Identifier = (), storage_options: Mapping[str, str] | None = None
    ) -> None:
        self.description = description
        self._parent = checked(parent) if parent else ()
        self._storage_options = dict(storage_options or {})

    # What a catalog fills in. Paths and identifiers are full: they begin with the levels of `parent`. Errors of the
    # client are translated by the catalog.

    @abstractmethod
    def child_namespaces(self, parent: Identifier) -> Iterable[str]:
        """The last names of the namespaces directly in `parent`, of all pages.

        Raises:
            NotFoundError: there is no such namespace.
        """

    @abstractmethod
    def describe_namespace(self, path: Identifier) -> Mapping[str, str]:
        """The properties of a namespace; `path` is never empty.

        Raises:
            NotFoundError: there is no such namespace.
        """

    @abstractmethod
    def add_namespace(self, path: Identifier, properties: Mapping[str, str]) -> None:
        """Creates a namespace.

        Raises:
            AlreadyExistsError: it exists.
            NotFoundError: its parent does not exist.
            InvalidInputError: the catalog cannot keep the name, or has no namespaces at this level.
        """

    @abstractmethod
    def remove_namespace(self, path: Identifier) -> None:
        """Removes a namespace without content. Raises `NotFoundError`, `NotEmptyError`."""

    @abstractmethod
    def child_tables(self, namespace: Identifier) -> Iterable[tuple[str, Kind]]:
        """The last name and the kind of each table and view directly in a namespace, of all pages.

        Raises:
            NotFoundError: there is no such namespace.
        """

    @abstractmethod
    def describe_table(self, identifier: Identifier) -> CatalogedTable:
        """A table or view of any format.

        Raises:
            NotFoundError: there is none; a name that cannot be that of a table is none.
        """

    @abstractmethod
    def add_table(
        self, identifier: Identifier, location: str, properties: Mapping[str, str]
    ) -> Mapping[str, str] | None:
        """Adds a Lance table; returns storage options for its location if the catalog sends any.

        Raises:
            AlreadyExistsError: an object with this name exists.
            NotFoundError: the namespace does not exist.
            InvalidInputError: the catalog cannot keep the name, or has no tables at this level.
        """

    @abstractmethod
    def remove_table(self, identifier: Identifier) -> None:
        """Removes the entry of a table; its files stay. Raises `NotFoundError`."""

    @abstractmethod
    def default_location(self, identifier: Identifier) -> str:
        """The URI where a new table of this name lies if nobody says otherwise.

        Raises:
            InvalidInputError: neither the catalog nor its settings say where tables lie.
            NotFoundError: the namespace does not exist.
        """

    def move_table(self, old: Identifier, new: Identifier) -> None:
        """Renames a table, whose files stay where they are. Raises as `rename_table`."""
        raise UnsupportedFeatureError(
            f"{self.description} cannot rename a table; DROP it without PURGE, and register its location under the new "
            "name",
            feature="RENAME TABLE",
        )

    def remove_view(self, identifier: Identifier) -> None:
        """Removes a view of ours. Raises `NotFoundError`, also for one of others."""
        super().drop_view(identifier)

    def alter_namespace(self, path: Identifier, updates: Mapping[str, str | None]) -> None:
        """Changes properties of a namespace; None removes one. Raises as `set_namespace_properties`."""
        super().set_namespace_properties(path, updates)

    # The protocol.

    def list_namespaces(self, parent: Identifier = ()) -> list[str]:
        return sorted(self.child_namespaces(self._full(parent)))

    def namespace_exists(self, path: Identifier) -> bool:
        if not path:
            return True
        try:
            self.describe_namespace(self._full(path))
        except NotFoundError:
            return False
        return True

    def namespace_properties(self, path: Identifier) -> Mapping[str, str]:
        return self.describe_namespace(self._full(path)) if path else {}

    def create_namespace(self, path: Identifier, properties: Mapping[str, str] | None = None) -> None:
        self.add_namespace(self._full(checked(path)), dict(properties or {}))

    def set_namespace_properties(self, path: Identifier, updates: Mapping[str, str | None]) -> None:
        if not path:
            raise InvalidInputError(f"the root of {self.description} has no properties")
        self.alter_namespace(self._full(path), updates)

    def drop_namespace(
        self, path: Identifier, *, cascade: bool = False, purge: bool = False, keep_external: bool = False
    ) -> None:
        """Removes a namespace; with `cascade` its Lance tables and views too. Files of tables stay: they are external.

        Raises:
            NotFoundError: there is no such namespace.
            NotEmptyError: it is not empty and `cascade` is False, or it holds objects of other formats.
            InvalidInputError: the root.
        """
        if not path:
            raise InvalidInputError(f"the root of {self.description} cannot be dropped")
        full = self._full(path)
        if not cascade and (any(self.child_tables(full)) or any(self.child_namespaces(full))):
            raise NotEmptyError(f"{format_identifier(path)} is not empty; drop its content, or use CASCADE")
        # All is looked at before anything is dropped.
        for namespace, objects in self._content(full):
            for name, kind in objects:
                (self.remove_view if kind is Kind.VIEW else self.remove_table)((*namespace, name))
            self.remove_namespace(namespace)

    def list_tables(self, namespace: Identifier = ()) -> list[str]:
        return sorted(name for name, kind in self.child_tables(self._full(namespace)) if kind is Kind.TABLE)

    def table_exists(self, identifier: Identifier) -> bool:
        try:
            return not self.describe_table(self._full(identifier)).is_view
        except NotFoundError:
            return False

    def table_location(self, identifier: Identifier) -> TableEntry:
        found = self._lance_table(identifier)
        uri, options = self._checked_location(found, identifier), self._options(found.storage_options)
        sent = self.sent_options(identifier, options)
        return TableEntry(uri, found.properties, lambda: not has_table(uri, options), storage_options=sent)

    def declare_table(
        self,
        identifier: Identifier,
        *,
        location: UriOrPath | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> TableEntry:
        full = self._full(checked(identifier))
        if location is None:
            uri = self._free_place(self.default_location(full))
        else:
            uri = absolute_uri(uri_text(location))
            if has_table(uri, self._storage_options):
                raise AlreadyExistsError(f"there is a table at {uri}; CALL system.register_table gives it a name")
        options = self.add_table(full, uri, dict(properties or {}))
        return TableEntry(uri, dict(properties or {}), declared=True, storage_options=self._options(options))

    def register_table(
        self, identifier: Identifier, location: UriOrPath, properties: Mapping[str, str] | None = None
    ) -> TableEntry:
        full, uri = self._full(checked(identifier)), absolute_uri(uri_text(location))
        if not has_table(uri, self._storage_options):
            raise NotFoundError(f"there is no table at {uri}")
        options = self.add_table(full, uri, dict(properties or {}))
        return TableEntry(uri, dict(properties or {}), declared=False, storage_options=self._options(options))

    def drop_table(self, identifier: Identifier, *, purge: bool) -> None:
        """Removes a table from the catalog.

        Args:
            purge: whether to delete everything at its location too, if there is a Lance table.

        Raises:
            NotFoundError: there is no such table.
            InvalidInputError: it is a table of another format; or, with `purge`, another table lies in its folder.
            StorageError: the catalog failed; or the table is dropped and files are left, which the message says.
        """
        found = self._lance_table(identifier)
        if not purge:
            self.remove_table(self._full(identifier))
            return
        uri, options = self._checked_location(found, identifier), self._options(found.storage_options)
        # Before the name goes: a failure leaves the table as it was.
        is_there = has_table(uri, options)
        self._require_alone(identifier, uri, options)
        self.remove_table(self._full(identifier))
        if not is_there:
            return
        root, name = split_object(uri)
        try:
            delete_tables_in(open_store(root, options), root, name, options)
        except StorageError as error:
            raise StorageError(f"the table is dropped, but files of it are left at {uri}: {error}") from error

    def rename_table(self, old: Identifier, new: Identifier) -> None:
        self._lance_table(old)
        self.move_table(self._full(old), self._full(checked(new)))

    def _content(self, full: Identifier) -> list[tuple[Identifier, list[tuple[str, Kind]]]]:
        """The namespaces from `full` on with their tables and views, those inside of others first.

        Raises:
            NotEmptyError: one holds an object of another format.
        """
        objects = list(self.child_tables(full))
        others = [name for name, kind in objects if kind is Kind.OTHER]
        if others:
            raise NotEmptyError(
                f"{format_identifier(full)} holds objects of other formats, such as {min(others)!r}, which are not "
                "dropped from here"
            )
        inside = [item for name in self.child_namespaces(full) for item in self._content((*full, name))]
        return [*inside, (full, objects)]

    def _require_alone(self, identifier: Identifier, uri: str, options: Mapping[str, str]) -> None:
        if TableLocation(uri, options).history.latest_location() is None:
            return  # Nothing is deleted, or a partitioned table, which has tables in its folder.
        inside = {
            folder
            for entry in open_store(uri, options).list("", recursive=True)
            for folder, separator, _ in [entry.path.rpartition(f"/{VERSIONS}/")]
            if separator and not folder.startswith(_OWN_FOLDERS)
        }
        if inside:
            raise InvalidInputError(
                f"{format_identifier(identifier)} is not dropped: another table lies in its folder, at "
                f"{uri}/{min(inside)}; drop it without PURGE"
            )

    def _full(self, path: Identifier) -> Identifier:
        full = (*self._parent, *path)
        return tuple(name.lower() for name in full) if self.folds_case else full

    def _options(self, sent: Mapping[str, str] | None) -> Mapping[str, str]:
        return {**self._storage_options, **(sent or {})}

    def _lance_table(self, identifier: Identifier) -> CatalogedTable:
        found = self.describe_table(self._full(identifier))
        if found.is_view:
            raise NotFoundError(f"{format_identifier(identifier)} of {self.description} is a view, and no table")
        if not found.is_lance:
            kind = f"its format is {found.table_format!r}" if found.table_format else "nothing says its format"
            raise InvalidInputError(f"{format_identifier(identifier)} of {self.description} is no Lance table: {kind}")
        return found

    def _checked_location(self, found: CatalogedTable, identifier: Identifier) -> str:
        """The URI of a table; a catalog may say anything.

        Raises:
            StorageError: it says no place that can be a table's.
        """
        uri = found.location.rstrip("/")
        try:
            if not uri or not (uri.startswith("/") or ":" in uri) or ".." in parse_root(uri).location.split("/"):
                raise InvalidInputError("it is no absolute path or URI")
            return absolute_uri(uri)
        except InvalidInputError as error:
            name = format_identifier(identifier)
            raise StorageError(f"{self.description} says that {name} is at {found.location!r}: {error}") from error

    def _free_place(self, uri: str) -> str:
        """`uri`, or one like it where nothing lies: files of a dropped table may be left at the place of its name."""
        root, name = split_object(uri)
        store = open_store(root, self._storage_options)
        place = name
        while next(iter(store.list(place, recursive=True)), None) is not None:
            stem, dot, suffix = name.rpartition(".")
            place = f"{stem or suffix}_{secrets.token_hex(4)}{dot if stem else ''}{suffix if stem else ''}"
        return below(root, place)
