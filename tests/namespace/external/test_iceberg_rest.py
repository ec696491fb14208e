"""Catalogs of Iceberg REST, with pyiceberg as the other side; tests of all servers are in test_server_catalogs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType
from pyiceberg.view.metadata import SQLViewRepresentation, ViewVersion

import lance_spark
from lance_spark.errors import (
    AlreadyExistsError,
    InvalidInputError,
    NotEmptyError,
    NotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_spark.storage.options import RENEWAL
from tests.support.catalog_servers import LOST, Fault
from tests.support.iceberg_servers import IcebergServer, IcebergTable
from tests.support.moto import S3Bucket
from tests.support.server_catalogs import Opened, opened

ROWS = pa.table({"a": [1, 2, 3]})
NESTED = ("d b", "x.y", "a/b")
"""Levels that a path has to quote."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Opened]:
    with opened("iceberg", str(tmp_path / "root")) as found:
        yield found


def server(place: Opened) -> IcebergServer:
    assert isinstance(place.server, IcebergServer)
    return place.server


def pyiceberg(place: Opened) -> RestCatalog:
    return RestCatalog("other", uri=place.server.uri, warehouse="wh")


def test_nested_namespaces_and_names_of_all_kinds(place: Opened) -> None:
    ours, theirs = place.ours(), pyiceberg(place)
    for depth in (1, 2, 3):
        ours.create_namespace(NESTED[:depth], {"depth": str(depth)})
        assert theirs.load_namespace_properties(NESTED[:depth]) == {"depth": str(depth)}
    assert ours.list_namespaces() == ["d b"]
    assert ours.list_namespaces(NESTED[:1]) == ["x.y"]
    assert ours.list_namespaces(NESTED[:2]) == ["a/b"]
    # Not by theirs, which quotes the levels of `parent` twice, where the specification's own client quotes them once.
    assert place.server.asked("GET", "namespaces")[-1].query == {"parent": "d b\x1fx.y"}
    table = (*NESTED, "tä/b le+100%?#")
    entry = ours.declare_table(table)
    lance_spark.write(ROWS, entry.uri)
    found = theirs.load_table(table)
    assert found.properties["table_type"] == "lance"
    assert lance.dataset(found.location()).to_table() == ROWS
    assert theirs.list_tables(NESTED) == [table]
    assert ours.list_tables(NESTED) == [table[-1]]
    ours.rename_table(table, (*NESTED[:1], "new"))
    assert ours.table_location((*NESTED[:1], "new")).uri == entry.uri
    with pytest.raises(NotEmptyError):
        ours.drop_namespace(NESTED[:1])
    ours.drop_namespace(NESTED[:1], cascade=True)
    assert theirs.list_namespaces() == []
    assert lance.dataset(entry.uri).count_rows() == 3


def test_tables_that_pyiceberg_has_made(place: Opened) -> None:
    ours, theirs = place.ours(), pyiceberg(place)
    theirs.create_namespace(NESTED[:1])
    theirs.create_namespace(NESTED[:2], {"owner": "bob"})
    schema = Schema(NestedField(1, "dummy", StringType(), required=False))
    location = f"{place.root}/made"
    theirs.create_table((*NESTED[:2], "t"), schema, location=location, properties={"table_type": "LANCE", "team": "x"})
    theirs.create_table((*NESTED[:2], "plain"), schema, location=f"{place.root}/plain")
    assert ours.list_tables(NESTED[:2]) == ["t"]
    lance.write_dataset(ROWS, location)
    entry = ours.table_location((*NESTED[:2], "t"))
    assert (entry.uri, entry.properties) == (location, {"team": "x"})
    assert lance_spark.open(entry.uri).count_rows() == 3
    with pytest.raises(InvalidInputError, match="its format is 'iceberg'"):
        ours.drop_table((*NESTED[:2], "plain"), purge=True)
    ours.drop_table((*NESTED[:2], "t"), purge=True)
    assert theirs.list_tables(NESTED[:2]) == [(*NESTED[:2], "plain")]
    assert not list(Path(location).rglob("*.lance"))


def test_tables_of_a_namespace_are_not_in_the_folder_of_a_table_of_its_name(place: Opened) -> None:
    names = place.ours()
    names.create_namespace(("a",))
    names.create_namespace(("a", "b"))
    outer, inner = names.declare_table(("a", "b")).uri, names.declare_table(("a", "b", "t")).uri
    for uri in (outer, inner):
        lance_spark.write(ROWS, uri)
    names.drop_table(("a", "b"), purge=True)
    assert lance.dataset(inner).count_rows() == 3


def test_each_name_has_a_folder_of_its_own(place: Opened) -> None:
    names, odd = place.ours(), ["../../up", "a/b", "a%2Fb", "a#b", "a?b", "a\\b", "a b"]
    names.create_namespace(("db",))
    place.server.names_with_escapes.add("a%2Fb")
    folders = [Path(names.declare_table(("db", name)).uri) for name in odd]
    assert len(set(folders)) == len(odd)
    assert {folder.parent for folder in folders} == {Path(place.root, "wh", "db")}
    for folder in folders:
        lance_spark.write(ROWS, str(folder))
    assert all(lance.dataset(names.table_location(("db", name)).uri).count_rows() == 3 for name in odd)
    assert names.list_tables(("db",)) == sorted(odd)


