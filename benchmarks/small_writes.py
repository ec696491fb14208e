"""CPU time of small writes to narrow tables, beside the reference library.

    python -m benchmarks.small_writes [--appends 1000] [--rounds 3]

Appends of 100 rows of three columns, one after the other; DELETE and UPDATE of one row and MERGE of 100 rows (half of
them new) in a table of a million. Times are user and system time, of rounds in turn; the best, for appends the mean.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa

import lance_spark
from benchmarks.columns import alternating, cpu_seconds

MILLION = 1_000_000
_APPENDS_IN_TURN = 50


def rows_of(ids: np.ndarray[Any, Any]) -> pa.Table:
    """A key, a double, and one of 99 texts."""
    rng = np.random.default_rng(len(ids))
    texts = [f"text {number}" for number in rng.integers(0, 99, len(ids)).tolist()]
    return pa.table({"id": ids, "x": rng.random(len(ids)), "s": texts})


def changes(folder: Path) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """(ours, the reference's) by name; each call changes other rows."""
    mine, other = str(folder / "mine.lance"), str(folder / "other.lance")
    for path in (mine, other):
        lance.write_dataset(rows_of(np.arange(MILLION)), path, data_storage_version="2.1")
    ids = count(1000, 1000)

    def source() -> pa.Table:
        first = next(ids)
        return rows_of(np.concatenate([np.arange(first, first + 50), MILLION + np.arange(first, first + 50)]))

    def merge_theirs() -> Any:
        builder = lance.dataset(other).merge_insert("id")
        return builder.when_matched_update_all().when_not_matched_insert_all().execute(source())

    return {
        "DELETE 1 row": (
            lambda: lance_spark.open(mine).delete(f"id = {next(ids)}"),
            lambda: lance.dataset(other).delete(f"id = {next(ids)}"),
        ),
        "UPDATE 1 row": (
            lambda: lance_spark.open(mine).update({"x": "x + 1"}, f"id = {next(ids)}"),
            lambda: lance.dataset(other).update({"x": "x + 1"}, f"id = {next(ids)}"),
        ),
        "MERGE 100 rows": (lambda: lance_spark.open(mine).merge(source(), "id"), merge_theirs),
    }


def append_seconds(folder: Path, appends: int) -> tuple[float, float]:
    """Mean seconds of an append of 100 rows: (ours, the reference's)."""
    mine, other = str(folder / "a.lance"), str(folder / "b.lance")
    rows = rows_of(np.arange(100))
    for path in (mine, other):
        lance.write_dataset(rows, path, data_storage_version="2.1")
    lance_spark.write(rows, mine, mode="append")
    taken = [0.0, 0.0]
    for _ in range(appends // _APPENDS_IN_TURN):
        for _ in range(_APPENDS_IN_TURN):
            taken[0] += cpu_seconds(lambda: lance_spark.write(rows, mine, mode="append"))
        for _ in range(_APPENDS_IN_TURN):
            taken[1] += cpu_seconds(lambda: lance.write_dataset(rows, other, mode="append"))
    return taken[0] / appends, taken[1] / appends


def show(name: str, ours: float, theirs: float) -> None:
    print(f"{name:26}{ours * 1e3:10.2f}{theirs * 1e3:10.2f}{theirs / ours:8.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--appends", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--core", type=int, default=1)
    options = parser.parse_args()
    os.sched_setaffinity(0, {options.core})
    print(f"{'':26}{'ours ms':>10}{'ref. ms':>10}{'x ref.':>8}")
    with tempfile.TemporaryDirectory() as folder:
        show("append 100 rows", *append_seconds(Path(folder), options.appends))
        for name, (ours, theirs) in changes(Path(folder)).items():
            taken = alternating({"ours": ours, "theirs": theirs}, options.rounds)
            show(name, min(taken["ours"]), min(taken["theirs"]))


if __name__ == "__main__":
    main()
