"""Requests of the JVM to a store that closes every connection: how often it is asked, and what the user hears."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator

import pytest

from lance_spark.spark.connector.channel.registry import PROTOCOL, answer


class SilentServer:
    """Takes connections and closes them without a word; counts them."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.connections = 0
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            connection.close()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def server() -> Iterator[SilentServer]:
    server = SilentServer()
    yield server
    server.close()


def ask(server: SilentServer, op: str, *, store_failed: bool = False, retry: str = "400 ms") -> dict[str, str]:
    options = {
        "storage.aws_endpoint": server.endpoint,
        "storage.aws_access_key_id": "a",
        "storage.aws_secret_access_key": "b",
        "storage.aws_region": "us-east-1",
        "storage.client_retry_timeout": retry,
    }
    arguments = {"catalog": {"name": "lance", "settings": {"root": "s3://b/c", **options}}, "namespace": []}
    session = {"store_failed": store_failed}
    request = {"protocol": PROTOCOL, "op": op, "session": session, "args": arguments}
    body, _ = answer(json.dumps(request).encode(), ())
    error: dict[str, str] = json.loads(body)["error"]
    return error


@pytest.mark.slow
def test_request_is_repeated_until_the_time_is_over(server: SilentServer) -> None:
    # So long that a slow machine gets beyond the first request.
    error = ask(server, "catalog.list_tables", retry="3 s")
    assert error["condition"] == "LANCE_STORAGE_FAILED"
    assert "_versions" in error["message"]
    # The client itself sends twice over a connection that breaks.
    assert 4 <= server.connections <= 32


def test_request_after_a_failure_of_the_same_statement_is_not_repeated(server: SilentServer) -> None:
    ask(server, "catalog.list_tables", store_failed=True, retry="1 minute")
    assert server.connections <= 2
