"""Updates that write new files of the changed columns: what is written, what others read, and other writers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.table.columns.check_constraints import add_check
from lance_spark.table.dataset import Dataset
from lance_spark.table.operations.update import Update, UpdateMode

WIDTH = 256
NUM_ROWS = 6000


@pytest.fixture(params=[False, True], ids=["addresses", "stable"])
def wide(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Written by the reference: three fragments of 2,000 rows with 256 floats and a label."""
    uri = str(tmp_path / "t")
    lance.write_dataset(_rows(range(NUM_ROWS)), uri, max_rows_per_file=2000, enable_stable_row_ids=request.param)
    return uri


def _rows(ids: Any, label: str = "old") -> pa.Table:
    ids = np.array(ids)
    floats = np.random.default_rng(len(ids)).random((len(ids), WIDTH), np.float32)
    floats[:, 0] = ids
    values = pa.FixedSizeListArray.from_arrays(pa.array(floats.ravel()), WIDTH)
    return pa.table({"id": pa.array(ids, pa.int64()), "label": [label] * len(ids), "v": values})


def _labels(uri: str) -> dict[int, str]:
    """The labels that both libraries read; the other columns are those that were written."""
    ours, theirs = lance_spark.open(uri), lance.dataset(uri)
    theirs.validate()
    shown = [dataset.to_table(columns=["id", "label", "v"]).sort_by("id") for dataset in (ours, theirs)]
    assert shown[0].equals(shown[1])
    ids = shown[0]["id"].to_numpy()
    first = np.array([row[0] for row in shown[0]["v"].to_pylist()])
    assert np.array_equal(first, ids)
    return dict(zip(ids.tolist(), shown[0]["label"].to_pylist(), strict=True))


def _operation(dataset: Dataset) -> Update:
    transaction = dataset.location.history.transaction(dataset.location.at(dataset.version))
    assert transaction is not None
    assert isinstance(transaction.operation, Update)
    return transaction.operation


def _num_files(uri: str) -> list[int]:
    return [len(fragment.data_files()) for fragment in lance.dataset(uri).get_fragments()]


def _expected(changed: Callable[[int], bool], label: str = "new") -> dict[int, str]:
    return {number: label if changed(number) else "old" for number in range(NUM_ROWS)}


def test_many_rows_get_a_new_file_and_few_rows_move(wide: str) -> None:
    before = lance.dataset(wide).to_table(columns=["id"], with_row_id=True, with_row_address=True).sort_by("id")
    updated = lance_spark.open(wide).update({"label": "'new'"}, "id % 3 = 0 AND id < 4000 OR id = 5000")
    operation = _operation(updated)
    assert operation.mode is UpdateMode.REWRITE_COLUMNS
    assert sorted(operation.updated_offsets) == [0, 1]
    assert operation.fields_modified == (1,)
    assert _num_files(wide) == [2, 2, 1, 1]
    assert _labels(wide) == _expected(lambda number: (number % 3 == 0 and number < 4000) or number == 5000)
    after = lance.dataset(wide).to_table(columns=["id"], with_row_id=True, with_row_address=True).sort_by("id")
    moved = [number for number in range(NUM_ROWS) if before["_rowaddr"][number] != after["_rowaddr"][number]]
    assert moved == [5000]
    if updated.has_stable_row_ids:
        assert after["_rowid"] == before["_rowid"]
        versions = lance.dataset(wide).to_table(columns=["id", "_row_last_updated_at_version"]).to_pylist()
        newest = {row["id"] for row in versions if row["_row_last_updated_at_version"] == 2}
        assert newest == {number for number, label in _labels(wide).items() if label == "new"}


@pytest.mark.parametrize(("mode", "files"), [("columns", [2, 1, 1]), ("rows", [1, 1, 1, 1]), ("auto", [1, 1, 1, 1])])
@pytest.mark.parametrize("is_property", [False, True])
def test_the_mode_is_chosen_by_the_statement_or_the_table(
    wide: str, mode: str, files: list[int], is_property: bool
) -> None:
    dataset = lance_spark.open(wide)
    if is_property:
        dataset = dataset.update_config({"lance.update.mode": mode})
        dataset.update({"label": "'new'"}, "id = 7")
    else:
        dataset.update({"label": "'new'"}, "id = 7", mode=mode)
    assert _num_files(wide) == files
    assert _labels(wide) == _expected(lambda number: number == 7)


def test_bytes_are_those_of_the_changed_column(wide: str) -> None:
    folder = Path(wide) / "data"
    before = sum(file.stat().st_size for file in folder.iterdir())
    lance_spark.open(wide).update({"label": "concat('new ', cast(id % 10 AS string))"}, "id % 10 < 3")
    added = sum(file.stat().st_size for file in folder.iterdir()) - before
    assert added < before * 0.3 * 0.02


