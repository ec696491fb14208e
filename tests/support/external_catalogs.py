"""Catalogs of other formats over servers in memory, each with what another tool sees of it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType
from pyiceberg.view.metadata import SQLViewRepresentation, ViewVersion
from pymetastore.hive_metastore import ttypes

from lance_spark.namespace.base import Namespace
from lance_spark.namespace.opening import CatalogPlace
from tests.support.hive_server import hive_server, metastore_client
from tests.support.server_catalogs import opened

VIEW_KINDS = ("glue", "hive2", "hive3", "iceberg", "polaris")
KINDS = (*VIEW_KINDS, "unity")


@dataclass
class ExternalCatalog:
    """A catalog.

    Attributes:
        server: what serves it; None for Glue.
    """

    kind: str
    settings: dict[str, str]
    parent: tuple[str, ...] = ()
    server: Any = None
    database: str = field(default_factory=lambda: f"db_{uuid.uuid4().hex[:12]}")

    def ours(self, **settings: str) -> Namespace:
        """The catalog of this package."""
        return CatalogPlace(self.kind, settings={**self.settings, **settings}, parent=self.parent).open()

    def spark_settings(self) -> dict[str, str]:
        """The settings of the catalog in a session."""
        parent = {"parent": ".".join(self.parent)} if self.parent else {}
        return {"impl": self.kind, **self.settings, **parent}

    def theirs(self) -> OtherTool:
        """Another tool for the same catalog."""
        if self.kind == "glue":
            return BotoTool(self)
        return MetastoreTool(self) if self.kind.startswith("hive") else IcebergTool(self)


@contextmanager
def external_catalog(kind: str, root: str, glue_endpoint: str) -> Iterator[ExternalCatalog]:
    """A catalog of a kind, whose new tables lie below `root`."""
    if kind == "glue":
        keys = {"access_key_id": "testing", "secret_access_key": "testing", "region": "us-east-1"}
        yield ExternalCatalog(kind, {**keys, "endpoint": glue_endpoint, "root": root})
    elif kind.startswith("hive"):
        with hive_server(Path(root), ("other",) if kind == "hive3" else ()) as server:
            parent = ("hive",) if kind == "hive3" else ()
            yield ExternalCatalog(kind, {"uri": server.uri, "root": root}, parent, server)
    else:
        with opened(kind, root) as place:
            yield ExternalCatalog(kind, {"endpoint": place.server.uri, "root": root}, (place.level,), place.server)


class OtherTool:
    """Views as another tool of the catalog sees and makes them, in the database of the test."""

    def __init__(self, catalog: ExternalCatalog) -> None:
        self.catalog, self.database = catalog, catalog.database

    def views(self) -> list[str]:
        raise NotImplementedError

    def query(self, name: str) -> str:
        """The text of a view where the tool looks for it."""
        raise NotImplementedError

    def columns(self, name: str) -> list[tuple[str, str]]:
        """Names and types of the columns of a view."""
        raise NotImplementedError

    def properties(self, name: str) -> Mapping[str, str]:
        raise NotImplementedError

    def make(self, name: str, query: str) -> None:
        raise NotImplementedError

    def change(self, name: str, query: str) -> None:
        """Gives a view another query, and leaves what the tool does not know."""
        raise NotImplementedError

    def set_property(self, name: str, key: str, value: str) -> None:
        raise NotImplementedError

    def drop(self, name: str) -> None:
        raise NotImplementedError


class BotoTool(OtherTool):
    """Any tool of AWS."""

    def __init__(self, catalog: ExternalCatalog) -> None:
        super().__init__(catalog)
        self._glue = boto3.client(
            "glue",
            endpoint_url=catalog.settings["endpoint"],
            region_name="us-east-1",
            aws_access_key_id="testing",
            aws_secret_access_key="testing",
        )

    def views(self) -> list[str]:
        tables = self._glue.get_tables(DatabaseName=self.database)["TableList"]
        return sorted(table["Name"] for table in tables if table.get("TableType") == "VIRTUAL_VIEW")

    def query(self, name: str) -> str:
        return str(self._table(name)["ViewOriginalText"])

    def columns(self, name: str) -> list[tuple[str, str]]:
        return [(column["Name"], column["Type"]) for column in self._table(name)["StorageDescriptor"]["Columns"]]

    def properties(self, name: str) -> Mapping[str, str]:
        return dict(self._table(name)["Parameters"])

    def make(self, name: str, query: str) -> None:
        self._glue.create_table(
            DatabaseName=self.database,
            TableInput={
                "Name": name,
                "TableType": "VIRTUAL_VIEW",
                "Parameters": {"presto_view": "true"},
                "StorageDescriptor": {"Columns": [{"Name": "x", "Type": "int"}], "SerdeInfo": {}},
                "ViewOriginalText": query,
                "ViewExpandedText": "/* Presto View */",
            },
        )

    def change(self, name: str, query: str) -> None:
        self._update(name, ViewOriginalText=query)

    def set_property(self, name: str, key: str, value: str) -> None:
        self._update(name, Parameters={**self.properties(name), key: value})

    def drop(self, name: str) -> None:
        self._glue.delete_table(DatabaseName=self.database, Name=name)

    def _table(self, name: str) -> Any:
        return self._glue.get_table(DatabaseName=self.database, Name=name)["Table"]

    def _update(self, name: str, **fields: Any) -> None:
        kept = ("Name", "TableType", "Parameters", "StorageDescriptor", "ViewOriginalText", "ViewExpandedText")
        described = {key: value for key, value in self._table(name).items() if key in kept}
        self._glue.update_table(DatabaseName=self.database, TableInput={**described, **fields})


class MetastoreTool(OtherTool):
    """A client of Hive's protocol."""

    def __init__(self, catalog: ExternalCatalog) -> None:
        super().__init__(catalog)
        self._client = metastore_client(int(catalog.settings["uri"].rpartition(":")[2]))

    def views(self) -> list[str]:
        return sorted(name for name in self._client.get_all_tables(self.database) if self._is_view(name))

    def query(self, name: str) -> str:
        return str(self._table(name).viewOriginalText)

    def columns(self, name: str) -> list[tuple[str, str]]:
        return [(column.name, column.type) for column in self._table(name).sd.cols]

    def properties(self, name: str) -> Mapping[str, str]:
        return dict(self._table(name).parameters)

    def make(self, name: str, query: str) -> None:
        column = ttypes.FieldSchema(name="x", type="int", comment="")
        self._client.create_table(
            ttypes.Table(
                tableName=name,
                dbName=self.database,
                sd=ttypes.StorageDescriptor(cols=[column], serdeInfo=ttypes.SerDeInfo()),
                parameters={},
                tableType="VIRTUAL_VIEW",
                viewOriginalText=query,
                viewExpandedText=query,
            )
        )

    def change(self, name: str, query: str) -> None:
        table = self._table(name)
        table.viewOriginalText = table.viewExpandedText = query
        self._alter(name, table)

    def set_property(self, name: str, key: str, value: str) -> None:
        table = self._table(name)
        table.parameters[key] = value
        self._alter(name, table)

    def drop(self, name: str) -> None:
        self._client.drop_table(self.database, name, True)

    def _is_view(self, name: str) -> bool:
        return bool(self._table(name).tableType == "VIRTUAL_VIEW")

    def _table(self, name: str) -> Any:
        return self._client.get_table(self.database, name)

    def _alter(self, name: str, table: Any) -> None:
        self._client.alter_table_with_environment_context(self.database, name, table, ttypes.EnvironmentContext())


