"""Requests of all network stores are repeated within one timeout per statement; clients repeat nothing themselves."""

from __future__ import annotations

import logging
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from lance_spark.errors import InvalidInputError, StorageError
from lance_spark.storage import conditional_put, open_store, patience
from lance_spark.storage.base import ObjectStore, PutResult
from lance_spark.storage.patience import one_statement

OK, BUSY, EXISTS = 200, 503, 412
DROP = -1
"""The connection is closed without a reply."""
HANG = -2
"""Nothing happens until the test ends."""


class Service:
    """An HTTP service that answers every upload alike; `script` is what the next requests get, then `default`."""

    def __init__(self, default: int) -> None:
        self.script: list[int] = []
        self.default = default
        self.requests: list[str] = []
        self.was_asked = threading.Event()
        self.ends = threading.Event()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                service.requests.append(f"{self.command} {self.path}")
                service.was_asked.set()
                status = service.script.pop(0) if service.script else service.default
                self.close_connection = True
                if status == HANG:
                    service.ends.wait()
                if status < 0:
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                created = status == OK and self.command == "PUT"
                self.send_response(201 if created else status)
                self.send_header("ETag", '"1"')
                self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
                self.send_header("Content-Length", "14")
                self.send_header("Connection", "close")
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(b'{"name": "a"}\n')

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = handle_any

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=[0.02], daemon=True)
        self.thread.start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.ends.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Clock:
    """Time that passes only in pauses."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    async def sleep_async(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(patience, "_clock", clock)
    monkeypatch.setattr(patience, "_sleep", clock.sleep)
    monkeypatch.setattr(patience, "_sleep_async", clock.sleep_async)
    monkeypatch.setattr(conditional_put, "_trusted", set())
    return clock


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service(OK)
    yield service
    service.close()


Opens = Callable[..., Any]


@pytest.fixture(params=["gcs", "azure"])
def opens(request: pytest.FixtureRequest, service: Service) -> Opens:
    """Opens a store of the service, with more storage options."""
    if request.param == "gcs":
        pytest.importorskip("gcsfs", reason="gcsfs is not installed")
        options = {"google_skip_signature": "true", "endpoint_url": service.endpoint}
        return lambda **more: open_store("gs://bucket/t", options | more)
    pytest.importorskip("adlfs", reason="adlfs is not installed")
    options = {"account_name": "name", "account_key": "a2V5", "endpoint": f"{service.endpoint}/name"}
    return lambda **more: open_store("az://bucket/t", options | more)


def test_passing_trouble_is_survived(opens: Opens, service: Service) -> None:
    service.script = [BUSY, BUSY, BUSY, OK]
    opens().put("a", b"1")
    assert len(service.requests) == 4


def test_busy_service_gets_ten_requests(opens: Opens, service: Service) -> None:
    service.default = BUSY
    with one_statement(), pytest.raises(StorageError):
        opens().put("a", b"1")
    assert len(service.requests) == 10


def test_silent_service_costs_one_timeout_per_statement(opens: Opens, service: Service, clock: Clock) -> None:
    service.default, began = DROP, clock.now
    with one_statement():
        with pytest.raises(StorageError):
            opens().put("a", b"1")
        asked, waited = len(service.requests), clock.now - began
        for _ in range(5):
            with pytest.raises(StorageError, match="is not asked again"):
                opens().put("a", b"1")
            with pytest.raises(StorageError, match="is not asked again"):
                list(opens().list(""))
        assert (len(service.requests), clock.now - began) == (asked, waited)
    assert 10.0 <= waited < 15.0, "the time, and at most one pause more"
    with one_statement(), pytest.raises(StorageError):
        opens().put("a", b"1")
    assert len(service.requests) > asked, "the next statement asks again"


def test_hanging_service_gets_one_request_per_timeout(opens: Opens, service: Service) -> None:
    service.default = HANG
    store = opens(timeout="100ms", client_retry_timeout="0s")
    with one_statement():
        with pytest.raises(StorageError):
            store.put("a", b"1")
        with pytest.raises(StorageError, match="is not asked again"):
            store.size("a")
    assert len(service.requests) == 1


def test_log_says_what_a_hanging_listing_waits_for(
    opens: Opens, service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(patience, "FIRST_WORD_SECONDS", 0.0)
    service.default = HANG
    said = threading.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.set()
            service.ends.set()

    listener = Listener()
    patience._log.addHandler(listener)
    try:
        with one_statement(), pytest.raises(StorageError):
            list(opens(client_retry_timeout="0s").list(""))
    finally:
        patience._log.removeHandler(listener)
    assert said.is_set(), "while the request was open: the service answers only after the log"
    (line,) = [record.getMessage() for record in caplog.records if record.name == patience.__name__]
    assert "no answer yet; requests are repeated for 0 s (storage option client_retry_timeout)" in line


def test_busy_service_is_asked_for_a_commit_five_times(opens: Opens, service: Service) -> None:
    service.default = BUSY
    store = opens()
    assert store.create("a", b"1") is PutResult.UNKNOWN
    assert len(service.requests) == 5


def test_commit_with_a_lost_reply_is_not_reported_as_failed(opens: Opens, service: Service) -> None:
    service.script = [BUSY, EXISTS]
    store = opens()
    assert store.create("a", b"1") is PutResult.EXISTS, "perhaps our own: the commit reads it"
    service.script = [BUSY, 403]
    assert store.create("a", b"1") is PutResult.UNKNOWN
    service.script = [403]
    with pytest.raises(StorageError):
        store.create("a", b"1")
    assert len(service.requests) == 5


class TroubledFileSystem(MemoryFileSystem):  # type: ignore[misc]
    """Fails as `script` says, before a call (an error) or after it (an error in a tuple)."""

    protocol = "troubled"
    store: dict[str, Any] = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012
    script: list[Any] = []  # noqa: RUF012
    calls: list[str] = []  # noqa: RUF012

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **kwargs: Any) -> None:
        self.calls.append(f"pipe_file {mode}")
        trouble = self.script.pop(0) if self.script else None
        if isinstance(trouble, BaseException):
            raise trouble
        if mode == "create" and self.exists(path):
            raise FileExistsError(path)
        super().pipe_file(path, value)
        if trouble is not None:
            raise trouble[0]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        self.calls.append("cat_file")
        if self.script:
            raise self.script.pop(0)
        found: bytes = super().cat_file(path, start, end)
        return found


@pytest.fixture
def troubled() -> Iterator[ObjectStore]:
    fsspec.register_implementation("troubled", TroubledFileSystem, clobber=True)
    TroubledFileSystem.script, TroubledFileSystem.calls = [], []
    yield open_store(f"troubled://{uuid.uuid4().hex}/t", {"client_retry_timeout": "7s"})
    TroubledFileSystem.store.clear()


def test_unknown_client_is_repeated(troubled: ObjectStore) -> None:
    TroubledFileSystem.script = [TimeoutError(), ConnectionRefusedError()]
    troubled.put("a", b"1")
    TroubledFileSystem.script = [socket.gaierror()]
    assert troubled.read("a").to_pybytes() == b"1"
    assert TroubledFileSystem.calls == ["pipe_file overwrite"] * 3 + ["cat_file"] * 2


def test_unknown_client_has_one_timeout_per_statement(troubled: ObjectStore, clock: Clock) -> None:
    TroubledFileSystem.script, began = [TimeoutError("silent")] * 1000, clock.now
    with one_statement():
        with pytest.raises(StorageError, match="silent"):
            troubled.read("a")
        asked = len(TroubledFileSystem.calls)
        for ask in (lambda: troubled.read("b"), lambda: troubled.put("b", b""), lambda: list(troubled.list(""))):
            with pytest.raises(StorageError, match="is not asked again"):
                ask()
    assert len(TroubledFileSystem.calls) == asked
    assert 7.0 <= clock.now - began < 12.0


def test_unknown_client_is_asked_for_a_commit_once(troubled: ObjectStore) -> None:
    assert troubled.put_if_absent("a", b"1") is PutResult.CREATED
    TroubledFileSystem.calls.clear()
    TroubledFileSystem.script = [(TimeoutError(),)]
    with one_statement():
        assert troubled.put_if_absent("b", b"1") is PutResult.UNKNOWN
        assert troubled.read("b").to_pybytes() == b"1", "the commit may look what is there"
    assert TroubledFileSystem.calls == ["pipe_file create", "cat_file"]


def test_errors_of_an_unknown_client_that_last_are_not_repeated(troubled: ObjectStore) -> None:
    for error in (PermissionError("denied"), OSError("disk full"), ValueError("bad path")):
        TroubledFileSystem.script = [error]
        with pytest.raises(StorageError):
            troubled.read("a")
    assert TroubledFileSystem.calls == ["cat_file"] * 3


def test_retry_timeout_of_an_unknown_client_is_checked() -> None:
    fsspec.register_implementation("troubled", TroubledFileSystem, clobber=True)
    with pytest.raises(InvalidInputError, match="'client_retry_timeout': not a duration"):
        open_store("troubled://x/t", {"client_retry_timeout": "soon"})
