"""BTREE indexes that this library builds, extends and merges: answers are those of a scan, in both libraries."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lance.file import LanceFileReader
from lance.indices import IndexConfig

import lance_spark
from lance_spark.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from tests.index.builds import both, own_folders
from tests.index.comparisons import append, ids, repeated, write

NAN = float("nan")


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asks the indexes of tables that are so small that reading them is cheaper."""
    monkeypatch.setattr("lance_spark.index.btree._SPREAD_SHARE", float("inf"))


TYPES: dict[str, tuple[pa.DataType, list[object], list[str]]] = {
    "int8": (pa.int8(), [5, -3, None, 127, -128], ["x = 5", "x < 0", "x IS NULL", "NOT (x >= 5)", "x IN (5, 127)"]),
    "uint64": (pa.uint64(), [5, None, 2**64 - 1, 0], ["x = 5", "x > 5", "x IS NOT NULL", "x <> 5"]),
    "int64": (pa.int64(), [5, None, -(2**63), 2**63 - 1], ["x = 5", "x < 0", "x BETWEEN 0 AND 10"]),
    "float32": (pa.float32(), [1.5, None, NAN, -0.0, 0.0, float("-inf")], ["x = 0.0", "x > 1.0", "x < 0.0"]),
    "float64": (pa.float64(), [1.5, None, NAN, -0.0, 0.0, float("inf")], ["x = 0.0", "x >= 1.5", "NOT (x > 1)"]),
    "bool": (pa.bool_(), [True, None, False], ["x", "NOT x", "x IS NULL"]),
    "string": (pa.string(), ["b", None, "", "bä", "a\U0001f600"], ["x = 'b'", "x >= 'b'", "x LIKE 'b%'", "x = ''"]),
    "large_string": (pa.large_string(), ["b", None, "", "bb"], ["x = 'b'", "x > 'b'"]),
    "binary": (pa.binary(), [b"b", None, b"", b"\xff\x00"], ["x = X'62'", "x > X'62'"]),
    "date": (pa.date32(), [datetime.date(2020, 1, 2), None, datetime.date(1960, 1, 1)], ["x = DATE '2020-01-02'"]),
    "decimal": (pa.decimal128(10, 2), [decimal.Decimal("1.25"), None, decimal.Decimal("-3.00")], ["x IS NULL"]),
    "timestamp": (
        pa.timestamp("us"),
        [datetime.datetime(2020, 1, 2), None, datetime.datetime(1960, 1, 1)],
        ["x < TIMESTAMP '2000-01-01 00:00:00'"],
    ),
}


@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable_ids"])
@pytest.mark.parametrize("name", TYPES)
def test_btree_of_each_type_answers_as_a_scan(tmp_path: Path, name: str, stable_row_ids: bool) -> None:
    uri = str(tmp_path)
    dtype, values, conditions = TYPES[name]
    write(uri, {"x": repeated(values, 50, dtype)}, rows_per_file=20, stable_row_ids=stable_row_ids)
    lance_spark.open(uri).delete("id IN (3, 20, 21)")
    lance_spark.open(uri).create_scalar_index("x", "btree", zone_size=8)
    append(uri, {"x": repeated(values, 7, dtype)}, first_id=100)
    for condition in conditions:
        both(uri, condition, index="x_idx", used=False)
    lance_spark.open(uri).optimize_indices()
    for condition in conditions:
        both(uri, condition, index="x_idx")


def test_files_and_metadata_are_those_of_pylance(tmp_path: Path) -> None:
    uri = str(tmp_path)
    values = pa.array([3, None, 1, 2, None, 9, 7], pa.int64())
    write(uri, {"x": values}, rows_per_file=4)
    lance.dataset(uri).create_scalar_index("x", IndexConfig("btree", {"zone_size": 3}), name="theirs")
    lance_spark.open(uri).create_scalar_index("x", "BTREE", name="ours", zone_size=3)
    own, theirs = sorted(lance_spark.open(uri).indices(), key=lambda index: index.name)
    for name in ("page_data.lance", "page_lookup.lance"):
        files = [LanceFileReader(f"{uri}/_indices/{index.uuid}/{name}") for index in (own, theirs)]
        tables = [file.read_all().to_table() for file in files]
        assert tables[0].schema.equals(tables[1].schema)
        assert tables[0].column_names[0] != "values" or tables[0]["values"].equals(tables[1]["values"])
        assert files[0].metadata().schema.metadata == files[1].metadata().schema.metadata
        assert (files[0].metadata().major_version, files[0].metadata().minor_version) == (2, 2)
    assert own.message.index_details == theirs.message.index_details
    assert own.message.fragment_bitmap == theirs.message.fragment_bitmap
    assert own.message.index_version == theirs.message.index_version
    assert [file.path for file in own.message.files] == [file.path for file in theirs.message.files]
    for file in own.message.files:
        assert (tmp_path / "_indices" / own.uuid / file.path).stat().st_size == file.size_bytes
    assert own.message.created_at >= theirs.message.created_at > 0


