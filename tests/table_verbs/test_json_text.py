"""JSON columns are text in Python, with the types and values that the reference library gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError
from lance_spark.partitioned.dataset import create_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.schema.extension import is_json_field

TEXTS = ['{"b":1,"a":[1,2.5,null]}', None, '"é"', "true", "[]", "-7"]


def documents(*texts: str | None) -> pa.Array:
    return pa.array(texts, pa.json_())


def nested_rows() -> pa.Table:
    """JSON at every level of nesting that Lance has, with nulls at each."""
    count = len(TEXTS)
    json = documents(*TEXTS)
    member = pa.field("j", pa.json_())
    structs = pa.StructArray.from_arrays(
        [json, pa.array(range(count))],
        fields=[member, pa.field("n", pa.int64())],
        mask=pa.array([False, False, True, False, False, False]),
    )
    offsets = pa.array([0, 2, 2, None, 3, 5, 6], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, json)
    inner = pa.StructArray.from_arrays([json], fields=[member])
    deep = pa.ListArray.from_arrays(pa.array([0, 1, 3, 3, 4, 6, 6], pa.int32()), inner)
    return pa.table({"id": range(count), "j": json, "s": structs, "l": lists, "deep": deep})


@pytest.fixture(params=["2.0", "2.1", "2.2"])
def uri(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    rows = nested_rows() if request.param != "2.0" else nested_rows().select(["id", "j", "l"])
    lance.write_dataset(rows, str(tmp_path / "t"), data_storage_version=request.param, max_rows_per_file=4)
    return str(tmp_path / "t")


READS: dict[str, Callable[[lance.LanceDataset], pa.Table]] = {
    "to_table": lambda table: table.to_table(),
    "columns": lambda table: table.to_table(columns=["j"]),
    "filter": lambda table: table.to_table(filter="j is not null and id > 0"),
    "limit": lambda table: table.to_table(limit=2, offset=3),
    "take": lambda table: table.take([5, 0, 2]),
    "head": lambda table: table.head(2),
    "scanner": lambda table: table.scanner(columns=["j", "id"]).to_table(),
    "to_batches": lambda table: pa.Table.from_batches(table.to_batches()),
    "nothing": lambda table: table.to_table(filter="id > 100"),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_rows_are_those_of_pylance(uri: str, read: Callable[[lance.LanceDataset], pa.Table]) -> None:
    lance.dataset(uri).delete("id = 3")
    reference, ours = lance.dataset(uri), lance_spark.open(uri)
    if read is READS["take"]:
        assert ours.take([4, 0, 2]).to_pylist() == reference.take([4, 0, 2]).to_pylist()
        return
    assert ours.schema == reference.schema
    assert read(ours).schema == read(reference).schema
    assert read(ours).to_pylist() == read(reference).to_pylist()


def test_other_forms_of_the_rows(uri: str) -> None:
    reference, ours = lance.dataset(uri), lance_spark.open(uri)
    assert ours.to_pandas(["j"])["j"].tolist() == reference.to_table(["j"]).to_pandas()["j"].tolist()
    assert pa.table(ours).to_pylist() == reference.to_table().to_pylist()
    assert pa.Table.from_batches(ours.scan(batch_size=1), schema=ours.schema) == ours.to_table()
    assert ours.sample(6, seed=1, in_order=True)["j"].to_pylist() == reference.to_table()["j"].to_pylist()


def test_sliced_rows_keep_their_documents(uri: str) -> None:
    ours, whole = lance_spark.open(uri), lance.dataset(uri).to_table().to_pylist()
    for first in range(len(TEXTS)):
        assert ours.to_table(offset=first, limit=2).to_pylist() == whole[first : first + 2]


def test_rows_that_were_read_can_be_written_again(uri: str, tmp_path: Path) -> None:
    rows = lance_spark.open(uri).to_table()
    copy = str(tmp_path / "copy")
    lance_spark.write(rows, copy)
    lance_spark.write(lance_spark.open(copy).scan(), copy, mode="append")
    lance_spark.open(copy).compact()
    found = lance.dataset(copy).to_table()
    assert found.schema == lance.dataset(uri).schema
    assert found.to_pylist() == 2 * rows.to_pylist()
    stored = [lance_spark.open(each).plan(["j"]).arrow_schema.field("j") for each in (uri, copy)]
    assert is_json_field(stored[0])
    assert stored[0].equals(stored[1], check_metadata=True)


def test_searches_return_text(tmp_path: Path) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array([0.0, 0, 1, 1, 2, 2], pa.float32()), 2)
    rows = pa.table({"t": ["red blue", "blue", "green"], "v": vectors, "j": documents('{"a":1}', None, "2")})
    lance.write_dataset(rows, str(tmp_path / "t"))
    table = lance_spark.open(str(tmp_path / "t"))
    assert table.nearest("v", [2.0, 2.0], k=1, columns=["j"])["j"].to_pylist() == ["2"]
    assert table.to_table(columns=["j"], nearest={"column": "v", "q": [0, 0], "k": 1})["j"].to_pylist() == ['{"a":1}']
    assert table.search("red", columns=["j"], search_columns=["t"])["j"].to_pylist() == ['{"a":1}']
    found = table.hybrid_search("v", [2.0, 2.0], "red", k=2, columns=["j"], search_columns=["t"])
    assert sorted(found["j"].to_pylist()) == ["2", '{"a":1}']
    assert found.schema.field("j").type == pa.json_()


def test_damaged_documents_are_refused(tmp_path: Path) -> None:
    field = pa.field("j", pa.large_binary(), metadata={"ARROW:extension:name": "lance.json"})
    lance_spark.write(pa.table([pa.array([b"\x40\x00\x00\x09"], pa.large_binary())], pa.schema([field])), str(tmp_path))
    with pytest.raises(InvalidInputError, match="JSON"):
        lance_spark.open(str(tmp_path)).to_table()


def test_changes_have_text(tmp_path: Path) -> None:
    table = lance_spark.write(pa.table({"id": [1], "j": documents('{"a":1}')}), str(tmp_path / "t"))
    table.delete("id = 1")
    changes = pa.Table.from_batches(lance_spark.open(str(tmp_path / "t")).changes(1, 2))
    assert changes["j"].to_pylist() == 2 * ['{"a":1}']


@pytest.mark.parametrize("partitioned", [False, True], ids=["plain", "partitioned"])
def test_functions_for_new_columns_get_text_and_give_text(tmp_path: Path, partitioned: bool) -> None:
    rows = pa.table({"id": range(len(TEXTS)), "j": documents(*TEXTS)})
    if partitioned:
        by_id = [PartitionBy("id", ("id",), Identity())]
        table: Any = create_partitioned_dataset(str(tmp_path / "t"), rows.schema, by_id).append(rows)
    else:
        table = lance_spark.write(rows, str(tmp_path / "t"))

    def lengths(batch: pa.RecordBatch) -> pa.RecordBatch:
        texts = batch.column("j").to_pylist()
        sizes = pa.array([None if text is None else len(text) for text in texts], pa.int64())
        return pa.record_batch({"size": sizes, "copy": batch.column("j")})

    found = table.add_columns(lengths, read_columns=["j"]).to_table().sort_by("id")
    assert found["size"].to_pylist() == [None if text is None else len(text) for text in found["j"].to_pylist()]
    assert found["copy"].type == pa.json_()
    assert found["copy"].to_pylist() == found["j"].to_pylist()
    assert found["j"].to_pylist() == lance.write_dataset(rows, str(tmp_path / "r")).to_table()["j"].to_pylist()


@pytest.mark.parametrize("text", [pa.string(), pa.large_string()], ids=str)
def test_text_that_its_metadata_calls_json_is_json(tmp_path: Path, text: pa.DataType) -> None:
    # As pyarrow gives it where the type is not registered; the reference library takes it as well.
    member = pa.field("j", text, metadata={"ARROW:extension:name": "arrow.json"})
    texts = pa.array(TEXTS, text)
    schema = pa.schema([member, pa.field("l", pa.list_(member))])
    lists = pa.ListArray.from_arrays(list(range(len(TEXTS) + 1)), texts, type=schema.field("l").type)
    rows = pa.table([texts, lists], schema=schema)
    lance.write_dataset(rows, str(tmp_path / "theirs"))
    found = lance_spark.write(rows, str(tmp_path / "ours")).append(rows).to_table()
    expected = lance.dataset(str(tmp_path / "theirs")).to_table()
    assert found.schema == expected.schema
    assert found == pa.concat_tables([expected, expected])
    assert found == lance.dataset(str(tmp_path / "ours")).to_table()
