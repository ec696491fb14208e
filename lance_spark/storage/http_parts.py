"""Parts of requests over HTTP to catalogs: limits, tokens, addresses and headers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from lance_spark.errors import InvalidInputError


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """The limits of requests.

    Attributes:
        connect_seconds: until a connection is made.
        read_seconds: between two pieces of an answer.
        answer_seconds: for one request with its whole answer.
        retry_seconds: for one request with all its repetitions, while the server answers.
        silence_seconds: for one request with all its repetitions, while it does not.
        open_seconds: after a request without an answer, in which others are sent once only: the server is down.
        body_bytes: of an answer.
        sleep: waits.
        clock: seconds that never go back.
    """

    connect_seconds: float = 10.0
    read_seconds: float = 60.0
    answer_seconds: float = 120.0
    retry_seconds: float = 120.0
    silence_seconds: float = 15.0
    open_seconds: float = 30.0
    body_bytes: int = 64 << 20
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)


class BearerToken:
    """The token of a server that has none. Subclasses know one, and may get another."""

    def current(self) -> str | None:
        """The token for the next request; None if there is none."""
        return None

    def instead_of(self, refused: str | None) -> str | None:
        """A token other than one that the server has refused; None if there is no way to get one."""
        return None


def checked_url(url: str, setting: str) -> str:
    """The address in a setting, without a slash at its end.

    Raises:
        InvalidInputError: it is no address of HTTP, or has credentials, a query or a fragment.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or port == 0:
        raise InvalidInputError(f"the setting {setting} is no address; write https://host/path")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InvalidInputError(f"the setting {setting} has more than host and path; credentials are other settings")
    return url.rstrip("/")


def is_header_value(text: str) -> bool:
    """Whether `text` can be sent in a header."""
    return text.isascii() and text.isprintable()


def wait_seconds(retry_after: str | None) -> float | None:
    """The seconds that a header ``Retry-After`` asks for, as a number or a date; None if it says nothing.

    >>> wait_seconds("3"), wait_seconds("Thu, 01 Jan 1970 00:00:00 GMT"), wait_seconds("soon")
    (3.0, 0.0, None)
    """
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
