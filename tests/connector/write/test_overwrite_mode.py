"""partitionOverwriteMode, beside what Spark's Parquet does with the same calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F

OPTION, SETTING = "partitionOverwriteMode", "spark.sql.sources.partitionOverwriteMode"
OLD, NEW = [(1, "a"), (2, "b"), (3, "c")], [(9, "b")]
ONLY_B = [(1, "a"), (3, "c"), (9, "b")]
Save = Callable[[DataFrameWriter, bool], None]


def rows(frame: DataFrame) -> list[tuple[int, str]]:
    return sorted(tuple(row) for row in frame.select("id", "k").collect())


def frame(spark: SparkSession, values: list[tuple[int, str]]) -> DataFrame:
    return spark.createDataFrame(values, "id int, k string")


@pytest.fixture
def table(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """A partitioned Lance table with the rows OLD."""
    name = "lance.overwritten"
    spark.sql(f"CREATE TABLE {name} (id int, k string) PARTITIONED BY (k)")
    frame(spark, OLD).writeTo(name).append()
    yield name
    spark.sql(f"DROP TABLE {name} PURGE")


@pytest.fixture(params=["static", "dynamic"])
def session_mode(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    spark.conf.set(SETTING, request.param)
    yield request.param
    spark.conf.unset(SETTING)


def overwrite(writer: DataFrameWriter, kind: str, option: str | None) -> DataFrameWriter:
    writer = writer.format(kind).mode("overwrite")
    return writer if option is None else writer.option(OPTION, option)


@pytest.mark.slow
@pytest.mark.parametrize("option", ["static", "DYNAMIC", None])
@pytest.mark.parametrize("is_partitioned", [False, True])
def test_save_replaces_what_parquet_replaces(
    spark: SparkSession, tmp_path: Path, session_mode: str, option: str | None, is_partitioned: bool
) -> None:
    found = {}
    for kind in ("parquet", "lance"):
        by = ["k"] if is_partitioned else []
        path = str(tmp_path / kind)
        frame(spark, OLD).write.format(kind).partitionBy(*by).save(path)
        overwrite(frame(spark, NEW).write, kind, option).partitionBy(*by).save(path)
        found[kind] = rows(spark.read.format(kind).load(path))
    assert found["lance"] == found["parquet"]


@pytest.mark.slow
@pytest.mark.parametrize("option", ["static", None])
@pytest.mark.parametrize("is_partitioned", [False, True])
def test_save_as_table_replaces_the_table_as_parquet_does(
    spark: SparkSession, session_mode: str, option: str | None, is_partitioned: bool
) -> None:
    for kind, name in (("parquet", "default.replaced"), ("lance", "lance.replaced")):
        by = ["k"] if is_partitioned else []
        frame(spark, OLD).write.format(kind).partitionBy(*by).saveAsTable(name)
        overwrite(frame(spark, NEW).write, kind, option).partitionBy(*by).saveAsTable(name)
        assert rows(spark.table(name)) == NEW, kind
        spark.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("before", [[], ["k"]])
def test_save_as_table_refuses_to_replace_partitions(spark: SparkSession, before: list[str]) -> None:
    """The option has no effect on a statement that replaces the table, so it is refused."""
    frame(spark, OLD).write.option(OPTION, "dynamic").partitionBy(*before).saveAsTable("lance.replaced")
    for writer in (
        overwrite(frame(spark, NEW).write, "lance", "Dynamic").partitionBy("k"),
        overwrite(frame(spark, NEW).write, "lance", "dynamic"),
    ):
        with pytest.raises(PySparkException, match="saveAsTable and REPLACE TABLE replace the table itself"):
            writer.saveAsTable("lance.replaced")
        assert rows(spark.table("lance.replaced")) == OLD
    spark.sql("DROP TABLE lance.replaced PURGE")


def test_save_without_partition_by_keeps_the_other_partitions(spark: SparkSession, tmp_path: Path) -> None:
    """Parquet does not know the partitions of a path here; a Lance table does."""
    path = str(tmp_path / "t")
    frame(spark, OLD).write.format("lance").partitionBy("k").save(path)
    overwrite(frame(spark, NEW).write, "lance", "dynamic").save(path)
    assert rows(spark.read.format("lance").load(path)) == ONLY_B


@pytest.mark.slow
def test_insert_into_dynamic_keeps_the_other_partitions(spark: SparkSession, table: str, session_mode: str) -> None:
    overwrite(frame(spark, NEW).write, "lance", "dynamic").insertInto(table)
    assert rows(spark.table(table)) == ONLY_B
    overwrite(frame(spark, []).write, "lance", "dynamic").insertInto(table)
    assert rows(spark.table(table)) == ONLY_B


def test_insert_into_follows_the_session(spark: SparkSession, table: str, session_mode: str) -> None:
    frame(spark, NEW).write.mode("overwrite").insertInto(table)
    assert rows(spark.table(table)) == (ONLY_B if session_mode == "dynamic" else NEW)


@pytest.mark.slow
def test_insert_overwrite_with_the_option(spark: SparkSession, table: str) -> None:
    spark.sql(f"INSERT OVERWRITE {table} WITH ({OPTION} = 'dynamic') SELECT 9, 'b'")
    assert rows(spark.table(table)) == ONLY_B
    spark.sql(f"INSERT OVERWRITE {table} WITH ({OPTION} = 'dynamic') PARTITION (k = 'a') SELECT 7")
    assert rows(spark.table(table)) == [(3, "c"), (7, "a"), (9, "b")]
    spark.sql(f"INSERT OVERWRITE {table} WITH ({OPTION} = 'dynamic') PARTITION (k = 'a') SELECT 7 WHERE false")
    assert rows(spark.table(table)) == [(3, "c"), (9, "b")]
    spark.sql(f"INSERT OVERWRITE {table} WITH ({OPTION} = 'static') SELECT 1, 'z'")
    assert rows(spark.table(table)) == [(1, "z")]


def test_an_option_that_contradicts_the_statement_is_refused(spark: SparkSession, table: str) -> None:
    new = frame(spark, NEW)
    by_condition = new.writeTo(table).option(OPTION, "dynamic")
    with pytest.raises(PySparkException, match="says by a condition which rows go; leave the option out"):
        by_condition.overwrite(F.col("id") > 1)
    with pytest.raises(PySparkException, match="option partitionOverwriteMode is static, but overwritePartitions"):
        new.writeTo(table).option(OPTION, "static").overwritePartitions()
    spark.conf.set(SETTING, "dynamic")
    try:
        # Spark hands over no PARTITION (...) in this mode, so all partitions would go.
        with pytest.raises(PySparkException, match=f"set {SETTING} to static"):
            spark.sql(f"INSERT OVERWRITE {table} WITH ({OPTION} = 'static') PARTITION (k = 'b') SELECT 9")
    finally:
        spark.conf.unset(SETTING)
    assert rows(spark.table(table)) == OLD


def test_overwrite_of_all_rows_ignores_the_session(spark: SparkSession, table: str, session_mode: str) -> None:
    frame(spark, NEW).writeTo(table).overwrite(F.lit(True))
    assert rows(spark.table(table)) == NEW


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_other_values_are_refused(spark: SparkSession, table: str, uri: str, mode: str) -> None:
    writer = frame(spark, NEW).write.format("lance").mode(mode).option(OPTION, "dynamc")
    for write in (
        lambda: writer.insertInto(table),
        lambda: writer.partitionBy("k").saveAsTable(table),
        lambda: writer.save(uri),
        lambda: writer.partitionBy("k").save(uri),
    ):
        with pytest.raises(PySparkException, match="option partitionOverwriteMode is 'dynamc', which is not static or"):
            write()
    assert rows(spark.table(table)) == OLD
    assert not Path(uri).exists()
