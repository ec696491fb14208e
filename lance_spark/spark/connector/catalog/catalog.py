"""Requests about the names of a catalog: its namespaces and tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lance_spark.errors import AlreadyExistsError, InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.spark.connector.catalog.resolve import (
    DEFAULT_NAMESPACE,
    TableName,
    actual_namespace,
    actual_table,
    find,
    is_unmade,
    make_default,
    new_identifier,
    new_namespace,
    open_namespace,
    remove_expired_tables,
)
from lance_spark.spark.connector.channel.handles import CatalogSettings
from lance_spark.spark.connector.channel.registry import Call, operation
from lance_spark.storage.paths import place_of

_OK, _NO_NAMESPACE, _EXISTS, _NOT_EMPTY, _NO_TABLE = "ok", "no_namespace", "exists", "not_empty", "no_table"


@dataclass(frozen=True, slots=True)
class NamespaceRequest:
    """A namespace of a catalog."""

    catalog: CatalogSettings
    namespace: tuple[str, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    updates: Mapping[str, str | None] = field(default_factory=dict)
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class NamespaceReply:
    """The result of a request: "ok", "no_namespace", "exists" or "not_empty"."""

    outcome: str
    names: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DropRequest:
    """A table to drop."""

    catalog: CatalogSettings
    namespace: tuple[str, ...]
    name: str
    purge: bool


@dataclass(frozen=True, slots=True)
class DropReply:
    """The result of dropping a table.

    Attributes:
        done: whether there was one.
        place: of the table whose files are deleted; None if no files are.
    """

    done: bool
    place: str | None = None


@dataclass(frozen=True, slots=True)
class RenameRequest:
    """A table to rename."""

    catalog: CatalogSettings
    namespace: tuple[str, ...]
    name: str
    new_namespace: tuple[str, ...]
    new_name: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a request: "ok", "exists", "no_table", "no_view" or "no_namespace"."""

    outcome: str


@operation("catalog.list_tables")
def list_tables(request: NamespaceRequest, _call: Call) -> NamespaceReply:
    """The tables directly below a namespace."""
    namespace = actual_namespace(request.catalog, request.namespace)
    if namespace is None:
        return NamespaceReply(_NO_NAMESPACE)
    if is_unmade(request.catalog, namespace):
        return NamespaceReply(_OK)
    return NamespaceReply(_OK, tuple(open_namespace(request.catalog).list_tables(namespace)))


@operation("catalog.list_namespaces")
def list_namespaces(request: NamespaceRequest, _call: Call) -> NamespaceReply:
    """The namespaces directly below another."""
    namespace = actual_namespace(request.catalog, request.namespace)
    if namespace is None:
        return NamespaceReply(_NO_NAMESPACE)
    if is_unmade(request.catalog, namespace):
        return NamespaceReply(_OK)
    names = open_namespace(request.catalog).list_namespaces(namespace)
    if not namespace and actual_namespace(request.catalog, DEFAULT_NAMESPACE) == DEFAULT_NAMESPACE:
        names = sorted({*names, *DEFAULT_NAMESPACE})
    return NamespaceReply(_OK, tuple(names))


@operation("catalog.namespace")
def namespace(request: NamespaceRequest, _call: Call) -> NamespaceReply:
    """The properties of a namespace."""
    path = actual_namespace(request.catalog, request.namespace)
    if path is None:
        return NamespaceReply(_NO_NAMESPACE)
    if not path or is_unmade(request.catalog, path):
        return NamespaceReply(_OK)
    return NamespaceReply(_OK, properties=dict(open_namespace(request.catalog).namespace_properties(path)))


@operation("catalog.create_namespace")
def create_namespace(request: NamespaceRequest, _call: Call) -> NamespaceReply:
    """Creates a namespace."""
    if actual_namespace(request.catalog, request.namespace) is not None:
        return NamespaceReply(_EXISTS)
    _check_properties(request.properties)
    path = new_identifier(request.catalog, request.namespace) or request.namespace
    try:
        open_namespace(request.catalog).create_namespace(path, dict(request.properties))
    except AlreadyExistsError:
        # A concurrent writer won. The object with this name may also be a table.
        if actual_namespace(request.catalog, request.namespace) is None:
            raise
        return NamespaceReply(_EXISTS)
    return NamespaceReply(_OK)


