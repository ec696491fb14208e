"""Put-if-absent with retries that remember the attempts before.

A put-if-absent must not be repeated blindly: if the first attempt took effect and only its reply was lost, the second
one is rejected because of our own object. So an attempt without a clear reply leaves the request in doubt, and a
rejection after that is no proof of another writer. Callers read the object to find out (`table.commits.commit`).

Commits depend on this one operation. Some services with the S3 protocol accept the condition and ignore it, and some
clients cannot send it; two writers would then both believe that they committed version 7. So the first
put-if-absent of a process on a service is preceded by a trial: create an object under a new name, create it
again, and verify that the second request was refused and the first bytes are unchanged.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Protocol, TypeGuard

import pyarrow as pa

from lance_spark.errors import StorageError
from lance_spark.storage.base import PutResult
from lance_spark.storage.paths import STAGING_PREFIX

if TYPE_CHECKING:
    from lance_spark.storage.patience import Judge, Patience

_MAX_ATTEMPTS = 5

Outcome = Callable[[BaseException], "PutResult | None"]
"""Outcome of an attempt that failed: EXISTS, UNKNOWN, or None if it certainly created nothing."""

_log = logging.getLogger(__name__)

_trusted: set[Hashable] = set()


def create_if_absent(
    patience: Patience,
    send: Callable[[], object],
    errors: tuple[type[BaseException], ...],
    outcome: Outcome,
    judge: Judge,
    *,
    max_attempts: int = _MAX_ATTEMPTS,
) -> PutResult:
    """The result of a put-if-absent; `send` makes one attempt, without retries of its own.

    Args:
        errors: what `send` raises when it fails.
        judge: as for `Patience.run`.

    Raises:
        StorageError: the timeout of the service has already expired in this statement. Nothing was created.
        Errors of `send`: the request was rejected, and no earlier attempt can have taken effect.
    """
    request = patience.request()
    in_doubt = False
    for attempt in range(max_attempts):
        if attempt:
            request.wait()
        try:
            with request.attempt(short=True):
                send()
        except errors as error:
            result = outcome(error)
            if result is None and not in_doubt:
                raise
            if result is not PutResult.UNKNOWN:
                return result or PutResult.UNKNOWN
            in_doubt = True
            # Don't give up on the service: the caller still checks whether the object exists.
            if not request.may_repeat(judge(error), error, gives_up=False):
                return PutResult.UNKNOWN
        else:
            request.answered()
            return PutResult.CREATED
    return PutResult.UNKNOWN


class Creating(Protocol):
    """Store operations that the trial needs."""

    @property
    def uri(self) -> str: ...

    @property
    def service(self) -> Hashable: ...

    def create(self, path: str, body: bytes) -> PutResult: ...

    def read(self, path: str) -> pa.Buffer: ...

    def delete(self, path: str) -> None: ...


def check_commits(store: object) -> None:
    """Runs the trial before anything is written, rather than only at the first commit.

    Stores where the operating system guarantees exclusive creation need no trial.

    Raises:
        StorageError: as `require_exclusive_create`.
    """
    if _creates(store):
        require_exclusive_create(store)


def _creates(store: object) -> TypeGuard[Creating]:
    # isinstance with a protocol takes as long as a system call.
    return all(hasattr(store, name) for name in ("service", "create", "read", "delete"))


def require_exclusive_create(store: Creating) -> None:
    """Runs the trial unless the service of `store` has already passed it in this process.

    Raises:
        StorageError: the service overwrites, rejects the condition, or did not reply to the trial.
    """
    service = store.service
    if service not in _trusted:
        _try_out(store)
        _trusted.add(service)


def _try_out(store: Creating) -> None:
    path = f"{STAGING_PREFIX}trial_{uuid.uuid4().hex}"
    try:
        # The name is new, so "exists" in the first reply means that a reply was lost and the client retried.
        _answered(store, store.create(path, b"first"))
        second = _answered(store, store.create(path, b"second"))
        stored = store.read(path).to_pybytes()
    finally:
        _clean_up(store, path)
    if second is not PutResult.EXISTS or stored != b"first":
        raise StorageError(
            f"{store.uri} overwrites an object that was to be created only if absent (If-None-Match), so two writers "
            "could both commit the same version and lose rows. Use a store that honours the condition, and a client "
            "that sends it (for S3: botocore 1.35.20 or later)"
        )


def _answered(store: Creating, result: PutResult) -> PutResult:
    if result is PutResult.UNKNOWN:
        raise StorageError(f"{store.uri} did not answer whether it can create an object only if it is absent")
    return result


def _clean_up(store: Creating, path: str) -> None:
    try:
        store.delete(path)
    except StorageError as error:
        _log.warning("cannot remove the trial object %s in %s: %s", path, store.uri, error)
