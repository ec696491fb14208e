"""Random queries over tables with several fragments, deleted rows and a later column, beside Spark over Parquet."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support.connector.random_queries import SCHEMA, RandomQueries, random_rows

QUERIES = 9
SETTINGS = {
    "spark.sql.adaptive.enabled": ("true", "false"),
    "spark.sql.ansi.enabled": ("true", "false"),
    "spark.sql.lance.inlineBytes": ("0", "1048576"),
    "spark.sql.autoBroadcastJoinThreshold": ("10485760", "10485760", "-1"),
    "spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly": ("true", "false"),
    "spark.sql.session.timeZone": ("UTC", "America/New_York"),
    "spark.sql.parquet.filterPushdown": ("false",),
}
SIZES = {"small": (60, 20), "middle": (900, 300), "large": (150_000, 50_000)}
"""Rows, and rows of a fragment, before some are deleted. Scans of 100,000 rows take filters while a query runs."""


def make(spark: SparkSession, folder: Path, name: str) -> None:
    """The table `lance_<name>`, by the reference library, and its rows as `parquet_<name>`."""
    count, per_fragment = SIZES[name]
    distinct = min(count, 2_000)
    rows = random_rows(random.Random(name), distinct, 40)
    table = pa.Table.from_pylist(rows, SCHEMA)
    table = pa.concat_tables([table] * -(-count // distinct)).slice(0, count).combine_chunks()
    table = table.set_column(0, "id", pa.array(range(count)))
    cut = count // 2
    first = table.slice(0, cut).drop(["late"])
    made = lance.write_dataset(first, f"{folder}/{name}.lance", max_rows_per_file=per_fragment)
    made.add_columns(pa.field("late", pa.int32()))
    made = lance.write_dataset(table.slice(cut), made.uri, mode="append", max_rows_per_file=per_fragment)
    made.delete(f"id % 11 = 4 OR id BETWEEN {per_fragment // 2} AND {per_fragment}")
    late = pa.concat_arrays([pa.nulls(cut, pa.int32()), table.column("late").slice(cut).combine_chunks()])
    ids = [n for n in range(count) if n % 11 != 4 and not per_fragment // 2 <= n <= per_fragment]
    left = table.set_column(table.num_columns - 1, "late", late).take(ids)
    spark.createDataFrame(left).coalesce(1).write.parquet(f"{folder}/{name}.parquet")
    spark.read.format("lance").load(f"{folder}/{name}.lance").createOrReplaceTempView(f"lance_{name}")
    spark.read.parquet(f"{folder}/{name}.parquet").createOrReplaceTempView(f"parquet_{name}")


@pytest.fixture(scope="module")
def views(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("random")
    for name in SIZES:
        make(spark, folder, name)
    before = {name: spark.conf.get(name, None) for name in SETTINGS}
    yield spark
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


def answer(spark: SparkSession, query: str, source: str) -> Counter[str]:
    """The rows; -0.0 and 0.0 are alike, as they are for Spark's groups."""
    text = query.format_map({name: f"{source}_{name}" for name in SIZES})
    return Counter(repr(tuple(row)).replace("-0.0", "0.0") for row in spark.sql(text).collect())


def test_tables_have_the_same_rows(views: SparkSession) -> None:
    query = "SELECT * FROM {middle}"
    assert answer(views, query, "lance") == answer(views, query, "parquet")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["rows", "first_rows", "groups", "joins", "subqueries"])
def test_rows_are_those_of_spark(views: SparkSession, kind: str) -> None:
    draw = random.Random(kind)
    queries = RandomQueries(draw)
    for _ in range(QUERIES):
        settings = {name: draw.choice(values) for name, values in SETTINGS.items()}
        for name, value in settings.items():
            views.conf.set(name, value)
        query: str = getattr(queries, kind)()
        found, expected = answer(views, query, "lance"), answer(views, query, "parquet")
        assert found == expected, f"{query}\n{settings}\nonly here {found - expected}\nmissing {expected - found}"
