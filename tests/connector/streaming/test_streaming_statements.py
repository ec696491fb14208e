"""Beside source and sink: streams of changes, writes in foreachBatch, and what CALL says of streams."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import lance
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.support.connector.streams import data_files, forget_commit, run

APP, VERSION = "spark.sql.lance.txnAppId", "spark.sql.lance.txnVersion"


@pytest.fixture
def table(spark: SparkSession, request: pytest.FixtureRequest) -> str:
    """Version 2 inserts ids 0 to 4."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.streamed")
    name = f"lance.streamed.t{abs(hash(request.node.name)) % 10**9}"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, s STRING) USING lance")
    spark.sql(f"INSERT INTO {name} SELECT id, concat('n', id) FROM range(5)")
    return name


@pytest.fixture
def named(spark: SparkSession, table: str) -> Iterator[SparkSession]:
    """A session whose settings name writes."""
    spark.conf.set(APP, "settings")
    yield spark
    spark.conf.unset(APP)
    spark.conf.unset(VERSION)


def read(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.format("lance").load(path)


@pytest.mark.since("4.2", "streams of changes by name")
@pytest.mark.slow
@pytest.mark.parametrize("by_sql", [False, True])
def test_stream_of_changes(spark: SparkSession, table: str, tmp_path: Path, by_sql: bool) -> None:
    target = str(tmp_path / "target")

    def copy() -> list[tuple[object, ...]]:
        if by_sql:
            frame = spark.sql(f"SELECT * FROM STREAM {table} CHANGES FROM VERSION 3")
        else:
            frame = spark.readStream.option("startingVersion", 3).changes(table)
        run(frame, target, tmp_path / "c")
        found = read(spark, target).select("_commit_version", "_change_type", "id")
        return sorted(map(tuple, found.collect()))

    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    assert copy() == [(3, "delete", 1)]
    spark.sql(f"INSERT INTO {table} VALUES (7, 'n7')")
    assert copy() == [(3, "delete", 1), (4, "insert", 7)]
    forget_commit(tmp_path / "c")
    assert copy() == [(3, "delete", 1), (4, "insert", 7)]


@pytest.mark.since("4.2", "streams of changes by name")
@pytest.mark.slow
def test_stream_of_changes_stops_at_its_end(spark: SparkSession, table: str, tmp_path: Path) -> None:
    for number in range(3):
        spark.sql(f"INSERT INTO {table} VALUES ({10 + number}, 'x')")
    frame = spark.readStream.option("startingVersion", 3).option("endingVersion", 4).changes(table)
    run(frame, str(tmp_path / "target"), tmp_path / "c")
    assert sorted(row.id for row in read(spark, str(tmp_path / "target")).collect()) == [10, 11]


def test_option_of_changes_comes_too_late_by_name(spark: SparkSession, table: str, tmp_path: Path) -> None:
    frame = spark.readStream.option("readChangeFeed", "true").table(table)
    with pytest.raises(PySparkException, match=r"use load\(path\), or .*spark\.readStream\.changes"):
        run(frame, str(tmp_path / "target"), tmp_path / "c")


@pytest.mark.slow
def test_write_in_foreach_batch_is_done_once(spark: SparkSession, table: str, tmp_path: Path) -> None:
    target = str(tmp_path / "target")

    def write(batch: DataFrame, number: int) -> None:
        options = {"txnAppId": "nightly", "txnVersion": str(number)}
        batch.write.format("lance").mode("append").options(**options).save(target)

    def start() -> None:
        writer = spark.readStream.table(table).writeStream.foreachBatch(write).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination()

    start()
    forget_commit(tmp_path / "c")
    before = data_files(target)
    start()
    assert read(spark, target).count() == 5
    assert data_files(target) == before
    spark.sql(f"INSERT INTO {table} VALUES (7, 'n7')")
    start()
    assert read(spark, target).count() == 6


@pytest.mark.slow
@pytest.mark.parametrize("partitioning", ["", "PARTITIONED BY (id)"], ids=["plain", "partitioned"])
def test_named_statements_replace_a_table_once(named: SparkSession, table: str, partitioning: str) -> None:
    target = f"{table}_target"

    def versions() -> int:
        return named.table(f"{target}.versions").count()

    for number in range(2):
        named.conf.set(VERSION, str(number))
        text = f"CREATE OR REPLACE TABLE {target} {partitioning} AS SELECT id, {number} AS n FROM range(3)"
        named.sql(text)
    before = versions()
    named.sql(text)
    assert versions() == before
    named.conf.set(VERSION, "2")
    for _ in range(2):
        named.range(2).selectExpr("id", "7 AS n").write.format("lance").mode("overwrite").saveAsTable(target)
    assert sorted(map(tuple, named.table(target).collect())) == [(0, 7), (1, 7)]


IDEMPOTENT = "spark.sql.lance.foreachBatch.idempotent"


@pytest.fixture
def idempotent(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set(IDEMPOTENT, "true")
    yield spark
    spark.conf.unset(IDEMPOTENT)


@pytest.mark.slow
def test_all_writes_of_a_batch_are_done_once(idempotent: SparkSession, table: str, tmp_path: Path) -> None:
    spark, first, second = idempotent, str(tmp_path / "first"), f"{table}_second"
    spark.sql(f"CREATE TABLE {second} (id BIGINT, n BIGINT)")
    fails = [True]

    def write(batch: DataFrame, number: int) -> None:
        batch.select("id").write.format("lance").mode("append").save(first)
        batch.createOrReplaceTempView("batch")
        session = batch.sparkSession
        session.sql(f"INSERT INTO {second} SELECT id, 0 FROM batch")
        if fails:
            raise ValueError(fails.pop())
        # Other writes to the same tables, and changes of what the earlier ones wrote.
        batch.select("id").write.format("lance").mode("append").save(first)
        session.sql(f"UPDATE {second} SET n = n + 1")
        session.sql(
            f"MERGE INTO {second} t USING (SELECT DISTINCT id, 5L AS n FROM batch) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET n = t.n + 10 WHEN NOT MATCHED THEN INSERT *"
        )

    def start() -> None:
        writer = spark.readStream.table(table).writeStream.foreachBatch(write).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "c")).start().awaitTermination()

    with pytest.raises(PySparkException, match="True"):
        start()
    start()
    forget_commit(tmp_path / "c")
    start()
    assert read(spark, first).count() == 2 * 5
    assert [row.n for row in spark.table(second).collect()] == [11] * 5
    spark.sql(f"INSERT INTO {table} VALUES (77, 'new')")
    start()
    assert read(spark, first).count() == 2 * 6
    assert sorted(row.n for row in spark.table(second).collect()) == [11, 12, 12, 12, 12, 12]


