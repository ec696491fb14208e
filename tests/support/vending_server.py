"""A REST catalog that sends credentials which end, and a store that takes only those.

The store is an emulator behind a proxy that looks which key each request has, and whether it still holds.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.support.moto import S3Bucket
from tests.support.s3_proxy import S3Proxy, Seen, Trouble, refused, s3_proxy

_KEY = re.compile("(?:Credential=|Bearer )(KEY[0-9]+)")


@dataclass
class Vending:
    """The requests that the catalog and the store have seen.

    Attributes:
        uri: of the catalog.
        life_seconds: of each key.
        issued: when each key ends.
        refused: requests with a key that had ended, or that nobody issued.
        is_out: whether the catalog fails.
    """

    uri: str
    life_seconds: float
    issued: dict[str, float] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    is_out: bool = False


def vending(bucket: S3Bucket, life_seconds: float) -> AbstractContextManager[Vending]:
    """A catalog whose table ``name`` lies in a new folder of the bucket, below ``name``."""

    def options(key: str, endpoint: str) -> dict[str, str]:
        return {
            "aws_access_key_id": key,
            "aws_secret_access_key": f"secret-of-{key}",
            "aws_session_token": f"token-of-{key}",
            "aws_region": "us-east-1",
            "aws_endpoint": endpoint,
            "allow_http": "true",
        }

    return vending_in(bucket.folder(), bucket.endpoint, options, life_seconds)


@contextmanager
def vending_in(
    folder: str, endpoint: str, options_of: Callable[[str, str], dict[str, str]], life_seconds: float
) -> Iterator[Vending]:
    """A catalog of tables below `folder`.

    Args:
        endpoint: of the emulator.
        options_of: storage options for a key, and the address of the store.
    """
    numbers, lock = itertools.count(1), threading.Lock()

    with s3_proxy(endpoint) as proxy:

        def options() -> dict[str, str]:
            with lock:
                key = f"KEY{next(numbers)}"
                seen.issued[key] = ends = time.time() + life_seconds
            return {**options_of(key, proxy.endpoint), "expires_at_millis": str(int(ends * 1000))}

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                name, operation = self.path.partition("?")[0].strip("/").split("/")[-2:]
                known = operation in ("describe", "declare")
                told: dict[str, Any] = {"location": f"{folder}/{name}", "storage_options": options()} if known else {}
                if seen.is_out:
                    told = {"error": "on purpose", "code": 17}
                data = json.dumps(told).encode()
                self.send_response(503 if seen.is_out else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                """Silence."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        seen = Vending(f"http://127.0.0.1:{server.server_port}", life_seconds)
        _require_keys(proxy, seen)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield seen
        finally:
            server.shutdown()
            server.server_close()


def _require_keys(proxy: S3Proxy, seen: Vending) -> None:
    def trouble(request: Seen) -> Trouble | None:
        signed = next(
            filter(
                None, (_KEY.search(text) for name, text in request.headers.items() if name.lower() == "authorization")
            ),
            None,
        )
        key = signed[1] if signed else "nobody"
        if time.time() < seen.issued.get(key, 0.0):
            return None
        seen.refused.append(f"{key}: {request.method} {request.target}")
        return refused(400, "ExpiredToken")

    proxy.next_trouble = trouble  # type: ignore[method-assign]
