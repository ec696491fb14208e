"""Streaming tables, a materialized view, and a table that follows a stream of changes, all of them Lance tables."""

from __future__ import annotations

from pyspark import __version__
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


@dp.table
def orders() -> DataFrame:
    """The orders that make sense; a run reads those that came since the last one."""
    return spark.readStream.table("lance.raw.orders").where("amount > 0")


@dp.materialized_view
def totals() -> DataFrame:
    return spark.read.table("orders").groupBy("city").agg(F.sum("amount").alias("total"))


dp.create_streaming_table("messages")


@dp.append_flow(target="messages")
def mails() -> DataFrame:
    return spark.readStream.table("lance.raw.mails").select("id", "text")


@dp.append_flow(target="messages")
def calls() -> DataFrame:
    return spark.readStream.table("lance.raw.calls").select("id", "text")


@dp.temporary_view
def customer_changes() -> DataFrame:
    return spark.readStream.table("lance.raw.customers")


dp.create_streaming_table("customers")
dp.create_auto_cdc_flow(
    target="customers",
    source="customer_changes",
    keys=["id"],
    sequence_by="changed_at",
    apply_as_deletes="operation = 'delete'",
    except_column_list=["operation", "changed_at"],
    stored_as_scd_type=1,
)

# Spark 4.2 keeps the newest row of each key only (type 1).
if __version__ >= "4.3":
    dp.create_streaming_table("customer_history")
    dp.create_auto_cdc_flow(
        target="customer_history",
        source="customer_changes",
        keys=["id"],
        sequence_by="changed_at",
        apply_as_deletes="operation = 'delete'",
        except_column_list=["operation"],
        stored_as_scd_type=2,
    )