@pytest.mark.slow
def test_batches_of_a_checkpoint_that_was_put_back_are_errors(
    idempotent: SparkSession, table: str, tmp_path: Path
) -> None:
    spark, target = idempotent, str(tmp_path / "target")

    def start(checkpoint: str) -> None:
        def write(batch: DataFrame, _: int) -> None:
            batch.select("id").write.format("lance").mode("append").save(target)

        writer = spark.readStream.table(table).writeStream.foreachBatch(write).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / checkpoint)).start().awaitTermination()

    start("c")
    shutil.copytree(tmp_path / "c", tmp_path / "old")
    spark.sql(f"INSERT INTO {table} VALUES (77, 'new')")
    start("c")
    forget_commit(tmp_path / "c")
    start("c")
    # The next batch of the copy has the number of the last one, and one row more.
    spark.sql(f"INSERT INTO {table} VALUES (78, 'new')")
    with pytest.raises(PySparkException, match=r"LANCE_STREAM_BEHIND.*another epoch 1"):
        start("old")
    start("c")
    assert read(spark, target).count() == 7


@pytest.mark.slow
def test_statements_that_cannot_be_done_once_are_refused_in_a_batch(
    idempotent: SparkSession, table: str, tmp_path: Path
) -> None:
    spark = idempotent

    def start(statement: str) -> None:
        writer = spark.readStream.table(table).writeStream.foreachBatch(lambda batch, _: spark.sql(statement))
        path = str(tmp_path / statement.split()[0])
        writer.option("checkpointLocation", path).trigger(availableNow=True).start().awaitTermination()

    target = f"{table}_target"
    spark.sql(f"CREATE TABLE {target} (id BIGINT)")
    with pytest.raises(PySparkException, match="TRUNCATE cannot be done once only"):
        start(f"TRUNCATE TABLE {target}")
    with pytest.raises(PySparkException, match="CALL restore cannot be done once only"):
        start(f"CALL lance.system.restore(table => '{target.removeprefix('lance.')}', version => 1)")
    spark.conf.set(IDEMPOTENT, "maybe")
    with pytest.raises(PySparkException, match=f"{IDEMPOTENT} is 'maybe'; set it to true or false"):
        spark.sql(f"INSERT INTO {target} VALUES (1)")


