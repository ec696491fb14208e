"""Lance tables in AWS Glue's Data Catalog (Lance namespace specification, Glue). The client needs the extra ``glue``.

A namespace is a database, and there is one level of them. Glue folds names to lower case, so names are looked up and
stored that way. It has neither renaming nor transactions: a rename adds the new name before it removes the old one.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from lance_spark.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LanceError,
    NotEmptyError,
    NotFoundError,
    StorageError,
)
from lance_spark.namespace.external.catalog import CREATION, CatalogedTable, ExternalCatalog
from lance_spark.namespace.external.glue_client import FIELDS, GlueClient, database_with, parameters_of
from lance_spark.namespace.external.metastore_tables import (
    COLUMN,
    EXTERNAL_TABLE,
    INPUT_FORMAT,
    OUTPUT_FORMAT,
    SERDE,
    marked,
    table_format,
    user_properties,
)
from lance_spark.namespace.object_id import Identifier, format_identifier
from lance_spark.namespace.settings import CatalogSettings, read_settings
from lance_spark.storage.paths import absolute_uri, below
from lance_spark.storage.server_errors import LostReplyError

SETTINGS = {
    name: name
    for name in (
        *("region", "endpoint", "catalog_id", "access_key_id", "secret_access_key", "session_token", "profile_name"),
        "root",
    )
}
_TABLE_TYPE = "LANCE"
_LONGEST_NAME = 255


class GlueCatalog(ExternalCatalog):
    """The Lance tables of a Data Catalog, one for each account and region.

    Args:
        settings: by the names of `SETTINGS`.
        parent: the levels above the root of this catalog, which stand before each name.
        storage_options: of the store; Glue sends none.

    Raises:
        InvalidInputError: a half of a pair of keys.
        StorageError: botocore is not installed.
    """

    folds_case = True

    def __init__(
        self, settings: CatalogSettings, parent: Identifier = (), storage_options: Mapping[str, str] | None = None
    ) -> None:
        text = settings.text
        if bool(text("access_key_id")) != bool(text("secret_access_key")):
            raise InvalidInputError("access_key_id and secret_access_key of a Glue catalog are set together")
        if text("session_token") and not text("access_key_id"):
            raise InvalidInputError("session_token of a Glue catalog needs access_key_id and secret_access_key")
        places = [place for place in (text("catalog_id"), text("region"), text("endpoint")) if place]
        super().__init__(f"Glue ({', '.join(places)})" if places else "Glue", parent, storage_options)
        self._root = absolute_uri(text("root") or "") if text("root") else None
        self._glue = GlueClient(settings, self.description)

    @classmethod
    def of_settings(
        cls, settings: Mapping[str, str], parent: Identifier, storage_options: Mapping[str, str]
    ) -> GlueCatalog:
        """The catalog with these settings."""
        return cls(read_settings("glue", settings, SETTINGS), parent, storage_options)

    def child_namespaces(self, parent: Identifier) -> Iterator[str]:
        if parent:
            self._database(parent)  # It has no children, but it exists.
            return
        for found in self._glue.pages("get_databases", "DatabaseList", "the databases"):
            yield self._name(found)

    def describe_namespace(self, path: Identifier) -> Mapping[str, str]:
        found = self._database(path)
        properties = dict(parameters_of(found))
        properties |= {name: str(found[field]) for name, field in FIELDS.items() if found.get(field)}
        return properties

    def add_namespace(self, path: Identifier, properties: Mapping[str, str]) -> None:
        if len(path) != 1:
            raise InvalidInputError(f"Glue has one level of namespaces; {format_identifier(path)} has {len(path)}")
        _require_name(path[0])
        described = database_with({"Name": path[0]}, properties)
        try:
            self._glue.change("create_database", format_identifier(path), DatabaseInput=described)
        except LostReplyError:
            # Whoever made it: there is a database as it was asked for.
            found = self._found(path)
            if found is None or any(found.get(name) != value for name, value in described.items()):
                raise

    def alter_namespace(self, path: Identifier, updates: Mapping[str, str | None]) -> None:
        found, kept = self._database(path), self._glue.fields("UpdateDatabase", "DatabaseInput")
        described = database_with({name: value for name, value in found.items() if name in kept}, updates)
        self._glue.change("update_database", format_identifier(path), Name=path[0], DatabaseInput=described)

    def remove_namespace(self, path: Identifier) -> None:
        self._database(path)
        # Glue deletes a database with its tables, of all formats.
        for name, _ in self.child_tables(path):
            raise NotEmptyError(f"{format_identifier(path)} of {self.description} holds the table {name!r}")
        try:
            self._glue.change("delete_database", format_identifier(path), Name=path[0])
        except LostReplyError:
            if self._found(path) is not None:
                raise

    def child_tables(self, namespace: Identifier) -> Iterator[tuple[str, bool]]:
        if not namespace:
            return
        about = format_identifier(namespace)
        _require_levels(namespace, 1, self.description)
        for found in self._glue.pages("get_tables", "TableList", about, DatabaseName=namespace[0]):
            yield self._name(found), self._described(found).is_lance

    def describe_table(self, identifier: Identifier) -> CatalogedTable:
        return self._described(self._table(identifier))

    def add_table(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> None:
        if len(identifier) != 2:
            raise InvalidInputError(f"a table of Glue is in a database; {format_identifier(identifier)} is not")
        _require_name(identifier[1])
        name, kind, comment = COLUMN
        mark = secrets.token_hex(16)
        described = {
            "Name": identifier[1],
            "TableType": EXTERNAL_TABLE,
            "Parameters": marked(properties, _TABLE_TYPE),
            "StorageDescriptor": {
                "Location": location,
                "Columns": [{"Name": name, "Type": kind, "Comment": comment}],
                "InputFormat": INPUT_FORMAT,
                "OutputFormat": OUTPUT_FORMAT,
                "SerdeInfo": {"SerializationLibrary": SERDE, "Parameters": {CREATION: mark}},
            },
        }
        self._create(identifier, described, mark)

    def remove_table(self, identifier: Identifier) -> None:
        _require_levels(identifier, 2, self.description)
        about = format_identifier(identifier)
        try:
            self._glue.change("delete_table", about, DatabaseName=identifier[0], Name=identifier[1])
        except LostReplyError as error:
            if self._looked_for(identifier, error) is not None:
                raise

    def default_location(self, identifier: Identifier) -> str:
        if len(identifier) != 2:
            raise InvalidInputError(f"a table of Glue is in a database; {format_identifier(identifier)} is not")
        database, name = identifier
        _require_name(name)
        place = str(self._database((database,)).get("LocationUri") or "")
        if self._root is not None:
            return below(self._root, f"{database}/{name}.lance")
        if not place:
            raise InvalidInputError(
                f"nothing says where tables of {database} lie: set `root` of the catalog, or the location of the "
                "database, or give LOCATION"
            )
        return below(place, f"{name}.lance")

    def move_table(self, old: Identifier, new: Identifier) -> None:
        if len(new) != 2:
            raise InvalidInputError(f"a table of Glue is in a database; {format_identifier(new)} is not")
        _require_name(new[1])
        kept, mark = self._glue.fields("CreateTable", "TableInput"), secrets.token_hex(16)
        described = {name: value for name, value in self._table(old).items() if name in kept}
        described["Name"] = new[1]
        storage = dict(described.get("StorageDescriptor") or {})
        serde = dict(storage.get("SerdeInfo") or {})
        serde["Parameters"] = {**(serde.get("Parameters") or {}), CREATION: mark}
        described["StorageDescriptor"] = {**storage, "SerdeInfo": serde}
        self._create(new, described, mark)
        try:
            self.remove_table(old)
        except LostReplyError as error:
            # It may be removed later than we can look: a name too many harms less than none.
            raise self._twice(old, new, error) from error
        except LanceError as error:
            try:
                self.remove_table(new)
            except LanceError as failure:
                raise self._twice(old, new, failure) from error
            raise

    def _twice(self, old: Identifier, new: Identifier, error: LanceError) -> StorageError:
        return StorageError(
            f"{format_identifier(old)} has the second name {format_identifier(new)} now, and may have kept the first: "
            f"{error}. DROP one of them without PURGE"
        )

    def _create(self, identifier: Identifier, described: Mapping[str, Any], mark: str) -> None:
        try:
            self._glue.change(
                "create_table", format_identifier(identifier), DatabaseName=identifier[0], TableInput=described
            )
        except LostReplyError as error:
            found = self._looked_for(identifier, error)
            if found is None:
                raise
            if _storage(found, "SerdeInfo", "Parameters").get(CREATION) != mark:
                raise AlreadyExistsError(f"{format_identifier(identifier)} exists in {self.description}") from error

    def _found(self, path: Identifier) -> Mapping[str, Any] | None:
        try:
            return self._database(path)
        except NotFoundError:
            return None

    def _looked_for(self, identifier: Identifier, lost: LostReplyError) -> Mapping[str, Any] | None:
        """The table after a change whose reply is lost; None if there is none. Raises `lost` if nobody knows."""
        try:
            return self._table(identifier)
        except NotFoundError:
            return None
        except LanceError:
            raise lost from None

    def _database(self, path: Identifier) -> Mapping[str, Any]:
        _require_levels(path, 1, self.description)
        reply = self._glue.ask("get_database", format_identifier(path), Name=path[0])
        return self._object(reply.get("Database"), path)

    def _table(self, identifier: Identifier) -> Mapping[str, Any]:
        _require_levels(identifier, 2, self.description)
        about = format_identifier(identifier)
        reply = self._glue.ask("get_table", about, DatabaseName=identifier[0], Name=identifier[1])
        return self._object(reply.get("Table"), identifier)

    def _object(self, found: Any, identifier: Identifier) -> Mapping[str, Any]:
        if not isinstance(found, dict):
            raise StorageError(f"{self.description} does not describe {format_identifier(identifier)}: an empty reply")
        return found

    def _described(self, table: Mapping[str, Any]) -> CatalogedTable:
        storage, parameters = _storage(table), parameters_of(table)
        kind = table_format(parameters, str(table.get("TableType") or ""), str(storage.get("InputFormat") or ""))
        return CatalogedTable(str(storage.get("Location") or ""), kind, user_properties(parameters))

    def _name(self, found: Mapping[str, Any]) -> str:
        name = found.get("Name")
        if not name or not isinstance(name, str):
            raise StorageError(f"{self.description} lists an object without a name")
        return name


def _require_name(name: str) -> None:
    """Raises `InvalidInputError` for a new name that Glue, or the path of a file, cannot have."""
    if len(name) > _LONGEST_NAME or "/" in name or "\\" in name or name in (".", ".."):
        raise InvalidInputError(f"the name {name[:80]!r} has a slash, or more than {_LONGEST_NAME} characters")


def _require_levels(path: Identifier, levels: int, description: str) -> None:
    if len(path) != levels or not all(path):
        raise NotFoundError(f"{description} has no {'database' if levels == 1 else 'table'} {format_identifier(path)}")


def _storage(table: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = table.get("StorageDescriptor") or {}
    for name in path:
        found = found.get(name) or {}
    return found