class IcebergTool(OtherTool):
    """A client of pyiceberg; changes are requests of its session, because it has none of its own for them."""

    def __init__(self, catalog: ExternalCatalog) -> None:
        super().__init__(catalog)
        uri = catalog.settings["endpoint"] + ("/api/catalog" if catalog.kind == "polaris" else "")
        self.client = RestCatalog("other", uri=uri, warehouse=catalog.parent[0])

    def views(self) -> list[str]:
        names = sorted(name[-1] for name in self.client.list_views(self.database))
        assert all(self.client.view_exists((self.database, name)) for name in names)
        return names

    def query(self, name: str) -> str:
        [shown] = self.client.load_view((self.database, name)).current_version().representations
        assert shown.root.dialect == "spark"
        return str(shown.root.sql)

    def columns(self, name: str) -> list[tuple[str, str]]:
        return [
            (each.name, str(each.field_type)) for each in self.client.load_view((self.database, name)).schema().fields
        ]

    def properties(self, name: str) -> Mapping[str, str]:
        return dict(self.client.load_view((self.database, name)).metadata.properties)

    def make(self, name: str, query: str) -> None:
        schema = Schema(NestedField(1, "x", StringType(), required=False))
        self.client.create_view((self.database, name), schema, self._version(query))

    def change(self, name: str, query: str) -> None:
        version = self._version(query).model_dump(by_alias=True, mode="json")
        version["schema-id"] = self.client.load_view((self.database, name)).current_version().schema_id
        self._commit(
            name,
            {"action": "add-view-version", "view-version": version},
            {"action": "set-current-view-version", "view-version-id": -1},
        )

    def set_property(self, name: str, key: str, value: str) -> None:
        self._commit(name, {"action": "set-properties", "updates": {key: value}})

    def drop(self, name: str) -> None:
        self.client.drop_view((self.database, name))

    def _version(self, query: str) -> ViewVersion:
        shown = SQLViewRepresentation(type="sql", sql=query, dialect="spark")
        return ViewVersion(
            schema_id=0, representations=[shown], default_namespace=(self.database,), summary={"engine-name": "spark"}
        )

    def _commit(self, name: str, *updates: Mapping[str, Any]) -> None:
        uuid = self.client.load_view((self.database, name)).metadata.view_uuid
        url = self.client.url("namespaces/{namespace}/views/{view}", namespace=self.database, view=name)
        body = {"requirements": [{"type": "assert-view-uuid", "uuid": str(uuid)}], "updates": updates}
        self.client._session.post(url, json=body).raise_for_status()
