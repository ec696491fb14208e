"""Streams by the plug-in: the same source and sink as the connector's, through Spark's Python interface."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructField, StructType

import lance_spark
from lance_spark.errors import InvalidInputError, StreamBehindError
from lance_spark.spark.compat import SPARK
from lance_spark.spark.plugin.datasource import LanceDataSource
from lance_spark.spark.plugin.stream_writer import EpochResult, LanceStreamWriter

SCHEMA = StructType([StructField("id", LongType())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids(spark: SparkSession, uri: Path) -> list[int]:
    return sorted(row.id for row in spark.read.format("lance").load(str(uri)).collect())


def run(stream: DataFrame, sink: Path, checkpoint: Path, **options: str) -> Any:
    """The query, ended with what was there when it began."""
    writer = stream.writeStream.format("lance").option("checkpointLocation", str(checkpoint)).options(**options)
    query = writer.trigger(availableNow=True).start(str(sink))
    query.awaitTermination()
    return query


@pytest.mark.since("4.2", "limits of batches in Python sources")
@pytest.mark.slow
def test_rows_go_from_table_to_table_over_restarts(spark: SparkSession, tmp_path: Path) -> None:
    source, sink, checkpoint = tmp_path / "source", tmp_path / "sink", tmp_path / "checkpoint"
    lance_spark.write(rows(1, 2), str(source))
    lance_spark.write(rows(3), str(source), mode="append")
    stream = spark.readStream.format("lance").option("maxFilesPerTrigger", "1").load(str(source))
    query = run(stream, sink, checkpoint)
    assert ids(spark, sink) == [1, 2, 3]
    assert [item["numInputRows"] for item in query.recentProgress] == [2, 1]
    lance.write_dataset(rows(4, 5), str(source), mode="append")
    run(stream, sink, checkpoint)
    run(stream, sink, checkpoint)
    assert ids(spark, sink) == [1, 2, 3, 4, 5]
    assert lance.dataset(str(sink)).version == 3
    # Each epoch is a job of its own, so that the clean-up of a failed one finds no file of another.
    assert len({path.stem[-16:] for path in sink.glob("data/*.lance")}) == 3


@pytest.mark.slow
def test_restarts_without_limits(spark: SparkSession, tmp_path: Path) -> None:
    source, sink, checkpoint = tmp_path / "source", tmp_path / "sink", tmp_path / "checkpoint"
    lance_spark.write(rows(1, 2), str(source))
    lance_spark.write(rows(3), str(source), mode="append")
    stream = spark.readStream.format("lance").load(str(source))
    query = run(stream, sink, checkpoint)
    assert [item["numInputRows"] for item in query.recentProgress] == [3]
    lance.write_dataset(rows(4), str(source), mode="append")
    lance.write_dataset(rows(5), str(source), mode="append")
    run(stream, sink, checkpoint)
    assert sum(item["numInputRows"] for item in run(stream, sink, checkpoint).recentProgress) == 0
    assert ids(spark, sink) == [1, 2, 3, 4, 5]
    assert lance.dataset(str(sink)).version == 2


@pytest.mark.slow
def test_batch_ends_before_what_the_stream_cannot_follow(spark: SparkSession, tmp_path: Path) -> None:
    source, sink, checkpoint = tmp_path / "source", tmp_path / "sink", tmp_path / "checkpoint"
    lance_spark.write(rows(1, 2), str(source))
    stream = spark.readStream.format("lance").load(str(source))
    run(stream, sink, checkpoint)
    lance_spark.open(str(source)).append(rows(3))
    lance_spark.open(str(source)).delete("id = 1")
    lance_spark.open(str(source)).append(rows(4))
    with contextlib.suppress(PySparkException):
        run(stream, sink, checkpoint)  # From Spark 4.2 on it has the rows of version 2.
    with pytest.raises(PySparkException, match=r"version 3 .* a stream brings only new rows"):
        run(stream, sink, checkpoint)
    skipping = spark.readStream.format("lance").option("skipVersions", "3").load(str(source))
    run(skipping, sink, checkpoint)
    assert ids(spark, sink) == [1, 2, 3, 4]


@pytest.mark.slow
@pytest.mark.skipif(SPARK >= (4, 2), reason="this Spark has limits of batches in Python sources")
def test_limits_are_refused_where_spark_lacks_them(spark: SparkSession, tmp_path: Path) -> None:
    lance_spark.write(rows(1, 2), str(tmp_path / "source"))
    stream = spark.readStream.format("lance").option("minRowsPerTrigger", "1").load(str(tmp_path / "source"))
    with pytest.raises(PySparkException, match=r"option minRowsPerTrigger: Spark 4\.. does not tell Python sources"):
        run(stream, tmp_path / "sink", tmp_path / "checkpoint")


@pytest.mark.since("4.2", "limits of batches in Python sources")
@pytest.mark.slow
def test_lost_checkpoint_of_a_named_query_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    source, sink = tmp_path / "source", tmp_path / "sink"
    lance_spark.write(rows(1), str(source))
    lance_spark.write(rows(2), str(source), mode="append")
    stream = spark.readStream.format("lance").option("maxFilesPerTrigger", "1").load(str(source))
    run(stream, sink, tmp_path / "first", txnAppId="nightly")
    with pytest.raises(PySparkException, match="epoch 1 of the query nightly, and the query offers epoch 0"):
        run(stream, sink, tmp_path / "second", txnAppId="nightly")
    assert ids(spark, sink) == [1, 2]


@pytest.mark.slow
def test_changes_and_complete_mode(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "source"
    lance_spark.write(rows(1, 2), str(source)).delete("id = 2")
    lance_spark.open(str(source)).append(rows(3))
    stream = spark.readStream.format("lance").option("readChangeFeed", "true").option("startingVersion", "1")
    changes = stream.load(str(source))
    run(changes.select("id", "_change_type"), tmp_path / "sink", tmp_path / "checkpoint")
    found = spark.read.format("lance").load(str(tmp_path / "sink")).collect()
    assert sorted(map(tuple, found)) == [(1, "insert"), (2, "delete"), (2, "insert"), (3, "insert")]
    counts = changes.groupBy("_change_type").count()
    writer = counts.writeStream.format("lance").outputMode("complete").trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "other")).start(str(tmp_path / "counts")).awaitTermination()
    found = spark.read.format("lance").load(str(tmp_path / "counts")).collect()
    assert sorted(map(tuple, found)) == [("delete", 1), ("insert", 3)]


@pytest.mark.slow
def test_epoch_of_a_killed_driver_is_not_written_twice(spark: SparkSession, tmp_path: Path) -> None:
    source, sink, checkpoint = tmp_path / "source", tmp_path / "sink", tmp_path / "checkpoint"
    lance_spark.write(rows(1), str(source))
    stream = spark.readStream.format("lance").load(str(source))
    run(stream, sink, checkpoint)
    lance_spark.open(str(source)).append(rows(2))
    run(stream, sink, checkpoint)
    # Killed between the commit of the table and that of the checkpoint.
    for path in (checkpoint / "commits").glob("*1*"):
        path.unlink()
    run(stream, sink, checkpoint)
    assert ids(spark, sink) == [1, 2]
    assert data_files(sink) == 2


@pytest.mark.parametrize(("poll_interval", "version"), [("1h", 1), ("0s", 2)])
def test_end_without_arguments_is_the_newest_version(tmp_path: Path, poll_interval: str, version: int) -> None:
    source = str(tmp_path / "source")
    lance_spark.write(rows(1), source)
    reader: Any = LanceDataSource({"path": source, "pollInterval": poll_interval}).streamReader(SCHEMA)
    assert [reader.latestOffset()["version"] for _ in range(2)] == [1, 1]
    lance_spark.open(source).append(rows(2))
    assert reader.latestOffset()["version"] == version


def stream_writer(sink: Path, **options: str) -> LanceStreamWriter:
    return LanceStreamWriter({"path": str(sink), **options}, SCHEMA, False)


def written(writer: LanceStreamWriter, *numbers: int) -> EpochResult:
    result = writer._job.write(iter(rows(*numbers).to_batches()))
    return EpochResult(result, writer._job, "query")


def data_files(sink: Path) -> int:
    return len(list(sink.glob("data/*.lance")))


def test_epoch_is_committed_once(tmp_path: Path) -> None:
    sink = tmp_path / "sink"
    first, again = stream_writer(sink), stream_writer(sink)
    message, replay = written(first, 1, 2), written(again, 1, 2)
    # Spark commits by another writer than the one that tasks had.
    stream_writer(sink).commit([message], 7)
    stream_writer(sink).commit([replay], 7)
    assert lance.dataset(str(sink)).to_table()["id"].to_pylist() == [1, 2]
    assert data_files(sink) == 1
    older = stream_writer(sink)
    with pytest.raises(StreamBehindError, match="epoch 7 of the query query"):
        older.commit([written(older, 3)], 6)
    assert data_files(sink) == 1
    stream_writer(sink).commit([written(older, 3)], 8)
    assert lance.dataset(str(sink)).count_rows() == 3


def test_abort_removes_files_only_if_a_task_failed(tmp_path: Path) -> None:
    sink = tmp_path / "sink"
    writer = stream_writer(sink)
    message = written(writer, 1)
    writer.commit([message], 0)
    # A lost reply: Spark aborts the epoch that is committed.
    stream_writer(sink).abort([message], 0)
    assert lance.dataset(str(sink)).count_rows() == 1
    failed = written(stream_writer(sink), 2)
    stream_writer(sink).abort([failed, None], 1)
    assert data_files(sink) == 1


def test_epoch_without_tasks_commits_nothing(tmp_path: Path) -> None:
    sink = tmp_path / "sink"
    stream_writer(sink).commit([], 0)
    stream_writer(sink).abort([], 0)
    assert not sink.exists()


def test_auto_compact_rewrites_small_files(tmp_path: Path) -> None:
    sink = tmp_path / "sink"
    for epoch in range(3):
        writer = stream_writer(sink, auto_compact="true", auto_compact_min_files="3")
        writer.commit([written(writer, epoch)], epoch)
    dataset = lance.dataset(str(sink))
    assert len(dataset.get_fragments()) == 1
    assert sorted(dataset.to_table()["id"].to_pylist()) == [0, 1, 2]


@pytest.mark.slow
def test_wrong_options_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "source"
    lance_spark.write(rows(1), str(source))
    read = spark.readStream.format("lance")
    with pytest.raises(PySparkException, match="did you mean maxFilesPerTrigger"):
        run(read.option("maxFilePerTrigger", "1").load(str(source)), tmp_path / "sink", tmp_path / "c")
    # Options of streams are none of a batch.
    with pytest.raises(PySparkException, match=r"(?i)startingversion"):
        spark.read.format("lance").option("startingVersion", "1").load(str(source)).collect()
    with pytest.raises(InvalidInputError, match="nonsense"):
        stream_writer(tmp_path / "sink", nonsense="1")
