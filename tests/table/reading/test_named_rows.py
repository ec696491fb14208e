"""Filters that name rows by their addresses: the rows are those of a scan, and only these rows are read."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark

ROWS = 900
FAR = 1 << 40


def written(uri: Path, *, stable_row_ids: bool = False) -> list[dict[str, int]]:
    """Writes three fragments with deleted rows by the reference library; returns the rows with address and row id."""
    rows = pa.table({"id": range(ROWS), "text": [f"text {n}" for n in range(ROWS)]})
    dataset = lance.write_dataset(rows, uri, max_rows_per_file=300, enable_stable_row_ids=stable_row_ids)
    dataset.delete("id % 10 = 3")
    found: list[dict[str, int]] = dataset.to_table(with_row_id=True, with_row_address=True).to_pylist()
    return found


@pytest.mark.parametrize("name", ["_rowaddr", "_rowid"])
@pytest.mark.parametrize("stable_row_ids", [False, True])
def test_rows_are_those_of_a_scan(tmp_path: Path, name: str, stable_row_ids: bool) -> None:
    rows = written(tmp_path / "t", stable_row_ids=stable_row_ids)
    dataset = lance_spark.open(tmp_path / "t")
    rng = np.random.default_rng(5)
    for count in (1, 2, 7, 100, 500):
        named = [rows[number][name] for number in rng.integers(0, len(rows), count)]
        # Deleted rows, and rows, fragments and numbers that do not exist.
        named += [3, 299 + 2, 2**32 + 3, 2**32 + 300, 2**32 + 2**31, FAR, 2**63 - 1, -1, 3]
        for condition, kept in (
            (f"{name} IN ({', '.join(map(str, named))})", lambda row, named=named: row[name] in named),
            (f"{name} = {named[0]}", lambda row, named=named: row[name] == named[0]),
            (f"{named[0]} = {name} AND id >= 0", lambda row, named=named: row[name] == named[0]),
            (
                f"id % 2 = 0 AND {name} IN ({', '.join(map(str, named))})",
                lambda row, named=named: row["id"] % 2 == 0 and row[name] in named,
            ),
            (f"{name} NOT IN ({named[0]}, {FAR})", lambda row, named=named: row[name] != named[0]),
            (f"{name} = {named[0]} OR id = 8", lambda row, named=named: row[name] == named[0] or row["id"] == 8),
            (f"{name} IN (1.0, {named[0]})", lambda row, named=named: row[name] in (1, named[0])),
            (f"{name} IN (NULL, {named[0]})", lambda row, named=named: row[name] == named[0]),
        ):
            expected = [row["id"] for row in rows if kept(row)]  # type: ignore[no-untyped-call]
            assert dataset.to_table(["id"], filter=condition)["id"].to_pylist() == expected, condition
            assert dataset.count_rows(condition) == len(expected)


def test_only_named_rows_are_compared(tmp_path: Path) -> None:
    rows = written(tmp_path / "t")
    dataset = lance_spark.open(tmp_path / "t")
    address = rows[400]["_rowaddr"]
    explained = dataset.explain(filter=f"_rowaddr IN ({address}, {address + 1}, {FAR}) AND text <> 'x'")
    assert "named rows: 2 rows in fragments 0-2" in explained
    assert "scanned without index: none" in explained
    by_id = written(tmp_path / "stable", stable_row_ids=True)[400]["_rowid"]
    explained = lance_spark.open(tmp_path / "stable").explain(filter=f"_rowid = {by_id}")
    assert "named rows: 1 rows in fragments 0-2" in explained
    assert "superset" not in explained


@pytest.mark.slow
def test_rows_keep_their_ids_where_they_move(tmp_path: Path) -> None:
    """Updates and compactions move rows, and leave holes in the ids of fragments, or ids in no order."""
    written(tmp_path / "t", stable_row_ids=True)
    dataset = lance_spark.open(tmp_path / "t")
    rng = np.random.default_rng(7)
    for step in range(6):
        if step % 3 == 2:
            dataset = dataset.compact(target_rows_per_fragment=500)
        else:
            numbers = ", ".join(map(str, rng.integers(0, ROWS, 60)))
            dataset = dataset.update({"text": "concat(text, '!')"}, f"id IN ({numbers})")
            dataset = dataset.delete(f"id % 31 = {step}")
        rows = {row["_rowid"]: row for row in dataset.to_table(with_row_id=True).to_pylist()}
        ids = sorted(rows)
        asked = [*rng.choice(ids, 70).tolist(), ROWS + 5, 2**63 - 1, 0, 1, 2, 3]
        condition = f"_rowid IN ({', '.join(map(str, asked))})"
        assert "named rows" in dataset.explain(condition)
        found = dataset.to_table(filter=condition, with_row_id=True).to_pylist()
        assert {row["_rowid"]: row for row in found} == {id_: rows[id_] for id_ in asked if id_ in rows}
        assert len(found) == len({row["_rowid"] for row in found}) == dataset.count_rows(condition)
        both = dataset.to_table(["id"], filter=f"{condition} AND id > 300")["id"].to_pylist()
        assert sorted(both) == sorted(row["id"] for row in found if row["id"] > 300)
        reference = lance.dataset(str(tmp_path / "t")).to_table(["id"], filter=condition)["id"].to_pylist()
        assert sorted(reference) == sorted(row["id"] for row in found)


def test_statements_and_indexes(tmp_path: Path) -> None:
    rows = written(tmp_path / "t")
    dataset = lance_spark.open(tmp_path / "t").create_scalar_index("id", "BTREE")
    first, second = rows[5], rows[600]
    condition = f"_rowid IN ({first['_rowid']}, {second['_rowid']}) AND id < 300"
    assert dataset.to_table(["id"], filter=condition)["id"].to_pylist() == [first["id"]]
    dataset = dataset.update({"text": "'new'"}, f"_rowaddr = {first['_rowaddr']}")
    assert dataset.to_table(["id"], filter="text = 'new'")["id"].to_pylist() == [first["id"]]
    dataset = dataset.delete(f"_rowid IN ({second['_rowid']}, {FAR})")
    assert dataset.count_rows() == len(rows) - 1
    assert dataset.count_rows(f"id = {second['id']}") == 0
