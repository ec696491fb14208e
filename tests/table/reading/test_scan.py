"""Scans: columns, filters, limits, row ids, positions, and how much is read at a time."""

from __future__ import annotations

import pickle
import uuid
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_spark
from lance_spark.errors import CorruptFileError, InvalidInputError, NotFoundError
from lance_spark.table.location import TableLocation
from lance_spark.table.reading.selection import FragmentRows
from lance_spark.table.rows.fragment import DataFragment
from tests.support.equality import assert_tables_equal

ROWS = 3000


def table() -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "name": pa.array([None if i % 7 == 0 else f"name {i}" for i in range(ROWS)]),
            "point": pa.array(
                [None if i % 11 == 0 else {"x": i, "y": {"z": i / 2, "w": str(i)}} for i in range(ROWS)],
            ),
            "tags": pa.array([[f"t{j}" for j in range(i % 3)] for i in range(ROWS)], pa.list_(pa.string())),
        }
    )


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = str(tmp_path_factory.mktemp("scan") / "t")
    lance.write_dataset(table(), uri, max_rows_per_file=1000)
    lance.dataset(uri).delete("id % 10 = 3 OR id BETWEEN 1500 AND 1600")
    return uri


@pytest.fixture(scope="module")
def dataset(uri: str) -> lance_spark.Dataset:
    return lance_spark.open(uri)


@pytest.fixture(scope="module")
def live(uri: str) -> pa.Table:
    return lance.dataset(uri).to_table()


def test_all_columns(dataset: lance_spark.Dataset, live: pa.Table) -> None:
    assert_tables_equal(dataset.to_table(), live)
    assert dataset.schema == live.schema
    assert dataset.count_rows() == live.num_rows


@pytest.mark.parametrize(
    "columns",
    [["id"], ["tags", "id"], ["name", "point"], ["point.x", "id"], ["id", "point.y.w", "point.x"], ["`id`"]],
)
def test_columns_come_in_the_order_asked_for(uri: str, dataset: lance_spark.Dataset, columns: list[str]) -> None:
    assert_tables_equal(dataset.to_table(columns=columns), lance.dataset(uri).to_table(columns=columns))


def test_a_nested_column_brings_nothing_else_of_its_struct(dataset: lance_spark.Dataset) -> None:
    schema = dataset.plan(columns=["point.y.w", "point.x"]).arrow_schema
    assert schema == pa.schema(
        [pa.field("point", pa.struct([("x", pa.int64()), ("y", pa.struct([("w", pa.string())]))]))]
    )


def test_unknown_columns_are_named(dataset: lance_spark.Dataset) -> None:
    with pytest.raises(NotFoundError, match="nam"):
        dataset.scan(columns=["nam"])
    with pytest.raises(NotFoundError):
        dataset.scan(filter="nope = 1")
    with pytest.raises(InvalidInputError):
        dataset.scan(filter="id = ")
    with pytest.raises(InvalidInputError):
        dataset.scan(batch_size=0)


FILTERS = [
    ("id > 2500", "id > 2500"),
    ("name IS NULL", "name IS NULL"),
    ("name = 'name 5' OR id IN (1, 2, 3)", "name = 'name 5' OR id IN (1, 2, 3)"),
    ("point.x < 100 AND id % 2 = 0", "point.x < 100 AND id % 2 = 0"),
    ("point.y.z > 1400.0", "point.y.z > 1400.0"),
    ("id < 0", "id < 0"),
    ("id >= 0", "id >= 0"),
    ("name LIKE 'name 12%'", "name LIKE 'name 12%'"),
]


@pytest.mark.parametrize(("own", "committed"), FILTERS)
@pytest.mark.parametrize("columns", [None, ["id"], ["tags"], ["point.y.w"], ["id", "point.x"]])
def test_filters(uri: str, dataset: lance_spark.Dataset, own: str, committed: str, columns: list[str] | None) -> None:
    expected = lance.dataset(uri).to_table(filter=committed)["id"]
    assert dataset.to_table(columns=["id"], filter=own)["id"].to_pylist() == expected.to_pylist()
    assert dataset.count_rows(own) == len(expected)
    all_rows = dataset.to_table(columns=columns)
    ids = dataset.to_table(columns=["id"])["id"]
    keep = pa.compute.is_in(ids, value_set=expected.combine_chunks())
    filtered = dataset.to_table(columns=columns, filter=own)
    assert filtered.schema == all_rows.schema
    assert filtered.to_pylist() == all_rows.filter(keep).to_pylist()


@pytest.mark.parametrize("filter_", [None, "id % 3 = 0"])
@pytest.mark.parametrize("limit", [None, 0, 1, 250, 999, 5000])
@pytest.mark.parametrize("offset", [None, 0, 1, 850, 900, 2590, 2598, 2599, 9999])
def test_limit_and_offset(
    dataset: lance_spark.Dataset, live: pa.Table, filter_: str | None, limit: int | None, offset: int | None
) -> None:
    ids = [i for i in live["id"].to_pylist() if filter_ is None or i % 3 == 0]
    start = offset or 0
    expected = ids[start : None if limit is None else start + limit]
    found = dataset.to_table(columns=["id"], filter=filter_, limit=limit, offset=offset)
    assert found["id"].to_pylist() == expected


