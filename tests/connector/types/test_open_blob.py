"""Blobs as files in the functions of pandas and Arrow that Spark's tasks run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql.functions import pandas_udf
from pyspark.sql.types import BinaryType

import lance_spark
from lance_spark.blobs import open_blob, read_all
from lance_spark.errors import InvalidInputError, NotFoundError

VALUES = {1: b"small", 2: b"m" * 70_000 + b"end", 3: b"l" * (5 << 20) + b"end", 4: None, 5: b""}


@pytest.fixture(params=["plain", "partitioned"])
def table(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    by = " PARTITIONED BY (p)" if request.param == "partitioned" else ""
    name = f"lance.opened_{request.param}"
    spark.sql(f"CREATE TABLE {name} (id INT, p INT, img BINARY){by} TBLPROPERTIES ('img.lance.encoding' = 'blob')")
    rows = [(number, number % 2, None if value is None else bytearray(value)) for number, value in VALUES.items()]
    spark.createDataFrame(rows, "id INT, p INT, img BINARY").writeTo(name).append()
    yield name
    spark.sql(f"DROP TABLE {name}")


def location(spark: SparkSession, table: str) -> str:
    return str(spark.sql(f"DESCRIBE EXTENDED {table}").where("col_name = 'Location'").first().data_type)  # type: ignore[union-attr]


def tail(description: object, uri: str) -> str | None:
    file = open_blob(description, uri)
    if file is None:
        return None
    file.seek(max(0, file.size - 3))
    return f"{file.size} {file.read().decode()}"


EXPECTED = {1: "5 all", 2: "70003 end", 3: f"{(5 << 20) + 3} end", 4: None, 5: "0 "}


@pytest.mark.slow
def test_values_are_files_in_tasks(spark: SparkSession, table: str) -> None:
    uri = location(spark, table)

    @pandas_udf("string")  # type: ignore[call-overload]
    def of_pandas(images: pd.DataFrame) -> pd.Series:
        return images.apply(lambda row: tail(row, uri), axis=1)

    def of_arrow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = [tail(item, uri) for item in batch.column(1).to_pylist()]
            yield pa.RecordBatch.from_pydict({"id": batch.column(0), "found": pa.array(found, pa.string())})

    frame = spark.table(table)
    rows = frame.select("id", of_pandas("img").alias("found")).collect()
    assert {row.id: row.found for row in rows} == EXPECTED
    rows = frame.select("id", "img").mapInArrow(of_arrow, "id INT, found STRING").collect()
    assert {row.id: row.found for row in rows} == EXPECTED
    # On the driver too, for the rows that a query has returned.
    assert {row.id: tail(row.img, uri) for row in frame.collect()} == EXPECTED


@pytest.mark.slow
def test_rows_of_later_versions_and_partitions(spark: SparkSession, table: str) -> None:
    uri = location(spark, table)
    before = {row.id: row.img for row in spark.table(table).collect()}
    assert tail(before[2], uri) == EXPECTED[2]
    spark.sql(f"INSERT INTO {table} VALUES (9, 77, CAST(repeat('n', 80000) AS BINARY))")
    spark.sql(f"DELETE FROM {table} WHERE id = 2")
    (new,) = spark.table(table).where("id = 9").collect()
    assert tail(new.img, uri) == "80000 nnn"
    assert tail(before[2], uri) == EXPECTED[2]


@pytest.mark.slow
def test_bytes_are_read_behind_a_join(spark: SparkSession, table: str) -> None:
    uri = location(spark, table)
    joined = spark.table(table).alias("t").join(spark.range(0, 5).alias("r"), on="id").select("id", "img")
    for most in (1, 80_000, 1 << 30):
        found = read_all(joined, "img", uri, max_bytes_in_flight=most)
        assert found.schema["img"].dataType == BinaryType()
        rows = found.collect()
        assert {row.id: None if row.img is None else bytes(row.img) for row in rows} == {
            number: value for number, value in VALUES.items() if number < 5
        }
    parts = joined.selectExpr("id", "img", "nullif(id * 30000L, 30000L) AS first", "CAST(id AS INT) AS count")
    for most in (1, 1 << 30):
        read = read_all(parts, "img", uri, offset="first", length="count", max_bytes_in_flight=most).collect()
        assert {row.id: None if row.img is None else bytes(row.img) for row in read} == {
            number: None if value is None or number == 1 else value[number * 30000 :][:number]
            for number, value in VALUES.items()
            if number < 5
        }
    for wrong in ({"offset": "first"}, {"offset": "img", "length": "count"}, {"offset": "none", "length": "count"}):
        with pytest.raises(InvalidInputError, match=r"whole numbers|both an offset"):
            read_all(parts, "img", uri, **wrong)
    with pytest.raises(PySparkException, match="neither may be negative"):
        read_all(parts.withColumn("first", -parts.id), "img", uri, offset="first", length="count").collect()
    with pytest.raises(InvalidInputError, match="no column 'id' with descriptions"):
        read_all(joined, "id", uri)
    with pytest.raises(InvalidInputError, match="at least 1"):
        read_all(joined, "img", uri, max_bytes_in_flight=0)


def test_what_is_no_description(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(pa.table({"id": [1]}), uri)
    assert open_blob(None, uri) is None
    for wrong in ({"kind": 0}, Row(kind=0), b"bytes", 5):
        with pytest.raises(InvalidInputError, match="no description of a blob"):
            open_blob(wrong, uri)
    missing = {"kind": 0, "position": 0, "size": 5, "blob_id": 0, "blob_uri": "", "source": ":data/none.lance"}
    file = open_blob(missing, uri)
    assert file is not None
    with pytest.raises(NotFoundError):
        file.read()
    with pytest.raises(InvalidInputError, match="outside of the table"):
        open_blob({**missing, "kind": 3, "blob_uri": "file:///etc/passwd"}, uri)
