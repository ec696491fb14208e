"""Requests about the views of a catalog."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    UnsupportedFeatureError,
)
from lance_spark.namespace.object_id import Identifier, format_identifier
from lance_spark.spark.compat import SPARK
from lance_spark.spark.connector.catalog.catalog import NamespaceReply, NamespaceRequest, Outcome, list_tables
from lance_spark.spark.connector.catalog.resolve import (
    TableName,
    actual_namespace,
    actual_table,
    display_name,
    is_unmade,
    new_identifier,
    new_namespace,
    open_namespace,
)
from lance_spark.spark.connector.catalog.view_definition import (
    ViewDefinition,
    definition_from_json,
    definition_to_json,
)
from lance_spark.spark.connector.channel.handles import CatalogSettings
from lance_spark.spark.connector.channel.registry import Call, Done, operation

_OK, _NO_NAMESPACE, _EXISTS, _NO_VIEW = "ok", "no_namespace", "exists", "no_view"


@dataclass(frozen=True, slots=True)
class ViewRequest:
    """A view, and what it is to be."""

    catalog: CatalogSettings
    namespace: tuple[str, ...]
    name: str
    by_path: bool = False
    view: ViewDefinition | None = None
    new_namespace: tuple[str, ...] = ()
    new_name: str = ""

    def table_name(self) -> TableName:
        """The name, which may be that of a table too."""
        return TableName(self.catalog, self.namespace, self.name, by_path=self.by_path)

    def text(self) -> str:
        """The definition as the catalog keeps it."""
        if self.view is None:
            raise InvalidInputError("the request has no definition of the view")
        return definition_to_json(self.view, self.catalog.name)


@dataclass(frozen=True, slots=True)
class ViewReply:
    """A view, if there is one."""

    view: ViewDefinition | None = None


@dataclass(frozen=True, slots=True)
class RelationsReply:
    """The tables and views of a namespace; "ok" or "no_namespace"."""

    outcome: str
    tables: tuple[str, ...] = ()
    views: tuple[str, ...] = ()


@operation("catalog.list_views")
def list_views(request: NamespaceRequest, _call: Call) -> NamespaceReply:
    """The views directly in a namespace."""
    namespace = actual_namespace(request.catalog, request.namespace)
    if namespace is None:
        return NamespaceReply(_NO_NAMESPACE)
    if is_unmade(request.catalog, namespace):
        return NamespaceReply(_OK)
    return NamespaceReply(_OK, tuple(open_namespace(request.catalog).list_views(namespace)))


@operation("catalog.list_relations")
def list_relations(request: NamespaceRequest, call: Call) -> RelationsReply:
    """The tables and views directly in a namespace."""
    tables, views = list_tables(request, call), list_views(request, call)
    return RelationsReply(views.outcome, tables.names, views.names)


@operation("catalog.view")
def view(request: ViewRequest, _call: Call) -> ViewReply:
    """A view; None if there is none of this name."""
    found = _find(request.table_name())
    return ViewReply(None if found is None else definition_from_json(found[1], display_name(request.catalog, found[0])))


@operation("catalog.view_exists")
def view_exists(request: ViewRequest, _call: Call) -> Done:
    """Whether there is a view of this name."""
    return Done(_actual(request.table_name()) is not None)


@operation("catalog.create_view")
def create_view(request: ViewRequest, _call: Call) -> Outcome:
    """Creates a view."""
    names, given = open_namespace(request.catalog), (*request.namespace, request.name)
    text = request.text()
    if not names.keeps_views:
        names.create_view(given, text)  # Says so, before a namespace is made for it.
    if any("/" in part for part in given):
        raise InvalidInputError(f"{format_identifier(given)} is a path; a view has a name in the catalog")
    identifier = new_identifier(request.catalog, given)
    if identifier is None:
        return Outcome(_NO_NAMESPACE)
    if actual_table(request.catalog, identifier) is not None:
        return Outcome(_EXISTS)
    try:
        names.create_view(identifier, text)
    except NotFoundError:
        return Outcome(_NO_NAMESPACE)
    except AlreadyExistsError:
        if _find(request.table_name()) is None and actual_table(request.catalog, identifier) is None:
            raise  # By a namespace.
        return Outcome(_EXISTS)
    return Outcome(_OK)


@operation("catalog.replace_view")
def replace_view(request: ViewRequest, _call: Call) -> Outcome:
    """Gives a view another definition."""
    text, identifier = request.text(), _actual(request.table_name())
    if identifier is None:
        return Outcome(_NO_VIEW)
    try:
        open_namespace(request.catalog).replace_view(identifier, text)
    except NotFoundError:
        return Outcome(_NO_VIEW)
    return Outcome(_OK)


@operation("catalog.drop_view")
def drop_view(request: ViewRequest, _call: Call) -> Done:
    """Removes a view; false if there is none."""
    identifier = _actual(request.table_name())
    if identifier is None:
        return Done(False)
    try:
        open_namespace(request.catalog).drop_view(identifier)
    except NotFoundError:
        return Done(False)
    return Done(True)


@operation("catalog.rename_view")
def rename_view(request: ViewRequest, _call: Call) -> Outcome:
    """Gives a view another name."""
    old = _actual(request.table_name())
    if old is None:
        return Outcome(_NO_VIEW)
    given = (*new_namespace(request.catalog, request.new_namespace), request.new_name)
    new = new_identifier(request.catalog, given)
    if new is None:
        raise NotFoundError(f"there is no namespace {format_identifier(given[:-1])} to rename the view into")
    known = _actual(TableName(request.catalog, new[:-1], new[-1]))
    # A view may be renamed to a different case of its own name.
    if (known is not None and (known != old or new == old)) or actual_table(request.catalog, new) is not None:
        return Outcome(_EXISTS)
    try:
        open_namespace(request.catalog).rename_view(old, new)
    except AlreadyExistsError:
        return Outcome(_EXISTS)
    return Outcome(_OK)


def view_name(table: TableName) -> str | None:
    """The display name of a view, even if its definition is unreadable; None if there is none."""
    found = _actual(table)
    return None if found is None else display_name(table.catalog, found)


def refuse_view(
    table: TableName, *, writes: str | None = None, is_of_version: bool = False, is_known: bool = SPARK >= (4, 3)
) -> None:
    """Passes unless a statement names a view where only a table fits.

    Args:
        writes: what the statement does to it; None if it reads.
        is_of_version: whether it asks for a version of it.
        is_known: whether Spark reads views of catalogs.

    Raises:
        InvalidInputError: it is a view, which has no rows of its own.
        UnsupportedFeatureError: it is a view, and this Spark reads none.
    """
    if is_known and writes is None and not is_of_version:
        return
    name = view_name(table)
    if name is None:
        return
    if not is_known:
        raise UnsupportedFeatureError(
            f"{name} is a view, which Spark reads from 4.3 on; read the tables below it", feature="views"
        )
    if writes is not None:
        raise InvalidInputError(f"{name} is a view, which takes no {writes}; write to the table that it reads")
    raise InvalidInputError(f"{name} is a view, which has no versions; choose a version of a table that it reads")


def _find(table: TableName) -> tuple[Identifier, str] | None:
    """The name of a view as the catalog spells it, and its definition; None if there is none."""
    identifier = table.identifier
    if not _may_be_view(table):
        return None
    names = open_namespace(table.catalog)
    try:
        return identifier, names.view(identifier)
    except NotFoundError:
        actual = None if table.catalog.case_sensitive else names.view_spelling(identifier)
    try:
        return None if actual is None else (actual, names.view(actual))
    except NotFoundError:
        return None  # Somebody dropped the view since its name was found.


def _actual(table: TableName) -> Identifier | None:
    """The name of a view as the catalog spells it, even if its definition is unreadable; None if there is none."""
    if not _may_be_view(table):
        return None
    names = open_namespace(table.catalog)
    if not names.keeps_views:
        return None
    if names.view_exists(table.identifier):
        return table.identifier
    return None if table.catalog.case_sensitive else names.view_spelling(table.identifier)


def _may_be_view(table: TableName) -> bool:
    """Whether the name can be that of a view: all have a namespace, and none is a path."""
    return bool(table.namespace) and table.path is None and not any("/" in part for part in table.identifier)
