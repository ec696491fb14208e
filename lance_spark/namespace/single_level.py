"""A catalog whose tables all lie in its root, shown as one namespace `default`: clients of Spark expect a namespace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from lance_spark.errors import NotFoundError, UnsupportedFeatureError
from lance_spark.namespace.base import Namespace, TableEntry
from lance_spark.namespace.object_id import Identifier, format_identifier
from lance_spark.storage.paths import UriOrPath

DEFAULT = ("default",)


class SingleLevelNamespace(Namespace):
    """The tables of the root of another catalog, in the namespace `default`, which is neither made nor dropped.

    Args:
        inner: the other catalog.
    """

    def __init__(self, inner: Namespace) -> None:
        self.description = inner.description
        self._inner = inner

    def list_namespaces(self, parent: Identifier = ()) -> list[str]:
        if parent:
            self._require(parent)
            return []
        return [*DEFAULT]

    def namespace_exists(self, path: Identifier) -> bool:
        return path in ((), DEFAULT)

    def namespace_properties(self, path: Identifier) -> Mapping[str, str]:
        if path:
            self._require(path)
        return {}

    def create_namespace(self, path: Identifier, properties: Mapping[str, str] | None = None) -> None:
        self._refuse("CREATE NAMESPACE")

    def set_namespace_properties(self, path: Identifier, updates: Mapping[str, str | None]) -> None:
        self._refuse("ALTER NAMESPACE")

    def drop_namespace(
        self, path: Identifier, *, cascade: bool = False, purge: bool = False, keep_external: bool = False
    ) -> None:
        self._refuse("DROP NAMESPACE")

    def list_tables(self, namespace: Identifier = ()) -> list[str]:
        if not namespace:
            return []
        self._require(namespace)
        return self._inner.list_tables()

    def table_exists(self, identifier: Identifier) -> bool:
        return identifier[:-1] == DEFAULT and self._inner.table_exists(identifier[-1:])

    def table_location(self, identifier: Identifier) -> TableEntry:
        return self._inner.table_location(self._name(identifier))

    def declare_table(
        self,
        identifier: Identifier,
        *,
        location: UriOrPath | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> TableEntry:
        return self._inner.declare_table(self._name(identifier), location=location, properties=properties)

    def register_table(
        self, identifier: Identifier, location: UriOrPath, properties: Mapping[str, str] | None = None
    ) -> TableEntry:
        return self._inner.register_table(self._name(identifier), location, properties)

    def drop_table(self, identifier: Identifier, *, purge: bool) -> None:
        self._inner.drop_table(self._name(identifier), purge=purge)

    def rename_table(self, old: Identifier, new: Identifier) -> None:
        self._inner.rename_table(self._name(old), self._name(new))

    def _name(self, identifier: Identifier) -> Identifier:
        self._require(identifier[:-1])
        return identifier[-1:]

    def _require(self, path: Identifier) -> None:
        if path != DEFAULT:
            raise NotFoundError(
                f"there is no namespace {format_identifier(path)}: with single_level_ns all tables of "
                f"{self.description} are in the namespace default"
            )

    def _refuse(self, statement: str) -> NoReturn:
        raise UnsupportedFeatureError(
            f"{self.description} has one namespace, default, because single_level_ns is true; leave the setting out to "
            "have others",
            feature=f"{statement} with single_level_ns",
        )
