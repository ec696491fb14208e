"""Runs a declarative pipeline over Lance tables with `spark-pipelines`; the connector's jar is needed.

The first run makes the source tables; a run with the same folder adds rows to them, and the pipeline reads only these.
Takes a folder for the tables, without it a temporary one, and further arguments of `spark-pipelines run`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark

import lance_spark
from lance_spark.namespace.directory.namespace import DirectoryNamespace

ROWS: dict[str, list[dict[str, Any]]] = {
    "orders": [
        {"id": 1, "city": "Oslo", "amount": 10},
        {"id": 2, "city": "Rome", "amount": 20},
        {"id": 3, "city": "Rome", "amount": -1},
    ],
    "mails": [{"id": 1, "text": "a mail"}],
    "calls": [{"id": 2, "text": "a call"}],
    "customers": [
        {"id": 1, "name": "An", "operation": "upsert", "changed_at": 1},
        {"id": 2, "name": "Bob", "operation": "upsert", "changed_at": 2},
        {"id": 1, "name": "Ann", "operation": "upsert", "changed_at": 3},
        {"id": 2, "name": None, "operation": "delete", "changed_at": 4},
    ],
}


class Settings:
    """A builder that keeps the settings of `lance_spark.configure`."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def config(self, name: str, value: str) -> Settings:
        self.values[name] = value
        return self


def make_sources(names: DirectoryNamespace) -> None:
    """The tables that the pipeline reads, and the namespace of those that it makes."""
    names.create_namespace(("raw",))
    names.create_namespace(("shop",))
    for name, rows in ROWS.items():
        lance_spark.write(pa.Table.from_pylist(rows), names.declare_table(("raw", name)).uri)


def add_rows(names: DirectoryNamespace) -> None:
    """An order, and a customer with another name."""
    more: dict[str, dict[str, Any]] = {
        "orders": {"id": 4, "city": "Oslo", "amount": 5},
        "customers": {"id": 1, "name": "Anna", "operation": "upsert", "changed_at": 5},
    }
    for name, row in more.items():
        lance_spark.write(pa.Table.from_pylist([row]), names.table_location(("raw", name)).uri, mode="append")


def run_pipeline(folder: Path, tables: Path, arguments: list[str]) -> None:
    """One run. The command starts Spark itself, so the connector's settings are in `spark-defaults.conf`."""
    project, settings = folder / "project", folder / "conf"
    here = Path(__file__).parent
    shutil.copytree(here / "transformations", project / "transformations", dirs_exist_ok=True)
    text = (here / "spark-pipeline.yml").read_text()
    (project / "spark-pipeline.yml").write_text(text.replace("{folder}", str(folder)))
    settings.mkdir(exist_ok=True)
    values = lance_spark.configure(Settings(), root=tables).values
    values |= {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    (settings / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in values.items()))
    spark_home = Path(pyspark.__file__).parent
    command = [str(spark_home / "bin" / "spark-pipelines"), "run", "--remote", "local[2]"]
    subprocess.run(
        [*command, "--spec", str(project / "spark-pipeline.yml"), *arguments],
        env={
            **os.environ,
            "SPARK_HOME": str(spark_home),
            "SPARK_CONF_DIR": str(settings),
            "PYSPARK_PYTHON": sys.executable,
        },
        check=True,
    )


def main() -> None:
    given = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="lance-pipeline-")
    folder = Path(given).resolve()
    tables = folder / "tables"
    names = DirectoryNamespace(tables)
    if names.namespace_exists(("raw",)):
        add_rows(names)
    else:
        make_sources(names)
    run_pipeline(folder, tables, sys.argv[2:])
    for name in ("orders", "totals", "messages", "customers", "customer_history"):
        if names.table_exists(("shop", name)):  # Spark 4.2 makes no history.
            rows = lance_spark.open(names.table_location(("shop", name)).uri).to_table().to_pylist()
            print(name, sorted(rows, key=str))


if __name__ == "__main__":
    main()