@operation("catalog.alter_namespace")
def alter_namespace(request: NamespaceRequest, _call: Call) -> NamespaceReply:
    """Sets properties of a namespace; null removes one."""
    namespace = actual_namespace(request.catalog, request.namespace)
    if namespace is None:
        return NamespaceReply(_NO_NAMESPACE)
    _check_properties(request.updates)
    if namespace == DEFAULT_NAMESPACE:
        make_default(request.catalog)
    open_namespace(request.catalog).set_namespace_properties(namespace, dict(request.updates))
    return NamespaceReply(_OK)


@operation("catalog.drop_namespace")
def drop_namespace(request: NamespaceRequest, _call: Call) -> NamespaceReply:
    """Removes a namespace; a non-empty one only with `cascade`, and then with the files of its tables.

    Files outside of the catalog's root are kept, as for a table that is dropped without PURGE. The default namespace
    loses its content and its properties, and stays.
    """
    namespace = actual_namespace(request.catalog, request.namespace)
    if namespace is None:
        return NamespaceReply(_NO_NAMESPACE)
    if is_unmade(request.catalog, namespace):
        return NamespaceReply(_OK)
    names = open_namespace(request.catalog)
    listings = (names.list_tables, names.list_namespaces, names.list_views)
    if not request.cascade and any(listed(namespace) for listed in listings):
        return NamespaceReply(_NOT_EMPTY)
    names.drop_namespace(namespace, cascade=request.cascade, purge=request.cascade, keep_external=True)
    return NamespaceReply(_OK)


@operation("catalog.drop_table")
def drop_table(request: DropRequest, _call: Call) -> DropReply:
    """Removes a table; false if it does not exist."""
    identifier = actual_table(request.catalog, (*request.namespace, request.name))
    if identifier is None:
        _check_droppable(request)
        return DropReply(False)
    names = open_namespace(request.catalog)
    try:
        place = place_of(names.table_location(identifier).uri) if request.purge else None
        names.drop_table(identifier, purge=request.purge)
    except NotFoundError:
        return DropReply(False)  # A concurrent writer won.
    remove_expired_tables(request.catalog)
    return DropReply(True, place)


def _check_droppable(request: DropRequest) -> None:
    """Rejects tables of Spark that are not entries of the catalog.

    Raises:
        InvalidInputError: the name is a path, or a branch.
    """
    place = find(TableName(request.catalog, request.namespace, request.name))
    if place is None:
        return
    if place.branch is not None:
        raise InvalidInputError(f"{request.name!r} is a branch; ALTER TABLE ... DROP BRANCH {place.branch} removes it")
    raise InvalidInputError(
        f"{request.name!r} is a path, and DROP TABLE takes names out of the catalog; delete the files of the table"
    )


@operation("catalog.rename_table")
def rename_table(request: RenameRequest, _call: Call) -> Outcome:
    """Gives a table another name."""
    names = open_namespace(request.catalog)
    old = actual_table(request.catalog, (*request.namespace, request.name))
    if old is None:
        return Outcome(_NO_TABLE)
    given = (*new_namespace(request.catalog, request.new_namespace), request.new_name)
    new = new_identifier(request.catalog, given) or given
    known = actual_table(request.catalog, new)
    # A table may be renamed to a different case of its own name.
    if known is not None and (known != old or new == old):
        return Outcome(_EXISTS)
    names.rename_table(old, new)
    return Outcome(_OK)


def _check_properties(properties: Mapping[str, str | None]) -> None:
    if properties.get("location") is not None:
        raise UnsupportedFeatureError(
            "namespaces have no LOCATION, their tables are below the catalog's root; give the tables a LOCATION",
            feature="LOCATION of a namespace",
        )
