"""From the name of a table in a catalog to the place where it is.

A name is a path if it has a slash. Otherwise it is looked up below the catalog's root. The last part of a name may be
``branch_<name>``, a branch of the table that the parts before name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lance_spark.errors import AlreadyExistsError, InvalidInputError, UnsupportedFeatureError
from lance_spark.namespace.directory import DirectoryNamespace
from lance_spark.namespace.locations import given_location, location_uri
from lance_spark.namespace.partitioned_table import is_partitioned_table
from lance_spark.namespace.rest import RestNamespace
from lance_spark.spark.bridge.handles import CatalogSettings
from lance_spark.spark.options import CatalogOptions, StateOptions
from lance_spark.table.location import TableLocation

_BRANCH = "branch_"


@dataclass(frozen=True, slots=True)
class TableName:
    """A table as a statement or a path names it.

    Attributes:
        options: those that `load(path)` or `save(path)` came with.
        by_path: whether it was named so.
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
        """The path, if the name is one."""
        if self.by_path or (not self.namespace and "/" in self.name):
            return self.name
        return None

    def storage_options(self) -> dict[str, str]:
        """How to reach the store, by the catalog's settings and the options."""
        return {
            **CatalogOptions.parse(self.catalog.settings).storage_options,
            **StateOptions.pick(self.options).storage_options,
        }


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table is, or would be."""

    uri: str
    storage_options: Mapping[str, str]
    branch: str | None = None

    def location(self) -> TableLocation:
        """The branch there."""
        return TableLocation(self.uri, self.storage_options, branch=self.branch)


def names_of(catalog: CatalogSettings) -> DirectoryNamespace | RestNamespace:
    """The names of a catalog.

    Raises:
        InvalidInputError: its settings do not say where they are.
    """
    options = CatalogOptions.parse(catalog.settings)
    return directory(catalog) if options.uri is None else RestNamespace(options.uri, options.headers)


def directory(catalog: CatalogSettings) -> DirectoryNamespace:
    """The names below the root of a catalog.

    Raises:
        InvalidInputError: the catalog has no root.
        UnsupportedFeatureError: a server keeps its names.
    """
    options = CatalogOptions.parse(catalog.settings)
    if options.uri is not None:
        raise UnsupportedFeatureError(
            "a catalog that a server keeps has no partitioned tables", feature="partitioned tables over REST"
        )
    if options.root is None:
        raise InvalidInputError(
            f"catalog {catalog.name} has no root; set spark.sql.catalog.{catalog.name}.root, or name tables by path"
        )
    return DirectoryNamespace(options.root, options.storage_options)


def given_place(table: TableName, location: str | None) -> Place | None:
    """Where a table of this name is to be by its LOCATION; None if nothing is said, or a server decides.

    Raises:
        InvalidInputError: the location leaves the catalog's root.
    """
    if location is None or table.path is not None:
        return None
    names = names_of(table.catalog)
    if isinstance(names, RestNamespace):
        return None
    return Place(location_uri(names.root, given_location(names.root, location)), table.storage_options())


def check_free(place: Place) -> None:
    """Passes if there is no table.

    Raises:
        AlreadyExistsError: there is one.
    """
    if place.location().latest() is not None or is_partitioned_table(place.uri, place.storage_options):
        raise AlreadyExistsError(f"there is a table at {place.uri}; CALL system.register_table gives it a name")


def find(table: TableName) -> Place | None:
    """Where the table of this name is; None if the catalog has no such name. A path may lead to nothing yet."""
    storage = table.storage_options()
    branch = StateOptions.pick(table.options).branch
    if not table.name and "paths" not in {name.lower() for name in table.options}:
        raise InvalidInputError("no path is given; use load(path), save(path), or the name of a table")
    if table.path is not None:
        if "paths" in {name.lower() for name in table.options}:
            raise InvalidInputError("several paths are given; a table has one")
        return Place(table.path, storage, branch)
    is_below_path = any("/" in part for part in table.namespace)
    found = None if is_below_path else _look_up(table, table.identifier, storage, branch)
    if found is None and table.namespace and table.name.startswith(_BRANCH):
        found = _look_up(table, table.namespace, storage, table.name[len(_BRANCH) :])
    return found


def _look_up(
    table: TableName, identifier: tuple[str, ...], storage: Mapping[str, str], branch: str | None
) -> Place | None:
    if len(identifier) == 1 and "/" in identifier[0]:
        return Place(identifier[0], storage, branch)
    names = names_of(table.catalog)
    if not names.table_exists(identifier):
        return None
    entry = names.table_location(identifier)
    return Place(entry.uri, {**entry.storage_options, **storage}, branch)
