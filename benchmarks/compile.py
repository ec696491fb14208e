"""The number of kernels, the seconds to compile them, and those of a first use after an install.

    python -m benchmarks.compile [--modules 20]

Both start with an empty `NUMBA_CACHE_DIR` of their own. CPU seconds; compare numbers of one machine only.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

import lance_spark
from lance_spark import kernels
from lance_spark.kernels.jit import Kernel, import_compiler


def all_kernels() -> list[Kernel]:
    """All kernels and inlined functions, each once."""
    modules = [info for info in pkgutil.walk_packages(kernels.__path__, f"{kernels.__name__}.") if not info.ispkg]
    functions: dict[Kernel, None] = {}
    for info in modules:
        if info.name.endswith(".pointers"):
            continue
        for value in vars(importlib.import_module(info.name)).values():
            if isinstance(value, Kernel):
                functions[value] = None
    return list(functions)


def compile_all(modules: int) -> None:
    import_compiler()
    functions = all_kernels()
    compiled = [function for function in functions if not function.is_inlined]
    seconds: Counter[str] = Counter()
    for function in compiled:
        before = time.process_time()
        function.compiled()
        seconds[function.module] += time.process_time() - before
    print(f"{len(compiled)} kernels with one signature each, {len(functions) - len(compiled)} inlined functions")
    print(f"{seconds.total():8.1f} s to compile all of them")
    for name, taken in seconds.most_common(modules):
        print(f"{taken:8.1f} s {name}")


def use() -> None:
    rng = np.random.default_rng(0)
    rows = pa.table(
        {
            "id": np.arange(1000),
            "x": rng.random(1000),
            "s": [f"text {number}" for number in rng.integers(0, 99, 1000)],
            "name": [f"name {number}" for number in rng.integers(0, 10**9, 1000)],
            "flag": [None if number % 7 == 0 else number % 3 for number in range(1000)],
            "list": [[number, number + 1][: number % 3] for number in range(1000)],
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        uri = str(Path(folder) / "t.lance")
        before = time.process_time()
        lance_spark.write(rows, uri)
        written = time.process_time()
        assert lance_spark.open(uri).to_table() == rows
        read = time.process_time()
        lance_spark.open(uri).scanner(filter="id > 500 and s = 'text 5'").to_table()
        filtered = time.process_time()
    print(f"write {written - before:5.1f} s, read {read - written:5.1f} s, filter {filtered - read:5.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modules", type=int, default=20)
    parser.add_argument("--step", choices=["use", "compile"])
    options = parser.parse_args()
    if options.step == "use":
        use()
        return
    if options.step == "compile":
        compile_all(options.modules)
        return
    for step, title in (("use", "first use"), ("use", "second use"), ("compile", "all kernels")):
        if title != "second use":
            cache = tempfile.TemporaryDirectory()
        print(f"{title}:", flush=True)
        command = [sys.executable, "-m", "benchmarks.compile", "--step", step, "--modules", str(options.modules)]
        subprocess.run(command, check=True, env=os.environ | {"NUMBA_CACHE_DIR": cache.name})


if __name__ == "__main__":
    main()
