"""Streams into and out of tables, beside Spark's file sink and source of Parquet.

    python -m benchmarks.streaming [--epochs 300] [--fragments 5000] [--rows 2000000]

Wall time in local mode on two cores, both formats in one run by turns. An epoch's time is `triggerExecution` of the
query's progress: planning, tasks, commit and Spark's own logs. Growth compares the last epochs with the first. The idle
query has nothing new to read for twenty seconds; its CPU is that of Python, the JVM and their children.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

import lance_spark

EPOCH_ROWS = 1000
WINDOW = 100
"""Epochs that the first and the last figures are made of."""
IDLE_SECONDS = 20
FORMATS = ("lance", "parquet")
SCHEMA = "id BIGINT, x DOUBLE, s STRING"


def session(folder: Path) -> SparkSession:
    """Spark with a catalog in `folder`, which keeps the progress of all epochs."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.streaming.numRecentProgressUpdates", "100000")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    )
    spark = lance_spark.configure(builder, "lance", root=str(folder / "lance")).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def numbered(spark: SparkSession, rows: int) -> DataFrame:
    """A stream that has `rows` new rows for each epoch."""
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 2).load()
    return stream.selectExpr("value AS id", "value * 0.5D AS x", "concat('row ', value) AS s")


def writer(frame: DataFrame, folder: Path, name: str) -> DataStreamWriter:
    """A writer of `frame` with a checkpoint of its own."""
    return frame.writeStream.option("checkpointLocation", str(folder / "checkpoints" / name))


def start(frame: DataFrame, folder: Path, kind: str, name: str) -> StreamingQuery:
    """A query that writes `frame` to a new table or a new folder."""
    out = writer(frame, folder, f"{kind}-{name}").format(kind)
    return out.start(str(folder / f"{name}.{kind}"))


def epochs(query: StreamingQuery) -> list[int]:
    """Milliseconds of each epoch that had rows."""
    return [item["durationMs"]["triggerExecution"] for item in query.recentProgress if item["numInputRows"]]


def wait(query: StreamingQuery, count: int) -> list[int]:
    """The times of the first `count` epochs, after which the query is stopped."""
    while len(epochs(query)) < count:
        if query.exception() is not None:
            raise RuntimeError(f"the query failed: {query.exception()}")
        time.sleep(0.2)
    times = epochs(query)[:count]
    query.stop()
    return times


def latency(spark: SparkSession, folder: Path, count: int) -> dict[str, list[int]]:
    """Times of `count` epochs of 1,000 rows by format."""
    result = {}
    for kind in FORMATS:
        wait(start(numbered(spark, EPOCH_ROWS), folder, kind, "warm-up"), 5)
        result[kind] = wait(start(numbered(spark, EPOCH_ROWS), folder, kind, "epochs"), count)
    return result


def throughput(spark: SparkSession, folder: Path, rows: int) -> dict[str, float]:
    """Rows a second that a sink takes in epochs of `rows`, the median of five, the first left out."""
    result = {}
    for kind in FORMATS:
        times = wait(start(numbered(spark, rows), folder, kind, "large"), 6)[1:]
        result[kind] = rows / statistics.median(times) * 1000
    return result


def source_of(spark: SparkSession, folder: Path, kind: str, name: str, **options: int) -> DataFrame:
    """The stream of what is at `name`."""
    reader = spark.readStream.format(kind).options(**options)
    return (reader if kind == "lance" else reader.schema(SCHEMA)).load(str(folder / f"{name}.{kind}"))


def reading(spark: SparkSession, folder: Path) -> dict[str, float]:
    """Rows a second of a query over all that `throughput` wrote, the best of three."""
    best = dict.fromkeys(FORMATS, 0.0)
    for turn in range(3):
        for kind in FORMATS:
            begun = time.perf_counter()
            sink = writer(source_of(spark, folder, kind, "large"), folder, f"{kind}-read-{turn}").format("noop")
            query = sink.trigger(availableNow=True).start()
            query.awaitTermination()
            rows = sum(item["numInputRows"] for item in query.recentProgress)
            best[kind] = max(best[kind], rows / (time.perf_counter() - begun))
    return best


