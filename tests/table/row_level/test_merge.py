"""Merging by key, against the reference library, a dictionary of rows, and other writers."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import (
    CommitStateUnknownError,
    IncompatibleConflictError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_spark.storage.faults import Fault, Harm
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.operations.delete import Delete
from lance_spark.table.operations.update import Update
from lance_spark.table.reading.reader import ScanReader
from lance_spark.table.reading.selection import FragmentRows
from lance_spark.table.row_level.merge import MergeActions
from lance_spark.table.writing.row_source import RowSource
from tests.support.harmed_tables import PUT, QUIET, assert_nothing_left_over, files, with_faults
from tests.support.keyed_rows import read_by_both, rows
from tests.support.row_verbs import merge_rows
from tests.support.threads import all_at_once

UPSERT = MergeActions.of("update", "insert", None)


def content(uri: str) -> list[tuple[int | None, str]]:
    return sorted(((row["a"], row["b"]) for row in read_by_both(uri, ["a", "b"])), key=str)


def named(**values: str) -> list[tuple[int | None, str]]:
    return sorted(((int(key[1:]), value) for key, value in values.items()), key=str)


def merge(location: TableLocation, source: pa.Table, actions: MergeActions = UPSERT) -> int:
    base = location.latest()
    assert base is not None
    return merge_rows(location, base, RowSource.of(source), "a", actions, QUIET).version


def operation(dataset: Dataset) -> object:
    transaction = dataset.location.history.transaction(dataset.location.at(dataset.version))
    assert transaction is not None
    return transaction.operation


@pytest.fixture(params=[False, True], ids=["addresses", "stable"])
def uri(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """0..4 and 5..9, two fragments, written by the reference."""
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(*range(5)), uri, enable_stable_row_ids=request.param)
    lance.write_dataset(rows(*range(5, 10)), uri, mode="append")
    return uri


TEN = [(value, f"row {value}") for value in range(10)]


def test_interleaved_writes_match_pylance(uri: str) -> None:
    system = ["a", "_rowid"]
    ids = {row["a"]: row["_rowid"] for row in lance.dataset(uri).scanner(columns=system).to_table().to_pylist()}
    expected = dict(TEN)
    for turn, (who, values) in enumerate(
        [("us", [3, 11, 7]), ("them", [3, 12, 0]), ("us", [12, 11, 13, 3]), ("them", [13]), ("us", [20])]
    ):
        source = rows(*values, text=f"turn {turn}")
        if who == "us":
            assert lance_spark.open(uri).merge(source, "a").version == turn + 3
        else:
            lance.dataset(uri).merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(source)
        expected.update((value, f"turn {turn} {value}") for value in values)
        assert content(uri) == sorted(expected.items(), key=str)
    found = lance.dataset(uri).scanner(columns=system).to_table().to_pylist()
    assert found == lance_spark.open(uri).to_table(columns=system).to_pylist()
    assert len({row["_rowid"] for row in found}) == len(found)
    if lance_spark.open(uri).manifest.has_stable_row_ids:
        assert {row["a"]: row["_rowid"] for row in found if row["a"] < 10} == ids
        versions = {
            row["a"]: (row["_row_created_at_version"], row["_row_last_updated_at_version"])
            for row in lance.dataset(uri)
            .scanner(columns=["a", "_row_created_at_version", "_row_last_updated_at_version"])
            .to_table()
            .to_pylist()
        }
        assert (versions[3], versions[11], versions[7], versions[20]) == ((1, 5), (3, 5), (2, 3), (7, 7))
    lance.dataset(uri).optimize.compact_files(materialize_deletions_threshold=0.0)
    assert content(uri) == sorted(expected.items(), key=str)


ALL_ACTIONS = [
    actions for actions in product(["update", "delete", None], ["insert", None], ["delete", None]) if any(actions)
]


@pytest.mark.parametrize(("matched", "not_matched", "by_source"), ALL_ACTIONS)
def test_every_combination_of_actions(
    uri: str, matched: str | None, not_matched: str | None, by_source: str | None
) -> None:
    lance.dataset(uri).delete("a = 1 or a = 8")
    expected = {value: f"row {value}" for value in range(10) if value not in (1, 8)}
    source = rows(2, 3, 8, 30, None, text="new")
    actions = {"when_matched": matched, "when_not_matched": not_matched, "when_not_matched_by_source": by_source}
    dataset = lance_spark.open(uri).merge(source, ["a"], **actions)
    matching = {2, 3}
    if by_source == "delete":
        expected = {value: text for value, text in expected.items() if value in matching}
    if matched == "update":
        expected.update((value, f"new {value}") for value in matching)
    if matched == "delete":
        expected = {value: text for value, text in expected.items() if value not in matching}
    rows_now: list[tuple[int | None, str]] = list(expected.items())
    if not_matched == "insert":
        rows_now += [(8, "new 8"), (30, "new 30"), (None, "new None")]
    assert content(uri) == sorted(rows_now, key=str)
    assert dataset.version == 4
    adds = matched == "update" or not_matched is not None
    assert type(operation(dataset)) is (Update if adds else Delete)
    assert_nothing_left_over(uri)


def test_what_changes_nothing_makes_no_version(uri: str) -> None:
    dataset = lance_spark.open(uri)
    empty = rows()
    assert dataset.merge(empty, "a").version == 2
    assert dataset.merge(rows(1, 2), "a", when_matched=None).version == 2
    assert dataset.merge(rows(50), "a", when_not_matched=None).version == 2
    assert dataset.merge(iter(()), "a", schema=empty.schema).version == 2
    assert dataset.merge(rows(*range(10)), "a", when_matched=None, when_not_matched_by_source="delete").version == 2
    assert_nothing_left_over(uri)


def test_an_empty_source_deletes_everything_that_it_lacks(uri: str) -> None:
    dataset = lance_spark.open(uri).merge(rows(), "a", when_not_matched_by_source="delete")
    assert content(uri) == []
    assert len(dataset.fragments) == 0


@pytest.mark.parametrize("matched", ["update", "delete"])
def test_two_rows_of_the_source_for_one_of_the_table_are_ambiguous(uri: str, matched: str) -> None:
    with pytest.raises(InvalidInputError, match="a = 3"):
        lance_spark.open(uri).merge(rows(1, 3, 3, 40), "a", when_matched=matched)
    assert lance_spark.open(uri).version == 2
    assert_nothing_left_over(uri)
    # What matches nothing is inserted as often as it is there, and nothing is ambiguous where nothing is matched.
    lance_spark.open(uri).merge(rows(1, 40, 40, None, None, text="new"), "a", when_matched=matched)
    lance_spark.open(uri).merge(rows(3, 3), "a", when_matched=None)
    first = {"update": (1, "new 1")}.get(matched)
    expected = [(40, "new 40")] * 2 + [(None, "new None")] * 2 + [row for row in TEN if row[0] != 1]
    assert content(uri) == sorted(expected + ([first] if first else []), key=str)


def test_several_rows_of_the_table_for_one_of_the_source(uri: str) -> None:
    lance_spark.write(rows(3, 3, text="again"), uri, mode="append")
    lance_spark.open(uri).merge(rows(3, text="new"), "a")
    assert [text for value, text in content(uri) if value == 3] == ["new 3"] * 3
    lance_spark.open(uri).merge(rows(3), "a", when_matched="delete", when_not_matched=None)
    assert content(uri) == [row for row in TEN if row[0] != 3]


def both(uri: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lance_spark.open(uri).to_table().to_pylist()
    assert str(lance.dataset(uri).to_table().to_pylist()) == str(found)
    return found


def test_several_key_columns_nulls_and_nan(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    nan = float("nan")

    def keyed(*keys: tuple[str | None, float | None], value: str) -> pa.Table:
        columns = {"k": pa.array([key[0] for key in keys], pa.string()), "f": pa.array([key[1] for key in keys])}
        return pa.table({**columns, "v": pa.array([f"{value} {number}" for number in range(len(keys))])})

    lance_spark.write(keyed(("x", 0.0), ("x", nan), ("y", 1.0), (None, 1.0), ("y", None), value="old"), uri)
    source = keyed(("x", -0.0), ("x", nan), ("x", 1.0), (None, 1.0), ("y", None), value="new")
    lance_spark.open(uri).merge(source, ["k", "f"])
    assert sorted((str(row["k"]), str(row["f"]), row["v"]) for row in both(uri)) == [
        ("None", "1.0", "new 3"),
        ("None", "1.0", "old 3"),
        ("x", "-0.0", "new 0"),
        ("x", "1.0", "new 2"),
        ("x", "nan", "new 1"),
        ("y", "1.0", "old 2"),
        ("y", "None", "new 4"),
        ("y", "None", "old 4"),
    ]


def test_some_columns_of_the_table_in_any_order(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    fields = [
        pa.field("v", pa.list_(pa.float32(), 2)),
        pa.field("k", pa.int32(), nullable=False),
        pa.field("t", pa.string()),
        pa.field("l", pa.list_(pa.string())),
        pa.field("s", pa.struct([("id", pa.int64()), ("x", pa.string())])),
    ]
    values = [
        {"v": [1, 2], "k": 1, "t": "one", "l": ["a"], "s": {"id": 10, "x": "x1"}},
        {"v": None, "k": 2, "t": None, "l": [], "s": None},
        {"v": [3, 4], "k": 3, "t": "three", "l": None, "s": {"id": None, "x": None}},
    ]
    lance_spark.write(pa.Table.from_pylist(values, schema=pa.schema(fields)), uri, enable_stable_row_ids=True)
    source = pa.table({"t": pa.array(["new", "two", "four"], pa.large_string()), "k": pa.array([3, 2, 4], pa.int32())})
    dataset = lance_spark.open(uri).merge(source, "k")
    expected = [
        values[0],
        {**values[1], "t": "two"},
        {**values[2], "t": "new"},
        {"v": None, "k": 4, "t": "four", "l": None, "s": None},
    ]
    assert both(uri) == expected
    made = operation(dataset)
    assert isinstance(made, Update)
    assert sorted(made.changed_fields) == [1, 2]
    # Without inserts, a column that is not nullable may be missing.
    source = pa.Table.from_pylist([{"s": {"id": 10, "x": "changed"}}], schema=pa.schema([fields[4]]))
    lance_spark.open(uri).merge(source, "s.id", when_not_matched=None)
    expected[0] = {**expected[0], "s": {"id": 10, "x": "changed"}}
    assert sorted(both(uri), key=lambda row: int(row["k"])) == expected
    with pytest.raises(InvalidInputError, match="'k' is missing"):
        lance_spark.open(uri).merge(source, "s.id")
    lance.dataset(uri).delete("k = 1")
    lance_spark.open(uri).merge(source, "s.id", when_not_matched=None)
    assert lance_spark.open(uri).count_rows() == 3


@pytest.mark.parametrize(
    ("source", "on", "actions", "error"),
    [
        (rows(1), "nope", {}, NotFoundError),
        (rows(1), [], {}, InvalidInputError),
        (rows(1), [3], {}, InvalidInputError),
        (rows(1).select(["b"]), "a", {}, InvalidInputError),
        (rows(1).rename_columns(["a", "z"]), "a", {}, InvalidInputError),
        (pa.table({"a": ["x"]}), "a", {}, InvalidInputError),
        (pa.table({"a": pa.array([1], pa.int32())}), "a", {}, InvalidInputError),
        (rows(1), "a", {"when_matched": "nope"}, InvalidInputError),
        (rows(1), "a", {"when_not_matched": "update"}, InvalidInputError),
        (rows(1), "a", {"when_not_matched_by_source": "update"}, InvalidInputError),
        (rows(1), "a", {"when_matched": None, "when_not_matched": None}, InvalidInputError),
        (5, "a", {}, InvalidInputError),
        (iter(()), "a", {}, InvalidInputError),
    ],
)
def test_invalid_arguments_are_refused(
    uri: str, source: Any, on: Any, actions: dict[str, Any], error: type[LanceError]
) -> None:
    with pytest.raises(error):
        lance_spark.open(uri).merge(source, on, **actions)
    assert lance_spark.open(uri).version == 2
    assert_nothing_left_over(uri)


def test_nested_keys_and_old_files_are_refused(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(pa.table({"l": [[1]], "a": [1]}), uri)
    with pytest.raises(InvalidInputError, match="cannot be a key"):
        lance_spark.open(uri).merge(pa.table({"l": [[1]], "a": [2]}), "l")
    lance.write_dataset(rows(1), str(tmp_path / "old"), data_storage_version="legacy")
    with pytest.raises(UnsupportedFeatureError, match=r"0\.1"):
        lance_spark.open(str(tmp_path / "old")).merge(rows(1), "a")


def test_many_rows_and_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lance_spark.table.row_level.merge._WINDOW_BYTES", 1)
    uri = str(tmp_path / "t")
    wide = pa.table({"a": range(20000), "b": [f"row {value}" for value in range(20000)], "c": range(20000)})
    lance.write_dataset(wide, uri, max_rows_per_file=7000, enable_stable_row_ids=True)
    source = rows(*range(19999, -1, -3), *range(50000, 55000), text="new")
    lance_spark.open(uri).merge(source, "a")
    expected = {value: (f"row {value}", value) for value in range(20000)}
    expected.update((value, (f"new {value}", value)) for value in range(19999, -1, -3))
    expected.update((value, (f"new {value}", None)) for value in range(50000, 55000))
    assert {row["a"]: (row["b"], row["c"]) for row in both(uri)} == expected
    ids = lance.dataset(uri).to_table(columns=["a"], with_row_id=True)
    assert all(a == i for a, i in zip(ids["a"].to_pylist(), ids["_rowid"].to_pylist(), strict=True) if a < 20000)


# Other writers.


def stale(uri: str, source: pa.Table, meanwhile: Callable[[lance.LanceDataset], object], **actions: Any) -> Dataset:
    """What a merge makes of the table if another writer comes between our reading and our commit."""
    dataset = lance_spark.open(uri)
    meanwhile(lance.dataset(uri))
    return dataset.merge(source, "a", **actions)


def appended(*values: int) -> Callable[[lance.LanceDataset], object]:
    return lambda dataset: lance.write_dataset(rows(*values, text="theirs"), dataset.uri, mode="append")


OTHERS: dict[str, tuple[Callable[[lance.LanceDataset], object], bool, dict[int, str | None]]] = {
    "append of other keys": (appended(70), False, {70: "theirs 70"}),
    "append of our new key": (appended(50), True, {}),
    "append of our new key and others": (appended(70, 50), True, {70: "theirs 70"}),
    "append of our old key": (appended(2), False, {}),
    "merge of our new key": (
        lambda dataset: dataset.merge_insert("a")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute(rows(9, 50, text="theirs")),
        True,
        {9: "theirs 9"},
    ),
    "merge of ours of our new key": (
        lambda dataset: lance_spark.open(dataset.uri).merge(rows(9, 50, text="theirs"), "a"),
        True,
        {9: "theirs 9"},
    ),
    "a row that gets our new key": (
        lambda dataset: dataset.update({"a": "50"}, where="a = 9"),
        True,
        {9: None},
    ),
    "update of another row": (
        lambda dataset: dataset.update({"b": "'theirs'"}, where="a = 4"),
        False,
        {4: "theirs"},
    ),
    "update of our row": (lambda dataset: dataset.update({"b": "'theirs'"}, where="a = 2"), True, {}),
    "delete of our row": (lambda dataset: dataset.delete("a = 2"), True, {}),
    "delete of another row": (lambda dataset: dataset.delete("a = 4"), False, {4: None}),
    "compaction": (lambda dataset: dataset.optimize.compact_files(), True, {}),
    "new column": (lambda dataset: dataset.add_columns({"c": "a + 1"}), True, {}),
    "new type of another column": (
        lambda dataset: dataset.alter_columns({"path": "b", "data_type": pa.large_string()}),
        True,
        {},
    ),
}


@pytest.mark.parametrize("case", list(OTHERS))
def test_other_writers(uri: str, case: str) -> None:
    meanwhile, again, committed = OTHERS[case]
    old = lance_spark.open(uri)
    dataset = stale(uri, rows(2, 50, text="ours"), meanwhile)
    expected: dict[int, str | None] = {**dict(TEN), 2: "ours 2", 50: "ours 50", **committed}
    present = [(value, text) for value, text in expected.items() if text is not None]
    extra = [(2, "theirs 2")] if case == "append of our old key" else []
    assert content(uri) == sorted(present + extra, key=str)
    transaction = dataset.location.history.transaction(dataset.location.at(dataset.version))
    assert transaction is not None
    assert (transaction.read_version > old.version) is again
    assert_nothing_left_over(uri)


def test_the_insert_of_one_key_lands_once(uri: str) -> None:
    meanwhile = appended(50)
    dataset = stale(uri, rows(50, text="ours"), meanwhile, when_matched=None)
    assert dataset.version == 3, "on the newest version there is nothing to insert"
    assert content(uri) == sorted([*TEN, (50, "theirs 50")], key=str)
    assert_nothing_left_over(uri)
    # A null is no key: it is inserted whatever others insert.
    stale(uri, rows(None, text="ours"), lambda dataset: lance_spark.write(rows(None), dataset.uri, mode="append"))
    assert [row for row in content(uri) if row[0] is None] == [(None, "ours None"), (None, "row None")]


def test_pylance_does_not_insert_our_key_again(tmp_path: Path) -> None:
    """It compares inserted keys if they are the table's primary key, and takes an update without any for a rival."""
    uri = str(tmp_path / "t")
    key = pa.field("a", pa.int64(), nullable=False, metadata={"lance-schema:unenforced-primary-key": "true"})
    schema = pa.schema([key, pa.field("b", pa.string())])
    lance.write_dataset(rows(1, 2).cast(schema), uri)
    old = lance.dataset(uri)
    lance_spark.open(uri).merge(rows(50, text="ours").cast(schema), "a", when_matched=None)
    old.merge_insert("a").when_not_matched_insert_all().execute(rows(50, 51, text="theirs").cast(schema))
    assert content(uri) == [(1, "row 1"), (2, "row 2"), (50, "ours 50"), (51, "theirs 51")]


