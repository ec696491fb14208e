"""Machine code of kernels: an object file that is on disk or that numba makes, loaded with LLVM alone.

numba is imported for kernels only whose object file is on no disk: that costs half a second and 60 MB in each process,
also in each Python worker of Spark. The wheel has object files for a common processor (`PORTABLE`); those made for the
processor that is there come first (`python -m lance_spark warm`).
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lance_spark.kernels.source import KernelSource
from lance_spark.kernels.target import (
    COMPILER_BYTES,
    PORTABLE,
    Target,
    check_address_space,
    host,
    llvm,
    runs_portable_code,
)

if TYPE_CHECKING:
    from llvmlite.binding import ExecutionEngine

FOLDER = "LANCE_SPARK_KERNEL_CACHE"
"""The environment variable that names a folder for object files."""

_DIGEST_BYTES = 32
_METH_FASTCALL = 0x80


class _MethodDefinition(ctypes.Structure):
    """`PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@functools.cache
def _engine() -> ExecutionEngine:
    binding = llvm()
    return binding.create_mcjit_compiler(binding.parse_assembly(""), host().machine())


def load(kernel: KernelSource) -> tuple[Any, Any]:
    """The function that runs a kernel, and what must live as long as it.

    Raises:
        MemoryError: the process may not take as much address space as LLVM, or the compiler, needs.
    """
    engine = _engine()
    engine.add_object_file(llvm().ObjectFileRef.from_data(object_file(kernel, host())))
    engine.finalize_object()
    address = engine.get_function_address(kernel.entry)
    definition = _MethodDefinition(kernel.__name__.encode(), address, _METH_FASTCALL, None)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    return make(ctypes.addressof(definition), None, None), definition


def object_file(kernel: KernelSource, target: Target) -> bytes:
    """The machine code of a kernel: that of the first folder that has it, else compiled, and kept if a folder can."""
    name = file_name(kernel, target)
    for folder in _folders():
        code = stored(folder / name)
        if code is not None:
            return code
    if target == host() and runs_portable_code():
        code = stored(packaged() / file_name(kernel, PORTABLE))
        if code is not None:
            return code
    return compiled(kernel, target)


def compiled(kernel: KernelSource, target: Target) -> bytes:
    """The machine code of a kernel, made now and kept if a folder can.

    Raises:
        MemoryError: the process may not take as much address space as the compiler needs.
    """
    check_address_space(COMPILER_BYTES)
    from lance_spark.kernels.compiler import compile_kernel

    code = compile_kernel(kernel, target)
    name = file_name(kernel, target)
    for folder in _folders():
        if store(folder / name, code):
            break
    return code


def is_stored(kernel: KernelSource, target: Target) -> bool:
    """Whether a folder has the machine code of a kernel."""
    name = file_name(kernel, target)
    return any(stored(folder / name) is not None for folder in _folders())


def packaged() -> Path:
    """The folder of the object files that the wheel has."""
    return Path(__file__).with_name("objects")


def file_name(kernel: KernelSource, target: Target) -> str:
    """The name of an object file: by the kernel's sources, the processor and, outside of the wheel, the compiler."""
    if target == PORTABLE:
        return f"{kernel.module}.{kernel.entry}.{target.cpu}.o"
    import llvmlite

    digest = hashlib.sha256(repr((target, llvmlite.__version__)).encode()).hexdigest()[:16]
    return f"{kernel.module}.{kernel.entry}.{digest}.o"


def _folders() -> Iterator[Path]:
    """Folders of object files: that of the environment, that of the package, the user's, one of temporary files.

    Whoever can write to a folder decides what this process runs. That holds for the package itself; others must be the
    user's alone.
    """
    chosen = os.environ.get(FOLDER)
    if chosen:
        yield Path(chosen)
        return
    yield Path(__file__).with_name("__pycache__")
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    if _is_private(os.path.join(cache, "lance-spark", "kernels")):
        yield Path(cache, "lance-spark", "kernels")
    # Imported for users without a home only.
    import tempfile

    temporary = os.path.join(tempfile.gettempdir(), f"lance-spark-kernels-{os.getuid()}")
    if _is_private(temporary):
        yield Path(temporary)


def _is_private(folder: str) -> bool:
    """Whether only this user can write to a folder, which is made."""
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        status = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022


def stored(path: Path) -> bytes | None:
    """An object file that is there and complete."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    code = data[_DIGEST_BYTES:]
    return code if hashlib.sha256(code).digest() == data[:_DIGEST_BYTES] else None


def store(path: Path, code: bytes) -> bool:
    """Whether the object file could be written; other processes see all of it or nothing."""
    part = path.with_name(f"{path.name}.{os.getpid()}.{os.urandom(8).hex()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(hashlib.sha256(code).digest() + code)
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        return False
    return True
