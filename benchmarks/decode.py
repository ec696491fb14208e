"""Read throughput beside the reference library, column by column, on one core.

    python -m benchmarks.decode [--rows 2000000] [--only WORD]

Files are written by the reference library with its defaults (2.2). Both readers run in this process, pinned to one
core; the figures are MB of Arrow data a second of CPU time, the median of several runs, the reference at its best batch
size. Only ratios within one run mean anything.
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

import numpy as np
import pyarrow as pa

RUNS = 7
BATCH_SIZES = (8192, 65536, 1_048_576)
TAKEN = (
    "int64 full width",
    "int64, 10 % null",
    "string ~12 B unique",
    "text ~200 B",
    "fixed_size_list float32[768]",
    "list<int32>",
)


def columns(rows: int) -> dict[str, Callable[[], pa.Array]]:
    """What is measured; vectors and texts have fewer rows, so that every column has some tens of MB."""
    rng = np.random.default_rng(0)
    words = np.array([f"word number {i}" for i in range(1000)])
    lorem = np.array(["lorem", "ipsum", "dolor", "sit", "amet", "consectetur", "adipiscing", "elit", "sed", "eiusmod"])

    def numbers(n: int) -> pa.Array:
        return pa.array(rng.integers(-(2**62), 2**62, n))

    def unique_strings(n: int) -> pa.Array:
        return pa.array([f"{value:012x}" for value in rng.integers(0, 2**48, n)])

    def texts(n: int) -> pa.Array:
        return pa.array([" ".join(row) + f" {i}" for i, row in enumerate(lorem[rng.integers(0, 10, (n, 32))])])

    def lists(n: int) -> pa.Array:
        lengths = rng.integers(0, 9, n)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        return pa.ListArray.from_arrays(offsets, pa.array(rng.integers(0, 100_000, int(offsets[-1])).astype(np.int32)))

    def vectors(n: int) -> pa.Array:
        return pa.FixedSizeListArray.from_arrays(pa.array(rng.random(n * 768, np.float32)), 768)

    def structs(n: int) -> pa.Array:
        return pa.StructArray.from_arrays([numbers(n), unique_strings(n)], ["i", "s"])

    return {
        "int64 full width": lambda: numbers(4 * rows),
        "int64, 10 bits used": lambda: pa.array(rng.integers(0, 1024, 4 * rows)),
        "int32 sorted": lambda: pa.array(np.sort(rng.integers(0, 2**31 - 1, 4 * rows)).astype(np.int32)),
        "float64": lambda: pa.array(rng.standard_normal(4 * rows)),
        "fixed_size_list float32[768]": lambda: vectors(rows // 50),
        "string ~12 B unique": lambda: unique_strings(rows),
        "string, 1,000 words": lambda: pa.array(words[rng.integers(0, 1000, rows)]),
        "text ~200 B": lambda: texts(rows // 8),
        "int64, 10 % null": lambda: pa.array(rng.integers(-(2**62), 2**62, 4 * rows), mask=rng.random(4 * rows) < 0.1),
        "list<int32>": lambda: lists(rows),
        "struct<int,string>": lambda: structs(rows),
        "bool": lambda: pa.array(rng.random(32 * rows) < 0.5),
    }


def _median(run: Callable[[], object]) -> float:
    """Seconds of CPU time."""
    run()
    taken = []
    for _ in range(RUNS):
        before = time.process_time()
        run()
        taken.append(time.process_time() - before)
    return statistics.median(taken)


def measure(values: pa.Array, folder: Path) -> tuple[int, float, float]:
    """(Arrow bytes, our seconds, the reference's seconds)."""
    from lance.file import LanceFileReader, LanceFileWriter

    from lance_spark.file.open_file import open_data_file
    from lance_spark.storage import open_store

    table = pa.table({"x": values})
    path = folder / "x.lance"
    with LanceFileWriter(str(path), table.schema) as writer:
        for batch in table.to_batches(max_chunksize=1_000_000):
            writer.write_batch(batch)
    store = open_store(str(folder))
    got = open_data_file(store, "x.lance").read_table()
    assert got.equals(table)
    num_bytes = got.nbytes
    del got
    ours = _median(lambda: open_data_file(store, "x.lance").read_table())
    theirs = min(
        _median(lambda size=size: LanceFileReader(str(path)).read_all(batch_size=size).to_table())  # type: ignore[misc]
        for size in BATCH_SIZES
    )
    path.unlink()
    return num_bytes, ours, theirs


def measure_take(rows: int, folder: Path) -> None:
    """1,000 random rows of an int64 column."""
    from lance.file import LanceFileReader, LanceFileWriter

    from lance_spark.file.open_file import open_data_file
    from lance_spark.layouts.base import RowRanges
    from lance_spark.storage import open_store

    store = open_store(str(folder))
    made = columns(rows)
    for name in TAKEN:
        table = pa.table({"x": made[name]()})
        path = folder / "x.lance"
        with LanceFileWriter(str(path), table.schema) as writer:
            for batch in table.to_batches(max_chunksize=1_000_000):
                writer.write_batch(batch)
        wanted = np.unique(np.random.default_rng(1).integers(0, table.num_rows, 1000))
        ranges = RowRanges(wanted, wanted + 1)
        file = open_data_file(store, "x.lance")
        assert file.read_table(rows=ranges).equals(table.take(pa.array(wanted)))
        ours = _median(lambda file=file, ranges=ranges: file.read_table(rows=ranges))  # type: ignore[misc]
        reference = LanceFileReader(str(path))
        rows_list = wanted.tolist()
        theirs = _median(lambda reference=reference, rows_list=rows_list: reference.take_rows(rows_list).to_table())  # type: ignore[misc]
        print(f"{'take 1,000 of ' + name:34}{ours * 1e3:8.2f} ms{theirs * 1e3:9.2f} ms{theirs / ours:8.2f}")
        path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--only", default="")
    parser.add_argument("--core", type=int, default=0)
    options = parser.parse_args()
    os.sched_setaffinity(0, {options.core})
    print(f"{'column':34}{'ours MB/s':>11}{'ref. MB/s':>11}{'ratio':>8}   lance {_reference_version()}")
    with tempfile.TemporaryDirectory() as folder:
        for name, make in columns(options.rows).items():
            if options.only in name:
                num_bytes, ours, theirs = measure(make(), Path(folder))
                print(f"{name:34}{num_bytes / ours / 1e6:11.0f}{num_bytes / theirs / 1e6:11.0f}{theirs / ours:8.2f}")
                sys.stdout.flush()
        if options.only in ("", "take"):
            measure_take(options.rows, Path(folder))


def _reference_version() -> str:
    import lance

    return str(lance.__version__)


if __name__ == "__main__":
    main()
