"""Streams whose rows replace those with the same key: exactly once, one version an epoch, for both kinds of tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import lance_spark
from tests.support.connector.streams import data_files, forget_commit, run

FEED = "op STRING, seq INT, id INT, v STRING"


class Feed:
    """A folder that a stream reads, one file at a time."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        folder.mkdir()

    def add(self, *rows: tuple[Any, ...]) -> None:
        frame = self.spark.createDataFrame(list(rows), FEED)
        frame.coalesce(1).write.mode("append").json(str(self.folder))

    def stream(self) -> DataFrame:
        return self.spark.readStream.schema(FEED).json(str(self.folder))


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    return Feed(spark, tmp_path / "feed")


@pytest.fixture(params=["plain", "partitioned"])
def target(request: pytest.FixtureRequest, spark: SparkSession) -> str:
    name = f"lance.upserts.t{abs(hash(request.node.name)) % 10**9}"
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.upserts")
    by = "PARTITIONED BY (v)" if request.param == "partitioned" else ""
    spark.sql(f"CREATE TABLE {name} (id BIGINT, v STRING, extra INT) USING lance {by}")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a', 10), (2, 'b', 20), (3, 'a', 30)")
    return name


def rows(spark: SparkSession, table: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in spark.table(table).select("id", "v", "extra").collect())


def versions(spark: SparkSession, table: str) -> int:
    return spark.sql(f"DESCRIBE HISTORY {table}").count()


@pytest.mark.slow
def test_rows_replace_and_delete_those_of_their_keys(
    spark: SparkSession, feed: Feed, target: str, tmp_path: Path
) -> None:
    def go() -> StreamingQuery:
        options = {"key": "ID", "delete_when": "op = 'd'", "sequence_by": "seq"}
        return run(feed.stream(), target, tmp_path / "c", **options)

    feed.add(("u", 1, 1, "b"), ("i", 1, 7, "z"), ("d", 1, 2, None), ("d", 1, 99, None))
    before = versions(spark, target)
    query = go()
    metrics = next(progress.sink.metrics for progress in query.recentProgress if progress.numInputRows)
    assert {name: metrics[name] for name in ("epoch", "rows_written", "replays")} == {
        "epoch": "0",
        "rows_written": "2",
        "replays": "0",
    }
    assert rows(spark, target) == [(1, "b", None), (3, "a", 30), (7, "z", None)]
    assert versions(spark, target) == before + 1
    # Several changes of a key in one batch: the last one counts, whatever their order in the files.
    feed.add(
        ("d", 5, 7, None), ("u", 4, 7, "x"), ("i", 2, 8, "n"), ("u", 3, 8, "m"), ("d", 1, 3, None), ("i", 2, 3, "q")
    )
    go()
    assert rows(spark, target) == [(1, "b", None), (3, "q", None), (8, "m", None)]


@pytest.mark.slow
def test_replayed_epoch_changes_nothing_and_writes_no_files(
    spark: SparkSession, feed: Feed, target: str, tmp_path: Path, root: str
) -> None:
    feed.add(("u", 1, 1, "b"), ("i", 1, 7, "z"))
    run(feed.stream().select("id", "v"), target, tmp_path / "c", key="id")
    expected = rows(spark, target)
    spark.sql(f"UPDATE {target} SET extra = 5 WHERE id = 1")
    forget_commit(tmp_path / "c")
    files = data_files(root)
    query = run(feed.stream().select("id", "v"), target, tmp_path / "c", key="id")
    assert query.lastProgress.sink.metrics == {"epoch": "0", "replays": "1"}
    assert data_files(root) == files
    assert rows(spark, target) == [(1, "b", 5), *expected[1:]]


