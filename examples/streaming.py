"""Streams from a Lance table and into others with a local Spark; the connector's jar is needed.

Takes an optional folder for the tables; without it they lie in a temporary one.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lance_spark


def session(folder: Path) -> SparkSession:
    """A local Spark with a catalog `lance`, whose tables lie in `folder`."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("lance-streaming")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
    )
    spark = lance_spark.configure(builder, root=str(folder)).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def run(rows: DataFrame, mode: str, table: str, checkpoint: Path) -> None:
    """Writes what is new in `rows` to `table`, and waits until that is done."""
    writer = rows.writeStream.format("lance").outputMode(mode).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).toTable(table).awaitTermination()


def copy_orders(spark: SparkSession, checkpoints: Path) -> None:
    """Copies a table, then only the rows that were added since."""
    orders = spark.readStream.table("lance.shop.orders")
    run(orders, "append", "lance.shop.copy", checkpoints / "copy")
    spark.sql("INSERT INTO lance.shop.orders VALUES (3, 'Rome', 30)")
    run(orders, "append", "lance.shop.copy", checkpoints / "copy")
    run(orders, "append", "lance.shop.copy", checkpoints / "copy")
    print("The copy has each order once, although the query ran three times:")
    spark.table("lance.shop.copy").orderBy("id").show()


def sum_by_city(spark: SparkSession, checkpoints: Path) -> None:
    """Replaces a table of totals at each epoch."""
    totals = spark.readStream.table("lance.shop.orders").groupBy("city").agg(F.sum("amount").alias("total"))
    run(totals, "complete", "lance.shop.totals", checkpoints / "totals")
    print("Totals by city:")
    spark.table("lance.shop.totals").orderBy("city").show()


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="lance-streaming-"))
    spark = session(folder / "tables")
    spark.sql("CREATE NAMESPACE lance.shop")
    spark.sql("CREATE TABLE lance.shop.orders (id BIGINT, city STRING, amount INT)")
    spark.sql("INSERT INTO lance.shop.orders VALUES (1, 'Oslo', 10), (2, 'Rome', 20)")
    copy_orders(spark, folder / "checkpoints")
    sum_by_city(spark, folder / "checkpoints")
    print("Queries that have written to the copy, and their last epoch:")
    spark.sql("CALL lance.system.streams('shop.copy')").show(truncate=False)
    spark.stop()


if __name__ == "__main__":
    main()
