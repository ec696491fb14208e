"""Values that tasks compute: written as files, then taken by INSERT."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

import lance
import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import pandas_udf

import lance_spark
from lance_spark.blobs import open_blob, writer
from tests.support.process_memory import peak_of_python_processes

MIB = 1 << 20


def location(spark: SparkSession, table: str) -> str:
    return str(spark.sql(f"DESCRIBE EXTENDED {table}").where("col_name = 'Location'").first().data_type)  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.parametrize("by", ["", "PARTITIONED BY (p)"], ids=["plain", "partitioned"])
def test_computed_values_are_inserted(spark: SparkSession, by: str) -> None:
    table = f"lance.computed{'_parts' if by else ''}"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, p INT, img BINARY) {by} TBLPROPERTIES ('img.lance.encoding' = 'blob')")
    uri = location(spark, table)

    @pandas_udf("string")  # type: ignore[call-overload]
    def computed(ids: pd.Series) -> pd.Series:
        uris = []
        for number in ids:
            with writer(uri) as file:
                for piece in range(int(number)):
                    file.write(bytes([piece % 256]) * 1000)
            uris.append(file.uri)
        return pd.Series(uris)

    values = spark.createDataFrame([(0,), (3,), (100,), (5000,)], "id BIGINT").withColumn("uri", computed("id"))
    values.selectExpr("id", "CAST(id % 2 AS INT) AS p", "blob_ingest(uri) AS img").writeTo(table).append()
    expected = {count: b"".join(bytes([n % 256]) * 1000 for n in range(count)) for count in (0, 3, 100, 5000)}
    rows = spark.sql(f"SELECT id, img.kind, lance_read_blob(img) AS data FROM {table}").collect()
    assert {row.id: bytes(row.data) for row in rows} == expected
    assert {row.id: row.kind for row in rows} == {0: 0, 3: 0, 100: 1, 5000: 2}
    if not by:
        theirs = lance.dataset(uri.removeprefix("file:")).scanner(blob_handling="all_binary").to_table()
        assert dict(zip(theirs["id"].to_pylist(), theirs["img"].to_pylist(), strict=True)) == expected
    # What was copied from is named by no version, and goes when it is old.
    root = Path(uri.removeprefix("file:"))
    before = len(list(root.rglob("*.blob")))
    lance_spark.open(str(root)).remove_orphans(timedelta(0))
    assert len(list(root.rglob("*.blob"))) == before - 4
    assert spark.sql(f"SELECT sum(length(lance_read_blob(img))) FROM {table}").collect() == [(5_103_000,)]
    spark.sql(f"DROP TABLE {table}")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of processes from /proc")
def test_large_values_pass_in_small_memory(spark: SparkSession) -> None:
    table, size = "lance.large_values", 700 * MIB
    spark.sql(f"CREATE TABLE {table} (id BIGINT, img BINARY) TBLPROPERTIES ('img.lance.encoding' = 'blob')")
    uri = location(spark, table)

    @pandas_udf("string")  # type: ignore[call-overload]
    def computed(ids: pd.Series) -> pd.Series:
        with writer(uri) as file:
            for _ in range(size // MIB):
                file.write(bytes(MIB))
            file.write(b"end")
        return pd.Series([file.uri] * len(ids))

    @pandas_udf("string")  # type: ignore[call-overload]
    def tail(images: pd.DataFrame) -> pd.Series:
        files = [open_blob(row, uri) for _, row in images.iterrows()]
        return pd.Series([file and f"{file.size} {file.read_range(file.size - 3, 9).decode()}" for file in files])

    with peak_of_python_processes() as peak:
        computed_once = spark.range(1).withColumn("uri", computed("id")).localCheckpoint()
        computed_once.selectExpr("id", "blob_ingest(uri) AS img").writeTo(table).append()
        spark.sql(f"UPDATE {table} SET id = id + 1")
        found = spark.table(table).select("id", tail("img").alias("tail")).collect()
    assert [tuple(row) for row in found] == [(1, f"{size + 3} end")]
    assert peak.num_bytes < size // 2
    # The watch saw the processes.
    assert peak.whole_bytes > 50 * MIB
    spark.sql(f"DROP TABLE {table}")