def test_renaming(place: Opened) -> None:
    names = place.ours(parent=())
    names.create_namespace(("wh", "db"))
    uri = names.declare_table(("wh", "db", "t")).uri
    names.declare_table(("wh", "db", "taken"))
    with pytest.raises(AlreadyExistsError):
        names.rename_table(("wh", "db", "t"), ("wh", "db", "taken"))
    with pytest.raises(NotFoundError):
        names.rename_table(("wh", "db", "t"), ("wh", "nowhere", "u"))
    with pytest.raises(NotFoundError):
        names.rename_table(("wh", "db", "x"), ("wh", "db", "u"))
    with pytest.raises(InvalidInputError, match="another one"):
        names.rename_table(("wh", "db", "t"), ("other", "db", "u"))
    place.server.order("POST", "rename", LOST)
    names.rename_table(("wh", "db", "t"), ("wh", "db", "u"))
    assert names.table_location(("wh", "db", "u")).uri == uri
    place.server.order("POST", "rename", Fault(status=500))
    with pytest.raises(StorageError, match="was not carried out so far"):
        names.rename_table(("wh", "db", "u"), ("wh", "db", "v"))
    server(place).tables[("db",), "copy"] = IcebergTable(uri, {"table_type": "lance"})
    place.server.order("POST", "rename", Fault(status=500))
    with pytest.raises(StorageError, match="was not carried out so far"):
        names.rename_table(("wh", "db", "u"), ("wh", "db", "copy"))
    del server(place).tables[("db",), "copy"]
    place.server.order("POST", "rename", Fault(status=406, body='{"error": {"type": "UnsupportedOperationException"}}'))
    with pytest.raises(UnsupportedFeatureError):
        names.rename_table(("wh", "db", "u"), ("wh", "db", "v"))
    assert names.list_tables(("wh", "db")) == ["taken", "u"]


def test_properties_of_namespaces(place: Opened) -> None:
    names = place.ours()
    names.create_namespace(("db",), {"a": "1", "b": "2"})
    names.set_namespace_properties(("db",), {"a": None, "b": "3", "c": "4"})
    assert pyiceberg(place).load_namespace_properties("db") == {"b": "3", "c": "4"}
    with pytest.raises(NotFoundError):
        names.set_namespace_properties(("x",), {"a": "1"})
    with pytest.raises(InvalidInputError, match="whose properties are the server's"):
        place.ours(parent=()).set_namespace_properties(("wh",), {"a": "1"})


def test_warehouses_are_the_server_s(place: Opened) -> None:
    names = place.ours(parent=())
    with pytest.raises(UnsupportedFeatureError, match="no list of its warehouses"):
        names.list_namespaces()
    with pytest.raises(InvalidInputError, match="made on the server"):
        names.create_namespace(("new",))
    with pytest.raises(InvalidInputError, match="dropped on the server"):
        names.drop_namespace(("wh",))
    with pytest.raises(NotFoundError):
        names.list_namespaces(("other",))


def test_views_of_servers_that_only_list_them_are_content_too(place: Opened) -> None:
    server(place).endpoints = [name for name in server(place).endpoints or () if not name.endswith("{view}")]
    names = place.ours()
    names.create_namespace(("db",))
    names.declare_table(("db", "t"))
    schema = Schema(NestedField(1, "x", StringType(), required=False))
    shown = SQLViewRepresentation(type="sql", sql="SELECT 1", dialect="spark")
    version = ViewVersion(schema_id=0, representations=[shown], default_namespace=("db",))
    pyiceberg(place).create_view(("db", "v"), schema, version)
    assert names.list_tables(("db",)) == ["t"]
    with pytest.raises(NotEmptyError, match="such as 'v'"):
        names.drop_namespace(("db",), cascade=True)
    assert names.list_tables(("db",)) == ["t"]
    with pytest.raises(AlreadyExistsError):
        names.declare_table(("db", "v"))


def test_the_server_is_asked_for_its_prefix_once_and_its_last_word_wins(place: Opened) -> None:
    server(place).overrides = {"prefix": "wh-uuid", "uri": "http://elsewhere"}
    server(place).PREFIX = "wh-uuid"
    names = place.ours()
    names.create_namespace(("db",))
    names.list_tables(("db",))
    names.list_namespaces()
    assert len(place.server.asked("GET", "/v1/config")) == 1
    for overrides in ({"prefix": "a?b"}, {"prefix": "../x"}, {"namespace-separator": ""}, {"prefix": "a b"}):
        server(place).overrides = overrides
        with pytest.raises(StorageError, match="invalid answer about warehouse wh"):
            place.ours(settings={"root": f"/{len(str(overrides))}"}).list_namespaces()


