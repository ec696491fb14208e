"""TPC-H at scale factor 0.1: the generated tables and the 22 queries, both from packages that we did not write."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import duckdb_extension_tpch

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")


def generate(folder: Path, scale: str = "0.1") -> Path:
    """Writes ``<table>.parquet`` for every table into `folder` and returns it."""
    command = Path(sys.executable).with_name("tpchgen-cli")
    subprocess.run(
        [str(command), "parquet", "-s", scale, "--output-dir", str(folder)], check=True, stdout=subprocess.DEVNULL
    )
    return folder


def queries() -> dict[int, str]:
    """The 22 queries by number, as DuckDB's TPC-H extension carries them."""
    extension = next(Path(duckdb_extension_tpch.__file__).parent.glob("extensions/*/tpch.duckdb_extension"))
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{extension}'")
    return dict(connection.execute("SELECT query_nr, query FROM tpch_queries() ORDER BY query_nr").fetchall())
