"""A server of Unity Catalog for tests; see `catalog_servers`."""

from __future__ import annotations

import re
import uuid
from typing import Any

from tests.support.catalog_servers import CatalogServer, Refusal, Request, need


class UnityServer(CatalogServer):
    """A Unity Catalog with one catalog ``unity``.

    Attributes:
        vended: answers to requests for credentials, by operation; a number is the status of an error.
    """

    API = ("api", "2.1", "unity-catalog")

    def __init__(self) -> None:
        super().__init__()
        self.catalogs: dict[str, Any] = {"unity": {"name": "unity", "properties": {}}}
        self.schemas: dict[str, Any] = {}
        self.tables: dict[str, Any] = {}
        self.functions: set[str] = set()
        self.vended: dict[str, Any] = {}
        self.moves_to: str | None = None

    def error(self, refusal: Refusal) -> Any:
        return {"error_code": refusal.kind, "message": str(refusal), "details": []} if refusal.kind else {}

    def serve(self, request: Request, segments: list[str]) -> tuple[int, Any]:
        if segments[-2:] == ["oauth", "tokens"]:
            return self.grant(request)
        need(tuple(segments[:3]) == self.API and 4 <= len(segments) <= 5, 404, "", "no route")
        kind, name = segments[3], segments[4] if len(segments) == 5 else None
        if kind == "temporary-table-credentials":
            return self._credentials(request.body)
        need(kind in ("catalogs", "schemas", "tables"), 404, "", "no route")
        kept: dict[str, Any] = getattr(self, kind)
        if name is None and request.method == "GET":
            return self._list(request, kind, kept)
        if name is None:
            return self._create(kind, kept, request.body)
        need(name in kept, 404, "NOT_FOUND", f"{name} not found")
        if request.method == "GET":
            return 200, kept[name]
        below = [*self.schemas, *self.tables, *self.functions]
        need(not any(other.startswith(f"{name}.") for other in below), 400, "FAILED_PRECONDITION", "not empty")
        del kept[name]
        return 200, "200 OK"

    def _list(self, request: Request, kind: str, kept: dict[str, Any]) -> tuple[int, Any]:
        parents = {"catalogs": [], "schemas": ["catalog_name"], "tables": ["catalog_name", "schema_name"]}[kind]
        need(set(request.query) - {"page_token", "max_results"} == set(parents), 400, "INVALID_ARGUMENT")
        parent = ".".join(request.query[name] for name in parents)
        need(not parent or parent in self.catalogs or parent in self.schemas, 404, "NOT_FOUND", f"{parent} not found")
        items = [kept[name] for name in sorted(kept) if name.rpartition(".")[0] == parent]
        found, token = self.page(items, request.query.get("page_token"))
        return 200, {kind: found, "next_page_token": token}

    def _create(self, kind: str, kept: dict[str, Any], body: Any) -> tuple[int, Any]:
        parts = [body[part] for part in ("catalog_name", "schema_name") if part in body] + [body["name"]]
        need(not any(re.search(r"[./\s]", part) for part in parts), 400, "INVALID_ARGUMENT", "invalid name")
        name, parent = ".".join(parts), ".".join(parts[:-1])
        need(not parent or parent in self.catalogs or parent in self.schemas, 404, "NOT_FOUND", f"{parent} not found")
        need(name not in kept, 400, f"{kind[:-1].upper()}_ALREADY_EXISTS", f"{name} exists")
        kept[name] = dict(body)
        if kind == "tables":
            need(body["table_type"] == "EXTERNAL" and body["columns"], 400, "INVALID_ARGUMENT")
            need(body["data_source_format"] in ("DELTA", "CSV", "JSON", "PARQUET", "TEXT"), 400, "INVALID_ARGUMENT")
            kept[name]["table_id"] = str(uuid.uuid4())
            location = body["storage_location"] if self.moves_to is None else self.moves_to
            # As the server writes it.
            kept[name]["storage_location"] = f"file://{location}" if location.startswith("/") else location
        return 200, kept[name]

    def _credentials(self, body: Any) -> tuple[int, Any]:
        known = {table["table_id"] for table in self.tables.values()}
        need(body["table_id"] in known, 404, "NOT_FOUND")
        answer = self.vended.get(body["operation"], 501)
        if isinstance(answer, int):
            raise Refusal(answer, "PERMISSION_DENIED" if answer == 403 else "INTERNAL")
        return 200, answer
