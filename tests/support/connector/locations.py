"""Where a catalog keeps a table."""

from __future__ import annotations

from pyspark.sql import SparkSession


def location(spark: SparkSession, table: str) -> str:
    rows = spark.sql(f"DESCRIBE EXTENDED {table}").where("col_name = 'Location'").collect()
    return str(rows[0].data_type)
