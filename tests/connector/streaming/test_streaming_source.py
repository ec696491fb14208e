"""spark.readStream over Lance tables: snapshot, then changes; limits; and what each operation is to a stream."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StringType, StructField, StructType

import lance_spark
from lance_spark.spark.connector.channel import handles
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.registry import Call
from lance_spark.spark.connector.streaming.parsed_stream import ParsedStream, StreamRequest
from lance_spark.spark.connector.streaming.source import BatchRequest, PlannedBatch, plan
from lance_spark.spark.streaming.admission import StreamReader
from lance_spark.spark.streaming.history import PlainHistory, history_of
from lance_spark.spark.streaming.offsets import Offset
from lance_spark.spark.streaming.options import SourceOptions
from tests.support.connector.streams import forget_commit, run


def rows(first: int, last: int) -> pa.Table:
    return pa.table(
        {"id": pa.array(range(first, last), pa.int64()), "s": [f"n{number}" for number in range(first, last)]}
    )


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Version 1 has ids 0 to 4, version 2 adds 5 to 9."""
    place = str(tmp_path / "source")
    lance_spark.write(rows(0, 5), place)
    lance.write_dataset(rows(5, 10), place, mode="append")
    return place


class Copy:
    """A query that copies a table into another one."""

    def __init__(self, spark: SparkSession, uri: str, folder: Path, **options: object) -> None:
        self.spark, self.uri, self.folder, self.options = spark, uri, folder, options
        self.target = str(folder / "target")

    def frame(self, **more: object) -> DataFrame:
        reader = self.spark.readStream.format("lance")
        for name, value in {**self.options, **more}.items():
            reader = reader.option(name, str(value))
        return reader.load(self.uri)

    def run(self, frame: DataFrame | None = None, **more: object) -> list[int]:
        """The ids of the target after a run, and how many batches it took in `batches`."""
        query = run(self.frame(**more) if frame is None else frame, self.target, self.folder / "checkpoint")
        self.progress = [item for item in query.recentProgress if item["numInputRows"]]
        return self.ids()

    def ids(self) -> list[int]:
        return sorted(row.id for row in self.spark.read.format("lance").load(self.target).collect())


@pytest.fixture
def copy(spark: SparkSession, uri: str, tmp_path: Path) -> Callable[..., Copy]:
    return lambda **options: Copy(spark, uri, tmp_path, **options)


@pytest.mark.slow
def test_snapshot_then_changes(copy: Callable[..., Copy], uri: str) -> None:
    query = copy()
    assert query.run() == list(range(10))
    lance_spark.write(rows(10, 12), uri, mode="append")
    lance.write_dataset(rows(12, 14), uri, mode="append")
    assert query.run() == list(range(14))
    assert query.run() == list(range(14))


@pytest.mark.slow
def test_replayed_batch_reads_the_same_rows_after_later_versions(copy: Callable[..., Copy], uri: str) -> None:
    query = copy()
    query.run()
    lance_spark.write(rows(10, 12), uri, mode="append")
    query.run()
    forget_commit(query.folder / "checkpoint")
    lance_spark.write(rows(12, 14), uri, mode="append")
    assert query.run() == list(range(14))


@pytest.mark.slow
def test_starting_version_and_latest(copy: Callable[..., Copy], uri: str, tmp_path: Path) -> None:
    assert copy(startingVersion=2).run() == list(range(5, 10))
    later = Copy(copy().spark, uri, tmp_path / "latest", startingVersion="latest")
    frame = later.frame()
    query = frame.writeStream.format("memory").queryName("from_latest").start()
    query.processAllAvailable()
    lance_spark.write(rows(10, 12), uri, mode="append")
    time.sleep(1.1)  # The listing counts as fresh for a second.
    query.processAllAvailable()
    query.stop()
    assert sorted(row.id for row in later.spark.table("from_latest").collect()) == [10, 11]
    with pytest.raises((StreamingQueryException, AnalysisException), match="startingVersion is 99"):
        Copy(later.spark, uri, tmp_path / "beyond", startingVersion=99).run()


