"""CPU time of taking random rows, by type and file version, beside the reference library.

    python -m benchmarks.takes [--rows 1000000] [--counts 10 1000] [--versions 2.0 2.1 2.2] [--only WORD]

Tables are written by the reference library. Both have the table open, and have read from it before. Times are user and
system time, the best of several rounds: of rounds in turn, where each library finds the caches full of what the other
has read, and of rounds of one library after the other.
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

ROUNDS = 30


def measure(path: str, count: int) -> list[float]:
    """Our seconds and the reference's, in turn and then by themselves."""
    ours, theirs = lance_spark.open(path), lance.dataset(path)
    indices = np.sort(np.random.default_rng(1).choice(ours.count_rows(), count, replace=False)).tolist()
    assert ours.take(indices).equals(theirs.take(indices))
    runs = {"ours": lambda: ours.take(indices), "theirs": lambda: theirs.take(indices)}
    in_turn = alternating(runs, ROUNDS)
    by_themselves = [alternating({name: run}, ROUNDS)[name] for name, run in runs.items()]
    return [min(seconds) for seconds in (*in_turn.values(), *by_themselves)]


def shown(ours: float, theirs: float) -> str:
    return f"{ours * 1e3:9.2f}{theirs * 1e3:9.2f}{theirs / ours:8.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--counts", type=int, nargs="+", default=[10, 1000])
    parser.add_argument("--only", default="")
    parser.add_argument("--versions", nargs="+", default=["2.0", "2.1", "2.2"])
    parser.add_argument("--core", type=int, default=1)
    options = parser.parse_args()
    os.sched_setaffinity(0, {options.core})
    print(f"{'':34}{'in turn':>26}{'by themselves':>28}")
    print(f"{'':34}" + f"{'ours ms':>9}{'ref. ms':>9}{'x ref.':>8}  " * 2)
    for version in options.versions:
        for name, make in columns(options.rows).items():
            if options.only not in name:
                continue
            with tempfile.TemporaryDirectory() as folder:
                path = str(Path(folder) / "x.lance")
                lance.write_dataset(pa.table({"x": make()}), path, data_storage_version=version)
                for count in options.counts:
                    mine, theirs, mine_alone, theirs_alone = measure(path, count)
                    print(f"{name:20}{version:>6}{count:>8}", shown(mine, theirs), "", shown(mine_alone, theirs_alone))
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