def test_floats_are_in_total_order(tmp_path: Path) -> None:
    uri = str(tmp_path)
    bits = np.array([0x7FF8 << 48, 0xFFF8 << 48, 0, 1 << 63, 0x7FF0 << 48, 0xFFF0 << 48, 0x3FF0 << 48], np.uint64)
    write(uri, {"x": pa.array(bits.view(np.float64))})
    lance_spark.open(uri).create_scalar_index("x", "BTREE", name="ours")
    lance.dataset(uri).create_scalar_index("x", "BTREE", name="theirs")
    found = [
        LanceFileReader(f"{uri}/_indices/{index.uuid}/page_data.lance").read_all().to_table()
        for index in lance_spark.open(uri).indices()
    ]
    assert found[0]["ids"].equals(found[1]["ids"])


@pytest.mark.slow
@pytest.mark.parametrize("merged", [0, 1, 9])
@pytest.mark.parametrize("stable_row_ids", [False, True], ids=["addresses", "stable_ids"])
def test_segments_are_extended_and_merged_by_both_libraries_in_turn(
    tmp_path: Path, stable_row_ids: bool, merged: int
) -> None:
    uri = str(tmp_path)
    write(uri, {"x": repeated([4, None, 7, 1], 40, pa.int64())}, rows_per_file=15, stable_row_ids=stable_row_ids)
    lance_spark.open(uri).create_scalar_index("x", "BTREE", zone_size=8)
    for turn in range(4):
        append(uri, {"x": repeated([7, None, 50 + turn], 9, pa.int64())}, first_id=1000 * (turn + 1))
        lance_spark.open(uri).delete(f"id % 11 = {turn}")
        lance_spark.open(uri).update({"x": "7"}, f"id % 13 = {turn}")
        if turn % 2:
            lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=merged)
        else:
            lance_spark.open(uri).optimize_indices(num_indices_to_merge=merged)
        statistics = lance_spark.open(uri).index_statistics("x_idx")
        assert statistics["num_unindexed_rows"] == 0
        assert statistics == statistics | {
            key: value
            for key, value in lance.dataset(uri).stats.index_stats("x_idx").items()
            if key in statistics and key not in ("segments", "updated_at_timestamp_ms")
        }
        for condition in ("x = 7", "x IS NULL", "x > 5", "x <> 7", f"x = {50 + turn}", "NOT (x < 5)"):
            both(uri, condition, index="x_idx")


def test_optimize_makes_the_segments_that_were_asked_for(tmp_path: Path) -> None:
    uri = str(tmp_path)
    write(uri, {"x": repeated([4, None, 7, 1], 40, pa.int64())}, rows_per_file=20)
    table = lance_spark.open(uri).create_scalar_index("x", "BTREE")
    assert table.optimize_indices().version == table.version
    append(uri, {"x": repeated([1], 5, pa.int64())}, first_id=100)
    table = lance_spark.open(uri).optimize_indices(num_indices_to_merge=0)
    assert [sorted(index["fragment_ids"]) for index in table.list_indices()] == [[0, 1], [2]]
    assert [index["version"] for index in table.list_indices()] == [1, 3]
    append(uri, {"x": repeated([1], 5, pa.int64())}, first_id=200)
    table = lance_spark.open(uri).optimize_indices("x_idx")
    assert [sorted(index["fragment_ids"]) for index in table.list_indices()] == [[0, 1], [2, 3]]
    table = table.optimize_indices(num_indices_to_merge=2)
    assert [sorted(index["fragment_ids"]) for index in table.list_indices()] == [[0, 1, 2, 3]]
    assert table.list_indices()[0]["version"] == 1
    before = table.indices()[0].uuid
    table = table.optimize_indices(retrain=True)
    assert table.indices()[0].uuid != before
    assert table.list_indices()[0]["version"] == table.version - 1


