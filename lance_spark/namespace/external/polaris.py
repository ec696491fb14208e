"""An Apache Polaris catalog as a catalog of Lance tables, which are generic tables there.

The first level of each name is the catalog of Polaris. Namespaces are those of its Iceberg REST interface.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from secrets import token_hex
from typing import Any
from urllib.parse import quote

from lance_spark.errors import NotFoundError
from lance_spark.namespace.external.catalog import CREATION, TABLE_TYPE, CatalogedTable, Kind
from lance_spark.namespace.external.iceberg_namespaces import VENDED, WITHOUT_HISTORY, Warehouse
from lance_spark.namespace.external.iceberg_views import IcebergViews
from lance_spark.namespace.external.server_settings import (
    COMMON_SETTINGS,
    address,
    server_of,
    vends_credentials,
    with_and_without,
    with_level,
)
from lance_spark.namespace.external.vended_credentials import iceberg_options
from lance_spark.namespace.external.vending_catalog import texts
from lance_spark.namespace.object_id import Identifier, format_identifier
from lance_spark.namespace.settings import read_settings
from lance_spark.storage.server_errors import LostReplyError

_API = "/api/catalog"
SETTINGS = with_and_without("polaris", {**COMMON_SETTINGS, "catalog": "catalog", "warehouse": "catalog"})


class PolarisCatalog(IcebergViews):
    """The Lance tables of a Polaris server."""

    @classmethod
    def of_settings(
        cls, settings: Mapping[str, str], parent: Identifier, storage_options: Mapping[str, str]
    ) -> PolarisCatalog:
        """The catalog with these settings.

        Raises:
            InvalidInputError: a setting is unknown, missing or invalid.
            StorageError: the client is not installed.
        """
        read = read_settings("polaris", settings, SETTINGS, has_headers=True)
        # Clients of Iceberg have the address with the path of the interface.
        url = address(read).removesuffix(_API) + _API
        server = server_of(read, url, "the Polaris", token_path="/v1/oauth/tokens", scope="PRINCIPAL_ROLE:ALL")
        levels = with_level(read, "catalog", parent)
        return cls(server, levels, storage_options, root=read.text("root"), vends=vends_credentials(read))

    def warehouse(self, name: str) -> Warehouse:
        # Addresses are fixed here, so nothing has to be asked for.
        return Warehouse(f"/v1/{quote(name, safe='')}", lists_views=True, keeps_views=True)

    def describe_namespace(self, path: Identifier) -> Mapping[str, str]:
        if len(path) == 1:
            self.require_findable(path)
            super().warehouse(path[0])  # Raises if there is none.
            return {}
        return super().describe_namespace(path)

    def list_tables(self, namespace: Identifier = ()) -> list[str]:
        full = self._full(namespace)
        self.require_findable(full)
        return sorted(name for name, kind in self._generic_tables(full) if kind is Kind.TABLE) if len(full) > 1 else []

    def child_tables(self, namespace: Identifier) -> Iterable[tuple[str, Kind]]:
        self.require_findable(namespace)
        if len(namespace) < 2:
            return []
        others = [(name, Kind.OTHER) for name in self.names(f"{self.route(namespace)}/tables", namespace)]
        listed = [*self._generic_tables(namespace), *self.views_of(namespace)]
        names = {name for name, _ in listed}
        return [*listed, *(item for item in others if item[0] not in names)]

    def look_up(self, identifier: Identifier, *, vends: bool) -> CatalogedTable:
        self.require_findable(identifier)
        if len(identifier) < 3:
            raise NotFoundError(f"{format_identifier(identifier)} of {self.description} is no table")
        about, name = format_identifier(identifier), quote(identifier[-1], safe="")
        try:
            headers = VENDED if vends else {}
            answer = self.sent("GET", f"{self._generic(identifier[:-1])}/{name}", about, headers=headers)
        except NotFoundError:
            # It may be an Iceberg table, which has the name too. Raises if it is not.
            self.sent("GET", f"{self.route(identifier[:-1])}/tables/{name}", about, query=WITHOUT_HISTORY)
            return CatalogedTable("", "iceberg")
        return self._cataloged(answer, about)

    def add_table(
        self, identifier: Identifier, location: str, properties: Mapping[str, str]
    ) -> Mapping[str, str] | None:
        about = format_identifier(identifier)
        mark = token_hex(16)
        body = {
            "name": identifier[-1],
            "format": "lance",
            "base-location": location,
            "properties": {**properties, TABLE_TYPE: "lance", CREATION: mark},
        }
        headers = VENDED if self._vends else {}
        try:
            answer = self.sent("POST", self._generic(identifier[:-1]), about, body=body, headers=headers)
        except LostReplyError as lost:
            return self.settled(lost, lambda: self.ours(identifier, location, mark)).storage_options
        table = answer.get("table")
        self.check_place(identifier, location, table.get("base-location") if isinstance(table, dict) else None)
        return iceberg_options(location, answer) if self._vends else {}

    def remove_table(self, identifier: Identifier) -> None:
        self.require_findable(identifier)
        path = f"{self._generic(identifier[:-1])}/{quote(identifier[-1], safe='')}"
        self.deleted(path, format_identifier(identifier), lambda: self.look_up(identifier, vends=False))

    def _generic(self, namespace: Identifier) -> str:
        """The path of the generic tables of a namespace."""
        return f"/polaris{self.route(namespace)}/generic-tables"

    def _generic_tables(self, namespace: Identifier) -> list[tuple[str, Kind]]:
        return self.with_kinds(namespace, self.names(self._generic(namespace), namespace), self.kind_of_table)

    def _cataloged(self, answer: Mapping[str, Any], about: str) -> CatalogedTable:
        table = answer.get("table")
        if not isinstance(table, dict):
            raise self.nonsense(about, "it has no table")
        location, kind = table.get("base-location"), table.get("format")
        location = location if isinstance(location, str) else ""
        given = texts(table.get("properties"))
        properties = {name: value for name, value in given.items() if name not in (TABLE_TYPE, CREATION)}
        options = iceberg_options(location, answer) if location and self._vends else {}
        kind = kind if isinstance(kind, str) else ""
        return CatalogedTable(location, kind, properties, options, given.get(CREATION, ""))
