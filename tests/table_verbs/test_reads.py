"""Verbs that read give the same rows in the same order, whether the table has partitions or not."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

import lance_spark
from lance_spark.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.partitioned.dataset import PartitionedDataset, create_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.table.dataset import Dataset
from tests.table_verbs.kinds import ROWS, SCHEMA, Kind, Partitioned, content, table_of


def ids(table: Any) -> list[int]:
    found: list[int] = table.column("id").to_pylist()
    return found


@pytest.fixture
def in_order(kind: Kind, dataset: Any) -> list[int]:
    """The ids in the order of a scan, one of them deleted."""
    return ids(dataset.delete("id = 3").to_table())


@pytest.mark.parametrize("indices", [[0], [3, 0], [1, 1, 2], [], [0, 1, 2, 3], [2, 3, 2, 0]])
def test_take_rows_by_position(kind: Kind, dataset: Any, in_order: list[int], indices: list[int]) -> None:
    newest = kind.open(dataset)
    found = newest.take(indices)
    assert ids(found) == [in_order[index] for index in indices]
    assert found.schema.names == SCHEMA.names
    assert sorted(in_order) == [1, 2, 4, 5]


def test_take_some_columns(kind: Kind, dataset: Any) -> None:
    rows = {row[0]: row for row in ROWS}
    found = dataset.take([4, 1], columns=["v", "id"]).to_pylist()
    assert [list(row) for row in found] == [["v", "id"]] * 2
    assert [row["v"] for row in found] == [rows[row["id"]][2] for row in found]
    assert dataset.take([0, 0, 1], columns=[]).num_rows == 3


@pytest.mark.parametrize("index", [5, -1, 1 << 62])
def test_take_position_that_does_not_exist(dataset: Any, index: int) -> None:
    with pytest.raises(InvalidInputError, match="there is no row"):
        dataset.take([0, index])


def test_take_from_empty_table(kind: Kind) -> None:
    empty = kind.create()
    assert empty.take([]).num_rows == 0
    with pytest.raises(InvalidInputError, match="there is no row 0"):
        empty.take([0])


def test_take_unknown_column(dataset: Any) -> None:
    with pytest.raises(NotFoundError):
        dataset.take([0], columns=["nope"])


@pytest.mark.parametrize("filter", [None, "id <> 2", "v > 0"])
@pytest.mark.parametrize("offset", [None, 0, 1, 2, 3, 5, 9])
@pytest.mark.parametrize("limit", [None, 0, 1, 2, 4, 9])
def test_limit_and_offset(dataset: Any, filter: str | None, offset: int | None, limit: int | None) -> None:
    everything = ids(dataset.to_table(filter=filter))
    start = offset or 0
    expected = everything[start:] if limit is None else everything[start : start + limit]
    assert ids(dataset.to_table(filter=filter, limit=limit, offset=offset)) == expected
    batches = list(dataset.scan(["id"], filter, limit, offset, 1))
    assert [value for batch in batches for value in batch.column(0).to_pylist()] == expected


def test_limits_that_are_negative_or_too_large_are_refused(dataset: Any) -> None:
    for wrong in ({"limit": -1}, {"offset": -2}):
        with pytest.raises(InvalidInputError, match="cannot be negative"):
            dataset.scan(**wrong)
    for most in (1 << 40, (1 << 63) - 1):
        assert len(ids(dataset.to_table(limit=most))) == 5
        assert ids(dataset.to_table(offset=most, limit=most)) == []
    with pytest.raises(InvalidInputError, match="cannot be above"):
        dataset.to_table(limit=1 << 63)


def test_scan_with_row_ids_and_addresses(dataset: Any) -> None:
    batches = list(dataset.scan(["id"], "id > 1", batch_size=1, with_row_id=True, with_row_address=True))
    assert all(batch.schema.names == ["id", "_rowid", "_rowaddr"] and batch.num_rows == 1 for batch in batches)
    table = dataset.to_table(["id"], "id > 1", with_row_id=True, with_row_address=True)
    assert ids(table) == [batch["id"][0].as_py() for batch in batches]
    assert table.column("_rowaddr").null_count == table.column("_rowid").null_count == 0
    assert dataset.to_table(["id"], "id > 9", with_row_address=True).schema.names == ["id", "_rowaddr"]


def test_limit_of_zero_reads_nothing(dataset: Any) -> None:
    assert list(dataset.scan(limit=0)) == list(dataset.scan(filter="id > 1", limit=0)) == []


def test_open_finds_both_kinds(kind: Kind, dataset: Any) -> None:
    opened = lance_spark.open(dataset.uri)
    assert isinstance(opened, PartitionedDataset if isinstance(kind, Partitioned) else Dataset)
    assert (opened.version, content(opened)) == (2, ROWS)
    assert lance_spark.open(dataset.uri, version=1).version == 1
    with pytest.raises(NotFoundError):
        lance_spark.open(dataset.uri, version=77)


def test_open_branch_of_a_partitioned_table() -> None:
    uri = f"memory://table-verbs-{uuid.uuid4().hex}"
    create_partitioned_dataset(uri, SCHEMA, [PartitionBy("p", ("p",), Identity())])
    with pytest.raises(UnsupportedFeatureError, match="has no branch 'b'"):
        lance_spark.open(uri, branch="b")


def test_open_where_there_is_no_table() -> None:
    with pytest.raises(NotFoundError):
        lance_spark.open(f"memory://table-verbs-{uuid.uuid4().hex}")


@pytest.mark.parametrize("mode", ["create", "append", "overwrite"])
def test_write_makes_no_table_in_the_root_of_a_partitioned_one(mode: str) -> None:
    dataset = Partitioned(stable_row_ids=False).create(*ROWS)
    with pytest.raises(InvalidInputError, match="partitioned table"):
        lance_spark.write(table_of(*ROWS), dataset.uri, mode=mode)
    assert content(lance_spark.open(dataset.uri)) == content(dataset)
