"""Resolves the name of a table in a catalog to a location.

A name with a slash is a path. Otherwise it is looked up below the catalog's root. The last part of a name may be
``branch_<name>``, a branch of the table named by the preceding parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from lance_spark.errors import AlreadyExistsError, InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.expr.nodes import quote_name
from lance_spark.namespace.base import Namespace
from lance_spark.namespace.directory.dropped_retention import remove_expired
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.namespace.external.vended_credentials import merged
from lance_spark.namespace.locations import location_uri, requested_location
from lance_spark.namespace.object_id import spelling
from lance_spark.namespace.opening import DIRECTORY
from lance_spark.partitioned.access import find_table
from lance_spark.spark.connector.channel.handles import CatalogSettings, display_location
from lance_spark.spark.connector.channel.table_names import remember
from lance_spark.spark.options.catalog import CatalogOptions
from lance_spark.spark.options.options import StateOptions
from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.after_commit import maintain_after

_BRANCH = "branch_"
DEFAULT_NAMESPACE = ("default",)
"""The namespace that is there without being made, as clients of JDBC expect; it is made for its first content."""


@dataclass(frozen=True, slots=True)
class TableName:
    """The name of a table in a statement, or its path.

    Attributes:
        options: the options of `load(path)` or `save(path)`.
        by_path: whether it was named by one of these.
    """

    catalog: CatalogSettings
    namespace: tuple[str, ...]
    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    by_path: bool = False

    @property
    def identifier(self) -> tuple[str, ...]:
        """All parts of the name."""
        return (*self.namespace, self.name)

    @property
    def path(self) -> str | None:
        """The path, None if the name is not one."""
        if self.by_path or (not self.namespace and "/" in self.name):
            return self.name
        return None

    def storage_options(self) -> dict[str, str]:
        """The storage options, from the catalog's settings and the options."""
        return {
            **CatalogOptions.parse(self.catalog.settings).storage_options,
            **StateOptions.pick(self.options).storage_options,
        }


@dataclass(frozen=True, slots=True)
class ResolvedTable:
    """Location of a table that exists or is to be created.

    Attributes:
        name: the table without its branch as in statements; empty for a path.
    """

    uri: str
    storage_options: Mapping[str, str]
    branch: str | None = None
    name: str = ""

    def shown(self, branch: str | None = None) -> str:
        """The display name of the table or of a branch."""
        if not self.name:
            return display_location(self.uri, branch)
        return self.name if branch is None else f"{self.name}.{quote_name(_BRANCH + branch)}"

    def location(self) -> TableLocation:
        """The branch there."""
        return TableLocation(self.uri, self.storage_options, branch=self.branch, after_commit=maintain_after)


def display_name(catalog: CatalogSettings, identifier: tuple[str, ...]) -> str:
    """A table of a catalog as plans and messages call it."""
    return ".".join(quote_name(part) for part in (catalog.name, *identifier))


def actual_table(catalog: CatalogSettings, identifier: tuple[str, ...]) -> tuple[str, ...] | None:
    """The name of a table as the catalog spells it; None if there is none. An exact match needs no listing.

    Raises:
        InvalidInputError: the name is ambiguous: several names differ from it only in case.
    """
    names = open_namespace(catalog)
    if names.table_exists(identifier):
        return identifier
    return None if catalog.case_sensitive else names.spelling(identifier, is_table=True)


def new_identifier(catalog: CatalogSettings, identifier: tuple[str, ...]) -> tuple[str, ...] | None:
    """The identifier of a new object, with its namespace as the catalog spells it; None if there is no such
    namespace. Makes the default namespace if that is meant.
    """
    namespace = actual_namespace(catalog, identifier[:-1])
    if namespace == DEFAULT_NAMESPACE:
        make_default(catalog)
    return None if namespace is None else (*namespace, identifier[-1])


def actual_namespace(catalog: CatalogSettings, path: tuple[str, ...]) -> tuple[str, ...] | None:
    """The name of a namespace as the catalog spells it; None if there is none. The root and the default one exist."""
    names = open_namespace(catalog)
    if not path or names.namespace_exists(path):
        return path
    actual = None if catalog.case_sensitive else names.spelling(path, is_table=False)
    folded = path if catalog.case_sensitive else tuple(part.lower() for part in path)
    return DEFAULT_NAMESPACE if actual is None and folded == DEFAULT_NAMESPACE else actual


def new_namespace(catalog: CatalogSettings, written: tuple[str, ...]) -> tuple[str, ...]:
    """The namespace of a new name in RENAME, which Spark passes as it was written, including the catalog."""
    if written[:1] == (catalog.name,) and actual_namespace(catalog, written) is None:
        return written[1:]
    return written


def is_unmade(catalog: CatalogSettings, namespace: tuple[str, ...]) -> bool:
    """Whether this is the default namespace, and the catalog does not have it yet."""
    return namespace == DEFAULT_NAMESPACE and not open_namespace(catalog).namespace_exists(namespace)


def make_default(catalog: CatalogSettings) -> None:
    """Makes the default namespace, unless the catalog has it."""
    if is_unmade(catalog, DEFAULT_NAMESPACE):
        with suppress(AlreadyExistsError):
            open_namespace(catalog).create_namespace(DEFAULT_NAMESPACE)


