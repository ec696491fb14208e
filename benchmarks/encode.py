"""How fast columns are written, and how small: this package beside the reference library and Parquet.

``python benchmarks/encode.py [column ...]`` pins itself to one core, writes each column to memory-backed files and
prints CPU MB/s of Arrow bytes (median of runs) and bytes on disk as a share of Arrow's. Compare ratios of one run.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lance_spark.file.writer import FileWriter
from lance_spark.schema.arrow import from_arrow_schema
from lance_spark.storage import open_store

ROWS = 1_000_000
RUNS = 5


def columns(rows: int) -> dict[str, pa.Array]:
    """The columns of the read table in the performance notes."""
    rng = np.random.default_rng(0)
    wide = rng.integers(-(2**62), 2**62, rows)
    words = np.array([f"{rng.bytes(3 + i % 6).hex()}" for i in range(1000)])
    letters = np.array(list("etaoin shrdlu cmfwyp vbgkjq"))
    text = ["".join(row) for row in letters[(rng.exponential(6, (rows // 8, 200)).astype(int)) % 27]]
    lengths = rng.integers(0, 8, rows // 4)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    items = rng.integers(0, 100_000, int(offsets[-1])).astype(np.int32)
    unique = pa.array([f"key-{i * 7919 % 100_000_007:08d}" for i in range(rows)])
    return {
        "int64 full width": pa.array(wide),
        "int64, 10 bits used": pa.array(rng.integers(0, 1024, rows)),
        "int32 sorted": pa.array(np.sort(rng.integers(0, 2**31 - 1, rows)).astype(np.int32)),
        "float64": pa.array(rng.standard_normal(rows)),
        "vector float32[768]": pa.FixedSizeListArray.from_arrays(
            rng.standard_normal(rows // 100 * 768).astype(np.float32), 768
        ),
        "string ~12 B unique": unique,
        "string, 1,000 words": pa.array(words[rng.integers(0, 1000, rows)]),
        "text ~200 B": pa.array(text),
        "int64, 10 % null": pa.array(wide, mask=rng.random(rows) < 0.1),
        "list<int32>": pa.ListArray.from_arrays(offsets, items),
        "struct<int, string>": pa.StructArray.from_arrays([pa.array(wide), unique], ["a", "b"]),
        "bool": pa.array(rng.random(16 * rows) < 0.5),
    }


def written_by_us(folder: Path, table: pa.Table) -> Path:
    with FileWriter(open_store(str(folder)), "ours.lance", from_arrow_schema(table.schema)) as writer:
        writer.write(table)
    return folder / "ours.lance"


def written_by_reference(folder: Path, table: pa.Table) -> Path:
    from lance.file import LanceFileWriter

    path = folder / "reference.lance"
    with LanceFileWriter(str(path), table.schema, version="2.2") as writer:
        writer.write_batch(table)
    return path


def written_as_parquet(folder: Path, table: pa.Table) -> Path:
    path = folder / "plain.parquet"
    pq.write_table(table, path, compression="none")
    return path


def measure(write: Callable[[Path, pa.Table], Path], folder: Path, table: pa.Table) -> tuple[float, int]:
    """(CPU MB/s of Arrow bytes, bytes on disk)."""
    seconds = []
    for _ in range(RUNS):
        before = time.process_time()
        path = write(folder, table)
        seconds.append(time.process_time() - before)
    return table.nbytes / statistics.median(seconds) / 1e6, path.stat().st_size


def main(wanted: list[str]) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    shm = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=shm if shm.is_dir() else None))
    writers = {"ours": written_by_us, "reference": written_by_reference, "parquet": written_as_parquet}
    print(
        f"{'MB/s of Arrow bytes, share on disk':36}" + "".join(f"{name:>20}" for name in writers) + f"{'ours/ref':>10}"
    )
    try:
        for name, array in columns(ROWS).items():
            if wanted and not any(part in name for part in wanted):
                continue
            table = pa.table({"c": array})
            results = [measure(write, folder, table) for write in writers.values()]
            cells = "".join(f"{speed:12.0f}  {size / table.nbytes:6.3f}" for speed, size in results)
            print(f"{name:36}{cells}{results[0][0] / results[1][0]:10.2f}")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(sys.argv[1:])