def test_ambiguous_only_on_the_newest_version(uri: str) -> None:
    with pytest.raises(InvalidInputError, match="a = 50"):
        stale(uri, rows(50, 50), appended(50))
    assert lance_spark.open(uri).version == 3
    assert_nothing_left_over(uri)


def test_what_ours_was_made_for_is_gone(uri: str) -> None:
    with pytest.raises(IncompatibleConflictError):
        stale(uri, rows(2), lambda dataset: lance.write_dataset(rows(1).select(["a"]), dataset.uri, mode="overwrite"))
    assert both(uri) == [{"a": 1}]
    assert_nothing_left_over(uri)


def test_key_columns_that_others_rename(uri: str) -> None:
    def renamed(dataset: lance.LanceDataset) -> None:
        dataset.alter_columns({"path": "a", "name": "z"}, {"path": "b", "name": "a"})

    stale(uri, rows(1, 50, text="ours"), renamed)
    expected = sorted([*((value, text) for value, text in TEN if value != 1), (1, "ours 1"), (50, "ours 50")])
    assert sorted((row["z"], row["a"]) for row in both(uri)) == expected

    def renamed_and_inserted(dataset: lance.LanceDataset) -> None:
        dataset.alter_columns({"path": "a", "name": "b"}, {"path": "z", "name": "a"})
        appended(60)(dataset)

    dataset = lance_spark.open(uri)
    renamed_and_inserted(lance.dataset(uri))
    source = rows(60, text="ours").rename_columns(["z", "a"])
    with pytest.raises(NotFoundError, match="'z'"):
        dataset.merge(source, "z")
    assert (60, "theirs 60") in content(uri)
    assert_nothing_left_over(uri)


