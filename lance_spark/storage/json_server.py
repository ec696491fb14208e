"""JSON over HTTP, for catalogs with interfaces of their own. The client needs the extra ``rest``.

Nothing that a server sends is trusted: sizes and times are limited, redirects are not followed, and an answer has to be
an object in JSON. Requests that change something are sent once, because nobody knows whether a request without an
answer has been carried out; `LostReplyError` says so, and the catalog looks.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from lance_spark.errors import InvalidInputError, StorageError
from lance_spark.storage.http_parts import BearerToken, HttpLimits, checked_url, is_header_value, wait_seconds
from lance_spark.storage.server_errors import LostReplyError, RefusedError, described_error, shown

REPEATED_METHODS = ("GET", "HEAD")
_UNKNOWN_OPERATION, _TOO_MANY = 501, 429
_FOR_NOW = frozenset({_TOO_MANY, 500, 502, 503, 504})
_TOKEN_REFUSED = (401, 419)
_NOT_SUPPORTED = "not supported"
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 20.0
_BLOCK_BYTES = 1 << 16
_MAX_PAGES = 100_000
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class _Reply:
    status: int
    retry_after: str | None
    content: bytes


class _LaterError(Exception):
    """A request without a certain answer.

    Args:
        error: for the caller, if it is not repeated.
        seconds: for which it may be repeated, from its beginning.
        retry_after: what the server says of that.
        has_effect: whether it may have been carried out.
        is_silent: whether the server has answered nothing.
    """

    def __init__(
        self,
        error: StorageError,
        seconds: float,
        retry_after: str | None = None,
        *,
        has_effect: bool = True,
        is_silent: bool = False,
    ) -> None:
        super().__init__()
        self.error, self.seconds, self.retry_after = error, seconds, retry_after
        self.has_effect, self.is_silent = has_effect, is_silent


class JsonServer:
    """A server of JSON, with one pool of connections.

    Args:
        url: the address that paths are appended to.
        description: of the catalog, for messages.
        headers: sent with every request.
        token: sent as ``Authorization: Bearer``.
        limits: of requests.
        impl: the kind of catalog, for the message that the client is not installed.

    Raises:
        StorageError: the client is not installed.
        InvalidInputError: the address, or a header, is invalid.
    """

    def __init__(
        self,
        url: str,
        *,
        description: str,
        headers: Mapping[str, str] | None = None,
        token: BearerToken | None = None,
        limits: HttpLimits | None = None,
        impl: str = "rest",
    ) -> None:
        try:
            from urllib3 import PoolManager, Timeout
        except ImportError as error:
            raise StorageError(f"impl = {impl} needs the extra: pip install lance-spark[rest]") from error
        self._url = checked_url(url, "endpoint")
        self.description = description
        self.limits = limits or HttpLimits()
        self._token = token or BearerToken()
        self._silent_at: float | None = None
        for name, value in (headers or {}).items():
            if not _HEADER.fullmatch(name) or not is_header_value(value):
                raise InvalidInputError(f"the setting header.{name} is no header of HTTP")
        self._headers = {"Accept": "application/json", **(headers or {})}
        self._secrets = frozenset(part for value in (headers or {}).values() for part in (value, *value.split()))
        timeout = Timeout(connect=self.limits.connect_seconds, read=self.limits.read_seconds)
        self._pool = PoolManager(num_pools=4, maxsize=8, timeout=timeout, retries=False, cert_reqs="CERT_REQUIRED")

    def __repr__(self) -> str:
        return f"JsonServer({self._url!r})"

    def get(
        self, path: str, about: str, query: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> Mapping[str, Any]:
        """The object at `path`. Raises as `send`."""
        return self.send("GET", path, about, query=query, headers=headers)

    def send(
        self,
        method: str,
        path: str,
        about: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        may_repeat: bool = False,
    ) -> Mapping[str, Any]:
        """The object that the server answers; empty if the answer has no body, which that of GET must have.

        Args:
            path: what is appended to the address, quoted.
            about: the thing that the request is about, for messages.
            query: parameters, not quoted.
            body: sent as JSON.
            headers: of this request.
            may_repeat: whether to repeat the request as GET is repeated: it changes nothing.

        Raises:
            RefusedError: the server has refused it, and nothing has changed.
            LostReplyError: it may have been carried out or not; not for GET.
            StorageError: the server does not respond, or responds with something else than the interface has.
        """
        url = f"{self._url}{path}" + (f"?{urlencode(query, quote_via=quote)}" if query else "")
        content = None if body is None else json.dumps(body).encode()
        kind = {} if content is None else {"Content-Type": "application/json"}
        sent = {**self._headers, **kind, **(headers or {})}

        def attempt() -> Mapping[str, Any]:
            return self._attempt(method, url, about, content, sent)

        if may_repeat or method in REPEATED_METHODS:
            return self._repeated(attempt)
        try:
            return attempt()
        except _LaterError as failure:
            text = str(failure.error)
            raise (LostReplyError(text) if failure.has_effect else StorageError(text)) from failure.error.__cause__

    def post_form(self, url: str, fields: Mapping[str, str], about: str) -> Mapping[str, Any]:
        """The object that another address answers to a form; repeated as GET, without headers of this server."""
        headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        content, hidden = urlencode(fields).encode(), frozenset({fields.get("client_secret", "")})
        return self._repeated(
            lambda: self._checked(self._exchange("POST", url, content, headers), "POST", about, hidden)
        )

    def pages(
        self, path: str, about: str, query: Mapping[str, str], *, asks: str, answers: str
    ) -> Iterator[Mapping[str, Any]]:
        """All pages of a listing.

        Args:
            asks: the parameter with the token of a page.
            answers: the field with the token of the next page.
        """
        seen: set[str] = set()
        token: str | None = None
        while True:
            page = self.get(path, about, {**query, asks: token} if token is not None else query)
            yield page
            token = page.get(answers)
            if token is None or token == "":
                return
            if not isinstance(token, str) or token in seen or len(seen) >= _MAX_PAGES:
                raise StorageError(f"{self.description} sends no end of the listing of {about}: pages are repeated")
            seen.add(token)

    def _repeated(self, attempt: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        began, pause = self.limits.clock(), _FIRST_PAUSE_SECONDS
        is_down = self._silent_at is not None and began < self._silent_at + self.limits.open_seconds
        while True:
            try:
                reply = attempt()
                self._silent_at = None
                return reply
            except _LaterError as failure:
                asked = wait_seconds(failure.retry_after)
                wait = pause * random.uniform(0.75, 1.25) if asked is None else asked
                now = self.limits.clock()
                if now + wait > began + (0 if is_down and failure.is_silent else failure.seconds):
                    self._silent_at = now if failure.is_silent else None
                    raise failure.error from failure.error.__cause__
            self.limits.sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _attempt(
        self, method: str, url: str, about: str, content: bytes | None, headers: Mapping[str, str]
    ) -> Mapping[str, Any]:
        token = self._token.current()
        hidden = self._secrets if token is None else self._secrets | {token}
        reply = self._exchange(method, url, content, _with_token(headers, token))
        if reply.status in _TOKEN_REFUSED:
            other = self._token.instead_of(token)
            if other is not None:
                hidden |= {other}
                reply = self._exchange(method, url, content, _with_token(headers, other))
        try:
            return self._checked(reply, method, about, hidden)
        except RefusedError as error:
            if reply.status not in _TOKEN_REFUSED:
                raise
            message = f"{error}; check the credentials of the catalog"
            raise RefusedError(message, error.status, error.kind, error.code) from None

    def _exchange(self, method: str, url: str, content: bytes | None, headers: Mapping[str, str]) -> _Reply:
        """One request with its whole answer."""
        from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, SSLError

        end = self.limits.clock() + self.limits.answer_seconds
        try:
            response = self._pool.request(
                method, url, body=content, headers=dict(headers), redirect=False, retries=False, preload_content=False
            )
            try:
                pieces, size = [], 0
                while piece := response.read1(_BLOCK_BYTES):
                    pieces.append(piece)
                    size += len(piece)
                    if size > self.limits.body_bytes:
                        raise _LaterError(StorageError(f"{self.description} sends an answer that is too large"), 0)
                    if self.limits.clock() > end:
                        raise _LaterError(StorageError(f"{self.description} sends an answer too slowly"), 0)
                return _Reply(response.status, response.headers.get("Retry-After"), b"".join(pieces))
            except BaseException:
                response.close()  # The rest of the answer must not be read as that of the next request.
                raise
        except SSLError as error:
            raise StorageError(f"no secure connection to {self.description}: {shown(str(error), ())}") from error
        except HTTPError as error:
            failed = StorageError(f"{self.description} does not answer: {shown(str(error), ())}")
            failed.__cause__ = error
            has_effect = not isinstance(error, (NewConnectionError, ConnectTimeoutError))
            silence = self.limits.silence_seconds
            raise _LaterError(failed, silence, has_effect=has_effect, is_silent=True) from None

    def _checked(self, reply: _Reply, method: str, about: str, hidden: frozenset[str]) -> Mapping[str, Any]:
        """The object of an answer."""
        status, content = reply.status, reply.content
        if 300 <= status < 400:
            raise StorageError(
                f"{self.description} redirects the request about {about} (status {status}), which is not followed; "
                "set endpoint to the address that serves the catalog"
            )
        if status >= 400:
            kind, code, text = described_error(content, hidden)
            lacks = text.lower().startswith(_NOT_SUPPORTED)
            message = f"{self.description} says of {about}: {text} (status {status})"
            refused = RefusedError(message, status, kind, code, is_unsupported=lacks)
            if lacks:
                raise refused  # The reference's server sends the status of an internal error with it.
            if status in _FOR_NOW or (status >= 500 and status != _UNKNOWN_OPERATION):
                seconds = self.limits.retry_seconds if status in _FOR_NOW else 0
                raise _LaterError(refused, seconds, reply.retry_after, has_effect=status != _TOO_MANY)
            raise refused
        if method in ("DELETE", "HEAD") or (not content.strip() and method != "GET"):
            return {}  # Some servers answer a DELETE with words.
        try:
            told = json.loads(content)
        except (ValueError, RecursionError):
            told = None
        if not isinstance(told, dict):
            text = shown(content[:4000].decode(errors="replace"), hidden) or "nothing"
            message = (
                f"{self.description} answers about {about} with what is no object in JSON: {text} (status {status})"
            )
            if method == "GET":
                raise StorageError(message)
            raise LostReplyError(message)
        return told


def _with_token(headers: Mapping[str, str], token: str | None) -> Mapping[str, str]:
    return headers if token is None else {**headers, "Authorization": f"Bearer {token}"}
