"""Buffers that end where memory ends: a kernel that reads or writes one byte too far kills the test run."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
import pyarrow as pa

_PAGE = mmap.PAGESIZE
_PROT_NONE = 0
_libc = ctypes.CDLL(None, use_errno=True)


def _guarded_array(size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """`size` writable bytes whose last byte is the last one before a page that nobody may touch."""
    room = -(-max(size, 1) // _PAGE) * _PAGE
    mapping = mmap.mmap(-1, room + _PAGE)
    whole = np.frombuffer(mapping, np.uint8)
    guard = whole.__array_interface__["data"][0] + room
    if _libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(_PAGE), _PROT_NONE) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
    return whole[room - size : room]


def guarded(data: bytes | pa.Buffer) -> pa.Buffer:
    """A copy of `data`."""
    array = _guarded_array(len(memoryview(data)))
    array[:] = np.frombuffer(data, np.uint8)
    return pa.py_buffer(array)


def allocate_guarded(size: int, memory_pool: Any = None, resizable: bool = False) -> pa.Buffer:
    """In place of `pa.allocate_buffer`; what can be resized is not guarded."""
    if resizable:
        return _allocate_buffer(size, memory_pool, resizable)
    return pa.py_buffer(_guarded_array(size))


_allocate_buffer = pa.allocate_buffer
