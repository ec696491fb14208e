"""Lance tables in a metastore of Hive 3 or later, with its catalogs (Lance namespace specification, Hive 3.x)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.namespace.external.hive import HiveCatalog
from lance_spark.namespace.external.hive_client import UnknownMethodError
from lance_spark.namespace.external.hive_views import DEFAULT_CATALOG
from lance_spark.namespace.object_id import Identifier


class Hive3Catalog(HiveCatalog):
    """The Lance tables of a metastore, whose namespaces are catalogs, and in them databases.

    The metastore of Hive 2 has the catalog ``hive`` alone. Catalogs are made and removed by Hive's own tools.
    """

    levels = 2

    def child_namespaces(self, parent: Identifier) -> Iterable[str]:
        if not parent:
            try:
                return self._hive.catalogs()
            except UnknownMethodError:
                return [DEFAULT_CATALOG]
        if len(parent) > 1:
            return super().child_namespaces(parent)
        self.describe_namespace(parent)
        return self._hive.databases(None if parent[0] == DEFAULT_CATALOG else parent[0])

    def describe_namespace(self, path: Identifier) -> Mapping[str, str]:
        if len(path) != 1:
            return super().describe_namespace(path)
        try:
            found = self._hive.catalog(path[0])
        except UnknownMethodError as error:
            if path[0] == DEFAULT_CATALOG:
                return {}
            raise NotFoundError(f"{self.description} has no catalogs but {DEFAULT_CATALOG}") from error
        fields = {"comment": found.description, "location": found.locationUri}
        return {name: value for name, value in fields.items() if value}

    def add_namespace(self, path: Identifier, properties: Mapping[str, str]) -> None:
        self._require_database(path)
        super().add_namespace(path, properties)

    def alter_namespace(self, path: Identifier, updates: Mapping[str, str | None]) -> None:
        self._require_database(path)
        super().alter_namespace(path, updates)

    def drop_namespace(
        self, path: Identifier, *, cascade: bool = False, purge: bool = False, keep_external: bool = False
    ) -> None:
        self._require_database(self._full(path))
        super().drop_namespace(path, cascade=cascade, purge=purge, keep_external=keep_external)

    def _require_database(self, path: Identifier) -> None:
        if len(path) == 1:
            raise InvalidInputError(f"{path[0]} is a catalog of Hive; make, alter and drop those by Hive's own tools")
