"""Reading columns of file version 2.0, beside the reference library: ``python -m benchmarks.columns_v2_0 [column ...]``.

One core, CPU time of the process, median of several reads; MB/s count the bytes of the Arrow data. Only the ratio of one run
means something.
"""

from __future__ import annotations

import os

# Before anything starts threads: both sides get the same single core.
os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from lance.file import LanceFileReader, LanceFileWriter

from lance_spark.file.reader import FileReader
from lance_spark.layouts.base import RowRanges
from lance_spark.storage.registry import open_store

ROUNDS = 7
BATCH_SIZES = (8192, 131_072)
TAKEN_ROWS = 1000


def columns() -> dict[str, Callable[[], tuple[pa.Array, dict[str, str]]]]:
    """Makers of a column and its field metadata."""
    rng = np.random.default_rng(0)
    million = 1_000_000

    def nullable(values: np.ndarray) -> pa.Array:
        return pa.array(values, mask=rng.random(len(values)) < 0.1)

    def words(rows: int, distinct: int, length: int) -> pa.Array:
        pool = pa.array(["".join(map(chr, rng.integers(97, 123, length))) for _ in range(distinct)])
        return pool.take(pa.array(rng.integers(0, distinct, rows)))

    def lists(items: pa.Array, size: int) -> pa.Array:
        offsets = np.arange(0, len(items) + 1, size, dtype=np.int32)
        return pa.ListArray.from_arrays(offsets, items)

    numbers = rng.integers(0, 2**40, 4 * million)
    blob = {"lance-encoding:blob": "true"}
    return {
        "int64": lambda: (pa.array(numbers), {}),
        "int64, 10 % null": lambda: (nullable(numbers), {}),
        "int32": lambda: (pa.array(numbers.astype(np.int32)), {}),
        "bool": lambda: (pa.array(numbers % 2 == 0), {}),
        "bool, 10 % null": lambda: (nullable(numbers % 2 == 0), {}),
        "float32[768]": lambda: (pa.FixedSizeListArray.from_arrays(np.ones(20_000 * 768, np.float32), 768), {}),
        "string, 12 bytes": lambda: (words(2 * million, 100_000, 12), {}),
        "string, 10 % null": lambda: (pa.array([w if i % 10 else None for i, w in enumerate(words(million, 5000, 12).to_pylist())]), {}),
        "text, 200 bytes": lambda: (words(300_000, 5000, 200), {}),
        "string, 50 words": lambda: (words(2 * million, 50, 8), {}),
        "string, zstd": lambda: (words(million, 100_000, 12), {"lance-encoding:compression": "zstd"}),
        "string, fsst": lambda: (words(million, 100_000, 12), {"lance-encoding:compression": "fsst"}),
        "dictionary type": lambda: (words(2 * million, 50, 8).dictionary_encode(), {}),
        "list<int32>": lambda: (lists(pa.array(numbers.astype(np.int32)), 5), {}),
        "list<string>": lambda: (lists(words(million, 5000, 10), 5), {}),
        "struct<int, string>": lambda: (pa.StructArray.from_arrays([pa.array(numbers[:million]), words(million, 9000, 12)], ["a", "b"]), {}),
        "packed struct": lambda: (pa.StructArray.from_arrays([pa.array(numbers), pa.array(numbers.astype(np.int32))], ["a", "b"]), {"packed": "true"}),
        "decimal128": lambda: (pa.array(numbers[:million]).cast(pa.decimal128(20, 0)), {}),
        "blob, 10 KB": lambda: (pa.array([rng.bytes(10_000) for _ in range(2000)], pa.large_binary()), blob),
    }  # fmt: skip


def cpu_ms(run: Callable[[], object]) -> float:
    """Median CPU time of a call in milliseconds; the first call only warms up."""
    run()
    spent = []
    for _ in range(ROUNDS):
        start = time.process_time()
        run()
        spent.append(time.process_time() - start)
    return statistics.median(spent) * 1000


def write(path: Path, values: pa.Array, metadata: dict[str, str]) -> None:
    schema = pa.schema([pa.field("x", values.type, metadata=metadata)])
    with LanceFileWriter(str(path), schema, version="2.0") as writer:
        for start in range(0, len(values), 100_000):
            part = values.take(pa.array(np.arange(start, min(start + 100_000, len(values)))))
            writer.write_batch(pa.record_batch([part], schema=schema))


def compare(name: str, values: pa.Array, metadata: dict[str, str], folder: Path) -> None:
    """Prints one line: a scan of the whole column, and some rows of it."""
    path = folder / "column.lance"
    path.unlink(missing_ok=True)
    write(path, values, metadata)
    store = open_store(str(folder))
    rows = np.unique(np.random.default_rng(1).integers(0, len(values), TAKEN_ROWS))
    ranges = RowRanges(rows, rows + 1)

    def ours() -> pa.Table:
        return FileReader.open(store, path.name).read_table()

    def theirs(batch_size: int) -> pa.Table:
        return LanceFileReader(str(path)).read_all(batch_size=batch_size).to_table()

    assert ours()["x"].combine_chunks().equals(theirs(8192)["x"].combine_chunks()) or pa.types.is_dictionary(values.type)
    megabytes = values.nbytes / 1e6
    scan = cpu_ms(ours)
    reference_scan = min(cpu_ms(lambda size=size: theirs(size)) for size in BATCH_SIZES)
    opened, reference = FileReader.open(store, path.name), LanceFileReader(str(path))
    take = cpu_ms(lambda: opened.read_table(rows=ranges))
    reference_take = cpu_ms(lambda: reference.take_rows(rows.tolist()).to_table())
    print(
        f"{name:22} {megabytes:6.0f} {megabytes / scan * 1000:9.0f} {megabytes / reference_scan * 1000:9.0f}"
        f" {reference_scan / scan:6.1f} {take:8.2f} {reference_take:8.2f} {reference_take / take:6.1f}"
    )


def main() -> None:
    wanted = sys.argv[1:]
    print(f"{'column':22} {'MB':>6} {'ours MB/s':>9} {'reference':>9} {'ratio':>6} {'take ms':>8} {'ref. ms':>8} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for name, make in columns().items():
            if not wanted or any(part in name for part in wanted):
                compare(name, *make(), Path(folder))


if __name__ == "__main__":
    main()
