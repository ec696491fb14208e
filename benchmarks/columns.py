"""CPU time of reading one column of a table, beside the reference library and Parquet.

    python -m benchmarks.columns [--millions 1 4 16] [--only WORD] [--versions 2.0 2.1 2.2] [--kept 1 10 50]

Tables are written by the reference library with its defaults, Parquet files by pyarrow (uncompressed and snappy; the
faster one counts). All readers run in this process on one core, in alternating rounds, each after one of another
library, so that no one finds its code in the caches; times are user and system time together, the best and the median.
The reference is taken at its better batch size of 8,192 and 1,048,576 rows. Columns whose values are views of the
mapped file are marked: nothing is decoded there.

With `--kept` a filter keeps each of these percentages of the rows, by another column ("by f") and, for numbers and
strings, by the column itself. The last lines are geometric means.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
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


class Query(NamedTuple):
    """A filter in SQL and as an expression of pyarrow; None: all rows."""

    name: str
    sql: str | None = None
    expression: Any = None


def queries(table: pa.Table, kept: Sequence[int]) -> list[Query]:
    """The whole column, or for each percentage filters that keep so many rows."""
    if not kept:
        return [Query("")]
    found = []
    x, dtype = table["x"], table["x"].type
    for percent in kept:
        found.append(Query(f"{percent} % by f", f"f < {percent}", pc.field("f") < percent))
        if pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_string(dtype):
            sample = x.slice(0, 100_000) if x.type != pa.int32() else x.take(pa.array(range(0, len(x), 40)))
            bound = sorted(sample.drop_null().to_pylist())[len(sample.drop_null()) * percent // 100]
            found.append(Query(f"{percent} % by x", f"x < {bound!r}", pc.field("x") < bound))
    return found


class Measured(NamedTuple):
    """Best seconds of this package, and ratios to the reference (of medians) and Parquet."""

    seconds: float
    to_reference: float
    to_parquet: float


def readers(path: str, folder: Path, query: Query) -> dict[str, Callable[[], Any]]:
    ours, theirs = lance_spark.open(path), lance.dataset(path)
    arguments: dict[str, Any] = {} if query.sql is None else {"columns": ["x"], "filter": query.sql}

    def parquet(name: str) -> Callable[[], Any]:
        file = folder / f"{name}.parquet"
        if query.sql is None:
            return lambda: pq.read_table(file, columns=["x"], use_threads=False)
        dataset = ds.dataset(file)
        return lambda: dataset.to_table(columns=["x"], filter=query.expression, use_threads=False)

    def reference(size: int) -> Callable[[], Any]:
        return lambda: theirs.to_table(**{"columns": ["x"], **arguments}, batch_size=size)

    return {
        "ours": lambda: ours.to_table(**{"columns": ["x"], **arguments}),
        "reference 8192": reference(8192),
        "parquet none": parquet("none"),
        "reference 1048576": reference(1 << 20),
        "parquet snappy": parquet("snappy"),
    }


def measure(values: pa.Array, version: str, folder: Path, title: str, kept: Sequence[int]) -> dict[str, Measured]:
    """Prints a line for each query."""
    rng = np.random.default_rng(1)
    table = pa.table({"x": values} | ({"f": pa.array(rng.integers(0, 100, len(values)))} if kept else {}))
    path = str(folder / "x.lance")
    lance.write_dataset(table, path, data_storage_version=version)
    for compression in ("none", "snappy"):
        pq.write_table(table, folder / f"{compression}.parquet", compression=compression)
    del values
    results = {}
    for query in queries(table, kept):
        runs = readers(path, folder, query)
        assert runs["ours"]().equals(runs["parquet none"]())
        taken = alternating(runs)
        best = {name: min(seconds) for name, seconds in taken.items()}
        median = {name: statistics.median(seconds) for name, seconds in taken.items()}

        def least(times: dict[str, float], word: str) -> float:
            return min(seconds for name, seconds in times.items() if word in name)

        result = Measured(
            best["ours"], least(median, "reference") / median["ours"], least(median, "parquet") / median["ours"]
        )
        print(
            f"{title + ' ' + query.name:44}{best['ours'] * 1e3:9.2f}{median['ours'] * 1e3:9.2f}"
            f"{least(median, 'reference') * 1e3:9.2f}{least(median, 'parquet') * 1e3:9.2f}"
            f"{least(best, 'reference') / best['ours']:8.2f}{result.to_reference:8.2f}{result.to_parquet:8.2f}"
            + ("  view" if query.sql is None and is_view(runs["ours"]()) else "")
        )
        sys.stdout.flush()
        results[query.name] = result
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--only", default="")
    parser.add_argument("--versions", nargs="+", default=["2.2"])
    parser.add_argument("--kept", type=int, nargs="+", default=[])
    parser.add_argument("--core", type=int, default=1)
    options = parser.parse_args()
    os.sched_setaffinity(0, {options.core})
    print(
        f"{'ms of CPU time':44}{'ours':>9}{'median':>9}{'ref.':>9}{'Parquet':>9}{'x ref.':>8}{'median':>8}{'x Pq.':>8}"
    )
    results: dict[str, list[Measured]] = {}
    for version in options.versions:
        for millions in options.millions:
            for name, make in columns(millions * MILLION).items():
                if options.only in name:
                    title = f"{name:17}{version:>4}{millions:>4} M "
                    with tempfile.TemporaryDirectory() as folder:
                        of_column = measure(make(), version, Path(folder), title, options.kept)
                    for query, result in of_column.items():
                        results.setdefault(query, []).append(result)
    for query, of_query in results.items():
        means = [statistics.geometric_mean(ratios) for ratios in [*zip(*of_query, strict=True)][1:]]
        print(f"{'geometric mean ' + query:44}{'':44}{means[0]:8.2f}{means[1]:8.2f}")


if __name__ == "__main__":
    main()
