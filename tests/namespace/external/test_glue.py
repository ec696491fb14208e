"""Tables in AWS Glue: moto's server, with the field's own class and boto3 as other clients, and a proxy that fails."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import lance
import pyarrow as pa
import pytest
from lance_namespace_impls.glue import GlueNamespace
from lance_namespace_urllib3_client.models import (
    CreateNamespaceRequest,
    DeclareTableRequest,
    DescribeNamespaceRequest,
    DescribeTableRequest,
    ListTablesRequest,
)

import lance_spark
from lance_spark.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LanceError,
    NotEmptyError,
    NotFoundError,
    StorageError,
)
from lance_spark.namespace.external.glue import SETTINGS, GlueCatalog
from lance_spark.namespace.opening import CatalogPlace
from lance_spark.namespace.settings import read_settings
from tests.support.glue_proxy import GlueProxy, glue_proxy
from tests.support.moto import S3Bucket

ROWS = pa.table({"a": [1, 2, 3]})
KEYS = {"access_key_id": "testing", "secret_access_key": "s3cret", "region": "us-east-1"}


@pytest.fixture(scope="module")
def settings(s3_bucket: S3Bucket) -> dict[str, str]:
    return {**KEYS, "endpoint": s3_bucket.endpoint}


@pytest.fixture(scope="module")
def names(settings: dict[str, str]) -> GlueCatalog:
    return GlueCatalog.of_settings(settings, (), {})


@pytest.fixture(scope="module")
def field(settings: dict[str, str]) -> GlueNamespace:
    """The catalog as the field's own class sees it."""
    return GlueNamespace(**settings)


@pytest.fixture(scope="module")
def glue(settings: dict[str, str]) -> Any:
    """The catalog as another tool of AWS sees it."""
    return boto3.client(
        "glue",
        endpoint_url=settings["endpoint"],
        region_name="us-east-1",
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )


@pytest.fixture
def db(glue: Any, tmp_path: Path) -> str:
    """A database whose tables lie in a folder of the test."""
    name = f"db_{uuid.uuid4().hex}"
    glue.create_database(DatabaseInput={"Name": name, "LocationUri": str(tmp_path / "place")})
    return name


@pytest.fixture(scope="module")
def running_proxy(s3_bucket: S3Bucket) -> Iterator[GlueProxy]:
    with glue_proxy(s3_bucket.endpoint) as found:
        yield found


@pytest.fixture
def proxy(running_proxy: GlueProxy, monkeypatch: pytest.MonkeyPatch) -> GlueProxy:
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _seconds: None)
    running_proxy.reset()
    return running_proxy


@pytest.fixture(scope="module")
def behind(running_proxy: GlueProxy) -> GlueCatalog:
    """The catalog through the proxy."""
    return GlueCatalog.of_settings({**KEYS, "endpoint": running_proxy.endpoint}, (), {})


def entry(glue: Any, database: str, name: str) -> dict[str, Any]:
    """What Glue keeps of a table, without when and by whom it was made."""
    found = glue.get_table(DatabaseName=database, Name=name)["Table"]
    kept = ("Name", "TableType", "Parameters", "StorageDescriptor")
    return {key: found[key] for key in kept}


def table_names(glue: Any, database: str) -> list[str]:
    return sorted(table["Name"] for table in glue.get_tables(DatabaseName=database)["TableList"])


def parquet_table(glue: Any, database: str, name: str = "p") -> None:
    described = {
        "Name": name,
        "TableType": "EXTERNAL_TABLE",
        "Parameters": {"classification": "parquet"},
        "StorageDescriptor": {"Location": "s3://b/p", "Columns": [{"Name": "x", "Type": "int"}]},
    }
    glue.create_table(DatabaseName=database, TableInput=described)


def test_field_reads_our_table(names: GlueCatalog, field: GlueNamespace, db: str) -> None:
    declared = names.declare_table((db, "t"), properties={"owner": "ann"})
    lance_spark.write(ROWS, declared.uri)
    assert field.list_tables(ListTablesRequest(id=[db])).tables == ["t"]
    described = field.describe_table(DescribeTableRequest(id=[db, "t"], check_declared=True))
    assert lance.dataset(described.location).to_table() == ROWS
    assert described.properties["owner"] == "ann"
    assert not described.is_only_declared


