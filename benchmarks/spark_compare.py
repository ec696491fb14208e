"""Lance through the connector, Lance through the plug-in alone, and Spark's Parquet, side by side in one Spark.

    python -m benchmarks.spark_compare                          # TPC-H at 0.1, all cases
    python -m benchmarks.spark_compare --scale 1 --ratios ratios.json --json run.json
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
from dataclasses import dataclass
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
from benchmarks.spark_report import Run, Timing, text


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


@dataclass(frozen=True)
class Answer:
    """Rows of one query, and the seconds it took, planning included."""

    rows: list[tuple[object, ...]]
    seconds: float
    cpu: float


def run_once(spark: SparkSession, tables: Tables, kind: str, case: Case) -> Answer:
    """One query over the tables in one format."""
    tables.use(spark, kind, case)
    cpu, start = cpu_seconds(), time.perf_counter()
    rows = [tuple(row) for row in spark.sql(case.sql).collect()]
    return Answer(rows, time.perf_counter() - start, cpu_seconds() - cpu)


def cpu_seconds() -> float:
    """What this process and all below it have used so far: Spark's JVM and its Python workers."""
    parents, used = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            # Own time, and that of children that have ended.
            used[int(entry.name)] = sum(map(int, fields[11:15]))
    found = {os.getpid()}
    while below := {process for process, parent in parents.items() if parent in found} - found:
        found |= below
    return sum(used.get(process, 0) for process in found) / os.sysconf("SC_CLK_TCK")


def measure(spark: SparkSession, tables: Tables, case: Case, kinds: tuple[str, ...], rounds: int) -> Timing:
    """Timings of one case.

    Raises:
        SystemExit: a format answers other than Parquet.
    """
    first = {kind: run_once(spark, tables, kind, case).rows for kind in kinds}
    for kind in kinds:
        if not same(first["parquet"], first[kind]) and case.name != "first 100":
            raise SystemExit(f"{case.name}: {kind} answers other than Parquet")
    taken: dict[str, list[Answer]] = {kind: [] for kind in kinds}
    for _ in range(rounds):
        for kind in kinds:
            taken[kind].append(run_once(spark, tables, kind, case))
    seconds = {kind: [answer.seconds for answer in answers] for kind, answers in taken.items()}
    return Timing(
        case.group, case.name, seconds, {kind: [answer.cpu for answer in answers] for kind, answers in taken.items()}
    )


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
    parser.add_argument("--ratios", type=Path, help="where the ratios are written that the plots show")
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
    if arguments.ratios:
        run.save_ratios(arguments.ratios)


if __name__ == "__main__":
    main()
