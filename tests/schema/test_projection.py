"""Projection by dotted path and by id."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.schema.arrow import from_arrow_schema, to_arrow_schema
from lance_spark.schema.field import Field, FieldId, LanceSchema
from lance_spark.schema.projection import parse_path, project, prune

POINT = pa.struct([("x", pa.int32()), ("y", pa.int32())])
SCHEMA = from_arrow_schema(
    pa.schema([("a", pa.int32()), ("p", pa.struct([("q", POINT), ("r", pa.string())])), ("last", pa.int8())])
)


def test_top_level_columns_come_in_the_order_asked_for() -> None:
    assert project(SCHEMA, ["p", "a"]).names() == ("p", "a")


def test_nested_columns_keep_the_order_of_the_schema_and_their_ids() -> None:
    projected = project(SCHEMA, ["p.r", "p.q.y"])
    assert to_arrow_schema(projected) == pa.schema(
        [("p", pa.struct([("q", pa.struct([("y", pa.int32())])), ("r", pa.string())]))]
    )
    assert [field.id for field in projected.walk()] == [1, 2, 4, 5]


def test_a_name_that_holds_dots() -> None:
    schema = from_arrow_schema(pa.schema([("s", pa.struct([("a.b", pa.int8()), ("c`d", pa.int8())]))]))
    assert [field.name for field in project(schema, ["s.`a.b`"]).walk()] == ["s", "a.b"]
    assert [field.name for field in project(schema, ["s.`c``d`"]).walk()] == ["s", "c`d"]
    assert [field.name for field in project(schema, [("s", "a.b")]).walk()] == ["s", "a.b"]


def test_a_top_level_name_that_holds_dots() -> None:
    schema = LanceSchema((Field("a.b", FieldId(0), "int8"),))
    assert project(schema, ["a.b"]).names() == ("a.b",)
    assert project(schema, ["`a.b`"]).names() == ("a.b",)


def test_a_missing_column_names_near_ones() -> None:
    with pytest.raises(NotFoundError, match="Known here"):
        project(SCHEMA, ["pp"])
    with pytest.raises(NotFoundError, match=r"p\.q\.z"):
        project(SCHEMA, ["p.q.z"])


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "`a", "`a`b", "a`b"])
def test_malformed_paths(text: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_path(text)


def test_prune_keeps_the_paths_to_the_leaves() -> None:
    assert [field.id for top in prune(SCHEMA.fields, {3, 6}) for field in top.walk()] == [1, 2, 3, 6]


def nested(*fields: pa.Field) -> LanceSchema:
    return from_arrow_schema(pa.schema(list(fields)))


def test_lists_and_fixed_size_lists_of_structs_are_projected() -> None:
    pair = pa.struct([("a", pa.int8()), ("b", pa.int8())])
    schema = nested(pa.field("l", pa.list_(pair)), pa.field("f", pa.list_(pair, 2)))
    projected = to_arrow_schema(project(schema, ["l.item.b", "f.item.a"]))
    b, a = pa.struct([("b", pa.int8())]), pa.struct([("a", pa.int8())])
    assert projected == pa.schema([("l", pa.list_(b)), ("f", pa.list_(a, 2))])


@pytest.mark.parametrize("path", ["m.entries.key", "m.entries.value", "m.entries", "m"])
def test_a_map_keeps_its_keys_and_its_values(path: str) -> None:
    schema = nested(pa.field("m", pa.map_(pa.string(), pa.struct([("x", pa.int8()), ("y", pa.int8())]))))
    assert project(schema, [path]) == schema


def test_the_values_of_a_map_are_projected() -> None:
    schema = nested(pa.field("m", pa.map_(pa.string(), pa.struct([("x", pa.int8()), ("y", pa.int8())]))))
    expected = pa.map_(pa.string(), pa.struct([("y", pa.int8())]))
    assert to_arrow_schema(project(schema, ["m.entries.value.y"])).field("m").type == expected


def test_a_packed_struct_stays_whole() -> None:
    pair = pa.struct([("a", pa.int8()), ("b", pa.int8())])
    schema = nested(pa.field("p", pair, metadata={"lance-encoding:packed": "true"}), pa.field("c", pa.int8()))
    assert [field.name for field in project(schema, ["p.b"]).walk()] == ["p", "a", "b"]


def test_one_of_two_blobs() -> None:
    parts = (Field("kind", FieldId(-1), "uint8"), Field("size", FieldId(-1), "uint64"))
    blobs = [
        Field(name, FieldId(number), "struct", children=parts, metadata={"lance-encoding:blob": b"true"})
        for number, name in [(1, "b"), (2, "c")]
    ]
    schema = LanceSchema((Field("s", FieldId(0), "struct", children=tuple(blobs)),))
    for path in ("s.b", "s.b.size"):
        assert [field.name for field in project(schema, [path]).walk()] == ["s", "b", "kind", "size"]


def test_an_empty_struct_and_a_null_column_are_leaves() -> None:
    schema = nested(pa.field("s", pa.struct([("e", pa.struct([])), ("n", pa.null())])))
    assert [field.name for field in project(schema, ["s.e"]).walk()] == ["s", "e"]


def test_nothing_is_projected_to_nothing() -> None:
    assert project(SCHEMA, []).fields == ()


def test_field_by_id() -> None:
    assert SCHEMA.field_by_id(3).name == "x"
    with pytest.raises(NotFoundError, match="17"):
        SCHEMA.field_by_id(17)
