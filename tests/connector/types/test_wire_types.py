"""Decimals travel to the JVM as 64-bit numbers where they fit: every value has to arrive as it is."""

from __future__ import annotations

from decimal import Decimal

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from lance_spark.errors import CorruptFileError
from lance_spark.spark.connector.channel.wire_types import to_wire_batch, wire_schema


def test_decimals_of_every_width(spark: SparkSession, uri: str) -> None:
    rows = []
    for number in range(40):
        small = None if number % 7 == 3 else Decimal(number - 20).scaleb(-2)
        long = None if number % 5 == 1 else Decimal((-1) ** number * (10**18 - 1 - number)).scaleb(-4)
        wide = None if number % 5 == 2 else Decimal(f"{'-' * (number % 2)}{10**28 - 1 - number}.{10**10 - 1 - number}")
        nested = None if number % 11 == 4 else {"d": small, "l": [long, None, small and long]}
        rows.append({"small": small, "long": long, "wide": wide, "nested": nested, "m": [("k", long)]})
    short, eighteen = pa.decimal128(5, 2), pa.decimal128(18, 4)
    schema = pa.schema(
        [
            ("small", short),
            ("long", eighteen),
            ("wide", pa.decimal128(38, 10)),
            ("nested", pa.struct([("d", short), ("l", pa.list_(eighteen))])),
            ("m", pa.map_(pa.string(), eighteen)),
        ]
    )
    lance.write_dataset(pa.Table.from_pylist(rows, schema), uri, data_storage_version="2.2", max_rows_per_file=15)
    frame = spark.read.format("lance").load(uri)
    read = [row.asDict(recursive=True) for row in frame.collect()]
    expected = [{**row, "m": dict(row["m"])} for row in rows]
    assert sorted(read, key=repr) == sorted(expected, key=repr)
    assert frame.where("nested.l[0] < -99999999999999.9").count() == sum(
        row["nested"] is not None
        and row["nested"]["l"][0] is not None
        and row["nested"]["l"][0] < Decimal("-99999999999999.9")
        for row in rows
    )
    summed = frame.selectExpr("sum(small)", "max(long)", "min(wide)").first()
    for column, value, fold in zip(("small", "long", "wide"), summed, (sum, max, min), strict=True):
        assert value == fold(row[column] for row in rows if row[column] is not None)


def test_slices_with_nulls_and_rubbish_below_them() -> None:
    words = np.array([5, 0, 7, 7, -3, -1, 9, 0], np.int64)  # The second value has too many digits; it is null.
    array = pa.Array.from_buffers(
        pa.decimal128(9, 2), 4, [pa.py_buffer(bytes([0b1101])), pa.py_buffer(words)], null_count=1
    )
    target = wire_schema(StructType.fromDDL("a DECIMAL(9, 2)"))
    assert target.field("a").type == pa.int64()
    for start in range(4):
        batch = pa.record_batch({"a": array}).slice(start)
        assert to_wire_batch(batch, target)["a"].to_pylist() == [5, None, -3, 9][start:]
    damaged = pa.Array.from_buffers(pa.decimal128(9, 2), 4, [None, pa.py_buffer(words)])
    with pytest.raises(CorruptFileError, match="digits"):
        to_wire_batch(pa.record_batch({"a": damaged}), target)


def test_rows_without_columns_come_with_one_that_is_none_of_them() -> None:
    batch = to_wire_batch(pa.RecordBatch.from_pydict({"a": [1, 2, 3]}), pa.schema([]))
    assert (batch.num_rows, batch.num_columns) == (3, 1)


def test_rows_are_counted_without_their_columns(spark: SparkSession, uri: str) -> None:
    spark.range(1000, numPartitions=2).write.format("lance").save(uri)
    frame = spark.read.format("lance").load(uri).select()
    assert frame.columns == []
    assert len(frame.collect()) == 1000
    assert spark.read.format("lance").load(uri).where("id < 10").selectExpr("1 AS one").groupBy(
        "one"
    ).count().collect() == [(1, 10)]
