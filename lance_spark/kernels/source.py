"""The source of a kernel: its function, its signature, and the kernels that it calls."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

_COMPILED_WITH = tuple(f"lance_spark.kernels.{name}" for name in ("compiler", "pointers"))


class KernelSource:
    """A function and how it is compiled.

    Args:
        function: the Python function; it sees other kernels of its module as compiled functions.
        signature: numba signature text such as ``"int64(int64, int64)"``, or None to inline into callers. Kernels
            without a result return 0.
        reassociate: sums of floats may be added in any order, so that loops over them use vector instructions.
    """

    def __init__(self, function: Callable[..., Any], signature: str | None, *, reassociate: bool = False) -> None:
        self.function = function
        self.signature = signature
        self.reassociate = reassociate
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__

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
        seen: dict[KernelSource, None] = {}
        parts += self._sources(seen)
        parts += sorted({(kernel.module, _digest_of_module(kernel.module)) for kernel in seen})
        return f"{self.__name__}_{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}"

    def callees(self) -> dict[str, KernelSource]:
        """Kernels that it calls, by their names in its module."""
        return {name: value for name, value in self._globals() if isinstance(value, KernelSource)}

    def _globals(self) -> Iterator[tuple[str, Any]]:
        names = self.function.__globals__
        return ((name, names[name]) for name in sorted(set(_names(self.function.__code__)) & names.keys()))

    def _sources(self, seen: dict[KernelSource, None]) -> list[Any]:
        """Its name and values of its module, and those of its callees, which are put into `seen`."""
        seen[self] = None
        parts: list[Any] = [self.__name__, self.reassociate]
        for name, value in self._globals():
            if isinstance(value, KernelSource):
                parts.append((name, [] if value in seen else value._sources(seen)))
            elif isinstance(value, (int, float, str, bytes, tuple, np.generic)):
                parts.append((name, value))
        return parts


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
