"""Random DELETE, UPDATE and MERGE beside a model in Python; afterwards every version has the rows it had."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support.connector.random_statements import (
    COLUMNS,
    SCHEMA,
    delete,
    in_order,
    merge,
    of_spark,
    rows_of,
    update,
)

STEPS = 5


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, as it was afterwards."""
    before = spark.conf.get("spark.sql.lance.inlineBytes", "0")
    yield spark
    spark.conf.set("spark.sql.lance.inlineBytes", before or "0")


@pytest.mark.parametrize("partitioned", ["", "PARTITIONED BY (bucket(3, id), k)"])
@pytest.mark.parametrize("seed", [1])
def test_rows_are_those_of_the_model(
    settings: SparkSession, tmp_path: Path, root: str, partitioned: str, seed: int
) -> None:
    spark, draw = settings, random.Random(seed)
    name = f"random_{seed}{'_parts' if partitioned else ''}"
    table, source = rows_of(draw, range(200)), rows_of(draw, range(150, 250))
    target = f"lance.{name}"
    spark.sql(f"CREATE TABLE {target} ({COLUMNS}) {partitioned}")
    lance.write_dataset(pa.Table.from_pylist(list(source.values()), SCHEMA), f"{tmp_path}/source", max_rows_per_file=30)
    spark.read.format("lance").load(f"{tmp_path}/source").createOrReplaceTempView("source")
    spark.createDataFrame(pa.Table.from_pylist(list(table.values()), SCHEMA)).createOrReplaceTempView("first")
    for part in range(4):
        spark.sql(f"INSERT INTO {target} SELECT * FROM first WHERE id % 4 = {part}")
    seen = []
    for step in range(STEPS):
        # Sources and rows of subqueries come from tasks, and with the plan.
        spark.conf.set("spark.sql.lance.inlineBytes", ["0", "1048576"][step % 2])
        text = draw.choice([delete, update, merge])(draw, table, source)
        spark.sql(text.format(target))
        expected = in_order(list(table.values()))
        assert of_spark(spark, f"SELECT * FROM {target}") == expected, text
        seen.append((spark.table(f"{target}.versions").agg({"version": "max"}).first()[0], expected))
    for version, expected in seen:
        assert of_spark(spark, f"SELECT * FROM {target} VERSION AS OF {version}") == expected
