"""Tables whose versions a server keeps: the reference's server, through a proxy that loses and invents answers, and
servers that name manifests in other ways.
"""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import lance
import lance.namespace
import pyarrow as pa
import pytest
from lance.namespace import RestAdapter

import lance_spark
from lance_spark.catalog import Catalog
from lance_spark.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    CorruptFileError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    StorageError,
)
from lance_spark.storage.http_parts import HttpLimits
from lance_spark.storage.json_server import JsonServer
from lance_spark.storage.manifest_table import MANAGED_VERSIONS
from lance_spark.storage.served_versions import ServedTable
from tests.support.s3_proxy import ANSWER_LOST, NOT_SENT, S3Proxy, Seen, Trouble, landed_but, refused, s3_proxy

ONE = pa.table({"a": [1]})
KEEPS = {"manifest_enabled": "true", "table_version_tracking_enabled": "true"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Proxy]:
    with (
        RestAdapter("dir", {"root": str(tmp_path), **KEEPS}, host="127.0.0.1", port=0) as adapter,
        s3_proxy(f"http://127.0.0.1:{adapter.port}") as proxy,
    ):
        proxy.applies_to = "/version/create"
        yield proxy


@pytest.fixture
def catalog(server: S3Proxy) -> Catalog:
    catalog = lance_spark.connect(server.endpoint, impl="rest")
    catalog.create_namespace("db")
    return catalog


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = HttpLimits(retry_seconds=0.3, silence_seconds=0.3)
    monkeypatch.setattr("lance_spark.storage.served_versions.JsonServer", partial(JsonServer, limits=limits))


def of_the_reference(server: S3Proxy) -> dict[str, Any]:
    return {"namespace_client": lance.namespace.RestNamespace(uri=server.endpoint), "table_id": ["db", "t"]}


def folder_of(table: lance_spark.Dataset) -> Path:
    return Path(table.uri.removeprefix("file://"))


def staged(table: lance_spark.Dataset) -> list[str]:
    return [path.name for path in (folder_of(table) / "_versions").iterdir() if ".manifest-" in path.name]


def test_both_libraries_write_one_table(server: S3Proxy, catalog: Catalog) -> None:
    first = catalog.create_table("db.t", pa.table({"a": [1, 2, 3]}))
    first.append(pa.table({"a": [4]})).delete("a = 1")
    theirs = lance.dataset(**of_the_reference(server))
    assert (theirs.version, theirs.to_table()["a"].to_pylist()) == (3, [2, 3, 4])
    lance.write_dataset(pa.table({"a": [9]}), **of_the_reference(server), mode="append")
    ours = catalog.open_table("db.t")
    assert (ours.version, ours.to_table()["a"].to_pylist()) == (4, [2, 3, 4, 9])
    assert [version.version for version in ours.versions()] == [1, 2, 3, 4]
    assert catalog.open_table("db.t", version=1).count_rows() == 3
    assert staged(ours) == []
    with pytest.raises(NotFoundError):
        catalog.open_table("db.t", version=9)


def test_the_folder_does_not_say_which_versions_there_are(server: S3Proxy, catalog: Catalog) -> None:
    """A manifest that the server does not know is none of the table's versions."""
    table = catalog.create_table("db.t", ONE)
    lance.write_dataset(ONE, table.uri, mode="append")  # Without the server.
    assert lance.dataset(table.uri).version == 2
    made = pickle.loads(pickle.dumps(table))
    assert made.version == 1
    assert MANAGED_VERSIONS not in repr(made)


def test_branches_tags_and_cleanup(server: S3Proxy, catalog: Catalog) -> None:
    table = catalog.create_table("db.t", ONE).append(ONE).append(ONE)
    table.create_tag("kept")
    branch = table.create_branch("dev")
    assert branch.append(ONE).count_rows() == 4
    assert lance.dataset(**of_the_reference(server)).checkout_version(("dev", None)).count_rows() == 4
    assert catalog.open_table("db.t", tag="kept").count_rows() == 3
    newest = catalog.open_table("db.t").append(ONE).append(ONE)
    stats = newest.cleanup(older_than=timedelta(0), error_if_tagged_old_versions=False)
    assert stats.versions == (1, 2, 4)
    assert [version.version for version in catalog.open_table("db.t").versions()] == [3, 5]
    assert lance.dataset(**of_the_reference(server)).version == 5
    newest.delete_branch("dev")
    with pytest.raises(NotFoundError):
        catalog.open_table("db.t", branch="dev")


def test_partitions_commit_by_themselves(catalog: Catalog) -> None:
    rows = pa.table({"a": [1, 2, 3], "k": ["x", "x", "y"]})
    catalog.create_table("db.p", rows, partition_by=["k"]).append(rows)
    assert catalog.open_table("db.p").count_rows("k = 'x'") == 4
    catalog.drop_table("db.p", purge=True)
    assert catalog.list_tables("db") == []


