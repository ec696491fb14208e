"""Terms of AND that an index has answered are not compared again, and filters of one shape are planned once."""

from __future__ import annotations

import datetime
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.table.dataset import Dataset
from lance_spark.table.reading.index_plan import index_plan

DAY = datetime.date(2024, 2, 27)
MOMENT = datetime.datetime(2024, 2, 27, 12)
KINDS = {"key": "BTREE", "word": "BTREE", "kind": "BITMAP", "at": "ZONEMAP"}


def rows_of(numbers: range) -> list[dict[str, Any]]:
    """Rows whose columns have nulls at different places."""
    return [
        {
            "id": number,
            "key": None if number % 11 == 3 else number % 40,
            "word": None if number % 13 == 5 else f"word {number % 30}",
            "kind": None if number % 7 == 6 else f"kind {number % 5}",
            "at": None if number % 9 == 8 else number * 10,
            "day": None if number % 5 == 4 else DAY + datetime.timedelta(days=number % 8),
            "moment": None if number % 6 == 5 else MOMENT + datetime.timedelta(hours=number % 9),
            "real": None if number % 8 == 7 else float("nan") if number % 8 == 6 else number % 10 / 2,
        }
        for number in numbers
    ]


SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("key", pa.int32()),
        ("word", pa.string()),
        ("kind", pa.string()),
        ("at", pa.int64()),
        ("day", pa.date32()),
        ("moment", pa.timestamp("us")),
        ("real", pa.float64()),
    ]
)


