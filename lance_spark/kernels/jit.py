"""Compiles kernels at their first call, not on import.

Importing numba costs half a second, and planning, schemas and commits never need it. A module of kernels
therefore decorates its functions with `kernel`, which only stores the function; the first call imports
numba, compiles for the declared signature and saves the machine code in numba's cache on disk.

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
import os
import stat
import tempfile
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy.typing as npt
import pyarrow as pa

_lock = threading.RLock()

_COMPILER_BYTES = 512 << 20
"""Address space that numba, LLVM and a first compilation take; measured 400 to 500 MB with one thread."""


class Kernel:
    """A function that numba compiles at its first call.

    Args:
        function: the Python function; it sees other `Kernel`s of its module as compiled functions.
        signature: numba signature text such as ``"int64(int64, int64)"``, or None to inline into callers.
        reassociate: sums of floats may be added in any order, so that loops over them use vector instructions.
    """

    def __init__(self, function: Callable[..., Any], signature: str | None, *, reassociate: bool = False) -> None:
        self._function = function
        self._signature = signature
        # No promise about NaN and infinity: the results of both are part of what kernels compute.
        self._fastmath: Any = {"reassoc", "contract", "nsz"} if reassociate else False
        self._compiled: Any = None
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__

    def __call__(self, *arguments: Any) -> Any:
        compiled = self._compiled
        if compiled is None:
            compiled = self.compiled()
        return compiled(*arguments)

    @property
    def module(self) -> str:
        """The module that defines it."""
        return self._function.__module__

    @property
    def is_inlined(self) -> bool:
        """Whether only kernels call it."""
        return self._signature is None

    def compiled(self) -> Any:
        """The numba dispatcher, compiled if necessary."""
        with _lock:
            if self._compiled is None:
                self._compiled = self._compile()
        return self._compiled

    def fingerprint(self) -> str:
        """A hash of everything that the machine code depends on: eight bytes as hexadecimal digits.

        numba's cache key is only the file, line and bytecode of the function. After a change of code inlined from other
        modules, such as a check in a helper, the old machine code would still be used.
        """
        parts = [_pointers_source(), *self._sources(set())]
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]

    def _sources(self, seen: set[Kernel]) -> list[Any]:
        """The code of this function and of all that it calls, including constants of their modules."""
        seen.add(self)
        code = self._function.__code__
        parts: list[Any] = [_content(code), bool(self._fastmath)]
        for name in sorted(set(_names(code)) & self._function.__globals__.keys()):
            value = self._function.__globals__[name]
            if isinstance(value, Kernel):
                parts.append((name, [] if value in seen else value._sources(seen)))
            elif isinstance(value, (int, float, str, bytes, tuple)):
                parts.append((name, value))
        return parts

    def _compile(self) -> Any:
        function = self._with_compiled_globals()
        if self._signature is None:
            return self._jit(function)
        try:
            return self._jit(function, cache=True)
        except RuntimeError as error:
            # With a read-only package directory and home, numba has no folder for its cache.
            if "cannot cache" not in str(error):
                raise
        return self._compile_with_temporary_cache(function)

    def _jit(self, function: Callable[..., Any], *, cache: bool = False) -> Any:
        import numba

        # A fifth of the compile time: nothing calls kernels from C, or inlined functions from Python, and rewrites are
        # for expressions of arrays, while kernels work with numbers and raw memory.
        leaner: Any = {"no_cfunc_wrapper": True, "no_cpython_wrapper": self.is_inlined, "no_rewrites": True}
        return numba.njit(
            self._signature, nogil=True, cache=cache, error_model="numpy", fastmath=self._fastmath, **leaner
        )(function)

    def _compile_with_temporary_cache(self, function: Callable[..., Any]) -> Any:
        from numba.core import config as numba_config

        config: Any = numba_config
        before = config.CACHE_DIR
        folder = _private_folder()
        if folder is None:
            return self._jit(function)
        config.CACHE_DIR = folder
        try:
            return self._jit(function, cache=True)
        except (RuntimeError, OSError):
            return self._jit(function)
        finally:
            config.CACHE_DIR = before

    def _with_compiled_globals(self) -> Callable[..., Any]:
        names = set(_names(self._function.__code__))
        replaced = {
            name: value.compiled()
            for name, value in self._function.__globals__.items()
            if name in names and isinstance(value, Kernel) and value is not self
        }
        replaced |= _pointers()
        copy = types.FunctionType(
            self._function.__code__,
            self._function.__globals__ | replaced,
            self._function.__name__,
            self._function.__defaults__,
            self._function.__closure__,
        )
        # It is part of the names of numba's cache files.
        copy.__qualname__ = f"{self._function.__qualname__}_{self.fingerprint()}"
        copy.__module__ = self._function.__module__
        copy.__doc__ = self._function.__doc__
        return copy


def _private_folder() -> str | None:
    """A folder for machine code that only this user can write to: other writers could run code as this user."""
    folder = os.path.join(tempfile.gettempdir(), f"lance_spark_numba_{os.getuid()}")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        status = os.lstat(folder)
    except OSError:
        return None
    private = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
    return folder if private else None


def _names(code: types.CodeType) -> list[str]:
    inner = [name for constant in code.co_consts if isinstance(constant, types.CodeType) for name in _names(constant)]
    return [*code.co_names, *inner]


def _content(code: types.CodeType) -> list[Any]:
    constants = [_content(value) if isinstance(value, types.CodeType) else value for value in code.co_consts]
    return [code.co_code, code.co_names, code.co_varnames, constants]


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


_pointer_functions: dict[str, Any] = {}


def import_compiler() -> None:
    """Imports numba, which the first call of a kernel would do.

    Raises:
        MemoryError: the process may not take as much address space as that needs.
    """
    _pointers()


def _check_address_space() -> None:
    """Without enough of it LLVM ends the process, and OpenBLAS, which numba loads with scipy, tries again for ever."""
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit == resource.RLIM_INFINITY:
            return
        with open("/proc/self/statm", encoding="ascii") as status:
            taken = int(status.read().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        return  # Not on this platform.
    if limit - taken < _COMPILER_BYTES:
        raise MemoryError(
            f"this process may take {limit >> 20} MB of address space and has {taken >> 20} MB, "
            f"and compiled code needs {_COMPILER_BYTES >> 20} MB more"
        )


def _pointers() -> dict[str, Any]:
    if not _pointer_functions:
        _check_address_space()
        from lance_spark.kernels import pointers

        _pointer_functions.update(pointers.FUNCTIONS)
    return _pointer_functions


@functools.cache
def _pointers_source() -> str:
    spec = importlib.util.find_spec("lance_spark.kernels.pointers")
    loader: Any = spec and spec.loader
    return repr(_content(loader.get_code("lance_spark.kernels.pointers")))


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
