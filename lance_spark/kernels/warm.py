"""All kernels compiled before anybody waits for them: for this machine, or for the wheel.

`python -m lance_spark warm` is the first; ``python -m lance_spark.kernels.warm`` writes the object files of the wheel.
"""

from __future__ import annotations

import importlib
import pkgutil
import shutil
from collections.abc import Callable
from pathlib import Path

from lance_spark import kernels
from lance_spark.errors import StorageError
from lance_spark.kernels import machine_code, target
from lance_spark.kernels.jit import Kernel


def all_kernels() -> list[Kernel]:
    """The kernels that Python calls, each once, by module."""
    found: dict[Kernel, None] = {}
    for info in pkgutil.walk_packages(kernels.__path__, f"{kernels.__name__}."):
        name = info.name.rpartition(".")[2]
        if info.ispkg or name in ("compiler", "pointers", "warm"):
            continue
        for value in vars(importlib.import_module(info.name)).values():
            # Names with an underscore are called by kernels of their module.
            if isinstance(value, Kernel) and not value.is_inlined and not value.__name__.startswith("_"):
                found[value] = None
    return list(found)


def compile_for_this_machine(progress: Callable[[str], None]) -> int:
    """Compiles every kernel that is not on disk for the processor that is there.

    Returns:
        How many were compiled.

    Raises:
        StorageError: no folder can keep them.
    """
    missing = [kernel for kernel in all_kernels() if machine_code.own_object_file(kernel) is None]
    for number, kernel in enumerate(missing):
        progress(f"{number} of {len(missing)} kernels compiled")
        machine_code.compiled(kernel)
        if machine_code.own_object_file(kernel) is None:
            raise StorageError(
                f"no folder can keep machine code; name one that can be written by {machine_code.FOLDER}"
            )
    return len(missing)


def write_portable(folder: Path) -> int:
    """Writes the object files of `target.PORTABLE` into a folder, emptied before; returns their number."""
    from lance_spark.kernels.compiler import compile_kernel

    shutil.rmtree(folder, ignore_errors=True)
    everything = all_kernels()
    for kernel in everything:
        name = machine_code.file_name(kernel, target.PORTABLE)
        if not machine_code.store(folder / name, compile_kernel(kernel, target.PORTABLE)):
            raise OSError(f"cannot write {folder / name}")
    return len(everything)


if __name__ == "__main__":
    print(f"{write_portable(machine_code.packaged())} object files in {machine_code.packaged()}")  # noqa: T201
