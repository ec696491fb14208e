"""Rows that come with other columns or another partitioning, as one version of the whole."""

from __future__ import annotations

import pickle

import lance
import pyarrow as pa
import pytest

from lance_spark.errors import RetryableConflictError
from lance_spark.partitioned.partitioned_target import PartitionedTarget
from lance_spark.partitioned.replace import replaced, with_columns_of
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.table import PartitionedTable, PlannedTable, open_partitioned
from lance_spark.partitioned.transforms.bucket import Bucket
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.partitioned.writer import WrittenPartition
from lance_spark.table.commits.retry import cleanup_on_failure
from lance_spark.table.row_level.write_target import WriteMode
from lance_spark.table.writing.save import CommitOptions
from tests.partitioned.verbs import drop_columns, save_rows

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.string())])
BY_K = [PartitionBy("k", ("k",), Identity())]


@pytest.fixture
def root(any_root: str) -> str:
    """Local, and in memory."""
    return any_root


@pytest.fixture
def table(root: str) -> PartitionedTable:
    """Rows 1 and 2, in partitions of their own."""
    made = create_partitioned(root, SCHEMA, BY_K)
    return save_rows(made, pa.table({"id": [1, 2], "k": ["a", "b"]}, SCHEMA))


def written(target: PartitionedTarget, rows: pa.Table) -> tuple[WrittenPartition, ...]:
    """Writes rows like a task, which gets the target over the wire."""
    with pickle.loads(pickle.dumps(target)).writer() as writer:
        for batch in rows.to_batches():
            writer.write(batch)
        return writer.close()


def save(planned: PartitionedTable, rows: pa.Table, mode: WriteMode) -> PartitionedTable:
    target = PartitionedTarget.of(planned).taking(rows.schema, mode=mode)
    assert isinstance(planned, PlannedTable)
    files = written(target, rows)
    with cleanup_on_failure(lambda: target.remove_files(files)):
        return target.save(mode, files, CommitOptions())


def listed(table: PartitionedTable) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for row in table.to_table().to_pylist()), key=str)


def test_an_append_brings_columns(table: PartitionedTable) -> None:
    rows = pa.table({"k": ["a", "c"], "id": [3, 4], "new": [0.5, 1.5]})
    made = save(with_columns_of(table, rows.schema), rows, WriteMode.APPEND)
    assert made.version == table.version + 1
    assert listed(made) == [(1, "a", None), (2, "b", None), (3, "a", 0.5), (4, "c", 1.5)]
    assert listed(open_partitioned(table.root, version=table.version, storage_options=table.storage_options)) == [
        (1, "a"),
        (2, "b"),
    ]
    # The partition that got no rows has the columns too.
    for opened in made.open_all(made.partitions()):
        assert [field.name for field in opened.manifest.schema.fields] == ["id", "k", "new"]
    assert with_columns_of(made, rows.schema) is made
    assert listed(save_rows(made, rows.slice(0, 1)))[-2:] == [(3, "a", 0.5), (4, "c", 1.5)]


def test_members_of_structs(root: str) -> None:
    first = pa.table({"id": [1], "s": [{"x": 1}]})
    table = save_rows(create_partitioned(root, first.schema, [PartitionBy("id", ("id",), Identity())]), first)
    rows = pa.table({"id": [1, 2], "s": [{"x": 2, "y": "n"}, {"x": 3, "y": "m"}]})
    made = save(with_columns_of(table, rows.schema), rows, WriteMode.APPEND)
    assert sorted(made.to_table().to_pylist(), key=str) == [
        {"id": 1, "s": {"x": 1, "y": None}},
        {"id": 1, "s": {"x": 2, "y": "n"}},
        {"id": 2, "s": {"x": 3, "y": "m"}},
    ]


