"""The namespaces of an Iceberg REST catalog (Iceberg REST catalog specification), which Polaris has too.

The first level of each name is the warehouse, which has an address of its own on the server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from lance_spark.errors import InvalidInputError, NotEmptyError, NotFoundError, UnsupportedFeatureError
from lance_spark.namespace.external.catalog import Kind
from lance_spark.namespace.external.vending_catalog import VendingCatalog, is_text, texts
from lance_spark.namespace.object_id import Identifier, format_identifier
from lance_spark.storage.json_server import JsonServer
from lance_spark.storage.server_errors import LostReplyError, RefusedError

VENDED = {"X-Iceberg-Access-Delegation": "vended-credentials"}
"""The header of requests whose answer may have credentials."""

WITHOUT_HISTORY = {"snapshots": "refs"}
"""The parameter with which the server leaves old versions of Iceberg tables out of an answer."""

_PAGES = {"asks": "pageToken", "answers": "next-page-token"}
_LIST_WORKERS = 8
_FORBIDDEN = 403
_SEPARATOR = "%1F"
_VIEWS = "/v1/{prefix}/namespaces/{namespace}/views"
_LIST_VIEWS = f"GET {_VIEWS}"
_VIEW_ENDPOINTS = frozenset(
    {
        *(_LIST_VIEWS, f"POST {_VIEWS}", "POST /v1/{prefix}/views/rename"),
        *(f"{method} {_VIEWS}/{{view}}" for method in ("GET", "POST", "DELETE")),
    }
)
"""Endpoints that views need; a server that names no endpoints is an older one, without views."""
_PREFIX = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@%-]+(/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)*")


@dataclass(frozen=True, slots=True)
class Warehouse:
    """A warehouse, as its server describes it.

    Attributes:
        base: the part of the path before ``/namespaces``.
        separator: of the levels of a namespace in a path, quoted.
        lists_views: whether it lists views.
        keeps_views: whether it has all requests about views.
    """

    base: str
    separator: str = _SEPARATOR
    lists_views: bool = False
    keeps_views: bool = False


class IcebergNamespaces(VendingCatalog):
    """The namespaces of an Iceberg REST catalog; see `VendingCatalog` for the arguments."""

    def __init__(
        self,
        server: JsonServer,
        parent: Identifier = (),
        storage_options: Mapping[str, str] | None = None,
        *,
        root: str | None = None,
        vends: bool = True,
    ) -> None:
        super().__init__(server, parent, storage_options, root=root, vends=vends)
        self._warehouses: dict[str, Warehouse] = {}

    def warehouse(self, name: str) -> Warehouse:
        """The warehouse, which the server is asked for once.

        Raises:
            NotFoundError: there is no such warehouse.
        """
        found = self._warehouses.get(name)
        if found is None:
            about = f"warehouse {name}"
            found = self._warehouse_of(self.sent("GET", "/v1/config", about, query={"warehouse": name}), about)
            self._warehouses[name] = found
        return found

    def route(self, namespace: Identifier) -> str:
        """The path of a namespace; the first level is the warehouse."""
        warehouse = self.warehouse(namespace[0])
        return f"{warehouse.base}/namespaces/{self._joined(namespace[1:], warehouse)}"

    def check_table_name(self, identifier: Identifier) -> None:
        self.require_sendable(identifier, 3, "before the name of a table are its warehouse or catalog, and a namespace")

    def is_sendable(self, path: Identifier) -> bool:
        """Whether each name can be a part of a path: servers and clients take ``..`` and some others away."""
        if not all(name not in ("", ".", "..") and is_text(name) for name in path):
            return False
        separator = unquote(self.warehouse(path[0]).separator) if len(path) > 1 else ""
        return not separator or not any(separator in name for name in path[1:])

    def child_namespaces(self, parent: Identifier) -> Iterable[str]:
        if not parent:
            raise UnsupportedFeatureError(
                f"{self.description} has no list of its warehouses; set warehouse, or begin names with it",
                feature="list of warehouses",
            )
        self.require_findable(parent)
        warehouse, about = self.warehouse(parent[0]), format_identifier(parent)
        levels = list(parent[1:])
        query = {"parent": unquote(warehouse.separator).join(levels)} if levels else {}
        path = f"{warehouse.base}/namespaces"
        for found in self.listed(path, about, query, **_PAGES, field="namespaces"):
            if not (isinstance(found, list) and found and found[:-1] == levels and isinstance(found[-1], str)):
                raise self.nonsense(about, "its namespaces are not those of the one that was asked for")
            yield found[-1]

    def describe_namespace(self, path: Identifier) -> Mapping[str, str]:
        self.require_findable(path)
        if len(path) == 1:
            self.warehouse(path[0])
            return {}
        return texts(self.sent("GET", self.route(path), format_identifier(path)).get("properties"))

    def add_namespace(self, path: Identifier, properties: Mapping[str, str]) -> None:
        self.require_sendable(path, 2, "a warehouse is made on the server")
        warehouse = self.warehouse(path[0])
        body = {"namespace": list(path[1:]), "properties": dict(properties)}
        try:
            self.sent("POST", f"{warehouse.base}/namespaces", format_identifier(path), body=body)
        except LostReplyError as lost:
            self.settled(lost, lambda: self._has_properties(path, properties) or None)

    def alter_namespace(self, path: Identifier, updates: Mapping[str, str | None]) -> None:
        self.require_findable(path)
        if len(path) < 2:
            raise InvalidInputError(f"{format_identifier(path)} is a warehouse, whose properties are the server's")
        changed = {name: value for name, value in updates.items() if value is not None}
        removed = [name for name, value in updates.items() if value is None]
        body = {"removals": removed, "updates": changed}
        try:
            self.sent("POST", f"{self.route(path)}/properties", format_identifier(path), body=body)
        except LostReplyError as lost:
            self.settled(lost, lambda: self._has_properties(path, changed, without=removed) or None)

    def remove_namespace(self, path: Identifier) -> None:
        self.require_findable(path)
        if len(path) < 2:
            raise InvalidInputError(f"{format_identifier(path)} is a warehouse, which is dropped on the server")
        self.deleted(
            self.route(path), format_identifier(path), lambda: self.describe_namespace(path), conflict=NotEmptyError
        )

    def _warehouse_of(self, answer: Mapping[str, Any], about: str) -> Warehouse:
        # Overrides are the server's last word, defaults its first.
        said = {**texts(answer.get("defaults")), **texts(answer.get("overrides"))}
        prefix, separator = said.get("prefix", "").strip("/"), said.get("namespace-separator", _SEPARATOR)
        if prefix and (not _PREFIX.fullmatch(prefix) or {".", ".."}.intersection(prefix.split("/"))):
            raise self.nonsense(about, f"the prefix {prefix!r} cannot be a part of an address")
        if not unquote(separator):
            raise self.nonsense(about, "the separator of namespaces is empty")
        endpoints = answer.get("endpoints")
        named = {name for name in endpoints if isinstance(name, str)} if isinstance(endpoints, list) else set()
        base = f"/v1/{prefix}" if prefix else "/v1"
        return Warehouse(base, separator, _LIST_VIEWS in named, named >= _VIEW_ENDPOINTS)

    def _joined(self, levels: Identifier, warehouse: Warehouse) -> str:
        return quote(unquote(warehouse.separator), safe="").join(quote(level, safe="") for level in levels)

    def require_findable(self, path: Identifier) -> None:
        """Raises `NotFoundError` for a name that no request can ask for."""
        if path and not self.is_sendable(path):
            raise NotFoundError(f"{path!r} is no name in {self.description}")

    def require_sendable(self, path: Identifier, levels: int, reason: str) -> None:
        """Raises `InvalidInputError` for a name that cannot be made, or one with too few levels for the `reason`."""
        if len(path) < levels:
            raise InvalidInputError(f"{format_identifier(path)} has too few levels for {self.description}: {reason}")
        if not self.is_sendable(path):
            raise InvalidInputError(f"{path!r} has a name that {self.description} cannot keep")

    def names(self, path: str, namespace: Identifier) -> list[str]:
        """The names in the listing at `path`, which is one of a namespace."""
        about, names = format_identifier(namespace), []
        for found in self.listed(path, about, {}, **_PAGES, field="identifiers"):
            name = found.get("name") if isinstance(found, dict) else None
            if not isinstance(name, str) or not name:
                raise self.nonsense(about, "a table or view in it has no name")
            names.append(name)
        return names

    def with_kinds(
        self, namespace: Identifier, names: Iterable[str], kind_of: Callable[[Identifier], Kind]
    ) -> list[tuple[str, Kind]]:
        """The objects of a listing with their kinds.

        A listing does not say that, so each object is loaded, some at a time.

        Args:
            kind_of: loads one. Raises `NotFoundError` if it was removed since the listing.
        """

        def kind(identifier: Identifier) -> Kind | None:
            if not self.is_sendable(identifier):
                return Kind.OTHER
            try:
                return kind_of(identifier)
            except NotFoundError:
                return None
            except RefusedError as error:
                if error.status != _FORBIDDEN:
                    raise
                return Kind.OTHER  # Who may not load an object cannot use it.

        found = list(names)
        with ThreadPoolExecutor(_LIST_WORKERS) as pool:
            kinds = list(pool.map(kind, [(*namespace, name) for name in found]))
        return [(name, kind) for name, kind in zip(found, kinds, strict=True) if kind is not None]

    def kind_of_table(self, identifier: Identifier) -> Kind:
        """The kind of a table. Raises `NotFoundError`."""
        return self.look_up(identifier, vends=False).kind

    def _has_properties(self, path: Identifier, properties: Mapping[str, str], without: Iterable[str] = ()) -> bool:
        try:
            found = self.describe_namespace(path)
        except NotFoundError:
            return False
        return properties.items() <= found.items() and not set(without).intersection(found)
