"""Names of a catalog: namespaces, and the tables in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lance_spark.errors import AlreadyExistsError, InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.spark.bridge.handles import CatalogSettings
from lance_spark.spark.bridge.places import TableName, find, names_of
from lance_spark.spark.bridge.registry import Call, Done, operation

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
    """What became of a request: "ok", "no_namespace", "exists" or "not_empty"."""

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
class RenameRequest:
    """A table to give another name."""

    catalog: CatalogSettings
    namespace: tuple[str, ...]
    name: str
    new_namespace: tuple[str, ...]
    new_name: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a request: "ok", "no_table" or "exists"."""

    outcome: str


@operation("catalog.list_tables")
def list_tables(request: NamespaceRequest, _call: Call) -> NamespaceReply:
    """The tables right below a namespace."""
    if not _exists(request):
        return NamespaceReply(_NO_NAMESPACE)
    return NamespaceReply(_OK, tuple(names_of(request.catalog).list_tables(request.namespace)))


@operation("catalog.list_namespaces")
def list_namespaces(request: NamespaceRequest, _call: Call) -> NamespaceReply:
    """The namespaces right below another."""
    if not _exists(request):
        return NamespaceReply(_NO_NAMESPACE)
    return NamespaceReply(_OK, tuple(names_of(request.catalog).list_namespaces(request.namespace)))


@operation("catalog.namespace")
def namespace(request: NamespaceRequest, _call: Call) -> NamespaceReply:
    """The properties of a namespace."""
    if not _exists(request):
        return NamespaceReply(_NO_NAMESPACE)
    if not request.namespace:
        return NamespaceReply(_OK)
    return NamespaceReply(_OK, properties=dict(names_of(request.catalog).namespace_properties(request.namespace)))


@operation("catalog.create_namespace")
def create_namespace(request: NamespaceRequest, _call: Call) -> NamespaceReply:
    """Makes a namespace."""
    if _exists(request):
        return NamespaceReply(_EXISTS)
    _check_properties(request.properties)
    try:
        names_of(request.catalog).create_namespace(request.namespace, dict(request.properties))
    except AlreadyExistsError:
        # Another writer was as quick. What has this name may also be a table.
        if not _exists(request):
            raise
        return NamespaceReply(_EXISTS)
    return NamespaceReply(_OK)


@operation("catalog.alter_namespace")
def alter_namespace(request: NamespaceRequest, _call: Call) -> NamespaceReply:
    """Sets properties of a namespace; null removes one."""
    if not _exists(request):
        return NamespaceReply(_NO_NAMESPACE)
    _check_properties(request.updates)
    names_of(request.catalog).set_namespace_properties(request.namespace, dict(request.updates))
    return NamespaceReply(_OK)


@operation("catalog.drop_namespace")
def drop_namespace(request: NamespaceRequest, _call: Call) -> NamespaceReply:
    """Removes a namespace; one that holds something only with `cascade`, and then with the files of its tables.

    Files outside of the catalog's root stay, as those of a table do that is dropped without PURGE.
    """
    if not _exists(request):
        return NamespaceReply(_NO_NAMESPACE)
    names = names_of(request.catalog)
    if not request.cascade and (names.list_tables(request.namespace) or names.list_namespaces(request.namespace)):
        return NamespaceReply(_NOT_EMPTY)
    names.drop_namespace(request.namespace, cascade=request.cascade, purge=request.cascade, keep_external=True)
    return NamespaceReply(_OK)


@operation("catalog.drop_table")
def drop_table(request: DropRequest, _call: Call) -> Done:
    """Removes a table; false if there was none."""
    names = names_of(request.catalog)
    identifier = (*request.namespace, request.name)
    if not names.table_exists(identifier):
        _check_droppable(request)
        return Done(False)
    try:
        names.drop_table(identifier, purge=request.purge)
    except NotFoundError:
        return Done(False)  # Another writer was as quick.
    return Done()


def _check_droppable(request: DropRequest) -> None:
    """Refuses to drop what is a table to Spark and no entry of the catalog.

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
    names = names_of(request.catalog)
    namespace = request.new_namespace
    if namespace[:1] == (request.catalog.name,) and not names.namespace_exists(namespace):
        namespace = namespace[1:]  # Spark hands over the new name as it was written, with the catalog.
    old, new = (*request.namespace, request.name), (*namespace, request.new_name)
    if not names.table_exists(old):
        return Outcome(_NO_TABLE)
    if names.table_exists(new):
        return Outcome(_EXISTS)
    names.rename_table(old, new)
    return Outcome(_OK)


def _check_properties(properties: Mapping[str, str | None]) -> None:
    if properties.get("location") is not None:
        raise UnsupportedFeatureError(
            "namespaces have no LOCATION, their tables are below the catalog's root; give the tables a LOCATION",
            feature="LOCATION of a namespace",
        )


def _exists(request: NamespaceRequest) -> bool:
    return not request.namespace or names_of(request.catalog).namespace_exists(request.namespace)
