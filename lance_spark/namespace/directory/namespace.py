"""A catalog of tables in a folder (Lance directory namespace specification).

Tables and nested namespaces are rows of the table `__manifest` of the root. In addition, a directory ``<name>.lance``
directly below the root is a table of the root namespace, unless a row of `__manifest` has that name or that directory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType

from lance_spark.errors import (
    AlreadyExistsError,
    CommitStateUnknownError,
    CorruptFileError,
    InvalidInputError,
    LanceError,
    NotEmptyError,
    NotFoundError,
)
from lance_spark.expr.nodes import And, Expr, Or
from lance_spark.namespace.base import TableEntry
from lance_spark.namespace.directory.catalog_rows import (
    LOCATION,
    METADATA,
    NAMESPACE,
    OBJECT_ID,
    OBJECT_TYPE,
    TABLE,
    CatalogEntry,
    CatalogRows,
    checked_properties,
    only,
    properties_to_json,
)
from lance_spark.namespace.directory.catalog_table import (
    MANAGED_VERSIONS,
    RESERVED_PROPERTIES,
    CatalogTable,
    CatalogVersion,
    Edit,
    equals,
    has_table,
    refuse_managed_versions,
    starts_with,
)
from lance_spark.namespace.directory.dropped_tables import DroppedTables
from lance_spark.namespace.directory.guards import (
    exists,
    needs_catalog,
    no_namespace,
    no_table,
    removable_content,
    require_distinct,
    require_free,
    require_inside,
    require_namespaces,
    require_same,
    require_unshared,
)
from lance_spark.namespace.directory.listing import DirectoryState
from lance_spark.namespace.directory.places import LocatedTable, Place, TableDirectories
from lance_spark.namespace.directory.views import DirectoryViews
from lance_spark.namespace.locations import (
    checked_location,
    is_external,
    listed_directory,
    listed_name,
    location_uri,
    requested_location,
)
from lance_spark.namespace.object_id import (
    Identifier,
    checked,
    child_names,
    format_identifier,
    identifier_of,
    is_findable,
    object_id,
    prefix_of,
)
from lance_spark.storage.paths import UriOrPath, absolute_uri, uri_text
from lance_spark.table.cleanup.auto_cleanup import FOREVER


class DirectoryNamespace(DirectoryViews):
    """The tables and namespaces below a root. Nothing is cached between calls: each sees the newest version.

    Identifiers are paths of names from the root, ``("sales", "orders")``; ``()`` is the root namespace. All methods
    raise `UnsupportedFeatureError` if the catalog needs a feature that this release does not support, and
    `CorruptFileError` if it violates the format. Methods that change something raise `CommitConflictError` if all
    attempts lost against other writers, and `CommitStateUnknownError` if it is unknown whether the change was made.

    Attributes:
        dropped: the dropped tables whose files still exist.

    Args:
        root: a local path or a URI; it need not exist.
        storage_options: credentials and endpoints.
        manifest: False for directories only: one level, no namespaces, no properties.
        distinct_when_folded: whether to reject new names that differ from an existing one only in case. Names in rows
            of the catalog are compared in the commit that adds the name, so of two such writers only one can succeed;
            directories of tables without a row are compared before it.
    """

    def __init__(
        self,
        root: UriOrPath,
        storage_options: Mapping[str, str] | None = None,
        *,
        manifest: bool = True,
        distinct_when_folded: bool = False,
    ) -> None:
        self._distinct_when_folded = distinct_when_folded
        self.root = self.description = absolute_uri(uri_text(root))
        self._storage_options = storage_options
        self._directories = TableDirectories(self.root, storage_options)
        self._catalog = CatalogTable(self.root, storage_options) if manifest else None
        self.dropped = DroppedTables(self.root, storage_options, self.live_locations)

    def list_namespaces(self, parent: Identifier = ()) -> list[str]:
        """Names of the namespaces directly in `parent`, sorted.

        Raises:
            NotFoundError: there is no such namespace.
        """
        children = self._children(self._load(), parent, NAMESPACE)
        return sorted(child_names(children, parent))

    def namespace_exists(self, path: Identifier) -> bool:
        """Whether there is such a namespace; the root always exists."""
        return not path or self._namespace(self._load(), path) is not None

    def namespace_properties(self, path: Identifier) -> Mapping[str, str]:
        """The properties of a namespace.

        Raises:
            NotFoundError: there is no such namespace.
        """
        version = self._load()
        if not path:
            return MappingProxyType(dict(version.properties))
        entry = self._namespace(version, path)
        if entry is None:
            raise no_namespace(path)
        return entry.properties

    def create_namespace(
        self, path: Identifier, properties: Mapping[str, str] | None = None, *, exist_ok: bool = False
    ) -> None:
        """Creates a namespace in an existing one.

        Args:
            exist_ok: whether an existing namespace is left unchanged instead of raising an error.

        Raises:
            AlreadyExistsError: an object with this name exists.
            NotFoundError: the parent namespace does not exist.
        """
        if not path and exist_ok:
            return
        if not path:
            raise AlreadyExistsError("the root namespace always exists")
        path, properties = checked(path), checked_properties(properties)
        entry = CatalogEntry(object_id(path), NAMESPACE, None, properties_to_json(properties))

        def edit(rows: CatalogRows) -> CatalogRows | None:
            existing = rows.find(entry.object_id)
            if existing is not None and existing.kind == NAMESPACE and exist_ok:
                return None
            self._require_new(rows, path)
            if self._directories.is_listed(path, rows):
                raise exists(path)
            return rows.added([entry])

        self._require_catalog().change(edit)

    def set_namespace_properties(self, path: Identifier, updates: Mapping[str, str | None]) -> None:
        """Changes some properties of a namespace; None removes one.

        Raises:
            NotFoundError: there is no such namespace.
            InvalidInputError: a property is not a string, or is reserved for the catalog.
        """
        checked_properties({key: "" if value is None else value for key, value in updates.items()})
        if not path:
            reserved = [key for key in updates if key.startswith(RESERVED_PROPERTIES) or key == MANAGED_VERSIONS]
            if reserved:
                raise InvalidInputError(f"property {reserved[0]!r} is the catalog's own")
            self._require_catalog().change_properties(updates)
            return

        def edit(rows: CatalogRows) -> CatalogRows:
            entry = rows.find(object_id(path)) if is_findable(path) else None
            if entry is None or entry.kind != NAMESPACE:
                raise no_namespace(path)
            changed = {**entry.properties, **updates}
            remaining = {key: value for key, value in changed.items() if value is not None}
            return rows.with_properties(entry.object_id, remaining)

        self._require_catalog().change(edit)

    def drop_namespace(
        self, path: Identifier, *, cascade: bool = False, purge: bool = False, keep_external: bool = False
    ) -> None:
        """Removes a namespace.

        Args:
            cascade: whether to remove its content too.
            purge: whether to delete the files of its tables; otherwise they are kept.
            keep_external: whether `purge` keeps the files of tables outside of the root.

        Raises:
            NotFoundError: there is no such namespace.
            NotEmptyError: it is not empty, and `cascade` is False.
            InvalidInputError: the root namespace; or files to delete are outside of the root, belong to a table of
                another namespace too, or have a tag for a shallow clone.
            UnsupportedFeatureError: it contains an object of an unknown type.
        """
        if not path:
            raise InvalidInputError("the root namespace cannot be dropped")
        catalog = self._require_catalog()
        content = removable_content(CatalogRows(catalog.load().rows()), path, cascade=cascade)
        locations = [location for location in content.values() if location is not None]
        purged = [location for location in locations if not (keep_external and is_external(location))] if purge else []
        require_inside(purged)
        self.dropped.check_no_clones(purged)

        def edit(rows: CatalogRows) -> CatalogRows:
            # Objects added since were not checked; with them the namespace is not empty.
            added = removable_content(rows, path, cascade=True).items() - content.items()
            if added:
                raise NotEmptyError(
                    f"another writer has added {min(added)[0]!r} to {format_identifier(path)}; drop it again"
                )
            changed = rows.removed([*content, object_id(path)])
            require_unshared(changed, purged)
            return changed

        for name, location in content.items():
            if location is not None and location not in purged:
                self.dropped.record(identifier_of(name), location)
        self._give_up(locations, edit)
        self._directories.delete(purged)

    def list_tables(self, namespace: Identifier = ()) -> list[str]:
        """Names of the tables directly in a namespace, sorted, including declared ones.

        Raises:
            NotFoundError: there is no such namespace.
        """
        children = self._children(self._load(), namespace, TABLE)
        names = set(child_names(children, namespace))
        if not namespace:
            claimed = frozenset(location for location in children.values() if location)
            names.update(self._directories.listing.names(claimed))
        return sorted(names)

    def table_exists(self, identifier: Identifier) -> bool:
        """Whether there is such a table, possibly only declared."""
        return self._find(self._load(), identifier) is not None

    def table_location(self, identifier: Identifier) -> TableEntry:
        """The location and properties of a table.

        Raises:
            NotFoundError: there is no such table.
            UnsupportedFeatureError: the catalog stores its versions.
        """
        version = self._load()
        refuse_managed_versions(version.properties)
        entry = self._find(version, identifier)
        if entry is None:
            raise no_table(identifier)
        return self._directories.entry(entry.location, entry.properties)

    def declare_table(
        self, identifier: Identifier, *, location: UriOrPath | None = None, properties: Mapping[str, str] | None = None
    ) -> TableEntry:
        """Reserves a name and a directory for a table, which exists from its first commit on.

        Args:
            location: a path relative to the root, or an absolute URI. None for a new directory.

        Raises:
            AlreadyExistsError: an object with this name exists.
            NotFoundError: the parent namespace does not exist.
            InvalidInputError: the location is above the root, or is equal to or inside the directory of another table.
        """
        identifier, properties = checked(identifier), checked_properties(properties)
        metadata = properties_to_json(properties)
        requested = None if location is None else requested_location(self.root, location)
        if self._catalog is None:
            return self._declare_listed(identifier, requested, properties)
        place = Place(requested)

        def edit(rows: CatalogRows) -> CatalogRows:
            self._require_new(rows, identifier)
            self._directories.reserve(place, identifier, rows)
            return rows.added([CatalogEntry(object_id(identifier), TABLE, place.location, metadata)])

        try:
            self._catalog.change(edit)
        except CommitStateUnknownError:
            raise
        except LanceError:
            if place.is_reserved:
                # The caller needs this error, not a failure to remove the marker.
                with suppress(LanceError):
                    self._directories.listing.release(place.required())
            raise
        if requested is not None:
            self.dropped.take_back(requested, undo=lambda: self._take_out(identifier))
        return TableEntry(location_uri(self.root, place.required()), dict(properties), declared=True)

    def register_table(
        self, identifier: Identifier, location: UriOrPath, properties: Mapping[str, str] | None = None
    ) -> TableEntry:
        """Registers an existing table under a name.

        Args:
            location: a path relative to the root, or an absolute URI.

        Raises:
            AlreadyExistsError: an object with this name exists.
            NotFoundError: the parent namespace does not exist, or there is no table at the location.
            InvalidInputError: the location is above the root, or belongs to another table.
        """
        identifier, properties = checked(identifier), checked_properties(properties)
        metadata, location = properties_to_json(properties), requested_location(self.root, location)
        entry = self._directories.entry(location, properties)
        if not has_table(entry.uri, self._storage_options):
            raise NotFoundError(f"there is no table at {entry.uri}")
        own_directory = len(identifier) == 1 and location == listed_directory(identifier[0])
        if self._catalog is None:
            if not own_directory or properties:
                raise needs_catalog("names for directories elsewhere, and properties,")
            if self._directories.listing.state(identifier[0]) is DirectoryState.TABLE:
                raise exists(identifier)
            self._directories.listing.unhide(location)
            self.dropped.take_back(location, undo=lambda: self._directories.listing.hide(location))
            return entry

        def edit(rows: CatalogRows) -> CatalogRows:
            self._require_new(rows, identifier)
            require_unshared(rows, [location])
            if not own_directory and self._directories.is_listed(identifier, rows):
                raise exists(identifier)
            return rows.added([CatalogEntry(object_id(identifier), TABLE, location, metadata)])

        self._catalog.change(edit)
        self.dropped.take_back(location, undo=lambda: self._take_out(identifier))
        if own_directory:
            self._directories.listing.unhide(location)
        else:
            self._directories.hide([location])
        return entry

    def register_listed_tables(self) -> list[str]:
        """Adds a row for every table that only has a directory, in one commit; returns their names.

        Afterwards readers that only read the catalog find the same tables in the root namespace.
        """
        added: list[str] = []

        def edit(rows: CatalogRows) -> CatalogRows | None:
            names = self._directories.listing.names(claimed=frozenset(rows.locations()))
            added[:] = [name for name in names if rows.find(name) is None and is_findable((name,))]
            entries = [CatalogEntry(name, TABLE, listed_directory(name)) for name in added]
            return rows.added(entries) if entries else None

        self._require_catalog().change(edit)
        return added

    def deregister_table(self, identifier: Identifier) -> None:
        """Removes a table from the catalog; its files are kept, until somebody purges them. Raises as `drop_table`."""
        self.drop_table(identifier, purge=False, retention=FOREVER)

    def drop_table(self, identifier: Identifier, *, purge: bool, retention: str | None = None) -> None:
        """Removes a table from the catalog.

        Args:
            purge: whether to delete its files too.
            retention: how long they are kept otherwise; None: as the table and the catalog say.

        Raises:
            NotFoundError: there is no such table.
            InvalidInputError: files to delete are outside of the root, belong to another table too, or have a tag for
                a shallow clone.
            StorageError: the store failed. If the message says so, the table was removed and some of its files remain.
        """
        entry = self._find(self._load(), identifier)
        if entry is None:
            raise no_table(identifier)
        if purge:
            require_inside([entry.location])
            self.dropped.check_no_clones([entry.location])

        def edit(rows: CatalogRows) -> CatalogRows:
            require_same(rows.find(object_id(identifier)), entry.location, identifier)
            changed = rows.removed([object_id(identifier)])
            if purge:
                require_unshared(changed, [entry.location])
            return changed

        if not purge:
            self.dropped.record(identifier, entry.location, retention)
        if entry.in_catalog:
            self._give_up([entry.location], edit)
        else:
            if purge:
                require_unshared(CatalogRows(self._load().rows()), [entry.location])
            self._directories.hide([entry.location])
        if purge:
            self._directories.delete([entry.location])

    def rename_table(self, old: Identifier, new: Identifier) -> None:
        """Renames a table, possibly into another namespace; its files are not moved.

        Raises:
            NotFoundError: there is no such table, or the new namespace does not exist.
            AlreadyExistsError: an object with the new name exists.
        """
        new, catalog = checked(new), self._require_catalog()
        entry = self._find(self._load(), old)
        if entry is None:
            raise no_table(old)
        if new == old:
            raise exists(new)
        own_directory = len(new) == 1 and entry.location == listed_directory(new[0])

        def edit(rows: CatalogRows) -> CatalogRows:
            self._require_new(rows, new, instead_of=old)
            if not own_directory and self._directories.is_listed(new, rows):
                raise exists(new)
            if not entry.in_catalog:
                if not self._directories.is_listed(old, rows):
                    raise no_table(old)
                return rows.added([CatalogEntry(object_id(new), TABLE, entry.location)])
            require_same(rows.find(object_id(old)), entry.location, old)
            return rows.renamed(object_id(old), object_id(new))

        catalog.change(edit)
        if own_directory:
            self._directories.listing.unhide(entry.location)
        else:
            self._directories.hide([entry.location])

    def _require_new(self, rows: CatalogRows, identifier: Identifier, instead_of: Identifier | None = None) -> None:
        """Raises `AlreadyExistsError` if the name is taken, and `NotFoundError` if a parent namespace does not exist.

        Args:
            instead_of: the old name that it replaces.
        """
        require_free(rows.find(object_id(identifier)), identifier)
        require_namespaces(rows, identifier)
        if not self._distinct_when_folded:
            return
        listed = self._directories.listed_alike(identifier[0], versions_only=True) if len(identifier) == 1 else []
        require_distinct(rows, identifier, listed, instead_of)

    def replace_table(self, identifier: Identifier, old: str, new: str) -> None:
        """Reassigns the name of a table to another one, in one commit; the files of both are kept.

        Args:
            old: URI of the table that has the name, as returned by `table_location`.
            new: the directory of the other one, relative to the root.

        Raises:
            NotFoundError: the name no longer exists, or refers to another table.
            InvalidInputError: the directory belongs to a table with a name.
        """
        location = checked_location(new)
        entry = self._find(self._load(), identifier)
        if entry is None or location_uri(self.root, entry.location) != old:
            raise no_table(identifier)

        def edit(rows: CatalogRows) -> CatalogRows:
            require_unshared(rows, [location])
            if entry.in_catalog:
                require_same(rows.find(object_id(identifier)), entry.location, identifier)
                return rows.with_location(object_id(identifier), location)
            require_free(rows.find(object_id(identifier)), identifier)
            return rows.added([CatalogEntry(object_id(identifier), TABLE, location)])

        self.dropped.record(identifier, entry.location)
        self._give_up([entry.location], edit)

    def live_locations(self) -> frozenset[str]:
        """The locations of all tables of all namespaces, including declared ones."""
        claimed = CatalogRows(self._load().rows()).locations()
        listed = [listed_directory(name) for name in self._directories.listing.names(claimed)]
        return frozenset(claimed) | frozenset(location for location in listed if location is not None)

    def _take_out(self, identifier: Identifier) -> None:
        self._require_catalog().change(lambda rows: rows.removed([object_id(identifier)]))

    def _load(self) -> CatalogVersion:
        return CatalogVersion() if self._catalog is None else self._catalog.load()

    def _require_catalog(self) -> CatalogTable:
        if self._catalog is None:
            raise needs_catalog("namespaces, and other names for tables,")
        return self._catalog

    def _give_up(self, locations: Iterable[str], edit: Edit) -> None:
        """Removes tables at `locations` from the catalog, and hides their directories from listings."""
        hidden = self._directories.hide(locations)
        try:
            self._require_catalog().change(edit)
        except CommitStateUnknownError:
            raise
        except LanceError:
            # The caller needs this error, not a failure of the undo; a hidden directory is still in the catalog.
            with suppress(LanceError):
                self._show_again(hidden)
            raise

    def _show_again(self, hidden: Iterable[str]) -> None:
        """Undoes hiding, except for tables that another writer has removed since."""
        rows = CatalogRows(self._load().rows())
        for location in hidden:
            owner = rows.find(listed_name(location) or "")
            if owner is not None and owner.location == location:
                self._directories.listing.unhide(location)

    def _namespace(self, version: CatalogVersion, path: Identifier) -> CatalogEntry | None:
        entry = self._row(version, path)
        return entry if entry is not None and entry.kind == NAMESPACE else None

    def _children(self, version: CatalogVersion, namespace: Identifier, kind: str) -> dict[str, str | None]:
        """Locations by id of all objects of a kind below a namespace, in one scan."""
        condition: Expr = equals(OBJECT_TYPE, TABLE if kind == TABLE else NAMESPACE)
        if namespace:
            below = And((condition, starts_with(OBJECT_ID, prefix_of(namespace))))
            condition = Or((below, equals(OBJECT_ID, object_id(namespace))))
        distinguishing = [] if kind == TABLE else [METADATA]
        columns = version.rows(condition, [OBJECT_ID, OBJECT_TYPE, LOCATION, *distinguishing]).to_pydict()
        if None in columns[OBJECT_ID]:
            raise CorruptFileError("a row of __manifest has no object_id")
        texts = columns.get(METADATA, [None] * len(columns[OBJECT_ID]))
        rows = zip(columns[OBJECT_ID], columns[OBJECT_TYPE], columns[LOCATION], texts, strict=True)
        found = {row[0]: CatalogEntry(*row) for row in rows}
        own = found.pop(object_id(namespace), None) if namespace else None
        if namespace and (not is_findable(namespace) or own is None or own.kind != NAMESPACE):
            raise no_namespace(namespace)
        if namespace and not found and kind == TABLE and self._namespace(version, namespace) is None:
            raise no_namespace(namespace)  # A view: only metadata, which the scan has not read, differs.
        return {entry.object_id: entry.location for entry in found.values() if entry.kind == kind}

    def _condition(self, identifier: Identifier) -> Expr:
        condition = super()._condition(identifier)
        directory = listed_directory(identifier[0]) if len(identifier) == 1 else None
        return condition if directory is None else Or((condition, equals(LOCATION, directory)))

    def _find(self, version: CatalogVersion, identifier: Identifier) -> LocatedTable | None:
        if not is_findable(identifier):
            return None
        directory = listed_directory(identifier[0]) if len(identifier) == 1 else None
        entries = version.entries(self._condition(identifier))
        own = only(entries, object_id(identifier))
        if own is not None and own.object_type == TABLE:
            return LocatedTable(checked_location(own.location), own.properties, in_catalog=True)
        is_claimed = any(entry.object_type == TABLE and entry.location == directory for entry in entries)
        if (
            directory is None
            or is_claimed
            or self._directories.listing.state(identifier[0]) is not DirectoryState.TABLE
        ):
            return None
        return LocatedTable(directory)

    def _declare_listed(self, identifier: Identifier, given: str | None, properties: Mapping[str, str]) -> TableEntry:
        """Declares a table in a root without a catalog."""
        location = listed_directory(identifier[0]) if len(identifier) == 1 else None
        if location is None or given not in (None, location) or properties:
            raise needs_catalog(f"a table {format_identifier(identifier)} with such a name, place or properties")
        state = self._directories.listing.state(identifier[0])
        if state is DirectoryState.DEREGISTERED:
            raise InvalidInputError(f"the directory {location!r} holds a table that was taken out; register it instead")
        if state is DirectoryState.TABLE or not self._directories.listing.reserve(location):
            raise exists(identifier)
        return TableEntry(location_uri(self.root, location), dict(properties), declared=True)
