"""What tests of DELETE, UPDATE and MERGE share: small tables, and what both libraries see of them."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import lance
from pyspark.sql import DataFrame, SparkSession

from lance_spark.spark.compat import SPARK
from lance_spark.table.location import TableLocation
from lance_spark.table.writing.save import commit_overwrite

Rows = list[tuple[object, ...]]

ALTERS = int(SPARK < (4, 2))
"""How many versions a MERGE WITH SCHEMA EVOLUTION makes before that with its rows: Spark 4.1 alters the table first."""


def make(frame: DataFrame, uri: str, **options: str) -> str:
    """Writes a table; its name in SQL."""
    frame.write.format("lance").options(**options).save(uri)
    return f"lance.`{uri}`"


def words(spark: SparkSession, rows: int = 10, parts: int = 2) -> DataFrame:
    """id 0.., word "w<id>", part 0, 1, null, ..."""
    return spark.range(0, rows, numPartitions=parts).selectExpr(
        "id", "concat('w', id) AS word", "nullif(id % 3, 2) AS part"
    )


def seen(spark: SparkSession, uri: str, *columns: str) -> Rows:
    """The rows, in order of the first column, as both libraries see them."""
    theirs = [tuple(row.values()) for row in lance.dataset(uri).to_table(columns=list(columns)).to_pylist()]
    frame = spark.read.format("lance").load(uri).select(*columns)
    ours = [tuple(row.asDict(recursive=True).values()) for row in frame.collect()]
    in_order = [sorted(rows, key=lambda row: (row[0] is not None, row)) for rows in (theirs, ours)]
    assert in_order[0] == in_order[1]
    lance.dataset(uri).validate()  # type: ignore[no-untyped-call]
    return in_order[0]


def version(uri: str) -> int:
    """The newest version."""
    return int(lance.dataset(uri).version)


def properties(uri: str) -> dict[str, str]:
    """What the newest transaction remembers."""
    history = TableLocation(uri).history
    transaction = history.transaction(history.load_latest())
    assert transaction is not None
    return dict(transaction.properties)


def file_names(folder: str, pattern: str = "*.lance") -> set[str]:
    """The names of files, whether a version names them or not, but those of transactions; data files by default."""
    found = (path for path in Path(folder).rglob(pattern) if path.is_file())
    return {path.name for path in found if "_transactions" not in path.parts}


def wait_for_files(folder: str, expected: set[str], pattern: str = "*.lance") -> None:
    """Waits until there are just these files: Spark may still be killing tasks of a statement that failed, and the
    driver looks again for the files that they finish.
    """
    end = time.monotonic() + 30
    while file_names(folder, pattern) != expected and time.monotonic() < end:
        time.sleep(0.1)
    assert file_names(folder, pattern) == expected


def forget_sizes(uri: str) -> None:
    """Replaces the rows by the same, in a version that tells no size of a file, as old writers left it: each then
    counts for 16 MiB, so that more than 16 are too many to be read on the driver.
    """
    location = TableLocation(uri)
    base = location.history.load_latest().manifest
    fragments = [
        replace(item, files=tuple(replace(file, size_bytes=None) for file in item.files)) for item in base.fragments
    ]
    commit_overwrite(location, base, fragments, base.schema)
