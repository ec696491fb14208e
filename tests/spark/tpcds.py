"""TPC-DS: the 24 generated tables and the 99 queries, both from DuckDB's extension, the queries in Spark's dialect."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import duckdb
import duckdb_extension_tpcds
import sqlglot

TABLES = (
    "call_center",
    "catalog_page",
    "catalog_returns",
    "catalog_sales",
    "customer",
    "customer_address",
    "customer_demographics",
    "date_dim",
    "household_demographics",
    "income_band",
    "inventory",
    "item",
    "promotion",
    "reason",
    "ship_mode",
    "store",
    "store_returns",
    "store_sales",
    "time_dim",
    "warehouse",
    "web_page",
    "web_returns",
    "web_sales",
    "web_site",
)


def generate(folder: Path, scale: str = "0.05") -> Path:
    """Writes ``<table>.parquet`` for every table into `folder` and returns it."""
    connection = _connection()
    connection.execute(f"CALL dsdgen(sf = {float(scale)})")
    for table in TABLES:
        connection.execute(f"COPY {table} TO '{folder / table}.parquet' (FORMAT parquet)")
    return folder


@cache
def queries() -> dict[int, str]:
    """The 99 queries by number. sqlglot changes quotes, casts and the places of nulls in ORDER BY, and nothing else."""
    rows = _connection().execute("SELECT query_nr, query FROM tpcds_queries() ORDER BY query_nr").fetchall()
    return {number: sqlglot.transpile(text, read="duckdb", write="spark", pretty=True)[0] for number, text in rows}


def _connection() -> duckdb.DuckDBPyConnection:
    extension = next(Path(duckdb_extension_tpcds.__file__).parent.glob("extensions/*/tpcds.duckdb_extension"))
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{extension}'")
    return connection
