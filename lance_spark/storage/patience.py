"""Retries of requests to a service that does not reply.

A request without a reply is retried until the client's timeout. Within a statement (`one_statement`) all requests to
a service share that timeout, counted from the first one without a reply, and once it has expired no more requests
are sent there: otherwise each request of a statement would wait as long as the first one. A request that the service
rejects temporarily (throttling, a server error) is retried a few times regardless.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from random import uniform
from typing import TypeVar

from lance_spark.errors import StorageError

_log = logging.getLogger(__name__)

DEFAULT_SECONDS = 10.0
"""Seconds for which requests without a reply are retried; the storage option `RETRY_SECONDS` sets it."""

RETRY_SECONDS = "client_retry_timeout"

CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
"""After these times one attempt without a connection, or without a byte of the reply, has failed."""

FIRST_WORD_SECONDS = 2.0
"""After this time the log says what a statement waits for."""

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
_MAX_REFUSALS = 10

Result = TypeVar("Result")

_clock: Callable[[], float] = time.monotonic
_sleep: Callable[[float], None] = time.sleep
_sleep_async: Callable[[float], Awaitable[None]] = asyncio.sleep


class Failure(Enum):
    """Why a request may be retried."""

    UNANSWERED = "unanswered"
    REFUSED_FOR_NOW = "refused for now"


Judge = Callable[[BaseException], "Failure | None"]
"""Classifies a client's error; None: a retry would fail too."""


@dataclass
class _Outage:
    """The state of one service during a statement.

    Attributes:
        since: start of the first request without a reply; None if the last one got a reply.
        error: the error that ended the retries; None while they go on.
    """

    since: float | None = None
    error: BaseException | None = None
    has_warned: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def unanswered(self, began: float) -> float:
        """Records a request that began at `began` and got no reply; returns the start of the outage."""
        with self.lock:
            self.since = began if self.since is None else min(self.since, began)
            return self.since

    def answered(self) -> None:
        if self.since is not None:
            with self.lock:
                self.since, self.has_warned = None, False

    def first_warning(self) -> bool:
        """True on the first call of an outage."""
        with self.lock:
            first, self.has_warned = not self.has_warned, True
            return first


class _Statement:
    """The outages during a statement, by service."""

    def __init__(self, *, store_failed: bool) -> None:
        self.store_failed = store_failed
        self._outages: dict[str, _Outage] = {}
        self._lock = threading.Lock()

    def outage(self, service: str) -> _Outage:
        with self._lock:
            return self._outages.setdefault(service, _Outage())


_statement: _Statement | None = None


@contextmanager
def one_statement(*, store_failed: bool = False) -> Iterator[None]:
    """In this context, requests on all threads of this process share their timeout.

    Args:
        store_failed: an earlier part of the statement has used it up, so nothing is retried.
    """
    global _statement
    outer, _statement = _statement, _Statement(store_failed=store_failed)
    try:
        yield
    finally:
        _statement = outer


class Patience:
    """The retry policy of a client.

    Args:
        service: for messages; clients with equal names count as one service.
        seconds: the timeout for requests without a reply.
    """

    def __init__(self, service: str, seconds: float = DEFAULT_SECONDS) -> None:
        self.service = service
        self.seconds = seconds

    def run(
        self, send: Callable[[], Result], errors: tuple[type[BaseException], ...], judge: Judge, *, short: bool = False
    ) -> Result:
        """The result of `send`, which may be called several times.

        Args:
            errors: what `send` raises when it fails; `judge` says which of them may be retried.
            short: whether replies are usually immediate, so that a slow one is logged.

        Raises:
            StorageError: the timeout of the service has already expired in this statement.
            Errors of `send`: a retry is pointless, or the timeout has expired.
        """
        request = self.request()
        while True:
            try:
                with request.attempt(short=short):
                    result = send()
            except errors as error:
                if not request.may_repeat(judge(error), error):
                    raise
                request.wait()
            else:
                request.answered()
                return result

    async def run_async(
        self,
        send: Callable[[], Awaitable[Result]],
        errors: tuple[type[BaseException], ...],
        judge: Judge,
        *,
        short: bool = False,
    ) -> Result:
        """The result of `send` on an event loop. Arguments and errors are the same as for `run`."""
        request = self.request()
        while True:
            try:
                with request.attempt(short=short):
                    result = await send()
            except errors as error:
                if not request.may_repeat(judge(error), error):
                    raise
                await request.wait_async()
            else:
                request.answered()
                return result

    def request(self) -> Request:
        """Begins a request.

        Raises:
            StorageError: the timeout of the service has already expired in this statement.
        """
        statement = _statement
        outage = _Outage() if statement is None else statement.outage(self.service)
        if outage.error is not None:
            raise StorageError(
                f"{self.service} has not answered an earlier request of this statement and is not asked again: "
                f"{outage.error}"
            ) from outage.error
        is_over = statement is not None and statement.store_failed
        return Request(self.service, 0.0 if is_over else self.seconds, outage, ends_statement=statement is not None)


class Request:
    """The attempts of one request."""

    def __init__(self, service: str, seconds: float, outage: _Outage, *, ends_statement: bool) -> None:
        self._service = service
        self._seconds = seconds
        self._outage = outage
        self._ends_statement = ends_statement
        self._unanswered_since: float | None = None
        self._began = 0.0
        self._failures = 0
        self._refusals = 0

    @contextmanager
    def attempt(self, *, short: bool = False) -> Iterator[None]:
        """One attempt; logs if a short request gets no reply for a while."""
        self._began = _clock()
        timer = threading.Timer(FIRST_WORD_SECONDS, self._warn, ["no answer yet"]) if short else None
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()

    def answered(self) -> None:
        """Records that the last attempt got a reply."""
        self._outage.answered()

    def may_repeat(self, failure: Failure | None, error: BaseException, *, gives_up: bool = True) -> bool:
        """Whether another attempt may be made after one that failed with `error`.

        Args:
            gives_up: whether no more requests are sent to the service in this statement once the timeout has expired.
        """
        self._failures += 1
        if failure is not Failure.UNANSWERED:
            self._outage.answered()
            self._refusals += failure is not None
            return failure is not None and self._refusals < _MAX_REFUSALS
        if self._unanswered_since is None:
            self._unanswered_since = self._began
        waited = _clock() - min(self._unanswered_since, self._outage.unanswered(self._began))
        if waited >= FIRST_WORD_SECONDS:
            self._warn(f"{type(error).__name__}: {error}")
        if waited < self._seconds:
            return True
        if gives_up and self._ends_statement:
            self._outage.error = error
        return False

    def wait(self) -> None:
        """Waits before the next attempt."""
        _sleep(self._pause())

    async def wait_async(self) -> None:
        """Waits before the next attempt, on an event loop."""
        await _sleep_async(self._pause())

    def _pause(self) -> float:
        longest = min(_FIRST_PAUSE_SECONDS * 2.0 ** min(self._failures, 16), _LONGEST_PAUSE_SECONDS)
        return uniform(0.5, 1.0) * longest

    def _warn(self, cause: str) -> None:
        if self._outage.first_warning():
            _log.warning(
                "waiting for %s: %s; requests are repeated for %g s (storage option client_retry_timeout)",
                self._service,
                cause,
                self._seconds,
            )
