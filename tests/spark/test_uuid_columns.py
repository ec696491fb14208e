"""UUIDs as text with the plug-in, which needs no jar."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

IDS = [str(UUID(int=number << 120 | 7)) for number in (1, 200, 30, 4)]


@pytest.mark.parametrize("pushed", ["false", "true"])
@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (f"u = '{IDS[1]}'", [1]),
        (f"u IN ('{IDS[1]}', '{IDS[3]}', 'x')", [1, 3]),
        (f"u > '{IDS[2]}'", [1]),
        ("u LIKE '1e%'", [2]),
        ("u IS NULL", [4]),
        (f"NOT u = '{IDS[1]}'", [0, 2, 3]),
        ("u LIKE '%7'", [0, 1, 2, 3]),
    ],
)
def test_filters_are_those_of_texts(
    spark: SparkSession, tmp_path: Path, pushed: str, condition: str, expected: list[int]
) -> None:
    values = [UUID(text).bytes for text in IDS] + [None]
    lance.write_dataset(pa.table({"n": range(5), "u": pa.array(values, pa.uuid())}), str(tmp_path / "t"))
    read = spark.read.format("lance").option("uuid_as", "string").option("pushDownFilters", pushed)
    found = read.load(str(tmp_path / "t"))
    assert sorted(row.n for row in found.where(condition).collect()) == expected