@pytest.mark.slow
def test_rows_that_the_application_has_written_are_available(copy: Callable[..., Copy], uri: str) -> None:
    """However long the list of versions counts as new otherwise."""
    query = copy(pollInterval="1h")
    running = query.frame().writeStream.format("memory").queryName("written_before").start()
    try:
        running.processAllAvailable()
        for number in range(10, 13):
            query.spark.sql(f"INSERT INTO lance.`{uri}` VALUES ({number}, 'new')")
            running.processAllAvailable()
            assert sorted(row.id for row in query.spark.table("written_before").collect()) == list(range(number + 1))
    finally:
        running.stop()


def test_starting_timestamp(copy: Callable[..., Copy], uri: str) -> None:
    moment = lance_spark.open(uri, version=2).timestamp
    assert copy(startingTimestamp=moment.isoformat()).run() == list(range(5, 10))


def test_starting_timestamp_in_the_future_waits(copy: Callable[..., Copy], uri: str) -> None:
    future = datetime.now(timezone.utc) + timedelta(hours=1)
    query = copy(startingTimestamp=future.isoformat())
    frame = query.frame()
    run(frame, query.target, query.folder / "checkpoint")
    lance_spark.write(rows(10, 12), uri, mode="append")
    run(query.frame(), query.target, query.folder / "checkpoint")
    assert not Path(query.target).exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limits", "batches"),
    [
        ({"maxFilesPerTrigger": 1}, 4),
        ({"maxRowsPerTrigger": 1}, 4),
        ({"maxRowsPerTrigger": 10}, 2),
        ({"maxBytesPerTrigger": "1b"}, 4),
        ({"maxBytesPerTrigger": "1g"}, 2),
        ({"maxVersionsPerTrigger": 1}, 3),
        ({"maxFilesPerTrigger": 1, "maxRowsPerTrigger": 100}, 4),
    ],
)
def test_limits_of_a_batch(copy: Callable[..., Copy], uri: str, limits: dict[str, object], batches: int) -> None:
    """A snapshot of two files, and two versions of one file each."""
    query = copy(**limits)
    query.run()
    counts = len(query.progress)
    lance_spark.write(rows(10, 15), uri, mode="append")
    lance_spark.write(rows(15, 20), uri, mode="append")
    assert query.run() == list(range(20))
    assert counts + len(query.progress) == batches


@pytest.mark.parametrize(("most", "ends"), [("1", [1, 2, 3]), ("2", [2, 3])])
def test_a_limit_of_versions_counts_each_version_of_a_change_feed_once(uri: str, most: str, ends: list[int]) -> None:
    table = lance_spark.open(uri).delete("id = 1")
    options = SourceOptions.parse({"readChangeFeed": "true", "maxVersionsPerTrigger": most}, uri)
    history = history_of(uri, {}, None, is_partitioned=False)
    reader = StreamReader(history, options, uri, table.lance_schema, table.version)
    found = [Offset(0)]
    while found[-1].version < table.version:
        found.append(reader.advance(found[-1], reader.latest(), limited=True)[0])
        assert found[-1] != found[-2], "there is more to read"
    assert [offset.version for offset in found[1:]] == ends


def test_min_rows_wait_and_available_now_does_not(copy: Callable[..., Copy], uri: str) -> None:
    query = copy(minRowsPerTrigger=1000, maxTriggerDelay="1h")
    waiting = query.frame().writeStream.format("memory").queryName("waiting").start()
    waiting.processAllAvailable()
    waiting.stop()
    assert query.spark.table("waiting").count() == 0
    assert query.run() == list(range(10))


