"""Indexes stay right, or are left unused, through whatever happens to their table."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import lance
import pyarrow as pa
import pyroaring
import pytest
from lance.indices import IndexConfig

import lance_spark
from lance_spark._proto import table_pb2
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import parse_indices
from tests.index.comparisons import ID, append, check, check_all, ids, repeated, write
from tests.support.history_seeds import seeds

WORDS = ["alpha", "beta", "gamma", None, "alphabet", ""]
INDEXES: dict[str, tuple[str, str | IndexConfig]] = {
    "tree": ("x", IndexConfig("btree", {"zone_size": 16})),
    "map": ("k", "BITMAP"),
    "zones": ("y", IndexConfig("zonemap", {"rows_per_zone": 10})),
    "bloom": ("z", IndexConfig("bloomfilter", {"number_of_items": 20, "probability": 0.01})),
    "grams": ("s", "NGRAM"),
    "labels": ("l", "LABEL_LIST"),
}
CONDITIONS: tuple[str | tuple[str, str], ...] = (
    "x = 17",
    "x < 9 OR x IS NULL",
    "NOT (x >= 5)",
    "k = 'beta'",
    "k <> 'alpha' AND x < 30",
    "k IS NULL",
    "y BETWEEN 40 AND 55",
    "y IS NULL",
    "z = 33",
    "z IN (1, 90, 4000)",
    "contains(s, 'alpha')",
    "s LIKE '%amm%'",
    ("array_contains(l, 3)", "array_has(l, 3)"),
    ("NOT array_contains(l, 3)", "NOT array_has(l, 3)"),
    "x < 40 AND y > 20 AND z <> 7 AND contains(s, 'bet')",
)


def rows(num_rows: int, seed: int) -> dict[str, pa.Array]:
    draw = random.Random(seed)

    def numbers() -> pa.Array:
        return pa.array([draw.choice([None, draw.randrange(100)]) if draw.random() < 0.2 else draw.randrange(100)
                         for _ in range(num_rows)], pa.int64())  # fmt: skip

    words = pa.array([draw.choice(WORDS) for _ in range(num_rows)], pa.string())
    lists = pa.array([draw.choice([None, [], [3], [1, 3], [2]]) for _ in range(num_rows)], pa.list_(pa.int64()))
    return {"x": numbers(), "k": words, "y": numbers(), "z": numbers(), "s": words, "l": lists}


def indexed(uri: str, *, stable_row_ids: bool = False) -> None:
    dataset = write(uri, rows(240, 1), rows_per_file=80, stable_row_ids=stable_row_ids)
    for name, (column, config) in INDEXES.items():
        dataset.create_scalar_index(column, config, name=name)


class History:
    """Random changes by both libraries."""

    def __init__(self, uri: str, seed: int) -> None:
        self._uri = uri
        self._draw = random.Random(seed)
        self._next_id = 10_000
        self.steps: list[str] = []

    def step(self) -> None:
        change: Callable[[], object] = self._draw.choice(
            [
                self.append,
                self.delete,
                self.own_delete,
                self.update,
                self.own_update,
                self.merge,
                self.optimize_indices,
                self.own_optimize_indices,
                self.own_build,
                self.compact,
                self.own_compact,
            ]
        )
        self.steps.append(change.__name__)
        change()

    def _some(self) -> str:
        return f"id % 17 = {self._draw.randrange(17)}"

    def append(self) -> None:
        append(self._uri, rows(40, self._draw.randrange(1000)), first_id=self._next_id)
        self._next_id += 1000

    def delete(self) -> None:
        lance.dataset(self._uri).delete(self._some())

    def own_delete(self) -> None:
        lance_spark.open(self._uri).delete(self._some())

    def update(self) -> None:
        column, value = self._draw.choice([("x", "17"), ("k", "'beta'"), ("y", "50"), ("z", "33"), ("s", "'gamma'")])
        lance.dataset(self._uri).update({column: value}, where=self._some())

    def own_update(self) -> None:
        column, value = self._draw.choice([("x", "17"), ("k", "'beta'"), ("y", "50"), ("z", "33"), ("s", "'gamma'")])
        lance_spark.open(self._uri).update({column: value}, self._some())

    def merge(self) -> None:
        known = ids(lance.dataset(self._uri).to_table(columns=[ID]))
        chosen = self._draw.sample(known, min(10, len(known)))
        new = pa.table({ID: pa.array(chosen, pa.int64()), **rows(len(chosen), self._draw.randrange(1000))})
        lance.dataset(self._uri).merge_insert(ID).when_matched_update_all().execute(new)

    def optimize_indices(self) -> None:
        lance.dataset(self._uri).optimize.optimize_indices(num_indices_to_merge=self._draw.choice([0, 1, 9]))

    def own_optimize_indices(self) -> None:
        lance_spark.open(self._uri).optimize_indices(num_indices_to_merge=self._draw.choice([0, 1, 9]))

    def own_build(self) -> None:
        name = self._draw.choice(sorted(INDEXES))
        column, config = INDEXES[name]
        kind = config if isinstance(config, str) else config.index_type
        lance_spark.open(self._uri).create_scalar_index(column, kind, name, num_segments=self._draw.choice([1, 2]))

    def compact(self) -> None:
        lance.dataset(self._uri).optimize.compact_files(target_rows_per_fragment=self._draw.choice([100, 1000]))

    def own_compact(self) -> None:
        lance_spark.open(self._uri).compact()


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


def changed_metadata(uri: str, change: Callable[[table_pb2.IndexMetadata], None]) -> lance_spark.Dataset:
    """The table as if its index metadata were other ones."""
    dataset = lance_spark.open(uri)
    section = table_pb2.IndexSection()
    for index in parse_indices(dataset.manifest.index_section):
        message = table_pb2.IndexMetadata()
        message.CopyFrom(index.message)
        change(message)
        section.indices.append(message)
    return type(dataset)(dataset.location, replace(dataset.manifest, index_section=section.SerializeToString()))


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
