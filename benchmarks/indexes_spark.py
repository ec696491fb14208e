"""Lookups and MERGE through Spark by an indexed key, beside Parquet and beside the same table without the index.

    python -m benchmarks.indexes_spark [--rows 10000000] [--rounds 15]

Wall time in local mode on two cores, planning included; best and median of rounds in which all sides take turns.
The key is in random order. Parquet has its statistics and a Bloom filter of the key; it has no MERGE.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import lance_spark

MERGED_KEYS = 1000
TABLE = "lance.events"
USE_INDEX = "spark.sql.lance.useScalarIndex"
MERGE_KEYS = "spark.sql.lance.mergeKeys.enabled"


def session(folder: Path) -> SparkSession:
    """A local Spark with a catalog in `folder`."""
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
    )
    spark = lance_spark.configure(builder, "lance", root=str(folder / "lance")).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def make_tables(spark: SparkSession, folder: Path, num_rows: int) -> None:
    """The table with an index of `id`, and its rows in Parquet with a Bloom filter of `id`."""
    rng = np.random.default_rng(0)
    ids = rng.permutation(num_rows)
    notes = pa.compute.binary_join_element_wise("note ", pa.array(ids).cast(pa.string()), "")
    rows = pa.table({"id": ids, "amount": rng.random(num_rows), "note": notes})
    spark.sql(f"CREATE TABLE {TABLE} (id BIGINT, amount DOUBLE, note STRING) USING lance")
    lance_spark.write(rows, str(folder / "lance" / "events.lance"), mode="append")
    options = {"parquet.bloom.filter.enabled#id": "true", "parquet.bloom.filter.expected.ndv#id": str(num_rows)}
    spark.table(TABLE).write.options(**options).parquet(str(folder / "events.parquet"))
    spark.sql(f"ALTER TABLE {TABLE} CREATE INDEX by_id USING btree (id)")
    spark.read.parquet(str(folder / "events.parquet")).createOrReplaceTempView("events_parquet")


def timed(call: Callable[[], object]) -> float:
    """Milliseconds of one call."""
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3


def compared(sides: dict[str, Callable[[int], object]], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each side, by turns; the first two rounds warm up and are left out."""
    taken: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(rounds + 2):
        for side, call in sides.items():
            milliseconds = timed(lambda call=call, number=number: call(number))
            if number >= 2:
                taken[side].append(milliseconds)
    return taken


def show(name: str, taken: dict[str, list[float]]) -> None:
    for side, milliseconds in taken.items():
        print(f"{name:24}{side:18}{min(milliseconds):10.1f}{statistics.median(milliseconds):10.1f}")
    sys.stdout.flush()


def lookups(spark: SparkSession, num_rows: int, rounds: int) -> None:
    """One key, and twenty keys; the rows of all sides are compared first."""
    rng = np.random.default_rng(1)
    for count in (1, 20):
        keys = [", ".join(map(str, rng.integers(0, num_rows, count).tolist())) for _ in range(rounds + 2)]

        def found(relation: str, number: int, keys: list[str] = keys) -> list[tuple[object, ...]]:
            rows = spark.sql(f"SELECT id, amount, note FROM {relation} WHERE id IN ({keys[number]})").collect()
            return sorted(map(tuple, rows))

        if found(TABLE, 0) != found("events_parquet", 0):
            raise SystemExit("the two tables answer differently")

        def scanned(number: int, found: Callable[[str, int], object] = found) -> object:
            spark.conf.set(USE_INDEX, "false")
            try:
                return found(TABLE, number)
            finally:
                spark.conf.unset(USE_INDEX)

        sides: dict[str, Callable[[int], object]] = {
            "BTREE": lambda number, found=found: found(TABLE, number),
            "no index": scanned,
            "Parquet": lambda number, found=found: found("events_parquet", number),
        }
        show(f"{count} keys", compared(sides, rounds))


def merges(spark: SparkSession, num_rows: int, rounds: int) -> None:
    """MERGE of some keys that are all there: with the index, without, and reading all rows of the table."""
    rng = np.random.default_rng(2)

    def merge(use_index: bool, use_keys: bool = True) -> None:
        keys = rng.choice(num_rows, MERGED_KEYS, replace=False)
        spark.createDataFrame(pa.table({"id": keys, "amount": rng.random(MERGED_KEYS)})).createOrReplaceTempView("news")
        spark.conf.set(USE_INDEX, str(use_index).lower())
        spark.conf.set(MERGE_KEYS, str(use_keys).lower())
        spark.sql(
            f"MERGE INTO {TABLE} t USING news s ON t.id = s.id WHEN MATCHED THEN UPDATE SET amount = s.amount "
            "WHEN NOT MATCHED THEN INSERT (id, amount) VALUES (s.id, s.amount)"
        )
        spark.conf.unset(USE_INDEX)
        spark.conf.unset(MERGE_KEYS)

    sides: dict[str, Callable[[int], object]] = {
        "BTREE": lambda _: merge(True),
        "no index": lambda _: merge(False),
        "no keys": lambda _: merge(True, use_keys=False),
    }
    taken = compared(sides, rounds)
    if spark.table(TABLE).count() != num_rows:
        raise SystemExit("MERGE has lost or doubled rows")
    show(f"MERGE {MERGED_KEYS} keys", taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spark = session(folder)
        make_tables(spark, folder, options.rows)
        print(f"{'ms':24}{'':18}{'best':>10}{'median':>10}")
        lookups(spark, options.rows, options.rounds)
        merges(spark, options.rows, max(options.rounds // 3, 3))
        spark.stop()


if __name__ == "__main__":
    main()
