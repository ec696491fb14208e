"""Verbs that change rows give the same rows, whether the table has partitions or not."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lance_spark.errors import (
    CommitConflictError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.table.row_level import write_target
from tests.table_verbs.kinds import ROWS, Kind, content, table_of

KEYED = pa.schema([("id", pa.int64()), ("v", pa.int32())])


def without(*ids: int) -> list[tuple[Any, ...]]:
    return [row for row in ROWS if row[0] not in ids]


def test_create_without_rows(kind: Kind) -> None:
    kind.check(kind.create(), [])


def test_append_adds_rows(kind: Kind, dataset: Any) -> None:
    made = kind.append(dataset, (6, "c", 60), (7, None, None))
    kind.check(made, [*ROWS, (6, "c", 60), (7, None, None)])
    assert content(dataset) == ROWS


def test_overwrite_replaces_rows(kind: Kind, dataset: Any) -> None:
    kind.check(kind.overwrite(dataset, (6, "c", 60), (1, "a", 0)), [(6, "c", 60), (1, "a", 0)])
    assert content(dataset) == ROWS


def test_overwrite_without_rows(kind: Kind, dataset: Any) -> None:
    kind.check(kind.overwrite(dataset), [])


@pytest.mark.parametrize(
    ("filter", "deleted"),
    [
        ("id = 3", [3]),
        ("id >= 2 AND id <= 4", [2, 3, 4]),
        ("p = 'a'", [1, 2]),
        ("p = 'a' AND v = 10", [1]),
        ("p IS NULL", [5]),
        ("p <> 'a'", [3, 4]),
        ("v > 0", [1, 3, 4, 5]),
        ("v IS NULL", [2]),
        ("NOT (v = 30)", [1, 4, 5]),
        ("p = 'a' OR v = 50", [1, 2, 5]),
        ("true", [1, 2, 3, 4, 5]),
    ],
)
def test_delete_by_filter(kind: Kind, dataset: Any, filter: str, deleted: list[int]) -> None:
    made = dataset.delete(filter)
    assert made.version == dataset.version + 1
    kind.check(made, without(*deleted))
    assert content(dataset) == ROWS


@pytest.mark.parametrize("filter", ["id = 99", "p = 'z'", "false", "v = NULL"])
def test_delete_without_match_makes_no_version(kind: Kind, dataset: Any, filter: str) -> None:
    made = dataset.delete(filter)
    assert made.version == dataset.version
    kind.check(made, ROWS)


def test_delete_from_empty_table(kind: Kind) -> None:
    empty = kind.create()
    assert empty.delete("id = 1").version == empty.version


def test_delete_all_rows_then_append(kind: Kind, dataset: Any) -> None:
    kind.check(kind.append(dataset.delete("id > 0"), (1, "a", 1)), [(1, "a", 1)])


@pytest.mark.parametrize("filter", [None, 1, b"id = 1"])
def test_delete_wrong_filter_type(dataset: Any, filter: Any) -> None:
    with pytest.raises(InvalidInputError, match="filter"):
        dataset.delete(filter)


def test_delete_unknown_column(kind: Kind, dataset: Any) -> None:
    with pytest.raises(NotFoundError, match="missing"):
        dataset.delete("missing = 1")
    kind.check(dataset, ROWS)


def test_delete_after_append_of_other_writer(kind: Kind, dataset: Any) -> None:
    kind.append(dataset, (6, "a", 60))
    kind.check(dataset.delete("id = 1"), [*without(1), (6, "a", 60)])


def test_delete_other_rows_than_other_writer(kind: Kind, dataset: Any) -> None:
    dataset.delete("id = 1")
    kind.check(dataset.delete("id = 2"), without(1, 2))


def test_delete_same_rows_as_other_writer(kind: Kind, dataset: Any) -> None:
    dataset.delete("id = 1 OR id = 3")
    kind.check(dataset.delete("id = 1 OR id = 4"), without(1, 3, 4))


def test_delete_of_rows_that_other_writer_updated(kind: Kind, dataset: Any) -> None:
    dataset.update({"v": "100"}, "id = 1")
    kind.check(dataset.delete("v < 35"), [*without(1, 3), (1, "a", 100)])


def test_update_by_filter(kind: Kind, dataset: Any) -> None:
    made = dataset.update({"v": "v + 1"}, "p = 'b'")
    kind.check(made, [*without(3, 4), (3, "b", 31), (4, "b", 41)])
    assert content(dataset) == ROWS


def test_update_all_rows(kind: Kind, dataset: Any) -> None:
    kind.check(dataset.update({"v": 7}), [(row[0], row[1], 7) for row in ROWS])


def test_update_of_null_stays_null(kind: Kind, dataset: Any) -> None:
    kind.check(dataset.update({"v": "v * 2"}, "p = 'a'"), [*without(1), (1, "a", 20)])


def test_update_to_null(kind: Kind, dataset: Any) -> None:
    kind.check(dataset.update({"v": None}, "id = 3"), [*without(3), (3, "b", None)])


@pytest.mark.parametrize("value", ["'c'", "'a'", None])
def test_update_of_partition_key(kind: Kind, dataset: Any, value: str | None) -> None:
    key = None if value is None else value.strip("'")
    made = dataset.update({"p": value}, "id = 3")
    kind.check(made, [*without(3), (3, key, 30)])
    assert made.count_rows("p IS NULL" if key is None else f"p = {value}") == {None: 2, "a": 3, "c": 1}[key]


def test_update_all_rows_of_a_partition_to_another(kind: Kind, dataset: Any) -> None:
    kind.check(dataset.update({"p": "'b'"}, "p = 'a'"), [*without(1, 2), (1, "b", 10), (2, "b", None)])


@pytest.mark.parametrize("filter", ["id = 99", "p = 'z'", "v = NULL"])
def test_update_without_match_makes_no_version(kind: Kind, dataset: Any, filter: str) -> None:
    made = dataset.update({"v": "0"}, filter)
    assert made.version == dataset.version
    kind.check(made, ROWS)


def test_update_unknown_column(kind: Kind, dataset: Any) -> None:
    with pytest.raises(NotFoundError, match="missing"):
        dataset.update({"missing": "1"})
    kind.check(dataset, ROWS)


@pytest.mark.parametrize("filter", ["true", "id = 99", "p = 'z'"])
def test_update_value_of_wrong_type(kind: Kind, dataset: Any, filter: str) -> None:
    with pytest.raises(InvalidInputError):
        dataset.update({"v": "'text'"}, filter)
    kind.check(dataset, ROWS)


def test_update_wrong_filter_type(dataset: Any) -> None:
    with pytest.raises(InvalidInputError, match="filter"):
        dataset.update({"v": "0"}, 1)


def test_update_of_same_row_as_other_writer_loses_neither(kind: Kind, dataset: Any) -> None:
    dataset.update({"v": "v + 1"}, "id = 3")
    kind.check(dataset.update({"v": "v + 10"}, "id = 3"), [*without(3), (3, "b", 41)])


def test_update_of_row_that_other_writer_moved(kind: Kind, dataset: Any) -> None:
    dataset.update({"p": "'c'"}, "id = 3")
    kind.check(dataset.update({"v": "v + 1"}, "id = 3"), [*without(3), (3, "c", 31)])


def test_update_of_row_that_other_writer_deleted(kind: Kind, dataset: Any) -> None:
    dataset.delete("id = 3")
    kind.check(dataset.update({"v": "0"}, "id = 3 OR id = 4"), [*without(3, 4), (4, "b", 0)])


def test_update_after_other_writer_dropped_a_column(kind: Kind, dataset: Any) -> None:
    dataset.drop_columns(["v"])
    with pytest.raises((CommitConflictError, NotFoundError)):
        dataset.update({"v": "0"}, "id = 3")


def test_merge_updates_and_inserts(kind: Kind, dataset: Any) -> None:
    made = dataset.merge(table_of((1, "a", 11), (6, "c", 60)), "id")
    kind.check(made, [*without(1), (1, "a", 11), (6, "c", 60)])


def test_merge_moves_row_to_other_partition(kind: Kind, dataset: Any) -> None:
    kind.check(dataset.merge(table_of((1, "b", 11)), "id"), [*without(1), (1, "b", 11)])


def test_merge_only_inserts(kind: Kind, dataset: Any) -> None:
    made = dataset.merge(table_of((1, "a", 11), (6, "a", 60)), "id", when_matched=None)
    kind.check(made, [*ROWS, (6, "a", 60)])


def test_merge_only_updates(kind: Kind, dataset: Any) -> None:
    made = dataset.merge(table_of((1, "a", 11), (6, "a", 60)), "id", when_not_matched=None)
    kind.check(made, [*without(1), (1, "a", 11)])


def test_merge_deletes_matched(kind: Kind, dataset: Any) -> None:
    made = dataset.merge(table_of((1, "a", 0), (6, "a", 0)), "id", when_matched="delete", when_not_matched=None)
    kind.check(made, without(1))


def test_merge_deletes_not_matched_by_source(kind: Kind, dataset: Any) -> None:
    made = dataset.merge(table_of((1, "a", 11), (6, "c", 60)), "id", when_not_matched_by_source="delete")
    kind.check(made, [(1, "a", 11), (6, "c", 60)])


def test_merge_with_empty_source_deletes_all(kind: Kind, dataset: Any) -> None:
    kind.check(dataset.merge(table_of(), "id", when_not_matched_by_source="delete"), [])


def test_merge_with_empty_source_makes_no_version(kind: Kind, dataset: Any) -> None:
    made = dataset.merge(table_of(), "id")
    assert made.version == dataset.version
    kind.check(made, ROWS)


def test_merge_iterable_with_schema(kind: Kind, dataset: Any) -> None:
    made = dataset.merge(iter([]), "id", schema=KEYED)
    assert made.version == dataset.version


def test_merge_of_some_columns_keeps_the_others(kind: Kind, dataset: Any) -> None:
    source = pa.table({"id": [1, 6], "v": [11, 60]}, KEYED)
    kind.check(dataset.merge(source, "id"), [*without(1), (1, "a", 11), (6, None, 60)])


def test_merge_null_key_matches_nothing(kind: Kind, dataset: Any) -> None:
    made = kind.append(dataset, (None, "a", 0))
    kind.check(made.merge(table_of((None, "a", 1)), "id"), [*ROWS, (None, "a", 0), (None, "a", 1)])


def test_merge_by_several_keys(kind: Kind, dataset: Any) -> None:
    made = dataset.merge(table_of((1, "a", 11), (1, "b", 12)), ["id", "p"])
    kind.check(made, [*without(1), (1, "a", 11), (1, "b", 12)])


def test_merge_by_partition_key(kind: Kind, dataset: Any) -> None:
    source = pa.table({"p": ["b"], "v": pa.array([0], pa.int32())})
    kind.check(dataset.merge(source, "p"), [*without(3, 4), (3, "b", 0), (4, "b", 0)])


def test_merge_of_two_source_rows_into_one_is_refused(kind: Kind, dataset: Any) -> None:
    with pytest.raises(InvalidInputError, match="several rows of the source"):
        dataset.merge(table_of((1, "a", 1), (1, "a", 2)), "id")
    kind.check(dataset, ROWS)


def test_merge_without_action_is_refused(dataset: Any) -> None:
    with pytest.raises(InvalidInputError, match="does nothing"):
        dataset.merge(table_of((1, "a", 1)), "id", when_matched=None, when_not_matched=None)


def test_merge_unknown_key(dataset: Any) -> None:
    with pytest.raises(NotFoundError, match="missing"):
        dataset.merge(table_of((1, "a", 1)), "missing")


def test_merge_after_other_writer_inserted_the_key(kind: Kind, dataset: Any) -> None:
    kind.append(dataset, (6, "c", 60))
    kind.check(dataset.merge(table_of((6, "c", 61)), "id"), [*ROWS, (6, "c", 61)])


def test_merge_after_other_writer_inserted_the_key_into_other_partition(kind: Kind, dataset: Any) -> None:
    kind.append(dataset, (6, "a", 60))
    kind.check(dataset.merge(table_of((6, "c", 61)), "id"), [*ROWS, (6, "c", 61)])


def test_merge_after_other_writer_deleted_the_row(kind: Kind, dataset: Any) -> None:
    dataset.delete("id = 1")
    kind.check(dataset.merge(table_of((1, "b", 11)), "id"), [*without(1), (1, "b", 11)])


def test_merge_after_other_writer_updated_the_row(kind: Kind, dataset: Any) -> None:
    dataset.update({"v": "v + 1"}, "id = 1")
    source = pa.table({"id": [1], "p": ["c"]}, pa.schema([("id", pa.int64()), ("p", pa.string())]))
    kind.check(dataset.merge(source, "id"), [*without(1), (1, "c", 11)])


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("delete", ("id = 1",)),
        ("update", ({"v": "0"}, "id = 1")),
        ("merge", (table_of((1, "a", 11)), "id")),
    ],
)
def test_verb_keeps_message_and_properties(dataset: Any, verb: str, arguments: tuple[Any, ...]) -> None:
    made = getattr(dataset, verb)(*arguments, commit_message="why", transaction_properties={"job": "7"})
    entry = made.versions(1)[0]
    assert (entry.version, entry.message, entry.properties) == (made.version, "why", {"job": "7"})


def test_a_lost_update_lists_no_files(kind: Kind, dataset: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that fails to list must not hide the conflict, after which the update runs again."""

    def fail(*_arguments: Any, **_options: Any) -> None:
        raise StorageError("no listing")

    monkeypatch.setattr(write_target, "remove_job_files", fail)
    dataset.update({"v": "v + 1"}, where="id = 1")
    made = dataset.update({"v": "v * 2"}, where="id = 1")
    kind.check(made, [(1, "a", 22), *without(1)])


