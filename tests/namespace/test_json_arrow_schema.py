"""JsonArrowSchema: names that the reference library writes, both spellings, and no loss."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from lance_spark.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_spark.namespace.json_arrow_schema import (
    schema_from_json,
    schema_to_json,
    type_from_json,
    type_to_json,
)
from lance_spark.schema.arrow import from_arrow_schema, to_arrow_schema
from lance_spark.schema.field import Field, FieldId, LanceSchema

TYPES: list[tuple[pa.DataType, dict[str, Any]]] = [
    *[(getattr(pa, name)(), {"type": name}) for name in ("int8", "int16", "int32", "int64", "null", "binary")],
    *[(getattr(pa, name)(), {"type": name}) for name in ("uint8", "uint16", "uint32", "uint64", "large_binary")],
    *[(getattr(pa, name)(), {"type": name}) for name in ("float16", "float32", "float64", "date32", "date64")],
    (pa.bool_(), {"type": "bool"}),
    (pa.string(), {"type": "utf8"}),
    (pa.large_string(), {"type": "large_utf8"}),
    (pa.decimal128(10, 2), {"type": "decimal128", "length": 10002}),
    (pa.decimal256(50, 7), {"type": "decimal256", "length": 50007}),
    (pa.timestamp("us"), {"type": "timestamp", "unit": "us"}),
    (pa.timestamp("ns", "Europe/Berlin"), {"type": "timestamp", "unit": "ns", "timezone": "Europe/Berlin"}),
    (pa.time32("s"), {"type": "time32", "unit": "s"}),
    (pa.time64("ns"), {"type": "time64", "unit": "ns"}),
    (pa.duration("ms"), {"type": "duration", "unit": "ms"}),
    (pa.binary(16), {"type": "fixed_size_binary", "length": 16}),
    (pa.dictionary(pa.int16(), pa.string()), {"type": "utf8", "index": {"type": "int16"}}),
    (
        pa.list_(pa.field("item", pa.int32())),
        {"type": "list", "fields": [{"name": "item", "nullable": True, "type": {"type": "int32"}}]},
    ),
    (
        pa.list_(pa.float32(), 8),
        {
            "type": "fixed_size_list",
            "fields": [{"name": "item", "nullable": True, "type": {"type": "float32"}}],
            "length": 8,
        },
    ),
    (
        pa.struct([pa.field("a", pa.int8(), nullable=False)]),
        {"type": "struct", "fields": [{"name": "a", "nullable": False, "type": {"type": "int8"}}]},
    ),
]


@pytest.mark.parametrize(("type_", "members"), TYPES, ids=lambda value: str(value)[:40])
def test_types(type_: pa.DataType, members: dict[str, Any]) -> None:
    assert type_to_json(type_) == members
    assert type_from_json(members) == type_


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("string", pa.string()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("halffloat", pa.float16()),
        ("boolean", pa.bool_()),
        ("Utf8", pa.string()),
        ("large_string", pa.large_string()),
        ("date32:day", pa.date32()),
        ("timestamp:us:UTC", pa.timestamp("us", "UTC")),
        ("timestamp:ns:-", pa.timestamp("ns")),
        ("timestamp", pa.timestamp("us")),
        ("decimal:128:10:2", pa.decimal128(10, 2)),
        ("fixed_size_list:float:8", pa.list_(pa.float32(), 8)),
        ("fixed_size_binary:4", pa.binary(4)),
    ],
)
def test_other_spellings(name: str, type_: pa.DataType) -> None:
    assert type_from_json({"type": name}) == type_


def test_decimals_of_fewer_bits_are_decimal128() -> None:
    assert type_from_json({"type": "decimal32", "length": 9002}) == pa.decimal128(9, 2)


@pytest.mark.parametrize(
    "members",
    [
        None,
        "utf8",
        {},
        {"type": "decimal128"},
        {"type": "decimal128", "length": 99000},
        {"type": "decimal128", "length": -1},
        {"type": "fixed_size_binary", "length": True},
        {"type": "fixed_size_binary", "length": 2**40},
        {"type": "list"},
        {"type": "list", "fields": []},
        {"type": "list", "fields": [{"name": "item"}]},
        {"type": "map", "fields": [{"name": "entries", "type": {"type": "int8"}}]},
        {"type": "timestamp", "unit": "parsec"},
        {"type": "timestamp", "unit": 5},
        {"type": "timestamp", "unit": "us", "timezone": 5},
        {"type": "time32", "unit": "ns"},
        {"type": "utf8", "index": {"type": "utf8"}},
        {"type": "timestamp:us"},
        {"type": "decimal:128:x:2"},
        {"type": "struct", "fields": [{"name": 5, "type": {"type": "int8"}}]},
    ],
)
def test_malformed_types_are_corrupt(members: object) -> None:
    with pytest.raises(CorruptFileError):
        type_from_json(members)


def test_deep_nesting_is_corrupt() -> None:
    members: dict[str, Any] = {"type": "int8"}
    for _ in range(200):
        members = {"type": "list", "fields": [{"name": "item", "type": members}]}
    with pytest.raises(CorruptFileError, match="deeper"):
        type_from_json(members)


def test_unknown_types() -> None:
    with pytest.raises(UnsupportedFeatureError):
        type_from_json({"type": "union"})
    with pytest.raises(InvalidInputError, match="no name"):
        type_to_json(pa.month_day_nano_interval())


def test_schemas_keep_ids_and_metadata() -> None:
    arrow = pa.schema(
        [
            pa.field("a", pa.int64(), nullable=False, metadata={"unit": "m"}),
            pa.field("s", pa.struct([pa.field("x", pa.list_(pa.struct([("y", pa.timestamp("ns"))])))])),
            pa.field("m", pa.map_(pa.string(), pa.int32())),
            pa.field("d", pa.dictionary(pa.int32(), pa.string())),
            pa.field("v", pa.list_(pa.float32(), 4)),
        ],
        metadata={"owner": "me"},
    )
    schema = from_arrow_schema(arrow, first_id=7)
    members = json.loads(json.dumps(schema_to_json(schema)))
    assert schema_from_json(members) == schema
    assert to_arrow_schema(schema_from_json(members)).equals(to_arrow_schema(schema), check_metadata=True)
    assert members["fields"][0]["metadata"] == {"unit": "m", "lance:field_id": "7"}


def test_lance_types_that_arrow_has_only_as_storage_survive() -> None:
    schema = LanceSchema((Field("j", FieldId(3), "json"), Field("b", FieldId(4), "lance.bfloat16")))
    assert [field.logical_type for field in schema_from_json(schema_to_json(schema)).fields] == [
        "json",
        "lance.bfloat16",
    ]


def test_ids_are_read_at_every_level() -> None:
    child = {"name": "x", "type": {"type": "int8"}}
    members = {
        "fields": [
            {"name": "s", "type": {"type": "struct", "fields": [child]}, "metadata": {"lance:field_id": "1"}},
        ]
    }
    with pytest.raises(CorruptFileError, match="'x'"):
        schema_from_json(members)
