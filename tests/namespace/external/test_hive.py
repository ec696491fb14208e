"""Tables in a Hive metastore: a server in memory, with its generated client as the other one. A real one is tried by
``integration/test_hive_metastore.py``.
"""

from __future__ import annotations

import os
import socketserver
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pymetastore.hive_metastore import ttypes

import lance_spark
from lance_spark.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LanceError,
    NotEmptyError,
    NotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_spark.namespace.base import Namespace
from lance_spark.namespace.opening import CatalogPlace
from tests.support.hive_server import HiveServer, hive_server, metastore_client, table_of_the_field, tcp_server

ROWS = pa.table({"a": [1, 2, 3]})


def opened(uri: str, impl: str = "hive2", **settings: str) -> Namespace:
    return CatalogPlace(impl, settings={"uri": uri, **settings}).open()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HiveServer]:
    with hive_server(tmp_path / "wh") as found:
        yield found


@pytest.fixture
def names(server: HiveServer) -> Namespace:
    names = opened(server.uri)
    names.create_namespace(("db",))
    return names


@pytest.fixture
def other(server: HiveServer) -> Any:
    """The client of somebody else."""
    return metastore_client(server.port)


def written(names: Namespace, identifier: tuple[str, ...]) -> Path:
    """The folder of a new table with rows."""
    uri = names.declare_table(identifier).uri
    lance_spark.write(ROWS, uri)
    return Path(uri.removeprefix("file:"))


def test_entry_is_that_of_the_field_and_external(names: Namespace, other: Any, tmp_path: Path) -> None:
    names.declare_table(("db", "ours"), location=tmp_path / "x", properties={"owner": "ann"})
    other.create_table(table_of_the_field("db", "theirs", str(tmp_path / "x"), owner="ann"))
    ours, theirs = other.get_table("db", "ours"), other.get_table("db", "theirs")
    assert ours.parameters == {**theirs.parameters, "EXTERNAL": "TRUE"}
    assert ours.tableType == "EXTERNAL_TABLE"
    ours.sd.serdeInfo.parameters = None
    assert ours.sd == theirs.sd


def test_no_hive_client_deletes_or_moves_files(names: Namespace, other: Any) -> None:
    folder = written(names, ("db", "t"))
    found = other.get_table("db", "t")
    found.tableName = "u"
    other.alter_table_with_environment_context("db", "t", found, ttypes.EnvironmentContext())
    assert names.table_location(("db", "u")).uri == f"file:{folder}"
    other.drop_table("db", "u", True)
    assert lance.dataset(str(folder)).to_table() == ROWS


def test_table_of_another_lance_client(names: Namespace, other: Any, tmp_path: Path) -> None:
    place = tmp_path / "theirs"
    lance.write_dataset(ROWS, place)
    other.create_table(table_of_the_field("db", "t", f"{place}/", owner="ann"))
    found = names.table_location(("db", "t"))
    assert (found.properties, found.is_declared) == ({"owner": "ann"}, False)
    assert lance_spark.open(found.uri).to_table() == ROWS
    names.create_namespace(("db2",))
    names.rename_table(("db", "t"), ("db2", "u"))  # Its table is managed, whose files a rename would move.
    assert lance.dataset(place).to_table() == ROWS
    assert names.table_location(("db2", "u")).uri == found.uri
    other.drop_table("db2", "u", True)
    assert lance.dataset(place).to_table() == ROWS


def test_drop_keeps_files_and_purge_deletes_them(names: Namespace, other: Any, server: HiveServer) -> None:
    kept, purged = written(names, ("db", "kept")), written(names, ("db", "purged"))
    other.create_table(table_of_the_field("db", "managed", str(kept)))
    names.drop_table(("db", "managed"), purge=False)
    names.drop_table(("db", "kept"), purge=False)
    names.drop_table(("db", "purged"), purge=True)
    assert lance.dataset(str(kept)).to_table() == ROWS
    assert not purged.exists()
    assert not any(arguments[2] for method, arguments in server.calls if method == "drop_table")
    again = names.declare_table(("db", "kept")).uri
    assert again != f"file:{kept}"  # Files of the dropped table are there.
    names.register_table(("db", "back"), kept)
    assert names.table_location(("db", "back")).uri == f"file:{kept}"


