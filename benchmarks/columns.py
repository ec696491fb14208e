"""CPU time of reading one column of a table, beside the reference library and Parquet.

    python -m benchmarks.columns [--millions 1 4 16] [--only WORD] [--versions 2.0 2.1 2.2]

Tables are written by the reference library with its defaults, Parquet files by pyarrow (uncompressed and snappy; the
faster one counts). All readers run in this process on one core, in alternating rounds; times are user and system time
together, the best and the median. The reference is taken at its better batch size of 8,192 and 1,048,576 rows. Columns
whose values are views of the mapped file are marked: nothing is decoded there.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lance_spark

ROUNDS = 5
MILLION = 1_000_000


def columns(rows: int) -> dict[str, Callable[[], pa.Array]]:
    """The columns by name; texts have a quarter of the rows, vectors a hundredth."""
    rng = np.random.default_rng(0)
    words = np.array([f"word number {number}" for number in range(800)])
    text = "lorem ipsum dolor sit amet consectetur adipiscing elit sed eiusmod tempor incididunt ut labore " * 60

    def unique() -> pa.Array:
        return pa.array([f"{value:012x}" for value in rng.integers(0, 2**48, rows).tolist()])

    def texts() -> pa.Array:
        count = rows // 4
        starts, sizes = rng.integers(0, 5000, count), rng.integers(150, 250, count)
        return pa.array(
            [text[start : start + size] for start, size in zip(starts.tolist(), sizes.tolist(), strict=True)]
        )

    def lists() -> pa.Array:
        offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 9, rows))]).astype(np.int32)
        return pa.ListArray.from_arrays(offsets, pa.array(rng.integers(0, 100_000, int(offsets[-1])).astype(np.int32)))

    def wide() -> pa.Array:
        return pa.array(rng.integers(-(2**62), 2**62, rows))

    return {
        "bool": lambda: pa.array(rng.random(rows) < 0.5),
        "bool, 10 % null": lambda: pa.array(rng.random(rows) < 0.5, mask=rng.random(rows) < 0.1),
        "int64 wide": wide,
        "int64 of 10 bits": lambda: pa.array(rng.integers(0, 1000, rows)),
        "int32 sorted": lambda: pa.array(np.sort(rng.integers(0, 2**31 - 1, rows)).astype(np.int32)),
        "float64": lambda: pa.array(rng.standard_normal(rows)),
        "int64, 10 % null": lambda: pa.array(rng.integers(-(2**62), 2**62, rows), mask=rng.random(rows) < 0.1),
        "string unique": unique,
        "800 words": lambda: pa.array(words[rng.integers(0, 800, rows)]),
        "text": texts,
        "list<int32>": lists,
        "struct": lambda: pa.StructArray.from_arrays([wide(), unique()], ["i", "s"]),
        "float32[256]": lambda: pa.FixedSizeListArray.from_arrays(
            pa.array(rng.random(rows // 100 * 256, np.float32)), 256
        ),
    }


def cpu_seconds(run: Callable[[], Any]) -> float:
    """Seconds of user and system time of all threads."""
    before = time.process_time()
    result = run()
    taken = time.process_time() - before
    del result
    return taken


def alternating(runs: dict[str, Callable[[], Any]], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """CPU seconds of each run in each round; a first round is not counted."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            seconds = cpu_seconds(run)
            if number:
                taken[name].append(seconds)
    return taken


def is_view(table: pa.Table) -> bool:
    """Whether the values lie in memory that Arrow did not allocate (the mapped file)."""
    before = pa.total_allocated_bytes()
    sizes = [buffer.size for chunk in table.column(0).chunks for buffer in chunk.buffers() if buffer is not None]
    return before < sum(sizes) // 2


def measure(values: pa.Array, version: str, folder: Path) -> None:
    """Prints one line."""
    table = pa.table({"x": values})
    path = str(folder / "x.lance")
    lance.write_dataset(table, path, data_storage_version=version, mode="overwrite")
    for compression in ("none", "snappy"):
        pq.write_table(table, folder / f"{compression}.parquet", compression=compression)
    del values
    ours, theirs = lance_spark.open(path), lance.dataset(path)
    assert ours.to_table().equals(table)
    del table
    runs: dict[str, Callable[[], Any]] = {"ours": ours.to_table}
    for size in (8192, 1 << 20):
        runs[f"reference {size}"] = lambda size=size: theirs.to_table(batch_size=size)  # type: ignore[misc]
    for compression in ("none", "snappy"):
        runs[f"parquet {compression}"] = lambda name=compression: pq.read_table(  # type: ignore[misc]
            folder / f"{name}.parquet", use_threads=False
        )
    taken = alternating(runs)
    best = {name: min(seconds) for name, seconds in taken.items()}
    median = {name: statistics.median(seconds) for name, seconds in taken.items()}

    def least(times: dict[str, float], word: str) -> float:
        return min(seconds for name, seconds in times.items() if word in name)

    print(
        f"{best['ours'] * 1e3:9.2f}{median['ours'] * 1e3:9.2f}{least(best, 'reference') * 1e3:9.2f}"
        f"{least(best, 'parquet') * 1e3:9.2f}{least(best, 'reference') / best['ours']:8.2f}"
        f"{least(median, 'reference') / median['ours']:8.2f}{least(best, 'parquet') / best['ours']:8.2f}"
        + ("  view" if is_view(ours.to_table()) else "")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--only", default="")
    parser.add_argument("--versions", nargs="+", default=["2.1"])
    parser.add_argument("--core", type=int, default=1)
    options = parser.parse_args()
    os.sched_setaffinity(0, {options.core})
    print(f"{'':34}{'ours ms':>9}{'median':>9}{'ref. ms':>9}{'Parquet':>9}{'x ref.':>8}{'(median)':>8}{'x Pq.':>8}")
    for version in options.versions:
        for millions in options.millions:
            for name, make in columns(millions * MILLION).items():
                if options.only in name:
                    print(f"{name:20}{version:>6}{millions:>5} M  ", end="")
                    with tempfile.TemporaryDirectory() as folder:
                        measure(make(), version, Path(folder))
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