def test_older_write_is_an_error_unless_it_may_be_old(spark: SparkSession, tmp_path: Path) -> None:
    target = str(tmp_path / "target")

    def write(version: int, **more: str) -> None:
        options = {"txnAppId": "a", "txnVersion": str(version), **more}
        spark.range(1).write.format("lance").mode("append").options(**options).save(target)

    write(4)
    write(5)
    with pytest.raises(PySparkException, match="LANCE_STREAM_BEHIND"):
        write(4)
    write(4, txnIgnoreOld="true")
    assert read(spark, target).count() == 2
    with pytest.raises(PySparkException, match="set both"):
        spark.range(1).write.format("lance").mode("append").option("txnAppId", "a").save(target)


@pytest.mark.slow
def test_statements_are_named_by_the_session(named: SparkSession, table: str) -> None:
    statements = [
        f"INSERT INTO {table} VALUES (10, 'ten')",
        f"UPDATE {table} SET id = id + 100 WHERE s LIKE 'n%'",
        f"DELETE FROM {table} WHERE id = 10",
        f"MERGE INTO {table} t USING (SELECT 100L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = 101",
    ]
    for number, statement in enumerate(statements):
        named.conf.set(VERSION, str(number))
        for _ in range(2):
            named.sql(statement)
    named.conf.unset(APP)
    named.conf.unset(VERSION)
    assert sorted(row.id for row in named.table(table).collect()) == [101, 101, 102, 103, 104]


@pytest.mark.slow
def test_call_shows_and_releases_streams(spark: SparkSession, table: str, tmp_path: Path) -> None:
    target = table + "_copy"
    run(spark.readStream.table(table), target, tmp_path / "c", txnAppId="nightly")
    short = target.removeprefix("lance.")
    found = spark.sql(f"CALL lance.system.streams('{short}')").collect()
    assert [(row.query, row.epoch) for row in found] == [("nightly", 0)]
    assert found[0].committed_at is not None
    spark.sql(f"CALL lance.system.release_stream('{short}', 'nightly')")
    assert spark.sql(f"CALL lance.system.streams('{short}')").count() == 0
    run(spark.readStream.table(table), target, tmp_path / "other", txnAppId="nightly")
    assert spark.table(target).count() == 10
    with pytest.raises(AnalysisException, match="no streaming query other has written"):
        spark.sql(f"CALL lance.system.release_stream('{short}', 'other')")
    assert lance.dataset(_location(spark, target)).count_rows() == 10


def test_call_shows_streams_of_partitioned_tables(spark: SparkSession, table: str, tmp_path: Path) -> None:
    target = table + "_parts"
    spark.sql(f"CREATE TABLE {target} (id BIGINT, s STRING) USING lance PARTITIONED BY (s)")
    run(spark.readStream.table(table), target, tmp_path / "c", txnAppId="nightly")
    short = target.removeprefix("lance.")
    assert [row.epoch for row in spark.sql(f"CALL lance.system.streams('{short}')").collect()] == [0]
    spark.sql(f"CALL lance.system.release_stream('{short}', 'nightly')")
    assert spark.table(target).count() == 5


def _location(spark: SparkSession, table: str) -> str:
    return spark.sql(f"DESCRIBE EXTENDED {table}").where("col_name = 'Location'").first().data_type