def test_tables_of_all_formats_in_lots(names: Namespace, other: Any, server: HiveServer) -> None:
    for number in range(450):
        marker = ("lance", "LANCE", "Lance")[number % 3]
        table = table_of_the_field("db", f"t{number}", "s3://b/t")
        table.parameters["table_type"] = marker
        server.create_table(table)
    parquet = table_of_the_field("db", "p", "s3://b/p")
    parquet.parameters = {"spark.sql.sources.provider": "lance"}  # Spark's own entry of a table by its path.
    other.create_table(parquet)
    view = table_of_the_field("db", "v", "s3://b/v")
    view.tableType = "VIRTUAL_VIEW"
    other.create_table(view)
    assert len(names.list_tables(("db",))) == 450
    assert server.sent("get_table_objects_by_name_req") == 3
    assert names.table_exists(("db", "v"))
    for name in ("p", "v"):
        with pytest.raises(InvalidInputError, match="no Lance table"):
            names.drop_table(("db", name), purge=True)
    with pytest.raises(NotEmptyError, match="other formats"):
        names.drop_namespace(("db",), cascade=True)
    assert len(other.get_all_tables("db")) == 452


def test_namespaces(names: Namespace, other: Any, tmp_path: Path) -> None:
    names.create_namespace(("D2",), {"comment": "c", "location": str(tmp_path / "d2"), "owner": "ann", "k": "v"})
    assert names.list_namespaces() == ["d2", "db", "default"]
    found = other.get_database("d2")
    assert (found.description, found.ownerName, found.parameters) == ("c", "ann", {"k": "v"})
    assert names.declare_table(("d2", "t")).uri == f"file:{tmp_path}/d2/t"
    with pytest.raises(NotEmptyError):
        names.drop_namespace(("d2",))
    names.set_namespace_properties(("d2",), {"k": None, "l": "1", "owner": "eve"})
    assert dict(names.namespace_properties(("d2",)).items() - {("location", f"file:{tmp_path}/d2")}) == {
        "comment": "c",
        "owner": "eve",
        "l": "1",
    }
    with pytest.raises(UnsupportedFeatureError, match="does not change comment"):
        names.set_namespace_properties(("d2",), {"comment": "new"})
    names.drop_namespace(("d2",), cascade=True)
    assert not names.namespace_exists(("d2",))
    assert names.list_namespaces(("db",)) == []
    assert names.list_tables() == []
    for path in (("no",), ("db", "below"), ("@other#db",)):
        assert not names.namespace_exists(path)
        with pytest.raises(NotFoundError):
            names.list_tables(path)


def test_namespace_that_fills_while_it_is_dropped(names: Namespace, server: HiveServer) -> None:
    def fill(*arguments: Any) -> None:
        server.create_table(table_of_the_field("db", "t", "s3://b/t"))
        server.drop_database(*arguments)

    server.faults["drop_database"] = [fill]
    with pytest.raises(NotEmptyError):
        names.drop_namespace(("db",))
    assert names.table_exists(("db", "t"))


def test_default_location(server: HiveServer, names: Namespace, tmp_path: Path) -> None:
    assert names.declare_table(("db", "t")).uri == f"file:{tmp_path}/wh/db.db/t"
    rooted = opened(server.uri, root="s3://b/root/")
    rooted.create_namespace(("r",))
    assert rooted.namespace_properties(("r",))["location"] == "s3://b/root/r.db"
    assert rooted.default_location(("r", "t")) == "s3://b/root/r.db/t"