def test_several_segments_and_segments_built_apart(tmp_path: Path) -> None:
    uri = str(tmp_path)
    write(uri, {"x": repeated([4, None, 7, 1], 40, pa.int64())}, rows_per_file=10)
    table = lance_spark.open(uri).create_scalar_index("x", "BTREE", num_segments=3)
    assert [sorted(index["fragment_ids"]) for index in table.list_indices()] == [[0], [1], [2, 3]]
    both(uri, "x = 7", index="x_idx")
    parts = [table.build_index_segment("x", "BTREE", "x_idx", fragments) for fragments in ([0, 1], [2, 3])]
    assert lance_spark.open(uri).version == table.version
    restored = [type(part).from_bytes(part.to_bytes()) for part in parts]
    table = table.commit_indices(restored)
    assert [sorted(index["fragment_ids"]) for index in table.list_indices()] == [[0, 1], [2, 3]]
    both(uri, "x = 7", index="x_idx")


def test_untrained_index_is_filled_by_either_library(tmp_path: Path) -> None:
    uri = str(tmp_path)
    write(uri, {"x": repeated([4, None, 7, 1], 40, pa.int64()), "y": repeated([1, 2], 40, pa.int64())})
    lance_spark.open(uri).create_scalar_index("x", "BTREE", train=False)
    lance.dataset(uri).create_scalar_index("y", "BTREE", train=False)
    statistics = lance_spark.open(uri).index_statistics("x_idx")
    assert (statistics["num_indexed_rows"], statistics["num_unindexed_rows"]) == (0, 40)
    lance.dataset(uri).optimize.optimize_indices(index_names=["x_idx"])
    lance_spark.open(uri).optimize_indices("y_idx")
    assert len(lance_spark.open(uri).indices()) == 2
    both(uri, "x = 7", index="x_idx")
    both(uri, "y = 2", index="y_idx")


def test_nested_columns_and_default_names(tmp_path: Path) -> None:
    uri = str(tmp_path)
    dtype = pa.struct([("c", pa.struct([("d e", pa.int64())]))])
    write(uri, {"a": repeated([{"c": {"d e": 1}}, {"c": None}, None, {"c": {"d e": 2}}], 20, dtype)})
    table = lance_spark.open(uri).create_scalar_index("a.c.d e")
    assert [(index["name"], index["fields"]) for index in table.list_indices()] == [("a.c.d e_idx", ["a.c.d e"])]
    assert table.count_rows("a.c.`d e` = 2") == table.count_rows("a.c.`d e` = 2", use_scalar_index=False) == 5
    assert "index: a.c.d e_idx" in table.explain("a.c.`d e` = 2")
    assert lance.dataset(uri).count_rows("a.c.`d e` = 2") == 5


def test_same_name_is_replaced_in_one_version(tmp_path: Path) -> None:
    uri = str(tmp_path)
    write(uri, {"x": repeated([1, 2], 10, pa.int64()), "y": repeated([1, 2], 10, pa.int64())})
    table = lance_spark.open(uri).create_scalar_index("x")
    replaced = table.create_scalar_index("x")
    assert replaced.version == table.version + 1
    assert len(replaced.indices()) == 1
    assert replaced.indices()[0].uuid != table.indices()[0].uuid
    with pytest.raises(AlreadyExistsError, match="x_idx"):
        replaced.create_scalar_index("x", replace=False)
    with pytest.raises(InvalidInputError, match="over another column"):
        replaced.create_scalar_index("y", name="x_idx")
    assert own_folders(tmp_path) == {index.uuid for dataset in (table, replaced) for index in dataset.indices()}


@pytest.mark.parametrize(
    ("column", "kind", "parameters", "error", "words"),
    [
        ("nope", "BTREE", {}, NotFoundError, "nope"),
        ("x", "QUADTREE", {}, InvalidInputError, "QUADTREE"),
        ("x", "BTREE", {"batch_size": 3}, InvalidInputError, "zone_size"),
        ("x", "BTREE", {"zone_size": 0}, InvalidInputError, "zone_size"),
        ("x", "BTREE", {"train": "no"}, InvalidInputError, "train"),
        ("l", "BTREE", {}, InvalidInputError, "list"),
    ],
)
def test_what_cannot_be_built_is_refused(
    tmp_path: Path, column: str, kind: str, parameters: dict[str, object], error: type[Exception], words: str
) -> None:
    uri = str(tmp_path)
    write(uri, {"x": repeated([1, 2], 10, pa.int64()), "l": repeated([[1]], 10, pa.list_(pa.int64()))})
    with pytest.raises(error, match=words):
        lance_spark.open(uri).create_scalar_index(column, kind, **parameters)
    assert lance_spark.open(uri).version == 1
    assert own_folders(tmp_path) == set()


