"""Rows that an index leads to are copied with the columns of the filter, and are those of a scan."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.table.dataset import Dataset
from lance_spark.table.reading.decoding.single_rows import SingleRowColumns
from tests.table.reading.counted_rows import counted_rows

ROWS = 4000

CONDITIONS = (
    "id IN (7, 8, 3999, 2000)",
    "id < 900",
    "id = 5 OR id = 3100",
    "id < 300 AND st.b = 'word4'",
    "id < 300 AND st.a > 100 AND s IS NOT NULL",
    "id < 300 AND array_contains(l, 3)",
    "id < 300 AND contains(s, '1')",
    "id < 300 AND (d = 'x1' OR v IS NULL)",
    "id < 300 AND flag",
)
COLUMNS = (None, ["st.a"], ["st.b", "id"], ["st"], ["s", "l"], ["flag", "v"], ["d"], [])


def rows(start: int, *, structs_can_be_null: bool = True) -> pa.Table:
    numbers = range(start, start + ROWS // 2)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "s": [None if number % 7 == 0 else f"text {number}" for number in numbers],
            "st": [
                None if number % 11 == 0 and structs_can_be_null else {"a": number, "b": f"word{number % 5}"}
                for number in numbers
            ],
            "l": [None if number % 13 == 0 else list(range(number % 5)) for number in numbers],
            "v": pa.array([None if number % 3 else [number, 1.5] for number in numbers], pa.list_(pa.float32(), 2)),
            "d": pa.array([f"x{number % 4}" for number in numbers]).dictionary_encode(),
            "flag": [None if number % 17 == 0 else number % 2 == 0 for number in numbers],
        }
    )


@pytest.fixture(params=["2.0", "2.1", "2.2"])
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> Dataset:
    uri, can_be_null = str(tmp_path / "t"), request.param != "2.0"
    lance_spark.write(rows(0, structs_can_be_null=can_be_null), uri, file_format_version=request.param)
    lance_spark.write(rows(ROWS // 2, structs_can_be_null=can_be_null), uri, mode="append")
    made = lance_spark.open(uri).create_scalar_index("id", "btree")
    return made.delete("id % 10 = 8")


@pytest.mark.parametrize("columns", COLUMNS, ids=str)
def test_rows_are_those_of_a_scan(dataset: Dataset, columns: Any) -> None:
    for condition in CONDITIONS:
        found = dataset.to_table(columns, condition)
        found.validate(full=True)
        assert found.equals(dataset.to_table(columns, condition, use_scalar_index=False)), condition


def test_columns_of_the_filter_are_picked_before_those_that_are_returned(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    picked: list[int] = []
    plain = SingleRowColumns.columns

    def columns(self: SingleRowColumns, wanted: Any) -> Any:
        arrays = plain(self, wanted)
        picked.append(-1 if arrays is None else len(arrays))
        return arrays

    monkeypatch.setattr(SingleRowColumns, "columns", columns)
    assert dataset.to_table(["st.a"], "id < 20 AND st.b = 'word4'").to_pylist() == [
        {"st.a": number} for number in (4, 9, 14, 19)
    ]
    picked.clear()
    rows = dataset.to_table(["flag", "id"], "id IN (1, 2, 3) AND flag")
    assert rows.to_pylist() == [{"flag": True, "id": 2}]
    assert picked == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_rows_of_zones_are_compared_before_others_are_copied(
    tmp_path: Path, version: str, nulls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = range(40_000)
    table = pa.table(
        {
            "n": pa.array([None if nulls and number % 9 == 4 else 3 * number for number in numbers], pa.int64()),
            "t": [None if nulls and number % 9 == 5 else f"text {number % 30_000}" for number in numbers],
            "i": pa.array([number // 5 for number in numbers], pa.int16()),
            "d": pa.array(numbers, pa.date32()),
            "id": numbers,
        }
    )
    uri = str(tmp_path / "t")
    lance_spark.write(table, uri, file_format_version=version, max_rows_per_file=22_000)
    for column in ("n", "i", "d"):
        lance_spark.open(uri).create_scalar_index(column, "ZONEMAP", column)
    dataset = lance_spark.open(uri).create_scalar_index("t", "BLOOMFILTER", "t").delete("id % 10 = 3")
    picked = counted_rows(monkeypatch, (SingleRowColumns, "columns"))
    for condition, kept in (
        ("n BETWEEN 3000 AND 3100", lambda row: row["n"] is not None and 3000 <= row["n"] <= 3100),
        ("n = 66003", lambda row: row["n"] == 66003),
        ("n > 119000", lambda row: row["n"] is not None and row["n"] > 119_000),
        ("n < 0", lambda row: False),
        ("t = 'text 123'", lambda row: row["t"] == "text 123"),
        ("'text 29999' = t", lambda row: row["t"] == "text 29999"),
        ("t = 'text'", lambda row: False),
        ("i >= 7990", lambda row: row["i"] >= 7990),
        ("i < 100000 AND i > 7990", lambda row: row["i"] > 7990),
        ("d <= DATE '1970-02-01'", lambda row: (row["d"] - date(1970, 1, 1)).days <= 31),
    ):
        wanted = [row for row in table.to_pylist() if row["id"] % 10 != 3 and kept(row)]
        for columns in (["id"], ["t", "n"], None):
            names = columns or table.column_names
            expected = [{name: row[name] for name in names} for row in wanted]
            assert dataset.to_table(columns, condition).to_pylist() == expected, condition
    assert picked


@pytest.mark.parametrize("place", ["file", "memory"])
@pytest.mark.parametrize("condition", ["CAST(s AS INT) = 3 AND a = 5", "a = 5 AND CAST(s AS INT) = 3"])
def test_terms_that_can_fail_see_only_rows_that_comparisons_keep(tmp_path: Path, place: str, condition: str) -> None:
    """With an index as without one, wherever the term is; a NULL is not kept either."""
    uri = str(tmp_path / "t") if place == "file" else f"memory://{tmp_path.name}"
    numbers = [None if number % 3 == 0 else 5 if number % 3 == 1 else 6 for number in range(3000)]
    texts = ["3" if number == 5 else "x" for number in numbers]
    lance_spark.write(pa.table({"id": range(3000), "a": numbers, "s": texts}), uri)
    dataset = lance_spark.open(uri).create_scalar_index("id", "btree")
    for keys, kept in (("id IN (1, 2, 3)", [1]), ("id < 9", [1, 4, 7]), ("id >= 0", [*range(1, 3000, 3)])):
        whole = f"{condition} AND {keys}"
        assert dataset.to_table(["id"], whole)["id"].to_pylist() == kept
        assert dataset.to_table(["id"], whole, limit=2)["id"].to_pylist() == kept[:2]
        assert dataset.count_rows(whole) == len(kept)
        matches = dataset.plan(["id"], whole).matches(dataset.fragments[0], np.arange(3000))
        assert matches.nonzero()[0].tolist() == kept
