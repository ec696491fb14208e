"""Errors of servers with interfaces of their own, and their translation."""

from __future__ import annotations

import json
from collections.abc import Iterable
from urllib.parse import quote

from lance_spark.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LanceError,
    NotEmptyError,
    NotFoundError,
    StorageError,
    UnsupportedFeatureError,
)

_MAX_SHOWN = 300
_MAX_READ = 4000
_UNSUPPORTED = (405, 406, 501)


class RefusedError(StorageError):
    """A request that the server has refused; nothing has changed.

    Attributes:
        status: of HTTP.
        kind: the type of the error, if the answer is an error of the catalog's interface; else empty.
        code: its number in interfaces that have numbers.
        is_unsupported: whether the server says that it lacks the operation, whatever status it sends.
    """

    def __init__(
        self, message: str, status: int, kind: str, code: int | None = None, *, is_unsupported: bool = False
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.code, self.is_unsupported = status, kind, code, is_unsupported


class LostReplyError(StorageError):
    """A request that changes something, without a certain answer: it may have been carried out or not."""


def described_error(content: bytes, hidden: Iterable[str]) -> tuple[str, int | None, str]:
    """Type, number and text of the error in an answer; the type is empty unless it is an error of such an interface."""
    text = content.decode(errors="replace")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    kind: object = None
    said: object = None
    code: object = None
    if isinstance(body, dict):
        code = body.get("code")
        inner = body.get("error")
        if isinstance(inner, dict):
            kind, said = inner.get("type"), inner.get("message")
        else:  # Unity, and OAuth2.
            kind, said = body.get("error_code") or inner, body.get("message") or body.get("error_description")
            if isinstance(code, int):  # Lance.
                kind, said = "", body.get("detail") or inner
    kind = kind if isinstance(kind, str) else ""
    said = said if isinstance(said, str) and said.strip() else kind or text
    number = code if isinstance(code, int) and not isinstance(code, bool) else None
    return kind, number, shown(said, hidden) or "nothing"


def shown(text: str, hidden: Iterable[str]) -> str:
    """The first words of a text for a message, without secrets."""
    text = text[:_MAX_READ]
    for secret in sorted(hidden, key=len, reverse=True):
        for spelled in (secret, quote(secret, safe="")):
            if len(spelled) > 3:  # Shorter ones are parts of ordinary words.
                text = text.replace(spelled, "***")
    return " ".join(text.split())[:_MAX_SHOWN]


def translated(error: RefusedError, conflict: type[LanceError] = AlreadyExistsError) -> LanceError:
    """The error of this package for one of a catalog; `conflict` for a status 409 that does not say which.

    A status 404 without the error of an interface is no answer about an object: perhaps the address is wrong.
    """
    kind, message = error.kind.replace("_", "").lower(), str(error)
    is_missing = any(word in kind for word in ("nosuch", "notfound", "notexist")) and "endpoint" not in kind
    if "notempty" in kind:
        return NotEmptyError(message)
    if "alreadyexist" in kind:
        return AlreadyExistsError(message)
    if error.status == 404 and is_missing:
        return NotFoundError(message)
    if error.status == 409 and "commit" not in kind:
        return conflict(message)
    if error.status in _UNSUPPORTED:
        return UnsupportedFeatureError(message, feature="operation of a catalog")
    if error.status in (400, 422):
        return InvalidInputError(message)
    if error.status == 404:
        return StorageError(f"{message}; that is no answer of such a catalog, so check endpoint")
    return error
