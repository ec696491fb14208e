"""Kinds of processors that kernels are compiled for, and LLVM, which makes and loads their machine code."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llvmlite.binding import TargetMachine

_LOADER_BYTES = 256 << 20
"""Address space that LLVM takes; measured 160 MB."""

COMPILER_BYTES = 512 << 20
"""Address space that numba, LLVM and a first compilation take; measured 400 to 500 MB with one thread."""

PYTHON_FUNCTIONS = (
    "PyBool_FromLong",
    "PyErr_BadArgument",
    "PyErr_NoMemory",
    "PyErr_Occurred",
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyFloat_AsDouble",
    "PyFloat_FromDouble",
    "PyLong_AsLongLong",
    "PyLong_AsUnsignedLongLongMask",
    "PyLong_FromLongLong",
)
"""Functions of Python's stable ABI that entries call."""


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of processor: LLVM's triple, its name, and its features such as ``"+avx2,-sse4a"``."""

    triple: str
    cpu: str
    features: str

    def machine(self) -> TargetMachine:
        """LLVM's code generator for it."""
        target = llvm().Target.from_triple(self.triple)
        # The loader of objects does not set up a table of offsets, which position-independent code of x86 would need.
        reloc = "static" if target.name.startswith("x86") else "default"
        return target.create_target_machine(
            cpu=self.cpu, features=self.features, opt=3, reloc=reloc, codemodel="jitdefault", jit=True
        )


PORTABLE = Target("x86_64-unknown-linux-gnu", "x86-64-v3", "")
"""Processors that the wheel has object files for: x86-64 of level 3 of its psABI, such as Haswell and Zen."""

_FEATURES_OF_PORTABLE = ("avx2", "bmi", "bmi2", "cx16", "f16c", "fma", "lzcnt", "movbe", "popcnt", "sahf", "xsave")


@functools.cache
def llvm() -> Any:
    """`llvmlite.binding` with the machine's code generator.

    Raises:
        MemoryError: the process may not take as much address space as that needs.
    """
    check_address_space(_LOADER_BYTES)
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    for name in PYTHON_FUNCTIONS:
        binding.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value)
    return binding


@functools.cache
def host() -> Target:
    """This machine's processor."""
    binding = llvm()
    features = binding.get_host_cpu_features().flatten()
    return Target(binding.get_process_triple(), binding.get_host_cpu_name(), features)


@functools.cache
def runs_portable_code() -> bool:
    """Whether this machine has the instructions of `PORTABLE`."""
    features = llvm().get_host_cpu_features()
    return host().triple == PORTABLE.triple and all(features.get(feature) for feature in _FEATURES_OF_PORTABLE)


def check_address_space(needed: int) -> None:
    """Refuses to go on without enough: LLVM ends the process, and OpenBLAS, which numba loads with scipy, never ends.

    Raises:
        MemoryError: the process may not take `needed` bytes more.
    """
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit == resource.RLIM_INFINITY:
            return
        with open("/proc/self/statm", encoding="ascii") as status:
            taken = int(status.read().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        return  # Not on this platform.
    if limit - taken < needed:
        raise MemoryError(
            f"this process may take {limit >> 20} MB of address space and has {taken >> 20} MB, "
            f"and compiled code needs {needed >> 20} MB more"
        )
