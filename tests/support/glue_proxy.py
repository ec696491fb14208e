"""A proxy in front of a test server's Glue: it pages, throttles, loses replies and sends what is no reply."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JSON = "application/x-amz-json-1.1"
_LISTS = {"GetDatabases": "DatabaseList", "GetTables": "TableList"}


@dataclass
class GlueProxy:
    """A proxy, and what it does to the next requests.

    Attributes:
        faults: for each operation what happens to its next requests. ``throttle``, ``deny``, ``conflict`` and ``fail``
            answer at once, ``lose`` and ``fail after`` when the request was carried out, and a function answers with
            its text.
        page_size: items in a page of a listing; 0 for all.
        same_token: whether each page has the same token.
        requests: (operation, body) of all requests.
    """

    target: str
    faults: dict[str, list[str | Callable[[], str]]] = field(default_factory=dict)
    page_size: int = 0
    same_token: bool = False
    requests: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    endpoint: str = ""

    def reset(self) -> None:
        """Forgets faults and requests."""
        self.faults.clear()
        self.requests.clear()
        self.page_size, self.same_token = 0, False

    def sent(self, operation: str) -> int:
        """The number of requests of an operation."""
        return sum(name == operation for name, _ in self.requests)

    def answer(self, operation: str, raw: bytes, headers: dict[str, str]) -> tuple[int, bytes] | None:
        """Status and body; None to close the connection."""
        body = json.loads(raw)
        self.requests.append((operation, dict(body)))
        waiting = self.faults.get(operation)
        fault = waiting.pop(0) if waiting else ""
        if callable(fault):
            return 200, fault().encode()
        if fault == "throttle":
            return 400, _error("ThrottlingException")
        if fault == "deny":
            return 400, _error("AccessDeniedException")
        if fault == "conflict":
            return 400, _error("ConcurrentModificationException")
        if fault == "fail":
            return 500, _error("InternalServiceException")
        token = int(body.pop("NextToken", 0))
        status, content = self._forwarded(json.dumps(body).encode(), headers)
        if fault == "lose":
            return None
        if fault == "fail after":
            return 500, _error("InternalServiceException")
        if operation in _LISTS and self.page_size and status == 200:
            reply = json.loads(content)
            found = reply[_LISTS[operation]]
            reply[_LISTS[operation]] = found[token : token + self.page_size]
            if token + self.page_size < len(found) or self.same_token:
                reply["NextToken"] = "0" if self.same_token else str(token + self.page_size)
            content = json.dumps(reply).encode()
        return status, content

    def _forwarded(self, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        kept = {name: value for name, value in headers.items() if name.lower() not in ("host", "content-length")}
        request = urllib.request.Request(self.target, data=body, headers=kept)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


@contextmanager
def glue_proxy(target: str) -> Iterator[GlueProxy]:
    """A running proxy of the server at `target`."""
    proxy = GlueProxy(target)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            answer = proxy.answer(self.headers["X-Amz-Target"].partition(".")[2], raw, dict(self.headers))
            if answer is None:
                self.close_connection = True
                return
            status, content = answer
            self.send_response(status)
            self.send_header("Content-Type", JSON)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    proxy.endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()


def _error(code: str) -> bytes:
    return json.dumps({"__type": code, "message": f"the test says {code}"}).encode()