THEIRS = {
    "delete": lambda uri: lance.dataset(uri).delete("id = 1"),
    "update": lambda uri: lance.dataset(uri).update({"s": "'x'"}, where="id = 1"),
    "overwrite": lambda uri: lance.write_dataset(rows(0, 3), uri, mode="overwrite"),
    "merge": lambda uri: lance.dataset(uri).merge_insert("id").when_matched_update_all().execute(rows(1, 2)),
    "restore": lambda uri: lance.dataset(uri, version=1).restore(),
}
OURS = {
    "delete": lambda uri: lance_spark.open(uri).delete("id = 1"),
    "update": lambda uri: lance_spark.open(uri).update({"s": "'x'"}, "id = 1"),
    "overwrite": lambda uri: lance_spark.write(rows(0, 3), uri, mode="overwrite"),
    "restore": lambda uri: lance_spark.open(uri).restore(1),
}
CHANGES = [
    pytest.param(change, id=f"{who}-{name}")
    for who, all_ in (("theirs", THEIRS), ("ours", OURS))
    for name, change in all_.items()
]


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_versions_that_change_rows_stop_the_stream_or_are_skipped(
    copy: Callable[..., Copy], uri: str, change: Callable[[str], object]
) -> None:
    query = copy()
    query.run()
    lance_spark.write(rows(10, 12), uri, mode="append")
    change(uri)
    lance_spark.write(rows(20, 22), uri, mode="append")
    # The batch ends before the version; the next one stops at it, again and again.
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match=r"version 4 of .*skipChangeCommits=true.*startingVersion=5"):
            query.run()
        assert query.ids() == list(range(12))
    assert query.run(skipVersions="4") == [*range(12), 20, 21]


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_change_commits_are_skipped(copy: Callable[..., Copy], uri: str, change: Callable[[str], object]) -> None:
    query = copy(skipChangeCommits=True)
    query.run()
    change(uri)
    lance_spark.write(rows(20, 22), uri, mode="append")
    assert query.run() == [*range(10), 20, 21]


@pytest.mark.slow
def test_deletes_can_be_ignored_and_updates_not(copy: Callable[..., Copy], uri: str) -> None:
    query = copy(ignoreDeletes=True)
    query.run()
    lance.dataset(uri).delete("id < 3")
    lance_spark.open(uri).delete("id = 4")
    lance_spark.write(rows(20, 22), uri, mode="append")
    assert query.run() == [*range(10), 20, 21]
    lance_spark.open(uri).update({"s": "'x'"}, "id = 20")
    with pytest.raises(StreamingQueryException, match="changes rows"):
        query.run()


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda uri: lance.dataset(uri).optimize.compact_files(), id="their compaction"),
        pytest.param(lambda uri: lance_spark.open(uri).compact(), id="our compaction"),
        pytest.param(lambda uri: lance.dataset(uri).create_scalar_index("id", "BTREE"), id="index"),
        pytest.param(lambda uri: lance.dataset(uri).update_config({"a": "b"}), id="config"),
        pytest.param(lambda uri: lance.dataset(uri).tags.create("t", 1), id="tag"),
        pytest.param(lambda uri: lance.dataset(uri).delete("id = 999"), id="delete of nothing"),
    ],
)
def test_versions_without_changes_of_rows_are_passed(
    copy: Callable[..., Copy], uri: str, change: Callable[[str], object]
) -> None:
    query = copy()
    query.run()
    change(uri)
    lance_spark.write(rows(20, 22), uri, mode="append")
    assert query.run() == [*range(10), 20, 21]