def descendants(pid: int) -> Iterator[int]:
    """`pid` and the processes below it, which must be threads of Linux's /proc."""
    yield pid
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            yield from descendants(int(child))


def cpu() -> float:
    """Seconds that this process and all below it have run."""
    ticks = 0
    for pid in descendants(os.getpid()):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def idle(spark: SparkSession, folder: Path) -> dict[str, float]:
    """Share of a core that a query takes without new rows, by format and for a session without a query."""
    result = {}
    for kind in (None, *FORMATS):
        query = None
        if kind is not None:
            query = writer(source_of(spark, folder, kind, "large"), folder, f"{kind}-idle").format("noop").start()
            query.processAllAvailable()
        time.sleep(5)
        before = cpu()
        time.sleep(IDLE_SECONDS)
        result[kind or "no query"] = (cpu() - before) / IDLE_SECONDS
        if query is not None:
            query.stop()
    return result


def many_files(folder: Path, count: int) -> None:
    """A table of `count` fragments, and as many files of Parquet, of 100 rows each."""
    rows = count * 100
    table = pa.table({"id": np.arange(rows), "x": np.arange(rows) * 0.5, "s": pa.array([""] * rows)})
    lance.write_dataset(table, str(folder / "many.lance"), max_rows_per_file=100, max_rows_per_group=100)
    (folder / "many.parquet").mkdir()
    for number in range(count):
        pq.write_table(table.slice(number * 100, 100), folder / "many.parquet" / f"part-{number:06}.parquet")


def first_batch(spark: SparkSession, folder: Path) -> dict[str, float]:
    """Seconds until a query has read the first hundred files of `many_files`."""
    result = {}
    for kind in FORMATS:
        begun = time.perf_counter()
        stream = source_of(spark, folder, kind, "many", maxFilesPerTrigger=100)
        query = writer(stream, folder, f"{kind}-many").format("noop").start()
        wait(query, 1)
        result[kind] = time.perf_counter() - begun
    return result


def ratio(of: dict[str, float]) -> str:
    """Ours over Parquet's."""
    return f"{of['lance'] / of['parquet']:.2f}"


def show_latency(times: dict[str, list[int]]) -> None:
    """Prints percentiles of the first and of the last epochs."""
    for name, part in (("first", slice(0, WINDOW)), ("last", slice(-WINDOW, None))):
        for share in (50, 99):
            found = {kind: float(np.percentile(times[kind][part], share)) for kind in FORMATS}
            text = "  ".join(f"{kind} {found[kind]:.0f} ms" for kind in FORMATS)
            print(f"epoch of {EPOCH_ROWS} rows, {name} {WINDOW}, p{share}: {text}  ratio {ratio(found)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--fragments", type=int, default=5000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark = session(folder)
        show_latency(latency(spark, folder, arguments.epochs))
        out, back = throughput(spark, folder, arguments.rows), reading(spark, folder)
        for what, rates in (("sink", out), ("source", back)):
            print(f"{what}, million rows a second: " + "  ".join(f"{kind} {rates[kind] / 1e6:.2f}" for kind in FORMATS))
            print(f"  ratio {ratio(rates)}")
        for kind, share in idle(spark, folder).items():
            print(f"idle, {kind}: {share:.1%} of a core")
        many_files(folder, arguments.fragments)
        seconds = first_batch(spark, folder)
        text = "  ".join(f"{kind} {seconds[kind]:.2f} s" for kind in FORMATS)
        print(f"first hundred of {arguments.fragments} files: {text}  ratio {ratio(seconds)}")
        spark.stop()


if __name__ == "__main__":
    main()
