"""A Unity Catalog as a catalog of Lance tables, which are external tables there (Unity Catalog API 2.1).

Names have exactly three levels: catalog, schema and table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from secrets import token_hex
from typing import Any
from urllib.parse import quote

from lance_spark.errors import InvalidInputError, LanceError, NotEmptyError, NotFoundError
from lance_spark.namespace.external.catalog import CREATION, TABLE_TYPE, CatalogedTable, Kind
from lance_spark.namespace.external.server_settings import (
    COMMON_SETTINGS,
    address,
    server_of,
    vends_credentials,
    with_and_without,
    with_level,
)
from lance_spark.namespace.external.vended_credentials import unity_options
from lance_spark.namespace.external.vending_catalog import VendingCatalog, is_text, texts
from lance_spark.namespace.object_id import Identifier, format_identifier
from lance_spark.namespace.settings import read_settings
from lance_spark.storage.server_errors import LostReplyError, RefusedError

_API = "/api/2.1/unity-catalog"
SETTINGS = with_and_without("unity", {**COMMON_SETTINGS, "catalog": "catalog"})
_PAGES = {"asks": "page_token", "answers": "next_page_token"}
_KINDS = ("catalogs", "schemas", "tables")
"""The objects of each level, as paths have them."""

_OF_CATALOG = {TABLE_TYPE: "lance", "managed_by": "catalog"}
_PLACEHOLDER = {
    "name": "__placeholder_id",
    "type_text": "LONG",
    "type_json": '{"type":"long"}',
    "type_name": "LONG",
    "position": 0,
    "nullable": True,
}
_FORBIDDEN = 403
_NO_CREDENTIALS = frozenset({404, 405, 501})
_PRECONDITION = "FAILED_PRECONDITION"


class UnityCatalog(VendingCatalog):
    """The Lance tables of a Unity Catalog."""

    @classmethod
    def of_settings(
        cls, settings: Mapping[str, str], parent: Identifier, storage_options: Mapping[str, str]
    ) -> UnityCatalog:
        """The catalog with these settings.

        Raises:
            InvalidInputError: a setting is unknown, missing or invalid.
            StorageError: the client is not installed.
        """
        read = read_settings("unity", settings, SETTINGS, has_headers=True)
        url = address(read).removesuffix(_API).removesuffix("/api/2.1") + _API
        # No address for tokens is common to all servers.
        server = server_of(read, url, "the Unity Catalog", token_path=None, scope="all-apis")
        levels = with_level(read, "catalog", parent)
        return cls(server, levels, storage_options, root=read.text("root"), vends=vends_credentials(read))

    def check_table_name(self, identifier: Identifier) -> None:
        self._require_sendable(identifier, (3,), "a table has a catalog and a schema before its name")

    def child_namespaces(self, parent: Identifier) -> Iterable[str]:
        if len(parent) > 1:
            self.describe_namespace(parent)
            return
        if not parent:
            yield from self._names("catalogs", parent, {})
            return
        self._require_findable(parent)
        yield from self._names("schemas", parent, {"catalog_name": parent[0]})

    def describe_namespace(self, path: Identifier) -> Mapping[str, str]:
        if len(path) > 2:
            raise NotFoundError(f"{format_identifier(path)} of {self.description} is no namespace")
        self._require_findable(path)
        answer = self.sent("GET", self._path(path), format_identifier(path))
        comment = answer.get("comment")
        described = {"comment": comment} if isinstance(comment, str) and comment else {}
        return {**texts(answer.get("properties")), **described}

    def add_namespace(self, path: Identifier, properties: Mapping[str, str]) -> None:
        self._require_sendable(path, (1, 2), "its namespaces are a catalog and a schema")
        given = dict(properties)
        body: dict[str, Any] = {"name": path[-1]}
        if len(path) == 2:
            body["catalog_name"] = path[0]
        if "comment" in given:
            body["comment"] = given.pop("comment")
        body["properties"] = given
        try:
            self.sent("POST", f"/{_KINDS[len(path) - 1]}", format_identifier(path), body=body)
        except LostReplyError as lost:
            self.settled(lost, lambda: self._has_properties(path, properties) or None)

    def remove_namespace(self, path: Identifier) -> None:
        if len(path) > 2:
            raise NotFoundError(f"{format_identifier(path)} of {self.description} is no namespace")
        self._require_findable(path)
        about = format_identifier(path)
        self.deleted(self._path(path), about, lambda: self.describe_namespace(path), conflict=NotEmptyError)

    def child_tables(self, namespace: Identifier) -> Iterable[tuple[str, Kind]]:
        if len(namespace) != 2:
            if namespace:
                self.describe_namespace(namespace)
            return
        self._require_findable(namespace)
        query = {"catalog_name": namespace[0], "schema_name": namespace[1]}
        for item in self._items("tables", namespace, query):
            is_lance = texts(item.get("properties")).get(TABLE_TYPE, "").lower() == "lance"
            yield item["name"], Kind.TABLE if is_lance else Kind.OTHER

    def look_up(self, identifier: Identifier, *, vends: bool) -> CatalogedTable:
        if len(identifier) != 3:
            raise NotFoundError(f"{format_identifier(identifier)} of {self.description} is no table")
        self._require_findable(identifier)
        answer = self.sent("GET", self._path(identifier), format_identifier(identifier))
        given, location = texts(answer.get("properties")), answer.get("storage_location")
        location = location if isinstance(location, str) else ""
        kind = given.get(TABLE_TYPE) or str(answer.get("data_source_format") or answer.get("table_type") or "")
        properties = {name: value for name, value in given.items() if name not in (*_OF_CATALOG, CREATION)}
        is_ours = kind.lower() == "lance"
        options = self._credentials(answer, location, identifier) if vends and is_ours else {}
        return CatalogedTable(location, kind, properties, options, given.get(CREATION, ""))

    def add_table(
        self, identifier: Identifier, location: str, properties: Mapping[str, str]
    ) -> Mapping[str, str] | None:
        mark = token_hex(16)
        body = {
            "name": identifier[2],
            "catalog_name": identifier[0],
            "schema_name": identifier[1],
            "table_type": "EXTERNAL",
            # The interface has a list of formats, and Lance is not in it.
            "data_source_format": "TEXT",
            "columns": [_PLACEHOLDER],
            "storage_location": location,
            "properties": {**properties, **_OF_CATALOG, CREATION: mark},
        }
        try:
            answer = self.sent("POST", "/tables", format_identifier(identifier), body=body)
        except LostReplyError as lost:
            return self.settled(lost, lambda: self.ours(identifier, location, mark)).storage_options
        self.check_place(identifier, location, answer.get("storage_location"))
        return self._credentials(answer, location, identifier) if self._vends else {}

    def remove_table(self, identifier: Identifier) -> None:
        self._require_findable(identifier)
        about = format_identifier(identifier)
        self.deleted(self._path(identifier), about, lambda: self.look_up(identifier, vends=False))

    def translate(self, error: RefusedError, conflict: type[LanceError]) -> LanceError:
        # Of a catalog or schema with content.
        if error.kind == _PRECONDITION and conflict is NotEmptyError:
            return NotEmptyError(str(error))
        return super().translate(error, conflict)

    def _credentials(self, answer: Mapping[str, Any], location: str, identifier: Identifier) -> dict[str, str]:
        """Storage options for a table; empty if the server gives none, or none to this user.

        Then the store is asked with the options of the session, and says itself if they are not enough.
        """
        table = answer.get("table_id")
        if not isinstance(table, str) or location.startswith(("/", "file:")):
            return {}
        about = f"credentials for {format_identifier(identifier)}"
        for operation in ("READ_WRITE", "READ"):  # The second for users who may only read.
            body = {"table_id": table, "operation": operation}
            try:
                # It changes nothing, so it may be repeated.
                sent = self._server.send("POST", "/temporary-table-credentials", about, body=body, may_repeat=True)
            except RefusedError as error:
                if error.status in _NO_CREDENTIALS or error.kind == _PRECONDITION:
                    return {}
                if error.status != _FORBIDDEN:
                    raise
            else:
                return unity_options(location, sent)
        return {}

    def _items(self, kind: str, about: Identifier, query: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
        shown = format_identifier(about)
        for item in self.listed(f"/{kind}", shown, query, **_PAGES, field=kind):
            if not isinstance(item, dict) or not isinstance(item.get("name"), str) or not item["name"]:
                raise self.nonsense(shown, f"one of its {kind} has no name")
            yield item

    def _names(self, kind: str, about: Identifier, query: Mapping[str, str]) -> Iterator[str]:
        return (item["name"] for item in self._items(kind, about, query))

    def _path(self, path: Identifier) -> str:
        return f"/{_KINDS[len(path) - 1]}/{'.'.join(quote(name, safe='') for name in path)}"

    def _is_sendable(self, path: Identifier) -> bool:
        """Whether each name can be a part of a full name, in which dots separate names."""
        return all(name and "." not in name and is_text(name) for name in path)

    def _require_findable(self, path: Identifier) -> None:
        if not self._is_sendable(path):
            raise NotFoundError(f"{path!r} is no name in {self.description}")

    def _require_sendable(self, path: Identifier, levels: tuple[int, ...], reason: str) -> None:
        if len(path) not in levels:
            raise InvalidInputError(f"{format_identifier(path)} is no name for {self.description}: {reason}")
        if not self._is_sendable(path):
            raise InvalidInputError(f"{path!r} has a name that {self.description} cannot keep, such as one with a dot")

    def _has_properties(self, path: Identifier, properties: Mapping[str, str]) -> bool:
        try:
            return properties.items() <= self.describe_namespace(path).items()
        except NotFoundError:
            return False
