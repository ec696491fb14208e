"""Shards of a version share its rows: each row is read once, in an order that can be repeated and resumed."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.table.reading.shards import Position, Shard, ShardPlan, ShardRows
from tests.table_verbs.kinds import ROWS, Kind


@pytest.fixture
def many(kind: Kind) -> Any:
    """1,000 rows in several fragments and partitions, a tenth of them deleted."""
    made = kind.create()
    for start in range(0, 1000, 250):
        made = kind.append(made, *((key, "abc"[key % 3], key) for key in range(start, start + 250)))
    return made.delete("v % 10 = 3")


LEFT = [key for key in range(1000) if key % 10 != 3]


def ids(table: Any, plan: ShardPlan, shard: Shard | None = None, epoch: int = 0) -> list[int]:
    rows = ShardRows(table, plan, shard or Shard(), epoch)
    return [key for batch, _ in rows.batches() for key in batch["id"].to_pylist()]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("count", [1, 7])
def test_each_row_is_in_one_shard(many: Any, shuffle: bool, count: int) -> None:
    plan = ShardPlan(["id"], shuffle=shuffle, batch_size=64, window_rows=128)
    shards = [ids(many, plan, Shard(index, count)) for index in range(count)]
    assert sorted(key for shard in shards for key in shard) == LEFT
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


def test_more_shards_than_rows(dataset: Any) -> None:
    shards = [ids(dataset, ShardPlan(["id"], shuffle=True), Shard(index, 8)) for index in range(8)]
    assert sorted(map(len, shards)) == [0, 0, 0, 1, 1, 1, 1, 1]
    assert sorted(key for shard in shards for key in shard) == [row[0] for row in ROWS]


def test_equal_shards_leave_out_few_rows(many: Any) -> None:
    plan = ShardPlan(["id"], shuffle=True, equal=True, window_rows=100)
    shards = [ids(many, plan, Shard(index, 7)) for index in range(7)]
    assert [len(shard) for shard in shards] == [900 // 7] * 7
    read = [key for shard in shards for key in shard]
    assert len(set(read)) == len(read)
    assert set(read) <= set(LEFT)


def test_order_without_shuffle_is_that_of_the_table(many: Any) -> None:
    assert ids(many, ShardPlan(["id"], batch_size=17, window_rows=50)) == many.to_table(["id"])["id"].to_pylist()


def test_shuffled_order_depends_on_seed_and_epoch(many: Any) -> None:
    plan, other = (
        ShardPlan(["id"], shuffle=True, window_rows=200),
        ShardPlan(["id"], shuffle=True, window_rows=200, seed=1),
    )
    first = ids(many, plan)
    assert ids(many, plan) == first
    orders = {tuple(first), tuple(ids(many, plan, epoch=1)), tuple(ids(many, other)), tuple(sorted(first))}
    assert len(orders) == 4
    # Rows of many places of the table are in one window.
    assert np.ptp(first[:100]) > 500


def test_fields_of_structs_are_columns() -> None:
    structs = pa.array([None if number == 3 else {"x": number, "y": {"z": str(number)}} for number in range(7)])
    table = lance_spark.write(pa.table({"id": range(7), "s": structs}), f"memory://shards-{uuid.uuid4().hex}")
    columns = ["s.y.z", "id", "s.x"]
    (shard,) = [batch for batch, _ in ShardRows(table, ShardPlan(columns)).batches()]
    assert shard.equals(table.to_table(columns).combine_chunks().to_batches()[0])
    with pytest.raises(InvalidInputError, match="'id' is named twice"):
        ShardRows(table, ShardPlan(["id", "id"]))


@pytest.mark.parametrize("filter", [None, "id % 3 = 1", "p = 'a' AND id > 500", "id < 0"])
def test_filter(many: Any, filter: str | None) -> None:
    plan = ShardPlan(["id"], filter, shuffle=True, window_rows=64, batch_size=10)
    shards = [ids(many, plan, Shard(index, 3)) for index in range(3)]
    assert sorted(key for shard in shards for key in shard) == sorted(many.to_table(["id"], filter)["id"].to_pylist())


@pytest.mark.parametrize("filter", [None, "id % 3 = 1"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_batches_are_full_and_resume_anywhere(many: Any, filter: str | None, shuffle: bool) -> None:
    rows = ShardRows(
        many, ShardPlan(["id"], filter, batch_size=30, shuffle=shuffle, window_rows=77), Shard(1, 2), epoch=3
    )
    read = [(batch["id"].to_pylist(), after) for batch, after in rows.batches()]
    assert all(len(keys) == 30 for keys, _ in read[:-1])
    assert 0 < len(read[-1][0]) <= 30
    for number, (_, after) in enumerate(read):
        again = ShardRows(
            many, ShardPlan(["id"], filter, batch_size=30, shuffle=shuffle, window_rows=77), Shard(1, 2), 3
        )
        assert [batch["id"].to_pylist() for batch, _ in again.batches(after)] == [
            keys for keys, _ in read[number + 1 :]
        ]


def test_drop_last(many: Any) -> None:
    rows = ShardRows(many, ShardPlan(["id"], batch_size=400, drop_last=True))
    assert [batch.num_rows for batch, _ in rows.batches()] == [400, 400]


def test_table_without_rows(kind: Kind) -> None:
    rows = ShardRows(kind.create(), ShardPlan(shuffle=True), Shard(1, 2))
    assert list(rows.batches()) == []
    assert list(rows.batches(Position(5, 5))) == []


def test_all_columns(kind: Kind, dataset: Any) -> None:
    (batch, _), *others = ShardRows(dataset, ShardPlan()).batches()
    assert not others
    assert sorted((tuple(row.values()) for row in batch.to_pylist()), key=str) == ROWS


def test_blobs_are_bytes() -> None:
    schema = pa.schema([pa.field("id", pa.int64()), lance_spark.blob_field("b")])
    rows = pa.table(
        {"id": range(6), "b": [bytes([key]) * (key * 1000) for key in range(6)]},
        schema=pa.schema([("id", pa.int64()), pa.field("b", pa.large_binary(), metadata=schema.field("b").metadata)]),
    )
    made = lance_spark.write(rows, "memory://shards-of-blobs")
    found = [batch for batch, _ in ShardRows(made, ShardPlan(shuffle=True, batch_size=4)).batches()]
    assert {row["id"]: row["b"] for batch in found for row in batch.to_pylist()} == {
        key: bytes([key]) * (key * 1000) for key in range(6)
    }


@pytest.mark.parametrize(
    "arguments",
    [{"batch_size": 0}, {"window_rows": 0}, {"seed": -1}, {"equal": True, "filter": "id = 1"}, {"blob_handling": "no"}],
)
def test_invalid_arguments(dataset: Any, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        ShardRows(dataset, ShardPlan(**arguments))


def test_unknown_column_and_shard(dataset: Any) -> None:
    with pytest.raises(NotFoundError):
        ShardRows(dataset, ShardPlan(["missing"]))
    for index, count in ((2, 2), (-1, 2), (0, 0)):
        with pytest.raises(InvalidInputError):
            Shard(index, count)
