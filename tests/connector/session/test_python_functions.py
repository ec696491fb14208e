"""Python functions over what the connector reads: Spark keeps the rows that it sends to Python."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, pandas_udf, udf


@pytest.mark.slow
@pytest.mark.parametrize("arrow", ["true", "false"])
def test_functions_of_rows(spark: SparkSession, uri: str, arrow: str) -> None:
    spark.range(0, 50_000, numPartitions=2).selectExpr(
        "id", "concat('w', id) AS word", "struct(id AS n) AS s"
    ).write.format("lance").save(uri)
    before = spark.conf.get("spark.sql.execution.pythonUDF.arrow.enabled")
    spark.conf.set("spark.sql.execution.pythonUDF.arrow.enabled", arrow)
    try:
        plus = udf(lambda key, word: f"{key}{word}", "string")
        table = spark.read.format("lance").load(uri)
        found = table.where(plus("id", "word") != "7w7").select("id", "s.n", plus("id", "word").alias("p")).collect()
    finally:
        spark.conf.set("spark.sql.execution.pythonUDF.arrow.enabled", before)
    assert len(found) == 49_999
    assert all(row.p == f"{row.id}w{row.id}" and row.n == row.id for row in found)


def test_functions_of_batches(spark: SparkSession, uri: str) -> None:
    spark.range(0, 50_000, numPartitions=2).write.format("lance").save(uri)
    table = spark.read.format("lance").load(uri)
    double = pandas_udf(lambda numbers: numbers * 2, "bigint")
    assert table.select("id", double(col("id")).alias("d")).where("d <> 2 * id").count() == 0

    def frames(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        yield from parts

    def batches(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from parts

    assert table.mapInPandas(frames, "id bigint").selectExpr("sum(id)").first()[0] == sum(range(50_000))
    assert table.mapInArrow(batches, "id bigint").selectExpr("sum(id)").first()[0] == sum(range(50_000))
