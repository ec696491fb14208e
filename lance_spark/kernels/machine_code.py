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
    engine.add_object_file(llvm().ObjectFileRef.from_data(object_file(kernel)))
    engine.finalize_object()
    address = engine.get_function_address(kernel.entry)
    definition = _MethodDefinition(kernel.__name__.encode(), address, _METH_FASTCALL, None)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    return make(ctypes.addressof(definition), None, None), definition


def object_file(kernel: KernelSource) -> bytes:
    """The machine code of a kernel: made for this processor before, that of the wheel, or else compiled now."""
    code = own_object_file(kernel)
    if code is None and runs_portable_code():
        code = stored(packaged() / file_name(kernel, PORTABLE))
    return compiled(kernel) if code is None else code


def own_object_file(kernel: KernelSource) -> bytes | None:
    """The machine code of a kernel for this processor, from the first folder that has it."""
    name = file_name(kernel, host())
    return next((code for folder in _folders() if (code := stored(folder / name)) is not None), None)


def compiled(kernel: KernelSource) -> bytes:
    """The machine code of a kernel for this processor, made now and kept if a folder can.

    Raises:
        MemoryError: the process may not take as much address space as the compiler needs.
    """
    check_address_space(COMPILER_BYTES)
    from lance_spark.kernels.compiler import compile_kernel

    code = compile_kernel(kernel, host())
    name = file_name(kernel, host())
    any(store(folder / name, code) for folder in _folders(to_write=True))
    return code


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


def _folders(*, to_write: bool = False) -> Iterator[Path]:
    """Folders of object files: that of the environment, or that of the package, the user's, one of temporary files.

    Whoever can write to a folder decides what this process runs. That holds for the package itself; others must be the
    user's alone. They are made to be written only.
    """
    chosen = os.environ.get(FOLDER)
    if chosen:
        yield Path(chosen)
        return
    yield Path(__file__).with_name("__pycache__")
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    temporary = os.environ.get("TMPDIR") or "/tmp"
    for folder in (Path(cache, "lance-spark", "kernels"), Path(temporary, f"lance-spark-kernels-{os.getuid()}")):
        if _is_private(folder, make=to_write):
            yield folder


def _is_private(folder: Path, *, make: bool) -> bool:
    """Whether a folder is there, or is made, to which only this user can write."""
    try:
        if make:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
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