@pytest.mark.slow
def test_merge_that_only_inserts_brings_its_rows(copy: Callable[..., Copy], uri: str) -> None:
    query = copy()
    query.run()
    merge = lance.dataset(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(rows(30, 33))
    assert query.run() == [*range(10), 30, 31, 32]


@pytest.mark.slow
def test_new_column_is_a_barrier(copy: Callable[..., Copy], uri: str) -> None:
    query = copy()
    query.run()
    frame = query.frame()
    lance_spark.write(rows(10, 12), uri, mode="append")
    lance.dataset(uri).add_columns({"twice": "id * 2"})
    lance_spark.write(rows(12, 13).append_column("twice", pa.array([24], pa.int64())), uri, mode="append")
    with pytest.raises(StreamingQueryException, match="added column twice"):
        query.run(frame)
    assert query.ids() == list(range(12))
    ignoring = query.frame(newColumns="ignore")
    assert query.run(ignoring.select("id", "s")) == list(range(13))


def test_new_dataframe_reads_the_new_column(copy: Callable[..., Copy], uri: str) -> None:
    query = copy()
    lance.dataset(uri).add_columns({"twice": "id * 2"})
    lance_spark.write(rows(12, 13).append_column("twice", pa.array([24], pa.int64())), uri, mode="append")
    frame = query.frame(startingVersion=2)
    query.run(frame)
    found = query.spark.read.format("lance").load(query.target).orderBy("id").collect()
    assert [(row.id, row.twice) for row in found] == [*((number, 2 * number) for number in range(5, 10)), (12, 24)]


@pytest.mark.slow
def test_dropped_and_renamed_columns_stop_the_stream(copy: Callable[..., Copy], uri: str) -> None:
    query = copy()
    query.run()
    frame = query.frame()
    lance.dataset(uri).alter_columns({"path": "s", "name": "t"})
    with pytest.raises(StreamingQueryException, match="column s was renamed to t"):
        query.run(frame)
    lance.dataset(uri).drop_columns(["t"])
    with pytest.raises(StreamingQueryException, match="column s was"):
        query.run(frame)


def test_columns_of_older_versions_are_kept_for_the_next_batch(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10, 20):
        lance_spark.write(rows(number, number + 1), uri, mode="append")
    table = lance_spark.open(uri).alter_column("s", name="t")
    history = history_of(uri, {}, None, is_partitioned=False)
    reader = StreamReader(history, SourceOptions.parse({}, uri), uri, table.lance_schema, table.version)
    assert [file.columns for file in reader.files(Offset(2), Offset(3))] != [None]
    read: list[int] = []
    columns = PlainHistory.columns
    monkeypatch.setattr(PlainHistory, "columns", lambda self, version: read.append(version) or columns(self, version))
    (found,) = reader.files(Offset(3), Offset(4))
    assert found.columns is not None
    assert [(field.id, field.name) for field in found.columns.fields] == [(0, "id"), (1, "t")]
    assert set(read) == {3, 4}


def test_batch_does_not_need_the_version_of_the_dataframe(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = lance_spark.open(uri)
    handle = TableHandle(uri, version=dataset.version, timestamp_nanos=dataset.manifest.timestamp_nanos)
    request = StreamRequest(handle, StructType([StructField("id", LongType())]))
    state = ParsedStream.begin(request).state
    newest = dataset.append(rows(10, 12))
    newest.cleanup(keep_versions=1)
    monkeypatch.setattr(handles, "_versions", handles.LruCache())
    end = Offset(newest.version, newest.manifest.timestamp_nanos).to_json()
    reply = plan(BatchRequest(state, Offset(dataset.version).to_json(), end), Call())
    assert reply.body == PlannedBatch({"files": 1, "rows": 2, "bytes": list(newest.fragments)[-1].files[0].size_bytes})


def test_null_of_an_older_version_in_a_column_that_is_required_now(copy: Callable[..., Copy], uri: str) -> None:
    """Spark would read the NULL as a value, because the DataFrame says that there is none."""
    query = copy(ignoreDeletes=True)
    query.run()
    lance_spark.write(pa.table({"id": pa.array([10, 11], pa.int64()), "s": pa.array([None, "b"])}), uri, mode="append")
    lance_spark.open(uri).delete("s IS NULL")
    lance_spark.open(uri).alter_column("s", nullable=False)
    with pytest.raises(StreamingQueryException, match=r"column 's' is string now, .* a NULL there.* skipVersions"):
        query.run()


@pytest.mark.slow
def test_cleaned_up_versions_are_an_error_or_left_out(copy: Callable[..., Copy], uri: str) -> None:
    query = copy()
    query.run()
    lance_spark.write(rows(10, 12), uri, mode="append")
    lance_spark.write(rows(12, 14), uri, mode="append")
    lance.dataset(uri).cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    with pytest.raises(StreamingQueryException, match=r"needs version 3 .* failOnDataLoss"):
        query.run()
    assert query.run(failOnDataLoss=False) == [*range(10), 12, 13]


def test_clean_up_behind_the_stream_does_not_matter(copy: Callable[..., Copy], uri: str) -> None:
    query = copy()
    query.run()
    lance_spark.write(rows(10, 12), uri, mode="append")
    lance.dataset(uri).cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert query.run() == list(range(12))


@pytest.mark.slow
@pytest.mark.parametrize("clause", ["", "PARTITIONED BY (s)"])
def test_held_versions_outlast_a_clean_up(spark: SparkSession, tmp_path: Path, clause: str) -> None:
    name = "held_parts" if clause else "held"
    table, cleanup = f"lance.db.{name}", f"CALL lance.system.vacuum('db.{name}', days => 0)"
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.db")
    spark.sql(f"CREATE TABLE {table} (id BIGINT, s STRING) USING lance {clause}")
    spark.sql(f"INSERT INTO {table} VALUES (0, 'a')")

    def copy() -> list[int]:
        run(spark.readStream.option("holdVersions", "true").table(table), str(tmp_path / "copy"), tmp_path / "c")
        return sorted(row.id for row in spark.read.format("lance").load(str(tmp_path / "copy")).collect())

    assert copy() == [0]
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    spark.sql(f"INSERT INTO {table} VALUES (3, 'c')")
    spark.sql(f"CALL lance.system.optimize('db.{name}')")
    spark.sql(cleanup)
    assert copy() == [0, 1, 2, 3]
    query = json.loads((tmp_path / "c" / "metadata").read_text())["id"]
    spark.sql(f"INSERT INTO {table} VALUES (4, 'a')")
    spark.sql(f"INSERT INTO {table} VALUES (5, 'a')")
    spark.sql(f"CALL lance.system.release_stream('db.{name}', '{query}')")
    spark.sql(cleanup)
    with pytest.raises(StreamingQueryException, match="was cleaned up"):
        copy()


def test_another_table_at_the_place_is_an_error(copy: Callable[..., Copy], uri: str) -> None:
    query = copy()
    query.run()
    shutil.rmtree(uri)
    for number in range(4):
        lance_spark.write(rows(number, number + 1), uri, mode="append" if number else "create")
    with pytest.raises(StreamingQueryException, match="another table is at the place"):
        query.run()


@pytest.mark.slow
def test_branch_begins_where_the_branch_does(copy: Callable[..., Copy], uri: str) -> None:
    branch = lance.dataset(uri).create_branch("dev")
    lance.write_dataset(rows(50, 52), branch, mode="append")
    query = copy(branch="dev")
    assert query.run() == [*range(10), 50, 51]
    lance_spark.write(rows(10, 12), uri, mode="append")
    lance.write_dataset(rows(52, 54), lance.dataset(uri).checkout_version(("dev", None)), mode="append")
    assert query.run() == [*range(10), 50, 51, 52, 53]


@pytest.mark.slow
def test_change_feed_by_path(copy: Callable[..., Copy], uri: str, tmp_path: Path) -> None:
    query = copy(readChangeFeed=True)
    query.run()
    lance_spark.open(uri).delete("id = 1")
    lance_spark.write(rows(10, 11), uri, mode="append")
    query.run()
    found = query.spark.read.format("lance").load(query.target)
    assert found.count() == 12
    kinds = {
        (row._change_type, row._commit_version): row["count"]
        for row in found.groupBy("_change_type", "_commit_version").count().collect()
    }
    assert kinds == {("insert", 2): 10, ("delete", 3): 1, ("insert", 4): 1}


@pytest.mark.slow
def test_partitioned_tables(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.source")
    name = "lance.source.parts"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, day INT) USING lance PARTITIONED BY (day)")
    spark.sql(f"INSERT INTO {name} SELECT id, id % 3 FROM range(9)")
    target = str(tmp_path / "target")

    def ids() -> list[int]:
        run(spark.readStream.option("maxFilesPerTrigger", 2).table(name), target, tmp_path / "c")
        return sorted(row.id for row in spark.read.format("lance").load(target).collect())

    assert ids() == list(range(9))
    spark.sql(f"INSERT INTO {name} SELECT id, id % 4 FROM range(9, 14)")
    assert ids() == list(range(14))
    spark.sql(f"DELETE FROM {name} WHERE id = 9")
    with pytest.raises(StreamingQueryException, match="deletes rows"):
        ids()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"version": 1}, "option version is for batch reads.*startingVersion"),
        ({"ignoreChanges": True}, "use skipChangeCommits"),
        ({"startingVersion": 1, "startingTimestamp": "2026-01-01"}, "keep one"),
        ({"startingVersoin": 1}, "did you mean startingVersion"),
        ({"maxFilesPerTrigger": 0}, "an integer of at least 1"),
        ({"newColumns": "maybe"}, "stop or ignore"),
        ({"branch": "nowhere"}, "nowhere"),
    ],
)
def test_wrong_options(copy: Callable[..., Copy], options: dict[str, object], message: str) -> None:
    with pytest.raises((AnalysisException, StreamingQueryException), match=message):
        copy(**options).run()


