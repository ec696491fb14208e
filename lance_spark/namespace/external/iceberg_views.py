"""Views of an Iceberg REST catalog (Iceberg REST catalog specification, Iceberg view specification).

A view of ours has a representation for Spark, as all tools of Iceberg make them, and our definition in a property. The
summary of its version has the same random value as a property: another tool that changes the view adds a version
without it, and the view is that tool's from then on.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any
from urllib.parse import quote

from lance_spark.errors import (
    AlreadyExistsError,
    CommitConflictError,
    InvalidInputError,
    NotFoundError,
    UnsupportedFeatureError,
)
from lance_spark.namespace.external.catalog import CREATION, Kind
from lance_spark.namespace.external.iceberg_namespaces import IcebergNamespaces
from lance_spark.namespace.external.vending_catalog import texts
from lance_spark.namespace.external.view_columns import iceberg_schema
from lance_spark.namespace.external.views import ExternalViews
from lance_spark.namespace.object_id import Identifier, format_identifier
from lance_spark.namespace.view_texts import VIEW_DEFINITION, view_fields, view_query
from lance_spark.storage.server_errors import LostReplyError, RefusedError

_CONFLICT = 409
_NEWEST = -1
"""The version or schema that the same request has added."""


@dataclass(frozen=True, slots=True)
class IcebergView:
    """A view of ours.

    Attributes:
        uuid: of the view, which stays with its name and its changes.
        definition: None if it is missing.
        creation: the random value of its last change.
        schemas: those of its versions, as the server describes them.
    """

    uuid: str
    definition: str | None
    creation: str
    schemas: Sequence[Any] = ()

    def schema_like(self, schema: Mapping[str, Any]) -> int | None:
        """The number of the schema of the view that has the fields of `schema`; None if there is none."""
        for item in self.schemas:
            if isinstance(item, dict) and item.get("fields") == schema["fields"]:
                number = item.get("schema-id")
                if isinstance(number, int):
                    return number
        return None


class IcebergViews(IcebergNamespaces, ExternalViews):
    """The views of a warehouse, where the server has them. A server carries out changes one after the other."""

    @property
    def keeps_views(self) -> bool:  # type: ignore[override]
        """Whether views can be made; without a warehouse in the settings, perhaps in some."""
        try:
            return not self._parent or self.warehouse(self._parent[0]).keeps_views
        except NotFoundError:
            return False

    def list_views(self, namespace: Identifier = ()) -> list[str]:
        full = self._full(namespace)
        self.require_findable(full)
        if len(full) < 2 or not self.warehouse(full[0]).keeps_views:
            return []
        return sorted(name for name, kind in self.views_of(full) if kind is Kind.VIEW)

    def views_of(self, namespace: Identifier) -> Iterable[tuple[str, Kind]]:
        """The views of a namespace, and which of them are ours."""
        warehouse = self.warehouse(namespace[0])
        if not warehouse.lists_views:
            return []
        names = self.names(f"{self.route(namespace)}/views", namespace)
        if not warehouse.keeps_views:
            return [(name, Kind.OTHER) for name in names]
        return self.with_kinds(namespace, names, self._kind_of_view)

    def look_up_view(self, identifier: Identifier) -> str | None:
        return self._view(identifier).definition

    def add_view(self, identifier: Identifier, definition: str) -> None:
        about, path = format_identifier(identifier), self._path_of_new(identifier)
        mark = token_hex(16)
        body = {
            "name": identifier[-1],
            "schema": iceberg_schema(definition),
            "view-version": _version(definition, mark, version_id=1, schema_id=0),
            "properties": {VIEW_DEFINITION: definition, CREATION: mark},
        }

        def made() -> IcebergView | None:
            try:
                view = self._loaded(identifier)
            except NotFoundError:
                return None
            if view is None or view.creation != mark:
                raise AlreadyExistsError(f"{about} exists in {self.description}")
            return view

        try:
            self.sent("POST", path, about, body=body)
        except LostReplyError as lost:
            self.settled(lost, made)

    def change_view(self, identifier: Identifier, definition: str) -> None:
        about, before, mark = format_identifier(identifier), self._view(identifier), token_hex(16)
        schema = iceberg_schema(definition)
        # A server adds no schema twice, and then has no newest one.
        same = before.schema_like(schema)
        version = _version(definition, mark, version_id=1, schema_id=_NEWEST if same is None else same)
        body = {
            "requirements": [{"type": "assert-view-uuid", "uuid": before.uuid}],
            "updates": [
                *([{"action": "add-schema", "schema": schema}] if same is None else []),
                {"action": "add-view-version", "view-version": version},
                {"action": "set-current-view-version", "view-version-id": _NEWEST},
                {"action": "set-properties", "updates": {VIEW_DEFINITION: definition, CREATION: mark}},
            ],
        }
        try:
            self.sent("POST", self._view_path(identifier), about, body=body, conflict=CommitConflictError)
        except LostReplyError as lost:
            self.settled(lost, lambda: self._with_creation(identifier, mark))
        except CommitConflictError as error:
            raise self.changed_view(identifier) from error
        except RefusedError as error:
            if error.status != _CONFLICT:
                raise
            raise self.changed_view(identifier) from error

    def remove_view(self, identifier: Identifier) -> None:
        self._view(identifier)
        path = self._view_path(identifier)
        self.deleted(path, format_identifier(identifier), lambda: self.sent("GET", path, format_identifier(identifier)))

    def move_view(self, old: Identifier, new: Identifier) -> None:
        before = self._view(old)
        if old[0] != new[0]:
            raise InvalidInputError(
                f"{format_identifier(old)} cannot be renamed into warehouse {new[0]!r}, another one"
            )
        self._path_of_new(new)
        body = {
            "source": {"namespace": list(old[1:-1]), "name": old[-1]},
            "destination": {"namespace": list(new[1:-1]), "name": new[-1]},
        }
        try:
            self.sent("POST", f"{self.warehouse(old[0]).base}/views/rename", format_identifier(old), body=body)
        except LostReplyError as lost:
            self.settled(lost, lambda: self._with_creation(new, before.creation))

    def _view(self, identifier: Identifier) -> IcebergView:
        """A view of ours. Raises `NotFoundError`, also for one of others."""
        if len(identifier) < 3 or not self.is_sendable(identifier) or not self.warehouse(identifier[0]).keeps_views:
            raise self.missing_view(identifier, is_others=False)
        view = self._loaded(identifier)
        if view is None:
            raise self.missing_view(identifier, is_others=True)
        return view

    def _kind_of_view(self, identifier: Identifier) -> Kind:
        return Kind.OTHER if self._loaded(identifier) is None else Kind.VIEW

    def _with_creation(self, identifier: Identifier, creation: str) -> IcebergView | None:
        try:
            view = self._loaded(identifier)
        except NotFoundError:
            return None
        return view if view is not None and view.creation == creation else None

    def _loaded(self, identifier: Identifier) -> IcebergView | None:
        """A view; None if it is another's. Raises `NotFoundError`."""
        about = format_identifier(identifier)
        metadata = self.sent("GET", self._view_path(identifier), about).get("metadata")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("versions"), list):
            raise self.nonsense(about, "it has no metadata of a view")
        properties, uuid = texts(metadata.get("properties")), metadata.get("view-uuid")
        versions = (version for version in metadata["versions"] if isinstance(version, dict))
        current = metadata.get("current-version-id")
        summary = next((texts(item.get("summary")) for item in versions if item.get("version-id") == current), {})
        creation = properties.get(CREATION, "")
        if not creation or summary.get(CREATION) != creation or not isinstance(uuid, str):
            return None
        schemas = metadata.get("schemas")
        schemas = schemas if isinstance(schemas, list) else []
        return IcebergView(uuid, properties.get(VIEW_DEFINITION), creation, schemas)

    def _path_of_new(self, identifier: Identifier) -> str:
        """The path where a view is added. Raises `InvalidInputError` or `UnsupportedFeatureError` if none can be."""
        self.check_table_name(identifier)
        if not self.warehouse(identifier[0]).keeps_views:
            raise UnsupportedFeatureError(
                f"{self.description} has no views in warehouse {identifier[0]}; make the view "
                f"{format_identifier(identifier)} in a catalog with impl = dir, which may read tables of this one",
                feature="CREATE VIEW",
            )
        return f"{self.route(identifier[:-1])}/views"

    def _view_path(self, identifier: Identifier) -> str:
        return f"{self.route(identifier[:-1])}/views/{quote(identifier[-1], safe='')}"


def _version(definition: str, mark: str, *, version_id: int, schema_id: int) -> Mapping[str, Any]:
    """The version of a view, as a request adds it."""
    fields = view_fields(definition)
    catalog, namespace = fields.get("current_catalog"), fields.get("current_namespace")
    return {
        "version-id": version_id,
        "timestamp-ms": int(time.time() * 1000),
        "schema-id": schema_id,
        "summary": {"engine-name": "lance-spark", CREATION: mark},
        "representations": [{"type": "sql", "sql": view_query(definition), "dialect": "spark"}],
        **({"default-catalog": catalog} if isinstance(catalog, str) else {}),
        "default-namespace": [str(level) for level in namespace] if isinstance(namespace, list) else [],
    }