def test_rename(names: Namespace, server: HiveServer) -> None:
    uri = names.declare_table(("db", "T"), properties={"owner": "ann"}).uri
    names.declare_table(("db", "u"))
    names.create_namespace(("db2",))
    names.rename_table(("DB", "t"), ("db2", "W"))
    found = names.table_location(("db2", "w"))
    assert (found.uri, found.properties) == (f"file:{uri.removeprefix('file:')}", {"owner": "ann"})
    assert names.list_tables(("db",)) == ["u"]
    names.rename_table(("db2", "w"), ("db", "w"))
    refused: list[tuple[tuple[str, ...], tuple[str, ...], type[LanceError]]] = [
        (("db", "w"), ("db", "U"), AlreadyExistsError),
        (("db", "w"), ("db", "w"), AlreadyExistsError),
        (("db", "w"), ("no", "w"), NotFoundError),
        (("db", "no"), ("db", "x"), NotFoundError),
        (("db", "w"), ("db", "a-b"), InvalidInputError),
        (("db", "w"), ("x",), InvalidInputError),
    ]
    for old, new, error in refused:
        with pytest.raises(error):
            names.rename_table(old, new)
    server.faults["get_table_req"] = ["", "", lambda _request: (_ for _ in ()).throw(ttypes.NoSuchObjectException())]
    with pytest.raises(AlreadyExistsError):  # The other one is made after we have looked.
        names.rename_table(("db", "w"), ("db", "u"))
    assert names.list_tables(("db",)) == ["u", "w"]


@pytest.mark.parametrize("name", ["a-b", "a b", "tä", "a.b", "a/b", "..", "@a", "t#"])
def test_names_that_hive_does_not_keep_are_refused_before(names: Namespace, server: HiveServer, name: str) -> None:
    before = len(server.calls)
    with pytest.raises(InvalidInputError, match="letters, digits and underscores"):
        names.declare_table(("db", name))
    with pytest.raises(InvalidInputError, match="letters, digits and underscores"):
        names.create_namespace((name,))
    assert len(server.calls) == before
    assert not names.table_exists(("db", name))


def test_table_whose_reply_is_lost_is_ours(names: Namespace, server: HiveServer) -> None:
    server.faults["create_table"] = ["lose"]
    names.declare_table(("db", "t"))
    server.faults["alter_table_with_environment_context"] = ["lose"]
    names.rename_table(("db", "t"), ("db", "u"))
    assert names.list_tables(("db",)) == ["u"]
    server.faults["drop_table"] = ["lose"]
    names.drop_table(("db", "u"), purge=False)
    assert names.list_tables(("db",)) == []
    server.faults["drop_database"] = ["lose"]
    names.drop_namespace(("db",))
    server.faults["create_database"] = ["lose"]
    names.create_namespace(("db",), {"k": "v"})
    changes = ("create_table", "alter_table_with_environment_context", "drop_table", "drop_database")
    assert [server.sent(method) for method in changes] == [1, 1, 1, 1]


def test_change_that_was_not_made_is_an_error(names: Namespace, server: HiveServer) -> None:
    names.declare_table(("db", "t"))
    calls: dict[str, Any] = {
        "create_table": lambda: names.declare_table(("db", "u")),
        "alter_table_with_environment_context": lambda: names.rename_table(("db", "t"), ("db", "u")),
        "drop_table": lambda: names.drop_table(("db", "t"), purge=True),
        "create_database": lambda: names.create_namespace(("e",)),
        "drop_database": lambda: names.drop_namespace(("empty",)),
    }
    names.create_namespace(("empty",))
    for method, call in calls.items():
        before = server.sent(method)
        server.faults[method] = ["drop"]
        with pytest.raises(StorageError, match="gives no proper answer"):
            call()
        assert server.sent(method) == before + 1
    assert names.list_tables(("db",)) == ["t"]
    assert names.list_namespaces() == ["db", "default", "empty"]


