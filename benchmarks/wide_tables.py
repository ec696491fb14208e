"""CPU time of a table of 2,000 columns, beside the reference library.

    python -m benchmarks.wide_tables [--columns 2000] [--profile WORD]

The table has 20,000 rows in two fragments. Times are user and system time, the best of several alternating rounds.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

import lance_spark
from benchmarks.columns import alternating
from benchmarks.small_fragments import profile


def rows_of(num_columns: int, num_rows: int) -> pa.Table:
    """A key, then integers, doubles and texts in turn."""
    rng = np.random.default_rng(0)
    kinds = (
        pa.array(rng.integers(0, 10**6, num_rows)),
        pa.array(rng.random(num_rows)),
        pa.array([f"text {number}" for number in rng.integers(0, 99, num_rows).tolist()]),
    )
    columns = {f"c{number}": kinds[number % 3] for number in range(num_columns - 1)}
    return pa.table({"id": np.arange(num_rows), **columns})


def cases(folder: Path, num_columns: int) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """What is measured: (ours, the reference's) by name."""
    mine, other = str(folder / "ours.lance"), str(folder / "theirs.lance")
    table = rows_of(num_columns, 20_000)
    for path in (mine, other):
        lance.write_dataset(table, path, max_rows_per_file=10_000, data_storage_version="2.1")
    more = rows_of(num_columns, 1000)
    ours, theirs = lance_spark.open(mine), lance.dataset(other)
    some = ["id", "c7", f"c{num_columns // 2}"]
    return {
        "open": (lambda: lance_spark.open(mine), lambda: lance.dataset(other)),
        "schema": (lambda: lance_spark.open(mine).schema, lambda: lance.dataset(other).schema),
        "project 3 columns": (lambda: ours.to_table(some), lambda: theirs.to_table(some)),
        "open and project 3": (
            lambda: lance_spark.open(mine).to_table(some),
            lambda: lance.dataset(other).to_table(some),
        ),
        "to_pandas of 1,000 rows": (
            lambda: ours.to_table(limit=1000).to_pandas(),
            lambda: theirs.to_table(limit=1000).to_pandas(),
        ),
        "1,000 rows": (lambda: ours.to_table(limit=1000), lambda: theirs.to_table(limit=1000)),
        "all rows": (ours.to_table, theirs.to_table),
        "to_pandas of all rows": (lambda: ours.to_table().to_pandas(), lambda: theirs.to_table().to_pandas()),
        "append 1,000 rows": (
            lambda: lance_spark.write(more, mine, mode="append"),
            lambda: lance.write_dataset(more, other, mode="append"),
        ),
        "UPDATE 20 rows": (
            lambda: lance_spark.open(mine).update({"c1": "c1 + 1"}, "id >= 50 AND id < 70"),
            lambda: lance.dataset(other).update({"c1": "c1 + 1"}, "id >= 50 AND id < 70"),
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--core", type=int, default=1)
    options = parser.parse_args()
    os.sched_setaffinity(0, {options.core})
    print(f"{'':26}{'ours ms':>10}{'ref. ms':>10}{'x ref.':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name, (ours, theirs) in cases(Path(folder), options.columns).items():
            if options.only not in name:
                continue
            if options.profile:
                ours()
                profile(name, ours)
                continue
            taken = alternating({"ours": ours, "theirs": theirs}, options.rounds)
            best = {side: min(seconds) for side, seconds in taken.items()}
            ratio = best["theirs"] / best["ours"]
            print(f"{name:26}{best['ours'] * 1e3:10.1f}{best['theirs'] * 1e3:10.1f}{ratio:8.2f}")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
