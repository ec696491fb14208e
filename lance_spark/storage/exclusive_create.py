"""Tests once whether a store supports put-if-absent.

Commits depend on that one operation. Some services with the S3 protocol accept the condition and ignore it, and some
clients cannot send it; two writers would then both believe that they committed version 7. So the first
put-if-absent of a process on a service is preceded by a trial: create an object under a new name, create it
again, and verify that the second request was refused and the first bytes are unchanged.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Hashable
from typing import Protocol, TypeGuard

import pyarrow as pa

from lance_spark.errors import StorageError
from lance_spark.storage.base import PutResult
from lance_spark.storage.paths import STAGING_PREFIX

_log = logging.getLogger(__name__)

_trusted: set[Hashable] = set()


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