def test_table_of_another_is_never_ours(names: Namespace, server: HiveServer, other: Any) -> None:
    def taken(table: Any) -> None:
        """Another client of the same kind is first, with the same location."""
        table.sd.serdeInfo.parameters = dict.fromkeys(table.sd.serdeInfo.parameters, "other")
        server.create_table(table)
        raise BrokenPipeError

    server.faults["create_table"] = [taken]
    with pytest.raises(AlreadyExistsError):
        names.declare_table(("db", "t"))


def test_nobody_knows_what_became_of_a_change(names: Namespace, server: HiveServer) -> None:
    server.faults["create_table"] = ["lose"]
    server.faults["get_table_req"] = ["drop", "drop"]
    with pytest.raises(StorageError, match=r"db\.t"):
        names.declare_table(("db", "t"))
    assert names.table_exists(("db", "t"))


def test_rename_that_was_not_made_beside_the_same_table(names: Namespace, server: HiveServer, other: Any) -> None:
    uri = names.declare_table(("db", "t")).uri

    def taken(*_arguments: Any) -> None:
        """Another client registers the same location under the new name."""
        server.create_table(table_of_the_field("db", "u", uri))
        raise BrokenPipeError

    server.faults["alter_table_with_environment_context"] = [taken]
    with pytest.raises(StorageError):
        names.rename_table(("db", "t"), ("db", "u"))
    assert names.list_tables(("db",)) == ["t", "u"]