def test_a_merge_updates_in_place_and_inserts(wide: str) -> None:
    source = pa.table({"id": pa.array([*range(0, 4000, 2), 9001, 9002], pa.int64()), "label": ["m"] * 2002})
    merged = lance_spark.open(wide).merge(source, "id", when_not_matched="insert")
    assert _operation(merged).mode is UpdateMode.REWRITE_COLUMNS
    assert _num_files(wide) == [2, 2, 1, 1]
    shown = lance.dataset(wide).to_table(columns=["id", "label"]).to_pylist()
    expected = {number: "m" if number % 2 == 0 and number < 4000 else "old" for number in range(NUM_ROWS)}
    assert {row["id"]: row["label"] for row in shown} == expected | {9001: "m", 9002: "m"}
    assert lance.dataset(wide).count_rows("v IS NULL") == 2


def test_a_merge_updates_in_place_and_deletes_what_the_source_lacks(wide: str) -> None:
    source = pa.table({"id": pa.array(range(1000, 3000), pa.int64()), "label": ["m"] * 2000})
    lance_spark.open(wide).merge(source, "id", when_not_matched_by_source="delete")
    assert _labels(wide) == dict.fromkeys(range(1000, 3000), "m")
    assert lance_spark.open(wide).count_rows("label = 'm'") == 2000


def test_indexes_of_other_columns_stay_and_those_of_changed_ones_cover_less(wide: str) -> None:
    theirs = lance.dataset(wide)
    theirs.create_scalar_index("id", "BTREE")
    theirs.create_scalar_index("label", "BITMAP")
    lance_spark.open(wide).update({"label": "'new'"}, "id < 2000")
    covered = {index["name"]: sorted(index["fragment_ids"]) for index in lance.dataset(wide).list_indices()}
    assert covered == {"id_idx": [0, 1, 2], "label_idx": [1, 2]}
    for dataset in (lance_spark.open(wide), lance.dataset(wide)):
        assert dataset.count_rows("label = 'new'") == 2000
        assert dataset.count_rows("label = 'old' AND id = 1999") == 0
        assert dataset.to_table(columns=["label"], filter="id = 1999").to_pylist() == [{"label": "new"}]


def test_repeated_updates_and_compaction(wide: str) -> None:
    dataset = lance_spark.open(wide).delete("id % 100 = 1")
    for turn in range(4):
        dataset = dataset.update({"label": f"'turn {turn}'"}, f"id % 4 = {turn}", mode="columns")
    assert _num_files(wide) == [2, 2, 2]
    expected = {number: f"turn {number % 4}" for number in range(NUM_ROWS) if number % 100 != 1}
    assert _labels(wide) == expected
    lance.dataset(wide).optimize.compact_files(materialize_deletions_threshold=0.0)
    assert _labels(wide) == expected


def test_changes_are_updates_of_the_changed_rows(wide: str) -> None:
    lance_spark.open(wide).update({"label": "'new'"}, "id < 10", mode="columns")
    batches = lance_spark.open(wide).changes(2, 2, columns=["id", "label"])
    changes = pa.Table.from_batches(list(batches)).to_pylist()
    after = {(row["id"], row["label"]) for row in changes if row["_change_type"] == "update_postimage"}
    assert after == {(number, "new") for number in range(10)}
    assert len(changes) == 20


OTHERS: dict[str, tuple[Callable[[lance.LanceDataset], object], Callable[[int], str | None]]] = {
    "append": (
        lambda theirs: lance.write_dataset(_rows([9000]), theirs.uri, mode="append"),
        lambda number: "new" if number < 1000 else "old",
    ),
    "delete of an updated row": (
        lambda theirs: theirs.delete("id = 5"),
        lambda number: None if number == 5 else "new" if number < 1000 else "old",
    ),
    "delete of another row": (
        lambda theirs: theirs.delete("id = 1500"),
        lambda number: None if number == 1500 else "new" if number < 1000 else "old",
    ),
    "delete of the fragment": (
        lambda theirs: theirs.delete("id < 2000"),
        lambda number: None if number < 2000 else "old",
    ),
    "update that moves an updated row": (
        lambda theirs: theirs.update({"label": "'theirs'"}, where="id = 5 OR id = 1500"),
        lambda number: "new" if number < 1000 else "theirs" if number == 1500 else "old",
    ),
    "update in place": (
        lambda theirs: lance_spark.open(theirs.uri).update({"label": "'theirs'"}, "id = 1500", mode="columns"),
        lambda number: "new" if number < 1000 else "theirs" if number == 1500 else "old",
    ),
    "compaction": (
        lambda theirs: theirs.optimize.compact_files(target_rows_per_fragment=6000),
        lambda number: "new" if number < 1000 else "old",
    ),
    "index": (
        lambda theirs: theirs.create_scalar_index("label", "BITMAP"),
        lambda number: "new" if number < 1000 else "old",
    ),
}