def test_an_append_and_another_writer(table: PartitionedTable) -> None:
    rows = pa.table({"id": [3], "k": ["a"], "new": [0.5]})
    planned = with_columns_of(table, rows.schema)
    # A partition that gets no rows may change: it gets the columns as it is then.
    save_rows(table, pa.table({"id": [5, 6], "k": ["b", "z"]}, SCHEMA))
    made = save(planned, rows, WriteMode.APPEND)
    assert listed(made) == [(1, "a", None), (2, "b", None), (3, "a", 0.5), (5, "b", None), (6, "z", None)]
    late = with_columns_of(made, pa.schema([*made.schema, ("more", pa.int32())]))
    save_rows(made, pa.table({"id": [7], "k": ["a"]}, SCHEMA))
    with pytest.raises(RetryableConflictError, match="partition"):
        save(late, pa.table({"id": [8], "k": ["a"], "more": pa.array([1], pa.int32())}), WriteMode.APPEND)
    assert made.newest().count_rows() == 6
    assert made.newest().schema.names == ["id", "k", "new"]


def test_a_replacement(table: PartitionedTable) -> None:
    rows = pa.table({"n": ["x", "y"], "id": pa.array([7, 8], pa.int64())})
    made = save(replaced(table, rows.schema, [PartitionBy("b", ("id",), Bucket(2))]), rows, WriteMode.OVERWRITE)
    assert made.version == table.version + 1
    assert made.schema.names == ["n", "id"]
    assert [field.field_id for field in made.specs.current.fields] == ["b"]
    assert listed(made) == [("x", 7), ("y", 8)]
    assert {partition.spec.id for partition in made.partitions()} == {2}
    # The old rows are there for who goes back, and for nobody else.
    old = open_partitioned(table.root, version=table.version, storage_options=table.storage_options)
    assert listed(old) == [(1, "a"), (2, "b")]
    assert made.lance_schema.fields[1].id == table.lance_schema.fields[0].id
    assert made.lance_schema.fields[0].id > table.lance_schema.max_field_id
    assert listed(save_rows(made, rows.slice(0, 1))) == [("x", 7), ("x", 7), ("y", 8)]


def test_a_replacement_of_the_same_partitions(table: PartitionedTable) -> None:
    rows = pa.table({"id": ["one"], "k": ["a"]})
    made = save(replaced(table, rows.schema, BY_K), rows, WriteMode.OVERWRITE)
    assert made.specs.current.id == 1
    assert listed(made) == [("one", "a")]
    assert len(made.partitions()) == 1
    # A column of another type is another column, and its partition field is another field.
    numbers = pa.table({"id": ["two"], "k": pa.array([1], pa.int32())})
    made = save(replaced(made, numbers.schema, BY_K), numbers, WriteMode.OVERWRITE)
    assert [field.field_id for field in made.specs.current.fields] == ["k_2"]
    assert listed(made) == [("two", 1)]
    assert replaced(made, numbers.schema, BY_K) is made
    empty = replaced(made, SCHEMA, BY_K)
    assert listed(save(empty, SCHEMA.empty_table(), WriteMode.OVERWRITE)) == []


def test_a_replacement_and_another_writer(table: PartitionedTable) -> None:
    planned = replaced(table, pa.schema([("other", pa.string())]), [PartitionBy("o", ("other",), Identity())])
    save_rows(table, pa.table({"id": [3], "k": ["z"]}, SCHEMA))
    with pytest.raises(RetryableConflictError, match="replaced"):
        save(planned, pa.table({"other": ["x"]}), WriteMode.OVERWRITE)
    assert listed(table.newest()) == [(1, "a"), (2, "b"), (3, "z")]
    planned = replaced(table.newest(), pa.schema([("other", pa.string())]), [])
    drop_columns(table.newest(), ["id"])
    with pytest.raises(RetryableConflictError):
        save(planned, pa.table({"other": ["x"]}), WriteMode.OVERWRITE)


def test_pylance_opens_what_is_left(tmp_path: object) -> None:
    root = str(tmp_path)
    table = save_rows(create_partitioned(root, SCHEMA, BY_K), pa.table({"id": [1], "k": ["a"]}, SCHEMA))
    rows = pa.table({"id": [2], "k": ["a"], "new": [1.5]})
    made = save(with_columns_of(table, rows.schema), rows, WriteMode.APPEND)
    (opened,) = made.open_all(made.partitions())
    found = lance.dataset(opened.table.store.uri, version=opened.manifest.version).to_table()
    assert found.to_pylist() == [{"id": 1, "k": "a", "new": None}, {"id": 2, "k": "a", "new": 1.5}]