def test_late_reply_is_not_that_of_the_next_call(
    names: Namespace, server: HiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    names.create_namespace(("next",), {"k": "v"})
    monkeypatch.setattr("lance_spark.namespace.external.hive_client._REPLY_SECONDS", 0.1)
    hasty = opened(f"{server.uri}/")
    server.delay = 0.3
    with pytest.raises(StorageError, match="no proper answer"):
        hasty.namespace_properties(("db",))
    server.delay = 0.0
    time.sleep(0.5)
    assert hasty.namespace_properties(("next",))["k"] == "v"


def test_metastore_that_restarts(names: Namespace, server: HiveServer) -> None:
    assert names.list_tables(("db",)) == []
    server.hang_up()
    names.create_namespace(("at_once",))
    names.declare_table(("db", "t"))
    server.faults["get_table_req"] = ["drop"]
    assert names.table_exists(("db", "t"))
    server.faults["get_table_req"] = ["drop", "drop"]
    with pytest.raises(StorageError):
        names.table_exists(("db", "t"))
    assert names.table_exists(("db", "t"))


def test_threads_share_a_pool(server: HiveServer) -> None:
    names = opened(server.uri, **{"client.pool-size": "2"})
    server.delay = 0.02
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            names.create_namespace((f"d{number}",))
            assert names.namespace_exists((f"d{number}",))
        except BaseException as error:  # noqa: BLE001 - the assertion is below.
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert server.most == 2
    assert server.connections == 2
    server.faults["get_all_databases"] = ["drop", ""]
    assert len(names.list_namespaces()) == 9
    assert server.connections == 3


def test_forked_process_has_its_own_connections(names: Namespace, server: HiveServer) -> None:
    names.list_namespaces()
    before = server.connections
    child = os.fork()
    if child == 0:
        os._exit(0 if names.namespace_exists(("db",)) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert server.connections == before + 1
    assert names.namespace_exists(("db",))
    assert server.connections == before + 1


def test_addresses_are_tried_in_turn(server: HiveServer) -> None:
    names = opened(f"thrift://127.0.0.1:1, {server.uri}")
    assert names.list_namespaces() == ["default"]
    with pytest.raises(StorageError, match=r"no Hive metastore answers: 127\.0\.0\.1:1: "):
        opened("thrift://127.0.0.1:1").list_namespaces()


def test_user_and_groups_are_sent_on_each_connection(server: HiveServer) -> None:
    names = opened(server.uri, ugi="ann:staff, dev")
    names.create_namespace(("db",))
    names.declare_table(("db", "t"))
    server.hang_up()
    names.list_namespaces()
    assert [arguments for method, arguments in server.calls if method == "set_ugi"] == [("ann", ["staff", "dev"])] * 2
    assert server.tables["hive", "db", "t"].owner == "ann"


def test_properties_of_the_server_are_not_the_users(names: Namespace, other: Any) -> None:
    names.declare_table(("db", "t"), properties={"owner": "ann"})
    other.alter_table_with_environment_context("db", "t", other.get_table("db", "t"), ttypes.EnvironmentContext())
    assert {"numFiles", "transient_lastDdlTime", "EXTERNAL"} <= {*other.get_table("db", "t").parameters}
    assert names.table_location(("db", "t")).properties == {"owner": "ann"}


@pytest.mark.parametrize(
    "missing", [("get_table", "get_table_objects_by_name"), ("get_table_req", "get_table_objects_by_name_req")]
)
def test_releases_before_and_after(names: Namespace, server: HiveServer, missing: tuple[str, ...]) -> None:
    """Hive 4 has only the one way to ask for tables, Hive before 2.3 only the other."""
    server.missing |= {*missing}
    real = server.get_table
    names.declare_table(("db", "t"))
    assert names.list_tables(("db",)) == ["t"]
    assert names.table_exists(("db", "t"))
    assert not names.table_exists(("db", "u"))
    assert real("db", "t").tableName == "t"
    assert server.connections == 1


def test_catalogs_of_hive_3(tmp_path: Path) -> None:
    with hive_server(tmp_path / "wh", ("sales",)) as server:
        names = opened(server.uri, "hive3", root=str(tmp_path / "root"))
        assert names.list_namespaces() == ["hive", "sales"]
        assert names.list_namespaces(("hive",)) == ["default"]
        names.create_namespace(("sales", "db"))
        names.create_namespace(("hive", "db"))
        assert names.list_namespaces(("sales",)) == ["db"]
        in_sales = names.declare_table(("Sales", "db", "T"))
        in_hive = names.declare_table(("hive", "db", "t"))
        assert (in_sales.uri, in_hive.uri) == (f"{tmp_path}/root/sales/db.db/t", f"{tmp_path}/root/db.db/t")
        lance_spark.write(ROWS, in_sales.uri)
        assert names.list_tables(("sales", "db")) == ["t"]
        assert not names.table_location(("sales", "db", "t")).is_declared
        names.rename_table(("sales", "db", "t"), ("sales", "db", "u"))
        assert [*server.tables] == [("hive", "db", "t"), ("sales", "db", "u")]
        with pytest.raises(InvalidInputError, match="another catalog"):
            names.rename_table(("sales", "db", "u"), ("hive", "db", "u"))
        with pytest.raises(NotFoundError):
            names.list_namespaces(("nope",))
        for call in (
            lambda: names.drop_namespace(("sales",), cascade=True),
            lambda: names.create_namespace(("more",)),
            lambda: names.set_namespace_properties(("sales",), {"a": "b"}),
        ):
            with pytest.raises(InvalidInputError, match="by Hive's own tools"):
                call()
        names.drop_namespace(("sales", "db"), cascade=True)
        assert [*server.tables] == [("hive", "db", "t")]
        assert lance.dataset(in_sales.uri).to_table() == ROWS
        below = CatalogPlace("hive3", settings={"uri": server.uri}, parent=("hive",)).open()
        assert below.list_tables(("db",)) == ["t"] == opened(server.uri).list_tables(("db",))


def test_catalog_of_hive_2_by_the_levels_of_hive_3(names: Namespace, server: HiveServer) -> None:
    names.declare_table(("db", "t"))
    three = opened(server.uri, "hive3")
    assert three.list_namespaces() == ["hive"]
    assert three.list_namespaces(("hive",)) == ["db", "default"]
    assert three.list_tables(("hive", "db")) == ["t"]
    assert three.list_tables(("hive",)) == []
    assert not three.namespace_exists(("other",))
    with pytest.raises(NotFoundError):
        three.list_namespaces(("other",))


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/html\r\n\r\n<html>",
        b"",
        b"\x80\x01\x00\x02",
        struct.pack(">i", -1),
        struct.pack(">ii", -2147418110, 1 << 30),
        # A reply with a list of more names than there are.
        struct.pack(">ii17siBhBi", -2147418110, 17, b"get_all_databases", 0, 15, 0, 11, 1 << 30),
        struct.pack(">ii17siBhBii", -2147418110, 17, b"get_all_databases", 0, 15, 0, 11, 1, 3) + b"\xff\xfe\xfd\0",
        struct.pack(">ii17siB", -2147418110, 17, b"get_all_databases", 0, 0),
    ],
)
def test_server_of_another_kind(reply: bytes) -> None:
    class Other(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1000)
            self.request.sendall(reply)

    with tcp_server(Other) as port, pytest.raises(StorageError, match="Hive metastore"):
        opened(f"thrift://127.0.0.1:{port}").list_namespaces()


