"""An Iceberg REST catalog as a catalog of Lance tables (Iceberg REST catalog specification).

A Lance table is kept as an Iceberg table with a placeholder column and the property ``table_type = lance``, as the
field's other implementations keep it. The first level of each name is the warehouse.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from secrets import token_hex
from typing import Any
from urllib.parse import quote

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.namespace.external.catalog import CREATION, TABLE_TYPE, CatalogedTable, Kind
from lance_spark.namespace.external.iceberg_namespaces import VENDED, WITHOUT_HISTORY
from lance_spark.namespace.external.iceberg_views import IcebergViews
from lance_spark.namespace.external.server_settings import (
    COMMON_SETTINGS,
    address,
    server_of,
    vends_credentials,
    with_level,
)
from lance_spark.namespace.external.vended_credentials import iceberg_options
from lance_spark.namespace.external.vending_catalog import texts
from lance_spark.namespace.object_id import Identifier, format_identifier
from lance_spark.namespace.settings import read_settings
from lance_spark.storage.server_errors import LostReplyError

SETTINGS = {**COMMON_SETTINGS, "warehouse": "warehouse"}
_PLACEHOLDER = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "dummy", "required": False, "type": "string"}],
}
_METADATA = re.compile(r"metadata/[^/]*\.metadata\.json(\.gz)?")


class IcebergRestCatalog(IcebergViews):
    """The Lance tables of an Iceberg REST catalog."""

    @classmethod
    def of_settings(
        cls, settings: Mapping[str, str], parent: Identifier, storage_options: Mapping[str, str]
    ) -> IcebergRestCatalog:
        """The catalog with these settings.

        Raises:
            InvalidInputError: a setting is unknown, missing or invalid.
            StorageError: the client is not installed.
        """
        read = read_settings("iceberg", settings, SETTINGS, has_headers=True)
        server = server_of(read, address(read), "the Iceberg catalog", token_path="/v1/oauth/tokens", scope="catalog")
        levels = with_level(read, "warehouse", parent)
        return cls(server, levels, storage_options, root=read.text("root"), vends=vends_credentials(read))

    def list_tables(self, namespace: Identifier = ()) -> list[str]:
        return sorted(name for name, kind in self._tables(self._full(namespace)) if kind is Kind.TABLE)

    def child_tables(self, namespace: Identifier) -> Iterable[tuple[str, Kind]]:
        tables = self._tables(namespace)
        return [*tables, *self.views_of(namespace)] if len(namespace) > 1 else tables

    def _tables(self, namespace: Identifier) -> list[tuple[str, Kind]]:
        self.require_findable(namespace)
        if len(namespace) < 2:
            return []
        return self.with_kinds(namespace, self.names(f"{self.route(namespace)}/tables", namespace), self.kind_of_table)

    def look_up(self, identifier: Identifier, *, vends: bool) -> CatalogedTable:
        self.require_findable(identifier)
        if len(identifier) < 3:
            raise NotFoundError(f"{format_identifier(identifier)} of {self.description} is no table")
        about, path = format_identifier(identifier), self._path(identifier)
        answer = self.sent("GET", path, about, query=WITHOUT_HISTORY, headers=VENDED if vends else {})
        return self._cataloged(answer, about)

    def add_table(
        self, identifier: Identifier, location: str, properties: Mapping[str, str]
    ) -> Mapping[str, str] | None:
        mark = token_hex(16)
        body = {
            "name": identifier[-1],
            "location": location,
            "schema": _PLACEHOLDER,
            "properties": {**properties, TABLE_TYPE: "lance", CREATION: mark},
        }
        path, headers = f"{self.route(identifier[:-1])}/tables", VENDED if self._vends else {}
        try:
            answer = self.sent("POST", path, format_identifier(identifier), body=body, headers=headers)
        except LostReplyError as lost:
            return self.settled(lost, lambda: self.ours(identifier, location, mark)).storage_options
        metadata = answer.get("metadata")
        self.check_place(identifier, location, metadata.get("location") if isinstance(metadata, dict) else None)
        return iceberg_options(location, answer) if self._vends else {}

    def remove_table(self, identifier: Identifier) -> None:
        self.require_findable(identifier)
        about, path = format_identifier(identifier), self._path(identifier)
        # The files are not Iceberg's, so the server could not find them.
        query = {"purgeRequested": "false"}
        self.deleted(path, about, lambda: self.look_up(identifier, vends=False), query=query)

    def move_table(self, old: Identifier, new: Identifier) -> None:
        if old[0] != new[0]:
            raise InvalidInputError(
                f"{format_identifier(old)} cannot be renamed into warehouse {new[0]!r}, another one"
            )
        self.check_table_name(new)
        body = {
            "source": {"namespace": list(old[1:-1]), "name": old[-1]},
            "destination": {"namespace": list(new[1:-1]), "name": new[-1]},
        }
        before = self.look_up(old, vends=False)
        try:
            self.sent("POST", f"{self.warehouse(old[0]).base}/tables/rename", format_identifier(old), body=body)
        except LostReplyError as lost:
            self.settled(lost, lambda: None if self._is_left(old) else self.ours(new, before.location))

    def is_of_catalog(self, path: str) -> bool:
        return _METADATA.fullmatch(path) is not None

    def _path(self, identifier: Identifier) -> str:
        return f"{self.route(identifier[:-1])}/tables/{quote(identifier[-1], safe='')}"

    def _cataloged(self, answer: Mapping[str, Any], about: str) -> CatalogedTable:
        metadata = answer.get("metadata")
        if not isinstance(metadata, dict):
            raise self.nonsense(about, "it has no metadata")
        given, location = texts(metadata.get("properties")), metadata.get("location")
        location = location if isinstance(location, str) else ""
        properties = {name: value for name, value in given.items() if name not in (TABLE_TYPE, CREATION)}
        options = iceberg_options(location, answer) if location and self._vends else {}
        return CatalogedTable(location, given.get(TABLE_TYPE, "iceberg"), properties, options, given.get(CREATION, ""))

    def _is_left(self, identifier: Identifier) -> bool:
        try:
            self.look_up(identifier, vends=False)
        except NotFoundError:
            return False
        return True
