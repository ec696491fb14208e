"""The interface of object stores.

A store is rooted at one URI (a table's root, or one of its other base paths). Paths are relative to the root, parts
joined by ``/``; a path that would leave the root is an `InvalidInputError`, so that nothing read from a table
can name an object outside the table's base paths.

Commits need exactly one strong operation, `put_if_absent`; see `docs/design/006-object-stores.md`. What only
some stores do is a protocol of its own: names without listings, copies, mapped files.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import NamedTuple, Protocol, runtime_checkable

import pyarrow as pa


class PutResult(Enum):
    """The outcome of a `put_if_absent`."""

    CREATED = "created"
    """The object was created with our bytes."""
    EXISTS = "exists"
    """The object exists. It may be our own: a reply can be lost and the client may have retried."""
    UNKNOWN = "unknown"
    """The store did not reply. The object may exist with our bytes, with other bytes, or not at all."""


class ByteRange(NamedTuple):
    """`length` bytes of an object from byte `start`."""

    start: int
    length: int

    @property
    def stop(self) -> int:
        return self.start + self.length


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object of a listing. `path` is relative to the store's root; `etag` as in `cache.Identified`."""

    path: str
    size: int
    modified: datetime | None = None
    etag: Hashable | None = field(default=None, compare=False)


class Named(Protocol):
    """A store that knows names for less than what a listing says of objects."""

    def names(self, prefix: str) -> Sequence[str]:
        """The names of the objects and folders in the folder `prefix`, in order; empty without such a folder."""
        ...

    def info(self, path: str) -> ObjectInfo:
        """The object as a listing has it."""
        ...


@runtime_checkable
class OutputStream(Protocol):
    """Writes one new object sequentially; nothing is visible under its path before `close`."""

    def write(self, data: pa.Buffer | bytes | memoryview) -> None: ...

    def tell(self) -> int:
        """Bytes written so far."""
        ...

    def close(self) -> None:
        """Publishes the object durably."""
        ...

    def abort(self) -> None:
        """Discards what was written; a no-op after `close` or `abort`."""
        ...


@runtime_checkable
class ObjectStore(Protocol):
    """A store of immutable objects under one root. Thread safe.

    Raises:
        NotFoundError: the object does not exist.
        StorageError: the store failed; the message names path and cause.
        InvalidInputError: the path leaves the root.
    """

    @property
    def uri(self) -> str:
        """The root as the user passed it, without a trailing slash."""
        ...

    def read(self, path: str) -> pa.Buffer:
        """The complete object."""
        ...

    def read_range(self, path: str, byte_range: ByteRange) -> pa.Buffer:
        """Exactly `byte_range.length` bytes; `CorruptFileError` if the object ends before that."""
        ...

    def read_ranges(self, path: str, byte_ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """One buffer per range, in order; close ranges are read in one request, distant ones in parallel."""
        ...

    def size(self, path: str) -> int:
        """Size of the object in bytes."""
        ...

    def put(self, path: str, data: pa.Buffer | bytes) -> None:
        """Writes or overwrites an object in one request; only for names that nobody else uses, and for hints."""
        ...

    def put_if_absent(self, path: str, data: pa.Buffer | bytes) -> PutResult:
        """Creates an object that must not exist yet, atomically and durably. Never overwrites."""
        ...

    def open_output(self, path: str) -> OutputStream:
        """A stream that writes one new object of unknown size (data files, whose names are unique).

        An existing object of that name is replaced when the stream is closed.
        """
        ...

    def list(self, prefix: str, *, recursive: bool = False) -> Iterator[ObjectInfo]:
        """The objects below the folder `prefix`, in lexicographic order of their paths; empty without such a folder.

        Pages of a long listing are fetched lazily. Unpublished objects of this package (names that begin with
        `paths.STAGING_PREFIX`) are left out.
        """
        ...

    def list_folders(self, prefix: str) -> Iterator[str]:
        """The paths of the immediate subfolders of `prefix`, in lexicographic order of their contents' paths.

        A store may leave out folders without objects; a local store does not.
        """
        ...

    def delete(self, path: str) -> None:
        """Removes the object; no error if it does not exist."""
        ...


@runtime_checkable
class Copying(Protocol):
    """A store that reads into `bytes`."""

    def read_copies(self, path: str, byte_ranges: Sequence[ByteRange]) -> list[bytes]:
        """`ObjectStore.read_ranges`, as copies."""


@runtime_checkable
class ObjectCopying(Protocol):
    """A store that copies complete objects itself."""

    def copy_object(self, source: ObjectStore, source_path: str, path: str, size: int) -> bool:
        """See `copy_object`."""


def read_copies(store: ObjectStore, path: str, byte_ranges: Sequence[ByteRange]) -> list[bytes]:
    """The bytes of each range, in order. Raises as `ObjectStore.read_ranges`."""
    if isinstance(store, Copying):
        return store.read_copies(path, byte_ranges)
    return [buffer.to_pybytes() for buffer in store.read_ranges(path, byte_ranges)]


def copy_object(source: ObjectStore, source_path: str, target: ObjectStore, path: str, size: int) -> bool:
    """Copies a complete object to a new one, as `ObjectStore.open_output` publishes it.

    Returns:
        False, and nothing is written, if the stores cannot do that by themselves, or the object does not have `size`
        bytes: the caller copies the bytes.

    Raises:
        NotFoundError: the source does not exist.
        StorageError: the store failed; the copy may exist.
    """
    return isinstance(target, ObjectCopying) and target.copy_object(source, source_path, path, size)


class MapsFiles(Protocol):
    """A store that maps files."""

    def mapped_file(self, path: str, size: int, requests: int, num_bytes: int) -> pa.Buffer | None:
        """See `mapped_file`."""

    def whole_file(self, path: str) -> pa.Buffer | None:
        """See `whole_file`."""


def mapped_file(store: ObjectStore, path: str, size: int, requests: int, num_bytes: int) -> pa.Buffer | None:
    """All of an object of `size` bytes; None if it is not mapped yet, has changed since, or has another size.

    Args:
        requests, num_bytes: what of it will be read, for the meter.
    """
    # A check against the protocol takes longer than to read a few rows.
    mapped = getattr(store, "mapped_file", None)
    return None if mapped is None else mapped(path, size, requests, num_bytes)


def whole_file(store: ObjectStore, path: str) -> pa.Buffer | None:
    """All of an object, which is mapped if it was not; None if the store does not map files.

    Raises:
        NotFoundError: the object does not exist.
    """
    whole = getattr(store, "whole_file", None)
    return None if whole is None else whole(path)
