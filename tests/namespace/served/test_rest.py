"""Catalogs over REST, against the server that the reference library brings."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.namespace import RestAdapter

import lance_spark
from lance_spark.errors import (
    AlreadyExistsError,
    LanceError,
    NotEmptyError,
    NotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.namespace.served.rest import RestNamespace
from lance_spark.partitioned.new_name import NewName
from lance_spark.storage.http_parts import HttpLimits
from tests.support.s3_proxy import ANSWER_LOST, NOT_SENT, S3Proxy, Trouble, landed_but, refused, s3_proxy

ROWS = pa.table({"a": [1, 2, 3]})
AT_ONCE = HttpLimits(retry_seconds=0.0, silence_seconds=0.0)


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "root")


@pytest.fixture
def names(root: str) -> Iterator[RestNamespace]:
    with RestAdapter("dir", {"root": root}, host="127.0.0.1", port=0) as server:
        yield RestNamespace(f"http://127.0.0.1:{server.port}/")


def test_namespaces(names: RestNamespace, root: str) -> None:
    assert names.list_namespaces() == []
    names.create_namespace(("db",), {"owner": "ann"})
    names.create_namespace(("db", "inner"))
    names.create_namespace(("a",))
    assert names.list_namespaces() == ["a", "db"]
    assert names.list_namespaces(("db",)) == ["inner"]
    assert names.namespace_properties(("db",))["owner"] == "ann"
    assert names.namespace_exists(())
    assert names.namespace_exists(("db", "inner"))
    assert not names.namespace_exists(("db", "other"))
    with pytest.raises(AlreadyExistsError):
        names.create_namespace(("db",))
    with pytest.raises(NotFoundError):
        names.create_namespace(("nowhere", "x"))
    with pytest.raises(NotFoundError):
        names.namespace_properties(("nowhere",))
    with pytest.raises(NotEmptyError):
        names.drop_namespace(("db",))
    names.drop_namespace(("db", "inner"))
    names.drop_namespace(("db",))
    assert DirectoryNamespace(root).list_namespaces() == ["a"]


def test_tables(names: RestNamespace, root: str) -> None:
    names.create_namespace(("db",))
    declared = names.declare_table(("db", "t"))
    assert names.table_location(("db", "t")).is_declared
    lance_spark.write(ROWS, declared.uri)
    found = names.table_location(("db", "t"))
    assert (found.uri, found.is_declared) == (declared.uri, False)
    assert lance.dataset(found.uri).to_table() == ROWS
    assert names.list_tables(("db",)) == ["t"] == DirectoryNamespace(root).list_tables(("db",))
    assert names.table_exists(("db", "t"))
    assert not names.table_exists(("db", "u"))
    with pytest.raises(AlreadyExistsError):
        names.declare_table(("db", "t"))
    for missing in (names.table_location, lambda path: names.drop_table(path, purge=True)):
        with pytest.raises(NotFoundError):
            missing(("db", "u"))
    kept = names.declare_table(("db", "kept")).uri
    lance_spark.write(ROWS, kept)
    names.drop_table(("db", "kept"), purge=False)
    names.drop_table(("db", "t"), purge=True)
    assert lance.dataset(kept).count_rows() == 3
    with pytest.raises(LanceError):
        lance_spark.open(found.uri)
    assert names.list_tables() == names.list_tables(("db",)) == []


def test_what_the_protocol_or_the_server_cannot_do(names: RestNamespace) -> None:
    names.create_namespace(("db",))
    names.declare_table(("db", "t"))
    with pytest.raises(UnsupportedFeatureError):
        names.set_namespace_properties(("db",), {"a": "b"})
    with pytest.raises(UnsupportedFeatureError, match="not implemented"):
        names.rename_table(("db", "t"), ("db", "u"))
    assert names.table_exists(("db", "t"))


@pytest.mark.slow
def test_nobody_answers() -> None:
    with serving([(200, "{}")]) as (uri, _):
        pass
    with pytest.raises(StorageError, match="does not answer"):
        RestNamespace(uri, limits=AT_ONCE).list_tables()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (500, "<html>", StorageError),
        (503, '{"code": 17, "error": "busy"}', StorageError),
        (401, '{"code": 16, "error": "who are you"}', StorageError),
        (501, '{"code": 0, "error": "no"}', UnsupportedFeatureError),
        (404, "", NotFoundError),
        (404, '{"code": 4, "error": "t"}', NotFoundError),
        (400, '{"code": "x"}', StorageError),
        (400, "[]", StorageError),
        (200, "[1", StorageError),
        (200, '{"location": 3}', StorageError),
        (200, "{}", StorageError),
    ],
)
def test_answers_that_are_errors_or_make_no_sense(status: int, body: str, error: type[LanceError]) -> None:
    with serving([(status, body)]) as (uri, _), pytest.raises(error):
        RestNamespace(uri, limits=AT_ONCE).table_location(("t",))


@pytest.fixture
def behind(root: str) -> Iterator[tuple[RestNamespace, S3Proxy]]:
    with (
        RestAdapter("dir", {"root": root}, host="127.0.0.1", port=0) as server,
        s3_proxy(f"http://127.0.0.1:{server.port}") as proxy,
    ):
        proxy.applies_to = "/v1/"
        yield RestNamespace(proxy.endpoint), proxy


LOST = [ANSWER_LOST, landed_but(500, "Broken"), landed_but(503, "Busy")]


@pytest.mark.parametrize("trouble", LOST, ids=["lost", "500", "503"])
def test_a_change_whose_answer_is_lost_is_looked_up(behind: tuple[RestNamespace, S3Proxy], trouble: Trouble) -> None:
    names, proxy = behind
    proxy.troubles = [trouble]
    names.create_namespace(("db",), {"owner": "ann"})
    proxy.troubles = [trouble]
    uri = names.declare_table(("db", "t")).uri
    lance_spark.write(ROWS, uri)
    proxy.troubles = [trouble]
    names.drop_table(("db", "t"), purge=False)
    assert names.list_tables(("db",)) == []
    proxy.troubles = [trouble]
    names.register_table(("db", "again"), Path(uri.removeprefix("file://")).name)
    assert lance_spark.open(names.table_location(("db", "again")).uri).count_rows() == 3
    names.drop_table(("db", "again"), purge=True)
    proxy.troubles = [trouble]
    names.drop_namespace(("db",))
    assert names.list_namespaces() == []
    assert proxy.troubles == []


def test_a_name_that_may_be_anothers_is_not_taken_back(behind: tuple[RestNamespace, S3Proxy], root: str) -> None:
    """The answer is lost with which the server says that another writer was first."""
    names, proxy = behind
    RestNamespace(proxy.endpoint).declare_table(("t",))
    proxy.troubles = [ANSWER_LOST]
    new = NewName.reserve(names, ("t",), {}, partitioned=False)
    new.withdraw()
    assert names.list_tables() == ["t"]
    lance_spark.write(ROWS, names.table_location(("t",)).uri)
    proxy.troubles = [ANSWER_LOST]
    with pytest.raises(StorageError):
        NewName.reserve(names, ("t",), {}, partitioned=False)
    assert lance_spark.open(names.table_location(("t",)).uri).count_rows() == 3


@pytest.mark.parametrize("trouble", [NOT_SENT, refused(500, "Broken")], ids=["lost", "500"])
def test_a_change_that_was_not_made_is_an_error(behind: tuple[RestNamespace, S3Proxy], trouble: Trouble) -> None:
    names, proxy = behind
    names.create_namespace(("db",))
    for change in (
        lambda: names.create_namespace(("other",)),
        lambda: names.declare_table(("db", "t")),
        lambda: names.drop_namespace(("db",)),
    ):
        proxy.troubles = [trouble]
        with pytest.raises(StorageError):
            change()
    assert names.list_namespaces() == ["db"]
    assert names.list_tables(("db",)) == []


def test_a_busy_server_is_asked_again(behind: tuple[RestNamespace, S3Proxy]) -> None:
    names, proxy = behind
    names.create_namespace(("db",))
    proxy.troubles = [refused(503, "Busy"), refused(429, "Slow"), NOT_SENT]
    assert names.list_namespaces() == ["db"]
    assert proxy.troubles == []


@pytest.mark.slow
def test_pages_headers_and_options_of_the_store() -> None:
    pages = ['{"tables": ["b"], "page_token": "2"}', '{"tables": ["a"]}']
    table = '{"location": "s3://b/t", "storage_options": {"aws_region": "eu-west-1"}}'
    again = '{"tables": [], "page_token": "2"}'
    answers = [(200, body) for body in (*pages, table, again, again, again)]
    with serving(answers) as (uri, requests):
        names = RestNamespace(uri, {"Authorization": "Bearer x"})
        assert names.list_tables(("db",)) == ["a", "b"]
        assert names.table_location(("t",)).storage_options == {"aws_region": "eu-west-1"}
        with pytest.raises(StorageError, match="again"):
            names.list_tables()
    assert requests[0].startswith("GET /v1/namespace/db/table/list Bearer x")
    assert "page_token=2" in requests[1]


@contextmanager
def serving(answers: list[tuple[int, str]]) -> Iterator[tuple[str, list[str]]]:
    """A server that gives one answer after the other; its address, and what it was asked."""
    requests: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path, _, query = self.path.partition("?")
            requests.append(f"{self.command} {path} {self.headers.get('Authorization')} {query}")
            status, body = answers[len(requests) - 1]
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", requests
        finally:
            server.shutdown()
            thread.join()
