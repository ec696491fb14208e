"""CPU time of tables of many small fragments, beside the reference library.

    python -m benchmarks.small_fragments [--fragments 5000 20000] [--profile]

The reference library writes a table of fragments of 100 rows with three columns. Times are user and system time, the
best of several alternating rounds; only ratios within one run mean anything. ``--profile`` prints where the time goes.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import shutil
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

ROWS = 100


def make_table(path: str, num_fragments: int, version: str) -> None:
    """A table of `num_fragments` fragments: an integer key, a double, and a text."""
    rows = num_fragments * ROWS
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "id": np.arange(rows),
            "x": rng.random(rows),
            "s": pa.array(["x" * size for size in rng.integers(0, 30, rows).tolist()]),
        }
    )
    lance.write_dataset(table, path, max_rows_per_file=ROWS, max_rows_per_group=ROWS, data_storage_version=version)


def cases(path: str, num_fragments: int) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """What is measured: (ours, the reference's) by name."""
    ours, theirs = lance_spark.open(path), lance.dataset(path)
    rows = num_fragments * ROWS
    few = f"id >= {rows // 2} AND id < {rows // 2 + 10}"
    return {
        "open": (lambda: lance_spark.open(path), lambda: lance.dataset(path)),
        "count": (ours.count_rows, theirs.count_rows),
        "scan of one column": (lambda: ours.to_table(["id"]), lambda: theirs.to_table(["id"])),
        "scan": (ours.to_table, theirs.to_table),
        "filter, ten rows": (lambda: ours.to_table(filter=few), lambda: theirs.to_table(filter=few)),
        "filter, half of the rows": (
            lambda: ours.to_table(["id"], filter="x > 0.5"),
            lambda: theirs.to_table(["id"], filter="x > 0.5"),
        ),
        "count of a filter": (lambda: ours.count_rows("x > 0.5"), lambda: theirs.count_rows("x > 0.5")),
        "filter with limit": (
            lambda: ours.to_table(filter="x > 0.5", limit=10),
            lambda: theirs.to_table(filter="x > 0.5", limit=10),
        ),
        "take 1,000": (
            lambda: ours.take(list(range(0, rows, rows // 1000))),
            lambda: theirs.take(list(range(0, rows, rows // 1000))),
        ),
    }


def profile(name: str, run: Callable[[], Any]) -> None:
    """Prints the functions that take the most time themselves."""
    profiler = cProfile.Profile()
    profiler.enable()
    run()
    profiler.disable()
    print(f"\n{name}")
    pstats.Stats(profiler).sort_stats("tottime").print_stats(40)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fragments", type=int, nargs="+", default=[5000, 20000])
    parser.add_argument("--versions", nargs="+", default=["2.1"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--core", type=int, default=1)
    parser.add_argument("--keep", help="a folder in which tables are kept for the next run")
    options = parser.parse_args()
    os.sched_setaffinity(0, {options.core})
    folder = Path(options.keep or tempfile.mkdtemp())
    print(f"{'':42}{'ours ms':>10}{'ref. ms':>10}{'x ref.':>8}")
    for version in options.versions:
        for num_fragments in options.fragments:
            path = str(folder / f"{version}_{num_fragments}.lance")
            if not os.path.exists(path):
                make_table(path, num_fragments, version)
            for name, (ours, theirs) in cases(path, num_fragments).items():
                if options.only not in name:
                    continue
                if options.profile:
                    ours()
                    profile(name, ours)
                    continue
                taken = alternating({"ours": ours, "theirs": theirs}, options.rounds)
                best = {side: min(seconds) for side, seconds in taken.items()}
                print(
                    f"{name:26}{version:>5}{num_fragments:>8}   {best['ours'] * 1e3:10.1f}{best['theirs'] * 1e3:10.1f}"
                    f"{best['theirs'] / best['ours']:8.2f}"
                )
                sys.stdout.flush()
    if not options.keep:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