@pytest.mark.parametrize(
    "trouble",
    [
        ANSWER_LOST,
        landed_but(503, "Busy"),
        landed_but(500, "Broken"),
        landed_but(409, "Conflict"),
        landed_but(400, "No"),
    ],
    ids=["answer lost", "503", "500", "409", "400"],
)
def test_a_commit_whose_answer_is_lost_is_made_once(server: S3Proxy, catalog: Catalog, trouble: Trouble) -> None:
    table = catalog.create_table("db.t", ONE)
    server.troubles = [trouble]
    after = table.append(pa.table({"a": [2]}))
    assert server.troubles == []
    assert after.version == 2
    assert sorted(lance.dataset(**of_the_reference(server)).to_table()["a"].to_pylist()) == [1, 2]
    assert staged(table) == []


def test_a_create_whose_answer_is_lost_makes_one_table(server: S3Proxy, catalog: Catalog) -> None:
    server.troubles = [ANSWER_LOST]
    assert catalog.create_table("db.t", ONE).version == 1
    assert lance.dataset(**of_the_reference(server)).count_rows() == 1


@pytest.mark.parametrize("trouble", [refused(400, "No"), refused(403, "Denied")], ids=["400", "403"])
def test_a_refused_commit_changes_nothing(server: S3Proxy, catalog: Catalog, trouble: Trouble) -> None:
    table = catalog.create_table("db.t", ONE)
    before = sorted(path.name for path in folder_of(table).rglob("*.lance"))
    server.troubles = [trouble]
    with pytest.raises(StorageError, match="on purpose"):
        table.append(ONE)
    assert catalog.open_table("db.t").version == 1
    assert sorted(path.name for path in folder_of(table).rglob("*.lance")) == before
    assert staged(table) == []


@pytest.mark.parametrize(
    "trouble", [NOT_SENT, refused(503, "Busy"), refused(500, "Broken")], ids=["lost", "503", "500"]
)
def test_a_commit_that_did_not_arrive_is_sent_again_or_unknown(
    server: S3Proxy, catalog: Catalog, trouble: Trouble
) -> None:
    table = catalog.create_table("db.t", ONE)
    server.troubles = [trouble]
    rows = table.append(ONE).count_rows()
    assert rows == lance.dataset(**of_the_reference(server)).count_rows() == 2


@pytest.mark.slow
def test_a_server_that_is_down_leaves_the_files_of_an_unknown_commit(
    server: S3Proxy, catalog: Catalog, impatient: None
) -> None:
    table = catalog.create_table("db.t", ONE)
    append, begin = server.next_trouble, threading.Event()

    def down_from_the_commit_on(request: Seen) -> Trouble | None:
        if "/version/create" in request.target:
            begin.set()
        return NOT_SENT if begin.is_set() else append(request)

    server.next_trouble = down_from_the_commit_on  # type: ignore[method-assign]
    with pytest.raises(CommitStateUnknownError):
        table.append(ONE)
    assert staged(table)
    server.next_trouble = append  # type: ignore[method-assign]
    assert catalog.open_table("db.t").append(ONE).count_rows() == 2


@pytest.mark.parametrize("slow", [pytest.param(False), pytest.param(True, marks=pytest.mark.slow)])
def test_writers_race_through_a_faulty_network(server: S3Proxy, catalog: Catalog, slow: bool) -> None:
    """Each row whose append succeeded is there once; one whose commit is unknown at most once."""
    catalog.create_table("db.t", pa.table({"a": pa.array([], pa.int64())}))
    faults = [ANSWER_LOST, refused(503, "Busy"), landed_but(500, "Broken"), NOT_SENT, landed_but(409, "Conflict")]
    server.troubles = [trouble for trouble in faults for _ in range(4 if slow else 2)]
    certain: list[int] = []
    unknown: list[int] = []

    def write(number: int) -> None:
        try:
            catalog.open_table("db.t").append(pa.table({"a": [number]}))
        except CommitStateUnknownError:
            unknown.append(number)
        except CommitConflictError:
            pass
        else:
            certain.append(number)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(40 if slow else 16)))
    found = lance.dataset(**of_the_reference(server)).to_table()["a"].to_pylist()
    assert len(found) == len(set(found))
    assert set(certain) <= set(found) <= {*certain, *unknown}
    assert len(certain) >= 8