@pytest.mark.parametrize("name", ["page_data.lance", "page_lookup.lance"])
@pytest.mark.parametrize("num_added", [0, 5])
def test_broken_segment_is_built_again_by_optimize(
    tmp_path: Path, warnings: list[str], num_added: int, name: str
) -> None:
    uri = str(tmp_path)
    write(uri, {"x": repeated([1, 2, None], 30, pa.int64())})
    (index,) = lance_spark.open(uri).create_scalar_index("x").indices()
    if num_added:
        append(uri, {"x": repeated([2], num_added, pa.int64())}, first_id=100)
    path = tmp_path / "_indices" / index.uuid / name
    path.write_bytes(path.read_bytes()[:-20])
    table = lance_spark.open(uri).optimize_indices()
    assert table.index_statistics("x_idx")["num_indexed_rows"] == 30 + num_added
    warnings.clear()
    both(uri, "x = 2", index="x_idx")
    assert warnings == []


def test_branch_and_clone_extend_an_index_of_their_base(tmp_path: Path) -> None:
    uri, clone_uri = str(tmp_path / "t"), str(tmp_path / "c")
    write(uri, {"x": repeated([1, 2, None], 30, pa.int64())})
    table = lance_spark.open(uri).create_scalar_index("x")
    branch = table.create_branch("side")
    clone = table.shallow_clone(clone_uri)
    for dataset in (branch, clone):
        before = dataset.count_rows("x = 2")
        changed = dataset.update({"x": "2"}, "id < 5").optimize_indices()
        assert changed.index_statistics("x_idx")["num_unindexed_rows"] == 0
        assert changed.count_rows("x = 2") == changed.count_rows("x = 2", use_scalar_index=False) > before
        assert all(index["base_id"] is None for index in changed.list_indices())
    both(clone_uri, "x = 2", index="x_idx")
    assert lance_spark.open(uri).count_rows("x = 2") == 10


def test_empty_table_has_an_index(tmp_path: Path) -> None:
    uri = str(tmp_path)
    lance.write_dataset(pa.table({"id": pa.array([], pa.int64()), "x": pa.array([], pa.int64())}), uri)
    lance_spark.open(uri).create_scalar_index("x")
    assert lance.dataset(uri).count_rows("x = 1") == 0
    append(uri, {"x": repeated([1, 2], 4, pa.int64())}, first_id=0)
    lance.dataset(uri).optimize.optimize_indices()
    both(uri, "x = 1", index="x_idx")
    assert ids(lance_spark.open(uri).to_table(filter="x = 1")) == [0, 2]


def test_bounds_of_pages_hold_their_values(tmp_path: Path) -> None:
    uri = str(tmp_path)
    write(uri, {"x": repeated([4, None, 7, 1, 9], 30, pa.int64())})
    (index,) = lance_spark.open(uri).create_scalar_index("x", zone_size=7).indices()
    data = LanceFileReader(f"{uri}/_indices/{index.uuid}/page_data.lance").read_all().to_table()["values"]
    lookup = LanceFileReader(f"{uri}/_indices/{index.uuid}/page_lookup.lance").read_all().to_table().to_pylist()
    for page in lookup:
        values = data.slice(7 * page["page_idx"], 7)
        assert page["null_count"] == values.null_count
        assert page["max"] == pc.max(values).as_py()
        assert page["min"] == (None if values.null_count else pc.min(values).as_py())


def test_large_segments_are_merged_and_searched_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lance_spark.index.btree._ENTRIES_AT_ONCE", 700)
    monkeypatch.setattr("lance_spark.index.btree._PAGES_AT_ONCE", 2)
    rng = np.random.default_rng(4)
    texts = [None if number % 9 == 0 else f"text {number % 613}" for number in rng.integers(0, 5000, 5000).tolist()]
    rows = pa.table({"x": pa.array(texts), "id": np.arange(5000)})
    dataset = lance_spark.write(rows, str(tmp_path), max_rows_per_file=1500)
    dataset = dataset.create_scalar_index("x", "BTREE", zone_size=256)
    dataset = dataset.delete("id % 7 = 3").append(rows.slice(0, 900)).compact()
    for merged in (0, 10):
        dataset = dataset.optimize_indices(num_indices_to_merge=merged)
        for condition in ("x >= 'text 33' AND x < 'text 51'", "x LIKE 'text 1%'", "x IS NULL", "x <> 'text 5'"):
            found = dataset.to_table(filter=condition)
            assert found == dataset.to_table(filter=condition, use_scalar_index=False)
            assert dataset.explain(condition).endswith("scanned without index: none") or "<>" in condition
