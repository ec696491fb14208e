"""The 99 queries of TPC-DS over Lance tables and over Spark's Parquet, side by side in one Spark.

    python -m benchmarks.tpcds                          # scale 0.05, three rounds
    python -m benchmarks.tpcds --only 64,72 --rounds 5
    python -m benchmarks.tpcds --analyze                # Lance's tables with the cost-based optimizer
    python -m benchmarks.tpcds --check --rounds 1       # fails where planning takes too long; for `make soak`

For each query the rows are compared first: as multisets, because ORDER BY leaves ties open, fractions of type double to
ten digits, because sums of them depend on the order of rows, and everything else exactly. Then the formats take turns.
Planning is the time from the text of a query to its physical plan. It is too long if the shortest of all runs takes
more than twice Parquet's shortest and one second.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from benchmarks.spark_cases import Tables
from benchmarks.spark_compare import cpu_seconds, same, session
from benchmarks.spark_report import geometric_mean
from tests.spark import tpcds

FORMATS = ("parquet", "lance")


@dataclass
class Measured:
    """The runs of one query in one format: seconds of all, of these for planning, and of all processors."""

    seconds: list[float] = field(default_factory=list)
    planning: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


@dataclass
class Result:
    """One query.

    Attributes:
        num_rows: of its answer.
        problem: what is wrong with Lance's answer or plan; empty if nothing is.
    """

    number: int
    num_rows: int
    runs: dict[str, Measured]
    problem: str = ""

    def ratio(self, of: str) -> float | None:
        """Lance's median of ``seconds``, ``planning`` or ``cpu`` in Parquet's; less than 1 is faster."""
        mine, parquet = (median(getattr(self.runs[kind], of)) for kind in ("lance", "parquet"))
        return mine / parquet if min(mine, parquet) > 0 else None

    @property
    def plans_too_long(self) -> bool:
        """Whether Lance's shortest planning takes more than twice Parquet's and a second."""
        return min(self.runs["lance"].planning) > 2 * min(self.runs["parquet"].planning) + 1


def make_tables(spark: SparkSession, folder: Path, scale: str) -> Tables:
    """The 24 tables in both formats, written by Spark from the same rows; what is there is kept."""
    tables, generated = Tables(folder), folder / "generated"
    if not (generated / "done").exists():
        generated.mkdir(parents=True, exist_ok=True)
        tpcds.generate(generated, scale)
        (generated / "done").touch()
    for table in tpcds.TABLES:
        tables.make(table, partial(spark.read.parquet, str(generated / f"{table}.parquet")))
    return tables


def session_of(spark: SparkSession, tables: Tables, kind: str) -> SparkSession:
    """A session of its own whose views are the tables in one format."""
    own = spark.newSession()
    for table in tpcds.TABLES:
        own.read.format(kind).load(tables.path(kind, table)).createOrReplaceTempView(table)
    return own


def analyze(spark: SparkSession, tables: Tables) -> None:
    """Computes statistics of Lance's tables, and lets the session order joins by them."""
    for table in tpcds.TABLES:
        spark.sql(f"CALL lance.system.analyze(table => '{tables.path('lance', table)}')")
    spark.conf.set("spark.sql.cbo.enabled", "true")
    spark.conf.set("spark.sql.cbo.joinReorder.enabled", "true")


def run(spark: SparkSession, query: str, into: Measured) -> list[tuple[object, ...]]:
    """The rows of one run, whose times go into `into`."""
    cpu, start = cpu_seconds(), time.perf_counter()
    frame = spark.sql(query)
    frame._jdf.queryExecution().executedPlan()
    planned = time.perf_counter()
    rows = [tuple(row) for row in frame.collect()]
    into.seconds.append(time.perf_counter() - start)
    into.planning.append(planned - start)
    into.cpu.append(cpu_seconds() - cpu)
    return rows