def test_a_server_without_a_prefix(place: Opened) -> None:
    place.server.order("GET", "config", Fault(status=200, body='{"defaults": {}, "overrides": {}}'))
    place.server.order("GET", "/v1/namespaces", Fault(status=200, body='{"namespaces": [["db"]]}'))
    assert place.ours().list_namespaces() == ["db"]


def test_a_server_with_another_separator(place: Opened) -> None:
    server(place).overrides = {"namespace-separator": "%2E"}
    names = place.ours()
    place.server.order("GET", "namespaces/a.b%20c", Fault(status=200, body='{"properties": {"x": "y"}}'))
    assert names.namespace_properties(("a", "b c")) == {"x": "y"}
    assert not names.namespace_exists(("a.b",))
    with pytest.raises(InvalidInputError, match="cannot keep"):
        names.create_namespace(("a.b",))


def test_tables_that_nobody_may_load_are_not_listed(place: Opened) -> None:
    names = place.ours()
    names.create_namespace(("db",))
    for name in ("t", "u", "w"):
        names.declare_table(("db", name))
    forbidden = '{"error": {"message": "no", "type": "ForbiddenException", "code": 403}}'
    place.server.order("GET", "tables/t", Fault(status=403, body=forbidden))
    removed = '{"error": {"message": "no", "type": "NoSuchTableException", "code": 404}}'
    place.server.order("GET", "tables/u", Fault(status=404, body=removed))
    assert names.list_tables(("db",)) == ["w"]
    place.server.order("GET", "tables/t", Fault(status=403, body=forbidden))
    with pytest.raises(NotEmptyError, match="such as 't'"):
        names.drop_namespace(("db",), cascade=True)
    place.server.order("GET", "tables/t", Fault(status=200, body="{}"))
    with pytest.raises(StorageError, match="no metadata"):
        names.list_tables(("db",))


def test_credentials_that_the_catalog_sends(place: Opened, s3_bucket: S3Bucket) -> None:
    root, given = s3_bucket.folder(), s3_bucket.storage_options
    server(place).config = {"client.region": given["aws_region"], "s3.endpoint": s3_bucket.endpoint}
    right = {
        "s3.access-key-id": given["aws_access_key_id"],
        "s3.secret-access-key": given["aws_secret_access_key"],
        "s3.session-token": "session",
        "s3.session-token-expires-at-ms": "4102444800000",
    }
    wrong = {"s3.access-key-id": "other", "s3.secret-access-key": "other"}
    server(place).storage_credentials = [
        {"prefix": f"{root}/wh/elsewhere", "config": wrong},
        {"prefix": f"{root}/wh", "config": right},
        {"prefix": root, "config": wrong},
    ]
    own = {"aws_profile": "mine", "region": "elsewhere-1", "timeout": "20s"}
    names = place.ours(settings={"root": root}, storage_options=own)
    names.create_namespace(("d b",))
    entry = names.declare_table(("d b", "t"))
    assert entry.uri == f"{root}/wh/d%20b/t"
    assert {name: text for name, text in entry.storage_options.items() if name != RENEWAL} == {
        "aws_access_key_id": given["aws_access_key_id"],
        "aws_secret_access_key": given["aws_secret_access_key"],
        "aws_session_token": "session",
        "expires_at_millis": "4102444800000",
        "aws_region": given["aws_region"],
        "aws_endpoint": s3_bucket.endpoint,
        "timeout": "20s",
    }
    lance_spark.write(ROWS, entry.uri, storage_options=dict(entry.storage_options))
    found = names.table_location(("d b", "t"))
    assert found.storage_options == entry.storage_options
    assert not found.is_declared
    options = {**found.storage_options, "allow_http": "true"}
    assert lance.dataset(found.uri, storage_options=options).to_table() == ROWS
    with pytest.raises(AlreadyExistsError, match="there is a table at"):
        names.declare_table(("d b", "u"), location=entry.uri)
    names.drop_table(("d b", "t"), purge=True)
    assert "Contents" not in s3_bucket.client().list_objects_v2(
        Bucket=s3_bucket.name, Prefix=entry.uri.removeprefix(f"s3://{s3_bucket.name}/").replace("%20", " ")
    )


def test_credentials_are_asked_for_where_they_are_used(place: Opened) -> None:
    def has_asked() -> bool:
        return "X-Iceberg-Access-Delegation" in place.server.requests[-1].headers

    server(place).config = {"s3.access-key-id": "k", "s3.secret-access-key": "s"}
    server(place).namespaces["db",] = {}
    server(place).tables[("db",), "t"] = IcebergTable(f"{place.root}/t", {"table_type": "lance"})
    names = place.ours()
    names.list_tables(("db",))
    names.table_exists(("db", "t"))
    assert not any("X-Iceberg-Access-Delegation" in request.headers for request in place.server.requests)
    assert names.table_location(("db", "t")).storage_options == {}  # A local file needs none.
    assert has_asked()
    place.ours(settings={"vend_credentials": "false"}).table_location(("db", "t"))
    assert not has_asked()