@pytest.mark.parametrize("mode", ["columns", "rows", "auto"])
def test_update_in_each_mode(kind: Kind, dataset: Any, mode: str) -> None:
    made = dataset.update({"v": "v + 1"}, "id > 2", mode=mode)
    expected: list[Any] = [*without(3, 4, 5), (3, "b", 31), (4, "b", 41), (5, None, 51)]
    kind.check(made, expected)
    assert made.version == dataset.version + 1
    kind.check(
        made.update({"v": None}, "id = 4", mode=mode).delete("id = 3"), [*expected[:2], expected[4], (4, "b", None)]
    )


@pytest.mark.parametrize("mode", ["columns", "rows", "auto"])
def test_merge_in_each_mode(kind: Kind, dataset: Any, mode: str) -> None:
    source = table_of((1, "a", 11), (4, "b", None), (9, "z", 90)).drop_columns(["p"])
    made = dataset.merge(source, "id", mode=mode)
    kind.check(made, [*without(1, 4), (1, "a", 11), (4, "b", None), (9, None, 90)])


def test_update_in_place_after_rows_have_moved_to_other_partitions(kind: Kind, dataset: Any) -> None:
    kind.open(dataset).update({"p": "'c'", "v": "1"}, "id = 3")
    made = dataset.update({"v": "v + 1"}, "id >= 3", mode="columns")
    kind.check(made, [*without(3, 4, 5), (3, "c", 2), (4, "b", 41), (5, None, 51)])


def test_update_in_place_of_partition_columns_is_refused(dataset: Any) -> None:
    if isinstance(dataset, PartitionedTable):
        with pytest.raises(UnsupportedFeatureError, match="rows lie in their partitions by values of column 'p'"):
            dataset.update({"p": "'c'"}, mode="columns")
    else:
        assert set(dataset.update({"p": "'c'"}, mode="columns").to_table()["p"].to_pylist()) == {"c"}