def test_negative_limits_are_refused(dataset: lance_spark.Dataset) -> None:
    with pytest.raises(InvalidInputError):
        dataset.scan(limit=-1)
    with pytest.raises(InvalidInputError):
        dataset.scan(offset=-1)


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
def test_batches_have_the_size_asked_for(dataset: lance_spark.Dataset, live: pa.Table, size: int) -> None:
    batches = list(dataset.scan(columns=["id"], batch_size=size))
    assert max(batch.num_rows for batch in batches) <= size
    assert [value for batch in batches for value in batch["id"].to_pylist()] == live["id"].to_pylist()
    fragments = 3
    assert len(batches) <= sum(-(-1000 // size) for _ in range(fragments))


@pytest.mark.parametrize("window_bytes", [200, 2000, 64_000])
@pytest.mark.parametrize("filter_", [None, "point.x % 5 = 1"])
def test_windows_do_not_change_the_rows(dataset: lance_spark.Dataset, window_bytes: int, filter_: str | None) -> None:
    def rows(window: int) -> list[dict[str, object]]:
        scan = dataset.plan(filter=filter_, window_bytes=window, batch_rows=16, with_row_address=True)
        fragments = dataset.fragments[:1] if window == 200 else dataset.fragments[:2]
        return [row for fragment in fragments for batch in scan.read([fragment]) for row in batch.to_pylist()]

    expected = rows(1 << 30)
    found = rows(window_bytes)
    assert found == expected[: len(found)]
    assert window_bytes == 200 or len(found) == len(expected)


def test_no_columns_still_count(dataset: lance_spark.Dataset, live: pa.Table) -> None:
    assert dataset.to_table(columns=[]).num_rows == live.num_rows
    assert sum(batch.num_rows for batch in dataset.scan(columns=[], filter="id < 100")) == 90


def test_system_columns(uri: str, dataset: lance_spark.Dataset) -> None:
    expected = lance.dataset(uri).scanner(columns=["id"], with_row_id=True, with_row_address=True).to_table()
    found = dataset.to_table(columns=["id"], with_row_id=True, with_row_address=True)
    assert_tables_equal(found, expected)
    reordered = dataset.to_table(columns=["_rowaddr", "id", "_rowid", "_fragid"], filter="id > 2990")
    assert reordered.column_names == ["_rowaddr", "id", "_rowid", "_fragid"]
    assert reordered["_fragid"].to_pylist() == [2] * 8
    address = reordered["_rowaddr"][3].as_py()
    assert dataset.to_table(columns=["id"], filter=f"_rowaddr = {address}")["id"].to_pylist() == [
        reordered["id"][3].as_py()
    ]
    assert dataset.count_rows(f"_rowid >= {address}") == 5


@pytest.mark.parametrize("count", [0, 1, 10, 500])
def test_take(uri: str, dataset: lance_spark.Dataset, count: int) -> None:
    rng = np.random.default_rng(count)
    indices = rng.integers(0, dataset.count_rows(), count)
    expected = lance.dataset(uri).take(indices.tolist())
    assert_tables_equal(dataset.take(indices), expected)
    assert_tables_equal(dataset.take(indices.tolist()), expected)
    assert dataset.take(indices, columns=["point.x"])["point"].type == pa.struct([("x", pa.int64())])


@pytest.mark.parametrize(
    "indices", [[-1], [2609], [0, 99999], [1 << 70], [1.5], [0, 1.5], [True], [0, None], ["a"], [[1]]]
)
def test_take_refuses_rows_that_are_not_there(dataset: lance_spark.Dataset, indices: list[int]) -> None:
    with pytest.raises(InvalidInputError):
        dataset.take(indices)


def test_a_plan_and_a_fragment_are_all_that_a_task_needs(dataset: lance_spark.Dataset, live: pa.Table) -> None:
    plan = pickle.loads(pickle.dumps(dataset.plan(columns=["id", "name"], filter="id < 2000")))
    fragments = [DataFragment.from_bytes(fragment.to_bytes()) for fragment in dataset.fragments]
    batches = [batch for fragment in fragments for batch in plan.read([fragment])]
    assert pa.Table.from_batches(batches)["id"].to_pylist() == [i for i in live["id"].to_pylist() if i < 2000]
    parts = [
        value
        for start in range(0, 1000, 300)
        for batch in plan.read([FragmentRows(fragments[0], start=start, stop=start + 300)])
        for value in batch["id"].to_pylist()
    ]
    assert parts == [i for i in live["id"].to_pylist() if i < 1000]


def test_a_manifest_that_contradicts_its_files_is_corrupt(tmp_path: Path) -> None:
    from dataclasses import replace

    from lance_spark.table.manifests.manifest_file import ManifestFile
    from lance_spark.table.rows.fragment import FragmentList

    uri = str(tmp_path / "t")
    lance_spark.write(pa.table({"a": range(10)}), uri)
    location = TableLocation(uri)
    file = location.history.load_latest()
    wrong = [replace(fragment, physical_rows=11) for fragment in file.manifest.fragments]
    manifest = replace(file.manifest, fragments=FragmentList(fragment.to_proto() for fragment in wrong))
    location.store.put("_versions/18446744073709551614.manifest", ManifestFile(manifest, None).encode())
    with pytest.raises(CorruptFileError, match="10 rows"):
        lance_spark.open(uri).to_table()


@pytest.mark.parametrize("delete", ["false", "a % 7 = 3", "a < 100"])
def test_filters_return_the_columns_asked_for(tmp_path: Path, delete: str) -> None:
    """The filter reads columns in steps; some are returned, some needed by a later step, some by neither."""
    uri = str(tmp_path / "t")
    random = np.random.default_rng(1).random(300)
    rows = {"a": range(300), "s": [f"text {number}" for number in range(300)], "c": random}
    lance.write_dataset(pa.table(rows), uri, max_rows_per_file=130)
    lance.dataset(uri).delete(delete)
    dataset, reference = lance_spark.open(uri), lance.dataset(uri)
    texts, numbers = "s LIKE '%1%'", ("a >= 50", "a <> 60 AND a >= 50", "a < 0", "a >= 0", "c > 0.5 OR a = 3")
    for condition in (texts, *numbers, *(f"{number} AND {texts}" for number in numbers[:4])):
        for columns in (["a"], ["s"], ["c"], ["c", "a"], []):
            found = dataset.to_table(columns, filter=condition, with_row_address=True)
            assert found.equals(reference.to_table(columns, filter=condition, with_row_address=True))
            plain = dataset.to_table(columns, filter=condition)
            assert plain.num_rows == found.num_rows
            assert plain.equals(found.drop_columns(["_rowaddr"])) or not columns


def test_row_counts_that_old_manifests_do_not_have_come_from_the_files(tmp_path: Path) -> None:
    from dataclasses import replace

    from lance_spark.table.manifests.manifest_file import ManifestFile
    from lance_spark.table.rows.fragment import FragmentList

    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": range(100)}), uri, max_rows_per_file=40)
    lance.dataset(uri).delete("a < 50")
    location = TableLocation(uri)
    file = location.history.load_latest()
    old = [
        replace(
            fragment,
            physical_rows=None,
            deletion_file=fragment.deletion_file and replace(fragment.deletion_file, num_deleted_rows=None),
        )
        for fragment in file.manifest.fragments
    ]
    manifest = replace(
        file.manifest, fragments=FragmentList(fragment.to_proto() for fragment in old), file_version=None
    )
    location.store.put("_versions/18446744073709551613.manifest", ManifestFile(manifest, None).encode())
    dataset = lance_spark.open(uri)
    assert dataset.count_rows() == 50
    assert dataset.to_table()["a"].to_pylist() == list(range(50, 100))
    assert dataset.take([49, 0, 29, 30])["a"].to_pylist() == [99, 50, 79, 80]
    assert manifest.fragments.row_ends() is None
    assert file.manifest.fragments.row_ends().tolist() == [30, 50]
    assert dataset.to_table(limit=2, offset=35)["a"].to_pylist() == [85, 86]


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_against_a_plain_list(data: st.DataObject) -> None:
    uri = f"memory://scan-{uuid.uuid4().hex}"
    values = data.draw(st.lists(st.one_of(st.none(), st.integers(-5, 5)), min_size=1, max_size=60))
    size = data.draw(st.integers(1, 20))
    lance_spark.write(pa.table({"v": pa.array(values, pa.int64())}), uri, max_rows_per_file=size)
    dataset = lance_spark.open(uri)
    bound = data.draw(st.integers(-6, 6))
    kept = [value for value in values if value is not None and value > bound]
    assert dataset.to_table(filter=f"v > {bound}")["v"].to_pylist() == kept
    offset, limit = data.draw(st.integers(0, 70)), data.draw(st.integers(0, 70))
    assert dataset.to_table(limit=limit, offset=offset)["v"].to_pylist() == values[offset : offset + limit]
    indices = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=20))
    assert dataset.take(indices)["v"].to_pylist() == [values[index] for index in indices]


def test_a_part_of_a_blobs_description_is_a_column(tmp_path: Path) -> None:
    blob = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    rows = pa.table([pa.array([b"x" * 10, None, b""]), [1, 2, 3]], schema=pa.schema([blob, pa.field("i", pa.int64())]))
    uri = str(tmp_path / "t")
    reference = lance.write_dataset(rows, uri, data_storage_version="2.2")
    table = lance_spark.open(uri)
    assert_tables_equal(table.to_table(columns=["b.size"]), reference.to_table(columns=["b.size"]))
    assert table.to_table(columns=["i"], filter="b.size = 10")["i"].to_pylist() == [1]
    assert table.to_table(columns=["i", "b.kind"], filter="b IS NULL").to_pylist() == [{"i": 2, "b.kind": None}]
