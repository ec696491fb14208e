"""Joins of tables that are partitioned alike: without a shuffle, with one, and of bucketed Parquet.

Run ``python -m benchmarks.spj [rows]``. All tables have the same rows in 16 buckets of `id`; times are the best of
three runs after one to warm up, in local mode on two cores, broadcasts off.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

import lance_spark

ENABLED = "spark.sql.sources.v2.bucketing.enabled"
BUCKETS = 16
RUNS = 3


def session(folder: str) -> SparkSession:
    """Spark with a catalog in `folder`."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.shuffle.partitions", str(BUCKETS))
        .config("spark.sql.autoBroadcastJoinThreshold", "-1")
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
    )
    spark = lance_spark.configure(builder, "lance", root=f"{folder}/lance").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def make_tables(spark: SparkSession, rows: int) -> None:
    """The tables `orders` (`rows` rows) and `payments` (half as many), in both formats."""
    tables = {
        "orders": spark.range(rows).selectExpr("(id * 7919) % 1000003 AS id", "id * 1.5D AS price", "uuid() AS note"),
        "payments": spark.range(rows // 2).selectExpr("(id * 104729) % 1000003 AS id", "id * 0.5D AS paid"),
    }
    for name, frame in tables.items():
        rows_once = frame.cache()
        rows_once.write.bucketBy(BUCKETS, "id").sortBy("id").saveAsTable(name)
        rows_once.createOrReplaceTempView("source")
        spark.sql(f"CREATE TABLE lance.{name} PARTITIONED BY (bucket({BUCKETS}, id)) AS SELECT * FROM source")
        rows_once.unpersist()


def query(spark: SparkSession, prefix: str) -> DataFrame:
    """Sums over the join."""
    return spark.sql(
        f"SELECT count(*), sum(o.price), sum(p.paid) FROM {prefix}orders o JOIN {prefix}payments p ON o.id = p.id"
    )


def timed(run: Callable[[], object]) -> float:
    """Seconds of the best of some runs."""
    run()
    best = float("inf")
    for _ in range(RUNS):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def main(rows: int) -> None:
    """Prints a line a way."""
    with tempfile.TemporaryDirectory() as folder:
        spark = session(folder)
        make_tables(spark, rows)
        print(f"{rows} rows join {rows // 2} rows")
        ways = [("lance, no shuffle", "lance.", "true"), ("lance, shuffle", "lance.", "false")]
        answers = set()
        for label, prefix, enabled in [*ways, ("parquet, bucketed", "", "true")]:
            spark.conf.set(ENABLED, enabled)
            frame = query(spark, prefix)
            text = frame._jdf.queryExecution().executedPlan().toString()
            shuffles = text.count("Exchange hashpartitioning")
            answers.add(tuple(round(value, 3) for value in frame.collect()[0]))
            seconds = timed(lambda prefix=prefix: query(spark, prefix).collect())  # type: ignore[misc]
            print(f"{label:20} {seconds:7.2f} s   {shuffles} shuffles")
        assert len(answers) == 1, answers
        spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000)
