"""An HTTP proxy before a test server of S3 or DynamoDB, which loses answers, invents errors and drops conditions."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Trouble:
    """What happens to one request.

    Args:
        forwarded: the server gets the request.
        status: the client gets this status with an S3 error `code` instead of the server's answer; 0: the
            connection is closed without an answer.
        answered: the client gets the server's own answer (then `status` does not matter).
        delay_seconds: between the server's answer and the client's.
    """

    forwarded: bool = True
    status: int = 0
    code: str = ""
    answered: bool = False
    delay_seconds: float = 0.0


ANSWER_LOST = Trouble()
NOT_SENT = Trouble(forwarded=False)


def refused(status: int, code: str) -> Trouble:
    """The server does nothing and says so."""
    return Trouble(forwarded=False, status=status, code=code)


def landed_but(status: int, code: str) -> Trouble:
    """The server does it, and the client is told otherwise."""
    return Trouble(status=status, code=code)


@dataclass
class Seen:
    """One request, as the client sent it."""

    method: str
    target: str
    conditional: bool
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class S3Proxy:
    """A running proxy. `troubles` befall the next conditional PUTs, or what `applies_to` picks, one each."""

    endpoint: str
    troubles: list[Trouble] = field(default_factory=list)
    applies_to: str = "PUT if-none-match"
    drops_conditions: bool = False
    seen: list[Seen] = field(default_factory=list)

    def reset(self) -> None:
        """Forgets what was seen and what was to happen."""
        self.troubles, self.applies_to, self.drops_conditions = [], "PUT if-none-match", False
        self.seen.clear()

    def count(self, method: str, *, conditional: bool | None = None) -> int:
        return sum(
            request.method == method and (conditional is None or request.conditional == conditional)
            for request in self.seen
        )

    def next_trouble(self, request: Seen) -> Trouble | None:
        self.seen.append(request)
        kind = f"{request.method} if-none-match" if request.conditional else f"{request.method} {request.target}"
        return self.troubles.pop(0) if self.troubles and self.applies_to in kind else None


@contextmanager
def s3_proxy(upstream: str) -> Iterator[S3Proxy]:
    """A proxy in front of the server at `upstream` (``http://host:port``)."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.daemon_threads = True
    proxy = S3Proxy(f"http://127.0.0.1:{server.server_port}")
    server.RequestHandlerClass = _handler(proxy, upstream.removeprefix("http://"))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()


def _handler(proxy: S3Proxy, upstream: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            trouble = proxy.next_trouble(
                Seen(self.command, self.path, "If-None-Match" in self.headers, dict(self.headers))
            )
            if trouble is None or trouble.forwarded:
                answer = self.ask(body)
            if trouble is None or trouble.answered:
                time.sleep(trouble.delay_seconds if trouble else 0)
                self.reply(*answer)
                return
            time.sleep(trouble.delay_seconds)
            if trouble.status and "X-Amz-Target" in self.headers:
                kind = "application/x-amz-json-1.0"
                text = json.dumps({"__type": f"com.amazonaws#{trouble.code}", "message": "on purpose"}).encode()
                self.reply(trouble.status, [("Content-Type", kind)], text)
            elif trouble.status:
                text = f"<Error><Code>{trouble.code}</Code><Message>on purpose</Message></Error>".encode()
                self.reply(trouble.status, [("Content-Type", "application/xml")], text)
            else:
                self.close_connection = True
                self.connection.close()

        def ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
            connection = http.client.HTTPConnection(upstream, timeout=60)
            headers = dict(self.headers.items())
            if proxy.drops_conditions:
                headers.pop("If-None-Match", None)
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            data = answer.read()
            connection.close()
            return answer.status, answer.getheaders(), data

        def reply(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
            self.send_response_only(status)
            length = str(len(body))
            for name, value in headers:
                if name.lower() == "content-length" and self.command == "HEAD":
                    length = value
                elif name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = forward

        def log_message(self, format: str, *args: object) -> None:
            """Silence."""

    return Handler
