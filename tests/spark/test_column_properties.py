"""Options of single columns: their types and their encodings."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lance_spark
from lance_spark.errors import InvalidInputError
from lance_spark.spark.options.options import WriteOptions
from lance_spark.spark.types.schemas import table_types

GIVEN = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("Vector", pa.list_(pa.field("element", pa.float32()))),
        pa.field("half", pa.float32()),
        pa.field("text", pa.string()),
    ]
)


def types(options: dict[str, str], table: pa.Schema | None = None) -> pa.Schema:
    parsed = WriteOptions.parse({"path": "/t", **options})
    return table_types(GIVEN, table, parsed.column_properties)


def test_types_by_option() -> None:
    schema = types(
        {
            "vector.arrow.fixed-size-list.size": "4",
            "vector.arrow.float16": "true",
            "half.arrow.float16": "true",
            "text.arrow.large_var_char": "true",
        }
    )
    assert schema.types == [pa.int64(), pa.list_(pa.float16(), 4), pa.float16(), pa.large_string()]


def test_encodings_by_option() -> None:
    schema = types({"text.lance.compression": "zstd", "text.lance.compression-level": "7"})
    assert schema.field("text").metadata == {
        b"lance-encoding:compression": b"zstd",
        b"lance-encoding:compression-level": b"7",
    }


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("nothing.arrow.float16", "true", "no such column"),
        ("text.arrow.float16", "true", "is for a float"),
        ("half.arrow.float16", "yes", "neither true nor false"),
        ("vector.arrow.fixed-size-list.size", "-1", "not a size"),
        ("text.arrow.fixed-size-list.size", "3", "is for an array"),
        ("text.arrow.unheard", "3", "unknown option"),
        ("text.lance.compression", "lz5", "none of zstd, lz4, fsst, none"),
        ("text.lance.dict-values-compression", "fsst", "none of zstd, lz4, none"),
        ("text.lance.structural-encoding", "wide", "none of miniblock, fullzip"),
        ("half.lance.bss", "yes", "none of off, on, auto"),
        ("text.lance.compression-level", "3.5", "not a number"),
        ("text.lance.rle-threshold", "half", "not a number"),
    ],
)
def test_what_does_not_fit_is_refused(option: str, value: str, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        types({option: value})


def test_blobs_are_binary_columns() -> None:
    with pytest.raises(InvalidInputError, match=r"text\.lance\.encoding is for a binary column"):
        types({"text.lance.encoding": "blob"})


ENCODINGS = {
    "compression": "lz4",
    "compression-level": "3",
    "structural-encoding": "fullzip",
    "rle-threshold": "0.3",
    "bss": "on",
    "dict-divisor": "2",
    "dict-size-ratio": "0.5",
    "dict-values-compression": "zstd",
    "minichunk-size": "4096",
    "packed": "false",
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_each_encoding_property_reaches_the_files(name: str, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    schema = types({f"text.lance.{name}": ENCODINGS[name]})
    texts = [f"text {row % 7}" for row in range(2000)]
    columns = {"id": list(range(2000)), "Vector": [[1.0]] * 2000, "half": [0.5] * 2000, "text": texts}
    lance_spark.write(pa.table(columns, schema=schema), uri)
    dataset = lance.dataset(uri)
    assert dataset.schema.field("text").metadata == {f"lance-encoding:{name}".encode(): ENCODINGS[name].encode()}
    assert dataset.to_table(columns=["text"])["text"].to_pylist() == texts


def test_a_column_of_the_table_keeps_its_type_and_says_so() -> None:
    table = pa.schema([pa.field("Vector", pa.list_(pa.float32(), 8), metadata={"a": "b"})])
    assert types({}, table).field("Vector").equals(table.field("Vector"), check_metadata=True)
    with pytest.raises(InvalidInputError, match=r"Vector is .*\[8\] in the table"):
        types({"vector.arrow.fixed-size-list.size": "4"}, table)


@pytest.mark.slow
def test_a_vector_column_written_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    frame = spark.sql("SELECT id, array(float(id), float(id / 2)) AS vector FROM range(10)")
    writer = frame.write.format("lance").option("vector.arrow.fixed-size-list.size", 2)
    writer.option("vector.lance.compression", "zstd").mode("append").save(uri)
    frame.write.format("lance").mode("append").save(uri)
    dataset = lance.dataset(uri)
    assert dataset.schema.field("vector").type == pa.list_(pa.float32(), 2)
    assert sorted(dataset.to_table()["vector"].to_pylist()) == sorted([[i, i / 2] for i in range(10)] * 2)
