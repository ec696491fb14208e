"""Columns of views as other tools see them: types of Hive as Spark writes them, and schemas that pyiceberg reads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from lance_spark.namespace.external.view_columns import UNSHOWN, hive_columns, iceberg_schema

PLAIN = StructType(
    [
        StructField(name, kind)
        for name, kind in {
            **{"a": LongType(), "b": IntegerType(), "c": ShortType(), "d": ByteType(), "e": DoubleType()},
            **{"f": FloatType(), "g": BooleanType(), "h": StringType(), "i": BinaryType(), "j": DateType()},
            **{"k": TimestampType(), "l": DecimalType(20, 3), "m": ArrayType(LongType())},
            "n": MapType(StringType(), StructType().add("x", IntegerType()).add("y", ArrayType(DateType()))),
            "o": StructType().add("p", DecimalType(4, 2)),
        }.items()
    ]
)


def definition(columns: StructType | str) -> str:
    return json.dumps({"query": "SELECT 1", "columns": columns if isinstance(columns, str) else columns.json()})


def named(*names: str) -> StructType:
    columns = StructType()
    for name in names:
        columns.add(name, LongType())
    return columns


def parsed(columns: Any) -> Schema:
    schema = iceberg_schema(definition(columns))
    ids = Schema.model_validate(schema).field_ids
    assert len(ids) == len(set(ids))
    return Schema.model_validate(schema)


def test_types_of_hive_are_those_of_spark() -> None:
    assert [(name, kind) for name, kind, _ in hive_columns(definition(PLAIN))] == [
        (field.name, field.dataType.simpleString()) for field in PLAIN
    ]


def test_types_that_others_lack_are_texts() -> None:
    columns = StructType().add("a", LongType()).add("i", DayTimeIntervalType()).add("v", VariantType())
    columns.add("s", StructType().add("x y", IntegerType()).add("<b", IntegerType()))
    assert [kind for _, kind, _ in hive_columns(definition(columns))] == ["bigint", "string", "string", "string"]
    fields = parsed(columns).fields
    assert [str(field.field_type) for field in fields][:3] == ["long", "string", "string"]
    assert "interval day" in str(fields[1].doc)


def test_schemas_of_iceberg() -> None:
    shown = {field.name: str(field.field_type) for field in parsed(PLAIN).fields}
    assert {name: shown[name] for name in "abcdefghijkl"} == {
        **{"a": "long", "b": "int", "c": "int", "d": "int", "e": "double", "f": "float", "g": "boolean", "h": "string"},
        **{"i": "binary", "j": "date", "k": "timestamptz", "l": "decimal(20, 3)"},
    }
    assert shown["m"] == "list<long>"
    assert shown["n"].startswith("map<string, struct<")


@pytest.mark.parametrize("columns", ["", "{", "[]", '{"fields":[{}]}', named("a", "A").json(), named("ü").json()])
def test_columns_that_cannot_be_kept_are_one(columns: str) -> None:
    assert hive_columns(definition(columns)) == [UNSHOWN]
    assert parsed(columns).fields


def test_comments_are_one_line() -> None:
    columns = StructType().add("a", LongType(), metadata={"comment": "one\ntwo " + "é" * 300})
    [(_, _, comment)] = hive_columns(definition(columns))
    assert comment.startswith("one two ?")
    assert len(comment.encode()) <= 255
    assert parsed(columns).fields[0].doc == columns[0].metadata["comment"]