def indexed(uri: str, numbers: range, version: str = "2.1", *, stable: bool = False) -> Dataset:
    """A table of three fragments with an index on each of four columns."""
    rows = pa.Table.from_pylist(rows_of(numbers), schema=SCHEMA)
    most = -(-len(numbers) // 3)
    lance_spark.write(rows, uri, max_rows_per_file=most, file_format_version=version, enable_stable_row_ids=stable)
    for column, kind in KINDS.items():
        lance_spark.open(uri).create_scalar_index(column, kind, column)
    return lance_spark.open(uri)


TERMS = {
    "key = {0}": lambda row, number: row["key"] == number % 40,
    "key IN ({0}, 7)": lambda row, number: row["key"] in (number % 40, 7),
    "word = 'word {1}'": lambda row, number: row["word"] == f"word {number % 30}",
    "kind = 'kind {2}'": lambda row, number: row["kind"] == f"kind {number % 5}",
    "at BETWEEN {3} AND {4}": lambda row, number: (
        row["at"] is not None and number % 900 <= row["at"] <= number % 900 + 300
    ),
    "id >= {1}": lambda row, number: row["id"] >= number % 30,
    "day = DATE '2024-02-28'": lambda row, number: row["day"] == DAY + datetime.timedelta(days=1),
    "moment > TIMESTAMP '2024-02-27 15:00:00'": lambda row, number: (
        row["moment"] is not None and row["moment"] > MOMENT + datetime.timedelta(hours=3)
    ),
    # NaN is greater than all numbers.
    "real >= 2.0": lambda row, number: row["real"] is not None and not row["real"] < 2.0,
    "(kind = 'kind {2}' OR key = {0})": lambda row, number: (
        row["kind"] == f"kind {number % 5}" or row["key"] == number % 40
    ),
}


def filled(term: str, number: int) -> str:
    return term.format(number % 40, number % 30, number % 5, number % 900, number % 900 + 300)


@pytest.mark.slow
@pytest.mark.parametrize(("version", "stable"), [("2.0", False), ("2.1", True), ("2.2", False)])
def test_terms_keep_the_rows_that_satisfy_all(tmp_path: Path, version: str, stable: bool) -> None:
    """Of rows that were deleted, changed, or appended since the indexes were built, too."""
    uri = str(tmp_path / "t")
    rows = {row["id"]: row for row in rows_of(range(360))}
    dataset = indexed(uri, range(360), version, stable=stable)
    dataset.delete("id % 10 = 4")
    rows = {id_: row for id_, row in rows.items() if id_ % 10 != 4}
    moved = lance_spark.open(uri).update({"kind": "'kind 1'", "key": "7"}, "id % 17 = 2")
    rows = {id_: row | {"kind": "kind 1", "key": 7} if id_ % 17 == 2 else row for id_, row in rows.items()}
    appended = rows_of(range(360, 400))
    more = pa.Table.from_pylist(appended, schema=SCHEMA)
    lance_spark.write(more, uri, mode="append")
    uncovered = lance_spark.open(uri)
    # Now some indexes cover fragments that others do not.
    for column in ("at", "word"):
        lance_spark.open(uri).create_scalar_index(column, KINDS[column], column)
    every = [*rows.values(), *appended]
    versions = ((moved, list(rows.values())), (uncovered, every), (lance_spark.open(uri), every))
    random = np.random.default_rng(3)
    for dataset, expected in versions:
        for terms in (*itertools.permutations(TERMS, 2), *itertools.combinations(list(TERMS)[:-1], 3)):
            number = int(random.integers(0, 900))
            kept = [row["id"] for row in expected if all(TERMS[term](row, number) for term in terms)]
            condition = " AND ".join(filled(term, number) for term in terms)
            assert sorted(dataset.to_table(["id"], condition)["id"].to_pylist()) == sorted(kept), condition
            assert dataset.count_rows(condition) == len(kept), condition


@pytest.mark.parametrize(
    ("condition", "unanswered"),
    [
        # Both are asked, and the answer is exact.
        ("key = 5 AND kind = 'kind 1'", None),
        ("key = 5 AND real > 0.5 AND kind = 'kind 1'", "real > 0.5"),
        # A range is not asked about few rows.
        ("key = 5 AND kind > 'kind 1'", "kind > 'kind 1'"),
        ("key > 3 AND real > 0.5 AND key < 5", "real > 0.5"),
        ("(key = 3 OR key = 4) AND CAST(word AS INT) = 1", "CAST(word AS INT) = 1"),
        # The zones of a ZONEMAP are a superset.
        ("at = 300 AND real > 0.5", None),
        ("key = 5 OR kind = 'kind 1'", None),
        ("NOT (key <> 5 OR real <> 0.5)", None),
        ("(key = 5 AND real > 0.5) OR (key = 6 AND real > 0.5)", None),
    ],
)
def test_terms_that_are_compared(tmp_path: Path, condition: str, unanswered: str | None) -> None:
    uri = str(tmp_path / "t")
    dataset = indexed(uri, range(3000))
    for version, expected in ((dataset, unanswered), (None, None)):
        if version is None:
            # A fragment that no index covers has to be compared with the whole filter.
            more = pa.Table.from_pylist(rows_of(range(3000, 3010)), schema=SCHEMA)
            lance_spark.write(more, uri, mode="append")
            version = lance_spark.open(uri)
        left = index_plan(version.plan(["id"], condition), version.manifest).unanswered
        assert (None if left is None else str(left)) == expected


def test_statements_compare_answered_terms(tmp_path: Path) -> None:
    """A row that was deleted by mistake is lost, whatever a damaged index says."""
    uri = str(tmp_path / "t")
    dataset = indexed(uri, range(300))
    condition = "key = 5 AND kind = 'kind 0'"
    expected = [row["id"] for row in rows_of(range(300)) if row["key"] == 5 and row["kind"] == "kind 0"]
    assert expected
    assert dataset.delete(condition).count_rows() == 300 - len(expected)


def test_filters_of_one_shape_follow_the_version(tmp_path: Path) -> None:
    """What is known of a shape is known of one version: indexes come and go, and columns change their type."""
    uri = str(tmp_path / "t")
    dataset = indexed(uri, range(300))
    rows = rows_of(range(300))

    def check(dataset: Dataset, index: str | None) -> None:
        for number in (5, 7, 39):
            kept = [row["id"] for row in rows if row["key"] == number]
            assert dataset.to_table(["id"], f"key = {number}")["id"].to_pylist() == kept
            assert ("index: key (" in dataset.explain(f"key = {number}")) is (index is not None)

    check(dataset, "key")
    dataset.drop_index("key")
    check(lance_spark.open(uri), None)
    check(dataset, "key")
    lance_spark.open(uri).alter_columns({"path": "key", "data_type": pa.int64()})
    check(lance_spark.open(uri), None)
    lance_spark.open(uri).create_scalar_index("key", "BTREE", "key")
    check(lance_spark.open(uri), "key")


@pytest.mark.parametrize("has_null", [False, True])
def test_is_not_null_is_named_where_it_leaves_out_rows(tmp_path: Path, has_null: bool) -> None:
    values = pa.array([None if has_null else 0, *range(1, 10)], pa.int64())
    dataset = lance_spark.write(pa.table({"id": values}), tmp_path).create_scalar_index("id", "BTREE", name="by_id")
    condition = "id + 1 = 5 AND id IS NOT NULL"
    assert dataset.to_table(filter=condition)["id"].to_pylist() == [4]
    assert ("index: by_id" in dataset.explain(condition)) == has_null
    assert dataset.count_rows("id IS NOT NULL") == 10 - has_null
