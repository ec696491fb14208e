"""CHECK constraints of tables that were made without Spark, by the rows that Spark writes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lance_spark

VIOLATED = "CHECK_CONSTRAINT_VIOLATION|violates the CHECK constraint 'positive'"


def test_every_write_is_checked(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    lance_spark.write(pa.table({"n": [1, 2, 3], "v": pa.array([1, None, 3])}), uri)
    lance_spark.open(uri).add_check("positive", "v > 0")
    table = f"lance.`{uri}`"
    spark.createDataFrame([(9, -9)], "n bigint, v bigint").createOrReplaceTempView("bad")
    for statement in (
        f"INSERT INTO {table} VALUES (9, -9)",
        f"INSERT OVERWRITE {table} SELECT * FROM bad",
        f"UPDATE {table} SET v = v - 1",
        f"MERGE INTO {table} t USING bad s ON t.n = s.n WHEN NOT MATCHED THEN INSERT *",
        f"MERGE INTO {table} t USING bad s ON t.n = 1 WHEN MATCHED THEN UPDATE SET v = s.v",
    ):
        with pytest.raises(PySparkException, match=VIOLATED):
            spark.sql(statement)
    with pytest.raises(PySparkException, match=VIOLATED):
        spark.table("bad").write.format("lance").mode("append").save(uri)
    spark.table("bad").write.parquet(str(tmp_path / "bad"))
    stream = spark.readStream.schema("n bigint, v bigint").parquet(str(tmp_path / "bad")).writeStream
    stream = stream.trigger(availableNow=True).option("checkpointLocation", str(tmp_path / "check"))
    with pytest.raises(PySparkException, match=VIOLATED):
        stream.toTable(table).awaitTermination()
    assert lance_spark.open(uri).to_table().to_pydict() == {"n": [1, 2, 3], "v": [1, None, 3]}
