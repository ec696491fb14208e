"""Lance through the connector, Lance through the plug-in alone, and Spark's Parquet, side by side in one Spark.

    python -m benchmarks.spark_compare                          # TPC-H at 0.1, all cases
    python -m benchmarks.spark_compare --scale 1 --plot docs/benchmark.svg --json run.json
    python -m benchmarks.spark_compare --only q1,q6 --rounds 9

Formats take turns within a round, so that noise of the machine hits all of them; the first round warms up and is not
counted. Answers are compared with Parquet's before anything is timed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

from pyspark.sql import SparkSession

import lance_spark
from benchmarks.spark_cases import (
    FORMATS,
    PLUGIN_NAME,
    Case,
    PluginUnderAnotherName,
    Tables,
    cases,
    make_tables,
)
from benchmarks.spark_report import Run, Timing, plot, text


def session(memory: str) -> SparkSession:
    """A local Spark with the connector, and the plug-in under a name of its own."""
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("lance-spark-benchmark")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", memory)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
    )
    spark = lance_spark.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(PluginUnderAnotherName)
    return spark


def run_once(spark: SparkSession, tables: Tables, kind: str, case: Case) -> tuple[float, list[tuple[object, ...]]]:
    """Seconds of one query, planning included, and its rows."""
    tables.use(spark, kind)
    start = time.perf_counter()
    rows = [tuple(row) for row in spark.sql(case.sql).collect()]
    return time.perf_counter() - start, rows


def measure(spark: SparkSession, tables: Tables, case: Case, kinds: tuple[str, ...], rounds: int) -> Timing:
    """Timings of one case.

    Raises:
        SystemExit: a format answers other than Parquet.
    """
    seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
    answers = {kind: run_once(spark, tables, kind, case)[1] for kind in kinds}
    for kind in kinds:
        if not same(answers["parquet"], answers[kind]) and case.name != "first 100":
            raise SystemExit(f"{case.name}: {kind} answers other than Parquet")
    for _ in range(rounds):
        for kind in kinds:
            seconds[kind].append(run_once(spark, tables, kind, case)[0])
    return Timing(case.group, case.name, seconds)


def same(expected: list[tuple[object, ...]], actual: list[tuple[object, ...]]) -> bool:
    """Equal rows in any order; fractions to ten digits, because sums of them depend on the order of rows."""
    return sorted(map(_rounded, expected)) == sorted(map(_rounded, actual))


def _rounded(row: tuple[object, ...]) -> tuple[str, ...]:
    return tuple(f"{value:.10g}" if isinstance(value, float) else str(value) for value in row)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", default="0.1", help="scale factor of TPC-H")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="names of cases, separated by commas")
    parser.add_argument("--no-plugin", action="store_true")
    parser.add_argument("--folder", type=Path, help="where the tables are kept for the next run")
    parser.add_argument("--memory", default="3g", help="memory of Spark's JVM")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    kinds = tuple(kind for kind in FORMATS if not (arguments.no_plugin and kind == PLUGIN_NAME))
    only = set(filter(None, arguments.only.split(",")))
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="lance-spark-benchmark-"))
    spark = session(arguments.memory)
    tables = make_tables(spark, folder / f"scale-{arguments.scale}", arguments.scale)
    before, timings = os.getloadavg()[0], []
    for case in cases():
        if not only or case.name in only or case.group in only:
            timings.append(measure(spark, tables, case, kinds, arguments.rounds))
            print(
                case.name, {kind: round(min(taken), 3) for kind, taken in timings[-1].seconds.items()}, file=sys.stderr
            )
    run = Run(arguments.scale, arguments.rounds, (before, os.getloadavg()[0]), timings)
    spark.stop()
    print(text(run, kinds))
    if arguments.json:
        run.save(arguments.json)
    if arguments.plot:
        plot(run, kinds, arguments.plot)


if __name__ == "__main__":
    main()
