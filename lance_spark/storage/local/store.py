"""Local or mounted file systems.

Objects are immutable, so data files are memory-mapped once and returned as zero-copy slices. Small objects that are
read completely (manifests, references, the version hint, which other writers may rewrite in place) are copied
instead: access to a mapped page that another process truncated would kill this process.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import time
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from typing import Any, NamedTuple

import pyarrow as pa

from lance_spark.errors import InvalidInputError, LanceError, NotFoundError, StorageError
from lance_spark.storage.base import ByteRange, ObjectInfo, ObjectStore, OutputStream, PutResult
from lance_spark.storage.coalesce import require_inside
from lance_spark.storage.local.in_memory import in_memory
from lance_spark.storage.local.publish import (
    copy_all,
    create_staging_file,
    publish_new,
    publish_over,
    remove_staged,
    write_all,
)
from lance_spark.storage.meter import READS
from lance_spark.storage.paths import STAGING_PREFIX, Root, folder_path, is_listed, object_path

_COPIED_BYTES = 1 << 20
"""Objects up to this size are copied when they are read completely."""

_SMALL_BYTES = 1 << 17
"""Up to this size copying a range takes less time than mapping the file."""

_READ_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0)
_MAX_MAPS = 64

_COARSE_SECONDS = 0.2
"""More than the resolution of the clock that a file system uses for file times."""

_BUFFER_BYTES = 1 << 16
"""Smaller writes are collected until there are this many bytes."""

_Identity = tuple[int, int, int, int]


class _Map(NamedTuple):
    """A mapped file: where it is, which it was, and its bytes."""

    file: str
    identity: _Identity
    data: pa.Buffer


class LocalStore:
    """An `ObjectStore` over a directory, which need not exist before the first write."""

    def __init__(self, uri: str, root: Root, options: Mapping[str, str]) -> None:
        self._uri = uri
        self._root = root
        self._directory = root.location
        self._prefix = os.path.join(root.location, "")
        # No lock: each operation on this dictionary is atomic, and a fork could leave a lock locked.
        self._maps: OrderedDict[str, _Map] = OrderedDict()

    def __reduce__(self) -> tuple[Any, ...]:
        return LocalStore, (self._uri, self._root, {})

    def __repr__(self) -> str:
        return f"LocalStore({self._uri!r})"

    @property
    def uri(self) -> str:
        return self._uri

    def read(self, path: str) -> pa.Buffer:
        data = self._read_small(path, None)
        if data is not None:
            return data
        with READS.reading(1) as whole, self._opened(path) as (descriptor, status):
            whole.num_bytes = status.st_size
            if status.st_size <= _COPIED_BYTES:
                return _copy(descriptor, path, ByteRange(0, status.st_size))
            return self._mapped(path, descriptor, status) or _copy(descriptor, path, ByteRange(0, status.st_size))

    def read_range(self, path: str, byte_range: ByteRange) -> pa.Buffer:
        if 0 < byte_range.length <= _SMALL_BYTES and byte_range.start >= 0:
            data = self._read_small(path, byte_range)
            if data is not None:
                return data
        return self.read_ranges(path, [byte_range])[0]

    def _read_small(self, path: str, wanted: ByteRange | None) -> pa.Buffer | None:
        """A copy of a range of an object, or of a small object; None if it does not have the range, or is no file."""
        start = time.perf_counter()
        file = self._file(path)
        try:
            descriptor = os.open(file, _READ_FLAGS)
        except OSError:
            # The general way explains it.
            return None
        try:
            if wanted is None:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode) or status.st_size > _SMALL_BYTES:
                    return None
                wanted = ByteRange(0, status.st_size)
            data = pa.allocate_buffer(wanted.length)
            count = os.preadv(descriptor, [data], wanted.start)
        except OSError:
            return None
        finally:
            os.close(descriptor)
        if count != wanted.length:
            return None
        READS.add(1, count, time.perf_counter() - start)
        return data

    def read_ranges(self, path: str, byte_ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        start = time.perf_counter()
        num_bytes = sum([piece.length for piece in byte_ranges])
        whole = self._still_mapped(path)
        if whole is not None:
            require_inside(path, byte_ranges, whole.size)
            pieces = [whole.slice(piece.start, piece.length) for piece in byte_ranges]
            READS.add(len(byte_ranges), num_bytes, time.perf_counter() - start)
            return pieces
        with READS.reading(len(byte_ranges), num_bytes), self._opened(path) as (descriptor, status):
            require_inside(path, byte_ranges, status.st_size)
            whole = self._mapped(path, descriptor, status)
            if whole is not None:
                return [whole.slice(piece.start, piece.length) for piece in byte_ranges]
            return [_copy(descriptor, path, piece) for piece in byte_ranges]

    def mapped_file(self, path: str, size: int, requests: int, num_bytes: int) -> pa.Buffer | None:
        """See `storage.base.mapped_file`."""
        whole = self._still_mapped(path)
        if whole is None or whole.size != size:
            return None
        if requests:
            # Nobody waits for memory.
            READS.add(requests, num_bytes, 0.0)
        return whole

    def whole_file(self, path: str) -> pa.Buffer | None:
        """See `storage.base.whole_file`."""
        whole = self._still_mapped(path)
        if whole is None:
            # A context of a generator takes longer than to open the file.
            descriptor, status = self._open(path)
            try:
                whole = self._mapped(path, descriptor, status)
            finally:
                os.close(descriptor)
        READS.add(1, 0, 0.0)
        return whole

    def read_copies(self, path: str, byte_ranges: Sequence[ByteRange]) -> list[bytes]:
        """See `read_copies` of `storage.base`. Reading costs half of copying from a mapped file, whose pages fault."""
        num_bytes = sum([piece.length for piece in byte_ranges])
        with READS.reading(len(byte_ranges), num_bytes), self._opened(path) as (descriptor, status):
            require_inside(path, byte_ranges, status.st_size)
            return [_bytes(descriptor, path, piece) for piece in byte_ranges]

    def size(self, path: str) -> int:
        return self._status(path).st_size

    def put(self, path: str, data: pa.Buffer | bytes) -> None:
        output = self.open_output(path)
        try:
            output.write(data)
            output.close()
        finally:
            output.abort()

    def put_if_absent(self, path: str, data: pa.Buffer | bytes) -> PutResult:
        final = self._file(path)
        with self.writing(path):
            descriptor, staged = create_staging_file(os.path.dirname(final))
            try:
                try:
                    write_all(descriptor, data)
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                return publish_new(staged, final)
            finally:
                remove_staged(staged)

    def open_output(self, path: str) -> OutputStream:
        final = self._file(path)
        with self.writing(path):
            descriptor, staged = create_staging_file(os.path.dirname(final))
        return _LocalOutput(self, path, descriptor, staged, final)

    def copy_object(self, source: ObjectStore, source_path: str, path: str, size: int) -> bool:
        """See `storage.base.copy_object`. The copy has a new time, from which clean-ups count, so it is no link."""
        if not isinstance(source, LocalStore):
            return False
        final = self._file(path)
        with source._opened(source_path) as (original, status):
            if status.st_size != size:
                return False
            with self.writing(path):
                descriptor, staged = create_staging_file(os.path.dirname(final))
                try:
                    try:
                        copy_all(original, descriptor, size)
                        os.fsync(descriptor)
                    finally:
                        os.close(descriptor)
                    self.forget(path)
                    publish_over(staged, final)
                finally:
                    remove_staged(staged)
        return True

    def list(self, prefix: str, *, recursive: bool = False) -> Iterator[ObjectInfo]:
        folder = folder_path(prefix)
        for entry, path in self._entries(folder, recursive=recursive):
            if not is_listed(path):
                continue
            try:
                yield _info(path, entry.stat())
            except FileNotFoundError:
                continue

    def names(self, prefix: str) -> Sequence[str]:
        folder = folder_path(prefix)
        directory = os.path.join(self._directory, folder)
        try:
            return sorted([name for name in os.listdir(directory) if not name.startswith(STAGING_PREFIX)])
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except OSError as error:
            raise self._not_read(folder, error) from error

    def info(self, path: str) -> ObjectInfo:
        return _info(path, self._status(path))

    def list_folders(self, prefix: str) -> Iterator[str]:
        folder = folder_path(prefix)
        for entry in self._scan(folder):
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir() and is_listed(path):
                yield path

    def delete(self, path: str) -> None:
        file = self._file(path)
        self._maps.pop(path, None)
        with self.writing(path), suppress(FileNotFoundError, NotADirectoryError):
            if not os.path.isdir(file):
                os.unlink(file)

    def remove_empty_folders(self, prefix: str) -> None:
        """Removes the folder `prefix` and its subfolders if they are empty."""
        folder = self._file(prefix)
        for directory, _, _ in os.walk(folder, topdown=False):
            with suppress(OSError):
                os.rmdir(directory)

    def remove_stale_staging(self, prefix: str, older_than_seconds: float) -> int:
        """Removes staging files of killed writers from the folder `prefix`; returns the number of files.

        Args:
            prefix: the folder, without its subfolders.
            older_than_seconds: spares files modified within this time; their writer may still be running.
        """
        horizon = time.time() - older_than_seconds
        removed = 0
        for entry in self._scan(folder_path(prefix)):
            with suppress(FileNotFoundError):
                if entry.name.startswith(STAGING_PREFIX) and entry.stat().st_mtime < horizon:
                    os.unlink(entry.path)
                    removed += 1
        return removed

    def forget(self, path: str) -> None:
        """Drops the cached mapping of an object that is about to be replaced."""
        self._maps.pop(path, None)

    # The interface of `cache`.

    etags_are_free = True

    @property
    def identity(self) -> Hashable:
        return LocalStore, self._directory

    def etag(self, path: str) -> Hashable | None:
        return _etag(self._status(path))

    def _status(self, path: str) -> os.stat_result:
        try:
            status = os.stat(self._file(path))
        except OSError as error:
            raise self._not_read(path, error) from error
        if not stat.S_ISREG(status.st_mode):
            raise NotFoundError(f"{path!r} in {self._uri} is not a file")
        return status

    def _file(self, path: str) -> str:
        return self._prefix + object_path(path)

    @contextmanager
    def _opened(self, path: str) -> Iterator[tuple[int, os.stat_result]]:
        descriptor, status = self._open(path)
        try:
            with self._reading(path):
                yield descriptor, status
        finally:
            os.close(descriptor)

    def _open(self, path: str) -> tuple[int, os.stat_result]:
        """The descriptor of a file, which the caller closes, and the file's status."""
        try:
            descriptor = os.open(self._file(path), _READ_FLAGS)
        except OSError as error:
            raise self._not_read(path, error) from error
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise NotFoundError(f"{path!r} in {self._uri} is not a file")
        return descriptor, status

    def _still_mapped(self, path: str) -> pa.Buffer | None:
        """A mapped file, if it is still the same one."""
        mapped = self._maps.get(path)
        if mapped is None:
            return None
        try:
            status = os.stat(mapped.file)
        except OSError:
            # The general way explains it.
            return None
        return mapped.data if mapped.identity == _identity(status) else None

    def _mapped(self, path: str, descriptor: int, status: os.stat_result) -> pa.Buffer | None:
        """All of an open file, which is kept; None if `in_memory` returns None."""
        try:
            data = in_memory(descriptor, status.st_size)
        except OSError:
            return None
        if data is None:
            return None
        self._maps[path] = _Map(self._file(path), _identity(status), data)
        while len(self._maps) > _MAX_MAPS:
            with suppress(KeyError):
                self._maps.popitem(last=False)
        return data

    def _scan(self, folder: str) -> Sequence[os.DirEntry[str]]:
        """The entries of a folder in lexicographic order of their contents' paths; empty if it does not exist."""
        directory = os.path.join(self._directory, folder)
        with self._reading(folder), suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory) as entries:
            return sorted(entries, key=lambda entry: f"{entry.name}/" if entry.is_dir() else entry.name)
        return ()

    def _entries(self, folder: str, *, recursive: bool) -> Iterator[tuple[os.DirEntry[str], str]]:
        for entry in self._scan(folder):
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_file():
                yield entry, path
            elif recursive and entry.is_dir(follow_symlinks=False):
                yield from self._entries(path, recursive=True)

    @contextmanager
    def _reading(self, path: str) -> Iterator[None]:
        """Translates errors of the operating system into ours."""
        try:
            yield
        except OSError as error:
            raise self._not_read(path, error) from error

    def _not_read(self, path: str, error: OSError) -> LanceError:
        if isinstance(error, FileNotFoundError | NotADirectoryError | IsADirectoryError):
            return NotFoundError(f"no object {path!r} in {self._uri}: {error.strerror}")
        return self._failed(path, error)

    @contextmanager
    def writing(self, path: str) -> Iterator[None]:
        """The same for writes, where a missing folder is a failure of the store."""
        try:
            yield
        except FileNotFoundError as error:
            raise StorageError(
                f"{path!r} in {self._uri} or its folder was removed while it was written, as a clean-up does that "
                "removes unverified files (delete_unverified) while others write; write again when it has ended"
            ) from error
        except OSError as error:
            raise self._failed(path, error) from error

    def _failed(self, path: str, error: OSError) -> InvalidInputError | StorageError:
        if error.errno == errno.ENAMETOOLONG:
            return InvalidInputError(f"the name {path!r} is too long for {self._uri}")
        return StorageError(f"{path!r} in {self._uri}: {error.strerror or error}")


