"""Catalogs of Unity; tests of all catalogs on servers are in test_server_catalogs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import AlreadyExistsError, InvalidInputError, NotEmptyError, NotFoundError, StorageError
from lance_spark.namespace.external.unity import UnityCatalog
from tests.support.catalog_servers import Fault
from tests.support.moto import S3Bucket
from tests.support.server_catalogs import Opened, opened
from tests.support.unity_server import UnityServer

ROWS = pa.table({"a": [1, 2, 3]})
AWS = {"access_key_id": "k", "secret_access_key": "s", "session_token": "t"}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Opened]:
    with opened("unity", str(tmp_path / "root")) as found:
        yield found


def server(place: Opened) -> UnityServer:
    assert isinstance(place.server, UnityServer)
    return place.server


def test_names_have_three_levels(place: Opened) -> None:
    names = place.ours(parent=())
    assert names.list_namespaces() == ["unity"]
    names.create_namespace(("new",), {"comment": "of tests", "a": "b"})
    assert names.namespace_properties(("new",)) == {"comment": "of tests", "a": "b"}
    names.create_namespace(("new", "db"), {"comment": "c"})
    assert server(place).schemas["new.db"] == {
        "name": "db",
        "catalog_name": "new",
        "comment": "c",
        "properties": {},
    }
    assert names.list_namespaces(("new",)) == ["db"]
    assert names.list_namespaces(("new", "db")) == []
    for path in (("new", "db", "x"), ("new", "a.b"), ("a.b",)):
        assert not names.namespace_exists(path)
        with pytest.raises(InvalidInputError):
            names.create_namespace(path)
    for table in (("t",), ("new", "t"), ("new", "db", "x", "t"), ("new", "db", "t.u")):
        assert not names.table_exists(table)
        with pytest.raises(InvalidInputError):
            names.declare_table(table)
    with pytest.raises(NotFoundError):
        names.create_namespace(("nowhere", "db"))
    with pytest.raises(AlreadyExistsError):
        names.create_namespace(("new",))
    with pytest.raises(InvalidInputError, match="invalid name"):
        names.declare_table(("new", "db", "a b"))
    with pytest.raises(NotEmptyError):
        names.drop_namespace(("new",))
    names.drop_namespace(("new",), cascade=True)
    assert names.list_namespaces() == ["unity"]


def test_what_only_the_server_sees_keeps_a_schema(place: Opened) -> None:
    names = place.ours()
    names.create_namespace(("db",))
    server(place).functions.add("unity.db.f")
    with pytest.raises(NotEmptyError, match="not empty"):
        names.drop_namespace(("db",))
    assert names.list_namespaces() == ["db"]


def test_the_address_may_have_the_path_of_the_interface(place: Opened) -> None:
    for path in ("", "/", "/api/2.1", "/api/2.1/unity-catalog/"):
        names = place.ours(settings={"endpoint": place.server.uri + path}, parent=())
        assert names.list_namespaces() == ["unity"]


def at_s3(place: Opened, vended: dict[str, Any]) -> dict[str, str]:
    """The storage options of a table in S3."""
    server(place).vended = vended
    names = place.ours(storage_options={"aws_region": "eu-west-1", "aws_access_key_id": "own"})
    assert isinstance(names, UnityCatalog)
    return dict(names._options(names.describe_table(("unity", "db", "t")).storage_options))


def test_credentials_that_the_catalog_sends(place: Opened) -> None:
    names = place.ours()
    names.create_namespace(("db",))
    names.declare_table(("db", "t"))
    assert not place.server.asked("POST", "credentials")  # A local file needs none.
    server(place).tables["unity.db.t"]["storage_location"] = "s3://b/t"
    names.list_tables(("db",))
    names.table_exists(("db", "t"))
    assert not place.server.asked("POST", "credentials")
    sent = {"aws_temp_credentials": AWS, "expiration_time": 4102444800000}
    ours = {
        "aws_access_key_id": "k",
        "aws_secret_access_key": "s",
        "aws_session_token": "t",
        "expires_at_millis": "4102444800000",
        "aws_region": "eu-west-1",
    }
    assert at_s3(place, {"READ_WRITE": sent}) == ours
    assert at_s3(place, {"READ_WRITE": 403, "READ": sent}) == ours
    own = {"aws_region": "eu-west-1", "aws_access_key_id": "own"}
    for none in ({"READ_WRITE": 403, "READ": 403}, {"READ_WRITE": 404}, {}, {"READ_WRITE": {}}):
        assert at_s3(place, none) == own
    place.server.order("POST", "credentials", Fault(status=400, body='{"error_code": "FAILED_PRECONDITION"}'))
    assert at_s3(place, {"READ_WRITE": sent}) == own
    for status in (400, 401):
        place.server.order("POST", "credentials", Fault(status=status, body='{"error_code": "X", "message": "why"}'))
        with pytest.raises(StorageError, match="why"):
            at_s3(place, {"READ_WRITE": sent})
    place.server.order("POST", "credentials", Fault(status=503))
    assert at_s3(place, {"READ_WRITE": sent}) == ours


def test_a_table_is_written_with_credentials_of_the_catalog(place: Opened, s3_bucket: S3Bucket) -> None:
    given = s3_bucket.storage_options
    keys = {"access_key_id": given["aws_access_key_id"], "secret_access_key": given["aws_secret_access_key"]}
    server(place).vended = {"READ_WRITE": {"aws_temp_credentials": keys}}
    own = {name: text for name, text in given.items() if "key" not in name}
    names = place.ours(settings={"root": s3_bucket.folder()}, storage_options=own)
    names.create_namespace(("db",))
    entry = names.declare_table(("db", "t"))
    lance_spark.write(ROWS, entry.uri, storage_options=dict(entry.storage_options))
    found = names.table_location(("db", "t"))
    assert not found.is_declared
    assert lance_spark.open(found.uri, storage_options=dict(found.storage_options)).count_rows() == 3


def test_tokens_need_an_address(place: Opened) -> None:
    with pytest.raises(InvalidInputError, match="needs oauth2-server-uri"):
        place.ours(settings={"credential": "a:b"})
    place.server.tokens = {"-"}
    place.server.grants = [("first", 60)]
    settings = {"credential": "a:b", "oauth2-server-uri": f"{place.server.uri}/oauth/tokens"}
    assert place.ours(settings=settings, parent=()).list_namespaces() == ["unity"]
    assert place.server.credentials[0]["scope"] == "all-apis"
