"""All of a local file in memory: a copy of a small one, a map of another.

The file is opened once. Neither Arrow's maps, which open it by its name, nor Python's, each of which keeps a descriptor
(some tables of many files would use up those of the process), can be made of an open descriptor and outlive it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa

_COPIED_BYTES = 1 << 16
"""Files up to this size are copied, which takes less time than to map them and to touch their pages."""


def in_memory(descriptor: int, size: int) -> pa.Buffer | None:
    """The bytes of an open file of `size` bytes; None if it is empty, if it is small and has fewer, and where files
    cannot be mapped.

    A map stays where the file is removed or replaced. To touch a part of it that was cut off meanwhile kills the
    process.
    """
    if size <= 0:
        return None
    return _copied(descriptor, size) if size <= _COPIED_BYTES else _mapped(descriptor, size)


def _copied(descriptor: int, size: int) -> pa.Buffer | None:
    data = pa.allocate_buffer(size)
    if os.preadv(descriptor, [data], 0) != size:
        return None
    # Nobody may write to it, as to a map.
    return pa.foreign_buffer(data.address, size, base=data)


def _mapped(descriptor: int, size: int) -> pa.Buffer | None:
    calls = _calls()
    address = None if calls is None else calls.map(None, size, mmap.PROT_READ, mmap.MAP_PRIVATE, descriptor, 0)
    if calls is None or address in (None, _FAILED):
        return None
    return pa.foreign_buffer(address, size, base=_Map(address, size, calls.unmap))


_FAILED = ctypes.c_void_p(-1).value


class _Map:
    """Owner of a memory map: unmaps it when no buffer of it exists any more."""

    __slots__ = ("_address", "_size", "_unmap")

    def __init__(self, address: int, size: int, unmap: Callable[..., int]) -> None:
        self._address = address
        self._size = size
        # Modules have no names any more when a process ends.
        self._unmap = unmap

    def __del__(self) -> None:
        self._unmap(self._address, self._size)


class _Calls(NamedTuple):
    map: Callable[..., int | None]
    unmap: Callable[..., int]


@cache
def _calls() -> _Calls | None:
    """The functions of the system; None where it has none."""
    if os.name != "posix":
        return None
    library: Any = ctypes.CDLL(None)
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_ssize_t]
    library.mmap.restype = ctypes.c_void_p
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return _Calls(library.mmap, library.munmap)
