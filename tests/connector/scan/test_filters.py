"""Filters that the scan takes, and those that it has to leave to Spark."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.support.connector.plans import plan

TEXTS = ["", "a", "\u00e9", "e\u0301", "\ufffd", "\U0001f600", None]


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("contains(s, CAST(X'C3' AS STRING))", {"\u00e9"}),
        ("startswith(s, CAST(X'F09F' AS STRING))", {"\U0001f600"}),
        ("endswith(s, CAST(X'A9' AS STRING))", {"\u00e9"}),
        ("s = CAST(X'FF' AS STRING)", set()),
        ("s IN ('a', CAST(X'EF' AS STRING), CAST(X'FF' AS STRING))", {"a"}),
        ("s > CAST(X'EFBFBE' AS STRING)", {"\U0001f600"}),
        ("s >= CAST(X'EF' AS STRING)", {"\ufffd", "\U0001f600"}),
    ],
)
def test_constants_that_are_no_utf_8(spark: SparkSession, uri: str, condition: str, kept: set[str]) -> None:
    lance.write_dataset(pa.table({"s": TEXTS}), uri)
    assert {row.s for row in spark.read.format("lance").load(uri).where(condition).collect()} == kept


@pytest.mark.parametrize("condition", ["100 / k > 3", "CAST(s AS INT) > 3", "k <> 5 AND 100 / k > 3"])
def test_an_estimate_does_not_fail_on_deleted_rows(spark: SparkSession, tmp_path: Path, condition: str) -> None:
    """The sample has deleted rows, on which this filter fails."""
    numbers = np.arange(120_000)
    deleted = numbers % 50 == 3
    columns = {
        "id": numbers,
        "k": np.where(deleted, 0, numbers % 90 + 1),
        "s": ["no number" if out else str(n % 9) for n, out in zip(numbers.tolist(), deleted.tolist(), strict=True)],
    }
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table(columns), uri).delete("k = 0")
    read = spark.read.format("lance").option("filter", condition).load(uri)
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "1000")
    try:
        joined = read.alias("a").join(read.alias("b"), "id")
        assert "SortMergeJoin" in plan(joined)
        k, s = columns["k"][~deleted], numbers[~deleted] % 9
        kept = {"100": k < 34, "CAST": s > 3, "k": (k != 5) & (k < 34)}[condition.split("(")[0].split(" ")[0]]
        assert joined.count() == read.count() == kept.sum()
    finally:
        spark.conf.unset("spark.sql.autoBroadcastJoinThreshold")