def test_threads_that_insert_and_count_the_same_keys(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(rows(0), uri, enable_stable_row_ids=True)

    def work(worker: int) -> None:
        for number in range(3):
            values = [number, 10 + number, 100 * (worker + 1) + number]
            lance_spark.open(uri).merge(rows(*values, text=f"worker {worker}"), "a")

    all_at_once(work, 4)
    keys = [row[0] for row in content(uri)]
    expected = {*range(3), *range(10, 13), *(100 * worker + number for worker in range(1, 5) for number in range(3))}
    assert sorted(key for key in keys if key is not None) == sorted(expected)
    ids = lance.dataset(uri).to_table(with_row_id=True)["_rowid"].to_pylist()
    assert len(set(ids)) == len(ids)


# Stores that fail.


@pytest.fixture
def memory() -> str:
    uri = f"memory://merge-{uuid.uuid4().hex}"
    lance_spark.write(rows(*range(3)), uri, enable_stable_row_ids=True)
    return uri


MERGED = named(_0="row 0", _1="ours 1", _2="row 2", _5="ours 5")


@pytest.mark.parametrize("harm", [Harm.ANSWER_LOST, Harm.SENT_TWICE, Harm.NOT_SENT])
def test_a_lost_reply_gives_exactly_one_version(memory: str, harm: Harm) -> None:
    assert merge(with_faults(memory, Fault(PUT, harm, times=3)), rows(1, 5, text="ours")) == 2
    assert content(memory) == MERGED
    assert_nothing_left_over(memory)


@pytest.mark.parametrize("harm", [Harm.ANSWER_LOST, Harm.SENT_TWICE, Harm.NOT_SENT])
def test_a_lost_reply_after_a_rebase(memory: str, harm: Harm) -> None:
    rival = Fault(PUT, harm, run=lambda: lance_spark.open(memory).merge(rows(9), "a") and None)
    assert merge(with_faults(memory, rival, Fault(PUT, harm, nth=2)), rows(1, 5, text="ours")) == 3
    assert content(memory) == sorted([*MERGED, (9, "row 9")], key=str)
    assert_nothing_left_over(memory)


def test_a_store_that_never_answers_keeps_the_files(memory: str) -> None:
    with pytest.raises(CommitStateUnknownError):
        merge(with_faults(memory, Fault(PUT, Harm.NOT_SENT, times=1000)), rows(1, 5))
    assert (len(files(memory, "data")), len(files(memory, "_deletions"))) == (2, 1)


@pytest.mark.parametrize(
    "fault",
    [
        Fault("put", path_part="_deletions/"),
        Fault("put", path_part="_transactions/"),
        Fault("list", path_part="_versions", nth=2),
        Fault(PUT),
    ],
    ids=lambda fault: f"{fault.operation}-{fault.path_part.strip('_/')}",
)
def test_a_failure_before_the_commit_leaves_nothing_behind(memory: str, fault: Fault) -> None:
    with pytest.raises(StorageError):
        merge(with_faults(memory, fault), rows(1, 5, text="ours"))
    assert_nothing_left_over(memory)
    assert content(memory) == named(_0="row 0", _1="row 1", _2="row 2")


@pytest.mark.slow
def test_it_gives_up_when_rivals_insert_our_key_again_and_again(memory: str) -> None:
    def rival() -> None:
        newest = lance_spark.open(memory)
        if newest.count_rows("a = 5"):
            newest.delete("a = 5")
        else:
            newest.merge(rows(5, text="theirs"), "a")

    # One rival while we write, one right before our request: whatever we have seen is no longer so.
    with pytest.raises(RetryableConflictError):
        merge(with_faults(memory, Fault(PUT, Harm.NONE, times=100, run=rival)), rows(5, text="ours"))
    assert_nothing_left_over(memory)


def test_small_fragments_are_searched_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge into 200 fragments reads the key column of many at a time, and changes what the reference changes."""
    mine, other = str(tmp_path / "mine"), str(tmp_path / "other")
    rows = pa.table({"k": range(2000), "v": [0] * 2000})
    for uri in (mine, other):
        lance.write_dataset(rows, uri, max_rows_per_file=10, max_rows_per_group=10).delete("k % 9 = 0")
    single: list[int] = []
    read_one = ScanReader._fragment

    def counted(reader: ScanReader, rows: FragmentRows) -> Any:
        single.append(rows.fragment.id)
        return read_one(reader, rows)

    monkeypatch.setattr(ScanReader, "_fragment", counted)
    source = pa.table({"k": [1, 5, 9, 777, 1999, 3000], "v": [1] * 6})
    lance_spark.open(mine).merge(source, "k")
    assert not single
    lance.dataset(other).merge_insert("k").when_matched_update_all().when_not_matched_insert_all().execute(source)
    order = [("k", "ascending")]
    assert lance_spark.open(mine).to_table().sort_by(order) == lance.dataset(other).to_table().sort_by(order)
