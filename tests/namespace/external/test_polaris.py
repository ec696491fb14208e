"""Catalogs of Polaris; tests of all catalogs on servers are in test_server_catalogs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

import lance_spark
from lance_spark.errors import AlreadyExistsError, InvalidInputError, NotEmptyError, UnsupportedFeatureError
from tests.support.iceberg_servers import PolarisServer
from tests.support.server_catalogs import Opened, opened

ROWS = pa.table({"a": [1, 2, 3]})
NESTED = ("d b", "x.y", "a/b")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Opened]:
    with opened("polaris", str(tmp_path / "root")) as found:
        yield found


def server(place: Opened) -> PolarisServer:
    assert isinstance(place.server, PolarisServer)
    return place.server


def pyiceberg(place: Opened) -> RestCatalog:
    return RestCatalog("other", uri=f"{place.server.uri}/api/catalog", warehouse="cat")


def test_nested_namespaces_and_names_of_all_kinds(place: Opened) -> None:
    names = place.ours()
    for depth in (1, 2, 3):
        names.create_namespace(NESTED[:depth])
    assert pyiceberg(place).load_namespace_properties(NESTED) == {}
    assert names.list_namespaces(NESTED[:2]) == ["a/b"]
    table = (*NESTED, "tä/b le+100%?#")
    lance_spark.write(ROWS, names.declare_table(table).uri)
    assert names.list_tables(NESTED) == [table[-1]]
    assert lance.dataset(server(place).generic[NESTED, table[-1]]["base-location"]).to_table() == ROWS
    names.drop_table(table, purge=True)
    assert not server(place).generic


def test_only_generic_tables_of_lance_are_ours(place: Opened) -> None:
    names = place.ours()
    names.create_namespace(("db",))
    names.declare_table(("db", "t"))
    server(place).generic[("db",), "t"]["format"] = "LANCE"
    assert names.list_tables(("db",)) == ["t"]
    assert names.table_location(("db", "t")).is_declared
    server(place).generic[("db",), "d"] = {"name": "d", "format": "delta", "base-location": "s3://b/d"}
    assert names.list_tables(("db",)) == ["t"]
    assert "d" in place.theirs().ask("list_tables", "db").tables  # A known fault of the other side.
    with pytest.raises(InvalidInputError, match="its format is 'delta'"):
        names.table_location(("db", "d"))


def test_iceberg_tables_and_views_are_content_of_other_formats(place: Opened) -> None:
    names = place.ours()
    names.create_namespace(("db",))
    names.declare_table(("db", "t"))
    schema = Schema(NestedField(1, "a", StringType(), required=False))
    pyiceberg(place).create_table("db.ice", schema, location=f"{place.root}/ice")
    assert names.list_tables(("db",)) == ["t"]
    assert names.table_exists(("db", "ice"))
    with pytest.raises(InvalidInputError, match="its format is 'iceberg'"):
        names.drop_table(("db", "ice"), purge=True)
    with pytest.raises(AlreadyExistsError):
        names.declare_table(("db", "ice"))
    with pytest.raises(NotEmptyError, match="such as 'ice'"):
        names.drop_namespace(("db",), cascade=True)
    assert names.list_tables(("db",)) == ["t"]


def test_tokens_come_from_the_catalog_with_all_roles(place: Opened) -> None:
    place.server.tokens = {"-"}
    place.server.grants = [("first", 3600)]
    for endpoint in (place.server.uri, f"{place.server.uri}/api/catalog/"):
        names = place.ours(settings={"endpoint": endpoint, "credential": "me:secret", "root": place.root})
        assert names.list_namespaces() == []
        place.server.grants = [("second", 3600)]
    assert place.server.asked("POST", "/api/catalog/v1/oauth/tokens")
    assert {form["scope"] for form in place.server.credentials} == {"PRINCIPAL_ROLE:ALL"}


def test_credentials_that_the_catalog_sends(place: Opened) -> None:
    server(place).storage_credentials = [
        {"prefix": "s3://", "config": {"s3.access-key-id": "k", "s3.secret-access-key": "s", "other": "x"}}
    ]
    names = place.ours()
    names.create_namespace(("db",))
    names.declare_table(("db", "t"))
    server(place).generic[("db",), "t"]["base-location"] = "s3://bucket/t"
    found = names.describe_table(("cat", "db", "t"))  # type: ignore[attr-defined]
    assert found.storage_options == {"aws_access_key_id": "k", "aws_secret_access_key": "s"}


def test_catalogs_are_the_server_s(place: Opened) -> None:
    names = place.ours(parent=())
    with pytest.raises(UnsupportedFeatureError):
        names.list_namespaces()
    with pytest.raises(InvalidInputError, match="made on the server"):
        names.create_namespace(("new",))
    assert not names.namespace_exists(("..",))
    assert not names.namespace_exists(("a/b",))
