"""Servers of Iceberg REST and Polaris for tests; see `catalog_servers`."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.catalog_servers import CatalogServer, Refusal, Request, need

_ENDPOINTS = (
    "GET /v1/{prefix}/namespaces",
    "POST /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "DELETE /v1/{prefix}/namespaces/{namespace}",
    "POST /v1/{prefix}/namespaces/{namespace}/properties",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "POST /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/tables/rename",
)
VIEW_ENDPOINTS = (
    "GET /v1/{prefix}/namespaces/{namespace}/views",
    "POST /v1/{prefix}/namespaces/{namespace}/views",
    "GET /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "POST /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "POST /v1/{prefix}/views/rename",
)


@dataclass
class IcebergTable:
    location: str
    properties: dict[str, str]
    uuid: str = field(default_factory=lambda: str(uuid.uuid4()))


class IcebergServer(CatalogServer):
    """An Iceberg REST catalog with one warehouse ``wh``, whose prefix is another word.

    Attributes:
        moves_to: where the server puts new tables instead of where it is asked to; "" for not saying it.
        config: that of loaded tables.
        storage_credentials: those of loaded tables.
        endpoints: what it says that it has; None for not saying it.
        views: their metadata.
    """

    PREFIX = "wh-uuid"
    WAREHOUSE = "wh"

    def __init__(self) -> None:
        super().__init__()
        self.namespaces: dict[tuple[str, ...], dict[str, str]] = {}
        self.tables: dict[tuple[tuple[str, ...], str], IcebergTable] = {}
        self.views: dict[tuple[tuple[str, ...], str], dict[str, Any]] = {}
        self.endpoints: list[str] | None = [*_ENDPOINTS, *VIEW_ENDPOINTS]
        self.moves_to: str | None = None
        self.config: dict[str, str] = {}
        self.storage_credentials: list[dict[str, Any]] = []
        self.overrides: dict[str, str] = {}

    def serve(self, request: Request, segments: list[str]) -> tuple[int, Any]:
        if segments == ["v1", "oauth", "tokens"] and request.method == "POST":
            return self.grant(request)
        if segments == ["v1", "config"] and request.method == "GET":
            need(request.query.get("warehouse") == self.WAREHOUSE, 404, "NoSuchWarehouseException")
            defaults = {"prefix": self.PREFIX}
            told = {} if self.endpoints is None else {"endpoints": self.endpoints}
            return 200, {"defaults": defaults, "overrides": self.overrides, **told}
        need(segments[:2] == ["v1", self.PREFIX], 404, "", "no route")
        method, rest = request.method, segments[2:]
        if rest == ["namespaces"]:
            return self._list_namespaces(request) if method == "GET" else self._create_namespace(request.body)
        if rest == ["tables", "rename"] and method == "POST":
            return self._rename(request.body, self.tables, "NoSuchTableException")
        if rest == ["views", "rename"] and method == "POST":
            return self._rename(request.body, self.views, "NoSuchViewException")
        need(rest[:1] == ["namespaces"] and 2 <= len(rest) <= 4, 404, "", "no route")
        namespace = tuple(rest[1].split("\x1f"))
        need(namespace in self.namespaces, 404, "NoSuchNamespaceException", f"no namespace {namespace}")
        return self.in_namespace(request, namespace, rest[2:])

    def in_namespace(self, request: Request, namespace: tuple[str, ...], rest: list[str]) -> tuple[int, Any]:
        method = request.method
        if not rest and method == "GET":
            return 200, {"namespace": list(namespace), "properties": self.namespaces[namespace]}
        if not rest and method == "DELETE":
            return self._drop_namespace(namespace)
        if rest == ["properties"] and method == "POST":
            for name in request.body["removals"]:
                self.namespaces[namespace].pop(name, None)
            self.namespaces[namespace].update(request.body["updates"])
            return 200, {"updated": list(request.body["updates"]), "removed": request.body["removals"], "missing": []}
        if rest == ["tables"] and method == "POST":
            return self._create_table(request, namespace)
        if rest in (["tables"], ["views"]) and method == "GET":
            kept = [*(self.tables if rest == ["tables"] else self.views)]
            return self.names(request, namespace, [name for space, name in kept if space == namespace])
        if rest[:1] == ["views"]:
            return self._view(request, namespace, rest[1:])
        need(len(rest) == 2 and rest[0] == "tables", 404, "", "no route")
        found = self.tables.get((namespace, rest[1]))
        need(found is not None, 404, "NoSuchTableException", f"no table {rest[1]}")
        if method == "GET":
            need(set(request.query) <= {"snapshots"}, 400, "BadRequestException")
            return 200, self._loaded(request, found)
        need(method == "DELETE" and request.query.get("purgeRequested") == "false", 400, "BadRequestException")
        del self.tables[namespace, rest[1]]
        return 204, ""

    def _view(self, request: Request, namespace: tuple[str, ...], rest: list[str]) -> tuple[int, Any]:
        if not rest:
            key = namespace, request.body["name"]
            need(not self._is_taken(key), 409, "AlreadyExistsException", f"{key[1]} exists")
            self.views[key] = new_view(request.body)
            return 200, _loaded_view(self.views[key])
        key = namespace, rest[0]
        need(key in self.views, 404, "NoSuchViewException", f"no view {rest[0]}")
        if request.method == "POST":
            self.views[key] = changed_view(self.views[key], request.body)
        elif request.method == "DELETE":
            del self.views[key]
            return 204, ""
        return (204, "") if request.method == "HEAD" else (200, _loaded_view(self.views[key]))

    def _is_taken(self, key: tuple[tuple[str, ...], str]) -> bool:
        return key in self.tables or key in self.views or key in self.others()

    def names(self, request: Request, namespace: tuple[str, ...], names: list[str]) -> tuple[int, Any]:
        found, token = self.page(sorted(names), request.query.get("pageToken"))
        items = [{"namespace": list(namespace), "name": name} for name in found]
        return 200, {"identifiers": items, "next-page-token": token}

    def _list_namespaces(self, request: Request) -> tuple[int, Any]:
        parent = tuple(request.query["parent"].split("\x1f")) if "parent" in request.query else ()
        need(not parent or parent in self.namespaces, 404, "NoSuchNamespaceException", f"no namespace {parent}")
        children = [path for path in self.namespaces if path[:-1] == parent]
        found, token = self.page(sorted(children), request.query.get("pageToken"))
        return 200, {"namespaces": [list(path) for path in found], "next-page-token": token}

    def _create_namespace(self, body: Any) -> tuple[int, Any]:
        path = tuple(body["namespace"])
        need(path not in self.namespaces, 409, "AlreadyExistsException", f"{path} exists")
        need(len(path) == 1 or path[:-1] in self.namespaces, 404, "NoSuchNamespaceException", "no parent")
        self.namespaces[path] = dict(body["properties"])
        return 200, {"namespace": list(path), "properties": self.namespaces[path]}

    def _drop_namespace(self, namespace: tuple[str, ...]) -> tuple[int, Any]:
        content = [*self.tables, *self.views, *((path[:-1], path[-1]) for path in self.namespaces), *self.others()]
        need(not any(space == namespace for space, _ in content), 409, "NamespaceNotEmptyException", "not empty")
        del self.namespaces[namespace]
        return 204, ""

    def others(self) -> list[tuple[tuple[str, ...], str]]:
        return []

    def _create_table(self, request: Request, namespace: tuple[str, ...]) -> tuple[int, Any]:
        body = request.body
        need(body["schema"]["type"] == "struct" and body["schema"]["fields"], 400, "BadRequestException")
        key = namespace, body["name"]
        need(not self._is_taken(key), 409, "AlreadyExistsException", f"{body['name']} exists")
        location = body["location"] if self.moves_to is None else self.moves_to
        self.tables[key] = table = IcebergTable(location.rstrip("/"), dict(body.get("properties") or {}))
        if location.startswith("/"):  # As real servers write it.
            folder = Path(location, "metadata")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"00000-{table.uuid}.metadata.json").write_text("{}")
        return 200, self._loaded(request, table)

    def _rename(self, body: Any, kept: dict[Any, Any], missing: str) -> tuple[int, Any]:
        old, new = ((tuple(body[end]["namespace"]), body[end]["name"]) for end in ("source", "destination"))
        need(old in kept, 404, missing)
        need(new[0] in self.namespaces, 404, "NoSuchNamespaceException")
        need(not self._is_taken(new), 409, "AlreadyExistsException", "exists")
        kept[new] = kept.pop(old)
        return 204, ""

    def _loaded(self, request: Request, table: IcebergTable) -> Any:
        schema = {
            "type": "struct",
            "schema-id": 0,
            "fields": [{"id": 1, "name": "dummy", "required": False, "type": "string"}],
        }
        metadata: dict[str, Any] = {
            "format-version": 2,
            "table-uuid": table.uuid,
            "location": table.location,
            "last-sequence-number": 0,
            "last-updated-ms": 1_700_000_000_000,
            "last-column-id": 1,
            "schemas": [schema],
            "current-schema-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "default-spec-id": 0,
            "last-partition-id": 999,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "properties": table.properties,
        }
        if not table.location:
            del metadata["location"]
        answer: dict[str, Any] = {
            "metadata-location": f"{table.location}/metadata/00000-{table.uuid}.metadata.json",
            "metadata": metadata,
            "config": {},
        }
        if request.headers.get("X-Iceberg-Access-Delegation") == "vended-credentials":
            answer["config"] = self.config
            answer["storage-credentials"] = self.storage_credentials
        return answer


def new_view(body: Any) -> dict[str, Any]:
    """The metadata of a view (Iceberg view specification)."""
    schema, version = body["schema"], body["view-version"]
    need(schema["type"] == "struct" and schema["fields"], 400, "BadRequestException", "a schema without fields")
    _check_version(version, {schema["schema-id"]})
    return {
        "view-uuid": str(uuid.uuid4()),
        "format-version": 1,
        "location": "s3://views/new",
        "current-version-id": version["version-id"],
        "versions": [version],
        "version-log": [{"version-id": version["version-id"], "timestamp-ms": version["timestamp-ms"]}],
        "schemas": [schema],
        "properties": dict(body.get("properties") or {}),
    }


def changed_view(metadata: dict[str, Any], body: Any) -> dict[str, Any]:
    """The metadata of a view after the updates of a request, with the checks of Iceberg's own server."""
    now = json.loads(json.dumps(metadata))
    for item in body["requirements"]:
        need(item["type"] == "assert-view-uuid", 400, "BadRequestException")
        need(item["uuid"] == now["view-uuid"], 409, "CommitFailedException", "view UUID does not match")
    last_schema = last_version = None
    for update in body["updates"]:
        match update["action"]:
            case "add-schema":
                if all(schema["fields"] != update["schema"]["fields"] for schema in now["schemas"]):
                    last_schema = max(schema["schema-id"] for schema in now["schemas"]) + 1
                    now["schemas"].append({**update["schema"], "schema-id": last_schema})
            case "add-view-version":
                version = dict(update["view-version"])
                if version["schema-id"] == -1:
                    need(last_schema is not None, 400, "BadRequestException", "no schema has been added")
                    version["schema-id"] = last_schema
                _check_version(version, {schema["schema-id"] for schema in now["schemas"]})
                last_version = version["version-id"] = max(item["version-id"] for item in now["versions"]) + 1
                now["versions"].append(version)
            case "set-current-view-version":
                need(update["view-version-id"] == -1 and last_version, 400, "BadRequestException")
                now["current-version-id"] = last_version
                now["version-log"].append({"version-id": last_version, "timestamp-ms": version["timestamp-ms"]})
            case "set-properties":
                now["properties"].update(update["updates"])
            case _:
                raise Refusal(400, "BadRequestException", update["action"])
    return dict(now)


