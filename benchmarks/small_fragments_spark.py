"""Tables of many small fragments through Spark, beside the scan of our Python reader.

    python -m benchmarks.small_fragments_spark [--fragments 100000] [--keep FOLDER]

The table of `benchmarks.small_fragments`, in a catalog. Statements change ten rows in ten fragments. Seconds of wall
time, and of processor time of the driver, its JVM and all workers, in local mode; the best of the rounds, of which the
first starts the workers. After each statement the planner sees a version for the first time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

from pyspark.sql import SparkSession

import lance_spark
from benchmarks.columns import cpu_seconds
from benchmarks.indexes_spark import session
from benchmarks.small_fragments import ROWS, make_table
from benchmarks.streaming import cpu

TABLE = "lance.t"
CHANGED = 10


def statements(spark: SparkSession, num_fragments: int) -> dict[str, Callable[[int], object]]:
    """What is measured, by name; each round changes other rows."""
    rows, step = num_fragments * ROWS, num_fragments // CHANGED * ROWS
    few = f"id >= {rows // 2} AND id < {rows // 2 + CHANGED}"

    def keys(first: int) -> str:
        return ", ".join(str(number * step + first) for number in range(CHANGED))

    def merge(turn: int) -> object:
        source = f"(SELECT explode(array({keys(40 + turn)})) AS id)"
        action = "WHEN MATCHED THEN UPDATE SET x = -2 WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
        return spark.sql(f"MERGE INTO {TABLE} t USING {source} s ON t.id = s.id {action}")

    return {
        "plan and tasks of a scan": lambda _: spark.table(TABLE)._jdf.queryExecution().toRdd().getNumPartitions(),
        "count(*)": lambda _: spark.sql(f"SELECT count(*) FROM {TABLE}").collect(),
        "scan": lambda _: spark.table(TABLE).write.format("noop").mode("overwrite").save(),
        "filter with limit": lambda _: spark.sql(f"SELECT * FROM {TABLE} WHERE x > 0.5 LIMIT 10").collect(),
        "filter, ten rows": lambda _: spark.sql(f"SELECT * FROM {TABLE} WHERE {few}").collect(),
        "DELETE of ten rows": lambda turn: spark.sql(f"DELETE FROM {TABLE} WHERE id IN ({keys(7 + turn)})"),
        "UPDATE of ten rows": lambda turn: spark.sql(f"UPDATE {TABLE} SET x = -1 WHERE id IN ({keys(20 + turn)})"),
        "MERGE of ten rows": merge,
    }


def show(name: str, taken: list[tuple[float, float]]) -> None:
    print(f"{name:30}" + "".join(f"{min(seconds):10.2f}" for seconds in zip(*taken, strict=True)), flush=True)


def measured(run: Callable[[int], object], turn: int) -> tuple[float, float]:
    """Seconds of wall time and of processor time."""
    begun, before = time.perf_counter(), cpu()
    run(turn)
    return time.perf_counter() - begun, cpu() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fragments", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", help="a folder in which the table is kept for the next run; the statements change it")
    options = parser.parse_args()
    folder = Path(options.keep or tempfile.mkdtemp())
    path = folder / "lance" / "t.lance"
    if not path.exists():
        make_table(str(path), options.fragments, "2.1")
    spark = session(folder)
    print(f"{'':30}{'wall s':>10}{'CPU s':>10}")
    table = lance_spark.open(str(path))
    for name, columns in (("Python: scan of one column", ["id"]), ("Python: scan", None)):
        begun = time.perf_counter()
        seconds = cpu_seconds(lambda columns=columns: table.to_table(columns))
        show(name, [(time.perf_counter() - begun, seconds)])
    for name, run in statements(spark, options.fragments).items():
        if options.only in name:
            show(name, [measured(run, turn) for turn in range(options.rounds)])
    spark.stop()
    if not options.keep:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