def test_our_entry_is_that_of_the_field(names: GlueCatalog, field: GlueNamespace, glue: Any, db: str) -> None:
    names.declare_table((db, "t"), properties={"owner": "ann"})
    ours = entry(glue, db, "t")
    names.deregister_table((db, "t"))
    field.declare_table(DeclareTableRequest(id=[db, "t"], properties={"owner": "ann"}))
    theirs = entry(glue, db, "t")
    del ours["StorageDescriptor"]["SerdeInfo"]["Parameters"]
    assert ours == theirs


def test_we_read_a_table_of_the_field(names: GlueCatalog, field: GlueNamespace, db: str) -> None:
    declared = field.declare_table(DeclareTableRequest(id=[db, "t"], properties={"owner": "ann"}))
    assert names.table_location((db, "t")).is_declared
    lance.write_dataset(ROWS, declared.location)
    found = names.table_location((db, "t"))
    assert lance_spark.open(found.uri).to_table() == ROWS
    assert (found.properties, found.is_declared) == ({"owner": "ann"}, False)
    assert names.list_tables((db,)) == ["t"]
    names.drop_table((db, "t"), purge=False)
    assert lance.dataset(declared.location).to_table() == ROWS
    names.register_table((db, "again"), declared.location)
    names.drop_table((db, "again"), purge=True)
    assert not Path(declared.location).exists()


def test_namespaces_of_both(names: GlueCatalog, field: GlueNamespace, glue: Any) -> None:
    ours, theirs = f"o_{uuid.uuid4().hex}", f"f_{uuid.uuid4().hex}"
    names.create_namespace((ours,), {"comment": "c", "location": "s3://b/o", "k": "v", "gone_later": "x"})
    field.create_namespace(CreateNamespaceRequest(id=[theirs], properties={"description": "d", "k": "v"}))
    assert {ours, theirs} <= {*names.list_namespaces()}
    described = field.describe_namespace(DescribeNamespaceRequest(id=[ours])).properties
    assert (described["description"], described["location"], described["k"]) == ("c", "s3://b/o", "v")
    assert names.namespace_properties((theirs,)) == {"comment": "d", "description": "d", "k": "v"}
    with pytest.raises(AlreadyExistsError):
        names.create_namespace((theirs,))
    names.set_namespace_properties((ours,), {"comment": "new", "k": "w", "gone_later": None})
    found = glue.get_database(Name=ours)["Database"]
    assert (found["Description"], found["LocationUri"], found["Parameters"]) == ("new", "s3://b/o", {"k": "w"})
    names.drop_namespace((ours,))
    assert not names.namespace_exists((ours,))
    with pytest.raises(NotFoundError):
        names.drop_namespace((ours,))
    with pytest.raises(InvalidInputError, match="one level"):
        names.create_namespace((theirs, "below"))
    assert not names.namespace_exists((theirs, "below"))


def test_other_tables_are_neither_dropped_nor_emptied(names: GlueCatalog, glue: Any, db: str) -> None:
    parquet_table(glue, db)
    glue.create_table(DatabaseName=db, TableInput={"Name": "v", "TableType": "VIRTUAL_VIEW", "ViewOriginalText": "x"})
    names.declare_table((db, "t"))
    assert names.list_tables((db,)) == ["t"]
    assert names.table_exists((db, "p"))
    with pytest.raises(InvalidInputError, match="no Lance table: its format is 'classification parquet'"):
        names.table_location((db, "p"))
    for name in ("p", "v"):
        with pytest.raises(InvalidInputError):
            names.drop_table((db, name), purge=True)
        with pytest.raises(InvalidInputError):
            names.rename_table((db, name), (db, "q"))
    for cascade in (False, True):
        with pytest.raises(NotEmptyError):
            names.drop_namespace((db,), cascade=cascade)
    with pytest.raises(NotEmptyError, match="holds the table"):
        names.remove_namespace((db,))  # As if the table were made while the namespace is dropped.
    assert table_names(glue, db) == ["p", "t", "v"]


def test_cascade_keeps_files(names: GlueCatalog, db: str) -> None:
    place = lance_spark.write(ROWS, names.declare_table((db, "t")).uri).uri
    names.drop_namespace((db,), cascade=True, purge=True)
    assert not names.namespace_exists((db,))
    assert lance.dataset(place).to_table() == ROWS