def open_namespace(catalog: CatalogSettings) -> Namespace:
    """The names of a catalog.

    Raises:
        InvalidInputError: its settings have neither a folder nor a server, or its class cannot be used.
    """
    options = CatalogOptions.parse(catalog.settings)
    if options.impl == DIRECTORY and options.root is None:
        raise _no_root(catalog)
    return options.place(case_sensitive=catalog.case_sensitive).open()


def directory(catalog: CatalogSettings) -> DirectoryNamespace:
    """Opens the directory namespace of a catalog.

    Raises:
        InvalidInputError: the catalog has no root.
        UnsupportedFeatureError: somebody else keeps the names.
    """
    options = CatalogOptions.parse(catalog.settings)
    if options.impl != DIRECTORY or options.single_level_ns:
        setting = f"impl = {options.impl}" if options.impl != DIRECTORY else "single_level_ns = true"
        raise UnsupportedFeatureError(
            f"this needs a catalog in a folder, with its namespaces; catalog {catalog.name} has {setting}",
            feature=f"a verb of directory catalogs with {setting}",
        )
    if options.root is None:
        raise _no_root(catalog)
    return options.place(case_sensitive=catalog.case_sensitive).directory()


def _no_root(catalog: CatalogSettings) -> InvalidInputError:
    return InvalidInputError(
        f"catalog {catalog.name} has no root; set spark.sql.catalog.{catalog.name}.root, or name tables by path"
    )


def remove_expired_tables(catalog: CatalogSettings) -> None:
    """Removes the files of tables that were dropped so long ago that the catalog keeps them no longer."""
    options = CatalogOptions.parse(catalog.settings)
    if options.impl == DIRECTORY and not options.single_level_ns:
        remove_expired(directory(catalog).dropped, options.dropped_table_retention)


def requested_place(table: TableName, location: str | None) -> ResolvedTable | None:
    """The place of a new table by its LOCATION; None if none is given, or a server decides.

    Raises:
        InvalidInputError: the location is outside of the catalog's root.
    """
    if location is None or table.path is not None:
        return None
    names = open_namespace(table.catalog)
    if not isinstance(names, DirectoryNamespace):
        return None
    return ResolvedTable(location_uri(names.root, requested_location(names.root, location)), table.storage_options())


def check_free(place: ResolvedTable) -> None:
    """Passes if there is no table.

    Raises:
        AlreadyExistsError: there is one.
    """
    if find_table(place.location()) is not None:
        raise AlreadyExistsError(f"there is a table at {place.uri}; CALL system.register_table gives it a name")


def find(table: TableName) -> ResolvedTable | None:
    """Resolves the name of a table; None if the catalog has no such name. A path need not lead to a table yet."""
    storage = table.storage_options()
    branch = StateOptions.pick(table.options).branch
    if not table.name and "paths" not in {name.lower() for name in table.options}:
        raise InvalidInputError("no path is given; use load(path), save(path), or the name of a table")
    if table.path is not None:
        if "paths" in {name.lower() for name in table.options}:
            raise InvalidInputError("several paths are given; a table has one")
        return ResolvedTable(table.path, storage, branch)
    is_below_path = any("/" in part for part in table.namespace)
    found = None if is_below_path else _look_up(table, table.identifier, storage, branch)
    asked = None if found is not None or not table.namespace else _branch_of(table)
    if asked is not None:
        found = _look_up(table, table.namespace, storage, None)
        found = None if found is None else replace(found, branch=_actual_branch(table, found, asked))
    return found


def _branch_of(table: TableName) -> str | None:
    """The branch in the last part of a name, None if there is none."""
    name = (
        table.name if table.catalog.case_sensitive else table.name[: len(_BRANCH)].lower() + table.name[len(_BRANCH) :]
    )
    return name[len(_BRANCH) :] if name.startswith(_BRANCH) else None


def _actual_branch(table: TableName, place: ResolvedTable, branch: str) -> str:
    """A branch as the table writes its name; `branch` if it has no such one."""
    refs = place.location().refs
    if table.catalog.case_sensitive or branch in (names := list(refs.branches())):
        return branch
    found = spelling((branch,), lambda _namespace, _is_last: names)
    return branch if found is None else found[0]


def _look_up(
    table: TableName, identifier: tuple[str, ...], storage: Mapping[str, str], branch: str | None
) -> ResolvedTable | None:
    if len(identifier) == 1 and "/" in identifier[0]:
        return ResolvedTable(identifier[0], storage, branch)
    names, actual = open_namespace(table.catalog), identifier
    try:
        entry = names.table_location(actual)
    except NotFoundError:
        other = None if table.catalog.case_sensitive else names.spelling(identifier, is_table=True)
        if other is None:
            return None
        actual = other
        try:
            entry = names.table_location(actual)
        except NotFoundError:
            return None  # Somebody dropped the table since its name was found.
    name = display_name(table.catalog, actual)
    remember(entry.uri, name)
    return ResolvedTable(entry.uri, merged(storage, entry.storage_options), branch, name)
