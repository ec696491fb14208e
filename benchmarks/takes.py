"""CPU time of taking random rows, by type and file version, beside the reference library.

    python -m benchmarks.takes [--rows 1000000] [--count 1000] [--versions 2.0 2.1 2.2] [--only WORD]

Tables are written by the reference library. Both have the table open, and have read from it before. Times are user and
system time, the best of several alternating rounds.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa

import lance_spark
from benchmarks.columns import alternating, columns

ROUNDS = 9


def measure(values: pa.Array, count: int, version: str, folder: Path) -> tuple[float, float]:
    """(our seconds, the reference's seconds)."""
    path = str(folder / "x.lance")
    lance.write_dataset(pa.table({"x": values}), path, data_storage_version=version, mode="overwrite")
    indices = np.sort(np.random.default_rng(1).choice(len(values), count, replace=False)).tolist()
    ours, theirs = lance_spark.open(path), lance.dataset(path)
    assert ours.take(indices).equals(theirs.take(indices))
    taken = alternating({"ours": lambda: ours.take(indices), "theirs": lambda: theirs.take(indices)}, ROUNDS)
    return min(taken["ours"]), min(taken["theirs"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--only", default="")
    parser.add_argument("--versions", nargs="+", default=["2.0", "2.1", "2.2"])
    parser.add_argument("--core", type=int, default=1)
    options = parser.parse_args()
    os.sched_setaffinity(0, {options.core})
    print(f"{'':28}{'ours ms':>9}{'ref. ms':>9}{'x ref.':>8}")
    for version in options.versions:
        for name, make in columns(options.rows).items():
            if options.only in name:
                with tempfile.TemporaryDirectory() as folder:
                    ours, theirs = measure(make(), options.count, version, Path(folder))
                print(f"{name:20}{version:>6}  {ours * 1e3:9.2f}{theirs * 1e3:9.2f}{theirs / ours:8.1f}")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
