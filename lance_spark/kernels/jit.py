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

import functools
import hashlib
import importlib.util
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy.typing as npt
import pyarrow as pa

from lance_spark.kernels import machine_code

_lock = threading.RLock()


class Kernel:
    """A function that runs as machine code, which is loaded, or compiled, at its first call.

    Args:
        function: the Python function; it sees other `Kernel`s of its module as compiled functions.
        signature: numba signature text such as ``"int64(int64, int64)"``, or None to inline into callers. Kernels
            without a result return 0.
        reassociate: sums of floats may be added in any order, so that loops over them use vector instructions.
    """

    def __init__(self, function: Callable[..., Any], signature: str | None, *, reassociate: bool = False) -> None:
        self.function = function
        self.signature = signature
        self.reassociate = reassociate
        self._loaded: Any = None
        self._definition: Any = None
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__

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

    @property
    def module(self) -> str:
        """The module that defines it."""
        return self.function.__module__

    @property
    def is_inlined(self) -> bool:
        """Whether only kernels call it."""
        return self.signature is None

    @functools.cached_property
    def entry(self) -> str:
        """The name of its function in machine code: another one for each state of its sources."""
        parts: list[Any] = [self.signature, *(_digest_of_module(name) for name in _COMPILED_WITH)]
        seen: dict[Kernel, None] = {}
        parts += self._sources(seen)
        parts += sorted({(kernel.module, _digest_of_module(kernel.module)) for kernel in seen})
        return f"{self.__name__}_{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}"

    def callees(self) -> dict[str, Kernel]:
        """Kernels that it calls, by their names in its module."""
        return {name: value for name, value in self._globals() if isinstance(value, Kernel)}

    def _globals(self) -> Iterator[tuple[str, Any]]:
        names = self.function.__globals__
        return ((name, names[name]) for name in sorted(set(_names(self.function.__code__)) & names.keys()))

    def _sources(self, seen: dict[Kernel, None]) -> list[Any]:
        """Its name and values of its module, and those of its callees, which are put into `seen`."""
        seen[self] = None
        parts: list[Any] = [self.__name__, self.reassociate]
        for name, value in self._globals():
            if isinstance(value, Kernel):
                parts.append((name, [] if value in seen else value._sources(seen)))
            elif isinstance(value, (int, float, str, bytes, tuple)):
                parts.append((name, value))
        return parts


_COMPILED_WITH = tuple(f"lance_spark.kernels.{name}" for name in ("compiler", "memory", "pointers"))


@functools.cache
def _digest_of_module(name: str) -> str:
    """A hash of a module's source: not of its bytecode, which differs between versions of Python."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"the source of {name} is needed for its machine code")
    loader: Any = spec.loader
    return hashlib.sha256(loader.get_data(spec.origin)).hexdigest()


def _names(code: types.CodeType) -> list[str]:
    inner = [name for constant in code.co_consts if isinstance(constant, types.CodeType) for name in _names(constant)]
    return [*code.co_names, *inner]


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
unpack_lanes = _stub("unpack_lanes")
pack_row = _stub("pack_row")
pack_high_row = _stub("pack_high_row")
near_of_panel = _stub("near_of_panel")
squared_difference_of_bytes = _stub("squared_difference_of_bytes")
products_of_short_rows = _stub("products_of_short_rows")
products_of_long_rows = _stub("products_of_long_rows")
products_of_panel = _stub("products_of_panel")
bits_of_panel = _stub("bits_of_panel")
