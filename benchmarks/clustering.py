"""Rows that a filter over two columns leaves to be read, before and after a clustering, and the time of clustering.

    python -m benchmarks.clustering [--rows 1000000]

The table is like TPC-H's lineitem, in the order of its keys; the filter is that of query 6. Beside the clustering
stands a rewrite of the same rows that keeps their order: read all, write all. Times are processor time of one run each.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import lance_spark
from lance_spark.table.reading.index_plan import index_plan

QUERY_6 = (
    "shipdate >= date '1994-01-01' AND shipdate < date '1995-01-01' AND discount >= 0.05 AND discount <= 0.07 "
    "AND quantity < 24"
)
COLUMNS = ["shipdate", "discount", "quantity"]


def lineitem(rows: int) -> pa.Table:
    """Rows in the order of their keys, whose other columns are independent of it."""
    rng = np.random.default_rng(0)
    days = rng.integers(8035, 10560, rows).astype(np.int32)
    return pa.table(
        {
            "orderkey": np.arange(rows) // 4,
            "shipdate": pa.array(days, pa.int32()).cast(pa.date32()),
            "discount": rng.integers(0, 11, rows) / 100,
            "quantity": rng.integers(1, 51, rows),
            "price": rng.random(rows) * 1000,
            "comment": pa.array([f"comment {number % 977}" for number in range(rows)]),
        }
    )


def rows_read(table: Any) -> int:
    """The rows that zone maps leave to be read."""
    matches = index_plan(table.plan(["price"], QUERY_6), table.manifest).matches
    return sum(
        len(matches[message.id].offsets) if message.id in matches else message.physical_rows
        for message in table.fragments.messages
    )


def seconds(step: Callable[[], Any]) -> tuple[float, Any]:
    before = time.process_time()
    made = step()
    return time.process_time() - before, made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    folder = Path(tempfile.mkdtemp())
    try:
        table = lance_spark.write(lineitem(rows), folder / "t", max_rows_per_file=max(rows // 4, 1))
        for column in COLUMNS:
            table = table.create_index(column, "ZONEMAP")
        chosen, unsorted = table.count_rows(QUERY_6), rows_read(table)
        print(f"{rows} rows, {chosen} of query 6; read before: {unsorted}")
        rewrite, _ = seconds(lambda: lance_spark.write(table.scanner().to_reader(), folder / "copy"))
        print(f"read and write: {rewrite:.2f} s")
        for curve in ("hilbert", "zorder", "sort"):
            took, made = seconds(lambda curve=curve: table.newest().optimize.cluster(COLUMNS, curve))
            print(f"{curve}: {took:.2f} s, {took / rewrite:.2f} of a rewrite; rows read: {rows_read(made)}")
            assert made.count_rows(QUERY_6) == chosen
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
