"""Decorators of kernels: functions that run as machine code.

Importing numba costs half a second. A module of kernels therefore decorates its functions with `kernel`, which only
stores the function; the first call loads its machine code from disk, and imports numba where it is not there
(`machine_code`).

A kernel takes raw addresses (`int64`) with lengths, because read-only and unaligned numpy arrays are separate
types to numba and would each be compiled. Inside a kernel `pointer_u8(address)` and its siblings return pointers
that can be indexed. **Every offset, length and level that comes from a file is checked by the kernel against the
length passed to it**; a kernel reports errors through its return value (negative: see each kernel).

Functions that only other kernels call are decorated with `inlined`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy.typing as npt
import pyarrow as pa

from lance_spark.kernels import machine_code
from lance_spark.kernels.source import KernelSource

_lock = threading.RLock()


class Kernel(KernelSource):
    """A function that runs as machine code, which is loaded, or compiled, at its first call."""

    def __init__(self, function: Callable[..., Any], signature: str | None, *, reassociate: bool = False) -> None:
        super().__init__(function, signature, reassociate=reassociate)
        self._loaded: Any = None
        self._definition: Any = None

    def __call__(self, *arguments: Any) -> Any:
        loaded = self._loaded
        if loaded is None:
            loaded = self.load()
        return loaded(*arguments)

    def load(self) -> Any:
        """The function of machine code."""
        with _lock:
            if self._loaded is None:
                self._loaded, self._definition = machine_code.load(self)
        return self._loaded


def kernel(signature: str, *, reassociate: bool = False) -> Callable[[Callable[..., Any]], Kernel]:
    """Decorates a kernel; `signature` is numba's, such as ``"int64(int64, int64, int64)"``.

    Args:
        reassociate: see `Kernel`.
    """

    def decorate(function: Callable[..., Any]) -> Kernel:
        return Kernel(function, signature, reassociate=reassociate)

    return decorate


def address_of(array: npt.NDArray[Any]) -> int:
    """Address of the first element of a C-contiguous array; the caller must keep the array alive during the call."""
    # A seventh of the time of numpy's own ways to tell it.
    return int(pa.py_buffer(array).address)


def inlined(function: Callable[..., Any]) -> Kernel:
    """Decorates a function that is inlined into kernels; numba compiles it for each combination of argument types."""
    return Kernel(function, None)


def inlined_sum(function: Callable[..., Any]) -> Kernel:
    """Decorates an inlined function whose floats may be summed in any order; `reassociate` of callers has no effect."""
    return Kernel(function, None, reassociate=True)


def _stub(name: str) -> Callable[..., Any]:
    def only_in_kernels(*arguments: int) -> Any:
        raise TypeError(f"{name} can only be called inside a kernel")

    return only_in_kernels


pointer_u8 = _stub("pointer_u8")
pointer_u16 = _stub("pointer_u16")
pointer_u32 = _stub("pointer_u32")
pointer_u64 = _stub("pointer_u64")
pointer_i8 = _stub("pointer_i8")
pointer_i16 = _stub("pointer_i16")
pointer_i32 = _stub("pointer_i32")
pointer_i64 = _stub("pointer_i64")
pointer_f32 = _stub("pointer_f32")
pointer_f64 = _stub("pointer_f64")
copy_bytes = _stub("copy_bytes")
prefetch = _stub("prefetch")
unpack_row = _stub("unpack_row")
unpack_split_row = _stub("unpack_split_row")
levels_up_to = _stub("levels_up_to")
unpack_lanes = _stub("unpack_lanes")
pack_row = _stub("pack_row")
pack_high_row = _stub("pack_high_row")
near_of_panel = _stub("near_of_panel")
squared_difference_of_bytes = _stub("squared_difference_of_bytes")
products_of_short_rows = _stub("products_of_short_rows")
products_of_long_rows = _stub("products_of_long_rows")
products_of_panel = _stub("products_of_panel")
bits_of_panel = _stub("bits_of_panel")
