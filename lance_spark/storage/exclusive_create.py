"""Tries out, once, whether a store can create an object only if it is absent.

Commits stand on that one operation. Some services that speak the S3 protocol accept the condition and ignore it,
and some clients cannot send it; two writers would then both believe that they made version 7. So the first
put-if-absent of a process on a service is preceded by a trial: create an object under a new name, create it
again, and see that the second attempt was refused and the first bytes are still there.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Hashable
from typing import Protocol, runtime_checkable

import pyarrow as pa

from lance_spark.errors import StorageError
from lance_spark.storage.base import PutResult
from lance_spark.storage.paths import STAGING_PREFIX

_log = logging.getLogger(__name__)

_trusted: set[Hashable] = set()


@runtime_checkable
class Creating(Protocol):
    """The part of a store that the trial needs."""

    @property
    def uri(self) -> str: ...

    @property
    def service(self) -> Hashable: ...

    def create(self, path: str, body: bytes) -> PutResult: ...

    def read(self, path: str) -> pa.Buffer: ...

    def delete(self, path: str) -> None: ...


def check_commits(store: object) -> None:
    """Raises before anything is written what the first commit to `store` would raise after it.

    Stores whose own operating system guarantees the exclusive creation need no trial.

    Raises:
        StorageError: as `require_exclusive_create`.
    """
    if isinstance(store, Creating):
        require_exclusive_create(store)


def require_exclusive_create(store: Creating) -> None:
    """Returns if the service of `store` has passed the trial in this process, now or earlier.

    Raises:
        StorageError: it overwrites, refuses the condition, or did not answer the trial.
    """
    service = store.service
    if service not in _trusted:
        _try_out(store)
        _trusted.add(service)


def _try_out(store: Creating) -> None:
    path = f"{STAGING_PREFIX}trial_{uuid.uuid4().hex}"
    try:
        # The name is new, so that "exists" in the first answer means a lost reply and a client that tried again.
        _answered(store, store.create(path, b"first"))
        second = _answered(store, store.create(path, b"second"))
        kept = store.read(path).to_pybytes()
    finally:
        _clean_up(store, path)
    if second is not PutResult.EXISTS or kept != b"first":
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