@pytest.mark.parametrize("marker", ["lance", "LANCE", "Lance"])
def test_marker_in_any_case_and_location_with_slash(names: GlueCatalog, glue: Any, db: str, marker: str) -> None:
    described = {
        "Name": "t",
        "Parameters": {"table_type": marker},
        "StorageDescriptor": {"Location": "s3://b/t.lance/"},
    }
    glue.create_table(DatabaseName=db, TableInput=described)
    assert names.list_tables((db,)) == ["t"]
    assert names.describe_table((db, "t")).is_lance
    glue.create_table(DatabaseName=db, TableInput={**described, "Name": "u", "Parameters": {"TABLE_TYPE": marker}})
    assert names.list_tables((db,)) == ["t"]


def test_names_are_kept_in_lower_case(names: GlueCatalog, glue: Any, db: str) -> None:
    uri = names.declare_table((db.upper(), "Orders")).uri
    assert uri.endswith("/orders.lance")
    assert table_names(glue, db) == ["orders"]
    assert names.table_exists((db, "ORDERS"))
    with pytest.raises(AlreadyExistsError):
        names.declare_table((db, "ORDERS"))
    for name in ("a/b", "..", "x" * 256):
        with pytest.raises(InvalidInputError):
            names.declare_table((db, name), location="/tmp/never")
    with pytest.raises(InvalidInputError, match="in a database"):
        names.declare_table(("t",), location="/tmp/never")


def test_default_location(names: GlueCatalog, settings: dict[str, str], glue: Any, db: str, tmp_path: Path) -> None:
    place = str(tmp_path / "place")
    assert names.default_location((db, "t")) == f"{place}/t.lance"
    glue.update_database(Name=db, DatabaseInput={"Name": db, "LocationUri": f"{place}/"})
    assert names.default_location((db, "t")) == f"{place}/t.lance"
    rooted = GlueCatalog.of_settings({**settings, "root": "s3://b/root/"}, (), {})
    assert rooted.default_location((db, "t")) == f"s3://b/root/{db}/t.lance"
    glue.update_database(Name=db, DatabaseInput={"Name": db})
    assert rooted.default_location((db, "t")) == f"s3://b/root/{db}/t.lance"
    with pytest.raises(InvalidInputError, match=r"set `root` of the catalog, or the location of the database"):
        names.declare_table((db, "t"))
    with pytest.raises(NotFoundError):
        rooted.declare_table(("db_missing", "t"))


def test_table_in_the_store_of_the_storage_options(s3_bucket: S3Bucket, settings: dict[str, str], db: str) -> None:
    options = s3_bucket.storage_options
    names = GlueCatalog.of_settings({**settings, "root": s3_bucket.folder()}, (), options)
    declared = names.declare_table((db, "t"))
    lance_spark.write(ROWS, declared.uri, storage_options=dict(declared.storage_options))
    assert lance.dataset(declared.uri, storage_options=options).to_table() == ROWS
    names.drop_table((db, "t"), purge=True)
    left = s3_bucket.client().list_objects_v2(Bucket=s3_bucket.name, Prefix=declared.uri.split("/", 3)[3])
    assert left["KeyCount"] == 0


def test_rename_keeps_all_but_the_name(names: GlueCatalog, glue: Any, db: str, tmp_path: Path) -> None:
    place = lance_spark.write(ROWS, names.declare_table((db, "t"), properties={"owner": "ann"}).uri).uri
    found = entry(glue, db, "t")
    found["StorageDescriptor"]["Columns"] = [{"Name": "a", "Type": "bigint", "Comment": "c"}]
    glue.update_table(DatabaseName=db, TableInput=found)
    other = f"{db}_2"
    names.create_namespace((other,), {"location": str(tmp_path / "other")})
    names.rename_table((db, "t"), (other, "U"))
    assert table_names(glue, db) == []
    renamed = entry(glue, other, "u")
    for either in (found, renamed):
        del either["StorageDescriptor"]["SerdeInfo"]["Parameters"]
    assert renamed == {**found, "Name": "u"}
    assert names.table_location((other, "u")).uri == place
    names.declare_table((other, "v"))
    for target, error in (((other, "v"), AlreadyExistsError), ((other, "U"), AlreadyExistsError)):
        with pytest.raises(error):
            names.rename_table((other, "u"), target)
    with pytest.raises(NotFoundError):
        names.rename_table((other, "u"), ("db_missing", "u"))
    assert table_names(glue, other) == ["u", "v"]