@pytest.mark.slow
def test_options_choose_the_types_of_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Options mean in a stream what they mean in a batch."""
    uri = str(tmp_path / "documents")
    lance.write_dataset(pa.table({"id": [1], "doc": pa.array(['{"a":1}'], pa.json_())}), uri)
    frame = spark.readStream.format("lance").option("json_as", "string").load(uri)
    assert frame.schema["doc"].dataType == StringType()
    run(frame, str(tmp_path / "target"), tmp_path / "checkpoint")
    copied = spark.read.format("lance").load(str(tmp_path / "target"))
    assert [tuple(row) for row in copied.collect()] == [(1, '{"a":1}')]


@pytest.mark.slow
def test_sql_stream_of_a_name(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.source")
    spark.sql("CREATE TABLE lance.source.named (id BIGINT) USING lance")
    spark.sql("INSERT INTO lance.source.named SELECT id FROM range(3)")
    spark.sql("INSERT INTO lance.source.named SELECT id FROM range(3, 5)")
    frame = spark.sql("SELECT * FROM STREAM lance.source.named WITH ('startingVersion' = '3')")
    run(frame, str(tmp_path / "target"), tmp_path / "c")
    assert sorted(row.id for row in spark.read.format("lance").load(str(tmp_path / "target")).collect()) == [3, 4]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_random_histories_and_restarts_copy_each_appended_row_once(
    copy: Callable[..., Copy], uri: str, seed: int
) -> None:
    """Versions by both libraries, random limits, and drivers that die before the checkpoint has the epoch."""
    chosen = random.Random(seed)
    query, appended = copy(skipChangeCommits=True), set(range(10))
    query.run()
    number = 100
    for _ in range(6):
        for _ in range(chosen.randint(1, 3)):
            step = chosen.choice(["append", "append", "append", "delete", "compact", "update", "config"])
            if step == "append":
                size = chosen.randint(1, 4)
                if chosen.random() < 0.5:
                    lance_spark.write(rows(number, number + size), uri, mode="append")
                else:
                    lance.write_dataset(rows(number, number + size), uri, mode="append")
                appended |= set(range(number, number + size))
                number += size
            elif step == "delete":
                lance.dataset(uri).delete(f"id = {chosen.choice(sorted(appended))}")
            elif step == "compact":
                lance_spark.open(uri).compact()
            elif step == "update":
                lance.dataset(uri).update({"s": "'y'"}, where=f"id = {chosen.choice(sorted(appended))}")
            else:
                lance.dataset(uri).update_config({"k": str(number)})
        limit = chosen.choice([{}, {"maxFilesPerTrigger": 1}, {"maxRowsPerTrigger": 3}, {"maxVersionsPerTrigger": 1}])
        query.run(**limit)
        if chosen.random() < 0.5:
            forget_commit(query.folder / "checkpoint")
    assert query.run() == sorted(appended)