@pytest.mark.slow
def test_update_mode_writes_the_newest_aggregates(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.upserts")
    spark.sql("CREATE TABLE lance.upserts.counts (v STRING, n BIGINT) USING lance")

    def go() -> None:
        counts = feed.stream().groupBy("v").count().withColumnRenamed("count", "n")
        run(counts, "lance.upserts.counts", tmp_path / "c", mode="update", key="v")

    feed.add(("i", 1, 1, "a"), ("i", 1, 2, "a"), ("i", 1, 3, "b"))
    go()
    feed.add(("i", 1, 4, "a"), ("i", 1, 5, "c"))
    go()
    assert sorted(map(tuple, spark.table("lance.upserts.counts").collect())) == [("a", 3), ("b", 1), ("c", 1)]


@pytest.mark.slow
@pytest.mark.parametrize("by_path", [False, True])
def test_update_mode_without_a_key_says_what_to_give(
    spark: SparkSession, feed: Feed, target: str, tmp_path: Path, by_path: bool
) -> None:
    place = str(tmp_path / "made") if by_path else target
    feed.add(("i", 1, 1, "a"))
    message = rf"update replaces rows of {place} by their key: give the option key, such as \.option\('key', 'id'\)"
    with pytest.raises(StreamingQueryException, match=message):
        run(feed.stream().selectExpr("CAST(id AS BIGINT) AS id", "v"), place, tmp_path / "c", mode="update")
    assert len(rows(spark, target)) == 3
    assert not (tmp_path / "made" / "_versions").exists()


def test_path_without_a_table(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    path = str(tmp_path / "made")
    for change in (("i", 1, 1, "a"), ("u", 2, 1, "b")):
        feed.add(change)
        run(feed.stream().select("id", "v"), path, tmp_path / "c", key="id")
    assert lance.dataset(path).to_table().to_pylist() == [{"id": 1, "v": "b"}]


@pytest.mark.slow
def test_rows_that_other_writers_have_merged(spark: SparkSession, feed: Feed, target: str, tmp_path: Path) -> None:
    location = spark.sql(f"DESCRIBE EXTENDED {target}").where("col_name = 'Location'").collect()[0].data_type
    feed.add(("u", 1, 1, "b"), ("i", 1, 7, "z"))
    table = lance_spark.open(location)
    other = table.schema.empty_table().from_pylist(
        [{"id": 7, "v": "other", "extra": 1}, {"id": 9, "v": "a", "extra": 2}], schema=table.schema
    )
    table.merge(other, "id")
    run(feed.stream().select("id", "v"), target, tmp_path / "c", key="id")
    assert rows(spark, target) == [(1, "b", None), (2, "b", 20), (3, "a", 30), (7, "z", None), (9, "a", 2)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ([("i", 1, 5, "x"), ("i", 2, 5, "y")], {"key": "id"}, "sequence_by"),
        ([("i", 1, 5, "x"), ("i", 1, 5, "y")], {"key": "id", "sequence_by": "seq"}, "equal"),
        ([("i", None, 5, "x"), ("i", 1, 5, "y")], {"key": "id", "sequence_by": "seq"}, "NULL in 'seq'"),
        ([("i", 1, None, "x")], {"key": "id"}, "NULL in the key column 'id'"),
        ([("i", 1, 5, "x")], {"key": "nothing"}, "nothing"),
        ([("i", 1, 5, "x")], {"key": "id", "delete_when": "opp = 'd'"}, "opp"),
        ([("i", 1, 5, "x")], {"key": "id", "delete_when": "id + 1"}, "not a condition"),
        ([("i", 1, 5, "x")], {"key": "id", "sequence_by": "op"}, "names the column 'op'"),
        ([("i", 1, 5, "x")], {"key": "id", "mergeSchema": "true"}, "mergeSchema"),
        ([("i", 1, 5, "x")], {"delete_when": "op = 'd'"}, "without key"),
    ],
)
def test_refused(
    spark: SparkSession, feed: Feed, tmp_path: Path, changes: Any, options: dict[str, str], message: str
) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.upserts")
    spark.sql("CREATE TABLE IF NOT EXISTS lance.upserts.kept (id BIGINT, v STRING) USING lance")
    feed.add(*changes)
    frame = feed.stream().select("id", "v", *(["seq"] if options.get("sequence_by") == "seq" else []))
    with pytest.raises((StreamingQueryException, AnalysisException), match=message):
        run(frame, "lance.upserts.kept", tmp_path / "c", **options)
    assert spark.table("lance.upserts.kept").count() == 0
