"""`CALL system.upgrade_files`: a job over the cluster that makes one version with newer files."""

from __future__ import annotations

import uuid
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.errors.exceptions.base import PySparkException
from pyspark.sql import Row, SparkSession

import lance_spark


def upgrade(spark: SparkSession, arguments: str) -> list[Row]:
    return spark.sql(f"CALL lance.system.upgrade_files({arguments})").collect()


@pytest.mark.parametrize("old", ["legacy", "2.0", "2.1"])
def test_table_is_upgraded_in_one_version(spark: SparkSession, tmp_path: Path, old: str) -> None:
    uri = str(tmp_path / "t")
    table = pa.table({"a": pa.array(range(30), pa.int64()), "s": [f"s {i}" for i in range(30)]})
    lance.write_dataset(table, uri, data_storage_version=old, max_rows_per_file=10)

    rows = upgrade(spark, f"table => '{uri}', version => '2.2', commit_message => 'newer'")

    assert [row.asDict() for row in rows] == [{"version": 2, "file_version": "2.2", "fragments_rewritten": 3}]
    assert lance.dataset(uri).data_storage_version == "2.2"
    assert lance.dataset(uri).to_table() == table
    assert lance_spark.open(uri).versions()[-1].message == "newer"
    assert [tuple(row) for row in upgrade(spark, f"'{uri}', '2.2'")] == [(2, "2.2", 0)]


def test_append_to_legacy_table_names_the_procedure(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": pa.array([1], pa.int64())}), uri, data_storage_version="legacy")
    with pytest.raises(PySparkException, match="upgrade_files"):
        spark.createDataFrame([(2,)], "a bigint").write.format("lance").mode("append").save(uri)
    upgrade(spark, f"'{uri}', '2.1'")
    spark.createDataFrame([(2,)], "a bigint").write.format("lance").mode("append").save(uri)
    assert sorted(lance.dataset(uri).to_table()["a"].to_pylist()) == [1, 2]


@pytest.mark.slow
def test_partitioned_table_is_upgraded_in_one_version(spark: SparkSession) -> None:
    name = f"upgraded_{uuid.uuid4().hex[:8]}"
    options = "TBLPROPERTIES ('file_format_version' = '2.0')"
    spark.sql(f"CREATE TABLE lance.{name} (a BIGINT, p STRING) USING lance PARTITIONED BY (p) {options}")
    spark.sql(f"INSERT INTO lance.{name} VALUES (1, 'x'), (2, 'y'), (3, 'y')")

    [row] = upgrade(spark, f"'{name}', '2.2'")

    assert (row.file_version, row.fragments_rewritten) == ("2.2", 2)
    found = spark.sql(f"SELECT DISTINCT file_format_version FROM lance.{name}.files").collect()
    assert [item[0] for item in found] == ["2.2"]
    assert spark.sql(f"SELECT sum(a) FROM lance.{name}").collect()[0][0] == 6
    spark.sql(f"INSERT INTO lance.{name} VALUES (4, 'z')")
    assert spark.sql(f"SELECT DISTINCT file_format_version FROM lance.{name}.files").count() == 1


@pytest.mark.parametrize(("version", "message"), [("2.3", "cannot be upgraded"), ("1", "unknown file format version")])
def test_refused_versions(spark: SparkSession, tmp_path: Path, version: str, message: str) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(pa.table({"a": [1]}), uri)
    with pytest.raises(PySparkException, match=message):
        upgrade(spark, f"'{uri}', '{version}'")
