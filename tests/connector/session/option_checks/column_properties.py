"""Options of columns, and how blobs are read."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

from lance_spark.spark.types.column_properties import SUFFIXES, metadata_key
from tests.connector.session.option_checks.registry import (
    Tables,
    datasets,
    location,
    proves,
)

COLUMNS = {"vec": "ARRAY<FLOAT>", "half": "FLOAT", "text": "STRING", "number": "INT", "both": "STRUCT<a: INT, b: INT>"}
BLOBS = {"lance.encoding", "lance.blob.inline-size", "lance.blob.dedicated-size", "lance.blob.pack-size"}
JSON, UUID = "lance.json", "arrow.uuid"
SOME_UUID = "01234567-89ab-cdef-0123-456789abcdef"
OF_COLUMN = {
    "arrow.fixed-size-list.size": ("vec", "2", "fixed_size_list<item: float>[2]"),
    "arrow.float16": ("half", "true", "halffloat"),
    "arrow.large_var_char": ("text", "true", "large_string"),
    "lance.compression": ("text", "zstd", None),
    "lance.compression-level": ("text", "3", None),
    "lance.structural-encoding": ("text", "fullzip", None),
    "lance.rle-threshold": ("number", "0.5", None),
    "lance.bss": ("half", "on", None),
    "lance.dict-divisor": ("text", "2", None),
    "lance.dict-size-ratio": ("text", "0.9", None),
    "lance.dict-values-compression": ("text", "lz4", None),
    "lance.minichunk-size": ("number", "1024", None),
    "lance.packed": ("both", "true", None),
}


@proves("column", *(set(SUFFIXES) - BLOBS - {JSON, UUID}))
def _shape_of_a_column(tables: Tables, name: str) -> None:
    column, value, dtype = OF_COLUMN[name]
    rows = "SELECT 'a' AS k, array(1F, 2F) AS vec, 1F AS half, 'x' AS text, 1 AS number, struct(1 AS a, 2 AS b) AS both"
    columns = ", ".join(["k STRING", *(f"{key} {kind}" for key, kind in COLUMNS.items())])
    tables.create(f"'{column}.{name}' = '{value}'", columns=columns)
    tables.spark.sql(f"INSERT INTO {tables.new} {rows}")
    places = [location(tables.spark, tables.new)]
    if not tables.by:
        tables.save(rows, **{f"{column}.{name}": value})
        places.append(tables.path)
    for place in places:
        (part,) = datasets(place)
        field = part.schema.field(column)
        if dtype is not None:
            assert str(field.type) == dtype
        else:
            assert (field.metadata or {})[str(metadata_key(name)).encode()] == value.encode()
        assert part.count_rows() == 1


@proves("column", *BLOBS)
def _blobs(tables: Tables, name: str) -> None:
    sizes = {"inline-size": "3", "dedicated-size": "4", "pack-size": "1"}
    shape = {"lance.encoding": "blob", name: sizes.get(name.rpartition(".")[2], "blob")}
    tables.create(", ".join(f"'b.{key}' = '{value}'" for key, value in shape.items()), columns="b BINARY, k STRING")
    tables.spark.sql(f"INSERT INTO {tables.new} VALUES (X'01020304', 'a'), (X'0102030405', 'a')")
    kinds = sorted(row.kind for row in tables.spark.sql(f"SELECT b.kind FROM {tables.new}").collect())
    assert kinds == {"inline-size": [1, 1], "dedicated-size": [0, 2]}.get(name.rpartition(".")[2], [0, 0])


@proves("column", JSON)
def _json_column(tables: Tables, name: str) -> None:
    tables.create(f"'j.{name}' = 'true'", columns="j VARIANT, k STRING")
    tables.spark.sql(f"INSERT INTO {tables.new} SELECT parse_json('[1]'), 'a'")
    (part,) = datasets(location(tables.spark, tables.new))
    assert part.schema.field("j").type == pa.json_()
    assert part.to_table(["j"])["j"].to_pylist() == ["[1]"]


@proves("column", UUID)
def _uuid_column(tables: Tables, name: str) -> None:
    tables.create(f"'u.{name}' = 'true', 'lance.uuid_as' = 'string'", columns="u STRING, k STRING")
    tables.spark.sql(f"INSERT INTO {tables.new} VALUES ('{SOME_UUID}', 'a')")
    (part,) = datasets(location(tables.spark, tables.new))
    assert part.schema.field("u").type == pa.uuid()


@proves("property", "lance.uuid_as")
def _uuid_as_text(tables: Tables, name: str) -> None:
    tables.create(f"'{name}' = 'string', 'u.{UUID}' = 'true'", columns="u STRING, k STRING")
    assert tables.spark.table(tables.new).schema["u"].dataType.simpleString() == "string"


@proves("read", "uuid_as")
def _uuid_of_a_read(tables: Tables, name: str) -> None:
    tables.create(f"'lance.uuid_as' = 'string', 'u.{UUID}' = 'true'", columns="u STRING, k STRING")
    tables.spark.sql(f"INSERT INTO {tables.new} VALUES ('{SOME_UUID}', 'a')")
    read = tables.spark.read.format("lance").option(name, "binary").load(location(tables.spark, tables.new))
    assert [bytes(row.u).hex() for row in read.collect()] == [SOME_UUID.replace("-", "")]
    with pytest.raises(AnalysisException, match=f"option {name} has no effect"):
        tables.spark.read.option(name, "binary").table(tables.new).collect()


@proves("property", "lance.json_as")
def _json_as_text(tables: Tables, name: str) -> None:
    tables.create(f"'{name}' = 'string', 'j.{JSON}' = 'true'", columns="j STRING, k STRING")
    assert tables.spark.table(tables.new).schema["j"].dataType.simpleString() == "string"


@proves("read", "json_as")
def _json_of_a_read(tables: Tables, name: str) -> None:
    tables.create(f"'j.{JSON}' = 'true'", columns="j VARIANT, k STRING")
    tables.spark.sql(f"INSERT INTO {tables.new} SELECT parse_json('[1]'), 'a'")
    read = tables.spark.read.format("lance").option(name, "string")
    assert [row.j for row in read.load(location(tables.spark, tables.new)).collect()] == ["[1]"]
    with pytest.raises(AnalysisException, match=f"option {name} has no effect"):
        tables.spark.read.option(name, "string").table(tables.new).collect()


@proves("property", "lance.blob_handling")
def _blobs_as_binary(tables: Tables, name: str) -> None:
    tables.create(f"'{name}' = 'binary', 'b.lance.encoding' = 'blob'", columns="b BINARY, k STRING")
    assert tables.spark.table(tables.new).schema["b"].dataType.simpleString() == "binary"


@proves("read", "blob_handling")
def _blobs_of_a_read(tables: Tables, name: str) -> None:
    tables.create("'b.lance.encoding' = 'blob'", columns="b BINARY, k STRING")
    tables.spark.sql(f"INSERT INTO {tables.new} VALUES (X'01', 'a')")
    read = tables.spark.read.format("lance").option(name, "binary")
    assert [bytes(row.b) for row in read.load(location(tables.spark, tables.new)).collect()] == [b"\x01"]
    with pytest.raises(AnalysisException, match=f"option {name} has no effect"):
        tables.spark.read.option(name, "binary").table(tables.new).collect()
