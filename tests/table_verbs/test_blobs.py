"""Blob columns behave alike, whether the table has partitions or not."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pytest

import lance_spark
from lance_spark import blob_field
from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.partitioned.dataset import create_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.table.reading.shards import ShardPlan, ShardRows

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("p", pa.string()),
        blob_field("img", inline_size_threshold=10, dedicated_size_threshold=1000),
    ]
)
PLACE = pa.struct([("position", pa.uint64()), ("size", pa.uint64())])
BIG, HUGE = b"b" * 500, b"h" * 1500


def rows(*values: tuple[int, str, bytes | None]) -> pa.Table:
    return pa.table(list(map(list, zip(*values, strict=True))), schema=SCHEMA)


@pytest.fixture(params=["plain", "partitioned"])
def table(request: pytest.FixtureRequest) -> Any:
    uri = f"memory://blob-verbs-{uuid.uuid4().hex}"
    first = rows((1, "a", b"small"), (2, "a", None), (3, "b", BIG), (4, "b", HUGE), (5, "c", b""))
    if request.param == "plain":
        return lance_spark.write(first, uri)
    by = [PartitionBy("p", ("p",), Identity())]
    return create_partitioned_dataset(uri, SCHEMA, by).append(first)


def content(table: Any) -> dict[int, tuple[str, bytes | None]]:
    found = table.to_table(blob_handling="all_binary").to_pylist()
    assert sum(batch.num_rows for batch in table.scan(["img"], blob_handling="all_binary")) == len(found)
    return {row["id"]: (row["p"], row["img"]) for row in found}


def test_rows_keep_their_blobs(table: Any) -> None:
    expected = {1: ("a", b"small"), 2: ("a", None), 3: ("b", BIG), 4: ("b", HUGE), 5: ("c", b"")}
    assert content(table) == expected
    moved = table.update({"p": "'z'"}, "id % 2 = 1")
    expected |= {number: ("z", expected[number][1]) for number in (1, 3, 5)}
    assert content(moved) == expected
    changed = moved.update({"img": b"new"}, "id = 4").update({"img": None}, "id = 5")
    expected |= {4: ("b", b"new"), 5: ("z", None)}
    assert content(changed) == expected
    source = pa.table({"id": [1, 9], "p": ["y", "y"], "img": pa.array([HUGE, b"nine"], pa.binary())})
    merged = changed.merge(source, "id").merge(pa.table({"id": [3], "p": ["x"]}), "id")
    expected |= {1: ("y", HUGE), 9: ("y", b"nine"), 3: ("x", BIG)}
    assert content(merged) == expected
    del expected[9]
    assert content(merged.delete("id = 9").compact()) == expected


def test_files_and_values_by_position(table: Any) -> None:
    changed = table.update({"p": "'z'"}, "id = 3")
    ids = changed.to_table(["id"])["id"].to_pylist()
    values = {1: b"small", 2: None, 3: BIG, 4: HUGE, 5: b""}
    wanted = [4, 0, 2, 2, 1]
    files = changed.take_blobs("img", indices=wanted)
    assert [file and file.read() for file in files] == [values[ids[place]] for place in wanted]
    assert [value for _, value in changed.read_blobs("img", indices=wanted)] == [values[ids[place]] for place in wanted]
    if isinstance(changed, lance_spark.PartitionedDataset):
        for numbers in ({"ids": [0]}, {"addresses": [0]}):
            with pytest.raises(InvalidInputError, match="name rows by indices"):
                changed.take_blobs("img", **numbers)
    else:
        with pytest.raises(NotFoundError, match="the table has no row id -1"):
            changed.take_blobs("img", ids=[0, -1])


def test_bytes_of_filtered_and_limited_rows(table: Any) -> None:
    found = table.to_table(["id", "img"], "img.size > 100", blob_handling="all_binary")
    assert found.to_pylist() == [{"id": 3, "img": BIG}, {"id": 4, "img": HUGE}]
    assert table.to_table(["img"], limit=1, offset=2, blob_handling="all_binary").to_pylist() == [{"img": BIG}]
    nothing = table.to_table(filter="id > 100", blob_handling="all_binary")
    assert nothing.schema == pa.schema([*SCHEMA.remove(2), nothing.schema.field("img")])
    assert nothing.schema.field("img").type == pa.large_binary()


@pytest.mark.parametrize("kind", ["plain", "partitioned"])
@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_places_in_old_files(kind: str, version: str) -> None:
    uri = f"memory://blob-verbs-{uuid.uuid4().hex}"
    schema = pa.schema([*SCHEMA.remove(2), blob_field("img")])
    first = pa.table(
        list(map(list, zip((1, "red", b"small"), (2, "red", None), (3, "red", BIG), strict=True))), schema=schema
    )
    if kind == "plain":
        table: Any = lance_spark.write(first, uri, file_format_version=version)
    else:
        by = [PartitionBy("p", ("p",), Identity())]
        properties = {"lance.file_format_version": version}
        table = create_partitioned_dataset(uri, schema, by, properties=properties)
        assert table.to_table().schema.field("img").type == PLACE
        assert table.search("word", search_columns=["p"]).schema.field("img").type == PLACE
        table = table.append(first)
    expected = [{"position": 0, "size": 5}, None, {"position": 64, "size": 500}]
    assert table.to_table()["img"].to_pylist() == expected
    assert table.to_table().schema.field("img").type == PLACE
    assert [place for batch in table.scan(["img"]) for place in batch["img"].to_pylist()] == expected
    assert table.take([2, 0], ["img"])["img"].to_pylist() == [expected[2], expected[0]]
    assert table.take([2, 0], ["img"], blob_handling="all_binary")["img"].to_pylist() == [BIG, b"small"]
    assert table.search("red", ["id", "img"], search_columns=["p"])["img"].to_pylist() == expected
    assert content(table) == {1: ("red", b"small"), 2: ("red", None), 3: ("red", BIG)}
    assert content(table.update({"id": "id + 10"}, "id = 3").compact())[13] == ("red", BIG)
    shards = (
        ShardRows(table, ShardPlan(["img"])),
        ShardRows(table, ShardPlan(["img"], blob_handling="all_descriptions")),
    )
    read = [[value for batch, _ in rows.batches() for value in batch["img"].to_pylist()] for rows in shards]
    assert read == [[b"small", None, BIG], expected]
