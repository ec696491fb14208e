"""The number of kernels, the seconds to compile them, and those of a first use after an install.

    python -m benchmarks.compile [--modules 20]

Both start with an empty `LANCE_SPARK_KERNEL_CACHE` of their own. CPU seconds; compare numbers of one machine only.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

import lance_spark
from lance_spark.kernels import machine_code
from lance_spark.kernels.warm import all_kernels


def compile_all(modules: int) -> None:
    functions = all_kernels()
    seconds: Counter[str] = Counter()
    for function in functions:
        before = time.process_time()
        machine_code.compiled(function)
        seconds[function.module] += time.process_time() - before
    print(f"{len(functions)} kernels that Python calls")
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
        subprocess.run(command, check=True, env=os.environ | {machine_code.FOLDER: cache.name})


if __name__ == "__main__":
    main()
