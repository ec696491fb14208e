"""How long requests are repeated to a service that does not answer.

A request that gets no answer is sent again until the client's time is over. Within a statement (`one_statement`) all
requests to a service share that time, counted from the first one without an answer, and once it is over nothing more
is sent there: otherwise each question of a statement would wait as long as the first one. A request that the service
refuses for the moment (too many requests, an error of its own) is repeated a few times, whatever else happens.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from random import uniform
from typing import TypeVar

from lance_spark.errors import StorageError

_log = logging.getLogger(__name__)

DEFAULT_SECONDS = 10.0
"""How long a service may leave requests without an answer; the storage option ``client_retry_timeout`` sets it."""

FIRST_WORD_SECONDS = 2.0
"""After so long the log says what a statement waits for."""

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
_MAX_REFUSALS = 10

Result = TypeVar("Result")

_clock: Callable[[], float] = time.monotonic
_sleep: Callable[[float], None] = time.sleep


class Failure(Enum):
    """Why a request may be worth another attempt."""

    UNANSWERED = "unanswered"
    REFUSED_FOR_NOW = "refused for now"


Judge = Callable[[BaseException], "Failure | None"]
"""What a client's error means; None: another attempt would fail too."""


@dataclass
class _Outage:
    """One service as the requests of a statement have found it.

    Attributes:
        since: when the first request began that got no answer, None if the last one got one.
        error: what ended the waiting; None as long as it goes on.
    """

    since: float | None = None
    error: BaseException | None = None
    has_warned: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def unanswered(self, began: float) -> float:
        """Since when there are no answers, with a request that began at `began` and got none."""
        with self.lock:
            self.since = began if self.since is None else min(self.since, began)
            return self.since

    def answered(self) -> None:
        if self.since is not None:
            with self.lock:
                self.since, self.has_warned = None, False

    def first_warning(self) -> bool:
        """True once an outage."""
        with self.lock:
            first, self.has_warned = not self.has_warned, True
            return first


class _Statement:
    """The outages that a statement has met, by service."""

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
    """Until the end, requests on all threads of this process share their waiting time.

    Args:
        store_failed: an earlier part of the statement has used it up already, so nothing is sent twice.
    """
    global _statement
    outer, _statement = _statement, _Statement(store_failed=store_failed)
    try:
        yield
    finally:
        _statement = outer


class Patience:
    """How often and how long a client repeats its requests.

    Args:
        service: for messages; clients with equal names count as one service.
        seconds: how long it may leave requests without an answer.
    """

    def __init__(self, service: str, seconds: float = DEFAULT_SECONDS) -> None:
        self.service = service
        self.seconds = seconds

    def run(
        self, send: Callable[[], Result], errors: tuple[type[BaseException], ...], judge: Judge, *, short: bool = False
    ) -> Result:
        """What `send` returns, which may be called several times.

        Args:
            errors: what `send` raises when it fails; `judge` says which of them are worth another attempt.
            short: whether the request is answered at once as a rule, so that a slow answer is worth a word in the log.

        Raises:
            StorageError: the service had its time already in this statement.
            Errors of `send`: another attempt makes no sense, or the time is over.
        """
        request = self.request()
        while True:
            try:
                with request.attempt(short=short):
                    result = send()
            except errors as error:
                if not request.may_repeat(judge(error), error):
                    raise
                _sleep(request.pause())
            else:
                request.answered()
                return result

    def request(self) -> Request:
        """A request that is about to be sent.

        Raises:
            StorageError: the service had its time already in this statement.
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
        """One attempt; the log says so if a short request gets no answer for a while."""
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
        """The last attempt was answered."""
        self._outage.answered()

    def may_repeat(self, failure: Failure | None, error: BaseException, *, gives_up: bool = True) -> bool:
        """Whether another attempt may be made after one that has ended with `error`.

        Args:
            gives_up: whether the service is not asked again in this statement once the time is over.
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

    def pause(self) -> float:
        """Seconds to wait before the next attempt."""
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