def measure(sessions: dict[str, SparkSession], number: int, rounds: int) -> Result:
    """One query in both formats, after one run of each that is not counted but compared."""
    query = tpcds.queries()[number]
    rows = {kind: run(sessions[kind], query, Measured()) for kind in FORMATS}
    result = Result(number, len(rows["parquet"]), {kind: Measured() for kind in FORMATS})
    for _ in range(rounds):
        for kind in FORMATS:
            run(sessions[kind], query, result.runs[kind])
    if not same(rows["parquet"], rows["lance"]):
        result.problem = "other rows than Parquet"
    elif result.plans_too_long:
        result.problem = "plans too long"
    return result


def report(results: list[Result], scale: str, load: tuple[float, float]) -> str:
    """A line for each query, then geometric means."""
    lines = [f"{'':6}{'rows':>6}{'parquet':>10}{'lance':>10}{'ratio':>8}{'cpu':>8}{'planning ms':>16}{'ratio':>8}"]
    for result in results:
        times = [f"{median(result.runs[kind].seconds) * 1000:.0f}" for kind in FORMATS]
        planning = " / ".join(f"{median(result.runs[kind].planning) * 1000:.0f}" for kind in FORMATS)
        ratios = [_number(result.ratio(of)) for of in ("seconds", "cpu", "planning")]
        lines.append(
            f"{'q' + str(result.number):6}{result.num_rows:>6}{times[0]:>10}{times[1]:>10}{ratios[0]:>8}{ratios[1]:>8}"
            f"{planning:>16}{ratios[2]:>8}  {result.problem}".rstrip()
        )
    means = [_number(geometric_mean(result.ratio(of) for result in results)) for of in ("seconds", "cpu", "planning")]
    lines.append(f"{'mean':6}{'':26}{means[0]:>8}{means[1]:>8}{'':16}{means[2]:>8}")
    totals = [sum(median(result.runs[kind].seconds) for result in results) for kind in FORMATS]
    return "\n".join(
        [
            *lines,
            f"sum of medians: parquet {totals[0]:.1f} s, lance {totals[1]:.1f} s, ratio {totals[1] / totals[0]:.2f}",
            f"scale {scale}, medians of {len(results[0].runs['lance'].seconds)} runs in ms, ratio: Lance's time in "
            f"Parquet's; load {load[0]:.1f} before, {load[1]:.1f} after",
        ]
    )


def _number(ratio: float | None) -> str:
    return "" if ratio is None or math.isnan(ratio) else f"{ratio:.2f}"


def numbers(text: str) -> Iterable[int]:
    """The queries that ``--only`` names; all if it names none."""
    chosen = {int(item) for item in text.split(",") if item}
    return [number for number in tpcds.queries() if not chosen or number in chosen]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", default="0.05", help="scale factor of TPC-DS")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="numbers of queries, separated by commas")
    parser.add_argument("--check", action="store_true", help="fail where planning takes too long")
    parser.add_argument("--analyze", action="store_true", help="plan Lance's queries by statistics of its columns")
    parser.add_argument("--folder", type=Path, help="where the tables are kept for the next run")
    parser.add_argument("--memory", default="3g", help="memory of Spark's JVM")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="lance-spark-tpcds-"))
    spark = session(arguments.memory)
    tables = make_tables(spark, folder / f"scale-{arguments.scale}", arguments.scale)
    sessions = {kind: session_of(spark, tables, kind) for kind in FORMATS}
    if arguments.analyze:
        analyze(sessions["lance"], tables)
    before, results = os.getloadavg()[0], []
    for number in numbers(arguments.only):
        results.append(measure(sessions, number, arguments.rounds))
        print(f"q{number}", _number(results[-1].ratio("seconds")), results[-1].problem, file=sys.stderr, flush=True)
    print(report(results, arguments.scale, (before, os.getloadavg()[0])))
    spark.stop()
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    wrong = [result for result in results if result.problem.startswith("other")]
    if wrong or (arguments.check and any(result.problem for result in results)):
        raise SystemExit("; ".join(f"q{result.number}: {result.problem}" for result in results if result.problem))


if __name__ == "__main__":
    main()
