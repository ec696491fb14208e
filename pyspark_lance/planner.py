"""The connector's worker on the driver: Spark's daemon imports only modules whose name starts with ``pyspark``."""

from lance_spark.spark.connector.channel.worker import main

__all__ = ["main"]
