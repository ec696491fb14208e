"""Updates of a label beside wide vectors: new files of the label, complete rows that move, and the reference library.

    python -m benchmarks.column_updates [--rows 200000] [--width 768] [--share 0.3] [--rounds 3]

Each round updates the same rows of a copy of the table in each way; the ways take turns. Bytes are those of the new
files below the table. The reference library moves complete rows.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

import lance_spark

BATCH_ROWS = 20_000


def batches(rows: int, width: int) -> Iterator[pa.RecordBatch]:
    """Rows with an id, a label and random floats."""
    rng = np.random.default_rng(0)
    for start in range(0, rows, BATCH_ROWS):
        count = min(BATCH_ROWS, rows - start)
        floats = pa.FixedSizeListArray.from_arrays(pa.array(rng.random(count * width, np.float32)), width)
        ids = pa.array(range(start, start + count), pa.int64())
        yield pa.RecordBatch.from_arrays([ids, pa.array(["new"] * count), floats], ["id", "label", "v"])


def num_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.column_updates", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    where = f"id % 100 < {round(arguments.share * 100)}"
    ways: dict[str, Callable[[str], object]] = {
        "columns": lambda uri: lance_spark.open(uri).update({"label": "'seen'"}, where, mode="columns"),
        "auto": lambda uri: lance_spark.open(uri).update({"label": "'seen'"}, where),
        "rows": lambda uri: lance_spark.open(uri).update({"label": "'seen'"}, where, mode="rows"),
        "reference": lambda uri: lance.dataset(uri).update({"label": "'seen'"}, where=where),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    written: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="column-updates") as scratch:
        first = Path(scratch) / "first"
        schema = next(batches(1, arguments.width)).schema
        reader = pa.RecordBatchReader.from_batches(schema, batches(arguments.rows, arguments.width))
        lance.write_dataset(reader, str(first), max_rows_per_file=100_000)
        size = num_bytes(first)
        for _ in range(arguments.rounds):
            for name, update in ways.items():
                copy = Path(scratch) / name
                shutil.copytree(first, copy)
                began = time.perf_counter()
                update(str(copy))
                seconds[name].append(time.perf_counter() - began)
                written[name] = num_bytes(copy) - size
                assert lance.dataset(str(copy)).count_rows("label = 'seen'") == round(arguments.rows * arguments.share)
                shutil.rmtree(copy)
    slowest = statistics.median(seconds["rows"])
    print("| | seconds (median) | of `rows` | bytes written | of `rows` |\n|---|---|---|---|---|")
    for name in ways:
        median = statistics.median(seconds[name])
        share = f"{written[name] / written['rows']:.2%}"
        print(f"| {name} | {median:.3f} | {median / slowest:.3f} | {written[name]:,} | {share} |")


main()
