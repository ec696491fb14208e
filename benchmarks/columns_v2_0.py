"""Reading columns of file version 2.0 beside the reference library, on one core.

    python -m benchmarks.columns_v2_0 [part of a name ...]

Files are written by the reference library. A scan reads the whole column of a file that is opened for it; MB/s count
Arrow data by CPU time, the median of several runs, the reference at its best batch size. Columns without nulls and of
fixed width cost us next to nothing, because their pages are handed out as they are mapped. A take reads up to 1,000
rows anywhere. Only ratios within one run mean anything.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

ROUNDS = 7
BATCH_SIZES = (8192, 131_072)
TAKEN_ROWS = 1000
MILLION = 1_000_000


class Column(NamedTuple):
    """What is measured: the values, and the field metadata that asks the writer for an encoding."""

    values: pa.Array
    metadata: dict[str, str]


def columns() -> dict[str, Callable[[], Column]]:
    """Makers of columns by name."""
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 2**40, 4 * MILLION)
    small = numbers.astype(np.int32)

    def nullable(values: np.ndarray | pa.Array) -> pa.Array:
        nulls = pa.array(rng.random(len(values)) < 0.1)
        return pa.compute.if_else(nulls, None, pa.array(values))

    def words(rows: int, distinct: int, length: int) -> pa.Array:
        letters = rng.integers(97, 123, (distinct, length), dtype=np.uint8)
        return pa.array([row.tobytes().decode() for row in letters]).take(pa.array(rng.integers(0, distinct, rows)))

    def fives(items: pa.Array | np.ndarray) -> pa.Array:
        return pa.ListArray.from_arrays(np.arange(0, len(items) + 1, 5, dtype=np.int32), pa.array(items))

    def struct(*members: pa.Array | np.ndarray) -> pa.Array:
        return pa.StructArray.from_arrays([pa.array(member) for member in members], list("abc"[: len(members)]))

    def vectors() -> pa.Array:
        return pa.FixedSizeListArray.from_arrays(np.ones(20_000 * 768, np.float32), 768)

    def blobs() -> pa.Array:
        return pa.array([rng.bytes(10_000) for _ in range(2000)], pa.large_binary())

    def compressed(scheme: str) -> Column:
        return Column(words(MILLION, 100_000, 12), {"lance-encoding:compression": scheme})

    return {
        "int64": lambda: Column(pa.array(numbers), {}),
        "int64, 10 % null": lambda: Column(nullable(numbers), {}),
        "int32": lambda: Column(pa.array(small), {}),
        "bool": lambda: Column(pa.array(numbers % 2 == 0), {}),
        "bool, 10 % null": lambda: Column(nullable(numbers % 2 == 0), {}),
        "decimal128": lambda: Column(pa.array(numbers[:MILLION]).cast(pa.decimal128(20, 0)), {}),
        "float32[768]": lambda: Column(vectors(), {}),
        "string, 12 bytes": lambda: Column(words(2 * MILLION, 100_000, 12), {}),
        "string, 10 % null": lambda: Column(nullable(words(MILLION, 5000, 12)), {}),
        "text, 200 bytes": lambda: Column(words(300_000, 5000, 200), {}),
        "string, 50 words": lambda: Column(words(2 * MILLION, 50, 8), {}),
        "string, zstd": lambda: compressed("zstd"),
        "string, fsst": lambda: compressed("fsst"),
        "dictionary type": lambda: Column(words(2 * MILLION, 50, 8).dictionary_encode(), {}),
        "list<int32>": lambda: Column(fives(small), {}),
        "list<string>": lambda: Column(fives(words(MILLION, 5000, 10)), {}),
        "struct<int, string>": lambda: Column(struct(numbers[:MILLION], words(MILLION, 9000, 12)), {}),
        "packed struct": lambda: Column(struct(numbers, small), {"packed": "true"}),
        "blob, 10 KB": lambda: Column(blobs(), {"lance-encoding:blob": "true"}),
    }


def cpu_ms(run: Callable[[], object]) -> float:
    """Median CPU time of a call in milliseconds; the first call only warms up."""
    run()
    spent = []
    for _ in range(ROUNDS):
        start = time.process_time()
        run()
        spent.append(time.process_time() - start)
    return statistics.median(spent) * 1000


def write(path: Path, column: Column) -> None:
    """`column` as the only one of a file."""
    from lance.file import LanceFileWriter

    schema = pa.schema([pa.field("x", column.values.type, metadata=column.metadata)])
    with LanceFileWriter(str(path), schema, version="2.0") as writer:
        for start in range(0, len(column.values), 100_000):
            stop = min(start + 100_000, len(column.values))
            # Copied, because the writer mishandles some slices.
            part = column.values.take(pa.array(np.arange(start, stop)))
            writer.write_batch(pa.record_batch([part], schema=schema))


def compare(name: str, column: Column, path: Path) -> None:
    """Prints one line."""
    from lance.file import LanceFileReader

    from lance_spark.file.open_file import open_data_file
    from lance_spark.layouts.base import RowRanges
    from lance_spark.storage.registry import open_store

    write(path, column)
    store = open_store(str(path.parent))
    rows = np.unique(np.random.default_rng(1).integers(0, len(column.values), TAKEN_ROWS))
    opened, reference = open_data_file(store, path.name), LanceFileReader(str(path))
    assert opened.read_table()["x"].to_pylist() == reference.read_all().to_table()["x"].to_pylist()

    scan = cpu_ms(lambda: open_data_file(store, path.name).read_table())
    reference_scan = min(
        cpu_ms(lambda size=size: LanceFileReader(str(path)).read_all(batch_size=size).to_table())
        for size in BATCH_SIZES
    )  # fmt: skip
    take = cpu_ms(lambda: opened.read_table(rows=RowRanges(rows, rows + 1)))
    reference_take = cpu_ms(lambda: reference.take_rows(rows.tolist()).to_table())
    megabytes = column.values.nbytes / 1e6
    print(
        f"{name:20} {megabytes:5.0f} {megabytes / scan * 1000:9.0f} {megabytes / reference_scan * 1000:9.0f}"
        f" {reference_scan / scan:6.1f} {take:8.2f} {reference_take:9.2f} {reference_take / take:6.1f}",
        flush=True,
    )


def main() -> None:
    # Before anything starts threads: both sides get the same single core.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    wanted = sys.argv[1:]
    print(f"{'column':20} {'MB':>5} {'scan MB/s':>9} {'reference':>9} {'ratio':>6}", end="")
    print(f" {'take ms':>8} {'reference':>9} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, make) in enumerate(columns().items()):
            if not wanted or any(part in name for part in wanted):
                compare(name, make(), Path(folder, f"{number}.lance"))


if __name__ == "__main__":
    main()