def test_failed_rename_is_undone(behind: GlueCatalog, proxy: GlueProxy, glue: Any, db: str) -> None:
    behind.declare_table((db, "t"))
    before = entry(glue, db, "t")
    proxy.faults["DeleteTable"] = ["deny"]
    with pytest.raises(StorageError, match="AccessDenied"):
        behind.rename_table((db, "t"), (db, "u"))
    assert table_names(glue, db) == ["t"]
    assert entry(glue, db, "t") == before
    proxy.faults["DeleteTable"] = ["deny", "deny"]
    with pytest.raises(StorageError, match="has the second name"):
        behind.rename_table((db, "t"), (db, "u"))
    assert table_names(glue, db) == ["t", "u"]


def test_rename_in_doubt_never_loses_both_names(behind: GlueCatalog, proxy: GlueProxy, glue: Any, db: str) -> None:
    behind.declare_table((db, "t"))
    proxy.faults["DeleteTable"] = ["lose"]
    proxy.faults["CreateTable"] = ["lose"]
    behind.rename_table((db, "t"), (db, "u"))
    assert table_names(glue, db) == ["u"]
    proxy.faults["DeleteTable"] = ["fail after"] * 5
    proxy.faults["GetTable"] = ["", "", "deny"]  # The third one asks whether the old name is still there.
    with pytest.raises(StorageError, match="has the second name"):
        behind.rename_table((db, "u"), (db, "w"))
    assert table_names(glue, db) == ["w"]


def test_table_whose_reply_is_lost_is_ours(behind: GlueCatalog, proxy: GlueProxy, glue: Any, db: str) -> None:
    proxy.faults["CreateTable"] = ["lose"]
    behind.declare_table((db, "t"))
    assert proxy.sent("CreateTable") == 2
    proxy.faults["DeleteTable"] = ["lose"]
    behind.deregister_table((db, "t"))
    assert table_names(glue, db) == []
    proxy.faults["CreateDatabase"] = ["lose"]
    behind.create_namespace((f"{db}_2",), {"k": "v"})
    proxy.faults["DeleteDatabase"] = ["lose"]
    behind.drop_namespace((f"{db}_2",))
    assert not behind.namespace_exists((f"{db}_2",))


def test_table_of_another_is_never_ours(behind: GlueCatalog, proxy: GlueProxy, names: GlueCatalog, db: str) -> None:
    def taken() -> str:
        """Another client is first with the same name and location, and our request gets no proper reply."""
        names.declare_table((db, "t"))
        return "<html>"

    proxy.faults["CreateTable"] = [taken]
    with pytest.raises(AlreadyExistsError):
        behind.declare_table((db, "t"))


def test_throttled_requests_are_repeated(behind: GlueCatalog, proxy: GlueProxy, db: str) -> None:
    proxy.faults["GetTables"] = ["throttle"] * 4
    assert behind.list_tables((db,)) == []
    assert proxy.sent("GetTables") == 5
    proxy.faults["GetDatabase"] = ["throttle"] * 5
    with pytest.raises(StorageError, match="5 attempts were throttled"):
        behind.namespace_properties((db,))


def test_throttled_creation_knows_whose_the_table_is(behind: GlueCatalog, proxy: GlueProxy, db: str) -> None:
    behind.declare_table((db, "t"))
    proxy.faults["CreateTable"] = ["throttle"]
    with pytest.raises(AlreadyExistsError):
        behind.add_table((db, "t"), "s3://b/t", {})


def test_all_pages_are_read(behind: GlueCatalog, proxy: GlueProxy, glue: Any, db: str) -> None:
    for number in range(5):
        names = behind.declare_table((db, f"t{number}"))
        assert names.is_declared
    proxy.page_size = 2
    assert behind.list_tables((db,)) == [f"t{number}" for number in range(5)]
    assert proxy.sent("GetTables") == 3
    assert db in behind.list_namespaces()
    proxy.same_token = True
    with pytest.raises(StorageError, match="same next token"):
        behind.list_tables((db,))
    assert proxy.sent("GetTables") < 10


def test_parquet_table_on_a_later_page_keeps_the_database(
    behind: GlueCatalog, proxy: GlueProxy, glue: Any, db: str
) -> None:
    behind.declare_table((db, "a"))
    parquet_table(glue, db)
    proxy.page_size = 1
    with pytest.raises(NotEmptyError, match="other formats"):
        behind.drop_namespace((db,), cascade=True)
    assert table_names(glue, db) == ["a", "p"]
    assert proxy.sent("DeleteDatabase") == 0


