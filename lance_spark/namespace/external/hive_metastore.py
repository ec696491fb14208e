"""Calls of a Hive metastore by what they do, for all its releases, with replies that are checked.

Release 4 lacks the first way to ask for a table, releases before 2.3 the second. A database of a catalog other than
``hive``, in release 3 and later, is written ``@catalog#database``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from lance_spark.errors import InvalidInputError, StorageError
from lance_spark.namespace.external.hive_client import (
    MetastoreClient,
    UnknownMethodError,
    metastore_types,
    parse_addresses,
)
from lance_spark.namespace.external.metastore_tables import COLUMN, EXTERNAL_TABLE, INPUT_FORMAT, OUTPUT_FORMAT, SERDE
from lance_spark.namespace.external.metastore_views import VIRTUAL_VIEW

Reply = TypeVar("Reply")

_LOT = 200
"""Tables in one request of a listing."""

_NO_STATISTICS = {"DO_NOT_UPDATE_STATS": "true"}
"""Without it a change of a table reads the listing of its folder, for sizes that nobody needs."""

_EXPECTED = ("expected_parameter_key", "expected_parameter_value")
"""The names of the properties of a change by which a metastore compares a parameter first (HIVE-26882)."""


@dataclass(frozen=True, slots=True)
class HivePlace:
    """A database.

    Attributes:
        database: its name.
        catalog: None for the one that a metastore has by default.
    """

    database: str
    catalog: str | None = None

    def __str__(self) -> str:
        return self.database if self.catalog is None else f"{self.catalog}.{self.database}"

    @property
    def wire(self) -> str:
        """The name in calls without a field for the catalog."""
        return self.database if self.catalog is None else f"@{self.catalog}#{self.database}"


class HiveMetastore:
    """A metastore.

    Args:
        uri: its addresses.
        ugi: the user in whose name to ask, ``user:group,group``; None for nobody's.
        pool_size: how many connections there are at most.

    Raises:
        InvalidInputError: a wrong uri or ugi.
        StorageError: pymetastore is not installed.
    """

    def __init__(self, uri: str, ugi: str | None, pool_size: int) -> None:
        user, _, groups = (ugi or "").partition(":")
        if ugi is not None and not user.strip():
            raise InvalidInputError(f"ugi is {ugi!r}; it is user:group,group")
        names = tuple(name.strip() for name in groups.split(",") if name.strip())
        self._owner = user.strip() or None
        self._client = MetastoreClient(parse_addresses(uri), (user.strip(), names) if ugi else None, pool_size)
        self._types = metastore_types()

    def catalogs(self) -> list[str]:
        """The names of the catalogs. Raises `UnknownMethodError` before release 3."""
        reply = self._client.ask("the catalogs", lambda client: client.get_catalogs())
        return _texts(reply.names, "the catalogs")

    def catalog(self, name: str) -> Any:
        """A catalog. Raises `NotFoundError`; `UnknownMethodError` before release 3."""
        request = self._types.GetCatalogRequest(name=name)
        return _present(self._client.ask(name, lambda client: client.get_catalog(request)).catalog, name)

    def databases(self, catalog: str | None) -> list[str]:
        """The names of the databases of a catalog."""
        if catalog is None:
            return _texts(self._client.ask("the databases", lambda client: client.get_all_databases()), "the databases")
        found = self._client.ask(catalog, lambda client: client.get_databases(f"@{catalog}#"))
        return _texts(found, catalog)

    def database(self, place: HivePlace) -> Any:
        """A database. Raises `NotFoundError`."""
        return _present(self._client.ask(str(place), lambda client: client.get_database(place.wire)), str(place))

    def add_database(self, place: HivePlace, fields: Mapping[str, str], parameters: Mapping[str, str]) -> None:
        """Creates a database. Raises `AlreadyExistsError`, `LostReplyError`."""
        described = self._types.Database(
            name=place.database, catalogName=place.catalog, parameters=dict(parameters), **fields
        )
        self._client.ask(str(place), lambda client: client.create_database(described), repeats=False)

    def alter_database(self, place: HivePlace, database: Any) -> None:
        """Changes a database. Raises `NotFoundError`."""
        self._client.ask(str(place), lambda client: client.alter_database(place.wire, database))

    def drop_database(self, place: HivePlace) -> None:
        """Removes an empty database; its folder stays. Raises `NotFoundError`, `RefusedError`, `LostReplyError`."""
        self._client.ask(str(place), lambda client: client.drop_database(place.wire, False, False), repeats=False)

    def tables(self, place: HivePlace) -> Iterator[Any]:
        """The tables and views of a database, without those that are removed meanwhile."""
        names = _texts(self._client.ask(str(place), lambda client: client.get_all_tables(place.wire)), str(place))
        for start in range(0, len(names), _LOT):
            for table in self._lot(place, names[start : start + _LOT]) or ():
                yield _checked(table, str(place))

    def _lot(self, place: HivePlace, names: list[str]) -> list[Any] | None:
        request = self._types.GetTablesRequest(
            dbName=place.database, tblNames=names, capabilities=self._capabilities(), catName=place.catalog
        )
        found: list[Any] | None = self._either(
            str(place),
            lambda client: client.get_table_objects_by_name_req(request).tables,
            lambda client: client.get_table_objects_by_name(place.wire, names),
        )
        return found

    def table(self, place: HivePlace, name: str) -> Any:
        """A table or view. Raises `NotFoundError`."""
        about = f"{place}.{name}"
        request = self._types.GetTableRequest(
            dbName=place.database, tblName=name, capabilities=self._capabilities(), catName=place.catalog
        )
        found = self._either(
            about,
            lambda client: client.get_table_req(request).table,
            lambda client: client.get_table(place.wire, name),
        )
        return _checked(found, about)

    def add_table(
        self,
        place: HivePlace,
        name: str,
        location: str,
        parameters: Mapping[str, str],
        serde_parameters: Mapping[str, str],
    ) -> None:
        """Creates an external table with a placeholder column. Raises `AlreadyExistsError`, `LostReplyError`."""
        storage = self._storage(self.columns([COLUMN]), location=location)
        storage.serdeInfo.parameters = dict(serde_parameters)
        described = self._types.Table(
            tableName=name,
            dbName=place.database,
            catName=place.catalog,
            owner=self._owner,
            sd=storage,
            parameters=dict(parameters),
            tableType=EXTERNAL_TABLE,
        )
        self._client.ask(f"{place}.{name}", lambda client: client.create_table(described), repeats=False)

    def add_view(
        self,
        place: HivePlace,
        name: str,
        columns: Iterable[tuple[str, str, str]],
        query: str,
        parameters: Mapping[str, str],
    ) -> None:
        """Creates a view. Raises `AlreadyExistsError`, `LostReplyError`."""
        types = self._types
        described = types.Table(
            tableName=name,
            dbName=place.database,
            catName=place.catalog,
            owner=self._owner,
            sd=self._storage(self.columns(columns)),  # Without a place; some clients expect formats of a view too.
            parameters=dict(parameters),
            viewOriginalText=query,
            viewExpandedText=query,
            tableType=VIRTUAL_VIEW,
        )
        self._client.ask(f"{place}.{name}", lambda client: client.create_table(described), repeats=False)

    def _storage(self, columns: list[Any], *, location: str | None = None) -> Any:
        return self._types.StorageDescriptor(
            cols=columns,
            location=location,
            inputFormat=INPUT_FORMAT,
            outputFormat=OUTPUT_FORMAT,
            serdeInfo=self._types.SerDeInfo(serializationLib=SERDE),
        )

    def columns(self, columns: Iterable[tuple[str, str, str]]) -> list[Any]:
        """The metastore's objects for columns of these names, types and comments."""
        return [self._types.FieldSchema(name=name, type=kind, comment=comment) for name, kind, comment in columns]

    def drop_table(self, place: HivePlace, name: str) -> None:
        """Removes a table; its files stay. Raises `NotFoundError`, `LostReplyError`."""
        self._client.ask(f"{place}.{name}", lambda client: client.drop_table(place.wire, name, False), repeats=False)

    def alter_table(
        self,
        place: HivePlace,
        name: str,
        table: Any,
        *,
        repeats: bool = True,
        expected: tuple[str, str] | None = None,
    ) -> None:
        """Changes a table, possibly its name and database.

        Args:
            repeats: whether to repeat the call if its connection fails.
            expected: a parameter and the value that it has to have, where the metastore compares it.

        Raises:
            NotFoundError: there is no such table.
            RefusedError: the new name is taken.
            LostReplyError: there is no proper reply, and it was not repeated.
            StorageError: the parameter has another value.
        """
        compared = {} if expected is None else dict(zip(_EXPECTED, expected, strict=True))
        context = self._types.EnvironmentContext(properties={**_NO_STATISTICS, **compared})
        self._client.ask(
            f"{place}.{name}",
            lambda client: client.alter_table_with_environment_context(place.wire, name, table, context),
            repeats=repeats,
        )

    def _capabilities(self) -> Any:
        """Capabilities without which one table with transactions fails a whole listing; we read no rows of it."""
        return self._types.ClientCapabilities(values=[self._types.ClientCapability.INSERT_ONLY_TABLES])

    def _either(self, about: str, call: Callable[[Any], Reply], older: Callable[[Any], Reply]) -> Reply:
        try:
            return self._client.ask(about, call)
        except UnknownMethodError:
            return self._client.ask(about, older)


def is_external(table: Any) -> bool:
    """Whether every release of Hive leaves the files of a table alone."""
    mark = str((table.parameters or {}).get("EXTERNAL"))
    return mark.lower() == "true" and str(table.tableType) == EXTERNAL_TABLE


def make_external(table: Any) -> None:
    """Changes the description of a table so that `is_external` is true."""
    table.tableType, table.parameters = EXTERNAL_TABLE, {**(table.parameters or {}), "EXTERNAL": "TRUE"}


def _present(found: Any, about: str) -> Any:
    if found is None:
        raise StorageError(f"the Hive metastore does not describe {about}: an empty reply")
    return found


def _texts(found: Any, about: str) -> list[str]:
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise StorageError(f"the Hive metastore does not list {about}: no list of names")
    return found


def _checked(table: Any, about: str) -> Any:
    """The table, if it has what every table has."""
    if table is None or not table.tableName or not isinstance(table.tableName, str):
        raise StorageError(f"the Hive metastore describes a table of {about} without a name")
    return table