class Stub:
    """A server that keeps the versions of one table, and names the manifests as `name` says."""

    def __init__(self, root: Path, name: str) -> None:
        self.root, self.name = root, name
        self.versions: dict[int, dict[str, Any]] = {}
        self.answers: dict[str, Any] = {}

    def reply(self, operation: str, body: dict[str, Any]) -> tuple[int, Any]:
        if operation in self.answers:
            return self.answers[operation]
        if operation in ("describe_table", "declare_table"):
            return 200, {"location": str(self.root), "managed_versioning": True}
        if operation == "list":
            found = [self.versions[number] for number in sorted(self.versions, reverse=True)]
            return 200, {"versions": found}
        version = body["version"]
        if operation == "describe":
            known = version in self.versions
            return (200, {"version": self.versions[version]}) if known else (404, {"error": "none", "code": 11})
        if version in self.versions:
            return 409, {"error": "it exists", "code": 14}
        relative = body["manifest_path"].removeprefix(f"{str(self.root).strip('/')}/")
        named = {
            "staged key": body["manifest_path"],
            "relative": relative,
            "uri": f"file://{self.root}/{relative}",
            "absolute": f"{self.root}/{relative}",
        }
        self.versions[version] = {"version": version, "manifest_path": named[self.name]}
        return 200, {"version": self.versions[version]}


@contextmanager
def serving(stub: Stub) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            parts = self.path.partition("?")[0].strip("/").split("/")
            operation = parts[-1] if "version" in parts else f"{parts[-1]}_table"
            status, told = stub.reply(operation, json.loads(text) if text else {})
            data = told if isinstance(told, bytes) else json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Silence."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("name", ["staged key", "relative", "uri", "absolute"])
def test_manifests_are_read_where_the_server_says(tmp_path: Path, name: str) -> None:
    stub = Stub(tmp_path / "t t", name)
    with serving(stub) as uri:
        catalog = lance_spark.connect(uri, impl="rest")
        catalog.create_table("t", ONE).append(ONE)
        assert (catalog.open_table("t").version, catalog.open_table("t").count_rows()) == (2, 2)
        assert catalog.open_table("t", version=1).count_rows() == 1
        manifests = [path.name for path in (stub.root / "_versions").iterdir()]
        assert all(".manifest-" in path for path in manifests)
        old = catalog.open_table("t", version=1)
        assert old.append(ONE).version == 3


@pytest.mark.parametrize(
    ("versions", "error", "message"),
    [
        ([{"version": 1, "manifest_path": "/etc/passwd"}], CorruptFileError, "which is none of the table"),
        (
            [{"version": 1, "manifest_path": "../x/_versions/1.manifest"}],
            CorruptFileError,
            "which is none of the table",
        ),
        ([{"version": 1, "manifest_path": "_versions/../../x"}], CorruptFileError, "which is none of the table"),
        ([{"version": 1, "manifest_path": "s3://other/_versions/1.manifest"}], CorruptFileError, "none of the table"),
        ([{"version": 3, "manifest_path": "_versions/1.manifest"}], CorruptFileError, "says that version 3 is"),
        ([{"version": 1}], CorruptFileError, "does not say where the manifest of version 1 is"),
        ([{"version": -1, "manifest_path": "_versions/1.manifest"}], CorruptFileError, "without a number"),
        (["x"], CorruptFileError, "without a number"),
        ("x", StorageError, "without a list of versions"),
    ],
)
def test_a_server_that_lies_is_not_followed(
    tmp_path: Path, versions: Any, error: type[LanceError], message: str
) -> None:
    stub = Stub(tmp_path, "relative")
    stub.answers["list"] = (200, {"versions": versions})
    with serving(stub) as uri, pytest.raises(error, match=message):
        lance_spark.connect(uri, impl="rest").open_table("t")


@pytest.mark.parametrize("answer", [(200, b"<html>"), (302, {}), (500, {"error": "broken"})])
def test_answers_that_are_none(tmp_path: Path, answer: tuple[int, Any], impatient: None) -> None:
    stub = Stub(tmp_path, "relative")
    with serving(stub) as uri:
        catalog = lance_spark.connect(uri, impl="rest")
        catalog.create_table("t", ONE)
        stub.answers["describe"] = answer
        with pytest.raises(StorageError):
            catalog.open_table("t", version=1)


def test_another_version_for_the_one_that_was_asked_for(tmp_path: Path) -> None:
    stub = Stub(tmp_path, "relative")
    with serving(stub) as uri:
        catalog = lance_spark.connect(uri, impl="rest")
        catalog.create_table("t", ONE).append(ONE)
        stub.answers["describe"] = (200, {"version": stub.versions[2]})
        with pytest.raises(CorruptFileError, match="answers version 2 for version 1"):
            catalog.open_table("t", version=1)


def test_the_option_is_for_catalogs_only(tmp_path: Path) -> None:
    lance_spark.write(ONE, tmp_path / "t")
    with pytest.raises(InvalidInputError, match="is set by catalogs only"):
        lance_spark.open(tmp_path / "t", storage_options={MANAGED_VERSIONS: "x"})
    other = ServedTable("http://127.0.0.1:1", {"Authorization": "hidden"}, ("t",), str(tmp_path / "other"))
    assert lance_spark.open(tmp_path / "t", storage_options=other.to_options()).count_rows() == 1
    assert "hidden" not in repr(other)