def _info(path: str, status: os.stat_result) -> ObjectInfo:
    return ObjectInfo(path, status.st_size, datetime.fromtimestamp(status.st_mtime, timezone.utc), _etag(status))


def _identity(status: os.stat_result) -> _Identity:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _etag(status: os.stat_result) -> Hashable | None:
    """None for a file so recent that another one could be written with equal times."""
    if abs(time.time() - status.st_mtime) < _COARSE_SECONDS:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


class _LocalOutput:
    def __init__(self, store: LocalStore, path: str, descriptor: int, staged: str, final: str) -> None:
        self._store = store
        self._path = path
        self._descriptor: int | None = descriptor
        self._staged = staged
        self._final = final
        self._written = 0
        self._pending = bytearray()
        """Small pieces that the file does not have yet; a file of many columns has thousands."""
        self._process = os.getpid()

    def write(self, data: pa.Buffer | bytes | memoryview) -> None:
        if self._descriptor is None:
            raise InvalidInputError(f"{self._path} is already closed")
        view = memoryview(data).cast("B")
        if len(self._pending) + len(view) > _BUFFER_BYTES:
            with self._store.writing(self._path):
                self._flush(self._descriptor)
                if len(view) > _BUFFER_BYTES:
                    write_all(self._descriptor, view)
                    self._written += len(view)
                    return
        self._pending += view
        self._written += len(view)

    def _flush(self, descriptor: int) -> None:
        write_all(descriptor, memoryview(self._pending))
        # Not `clear`: an error in `write_all` may still refer to a view of it.
        self._pending = bytearray()

    def tell(self) -> int:
        return self._written

    def close(self) -> None:
        if self._descriptor is None:
            return
        with self._store.writing(self._path):
            try:
                self._flush(self._descriptor)
                os.fsync(self._descriptor)
                self._store.forget(self._path)
                publish_over(self._staged, self._final)
            finally:
                self.abort()

    def abort(self) -> None:
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        with self._store.writing(self._path):
            os.close(descriptor)
        remove_staged(self._staged)

    def __del__(self) -> None:
        # A forked child has a copy of this object, but the file belongs to its parent.
        if os.getpid() == self._process:
            self.abort()


def _bytes(descriptor: int, path: str, wanted: ByteRange) -> bytes:
    data = os.pread(descriptor, wanted.length, wanted.start)
    # One call reads 2 GiB at most, and less where another process has truncated the file.
    return data if len(data) == wanted.length else _copy(descriptor, path, wanted).to_pybytes()


def _copy(descriptor: int, path: str, wanted: ByteRange) -> pa.Buffer:
    buffer = pa.allocate_buffer(wanted.length)
    view = memoryview(buffer)
    filled = 0
    with io.FileIO(descriptor, closefd=False) as file:
        file.seek(wanted.start)
        while filled < wanted.length:
            count = file.readinto(view[filled:])
            if not count:
                # Truncated by another process since its size was read.
                require_inside(path, [wanted], wanted.start + filled)
            filled += count or 0
    return buffer
