"""Small partitions share tasks where nobody needs the keys, and keep to themselves where a join does."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from lance_spark.spark.partitions import packed_neighbours
from tests.support.connector.plans import plan

pytestmark = pytest.mark.tasks

TABLE = "lance.packing"
PARTITIONS = 40
COALESCING = "spark.sql.lance.coalesceTasks.enabled"
BUCKETING = "spark.sql.sources.v2.bucketing.enabled"


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> Iterator[SparkSession]:
    spark.sql(f"""
        CREATE TABLE {TABLE} PARTITIONED BY (part) AS
        SELECT id, IF(id % 10 = 7, NULL, CAST(id % {PARTITIONS} AS INT)) AS part, concat('w', id % 3) AS word
        FROM range(0, 4000, 1, 2)
    """)
    spark.sql(f"DELETE FROM {TABLE} WHERE id % 100 = 3")
    yield spark
    spark.sql(f"DROP TABLE {TABLE} PURGE")


def is_there(number: int) -> bool:
    return number % 100 != 3


def part_of(number: int) -> int | None:
    return None if number % 10 == 7 else number % PARTITIONS


IDS = [number for number in range(4000) if is_there(number)]


def tasks(frame: DataFrame) -> int:
    """How many tasks read the table."""
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
    return int(leaves.head().execute().getNumPartitions())


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM {t} WHERE id < 1000", sum(number < 1000 for number in IDS)),
        ("SELECT id, _partition FROM {t} WHERE word = 'w1'", sum(number % 3 == 1 for number in IDS)),
        ("SELECT part FROM {t} ORDER BY id, part", len(IDS)),
        ("SELECT id + 1, explode(array(1, 2)) FROM {t} WHERE part IS NULL", 2 * sum(n % 10 == 7 for n in IDS)),
        ("SELECT id FROM {t} UNION ALL SELECT part FROM {t}", 2 * len(IDS)),
        ("SELECT part, id FROM {t} LIMIT 77", 77),
    ],
)
def test_partitions_share_tasks(table: SparkSession, query: str, expected: int) -> None:
    table.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        frame = table.sql(query.format(t=TABLE))
        assert tasks(frame) == 1
        rows = frame.collect()
    finally:
        table.conf.unset("spark.sql.adaptive.enabled")
    assert len(rows) == expected


def test_without_coalesced_tasks_the_rows_are_the_same(table: SparkSession) -> None:
    query = f"SELECT id, part, word FROM {TABLE} WHERE id % 7 != 2"
    coalesced = table.sql(query)
    expected = sorted(coalesced.collect(), key=str)
    table.conf.set(COALESCING, "false")
    try:
        frame = table.sql(query)
        assert tasks(frame) == len({part_of(number) for number in IDS}) > tasks(coalesced)
        assert sorted(frame.collect(), key=str) == expected
        table.conf.set(COALESCING, "sometimes")
        with pytest.raises(Exception, match=f"{COALESCING} is 'sometimes'; set it to true or false"):
            table.sql(query).collect()
    finally:
        table.conf.unset(COALESCING)


def test_rows_are_all_there_with_their_values(table: SparkSession) -> None:
    rows = table.sql(f"SELECT id, part, word FROM {TABLE}").collect()
    assert sorted(rows) == [(number, part_of(number), f"w{number % 3}") for number in IDS]


@pytest.mark.parametrize("bucketing", ["true", "false"])
def test_a_join_keeps_the_keys(table: SparkSession, bucketing: str) -> None:
    settings = {BUCKETING: bucketing, "spark.sql.autoBroadcastJoinThreshold": "-1"}
    for name, value in settings.items():
        table.conf.set(name, value)
    try:
        frame = table.sql(f"SELECT a.id FROM {TABLE} a JOIN {TABLE} b ON a.part = b.part AND a.id = b.id")
        rows = frame.collect()
        shuffles = plan(frame).count("hashpartitioning")
    finally:
        for name in settings:
            table.conf.unset(name)
    assert sorted(row.id for row in rows) == [number for number in IDS if part_of(number) is not None]
    assert (shuffles == 0) is (bucketing == "true")


@pytest.mark.since("4.1", "groups by the partition key without a shuffle")
def test_groups_by_the_key_need_no_shuffle(table: SparkSession) -> None:
    frame = table.sql(f"SELECT part, count(DISTINCT word) AS words FROM {TABLE} GROUP BY part")
    rows = {row.part: row.words for row in frame.collect()}
    assert "hashpartitioning(part" not in plan(frame)
    assert rows == {part: len({n % 3 for n in IDS if part_of(n) == part}) for part in {part_of(n) for n in IDS}}


@pytest.mark.slow
def test_the_same_frame_is_read_both_ways(table: SparkSession) -> None:
    frame = table.table(TABLE).where("id < 2000")
    joined = frame.alias("a").join(frame.alias("b"), ["part", "id"])
    assert frame.count() == joined.count() + sum(number % 10 == 7 for number in IDS if number < 2000)
    both = frame.select("id").union(joined.select("id"))
    assert both.count() == frame.count() + joined.count()


def test_keys_that_come_while_the_query_runs(table: SparkSession) -> None:
    table.createDataFrame(pa.table({"key": [3, 5]})).createOrReplaceTempView("packing_keys")
    query = f"SELECT t.id FROM {TABLE} t JOIN packing_keys k ON t.part = k.key WHERE k.key > 4"
    assert sorted(row.id for row in table.sql(query).collect()) == [n for n in IDS if part_of(n) == 5]


def test_neighbours_make_up_a_pack() -> None:
    assert packed_neighbours([], 10) == ()
    assert packed_neighbours([4, 4, 4, 4], 10) == ((0, 1), (2, 3))
    assert packed_neighbours([20, 1, 9, 1], 10) == ((0,), (1, 2), (3,))
