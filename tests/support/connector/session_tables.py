"""Rows and names in a session catalog with Lance tables."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
from pyspark.sql import SparkSession

from lance_spark.namespace.directory.namespace import DirectoryNamespace


def rows(session: SparkSession, query: str) -> list[tuple[object, ...]]:
    """The sorted rows of a query."""
    return sorted(tuple(row) for row in session.sql(query).collect())


def names(session: SparkSession) -> list[str]:
    """The tables and views of the current database."""
    return sorted(row.tableName for row in session.sql("SHOW TABLES").collect())


def stored(root: Path, name: str, namespace: str = "mixed") -> pa.Table:
    """The rows of a Lance table as the reference library reads them."""
    return lance.dataset(DirectoryNamespace(root).table_location((namespace, name)).uri).to_table()
