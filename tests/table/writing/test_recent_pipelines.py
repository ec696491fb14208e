"""Appends share the row pipeline of the last one, unless the table or the rows differ."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError
from lance_spark.schema.arrow import from_arrow_schema
from lance_spark.schema.constraints import CHECK_PREFIX
from lance_spark.schema.field import LanceSchema
from lance_spark.table.columns.check_constraints import add_check
from lance_spark.table.writing import row_pipeline
from lance_spark.table.writing.row_pipeline import RowPipeline

GIVEN = pa.schema([pa.field("a", pa.int64()), pa.field("s", pa.string())])


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)


def test_the_same_columns_and_an_equal_schema() -> None:
    table = from_arrow_schema(GIVEN)
    made = RowPipeline.of(table, GIVEN)
    assert RowPipeline.of(LanceSchema(table.fields, {}), pa.schema(list(GIVEN))) is made


@pytest.mark.parametrize(
    "given",
    [
        pa.schema([GIVEN.field("s"), GIVEN.field("a")]),
        pa.schema([pa.field("a", pa.int64()), pa.field("s", pa.large_string())]),
        pa.schema([pa.field("a", pa.int64(), nullable=False), GIVEN.field("s")]),
        pa.schema([pa.field("a", pa.int64(), metadata={"k": "v"}), GIVEN.field("s")]),
        GIVEN.with_metadata({"k": "v"}),
    ],
)
def test_another_schema_of_the_rows(given: pa.Schema) -> None:
    table = from_arrow_schema(GIVEN)
    assert RowPipeline.of(table, GIVEN) is not RowPipeline.of(table, given)


def test_another_table() -> None:
    table = from_arrow_schema(GIVEN)
    made = RowPipeline.of(table, GIVEN)
    assert RowPipeline.of(from_arrow_schema(GIVEN), GIVEN) is not made
    assert RowPipeline.of(LanceSchema(table.fields, {f"{CHECK_PREFIX}c": b"a > 0"}), GIVEN) is not made


def test_a_condition_on_the_time_is_of_each_append() -> None:
    uri = "memory://kept-conformers-of-the-time"
    schema = pa.schema([pa.field("at", pa.timestamp("us", "UTC"))])
    lance_spark.write(pa.table([[_now()]], schema.with_metadata({f"{CHECK_PREFIX}past": "at <= now()"})), uri)
    for _ in range(3):
        lance_spark.write(pa.table([[_now()]], schema), uri, mode="append")
    assert lance_spark.open(uri).count_rows() == 4


def test_only_the_last_ones_are_kept() -> None:
    for number in range(20):
        given = pa.schema([pa.field(f"c{number}", pa.int64())])
        RowPipeline.of(from_arrow_schema(given), given)
    assert len(row_pipeline._recent) <= 8


def test_a_constraint_counts_from_the_next_append_on() -> None:
    uri = "memory://kept-conformers"
    rows = pa.table({"a": [1, -1]})
    lance_spark.write(rows, uri)
    lance_spark.write(rows, uri, mode="append")
    lance_spark.write(rows, uri, mode="append")
    lance_spark.open(uri).delete("a < 0")
    dataset = lance_spark.open(uri)
    add_check(dataset.location, dataset.manifest, "positive", "a > 0")
    with pytest.raises(InvalidInputError, match="positive"):
        lance_spark.write(rows, uri, mode="append")
    assert lance_spark.open(uri).count_rows() == 3
