"""partitionOverwriteMode in the plug-in, which has no partitions: an unpartitioned Parquet table is replaced too."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lance_spark
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.transforms.identity import Identity


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["static", "Dynamic"])
def test_overwrite_replaces_all_rows_as_in_parquet(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    for kind in ("parquet", "lance"):
        path = str(tmp_path / kind)
        spark.range(5).write.format(kind).mode("append").save(path)
        spark.range(9, 10).write.format(kind).mode("overwrite").option("partitionOverwriteMode", mode).save(path)
        assert [row.id for row in spark.read.format(kind).load(path).collect()] == [9], kind


@pytest.mark.slow
def test_other_values_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    lance_spark.write(pa.table({"id": [1]}), uri)
    for mode in ("append", "overwrite"):
        writer = spark.range(9).write.format("lance").mode(mode).option("partitionOverwriteMode", "none")
        with pytest.raises(PySparkException, match="is 'none', which is not static or dynamic"):
            writer.save(uri)
    assert lance_spark.open(uri).count_rows() == 1


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_partitioned_tables_are_refused(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    uri = str(tmp_path / "t")
    create_partitioned(uri, pa.schema([("id", pa.int64())]), [PartitionBy("id", ("id",), Identity())])
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(PySparkException, match="is a partitioned table, which the plug-in does not write"):
        spark.range(9).write.format("lance").mode(mode).save(uri)
    assert sorted(tmp_path.rglob("*")) == before


def test_partition_by_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    writer = spark.range(9).write.format("lance").mode("overwrite").partitionBy("id")
    with pytest.raises(PySparkException, match="do not match the existing table's"):
        writer.option("partitionOverwriteMode", "dynamic").save(str(tmp_path / "t"))
    assert not (tmp_path / "t").exists()
