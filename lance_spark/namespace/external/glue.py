"""Lance tables in AWS Glue's Data Catalog (Lance namespace specification, Glue). The client needs the extra ``glue``.

A namespace is a database, and there is one level of them. Glue folds names to lower case, so names are looked up and
stored that way. It has neither renaming nor transactions: a rename adds the new name before it removes the old one.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from lance_spark.errors import InvalidInputError, NotEmptyError, NotFoundError, StorageError
from lance_spark.namespace.external.catalog import CREATION, CatalogedTable, Kind
from lance_spark.namespace.external.glue_client import FIELDS, GlueClient, database_with, parameters_of
from lance_spark.namespace.external.glue_views import (
    GlueViews,
    cataloged,
    require_database,
    require_levels,
    require_name,
)
from lance_spark.namespace.external.metastore_tables import (
    COLUMN,
    EXTERNAL_TABLE,
    INPUT_FORMAT,
    OUTPUT_FORMAT,
    SERDE,
    marked,
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


class GlueCatalog(GlueViews):
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
        require_name(path[0])
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

    def child_tables(self, namespace: Identifier) -> Iterator[tuple[str, Kind]]:
        if not namespace:
            return
        about = format_identifier(namespace)
        require_levels(namespace, 1, self.description)
        for found in self._glue.pages("get_tables", "TableList", about, DatabaseName=namespace[0]):
            yield self._name(found), cataloged(found).kind

    def describe_table(self, identifier: Identifier) -> CatalogedTable:
        return cataloged(self.entry(identifier))

    def add_table(self, identifier: Identifier, location: str, properties: Mapping[str, str]) -> None:
        require_database(identifier)
        require_name(identifier[1])
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
        self.create(identifier, described, mark)

    def remove_table(self, identifier: Identifier) -> None:
        self.remove(identifier)

    def move_table(self, old: Identifier, new: Identifier) -> None:
        self.move(old, self.entry(old), new)

    def default_location(self, identifier: Identifier) -> str:
        require_database(identifier)
        database, name = identifier
        require_name(name)
        place = str(self._database((database,)).get("LocationUri") or "")
        if self._root is not None:
            return below(self._root, f"{database}/{name}.lance")
        if not place:
            raise InvalidInputError(
                f"nothing says where tables of {database} lie: set `root` of the catalog, or the location of the "
                "database, or give LOCATION"
            )
        return below(place, f"{name}.lance")

    def _found(self, path: Identifier) -> Mapping[str, Any] | None:
        try:
            return self._database(path)
        except NotFoundError:
            return None

    def _database(self, path: Identifier) -> Mapping[str, Any]:
        require_levels(path, 1, self.description)
        reply = self._glue.ask("get_database", format_identifier(path), Name=path[0])
        return self.described_object(reply.get("Database"), path)

    def _name(self, found: Mapping[str, Any]) -> str:
        name = found.get("Name")
        if not name or not isinstance(name, str):
            raise StorageError(f"{self.description} lists an object without a name")
        return name
