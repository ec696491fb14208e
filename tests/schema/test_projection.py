"""Projection by dotted path and by id."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.schema.arrow import from_arrow_schema, to_arrow_schema
from lance_spark.schema.projection import parse_path, project, prune

POINT = pa.struct([("x", pa.int32()), ("y", pa.int32())])
SCHEMA = from_arrow_schema(
    pa.schema([("a", pa.int32()), ("p", pa.struct([("q", POINT), ("r", pa.string())])), ("dots.in.name", pa.int8())])
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
    assert project(SCHEMA, ["dots.in.name"]).names() == ("dots.in.name",)
    assert project(SCHEMA, ["`dots.in.name`"]).names() == ("dots.in.name",)


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
