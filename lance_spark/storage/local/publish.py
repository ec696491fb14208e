"""Atomic, exclusive and durable publication of local files.

The bytes are written to a staging file in the same folder, which is flushed to disk and then gets the final name
atomically: by a hard link if the name must be free, by a rename if it may exist. The folder is flushed last.
A process that is killed meanwhile leaves at most a staging file, and no reader lists those.
"""

from __future__ import annotations

import ctypes
import errno
import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import pyarrow as pa

from lance_spark.errors import StorageError
from lance_spark.storage.base import PutResult
from lance_spark.storage.paths import STAGING_PREFIX

_NO_HARD_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})
_NO_ANSWER = frozenset({errno.EIO, errno.ETIMEDOUT, getattr(errno, "ESTALE", errno.EIO), errno.EINTR})
_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_WRITE_BYTES = 1 << 26


def create_staging_file(directory: str) -> tuple[int, str]:
    """A new empty file in `directory`, which is created if missing: (descriptor, path)."""
    make_directory(directory)
    path = os.path.join(directory, f"{STAGING_PREFIX}{uuid.uuid4().hex}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    return os.open(path, flags, 0o666), path


def make_directory(directory: str) -> None:
    """Creates `directory` and its parents, and flushes every folder that got a new entry."""
    if os.path.isdir(directory):
        return
    parent = os.path.dirname(directory)
    if parent != directory:
        make_directory(parent)
    try:
        os.mkdir(directory)
    except FileExistsError:
        if not os.path.isdir(directory):
            raise
    flush_directory(parent)


def write_all(descriptor: int, data: pa.Buffer | bytes | memoryview) -> int:
    """Writes all of `data`; returns the number of bytes."""
    view = memoryview(data).cast("B")
    written = 0
    while written < len(view):
        written += os.write(descriptor, view[written : written + _WRITE_BYTES])
    return written


def copy_all(source: int, target: int, size: int) -> None:
    """Copies the first `size` bytes of a file to the end of another, in the kernel where that can do it.

    Raises:
        OSError: a read or a write failed, or the source is shorter.
    """
    done = 0
    while done < size:
        count = min(_WRITE_BYTES, size - done)
        try:
            copied = os.copy_file_range(source, target, count, done)
        except (AttributeError, OSError):
            # Not on this system, or not between these two file systems; a failure of the disk comes again.
            copied = write_all(target, os.pread(source, count, done))
        if copied == 0:
            raise OSError(errno.EIO, "the file that is copied has become shorter")
        done += copied


def publish_new(staged: str, final: str) -> PutResult:
    """Gives the flushed file `staged` the name `final`, which must be free. The caller removes the staging name.

    Raises:
        OSError: nothing was published.
        StorageError: nothing was published, and this file system has no operation that could.
    """
    try:
        os.link(staged, final)
    except FileExistsError:
        return PutResult.EXISTS
    except OSError as error:
        if error.errno in _NO_ANSWER:
            # A network file system may have created the link and lost the reply.
            return PutResult.UNKNOWN
        if error.errno not in _NO_HARD_LINKS:
            raise
        return _rename_new(staged, final, error)
    _set_time(staged)
    return _settle(os.path.dirname(final))


def publish_over(staged: str, final: str) -> None:
    """Gives the flushed file `staged` the name `final`, replacing an existing file."""
    os.replace(staged, final)
    flush_directory(os.path.dirname(final))


def flush_directory(directory: str) -> None:
    """Makes new names in `directory` durable; does nothing where folders cannot be opened."""
    if os.name == "nt":
        return
    descriptor = os.open(directory or ".", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF, errno.EROFS):
            raise
    finally:
        os.close(descriptor)


def remove_staged(staged: str) -> None:
    """Removes a staging file if it exists; one that cannot be removed is garbage that no reader lists."""
    with suppress(OSError):
        os.unlink(staged)


def _set_time(published: str) -> None:
    """Gives a file the time at which it got its name, to the system's clock; commits compare these times.

    A writer can sleep after it has written the bytes. It can sleep here too, while others publish what they build on
    the file, so the time is the time of the last change of the file's names, not the current one.
    """
    with suppress(OSError):
        named = os.stat(published).st_ctime_ns
        os.utime(published, ns=(named, named))


def _settle(directory: str) -> PutResult:
    # The object is visible from here on: an error must not be taken for "nothing was published".
    try:
        flush_directory(directory)
    except OSError:
        return PutResult.UNKNOWN
    return PutResult.CREATED


def _rename_new(staged: str, final: str, no_link: OSError) -> PutResult:
    """The same without hard links: Linux can rename only if the new name is free."""
    rename = _renameat2()
    failure: int | None = errno.ENOSYS
    if rename is not None:
        status = rename(_AT_FDCWD, os.fsencode(staged), _AT_FDCWD, os.fsencode(final), _RENAME_NOREPLACE)
        failure = ctypes.get_errno() if status else None
    if failure is None:
        _set_time(final)
        return _settle(os.path.dirname(final))
    if failure == errno.EEXIST:
        return PutResult.EXISTS
    if failure in _NO_ANSWER:
        return PutResult.UNKNOWN
    if failure not in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP):
        raise OSError(failure, os.strerror(failure), final)
    raise StorageError(
        f"the file system of {final} has neither hard links ({no_link.strerror}) nor a rename that refuses a taken "
        "name, so it cannot keep two writers from committing the same version; put the table on another file system"
    )


def _renameat2() -> Callable[..., int] | None:
    if os.name != "posix":
        return None
    function: Any = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    function.restype = ctypes.c_int
    return cast("Callable[..., int]", function)
