"""Indexes stay right, or are left unused, through whatever happens to their table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pyroaring
import pytest

import lance_spark
from lance_spark._proto import table_pb2
from lance_spark.table.manifests.index_metadata import IndexMetadata
from tests.index.comparisons import check, check_all, repeated, write
from tests.support.history_seeds import seeds
from tests.support.index.lifecycle import CONDITIONS, INDEXES, History, changed_metadata, indexed


@pytest.mark.slow
@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable_ids"])
@pytest.mark.parametrize("seed", seeds(3))
def test_random_histories_give_the_answers_of_a_scan(
    tmp_path: Path, seed: int, stable_row_ids: bool, warnings: list[str]
) -> None:
    uri = str(tmp_path)
    indexed(uri, stable_row_ids=stable_row_ids)
    history = History(uri, seed)
    for _ in range(6):
        history.step()
        try:
            check_all(uri, CONDITIONS)
        except AssertionError as error:
            raise AssertionError(f"after {history.steps}") from error
    assert warnings == []


@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable_ids"])
def test_every_index_answers_on_a_fresh_table(tmp_path: Path, stable_row_ids: bool) -> None:
    uri = str(tmp_path)
    indexed(uri, stable_row_ids=stable_row_ids)
    for condition, index in zip(
        ("x = 17", "k = 'beta'", "y < 3", "z = 33", "contains(s, 'alpha')"), INDEXES, strict=False
    ):
        check(uri, condition, index=index)


def test_branches_and_clones_read_indexes_of_their_base(tmp_path: Path, warnings: list[str]) -> None:
    uri, clone = str(tmp_path / "table"), str(tmp_path / "clone")
    indexed(uri)
    lance_spark.open(uri).shallow_clone(clone)
    check_all(clone, CONDITIONS)
    assert "index: tree (BTREE)" in lance_spark.open(clone).explain("x = 17")
    branch = lance_spark.open(uri).create_branch("side")
    assert branch.count_rows("x = 17") == branch.count_rows("x = 17", use_scalar_index=False)
    assert "index: tree (BTREE)" in branch.explain("x = 17")
    assert warnings == []


def test_older_versions_use_their_own_indexes(tmp_path: Path) -> None:
    uri = str(tmp_path)
    indexed(uri)
    version = lance.dataset(uri).version
    before = lance_spark.open(uri).count_rows("x = 17")
    lance.dataset(uri).update({"x": "17"}, where="id < 50")
    old = lance_spark.open(uri, version=version)
    assert old.count_rows("x = 17") == before
    assert "index: tree" in old.explain("x = 17")
    restored = lance_spark.open(uri).restore(version)
    assert restored.count_rows("x = 17") == before
    check_all(uri, CONDITIONS)


def test_renamed_and_rewritten_columns(tmp_path: Path, warnings: list[str]) -> None:
    uri = str(tmp_path)
    indexed(uri)
    lance_spark.open(uri).rename_columns({"x": "renamed"})
    check(uri, "renamed = 17", index="tree")
    lance.dataset(uri).drop_columns(["k"])
    lance.dataset(uri).add_columns({"k": "cast('beta' as string)"})
    assert lance_spark.open(uri).count_rows("k = 'beta'") == 240
    assert warnings == []


def test_column_names_fold_case(tmp_path: Path) -> None:
    uri = str(tmp_path)
    indexed(uri)
    check(uri, "X = 17 OR x = 3", reference="x = 17 OR x = 3", index="tree")


def all_numbers() -> bytes:
    """A bitmap of all numbers of 32 bits, in some runs."""
    bitmap = pyroaring.BitMap(range(1 << 32))
    bitmap.run_optimize()
    data: bytes = bitmap.serialize()
    return data


@pytest.mark.parametrize(
    "change",
    [
        lambda message: setattr(message, "index_version", 99),
        lambda message: setattr(message.index_details, "type_url", "/lance.table.SomethingNew"),
        lambda message: message.ClearField("index_details"),
        lambda message: message.ClearField("fragment_bitmap"),
        lambda message: setattr(message, "fragment_bitmap", b"no bitmap"),
        lambda message: setattr(message, "fragment_bitmap", all_numbers()),
        lambda message: setattr(message, "base_id", 77),
        lambda message: message.fields.append(0),
        lambda message: message.files.clear() or message.files.add(path="page_data.lance", size_bytes=7),
    ],
    ids=[
        "version",
        "type",
        "no_type",
        "no_bitmap",
        "bad_bitmap",
        "large_bitmap",
        "unknown_base",
        "two_fields",
        "wrong_size",
    ],
)
def test_indexes_that_are_not_understood_are_not_used(
    tmp_path: Path, change: Callable[[table_pb2.IndexMetadata], None]
) -> None:
    uri = str(tmp_path)
    write(uri, {"x": repeated([1, 2, 3], 30, pa.int64())}).create_scalar_index("x", "BTREE")
    dataset = changed_metadata(uri, change)
    assert dataset.count_rows("x = 2") == 10
    assert dataset.explain("x = 2").splitlines()[1:] == ["scanned without index: fragments 0"]


def test_file_sizes_may_be_missing(tmp_path: Path) -> None:
    uri = str(tmp_path)
    write(uri, {"x": repeated([1, 2, 3], 30, pa.int64())}).create_scalar_index("x", "BTREE")
    dataset = changed_metadata(uri, lambda message: message.files.clear())
    assert "index: x_idx" in dataset.explain("x = 2")
    assert dataset.count_rows("x = 2") == 10


def test_broken_index_section_costs_a_warning(tmp_path: Path, warnings: list[str]) -> None:
    uri = str(tmp_path)
    write(uri, {"x": repeated([1, 2, 3], 30, pa.int64())})
    dataset = lance_spark.open(uri)
    broken = type(dataset)(dataset.location, replace(dataset.manifest, index_section=b"\xff\xff"))
    assert broken.count_rows("x = 2") == 10
    assert len(warnings) == 1


def test_metadata_of_a_foreign_index_is_kept_apart(tmp_path: Path) -> None:
    """An index without files that says it covers everything gives a warning and a scan."""
    uri = str(tmp_path)
    write(uri, {"x": repeated([1, 2, 3], 30, pa.int64())})
    message = IndexMetadata.of(bytes(16), "x_idx", [1], 1, [0]).message
    message.index_details.type_url = "/lance.table.BTreeIndexDetails"
    dataset = lance_spark.open(uri)
    section = table_pb2.IndexSection(indices=[message]).SerializeToString()
    assert type(dataset)(dataset.location, replace(dataset.manifest, index_section=section)).count_rows("x = 2") == 10
