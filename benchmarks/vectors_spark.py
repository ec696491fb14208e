"""Searches for the nearest of many vectors through Spark, beside the smallest query that Spark can answer.

    python -m benchmarks.vectors_spark [--rows 1000000] [--queries 10000] [--rounds 15] [--folder F] [--cores 2]

Wall time in local mode, planning included; best and median of rounds in which all sides take turns. Batches have one
round after one that warms up, and the CPU time of Python's processes, which does not depend on what else the machine
does. With `--folder` the table stays for the next run.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import lance_spark
from benchmarks.indexes_spark import compared, show
from benchmarks.vectors_search import clustered

DIMENSION = 128
TABLE, QUERIES, FEW = "lance.vectors", "lance.queries", "lance.few_queries"
COMPARED_INLINE = "spark.sql.lance.vectorSearch.inlineBytes"
APPROXIMATE = "spark.sql.lance.vectorSearch.approximate"
JOINED = 500
"""Queries of the APPROX NEAREST join."""


def session(folder: Path, cores: int) -> SparkSession:
    """A local Spark with a catalog in `folder`."""
    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.ui.showConsoleProgress", "false")
    )
    spark = lance_spark.configure(builder, "lance", root=str(folder)).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def make_tables(folder: Path, num_rows: int, num_queries: int) -> None:
    """A table in 8 fragments with an IVF_PQ index, and tables of queries."""
    if (folder / "queries.lance").exists():
        return
    partitions = max(num_rows // 1000, 1)
    rows = table("id", "v", clustered(num_rows, DIMENSION))
    written = lance_spark.write(rows, str(folder / "vectors.lance"), max_rows_per_file=max(num_rows // 8, 1))
    written.create_index("v", "IVF_PQ", num_partitions=partitions, num_sub_vectors=16)
    queries = clustered(num_queries, DIMENSION, seed=3)
    lance_spark.write(table("q", "w", queries[:JOINED]), str(folder / "few_queries.lance"))
    lance_spark.write(table("q", "w", queries), str(folder / "queries.lance"))


def table(number: str, vector: str, values: npt.NDArray[np.float32]) -> pa.Table:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), DIMENSION)
    return pa.table({number: np.arange(len(values)), vector: vectors})


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """The session with another setting."""
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name)


def searches(spark: SparkSession, rounds: int) -> None:
    """Top 10 of one query, by the index and without, and what Spark takes for queries of its own."""
    queries = clustered(rounds + 2, DIMENSION, seed=2)

    def nearest(number: int, **arguments: object) -> DataFrame:
        return lance_spark.search(spark, TABLE, queries[number], k=10, **arguments).select("id", "_distance")

    def in_tasks(number: int) -> None:
        with setting(spark, COMPARED_INLINE, "0"):
            nearest(number, bypass_vector_index=True).collect()

    sides: dict[str, Callable[[int], object]] = {
        "IVF_PQ": lambda number: nearest(number).collect(),
        "IVF_PQ, planned": lambda number: nearest(number)._jdf.queryExecution().executedPlan(),
        "flat in tasks": in_tasks,
        "VALUES of Spark": lambda number: spark.sql(f"SELECT * FROM VALUES ({number}, 1.0) AS t(a, b)").collect(),
        "job of Spark": lambda number: spark.sql(f"SELECT id + {number} FROM range(0, 1, 1, 1)").collect(),
    }
    show("top 10", compared(sides, rounds))


def python_seconds() -> float:
    """CPU time that Spark's Python workers have taken so far."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            command, fields = (stat.parent / "cmdline").read_text(), stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # It has ended.
        if "pyspark" in command and "daemon" in command:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def batches(spark: SparkSession, name: str, statement: str, num_queries: int) -> None:
    """Prints the time of many queries, the first and the second time."""
    for turn in ("first", "again"):
        before, start = python_seconds(), time.perf_counter()
        (row,) = spark.sql(statement).collect()
        wall, cpu = time.perf_counter() - start, python_seconds() - before
        if row[0] != 10 * num_queries:
            raise SystemExit(f"{name}: {row[0]} rows for {num_queries} queries")
        print(f"{name:42}{turn:8}{wall:8.2f} s wall{cpu:8.2f} s CPU of Python", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or Path(name)
        make_tables(folder, options.rows, options.queries)
        spark = session(folder, options.cores)
        print(f"{'ms':24}{'':18}{'best':>10}{'median':>10}")
        searches(spark, options.rounds)
        found = (
            f"SELECT count(*), sum(id) FROM vector_search_batch(table => '{TABLE}', queries => '{QUERIES}', k => 10)"
        )
        batches(spark, f"{options.queries} queries, {options.cores} cores", found, options.queries)
        with setting(spark, APPROXIMATE, "true"):
            joined = (
                f"SELECT count(*), sum(id) FROM {FEW} JOIN {TABLE} APPROX NEAREST 10 BY DISTANCE lance_distance(w, v)"
            )
            count = min(JOINED, options.queries)
            batches(spark, f"APPROX NEAREST of {count} queries, {options.cores} cores", joined, count)
        spark.stop()


if __name__ == "__main__":
    main()
