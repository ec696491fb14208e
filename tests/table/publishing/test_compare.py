"""Differences of two branches, counted as in the rows that the reference library reads of both."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import NotFoundError
from lance_spark.table.dataset import Dataset
from tests.support.table.branches import reference, rows, shown


@pytest.fixture(params=[False, True], ids=["addresses", "stable"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Dataset:
    """Ten rows, a branch `dev` that began there, and three rows more on main, with row ids that dev assigns too."""
    uri = str(tmp_path / "t")
    made = lance_spark.write(rows(range(10)), uri, enable_stable_row_ids=request.param)
    made.create_branch("dev")
    return lance_spark.write(rows(range(100, 103)), uri, mode="append")


def counts(table: Dataset, left: str = "main", right: str = "dev") -> dict[str, int]:
    changes = table.compare_branches(left, right)
    assert [item.change for item in changes] == ["added", "deleted", "updated"]
    return {item.change: item.rows for item in changes}


def expected(table: Dataset, left: str | None = None, right: str | None = "dev") -> dict[str, int]:
    """From the rows of both by `id`; where rows have no ids that stay, an updated one is deleted and added."""
    before, after = shown(table.uri, left), shown(table.uri, right)
    updated = sum(before[key] != after[key] for key in before.keys() & after.keys())
    added, deleted = len(after.keys() - before.keys()), len(before.keys() - after.keys())
    if table.has_stable_row_ids:
        return {"added": added, "deleted": deleted, "updated": updated}
    return {"added": added + updated, "deleted": deleted + updated, "updated": 0}


def test_new_rows_with_the_same_row_ids_and_fragment_ids(table: Dataset) -> None:
    lance_spark.write(rows(range(200, 203)), table.uri, mode="append", branch="dev")
    assert counts(table) == expected(table) == {"added": 3, "deleted": 3, "updated": 0}
    assert counts(table, "dev", "main") == expected(table, "dev", None)
    assert counts(table, "dev", "dev") == counts(table, "main", "main") == {"added": 0, "deleted": 0, "updated": 0}


def test_changed_rows_of_both_libraries(table: Dataset) -> None:
    dev = reference(table.uri, "dev")
    dev.delete("id in (1, 2)")
    dev.update({"v": "5"}, "id < 5")
    table.update({"v": "6"}, "id = 4")
    table.newest().delete("id = 9")
    assert counts(table) == expected(table)
    assert counts(table, "dev", "main") == expected(table, "dev", None)


def test_compacted_rows_are_the_same_with_stable_row_ids(table: Dataset) -> None:
    dev = lance_spark.open(table.uri, branch="dev").delete("id = 3").append(rows(range(300, 304)))
    dev.update({"v": "1"}, "id = 300")
    reference(table.uri, "dev").optimize.compact_files()
    if table.has_stable_row_ids:
        assert counts(table) == expected(table) == {"added": 4, "deleted": 4, "updated": 0}
    else:
        assert counts(table) == {"added": 13, "deleted": 13, "updated": 0}


def test_a_rewritten_column_updates_the_rows_whose_values_differ(table: Dataset) -> None:
    dev = lance_spark.open(table.uri, branch="dev")
    dev.add_columns({"w": "CASE WHEN id < 4 THEN id END"})
    assert counts(table) == {"added": 0, "deleted": 3, "updated": 4}


def test_branches_of_branches(table: Dataset) -> None:
    dev = lance_spark.write(rows([50]), table.uri, mode="append", branch="dev")
    dev.create_branch("dev/b")
    lance_spark.open(table.uri, branch="dev/b").delete("id = 50").append(rows([51, 52]))
    assert counts(table, "dev", "dev/b") == expected(table, "dev", "dev/b") == {"added": 2, "deleted": 1, "updated": 0}
    assert counts(table, "main", "dev/b") == expected(table, None, "dev/b")


def test_an_overwritten_branch_has_other_rows(table: Dataset) -> None:
    lance_spark.write(pa.table({"id": ["a", "b"]}), table.uri, mode="overwrite", branch="dev")
    assert counts(table) == {"added": 2, "deleted": 13, "updated": 0}


def test_no_such_branch(table: Dataset) -> None:
    with pytest.raises(NotFoundError, match="no branch 'other'"):
        table.compare_branches("main", "other")
