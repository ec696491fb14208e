"""What each operation does to the fragments that indexes cover, beside the reference library on a copy of the table."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance.file import LanceFileWriter

import lance_spark
from lance_spark.file_version import FileVersion
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.operations.base import Settings
from lance_spark.table.operations.data_replacement import DataReplacement
from lance_spark.table.operations.update import Update
from tests.index.builds import both, own_folders
from tests.index.comparisons import append, check, repeated, write

KINDS = {
    "tree": ("x", "BTREE"),
    "map": ("k", "BITMAP"),
    "zones": ("y", "ZONEMAP"),
    "bloom": ("z", "BLOOMFILTER"),
    "grams": ("s", "NGRAM"),
    "labels": ("l", "LABEL_LIST"),
}
CONDITIONS = {
    "tree": ("x = 3", "x = 3"),
    "map": ("k = 'b'", "k = 'b'"),
    "zones": ("y < 4", "y < 4"),
    "bloom": ("z = 3", "z = 3"),
    "grams": ("contains(s, 'alph')", "contains(s, 'alph')"),
    "labels": ("array_contains(l, 3)", "array_has(l, 3)"),
}
Change = Callable[[str], object]


def columns(num_rows: int) -> dict[str, pa.Array]:
    numbers = [3, None, *range(9)]
    return {
        **{name: repeated(numbers, num_rows, pa.int64()) for name in ("x", "y", "z")},
        "k": repeated(["a", "b", None], num_rows, pa.string()),
        "s": repeated(["alpha", None, "beta"], num_rows, pa.string()),
        "l": repeated([[3], None, [1, 3], []], num_rows, pa.list_(pa.int64())),
    }


def indexed(uri: str, *, stable_row_ids: bool) -> None:
    """Four fragments that are covered by an index of each kind, and one that is not."""
    write(uri, columns(40), rows_per_file=10, stable_row_ids=stable_row_ids)
    for name, (column, kind) in KINDS.items():
        lance_spark.open(uri).create_scalar_index(column, kind, name)
    append(uri, columns(10), first_id=100)


def coverage(uri: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for index in lance_spark.open(uri).indices():
        found[index.name] = sorted({*found.get(index.name, []), *index.fragment_ids()})
    return found


def own_merge(uri: str) -> None:
    new = pa.table({"id": pa.array([1, 500], pa.int64()), **columns(2)})
    lance_spark.open(uri).merge(new, "id")


def reference_merge(uri: str) -> None:
    new = pa.table({"id": pa.array([1, 500], pa.int64()), **columns(2)})
    lance.dataset(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(new)


def compact(uri: str) -> None:
    lance_spark.open(uri).compact(target_rows_per_fragment=1000)


def reference_compact(uri: str) -> None:
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=1000)


OPERATIONS: dict[str, tuple[Change, Change]] = {
    "append": (
        lambda uri: lance_spark.write(table(10, 700), uri, mode="append"),
        lambda uri: lance.write_dataset(table(10, 700), uri, mode="append"),
    ),
    "delete": (lambda uri: lance_spark.open(uri).delete("id < 5"), lambda uri: lance.dataset(uri).delete("id < 5")),
    "delete_fragment": (
        lambda uri: lance_spark.open(uri).delete("id < 10"),
        lambda uri: lance.dataset(uri).delete("id < 10"),
    ),
    "merge": (own_merge, reference_merge),
    "overwrite": (
        lambda uri: lance_spark.write(table(10, 0), uri, mode="overwrite"),
        lambda uri: lance.write_dataset(table(10, 0), uri, mode="overwrite"),
    ),
    "restore": (
        lambda uri: (lance_spark.open(uri).drop_index("tree"), lance_spark.open(uri).restore(5)),
        lambda uri: (lance.dataset(uri).drop_index("tree"), lance.dataset(uri, version=5).restore()),
    ),
    "drop_columns": (
        lambda uri: lance_spark.open(uri).drop_columns(["x", "k"]),
        lambda uri: lance.dataset(uri).drop_columns(["x", "k"]),
    ),
    "rename": (
        lambda uri: lance_spark.open(uri).rename_columns({"x": "w"}),
        lambda uri: lance.dataset(uri).alter_columns({"path": "x", "name": "w"}),
    ),
    "add_columns": (
        lambda uri: lance_spark.open(uri).add_columns({"w": "id + 1"}),
        lambda uri: lance.dataset(uri).add_columns({"w": "id + 1"}),
    ),
}


def table(num_rows: int, first_id: int) -> pa.Table:
    return pa.table({"id": pa.array(range(first_id, first_id + num_rows), pa.int64()), **columns(num_rows)})


def check_kinds(uri: str, names: set[str] | None = None) -> None:
    for name, (condition, reference) in CONDITIONS.items():
        if names is None or name in names:
            check(uri, condition, reference=reference)


@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable_ids"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_coverage_is_that_of_pylance(tmp_path: Path, name: str, stable_row_ids: bool) -> None:
    own, other = str(tmp_path / "own"), str(tmp_path / "other")
    indexed(own, stable_row_ids=stable_row_ids)
    shutil.copytree(own, other)
    for uri, change in zip((own, other), OPERATIONS[name], strict=True):
        change(uri)
    assert coverage(own) == coverage(other)
    if name not in ("drop_columns", "rename"):
        check_kinds(own)


@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable_ids"])
def test_update_leaves_coverage_that_is_right(tmp_path: Path, stable_row_ids: bool) -> None:
    uri = str(tmp_path)
    indexed(uri, stable_row_ids=stable_row_ids)
    lance_spark.open(uri).update({"x": "3"}, "id % 7 = 0")
    assert set(map(tuple, coverage(uri).values())) == {(0, 1, 2, 3)}
    check_kinds(uri)


@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable_ids"])
def test_compaction_remaps_as_pylance(tmp_path: Path, stable_row_ids: bool) -> None:
    own, other = str(tmp_path / "own"), str(tmp_path / "other")
    indexed(own, stable_row_ids=stable_row_ids)
    lance_spark.open(own).delete("id IN (0, 7, 8, 15, 39)")
    shutil.copytree(own, other)
    before = own_folders(tmp_path / "own")
    compact(own)
    reference_compact(other)
    remapped = {"tree", "map", "grams", "labels"}
    found, expected = coverage(own), coverage(other)
    assert {name: found[name] for name in remapped} == {name: expected[name] for name in remapped}
    # The reference does not remap zones, here they are built for the new fragments.
    assert found["zones"] == found["bloom"] == found["tree"]
    assert len(own_folders(tmp_path / "own") - before) == (3 if stable_row_ids else 6)
    for name in remapped:
        condition, reference = CONDITIONS[name]
        both(own, condition, index=name, reference=reference)
    lance.dataset(own).optimize.optimize_indices()
    lance_spark.open(own).optimize_indices(num_indices_to_merge=9)
    for name, (condition, reference) in CONDITIONS.items():
        both(own, condition, index=name, reference=reference)


def test_compaction_into_several_fragments_and_again(tmp_path: Path) -> None:
    uri = str(tmp_path)
    write(uri, columns(60), rows_per_file=7)
    lance_spark.open(uri).create_scalar_index("x", "BTREE", "tree")
    for turn in range(3):
        lance_spark.open(uri).delete(f"id % 9 = {turn}")
        lance_spark.open(uri).compact(target_rows_per_fragment=10 * (turn + 1), materialize_deletions_threshold=0.0)
        live = {fragment.id for fragment in lance_spark.open(uri).fragments}
        assert set(coverage(uri)["tree"]) == live
        for condition in ("x = 3", "x IS NULL", "x > 4", "x <> 3"):
            both(uri, condition, index="tree")


def test_compaction_keeps_fragments_of_different_coverage_apart(tmp_path: Path) -> None:
    uri = str(tmp_path)
    indexed(uri, stable_row_ids=False)
    compact(uri)
    assert len(lance_spark.open(uri).fragments) == 2
    lance_spark.open(uri).optimize_indices()
    compact(uri)
    assert len(lance_spark.open(uri).fragments) == 1
    check_kinds(uri)


def test_compaction_with_a_broken_index_gives_up_its_coverage(tmp_path: Path, warnings: list[str]) -> None:
    uri = str(tmp_path)
    write(uri, columns(40), rows_per_file=10)
    (index,) = lance_spark.open(uri).create_scalar_index("x", "BTREE", "tree").indices()
    (tmp_path / "_indices" / index.uuid / "page_data.lance").unlink()
    compact(uri)
    live = {fragment.id for fragment in lance_spark.open(uri).fragments}
    assert live.isdisjoint(coverage(uri)["tree"])
    check(uri, "x = 3")


def test_clone_and_branch_compact_with_indexes_of_their_base(tmp_path: Path) -> None:
    uri, clone = str(tmp_path / "t"), str(tmp_path / "c")
    indexed(uri, stable_row_ids=False)
    made = lance_spark.open(uri).shallow_clone(clone).compact(target_rows_per_fragment=1000)
    assert made.count_rows("x = 3") == made.count_rows("x = 3", use_scalar_index=False)
    assert "index: tree (BTREE)" in made.explain("x = 3")
    both(clone, "x = 3", index="tree")
    branch = lance_spark.open(uri).create_branch("side").compact(target_rows_per_fragment=1000)
    assert branch.count_rows("x = 3") == branch.count_rows("x = 3", use_scalar_index=False)
    assert "index: tree (BTREE)" in branch.explain("x = 3")
    assert coverage(uri)["tree"] == [0, 1, 2, 3]


def replace_data(uri: str, fragment_id: int) -> None:
    """New values of `x` for one fragment, committed by the reference library."""
    dataset = lance.dataset(uri)
    field_id = dataset.lance_schema.field("x").id()
    (fragment,) = [found for found in dataset.get_fragments() if found.fragment_id == fragment_id]
    new = pa.table({"x": pa.array([3] * fragment.count_rows(), pa.int64())})
    name = "replaced.lance"
    with LanceFileWriter(str(Path(uri) / "data" / name), new.schema, version="2.2") as writer:
        writer.write_batch(new)
    file = lance.fragment.DataFile(name, [field_id], [0], 2, 2, (Path(uri) / "data" / name).stat().st_size)
    group = lance.LanceOperation.DataReplacementGroup(fragment_id, file)
    operation = lance.LanceOperation.DataReplacement([group])
    lance.LanceDataset.commit(uri, operation, read_version=dataset.version)


def test_replaced_data_of_one_fragment_leaves_the_index_of_its_column(tmp_path: Path) -> None:
    uri = str(tmp_path)
    write(uri, {"x": repeated([1, 2, None], 40, pa.int64())}, rows_per_file=10)
    lance_spark.open(uri).add_columns({"y": "id * 2"})
    lance_spark.open(uri).drop_columns(["x"])
    lance_spark.open(uri).add_columns({"x": "id % 3"})
    lance_spark.open(uri).create_scalar_index("x", "BTREE", "tree").create_scalar_index("y", "ZONEMAP", "zones")
    replace_data(uri, 1)
    assert coverage(uri) == {"tree": [0, 2, 3], "zones": [0, 1, 2, 3]}
    message = lance_spark.open(uri).location.history.load_latest()
    transaction = lance_spark.open(uri).location.history.transaction(message)
    assert transaction is not None
    before = lance_spark.open(uri, version=lance_spark.open(uri).version - 1).manifest
    operation = transaction.operation
    assert isinstance(operation, DataReplacement)
    own = operation.next_manifest(before, Settings(9, 0, FileVersion.V2_2, False))
    assert {index.name: sorted(index.fragment_ids()) for index in parse_indices(own.index_section)} == coverage(uri)
    check(uri, "x = 0")
    lance_spark.open(uri).optimize_indices()
    both(uri, "x = 0", index="tree")


@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable_ids"])
def test_rewritten_columns_leave_the_index_of_their_column(tmp_path: Path, stable_row_ids: bool) -> None:
    uri = str(tmp_path)
    indexed(uri, stable_row_ids=stable_row_ids)
    dataset = lance.dataset(uri)
    fragment = dataset.get_fragments()[1]
    new = pa.table({"id": pa.array([12, 13], pa.int64()), "x": pa.array([3, 3], pa.int64())})
    updated, fields = fragment.update_columns(new, left_on="id", right_on="id")
    operation = lance.LanceOperation.Update(
        removed_fragment_ids=[],
        updated_fragments=[updated],
        new_fragments=[],
        fields_modified=fields,
        update_mode="rewrite_columns",
    )
    lance.LanceDataset.commit(uri, operation, read_version=dataset.version)
    found = coverage(uri)
    assert (found["tree"], found["zones"]) == ([0, 2, 3], [0, 1, 2, 3])
    opened = lance_spark.open(uri)
    transaction = opened.location.history.transaction(opened.location.history.load_latest())
    assert transaction is not None
    assert isinstance(transaction.operation, Update)
    before = lance_spark.open(uri, version=opened.version - 1).manifest
    own = transaction.operation.next_manifest(before, Settings(opened.version, 0, FileVersion.V2_2, False))
    assert {index.name: sorted(index.fragment_ids()) for index in parse_indices(own.index_section)} == found
    check_kinds(uri)
    opened.optimize_indices()
    check_kinds(uri)
