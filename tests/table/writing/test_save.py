"""Writing tables: modes, schemas, limits, stable row ids, mixed file versions, failures; read by the reference."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import lance
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.storage import open_store
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.features import FeatureFlag
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.writing.file_limits import FileLimits
from lance_spark.table.writing.row_source import RowSource
from lance_spark.table.writing.save import CommitOptions, commit_append, commit_overwrite, plan_write
from lance_spark.table.writing.write import FragmentWriter, write_fragments
from tests.support.equality import assert_tables_equal


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


POINT = pa.struct([("x", pa.int64()), ("l", pa.list_(pa.string()))])


def wide(num_rows: int, start: int = 0) -> pa.Table:
    numbers = range(start, start + num_rows)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "name": pa.array([None if i % 5 == 0 else f"n{i}" for i in numbers], pa.string()),
            "vector": pa.array([[float(i), 0.5] for i in numbers], pa.list_(pa.float32(), 2)),
            "point": pa.array([{"x": i, "l": [str(i)] * (i % 3)} for i in numbers], POINT),
            "flag": pa.array([i % 2 == 0 for i in numbers], pa.bool_()),
        }
    )


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "t")


def test_create_append_overwrite_read_by_pylance(uri: str) -> None:
    first = lance_spark.write(wide(100), uri)
    assert (first.version, first.count_rows()) == (1, 100)
    assert_tables_equal(lance.dataset(uri).to_table(), wide(100))
    second = lance_spark.write(wide(50, 100), uri, mode="append")
    assert second.version == 2
    assert_tables_equal(lance.dataset(uri).to_table(), wide(150))
    assert first.count_rows() == 100, "a dataset stays at its version"
    third = lance_spark.write(rows(1, 2), uri, mode="overwrite")
    assert third.version == 3
    assert third.schema.names == ["a"]
    assert_tables_equal(lance.dataset(uri).to_table(), rows(1, 2))
    for version, expected in ((1, wide(100)), (2, wide(150)), (3, rows(1, 2))):
        assert_tables_equal(lance_spark.open(uri, version=version).to_table(), expected)
        assert_tables_equal(lance.dataset(uri, version=version).to_table(), expected)
    assert [entry.version for entry in third.versions()] == [1, 2, 3]


def test_pylance_goes_on_with_our_table(uri: str) -> None:
    lance_spark.write(wide(200), uri, max_rows_per_file=60)
    dataset = lance.dataset(uri)
    assert [len(fragment.to_table()) for fragment in dataset.get_fragments()] == [60, 60, 60, 20]
    dataset.delete("id % 3 = 0")
    dataset.update({"name": "'new'"}, where="id = 1")
    dataset.add_columns({"twice": "id * 2"})
    dataset.create_scalar_index("id", "BTREE")
    lance_spark.write(wide(10, 500).append_column("twice", pa.array(range(1000, 1020, 2))), uri, mode="append")
    dataset = lance.dataset(uri)
    dataset.optimize.compact_files(target_rows_per_fragment=1000)
    dataset.optimize.optimize_indices()
    dataset.validate()
    assert_tables_equal(lance_spark.open(uri).to_table(), lance.dataset(uri).to_table())
    assert lance.dataset(uri).to_table(filter="id = 505")["twice"].to_pylist() == [1010]


def test_modes_that_do_not_fit(uri: str) -> None:
    with pytest.raises(NotFoundError):
        lance_spark.open(uri)
    with pytest.raises(InvalidInputError, match="mode"):
        lance_spark.write(rows(1), uri, mode="replace")
    lance_spark.write(rows(1), uri)
    with pytest.raises(InvalidInputError, match="exists"):
        lance_spark.write(rows(2), uri)
    assert lance_spark.open(uri).to_table() == rows(1)


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_append_and_overwrite_create_a_missing_table(uri: str, mode: str) -> None:
    assert lance_spark.write(rows(1), uri, mode=mode).version == 1
    assert_tables_equal(lance.dataset(uri).to_table(), rows(1))


def batches(*tables: pa.Table) -> Iterator[pa.RecordBatch]:
    for table in tables:
        yield from table.to_batches()


@pytest.mark.parametrize(
    "data",
    [
        wide(10),
        wide(10).combine_chunks().to_batches()[0],
        pa.RecordBatchReader.from_batches(wide(1).schema, wide(10).to_batches()),
        batches(wide(4), wide(6, 4)),
        [wide(4), wide(6, 4)],
    ],
    ids=["table", "batch", "reader", "generator", "list"],
)
def test_what_can_be_written(uri: str, data: object) -> None:
    assert_tables_equal(lance_spark.write(data, uri).to_table(), wide(10))


def test_pandas(uri: str) -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    dataset = lance_spark.write(frame, uri)
    assert dataset.schema == pa.schema([("a", pa.int64()), ("b", pa.string())])
    assert lance.dataset(uri).to_table().to_pylist() == [{"a": 1, "b": "x"}, {"a": 2, "b": None}]


@pytest.mark.parametrize("data", [3, "rows", {"a": 1}, [1, 2], []])
def test_what_cannot_be_written(uri: str, data: object) -> None:
    with pytest.raises(InvalidInputError):
        lance_spark.write(data, uri)
    assert not Path(uri).exists() or not list(Path(uri).rglob("*.manifest"))


def test_empty_tables(uri: str) -> None:
    dataset = lance_spark.write(wide(0), uri)
    assert dataset.count_rows() == 0
    assert dataset.to_table().schema == wide(0).schema
    assert len(dataset.fragments) == 0
    assert lance.dataset(uri).to_table().num_rows == 0
    lance_spark.write(wide(0), uri, mode="append")
    lance_spark.write([], uri, mode="append", schema=wide(0).schema)
    lance_spark.write(wide(3), uri, mode="append")
    assert_tables_equal(lance.dataset(uri).to_table(), wide(3))
    assert lance_spark.write([], uri, mode="overwrite", schema=rows().schema).schema.names == ["a"]


def test_files_are_split_by_rows(uri: str) -> None:
    data = batches(wide(70), wide(35, 70), wide(1, 105))
    dataset = lance_spark.write(data, uri, max_rows_per_file=25)
    assert [fragment.physical_rows for fragment in dataset.fragments] == [25, 25, 25, 25, 6]
    assert [fragment.id for fragment in dataset.fragments] == [0, 1, 2, 3, 4]
    assert_tables_equal(lance.dataset(uri).to_table(), wide(106))
    for limit in (0, -1):
        with pytest.raises(InvalidInputError):
            lance_spark.write(rows(1), uri, mode="append", max_rows_per_file=limit)


@pytest.mark.slow
def test_files_are_split_by_bytes(uri: str) -> None:
    rng = np.random.default_rng(1)
    table = pa.table({"v": pa.array(rng.integers(0, 1 << 62, 12_000_000))})
    dataset = lance_spark.write(table, uri, max_rows_per_file=1 << 30, max_bytes_per_file=30 << 20)
    sizes = [file.size_bytes for fragment in dataset.fragments for file in fragment.files]
    assert len(sizes) >= 3
    assert max(size or 0 for size in sizes) < 80 << 20
    assert dataset.count_rows() == 12_000_000


def test_fragment_ids_are_never_used_again(uri: str) -> None:
    lance_spark.write(rows(*range(10)), uri, max_rows_per_file=2)
    assert [fragment.id for fragment in lance_spark.write(rows(1), uri, mode="overwrite").fragments] == [5]
    lance.dataset(uri).delete("true")
    assert [fragment.id for fragment in lance_spark.write(rows(1), uri, mode="append").fragments] == [6]
    lance_spark.write(rows(), uri, mode="overwrite")
    assert [fragment.id for fragment in lance_spark.write(rows(1), uri, mode="append").fragments] == [7]


def test_table_state_survives(uri: str) -> None:
    table = rows(1).replace_schema_metadata({"owner": "me"})
    lance_spark.write(table, uri)
    dataset = lance.dataset(uri)
    dataset.update_config({"lance.auto_cleanup.interval": "1000"})
    dataset.update_metadata({"k": "v"})
    dataset.create_scalar_index("a", "BTREE")
    dataset.tags.create("tagged", 2)
    appended = lance_spark.write(rows(2), uri, mode="append")
    assert appended.config == {"lance.auto_cleanup.interval": "1000"}
    assert appended.metadata == {"k": "v"}
    assert appended.schema.metadata == {b"owner": b"me"}
    assert appended.manifest.writer_flags == int(FeatureFlag.TABLE_CONFIG)
    assert [index.name for index in lance.dataset(uri).describe_indices()] == ["a_idx"]
    assert lance.dataset(uri).to_table(filter="a = 2").num_rows == 1
    assert lance_spark.open(uri, tag="tagged").version == 2
    overwritten = lance_spark.write(rows(3), uri, mode="overwrite")
    assert overwritten.config == {"lance.auto_cleanup.interval": "1000"}
    assert overwritten.metadata == {"k": "v"}
    assert not lance.dataset(uri).describe_indices()


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2", "stable"])
def test_file_versions(uri: str, version: str) -> None:
    lance_spark.write(wide(10), uri, file_format_version=version)
    number = "2.2" if version == "stable" else version
    assert lance.dataset(uri).data_storage_version == number
    lance_spark.write(wide(10, 10), uri, mode="append")
    assert {file.version.value for fragment in lance_spark.open(uri).fragments for file in fragment.files} == {number}
    assert_tables_equal(lance.dataset(uri).to_table(), wide(20))
    lance_spark.write(wide(5), uri, mode="overwrite")
    assert lance.dataset(uri).data_storage_version == number, "an overwrite keeps the version unless told"


@pytest.mark.parametrize("version", ["0.1", "2.3", "next", "nonsense"])
def test_file_versions_that_are_not_written(uri: str, version: str) -> None:
    with pytest.raises((UnsupportedFeatureError, InvalidInputError)):
        lance_spark.write(rows(1), uri, file_format_version=version)
    assert not list(Path(uri).rglob("*")) if Path(uri).exists() else True


def test_an_append_in_another_version_sets_the_mixed_flag_for_good(uri: str) -> None:
    lance_spark.write(wide(10), uri)
    mixed = lance_spark.write(wide(10, 10), uri, mode="append", file_format_version="2.1")
    assert mixed.manifest.reader_flags == mixed.manifest.writer_flags == 256
    assert lance.dataset(uri).data_storage_version == "2.2"
    assert_tables_equal(lance.dataset(uri).to_table(), wide(20))
    lance.write_dataset(wide(5, 20), uri, mode="append")
    again = lance_spark.write(wide(5, 25), uri, mode="append")
    assert again.manifest.reader_flags & again.manifest.writer_flags & 256
    assert_tables_equal(lance.dataset(uri).to_table(), wide(30))


def test_append_of_newer_files_to_an_older_table(uri: str) -> None:
    lance.write_dataset(rows(1), uri, data_storage_version="2.0")
    lance_spark.write(rows(2), uri, mode="append", file_format_version="2.1")
    assert_tables_equal(lance.dataset(uri).to_table(), rows(1, 2))
    lance_spark.write(rows(3), uri, mode="overwrite")
    assert lance.dataset(uri).data_storage_version == "2.0", "an overwrite keeps the version unless told"


def test_legacy_files_do_not_mix(uri: str) -> None:
    lance.write_dataset(rows(1), uri, data_storage_version="legacy")
    with pytest.raises(InvalidInputError, match="overwrite"):
        lance_spark.write(rows(2), uri, mode="append", file_format_version="2.2")
    assert len(list((Path(uri) / "data").iterdir())) == 1
    assert_tables_equal(lance_spark.write(rows(2), uri, mode="overwrite").to_table(), rows(2))


def test_stable_row_ids(uri: str) -> None:
    lance_spark.write(rows(*range(10)), uri, enable_stable_row_ids=True, max_rows_per_file=4)
    lance_spark.write(rows(10, 11), uri, mode="append")
    columns = ["a", "_rowid", "_rowaddr", "_row_created_at_version", "_row_last_updated_at_version"]
    own, reference = lance_spark.open(uri), lance.dataset(uri)
    assert_tables_equal(own.to_table(columns=columns), reference.to_table(columns=columns))
    assert own.to_table(columns=["_rowid"])["_rowid"].to_pylist() == list(range(12))
    assert own.manifest.next_row_id == 12
    assert own.manifest.reader_flags == own.manifest.writer_flags == 2
    reference.delete("a % 2 = 0")
    reference.update({"a": "a + 100"}, where="a = 3")
    reference.optimize.compact_files()
    lance_spark.write(rows(50), uri, mode="append")
    reference = lance.dataset(uri)
    assert_tables_equal(lance_spark.open(uri).to_table(columns=columns), reference.to_table(columns=columns))
    assert reference.to_table(columns=["_rowid"], filter="a = 50")["_rowid"].to_pylist() == [12]
    overwritten = lance_spark.write(rows(1, 2), uri, mode="overwrite")
    assert overwritten.to_table(columns=["_rowid"])["_rowid"].to_pylist() == [13, 14]
    assert_tables_equal(overwritten.to_table(columns=columns), lance.dataset(uri).to_table(columns=columns))


def test_stable_row_ids_are_given_anew_when_an_append_is_rebased(uri: str) -> None:
    lance_spark.write(rows(0, 1), uri, enable_stable_row_ids=True)
    location = TableLocation(uri)
    base = location.latest()
    assert base is not None
    plan = plan_write(base, rows(7).schema, mode="append")
    fragments = write_fragments(rows(7).to_batches(), location.store, plan.schema)
    lance.write_dataset(rows(2, 3, 4), uri, mode="append")
    commit_append(location, base, fragments)
    found = lance.dataset(uri).to_table(columns=["a", "_rowid", "_row_created_at_version"]).to_pylist()
    assert found[-1] == {"a": 7, "_rowid": 5, "_row_created_at_version": 3}
    assert [row["_rowid"] for row in found] == [0, 1, 2, 3, 4, 5]


def test_stable_row_ids_cannot_be_switched_on_later(uri: str) -> None:
    lance_spark.write(rows(1), uri)
    with pytest.raises(InvalidInputError, match="stable row ids"):
        lance_spark.write(rows(1), uri, mode="append", enable_stable_row_ids=True)


def test_columns_of_an_append_come_in_any_order_and_may_be_missing(uri: str) -> None:
    lance_spark.write(wide(5), uri)
    lance_spark.write(wide(5, 5).select(["flag", "point", "vector", "name", "id"]), uri, mode="append")
    assert_tables_equal(lance.dataset(uri).to_table(), wide(10))
    lance_spark.write(wide(1, 10).select(["id"]), uri, mode="append")
    expected = {"id": 10, "name": None, "vector": None, "point": None, "flag": None}
    assert lance.dataset(uri).to_table().to_pylist()[-1] == expected
    assert lance_spark.open(uri).to_table().to_pylist()[-1] == expected


NESTED = pa.schema(
    [
        ("s", pa.struct([("x", pa.int64()), ("t", pa.string())])),
        ("l", pa.list_(pa.struct([("k", pa.string())]))),
        ("m", pa.map_(pa.string(), pa.int64())),
        ("b", pa.large_binary()),
        ("f", pa.list_(pa.float32(), 2)),
    ]
)
VALUES = [
    {"s": {"x": 1, "t": "a"}, "l": [{"k": "p"}, None], "m": [("q", 1)], "b": b"1", "f": [1.0, 2.0]},
    {"s": None, "l": None, "m": None, "b": None, "f": None},
    {"s": {"x": None, "t": None}, "l": [], "m": [], "b": b"", "f": [3.0, 4.0]},
]


def test_types_that_hold_the_same_values_are_taken(uri: str) -> None:
    lance_spark.write(pa.Table.from_pylist(VALUES, NESTED), uri)
    same = pa.schema(
        [
            ("b", pa.binary()),
            ("s", pa.struct([("t", pa.large_string()), ("x", pa.int64())])),
            ("l", pa.large_list(pa.struct([("k", pa.string_view())]))),
            ("m", pa.map_(pa.large_string(), pa.int64())),
            ("f", pa.list_(pa.float32(), 2)),
        ]
    )
    other = pa.Table.from_pylist(VALUES * 2, same).slice(1, 4)
    lance_spark.write(other, uri, mode="append")
    expected = VALUES + (VALUES * 2)[1:5]
    assert lance_spark.open(uri).to_table().to_pylist() == expected
    assert lance.dataset(uri).to_table().to_pylist() == expected


def test_missing_parts_of_structs_and_columns_of_nulls_become_null(uri: str) -> None:
    lance_spark.write(pa.Table.from_pylist(VALUES, NESTED), uri)
    part = pa.table({"s": pa.array([{"x": 5}, None]), "b": pa.nulls(2)})
    lance_spark.write(part, uri, mode="append")
    found = lance.dataset(uri).to_table().to_pylist()[3:]
    assert [row["s"] for row in found] == [{"x": 5, "t": None}, None]
    assert [row["b"] for row in found] == [None, None]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"a": pa.array([1], pa.int32())}), "'a' has type int32, the table has int64"),
        (pa.table({"a": ["x"]}), "'a' has type string, the table has int64"),
        (pa.table({"a": [1], "z": [1]}), "no column 'z'"),
        (pa.table({"z": [1]}), "no column 'z'"),
        (pa.table({"s": [{"x": 1.5}]}), "'s.x' has type double, the table has int64"),
        (pa.table({"s": [{"y": 1}]}), "no column 'y' inside of 's'"),
        (pa.table({"s": [1]}), "'s' has type int64"),
        (pa.table([[1], [2]], names=["a", "a"]), "two columns of one name"),
    ],
)
def test_an_append_that_does_not_fit_changes_nothing(uri: str, table: pa.Table, message: str) -> None:
    schema = pa.schema([("a", pa.int64()), ("s", pa.struct([("x", pa.int64())]))])
    lance_spark.write(schema.empty_table(), uri)
    with pytest.raises(InvalidInputError, match=message):
        lance_spark.write(table, uri, mode="append")
    assert lance_spark.open(uri).version == 1
    assert not (Path(uri) / "data").exists() or not list((Path(uri) / "data").iterdir())


def test_nulls_where_none_may_be_are_refused(uri: str) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.int64())])
    good = pa.table({"a": [1], "b": [None]}, schema=schema)
    lance_spark.write(good, uri)
    with pytest.raises(InvalidInputError, match="'a' is missing"):
        lance_spark.write(pa.table({"b": [1]}), uri, mode="append")
    nulls = pa.table({"a": pa.array([1, None], pa.int64()), "b": [1, 2]})
    with pytest.raises(InvalidInputError, match="'a' is not nullable"):
        lance_spark.write(nulls, uri, mode="append")
    assert len(list((Path(uri) / "data").iterdir())) == 1
    lance_spark.write(pa.table({"a": [2], "b": [3]}), uri, mode="append")
    assert_tables_equal(lance.dataset(uri).to_table(), pa.table({"a": [1, 2], "b": [None, 3]}, schema=schema))


def test_an_error_in_the_data_leaves_nothing_behind(uri: str) -> None:
    lance_spark.write(rows(0), uri)

    def source() -> Iterator[pa.RecordBatch]:
        yield from rows(*range(100)).to_batches()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        lance_spark.write(source(), uri, mode="append", max_rows_per_file=10)
    with pytest.raises(InvalidInputError, match="differ"):
        lance_spark.write([rows(1), wide(1)], uri, mode="append", max_rows_per_file=1)
    assert len(list((Path(uri) / "data").iterdir())) == 1
    assert lance_spark.open(uri).version == 1


def test_tasks_write_and_the_driver_commits(uri: str) -> None:
    location = TableLocation(uri)
    source = RowSource.of(wide(0))
    plan = plan_write(location.latest(), source.schema, mode="create")
    results = []
    for task in range(3):
        store = open_store(uri)
        fragments = write_fragments(wide(10, task * 10).to_batches(), store, plan.schema, limits=FileLimits(max_rows=6))
        results += [fragment.to_bytes() for fragment in fragments]
    merged = [DataFragment.from_bytes(result) for result in results]
    options = CommitOptions(message="from tasks", stable_row_ids=True)
    manifest = commit_overwrite(location, None, merged, plan.schema, plan.file_version, options)
    assert manifest.version == 1
    assert [fragment.physical_rows for fragment in manifest.fragments] == [6, 4] * 3
    assert_tables_equal(lance.dataset(uri).to_table(), wide(30))


def test_a_fragment_writer_that_is_given_up_removes_its_files() -> None:
    uri = f"memory://writer-{uuid.uuid4().hex}"
    store = open_store(uri)
    plan = plan_write(None, rows().schema, mode="create")
    writer = FragmentWriter(store, plan.schema, limits=FileLimits(max_rows=2))
    writer.write(rows(1, 2, 3).to_batches()[0])
    assert list(store.list("data"))
    with pytest.raises(InvalidInputError), writer:
        writer.write(pa.record_batch({"z": [1]}))
    assert not list(store.list("data"))


def test_branches_can_be_written(uri: str) -> None:
    lance_spark.write(rows(1), uri)
    lance.dataset(uri).create_branch("side/one", 1)
    lance_spark.write(rows(2), uri, mode="append", branch="side/one")
    lance_spark.write(rows(3), uri, mode="append")
    side = lance_spark.open(uri, branch="side/one")
    assert side.to_table() == rows(1, 2)
    assert side.branch == "side/one"
    assert lance_spark.open(uri).to_table() == rows(1, 3)
    reference = lance.dataset(uri).checkout_version(("side/one", None))
    assert_tables_equal(reference.to_table(), rows(1, 2))