def _check_version(version: Any, schemas: set[int]) -> None:
    fields = {"version-id", "timestamp-ms", "schema-id", "summary", "representations", "default-namespace"}
    need(fields <= set(version) and version["schema-id"] in schemas, 400, "BadRequestException", "an invalid version")
    need(version["representations"], 400, "BadRequestException", "no representation")


def _loaded_view(metadata: dict[str, Any]) -> Any:
    return {"metadata-location": f"{metadata['location']}/metadata/1.json", "metadata": metadata, "config": {}}


class PolarisServer(IcebergServer):
    """A Polaris server with one catalog ``cat``: Iceberg REST, and generic tables beside it."""

    PREFIX = WAREHOUSE = "cat"

    def __init__(self) -> None:
        super().__init__()
        self.generic: dict[tuple[tuple[str, ...], str], dict[str, Any]] = {}

    def serve(self, request: Request, segments: list[str]) -> tuple[int, Any]:
        need(segments[:2] == ["api", "catalog"], 404, "", "no route")
        rest = segments[2:]
        if rest[:1] != ["polaris"]:
            return super().serve(request, rest)
        need(rest[1:4] == ["v1", self.PREFIX, "namespaces"] and rest[5:6] == ["generic-tables"], 404, "", "no route")
        namespace = tuple(rest[4].split("\x1f"))
        need(namespace in self.namespaces, 404, "NoSuchNamespaceException", f"no namespace {namespace}")
        return self._generic(request, namespace, rest[6:])

    def others(self) -> list[tuple[tuple[str, ...], str]]:
        return list(self.generic)

    def _generic(self, request: Request, namespace: tuple[str, ...], rest: list[str]) -> tuple[int, Any]:
        if not rest and request.method == "GET":
            return self.names(request, namespace, [name for space, name in self.generic if space == namespace])
        if not rest:
            body = request.body
            need({"name", "format"} <= set(body), 400, "BadRequestException")
            key = namespace, body["name"]
            need(not self._is_taken(key), 409, "AlreadyExistsException", "exists")
            self.generic[key] = {**body, "doc": None}
            if self.moves_to is not None:
                self.generic[key]["base-location"] = self.moves_to
            return 200, self._described(request, self.generic[key])
        found = self.generic.get((namespace, rest[0]))
        need(found is not None, 404, "NoSuchTableException", f"no table {rest[0]}")
        if request.method == "GET":
            return 200, self._described(request, found)
        del self.generic[namespace, rest[0]]
        return 204, ""

    def _described(self, request: Request, table: Any) -> Any:
        answer = {"table": table}
        if request.headers.get("X-Iceberg-Access-Delegation") == "vended-credentials":
            answer["storage-credentials"] = self.storage_credentials
        return answer
