"""Which changes of other writers stand against what a statement has read."""

from __future__ import annotations

from collections.abc import Callable

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import RetryableConflictError
from lance_spark.expr.sql.parse import parse
from lance_spark.table.location import TableLocation
from lance_spark.table.row_level.read_conflicts import ReadRows, check_of

Change = Callable[[str], object]


def _append(uri: str) -> object:
    return lance_spark.write(pa.table({"id": [50], "v": [50]}), uri, mode="append")


def _delete(uri: str) -> object:
    return lance_spark.open(uri).delete("id = 8")


def _delete_fragment(uri: str) -> object:
    return lance_spark.open(uri).delete("id >= 5")


def _update(uri: str) -> object:
    return lance_spark.open(uri).update({"v": 80}, "id = 8")


def _compact(uri: str) -> object:
    return lance_spark.open(uri).compact()


def _configure(uri: str) -> object:
    return lance_spark.open(uri).update_config({"key": "value"})


def _reference_merge(uri: str) -> object:
    merge = lance.dataset(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    return merge.execute(pa.table({"id": [8, 50], "v": [80, 50]}))


def _restore(uri: str) -> object:
    dataset = lance.dataset(uri)
    return lance.LanceDataset.commit(uri, lance.LanceOperation.Restore(dataset.version), read_version=dataset.version)


@pytest.fixture
def uri(tmp_path: object) -> str:
    """id and v from 0 to 9, in two fragments, version 2."""
    place = f"{tmp_path}/table"
    lance_spark.write(pa.table({"id": range(5), "v": range(5)}), place)
    lance_spark.write(pa.table({"id": range(5, 10), "v": range(5, 10)}), place, mode="append")
    return place


def _conflicts(uri: str, condition: str | None, *changes: Change) -> bool:
    table = TableLocation(uri)
    base = table.history.load_latest().manifest
    check = check_of(table, [ReadRows(base.version, None if condition is None else parse(condition))], base.schema)
    assert check is not None
    for change in changes:
        change(uri)
    try:
        check(table.history.load_latest().manifest)
    except RetryableConflictError:
        return True
    return False


@pytest.mark.parametrize(
    ("condition", "change", "expected"),
    [
        (None, _append, True),
        ("id = 50", _append, True),
        ("v > 9", _append, True),
        ("id = 51", _append, False),
        (None, _delete, True),
        ("v = 8", _delete, True),
        ("v = 7", _delete, False),
        ("id = 6", _delete_fragment, True),
        ("id = 4", _delete_fragment, False),
        (None, _update, True),
        ("v = 8", _update, True),
        ("v = 80", _update, True),
        ("v = 79", _update, False),
        (None, _compact, False),
        ("id = 1", _compact, False),
        (None, _configure, False),
        ("v = 8", _reference_merge, True),
        ("id = 50", _reference_merge, True),
        ("id < 8", _reference_merge, False),
        (None, _restore, False),
        # A filter that fails on a row that came has to be looked at again by the statement.
        ("100 / (v - 50) > 1000", _append, True),
        # Addresses mean something else in another version, so that the filter chooses all rows.
        ("_rowaddr = 0", _append, True),
        ("_rowaddr = 0 AND id = 51", _append, False),
    ],
)
def test_changes_of_rows_that_were_read_conflict(
    uri: str, condition: str | None, change: Change, expected: bool
) -> None:
    assert _conflicts(uri, condition, change) is expected


def test_rows_are_found_behind_a_compaction(uri: str) -> None:
    assert not _conflicts(uri, "id = 51", _append, _compact, _delete)
    assert _conflicts(uri, "id = 50", _append, _compact)


@pytest.mark.parametrize(("condition", "expected"), [("id = 51", False), ("v = 51", True)])
def test_a_changed_column_conflicts_if_the_filter_names_it(uri: str, condition: str, expected: bool) -> None:
    """Rows that came are looked at by the new columns, where the filter may mean something else."""

    def rename(place: str) -> object:
        return lance_spark.open(place).rename_columns({"v": "w"})

    def append(place: str) -> object:
        return lance_spark.write(pa.table({"id": [50], "w": [50]}), place, mode="append")

    assert _conflicts(uri, condition, rename, append) is expected


def test_versions_that_were_cleaned_up_conflict(uri: str) -> None:
    def clean(place: str) -> object:
        from datetime import timedelta

        return lance_spark.open(place).cleanup(older_than=timedelta(0))

    assert _conflicts(uri, "id = 51", _append, _append, clean)


def test_only_newer_versions_than_the_one_that_was_read_count(uri: str) -> None:
    table = TableLocation(uri)
    _append(uri)
    newer = table.history.load_latest().manifest
    check = check_of(table, [ReadRows(2, parse("id = 51")), ReadRows(newer.version, None)], newer.schema)
    assert check is not None
    check(newer)
    _append(uri)
    with pytest.raises(RetryableConflictError, match="isolation-level"):
        check(table.history.load_latest().manifest)
