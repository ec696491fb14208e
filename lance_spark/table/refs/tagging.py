"""Creates, updates and removes tags (Lance table format specification, "Branches and tags").

A tag is one JSON file. It is created with put-if-absent, so that of two writers of a name one fails; a writer whose
reply was lost recognizes its own file by the creation time, in nanoseconds.

Some tags hold versions: while a version is restored, so that a clean-up at the same time spares its files, and for
streaming queries that still have to read it (docs/design/036-streaming.md).
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from types import MappingProxyType

from lance_spark.errors import InvalidInputError, LanceError, NotFoundError, StorageError
from lance_spark.storage.base import PutResult
from lance_spark.table.cleanup.references import GUARD_PREFIX, HOLD_PREFIX
from lance_spark.table.commits.commit import RetryPolicy
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.paths import is_detached, tag_path

_NANOS = 1_000_000_000


def create_tag(
    table: TableLocation,
    name: str,
    version: int,
    policy: RetryPolicy | None = None,
    *,
    metadata: Mapping[str, str] = MappingProxyType({}),
) -> Manifest:
    """The version of the branch `table` that the new tag `name` references.

    Args:
        metadata: entries to keep with the tag.

    Raises:
        NotFoundError: there is no such version.
        InvalidInputError: the tag exists, or the name is not valid for a tag.
        StorageError: the store failed, or it is unknown whether the tag was created.
    """
    path = tag_path(name)
    policy = policy or RetryPolicy()
    manifest = _taggable(table, version)
    size = table.history.manifest_size(version)
    now = _now()
    times = {"createdAt": now, "updatedAt": now}
    content = {"branch": table.branch, "version": version, **times, "manifestSize": size, "metadata": dict(metadata)}
    store = table.refs.store
    _publish(table, name, _encoded(content), policy)
    try:
        # A clean-up that read the tags earlier may have removed the version; one that reads them now restores it.
        table.history.manifest_size(version)
    except NotFoundError:
        store.delete(path)
        raise
    return manifest


def _publish(table: TableLocation, name: str, payload: bytes, policy: RetryPolicy) -> None:
    store, path = table.refs.store, tag_path(name)
    for attempt in range(policy.max_requests):
        if store.put_if_absent(path, payload) is PutResult.CREATED:
            return
        # "Exists" may also be our own request, repeated by the client after a lost reply.
        try:
            if bytes(store.read(path)) == payload:
                return
        except NotFoundError:
            policy.wait(attempt)
            continue
        raise InvalidInputError(f"{table.uri} has a tag {name!r} already; update_tag gives it another version")
    raise StorageError(f"the store did not say whether the tag {name!r} of {table.uri} was made; look for it")


def update_tag(table: TableLocation, name: str, version: int) -> Manifest:
    """The version of the branch `table` that the tag `name` references from now on.

    Raises:
        NotFoundError: there is no such tag or version.
        InvalidInputError: the name is not valid for a tag.
        StorageError: the store failed.
    """
    content = table.refs.tag_content(name)
    manifest = _taggable(table, version)
    size = table.history.manifest_size(version)
    changed = {"branch": table.branch, "version": version, "updatedAt": _now(), "manifestSize": size}
    table.refs.store.put(tag_path(name), _encoded({**content, **changed}))
    try:
        table.history.manifest_size(version)
    except NotFoundError:
        table.refs.store.put(tag_path(name), _encoded(content))
        raise
    return manifest


def delete_tag(table: TableLocation, name: str) -> None:
    """Removes the tag `name`; the version is kept.

    Raises:
        NotFoundError: there is no such tag.
        InvalidInputError: the name is not valid for a tag.
        StorageError: the store failed.
    """
    path = tag_path(name)
    try:
        table.refs.store.size(path)
    except NotFoundError:
        raise NotFoundError(f"{table.uri} has no tag {name!r}") from None
    table.refs.store.delete(path)


def _taggable(table: TableLocation, version: int) -> Manifest:
    manifest = table.at(version).manifest
    if is_detached(version):
        raise InvalidInputError(f"version {version} is a detached one, which no tag can name")
    return manifest


def _encoded(content: Mapping[str, object]) -> bytes:
    return json.dumps(content, indent=2).encode()


def _now() -> str:
    """The time as RFC 3339 to the nanosecond; with coarser clocks, the last digits distinguish writers."""
    seconds, nanos = divmod(time.time_ns() // 1000 * 1000 + secrets.randbelow(1000), _NANOS)
    return f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%dT%H:%M:%S}.{nanos:09d}Z"


@contextmanager
def kept_while_restored(table: TableLocation, version: int) -> Iterator[None]:
    """Keeps `version` of the branch `table`.

    Raises: as `create_tag`.
    """
    guard = f"{GUARD_PREFIX}{secrets.token_hex(8)}"
    try:
        create_tag(table, guard, version)
        yield
    finally:
        # A tag that is left spares a version until it is old; it must not hide what has happened.
        with suppress(LanceError):
            delete_tag(table, guard)


def hold_name(query: str, source: str) -> str:
    """The tag of one source of a streaming query.

    >>> hold_name("5e1c", "0")
    'lance-stream-5e1c-0'
    """
    return f"{HOLD_PREFIX}{query}-{source}"


def hold_versions(table: TableLocation, name: str, version: int) -> int:
    """Keeps `version` of a branch and those after it from being cleaned up; the version that the tag `name` names now.

    If `version` was cleaned up, or never existed, it is the oldest one after it that is there.

    Raises:
        NotFoundError: neither the version nor one after it exists.
        StorageError: the store failed; the tag names the version that it named before, or the new one.
    """
    available = [item.version for item in table.history.locations() if item.version >= version]
    if not available:
        raise NotFoundError(f"{table.uri} has no version {version} or later to keep for a stream")
    oldest = min(available)
    try:
        tag = table.refs.tag(name)
    except NotFoundError:
        create_tag(table, name, oldest)
        return oldest
    if (tag.version, tag.branch) != (oldest, table.branch):
        update_tag(table, name, oldest)
    return oldest


def release_versions(table: TableLocation, query: str) -> list[str]:
    """Removes the tags of a streaming query; their names.

    Raises:
        StorageError: the store failed; some of the tags may be removed.
    """
    names = [name for name in sorted(table.refs.tags()) if name.rpartition("-")[0] == f"{HOLD_PREFIX}{query}"]
    for name in names:
        delete_tag(table, name)
    return names
