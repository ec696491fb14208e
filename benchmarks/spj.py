"""Joins of tables that are partitioned alike: without a shuffle, with one, and of bucketed Parquet.

Run ``python -m benchmarks.spj [customers ...]``. Each customer has five orders. The orders are in 16
buckets of `customer`, joined with the customers in 8 buckets of the same: all of them, and those of a filter on either
side. Parquet has 16 buckets on both sides, since Spark brings different numbers together by a shuffle. Times are the
best of three runs after one to warm up, in local mode on two cores, broadcasts off; shuffled bytes and tasks are those
that Spark's status store tells of one run.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial

from pyspark.sql import DataFrame, SparkSession

import lance_spark

ENABLED = "spark.sql.sources.v2.bucketing.enabled"
BUCKETS = {"orders": 16, "customers": 8}
ORDERS_PER_CUSTOMER = 5
RUNS = 3
SUMS_BYTES = 10_000
"""More than the sums of all tasks of a stage take."""
FILTERS = {
    "all": "true",
    "one customer": "o.customer = 4711",
    "some orders": "o.price < 100",
    "some customers": "c.name LIKE 'a%'",
}


def session(folder: str) -> SparkSession:
    """Spark with a catalog in `folder`."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.shuffle.partitions", "16")
        .config("spark.sql.autoBroadcastJoinThreshold", "-1")
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
    )
    spark = lance_spark.configure(builder, "lance", root=f"{folder}/lance").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def make_tables(spark: SparkSession, customers: int) -> None:
    """The tables `orders` and `customers`, in both formats."""
    spark.sql("DROP TABLE IF EXISTS orders")
    spark.sql("DROP TABLE IF EXISTS customers")
    tables = {
        "orders": spark.range(customers * ORDERS_PER_CUSTOMER).selectExpr(
            "id", f"(id * 7919) % {customers} AS customer", "(id * 31 % 10007) * 1.5D AS price", "uuid() AS note"
        ),
        "customers": spark.range(customers).selectExpr("id AS customer", "md5(cast(id AS string)) AS name"),
    }
    for name, frame in tables.items():
        rows = frame.cache()
        rows.write.bucketBy(max(BUCKETS.values()), "customer").sortBy("customer").saveAsTable(name)
        rows.createOrReplaceTempView("source")
        spark.sql(f"DROP TABLE IF EXISTS lance.{name}")
        partitioning = f"PARTITIONED BY (bucket({BUCKETS[name]}, customer))"
        spark.sql(f"CREATE TABLE lance.{name} {partitioning} AS SELECT * FROM source")
        rows.unpersist()


def query(spark: SparkSession, prefix: str, condition: str) -> DataFrame:
    """Sums over the join."""
    return spark.sql(
        f"SELECT count(*), sum(o.price), sum(length(c.name)) FROM {prefix}orders o "
        f"JOIN {prefix}customers c ON o.customer = c.customer WHERE {condition}"
    )


def ask(spark: SparkSession, prefix: str, condition: str) -> None:
    """Runs the query."""
    query(spark, prefix, condition).collect()


def timed(run: Callable[[], object]) -> float:
    """Seconds of the best of some runs."""
    run()
    best = float("inf")
    for _ in range(RUNS):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def shuffled(spark: SparkSession, frame: DataFrame) -> tuple[int, int]:
    """The bytes that a run of a query shuffles to join, and its tasks."""
    context = spark.sparkContext
    group = uuid.uuid4().hex
    context.setJobGroup(group, "join")
    frame.collect()
    store = context._jsc.sc().statusStore()
    tracker = context.statusTracker()
    stages = {stage for job in tracker.getJobIdsForGroup(group) for stage in tracker.getJobInfo(job).stageIds}
    # The sums of each task are brought together by a shuffle of their own, some dozen bytes each.
    told = [store.lastStageAttempt(stage) for stage in stages]
    done = [stage for stage in told if stage.status().toString() == "COMPLETE"]
    num_bytes = [stage.shuffleWriteBytes() for stage in done]
    return sum(size for size in num_bytes if size > SUMS_BYTES), sum(stage.numTasks() for stage in done)


def measure(spark: SparkSession, customers: int) -> None:
    """Prints a line a way and filter."""
    make_tables(spark, customers)
    print(f"{customers * ORDERS_PER_CUSTOMER} orders join {customers} customers")
    ways = [
        ("lance, no shuffle", "lance.", "true"),
        ("lance, shuffle", "lance.", "false"),
        ("parquet, bucketed", "", "true"),
    ]
    for name, condition in FILTERS.items():
        answers = set()
        for label, prefix, enabled in ways:
            spark.conf.set(ENABLED, enabled)
            frame = query(spark, prefix, condition)
            num_bytes, tasks = shuffled(spark, frame)
            answers.add(tuple(round(value, 3) for value in frame.collect()[0]))
            # A new query each time: what one has shuffled, its next run would find done.
            seconds = timed(partial(ask, spark, prefix, condition))
            print(f"{name:15} {label:18} {seconds:7.2f} s {num_bytes:12} bytes shuffled {tasks:4} tasks", flush=True)
        assert len(answers) == 1, answers


def main(sizes: Sequence[int]) -> None:
    """Measures one size after the other."""
    with tempfile.TemporaryDirectory() as folder:
        spark = session(folder)
        for customers in sizes:
            measure(spark, customers)
        spark.stop()


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [50_000, 200_000, 800_000])