@pytest.mark.parametrize(
    "body",
    [
        "<html>",
        "{}",
        "[]",
        "7",
        '{"Table": 7}',
        '{"Table": []}',
        '{"Table": {"Name": "t", "Parameters": "x"}}',
        '{"Table": {"Name": "t", "StorageDescriptor": [1]}}',
        '{"Table": {"Name": "t", "Parameters": {"table_type": "lance"}}}',
        '{"Table": {"Name": "t", "Parameters": {"table_type": "lance"}, "StorageDescriptor": {"Location": "../x"}}}',
    ],
)
def test_answers_that_are_none(behind: GlueCatalog, proxy: GlueProxy, db: str, body: str) -> None:
    proxy.faults["GetTable"] = [lambda: body] * 5
    with pytest.raises(StorageError):
        behind.table_location((db, "t"))


@pytest.mark.parametrize("body", ["{}", '{"TableList": 7}', '{"TableList": [7]}', '{"TableList": [{}]}'])
def test_listings_that_are_none(behind: GlueCatalog, proxy: GlueProxy, db: str, body: str) -> None:
    for cascade in (True, False):
        proxy.faults["GetTables"] = [lambda: body] * 5
        with pytest.raises(StorageError):
            behind.drop_namespace((db,), cascade=cascade)
    assert proxy.sent("DeleteDatabase") == 0


def test_catalog_id_is_sent_with_each_request(proxy: GlueProxy, db: str) -> None:
    settings = {**KEYS, "endpoint": proxy.endpoint, "catalog_id": "123456789012"}
    names = GlueCatalog.of_settings(settings, (), {})
    names.declare_table((db, "t"))
    names.rename_table((db, "t"), (db, "u"))
    names.list_tables((db,))
    names.drop_table((db, "u"), purge=False)
    assert {body.get("CatalogId") for _, body in proxy.requests} == {"123456789012"}


def test_table_without_a_location_can_be_dropped(names: GlueCatalog, glue: Any, db: str) -> None:
    glue.create_table(DatabaseName=db, TableInput={"Name": "t", "Parameters": {"table_type": "lance"}})
    with pytest.raises(StorageError):
        names.drop_table((db, "t"), purge=True)
    names.drop_table((db, "t"), purge=False)
    assert table_names(glue, db) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"regoin": "r"}, "did you mean region"),
        ({"access_key_id": "a"}, "are set together"),
        ({"session_token": "s3cret"}, "needs access_key_id"),
        ({"region": " "}, "is empty"),
    ],
)
def test_settings_that_are_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message) as raised:
        CatalogPlace("glue", settings=given).open()
    assert "s3cret" not in str(raised.value)


def test_credentials_are_in_no_message(names: GlueCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    unreachable = GlueCatalog.of_settings({**KEYS, "endpoint": "http://127.0.0.1:1"}, (), {})
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _seconds: None)
    with pytest.raises(StorageError, match="cannot be asked about the databases") as raised:
        unreachable.list_namespaces()
    read = read_settings("glue", KEYS, SETTINGS)
    assert "s3cret" not in f"{raised.value} {unreachable!r} {names!r} {read!r}"


def test_nothing_says_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    for given, message in (
        ({}, "region"),
        ({"region": "eu-west-1"}, "credentials"),
        ({"profile_name": "x"}, "profile"),
    ):
        names = GlueCatalog.of_settings(given, (), {})
        with pytest.raises(StorageError, match=message):
            names.list_namespaces()


def test_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(StorageError, match=r"pip install lance-spark\[glue\]"):
        GlueCatalog.of_settings({}, (), {})


def test_property_by_which_others_delete_files_is_refused(names: GlueCatalog, glue: Any, db: str) -> None:
    with pytest.raises(InvalidInputError, match=r"external\.table\.purge"):
        names.declare_table((db, "t"), properties={"external.table.purge": "TRUE"})
    assert table_names(glue, db) == []


def test_errors_are_ours(names: GlueCatalog, db: str) -> None:
    missing: list[tuple[Any, type[LanceError]]] = [
        (lambda: names.table_location((db, "t")), NotFoundError),
        (lambda: names.table_location(("t",)), NotFoundError),
        (lambda: names.list_tables(("db_missing",)), NotFoundError),
        (lambda: names.list_namespaces(("db_missing",)), NotFoundError),
        (lambda: names.drop_table((db, "t"), purge=True), NotFoundError),
        (lambda: names.rename_table((db, "t"), (db, "u")), NotFoundError),
        (lambda: names.set_namespace_properties(("db_missing",), {"a": "b"}), NotFoundError),
    ]
    for call, error in missing:
        with pytest.raises(error):
            call()
    assert names.list_tables() == []
    assert json.dumps(names.list_namespaces((db,))) == "[]"
