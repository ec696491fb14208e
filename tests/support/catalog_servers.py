"""Servers of catalogs for tests, in memory and on the loopback address.

They are strict where real ones are: a path that is quoted twice, an unknown parameter or a missing field is an error.
Faults can be ordered for single requests.
"""

from __future__ import annotations

import http.server
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote

_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")


@dataclass(frozen=True)
class Request:
    """A request as it came: `path` is still quoted."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any = None


@dataclass(frozen=True)
class Fault:
    """What happens to a request in place of the answer.

    Attributes:
        carried_out: whether the request has its effect.
        status: of the answer; None: the connection ends without one.
        drip: seconds between the bytes of the answer.
    """

    carried_out: bool = False
    status: int | None = None
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    drip: float = 0.0


LOST = Fault(carried_out=True)


class Refusal(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, kind: str, message: str = "no") -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


class CatalogServer:
    """A server; subclasses answer requests.

    Attributes:
        requests: all that came.
        tokens: those that are accepted; empty: all requests are.
        page_size: items of a page of a listing; None: all.
        names_with_escapes: names that look as if they were quoted.
        grants: the tokens that requests for tokens get, one after the other, with their seconds.
    """

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.tokens: set[str] = set()
        self.page_size: int | None = None
        self.names_with_escapes: set[str] = set()
        self.grants: list[tuple[str, float]] = []
        self.credentials: list[dict[str, str]] = []
        self._faults: list[tuple[str, str, Fault]] = []
        self._lock = threading.Lock()
        self.uri = ""

    def order(self, method: str, part: str, fault: Fault, times: int = 1) -> None:
        """Lets the next requests of a method, whose path has a part, go wrong."""
        self._faults += [(method, part, fault)] * times

    def asked(self, method: str, part: str = "") -> list[Request]:
        """The requests so far of a method whose path has a part."""
        return [request for request in self.requests if request.method == method and part in request.path]

    def fault_of(self, request: Request) -> Fault | None:
        for item in self._faults:
            if item[0] == request.method and item[1] in request.path:
                self._faults.remove(item)
                return item[2]
        return None

    def answer(self, request: Request) -> tuple[int, str]:
        """Status and body for a request."""
        with self._lock:
            try:
                if not request.path.endswith("/oauth/tokens"):
                    self._authorize(request)
                segments = [self._unquoted(part) for part in request.path.strip("/").split("/")]
                status, body = self.serve(request, segments)
            except Refusal as refusal:
                return refusal.status, json.dumps(self.error(refusal))
        return status, body if isinstance(body, str) else json.dumps(body)

    def serve(self, request: Request, segments: list[str]) -> tuple[int, Any]:
        raise NotImplementedError

    def error(self, refusal: Refusal) -> Any:
        return {"error": {"message": str(refusal), "type": refusal.kind, "code": refusal.status}}

    def page(self, items: list[Any], token: str | None) -> tuple[list[Any], str | None]:
        start = int(token or 0)
        if self.page_size is None:
            return items, None
        end = start + self.page_size
        return items[start:end], str(end) if end < len(items) else None

    def grant(self, request: Request) -> tuple[int, Any]:
        if request.headers.get("Content-Type") != "application/x-www-form-urlencoded":
            raise Refusal(400, "BadRequestException", "no form")
        self.credentials.append(request.body)
        if not self.grants:
            return 401, {"error": "invalid_client", "error_description": f"no {request.body['client_secret']} here"}
        token, seconds = self.grants.pop(0)
        self.tokens.add(token)
        return 200, {"access_token": token, "token_type": "bearer", "expires_in": seconds}

    def _unquoted(self, part: str) -> str:
        name = unquote(part, errors="strict")
        is_twice = _ESCAPE.search(name) and name not in self.names_with_escapes
        if is_twice or re.search("[^A-Za-z0-9._~!$&'()*+,;=:@%-]", part):
            raise Refusal(400, "BadRequestException", f"path {part!r} is quoted twice, or not at all")
        return name

    def _authorize(self, request: Request) -> None:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.tokens and token not in self.tokens:
            raise Refusal(401, "NotAuthorizedException", f"token {token} is not known")


def need(ok: object, status: int, kind: str, message: str = "no") -> None:
    if not ok:
        raise Refusal(status, kind, message)


@contextmanager
def serving(server: CatalogServer) -> Iterator[None]:
    """The server answers at `server.uri`."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path, _, query = self.path.partition("?")
            is_form = self.headers.get("Content-Type") == "application/x-www-form-urlencoded"
            body = dict(parse_qsl(content.decode())) if is_form else json.loads(content) if content else None
            parameters = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
            request = Request(self.command, path, parameters, dict(self.headers.items()), body)
            server.requests.append(request)
            fault = server.fault_of(request)
            answer = server.answer(request) if fault is None or fault.carried_out else (500, "")
            if fault is None:
                self._send(*answer, {}, 0.0)
            elif fault.status is None:
                self.close_connection = True
            else:
                self._send(fault.status, fault.body, fault.headers, fault.drip)

        do_POST = do_DELETE = do_HEAD = do_PUT = do_GET

        def _send(self, status: int, body: str, headers: dict[str, str], drip: float) -> None:
            content = body.encode()
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            try:
                for piece in [content[i : i + 1] for i in range(len(content))] if drip else [content]:
                    self.wfile.write(piece)
                    self.wfile.flush()
                    time.sleep(drip)
            except OSError:
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        listener.daemon_threads = True
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        server.uri = f"http://127.0.0.1:{listener.server_port}"
        try:
            yield
        finally:
            listener.shutdown()
            thread.join()