@pytest.mark.parametrize("case", list(OTHERS))
def test_an_update_after_another_writer_loses_nothing(wide: str, case: str) -> None:
    meanwhile, label = OTHERS[case]
    stale = lance_spark.open(wide)
    meanwhile(lance.dataset(wide))
    stale.update({"label": "'new'"}, "id < 1000", mode="columns")
    expected = {number: label(number) for number in range(NUM_ROWS)}
    expected |= {9000: "old"} if case == "append" else {}
    assert _labels(wide) == {number: text for number, text in expected.items() if text is not None}
    shown = lance.dataset(wide).count_rows("label = 'new'")
    assert shown == sum(text == "new" for text in expected.values())


THEIRS: dict[str, Callable[[lance.LanceDataset], object]] = {
    "delete": lambda theirs: theirs.delete("id = 5"),
    "update": lambda theirs: theirs.update({"label": "concat(label, '!')"}, where="id < 10"),
    "merge": lambda theirs: theirs.merge_insert("id").when_matched_update_all().execute(_rows([5], "merged")),
}


@pytest.mark.parametrize("case", list(THEIRS))
def test_the_reference_follows_an_update_in_place(wide: str, case: str) -> None:
    stale = lance.dataset(wide)
    lance_spark.open(wide).update({"label": "'new'"}, "id < 1000", mode="columns")
    THEIRS[case](stale)
    expected = _expected(lambda number: number < 1000)
    if case == "delete":
        del expected[5]
    expected |= {"update": dict.fromkeys(range(10), "new!"), "merge": {5: "merged"}}.get(case, {})
    assert _labels(wide) == expected


def test_what_has_to_move_is_refused_in_place_and_moves_by_itself(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    dataset = lance_spark.write(pa.table({"a": [1, 2], "b": [1, 2], "w": [b"x" * (2 << 20)] * 2}), uri)
    dataset = Dataset(dataset.location, add_check(dataset.location, dataset.manifest, "positive", "a + b > 0"))
    with pytest.raises(UnsupportedFeatureError, match="column 'a' is in a CHECK constraint"):
        dataset.update({"a": "a + 1"}, mode="columns")
    with pytest.raises(InvalidInputError, match="CHECK constraint"):
        dataset.update({"a": "-10"})
    assert dataset.update({"a": "a + 1"}).to_table(columns=["a"])["a"].to_pylist() == [2, 3]
    assert _operation(lance_spark.open(uri)).mode is UpdateMode.REWRITE_ROWS
    with pytest.raises(InvalidInputError, match="'auto', 'columns' or 'rows', not 'column'"):
        dataset.update({"b": "1"}, mode="column")
    with pytest.raises(InvalidInputError, match=r"lance\.update\.mode takes auto, columns or rows"):
        dataset.update_config({"lance.update.mode": "fast"})


@pytest.mark.parametrize("value", ["if(id = 1999, cast('x' AS int), 1)", "null"])
def test_a_value_that_does_not_fit_leaves_no_file(tmp_path: Path, value: str) -> None:
    uri = str(tmp_path / "t")
    fields = [pa.field("id", pa.int64()), pa.field("n", pa.int32(), nullable=False)]
    table = pa.table([pa.array(range(3000), pa.int64()), pa.array([0] * 3000, pa.int32())], pa.schema(fields))
    dataset = lance_spark.write(table, uri, max_rows_per_file=1000)
    files = set(Path(uri).rglob("*"))
    with pytest.raises(InvalidInputError):
        dataset.update({"n": value}, mode="columns")
    assert set(Path(uri).rglob("*")) == files
    assert lance_spark.open(uri).version == dataset.version


def test_fields_of_structs_and_nulls(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    rows = [{"id": 0, "s": {"x": 1, "y": "a"}}, {"id": 1, "s": None}, {"id": 2, "s": {"x": None, "y": None}}]
    dataset = lance_spark.write(pa.Table.from_pylist(rows), uri)
    dataset.update({"s.x": "id + 10"}, "id < 2", mode="columns")
    expected = [{"id": 0, "s": {"x": 10, "y": "a"}}, {"id": 1, "s": {"x": 11, "y": None}}, rows[2]]
    assert lance.dataset(uri).to_table().to_pylist() == expected
    assert lance_spark.open(uri).to_table().to_pylist() == expected
    assert _num_files(uri) == [2]
