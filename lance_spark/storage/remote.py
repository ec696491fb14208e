"""The common base of network stores: planning of reads, checks, and translation of errors.

A subclass implements the single requests; its keys are validated and complete (root included).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa

from lance_spark.errors import InvalidInputError, NotFoundError, StorageError
from lance_spark.storage.base import ByteRange, ObjectInfo, OutputStream, PutResult
from lance_spark.storage.coalesce import ReadPolicy, cut, plan_stretches, require_inside, slice_ranges
from lance_spark.storage.conditional_put import require_exclusive_create
from lance_spark.storage.meter import READS
from lance_spark.storage.overlap import overlapped
from lance_spark.storage.paths import Root, folder_path, is_listed, object_path

MAX_PUT_BYTES = 5 << 30
"""The largest object that one PUT can carry (the limit of S3). More would need several requests, whose completion
is not atomic everywhere."""

_UNCHECKED_BYTES = 64 << 20
"""Ranges with a larger total are checked against the object's size before any request: a corrupt length must not
become a million requests."""

_POLICY = ReadPolicy(max_gap_bytes=256 << 10, max_read_bytes=8 << 20, num_threads=16)


@dataclass(frozen=True, slots=True)
class Listed:
    """One object of a listing, by its full key."""

    key: str
    size: int
    modified: datetime | None
    etag: Hashable | None = None


class RemoteStore(ABC):
    """An `ObjectStore` over single requests."""

    policy = _POLICY

    def __init__(self, uri: str, root: Root, options: Mapping[str, str]) -> None:
        self._uri = uri
        self._root = root
        self._options = dict(options)
        self._prefix = f"{root.location}/"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._uri, self._root, self._options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._uri!r})"

    @property
    def uri(self) -> str:
        return self._uri

    def read(self, path: str) -> pa.Buffer:
        key = self._key(path)
        with self._translated(path):
            with READS.reading(1) as whole:
                data = pa.py_buffer(self._fetch(key, None))
                whole.num_bytes = data.size
            return data

    def read_range(self, path: str, byte_range: ByteRange) -> pa.Buffer:
        return self.read_ranges(path, [byte_range])[0]

    def read_ranges(self, path: str, byte_ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        key = self._key(path)
        require_inside(path, byte_ranges, None)
        if sum(byte_range.length for byte_range in byte_ranges) > _UNCHECKED_BYTES:
            require_inside(path, byte_ranges, self.size(path))
        stretches = plan_stretches(byte_ranges, self.policy)
        replies = [_Reply(stretch.byte_range, self.policy) for stretch in stretches]
        pieces = [(reply, piece) for reply in replies for piece in reply.pieces]
        with self._translated(path):
            fetch = self._range_reader(key, [piece for _, piece in pieces])

        def read(task: tuple[_Reply, ByteRange]) -> None:
            reply, piece = task
            reply.accept(piece, self._read_piece(path, fetch, piece))

        with READS.reading(len(pieces), sum(piece.length for _, piece in pieces)):
            overlapped(read, pieces, self.policy.num_threads)
        return slice_ranges(byte_ranges, stretches, [reply.buffer for reply in replies])

    def size(self, path: str) -> int:
        key = self._key(path)
        with self._translated(path):
            return self._head(key)

    def put(self, path: str, data: pa.Buffer | bytes) -> None:
        key, body = self._key(path), self._body(path, data)
        with self.writing(path):
            self._write(key, body)

    def put_if_absent(self, path: str, data: pa.Buffer | bytes) -> PutResult:
        key, body = self._key(path), self._body(path, data)
        require_exclusive_create(self)
        with self.writing(path):
            return self._create(key, body)

    @abstractmethod
    def open_output(self, path: str) -> OutputStream: ...

    def list(self, prefix: str, *, recursive: bool = False) -> Iterator[ObjectInfo]:
        folder = self._folder_key(prefix)
        entries = self._entries(folder, recursive=recursive)
        while True:
            with self._translated(prefix):
                entry = next(entries, None)
            if entry is None:
                return
            path = entry.key.removeprefix(self._prefix)
            # An entry that is not listed may also be the folder marker of some tools: an empty object "folder/".
            if entry.key.startswith(folder) and is_listed(path):
                yield ObjectInfo(path, entry.size, entry.modified, entry.etag)

    def list_folders(self, prefix: str) -> Iterator[str]:
        folders = self._subfolders(self._folder_key(prefix))
        while True:
            with self._translated(prefix):
                key = next(folders, None)
            if key is None:
                return
            yield key.removeprefix(self._prefix)

    def delete(self, path: str) -> None:
        key = self._key(path)
        with self._translated(path), suppress(FileNotFoundError):
            self._remove(key)

    # The interface of `cache`.

    etags_are_free = False

    @property
    def identity(self) -> Hashable:
        return self.service, self._root.location

    def etag(self, path: str) -> Hashable | None:
        key = self._key(path)
        with self._translated(path):
            return self._etag(key)

    # The interface `conditional_put.Creating`, on paths below the root.

    @property
    def service(self) -> Hashable:
        """Stores with equal services behave alike on put-if-absent."""
        return (
            type(self),
            self._root.scheme,
            self._root.location.partition("/")[0],
            tuple(sorted(self._options.items())),
        )

    def create(self, path: str, body: bytes) -> PutResult:
        """A put-if-absent without a trial."""
        with self.writing(path):
            return self._create(self._key(path), body)

    # The single requests.

    @abstractmethod
    def _fetch(self, key: str, byte_range: ByteRange | None) -> bytes:
        """The bytes of a range, or of the complete object; a range beyond the end is truncated."""

    @abstractmethod
    def _head(self, key: str) -> int:
        """Size of the object; FileNotFoundError if it does not exist."""

    @abstractmethod
    def _etag(self, key: str) -> Hashable | None:
        """A token that distinguishes the object from others of its name, None if the service has none."""

    @abstractmethod
    def _write(self, key: str, body: bytes) -> None: ...

    @abstractmethod
    def _create(self, key: str, body: bytes) -> PutResult:
        """The put-if-absent of this service, in one request. An error means that it was certainly not created."""

    @abstractmethod
    def _remove(self, key: str) -> None:
        """Removes the object; may raise FileNotFoundError if it does not exist."""

    @abstractmethod
    def _entries(self, folder: str, *, recursive: bool) -> Iterator[Listed]:
        """Objects whose key begins with `folder` (ends in a slash), in lexicographic order."""

    @abstractmethod
    def _subfolders(self, folder: str) -> Iterator[str]:
        """Keys of the immediate subfolders of `folder`, without a trailing slash."""

    @abstractmethod
    def client_errors(self) -> tuple[type[BaseException], ...]:
        """Everything that the client raises when a request fails."""

    def _range_reader(self, key: str, pieces: Sequence[ByteRange]) -> Callable[[ByteRange], bytes]:
        """The function that reads the pieces of one call."""
        return partial(self._fetch, key)

    def _read_piece(self, path: str, fetch: Callable[[ByteRange], bytes], piece: ByteRange) -> bytes:
        try:
            reply = fetch(piece)
        except FileNotFoundError as error:
            raise self._not_found(path) from error
        except self.client_errors() as error:
            # Services reject a range beyond the end differently; so compare with the size.
            require_inside(path, [piece], self.size(path))
            raise self._failed(path, error) from error
        if len(reply) != piece.length:
            require_inside(path, [piece], self.size(path))
            raise StorageError(f"{path!r} in {self._uri}: asked for {piece.length} bytes, got {len(reply)}")
        return reply

    def _key(self, path: str) -> str:
        return self._prefix + object_path(path)

    def _folder_key(self, prefix: str) -> str:
        folder = folder_path(prefix)
        return f"{self._prefix}{folder}/" if folder else self._prefix

    def _body(self, path: str, data: pa.Buffer | bytes) -> bytes:
        body = data if isinstance(data, bytes) else memoryview(data).tobytes()
        if len(body) > MAX_PUT_BYTES:
            raise InvalidInputError(f"{path!r} has {len(body)} bytes; one request carries at most {MAX_PUT_BYTES}")
        return body

    @contextmanager
    def _translated(self, path: str) -> Iterator[None]:
        """Translates errors of the client into ours."""
        try:
            yield
        except FileNotFoundError as error:
            raise self._not_found(path) from error
        except self.client_errors() as error:
            raise self._failed(path, error) from error

    @contextmanager
    def writing(self, path: str) -> Iterator[None]:
        """The same for writes, where a missing bucket is a failure of the store."""
        try:
            yield
        except self.client_errors() as error:
            raise self._failed(path, error) from error

    def _not_found(self, path: str) -> NotFoundError:
        return NotFoundError(f"no object {path!r} in {self._uri}, or no such bucket")

    def _failed(self, path: str, error: BaseException) -> StorageError:
        return StorageError(f"{path!r} in {self._uri}: {type(error).__name__}: {error}")


class _Reply:
    """The bytes of one stretch, read in one piece or in several."""

    def __init__(self, stretch: ByteRange, policy: ReadPolicy) -> None:
        self.pieces = cut(stretch, policy)
        self._start = stretch.start
        self.buffer: Any = pa.allocate_buffer(stretch.length) if len(self.pieces) > 1 else None

    def accept(self, piece: ByteRange, data: bytes) -> None:
        if len(self.pieces) == 1:
            self.buffer = pa.py_buffer(data)
        else:
            place = piece.start - self._start
            memoryview(self.buffer).cast("B")[place : place + piece.length] = data
