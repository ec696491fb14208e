"""Views in the catalog of a directory, and names that differ only in case.

A view is a row of type `namespace` in `__manifest` whose property `lance_spark.view` is its definition: rows of a type
of their own would stop all catalog writes of the reference library. That library sees an empty namespace, keeps it,
and guards its name.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

from lance_spark.errors import AlreadyExistsError, CorruptFileError, NotEmptyError
from lance_spark.expr.nodes import Expr, Or
from lance_spark.namespace.base import Namespace
from lance_spark.namespace.directory.catalog_rows import (
    NAMESPACE,
    OBJECT_ID,
    OBJECT_TYPE,
    TABLE,
    VIEW,
    CatalogEntry,
    CatalogRows,
    ids_alike,
    only,
    properties_to_json,
)
from lance_spark.namespace.directory.catalog_table import CatalogTable, CatalogVersion, equals
from lance_spark.namespace.directory.places import TableDirectories
from lance_spark.namespace.object_id import (
    Identifier,
    child_names,
    format_identifier,
    identifier_of,
    is_findable,
    object_id,
    prefix_of,
    spelling,
)
from lance_spark.namespace.view_texts import (
    VIEW_DEFINITION,
    no_view,
    readable_definition,
    require_size,
    unreadable_view,
    view_identifier,
)


class DirectoryViews(Namespace):
    """The part of `DirectoryNamespace` that keeps views and resolves the case of names."""

    _directories: TableDirectories
    keeps_views = True

    def list_views(self, namespace: Identifier = ()) -> list[str]:
        """Names of the views directly in a namespace, sorted.

        Raises:
            NotFoundError: there is no such namespace.
        """
        return sorted(child_names(self._children(self._load(), namespace, VIEW), namespace))

    def view_exists(self, identifier: Identifier) -> bool:
        """Whether the name is that of a view, whose definition may be unreadable."""
        entry = self._row(self._load(), identifier)
        return entry is not None and entry.kind == VIEW

    def view(self, identifier: Identifier) -> str:
        """The definition of a view, a JSON object.

        Raises:
            NotFoundError: there is no such view.
            CorruptFileError: its definition is too large or no JSON object.
        """
        entry = self._row(self._load(), identifier)
        if entry is None or entry.kind != VIEW:
            raise no_view(identifier)
        return _definition(entry)

    def create_view(self, identifier: Identifier, definition: str) -> None:
        """Adds a view.

        Args:
            definition: a JSON object.

        Raises:
            AlreadyExistsError: an object with this name exists.
            NotFoundError: the namespace does not exist.
            InvalidInputError: the definition is too large, or the name is not valid.
        """
        identifier = view_identifier(identifier)
        entry = CatalogEntry(object_id(identifier), NAMESPACE, None, _metadata({}, identifier, definition))

        def edit(rows: CatalogRows) -> CatalogRows:
            self._require_new(rows, identifier)
            return rows.added([entry])

        self._require_catalog().change(edit)

    def replace_view(self, identifier: Identifier, definition: str) -> None:
        """Gives a view another definition.

        Raises:
            NotFoundError: there is no such view.
            InvalidInputError: the definition is too large.
        """

        def edit(rows: CatalogRows) -> CatalogRows:
            entry = _required(rows, identifier)
            try:
                others = entry.properties
            except CorruptFileError:
                others = {}  # The new definition repairs it.
            return rows.with_metadata(entry.object_id, _metadata(others, identifier, definition))

        self._require_catalog().change(edit)

    def drop_view(self, identifier: Identifier) -> None:
        """Removes a view.

        Raises:
            NotFoundError: there is no such view.
            NotEmptyError: another library has put something into it, as into a namespace.
        """

        def edit(rows: CatalogRows) -> CatalogRows:
            return rows.removed([_required_empty(rows, identifier).object_id])

        self._require_catalog().change(edit)

    def rename_view(self, old: Identifier, new: Identifier) -> None:
        """Renames a view, possibly into another namespace.

        Raises:
            NotFoundError: there is no such view, or the new namespace does not exist.
            AlreadyExistsError: an object with the new name exists.
            NotEmptyError: another library has put something into the view, as into a namespace.
            InvalidInputError: the name is not valid.
        """
        new = view_identifier(new)
        if new == old:
            raise AlreadyExistsError(f"the view {format_identifier(new)} exists already")

        def edit(rows: CatalogRows) -> CatalogRows:
            entry = _required_empty(rows, old)
            self._require_new(rows, new, instead_of=old)
            return rows.renamed(entry.object_id, object_id(new))

        self._require_catalog().change(edit)

    def spelling(self, identifier: Identifier, *, is_table: bool) -> Identifier | None:
        """The name of a table or namespace as the catalog spells it, which may differ from `identifier` in case.

        Raises:
            InvalidInputError: the name is ambiguous: several names differ from it only in case.
        """
        return self._spelled_as(identifier, TABLE if is_table else NAMESPACE)

    def view_spelling(self, identifier: Identifier) -> Identifier | None:
        """The name of a view, as `spelling`; tables and views share their names."""
        return self._spelled_as(identifier, VIEW)

    def _spelled_as(self, identifier: Identifier, wanted: str) -> Identifier | None:
        if not is_findable(identifier):
            return None
        version = self._load()
        found = ids_alike(version.rows(columns=[OBJECT_ID, OBJECT_TYPE]), identifier)
        kinds = self._kinds(version, found, len(identifier), wanted)
        listed = self._directories.listed_alike(identifier[0]) if wanted != NAMESPACE and len(identifier) == 1 else []

        def is_meant(kind: str, is_last: bool) -> bool:
            # A table and a view cannot have one name, so that one may be ambiguous because of the other.
            return kind == NAMESPACE if wanted == NAMESPACE or not is_last else kind in (TABLE, VIEW)

        def children(namespace: Identifier, is_last: bool) -> list[str]:
            inside = [path for path in kinds if path[:-1] == namespace and is_meant(kinds[path], is_last)]
            return [*(path[-1] for path in inside), *(listed if is_last else [])]

        spelled = spelling(identifier, children)
        return None if spelled is not None and kinds.get(spelled, TABLE) != wanted else spelled

    def _kinds(
        self, version: CatalogVersion, types: Mapping[Identifier, str], depth: int, wanted: str
    ) -> dict[Identifier, str]:
        """The kinds of the objects. A view is distinguished from a namespace by the row's metadata, which is read where
        it matters: among several names, and for the last one.
        """
        by_level: dict[int, list[Identifier]] = {}
        for path, object_type in types.items():
            if object_type == NAMESPACE:
                by_level.setdefault(len(path), []).append(path)
        unclear = [path for level, paths in by_level.items() if level == depth or len(paths) > 1 for path in paths]
        if not unclear:
            return dict(types)
        conditions: tuple[Expr, ...] = tuple(equals(OBJECT_ID, object_id(path)) for path in unclear)
        entries = version.entries(conditions[0] if len(conditions) == 1 else Or(conditions))
        return {**types, **{identifier_of(entry.object_id): entry.kind for entry in entries}}

    def _row(self, version: CatalogVersion, identifier: Identifier) -> CatalogEntry | None:
        """The row of an object, None if there is none."""
        if not is_findable(identifier):
            return None
        return only(version.entries(self._condition(identifier)), object_id(identifier))

    def _condition(self, identifier: Identifier) -> Expr:
        """The condition for the row of an object, the same for all that ask for it: the rows are kept by it."""
        return equals(OBJECT_ID, object_id(identifier))

    @abstractmethod
    def _load(self) -> CatalogVersion:
        """The newest version."""

    @abstractmethod
    def _require_catalog(self) -> CatalogTable:
        """The catalog. Raises `UnsupportedFeatureError` if the root has directories only."""

    @abstractmethod
    def _require_new(self, rows: CatalogRows, identifier: Identifier, instead_of: Identifier | None = None) -> None:
        """Passes if an object can have this name."""

    @abstractmethod
    def _children(self, version: CatalogVersion, namespace: Identifier, kind: str) -> Mapping[str, str | None]:
        """Locations by id of all objects of a kind below a namespace."""


def _required(rows: CatalogRows, identifier: Identifier) -> CatalogEntry:
    entry = rows.find(object_id(identifier)) if is_findable(identifier) else None
    if entry is None or entry.kind != VIEW:
        raise no_view(identifier)
    return entry


def _required_empty(rows: CatalogRows, identifier: Identifier) -> CatalogEntry:
    entry, inside = _required(rows, identifier), rows.below(prefix_of(identifier))
    if inside:
        raise NotEmptyError(
            f"another library has put {inside[0].object_id!r} into the view {format_identifier(identifier)}; drop it "
            "there first"
        )
    return entry


def _metadata(others: Mapping[str, str], identifier: Identifier, definition: str) -> str:
    require_size(identifier, definition)  # Each change of the catalog writes all definitions again.
    return properties_to_json({**others, VIEW_DEFINITION: definition}) or ""


def _definition(entry: CatalogEntry) -> str:
    identifier = identifier_of(entry.object_id)
    try:
        text = entry.properties[VIEW_DEFINITION]
    except CorruptFileError as error:
        raise unreadable_view(format_identifier(identifier), " in __manifest", error) from error
    return readable_definition(identifier, text, " in __manifest")