def test_reply_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1000)
            name = b"get_all_databases"
            self.request.sendall(struct.pack(">ii17siBhBi", -2147418110, 17, name, 0, 15, 0, 11, 1 << 19))
            try:
                while True:
                    self.request.sendall(struct.pack(">i1000s", 1000, b"x" * 1000) * 100)
            except OSError:
                pass

    monkeypatch.setattr("lance_spark.namespace.external.hive_client._LARGEST_REPLY", 1 << 20)
    with tcp_server(Endless) as port, pytest.raises(StorageError, match="more than 1048576 bytes"):
        opened(f"thrift://127.0.0.1:{port}").list_namespaces()


def test_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while self.request.recv(1000):
                pass

    monkeypatch.setattr("lance_spark.namespace.external.hive_client._REPLY_SECONDS", 0.1)
    with tcp_server(Silent) as port, pytest.raises(StorageError, match="gives no proper answer"):
        opened(f"thrift://127.0.0.1:{port}").list_namespaces()


@pytest.mark.parametrize(
    "table",
    [ttypes.Table(), ttypes.Table(tableName="t"), ttypes.Table(tableName="t", parameters={"table_type": "lance"})],
)
def test_tables_without_what_every_table_has(names: Namespace, server: HiveServer, table: Any) -> None:
    server.faults["get_table_req"] = [lambda _request: ttypes.GetTableResult(table=table)]
    with pytest.raises((StorageError, InvalidInputError)):
        names.table_location(("db", "t"))


def test_error_of_the_server(names: Namespace, server: HiveServer) -> None:
    def failing(*_arguments: Any) -> None:
        raise ttypes.MetaException("the database of the metastore is down")

    server.faults["get_database"] = [failing]
    with pytest.raises(StorageError, match="the database of the metastore is down"):
        names.namespace_exists(("db",))
    assert server.connections == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "needs the setting uri"),
        ({"uri": "http://host"}, "thrift://host:port"),
        ({"uri": "thrift://"}, "thrift://host:port"),
        ({"uri": "thrift://user:s3cret@host:1"}, "thrift://host:port"),
        ({"uri": "thrift://host:1", "client.pool-size": "0"}, "whole number"),
        ({"uri": "thrift://host:1", "hive.metastore.sasl.enabled": "true"}, "has no setting"),
        ({"uri": "thrift://host:1", "hadoop.hive.metastore.uris": "thrift://host:2"}, "another value"),
        ({"uri": "thrift://host:1", "ugi": ":staff"}, "user:group"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, str], message: str) -> None:
    for impl in ("hive", "hive2", "hive3"):
        with pytest.raises(InvalidInputError, match=message) as raised:
            CatalogPlace(impl, settings=settings).open()
        assert "s3cret" not in str(raised.value)


def test_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymetastore.hive_metastore.ttypes", None)
    monkeypatch.setitem(sys.modules, "pymetastore.hive_metastore", None)
    with pytest.raises(StorageError, match=r"pip install lance-spark\[hive\]"):
        opened("thrift://host:7")
