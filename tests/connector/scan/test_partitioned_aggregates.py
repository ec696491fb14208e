"""Aggregates by tasks over partitioned tables, beside the same query over Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lance_spark.partitioned.columns import add_columns
from lance_spark.partitioned.evolution import set_partitioning
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.table import open_partitioned
from lance_spark.partitioned.transforms.bucket import Bucket
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.registry import Call, Session
from lance_spark.spark.connector.scan.aggregates import Aggregate
from lance_spark.spark.connector.scan.planner import ScanPlanner
from lance_spark.spark.connector.scan.requests import AggregateRequest, ScanRequest
from tests.partitioned.verbs import delete_rows, save_rows
from tests.support.connector.plans import plan

ENABLED = "spark.sql.sources.v2.bucketing.enabled"
SUBSET = "spark.sql.sources.v2.bucketing.allowKeysSubsetOfPartitionKeys.enabled"
BY_K, BY_ID = PartitionBy("k", ("k",), Identity()), PartitionBy("shard", ("id",), Bucket(4))
FIRST = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("k", pa.string()),
        pa.field("tiny", pa.int8()),
        pa.field("big", pa.int64()),
        pa.field("day", pa.date32()),
        pa.field("moment", pa.timestamp("us", "UTC")),
        pa.field("price", pa.decimal128(9, 2)),
        pa.field("wide", pa.decimal128(38, 2)),
        pa.field("name", pa.string()),
        pa.field("flag", pa.bool_()),
        pa.field("fraction", pa.float64()),
    ]
)
LATE = pa.field("late", pa.int32())
KEYS = ("tiny", "day", "moment", "price", "name", "flag", "late", "k")
SUMMED = ("tiny", "price", "wide", "late")


def row(number: int) -> dict[str, object]:
    """Nulls everywhere, and in the partition `z` nothing but them."""
    k = [None, "a", "b", "é", "z"][number % 5]
    deleted = k == "z" or number % 7 == 3
    fractions = [float("nan"), -0.0, 0.0, float("-inf"), 1.5]
    values: dict[str, object] = {
        "tiny": number * 17 % 9 - 4,
        "big": (-1) ** number * (2**60 + number),
        "day": date(1960, 1, 1) + timedelta(days=number % 4 * 9999),
        "moment": datetime(1969, 12, 31, 23, 59, 50 + number % 3, 7, tzinfo=timezone.utc),
        "price": Decimal((-1) ** number * (number + 1)).scaleb(-2),
        "wide": Decimal(f"{'-' * (number % 2)}{10**28 + number}.25"),
        "name": ["é", "e", "z", "", "ez", "Z", "\U0001f600", "ﬀ"][number % 8],
        "flag": number % 2 == 0,
        "fraction": fractions[number % 5],
    }
    return {"id": number, "k": k, **{name: None if deleted else value for name, value in values.items()}}


def rows_of(frame: DataFrame) -> list[str]:
    """The rows, in an order of their own; NaN is equal to itself there."""
    return sorted(repr(tuple(row)) for row in frame.collect())


@pytest.fixture(scope="module")
def both(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Views `parts` and `files` of the same rows: two specs, a column that came late, deleted rows. Their paths."""
    root = str(tmp_path_factory.mktemp("aggregated") / "t")
    old = pa.Table.from_pylist([row(number) for number in range(60)], FIRST)
    table = save_rows(create_partitioned(root, FIRST, [BY_K]), old)
    table = set_partitioning(add_columns(table, [LATE]), [BY_ID])
    new_rows = [{**row(number), "late": None if number % 3 else number} for number in range(60, 130)]
    new = pa.Table.from_pylist(new_rows, pa.schema([*FIRST, LATE]))
    table = delete_rows(save_rows(table, new), "id % 11 = 2")
    known = pa.concat_tables([old, new], promote_options="default")
    kept = known.filter(pa.array([number % 11 != 2 for number in range(130)]))
    assert table.count_rows() == kept.num_rows
    pq.write_table(kept, f"{root}.parquet")
    spark.read.format("lance").load(root).createOrReplaceTempView("parts")
    spark.read.parquet(f"{root}.parquet").createOrReplaceTempView("files")
    return root, f"{root}.parquet"


def same(spark: SparkSession, query: str, *, aggregates: bool = True) -> DataFrame:
    """The rows are those over Parquet, and tasks aggregate, or do not."""
    frame = spark.sql(query.format(t="parts"))
    assert ("aggregates=[" in plan(frame)) is aggregates, plan(frame)
    expected = spark.sql(query.format(t="files"))
    assert [field.dataType for field in frame.schema] == [field.dataType for field in expected.schema]
    assert rows_of(frame) == rows_of(expected), query
    return frame


CONDITIONS = (
    "true",
    "k = 'a'",
    "k IS NULL",
    "k = 'z'",
    "k = 'nowhere' AND id IS NULL",
    "k = 'none of them' AND id = 1000",
    "id IN (5, 70)",
    "day >= date'1980-01-01' AND price <> 0.01",
    "late > 70",
    "late IS NULL",
    "fraction = 0",
    "name LIKE 'e%' OR NOT flag",
)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_totals(spark: SparkSession, both: object, condition: str) -> None:
    asked = [f"{kind}({name})" for name in (*KEYS[:5], "late", "k", "big", "wide") for kind in ("min", "max", "count")]
    asked += [f"sum({name})" for name in SUMMED] + ["avg(price)", "avg(tiny)", "avg(late)", "count(*)"]
    same(spark, f"SELECT {', '.join(asked)} FROM {{t}} WHERE {condition}")


@pytest.mark.parametrize("key", KEYS)
def test_groups(spark: SparkSession, both: object, key: str) -> None:
    asked = [f"{kind}({name})" for name in SUMMED for kind in ("sum", "count", "min")]
    same(spark, f"SELECT {key}, {', '.join(asked)}, count(*), avg(price), max(k) FROM {{t}} GROUP BY {key}")


@pytest.mark.parametrize("condition", CONDITIONS[1:7])
def test_groups_of_few_partitions(spark: SparkSession, both: object, condition: str) -> None:
    same(spark, f"SELECT name, flag, sum(price * (1 - price)), count(late) FROM {{t}} WHERE {condition} GROUP BY 1, 2")
    same(spark, f"SELECT DISTINCT name FROM {{t}} WHERE {condition}")


@pytest.mark.slow
def test_what_tasks_do_not_aggregate(spark: SparkSession, both: tuple[str, str]) -> None:
    for asked in ("min(fraction), max(fraction)", "count(DISTINCT tiny)", "sum(tiny + 1)", "max(tiny), avg(big)"):
        same(spark, f"SELECT {asked} FROM {{t}}", aggregates=False)
    same(spark, "SELECT fraction, count(*) FROM {t} GROUP BY fraction", aggregates=False)
    same(spark, "SELECT name, max(fraction) FROM {t} GROUP BY name", aggregates=False)
    read = spark.read.format("lance").option("limit", "2").load(both[0])
    assert "aggregates=[" not in plan(read.selectExpr("max(tiny)"))
    by_partition = spark.read.format("lance").load(both[0]).groupBy("_partition").count().collect()
    assert sorted(row["count"] for row in by_partition) == sorted(
        item.manifest.fragments[place].num_rows
        for table in [open_partitioned(both[0])]
        for item in table.open_all(table.partitions())
        for place in range(len(item.manifest.fragments))
    )


@pytest.mark.slow
def test_within_larger_queries(spark: SparkSession, both: tuple[str, str]) -> None:
    same(spark, "SELECT id, tiny FROM {t} WHERE id = (SELECT max(id) FROM {t} WHERE tiny IS NOT NULL)")
    same(spark, "SELECT max(id) AS m FROM {t} UNION ALL SELECT count(price) FROM {t} HAVING count(*) > 3")
    same(spark, "SELECT name FROM {t} GROUP BY name HAVING sum(late) IS NULL")
    same(spark, "SELECT name, flag, sum(tiny), grouping_id() FROM {t} GROUP BY ROLLUP (name, flag)", aggregates=False)
    same(
        spark,
        "SELECT a.name, a.s, b.id FROM (SELECT name, sum(price) AS s FROM {t} GROUP BY name) a JOIN {t} b USING (name)",
    )
    shown = plan(same(spark, "SELECT flag, sum(price * 2) FROM {t} WHERE k = 'a' GROUP BY flag"))
    assert "aggregates=[sum(price * 2)] group_by=[flag] partitions=5/9" in shown
    old = spark.read.format("lance").option("version", "2").load(both[0])
    assert old.selectExpr("count(name)", "max(id)").first() == (old.where("name IS NOT NULL").toArrow().num_rows, 59)


def test_a_table_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    create_partitioned(root, FIRST, [BY_K])
    for _ in range(2):
        read = spark.read.format("lance").load(root)
        totals = read.selectExpr("count(name)", "min(name)", "sum(price)", "avg(tiny)", "max(id)")
        assert "aggregates=[" in plan(totals)
        assert totals.first() == (0, None, None, None, None)
        assert read.groupBy("name").sum("price").collect() == []
        assert read.where("k = 'a'").selectExpr("count(tiny)").first() == (0,)
        # The same after rows came and went.
        delete_rows(save_rows(open_partitioned(root), pa.Table.from_pylist([row(1)], FIRST)), "true")


@pytest.fixture
def settings(spark: SparkSession) -> Iterator[None]:
    yield
    spark.conf.set(ENABLED, "true")
    spark.conf.set(SUBSET, "true")


def table(spark: SparkSession, root: Path, *by: PartitionBy, name: str) -> None:
    rows = pa.Table.from_pylist([row(number) for number in range(80)], FIRST)
    save_rows(create_partitioned(str(root / name), FIRST, by), rows)
    spark.read.format("lance").load(str(root / name)).createOrReplaceTempView(name)


@pytest.mark.slow
@pytest.mark.since("4.3", "groups by some of the partition keys without a shuffle")
def test_groups_by_keys_of_partitions_need_no_shuffle(spark: SparkSession, tmp_path: Path, settings: None) -> None:
    """Where Spark finds the rows of a group in one place, tasks leave the rows to it."""
    table(spark, tmp_path, BY_K, BY_ID, name="one")
    table(spark, tmp_path, BY_ID, name="other")
    queries = {
        "SELECT k, id, count(*) FROM one GROUP BY k, id": True,
        "SELECT k, count(tiny) FROM one GROUP BY k": True,
        "SELECT id, sum(price), max(k) FROM one GROUP BY id": True,
        "SELECT name, count(*) FROM one GROUP BY name": False,
        "SELECT count(tiny), max(k) FROM one": False,
    }
    found = {}
    for query, is_clustered in queries.items():
        frame = spark.sql(query)
        assert ("Exchange" not in plan(frame)) is is_clustered, plan(frame)
        assert ("aggregates=[" in plan(frame)) is not is_clustered
        found[query] = rows_of(frame)
    join = """
        SELECT /*+ MERGE(b) */ a.id, a.s, b.n FROM (SELECT id, sum(price) AS s FROM other GROUP BY id) a
        JOIN (SELECT id, count(*) AS n FROM other WHERE tiny > 0 GROUP BY id) b ON a.id = b.id
    """
    joined = spark.sql(join)
    assert "Exchange" not in plan(joined)
    rows_without = rows_of(joined)
    # Without a use for a part of the keys Spark shuffles, so tasks aggregate.
    spark.conf.set(SUBSET, "false")
    part = spark.sql("SELECT k, count(tiny), max(id) FROM one GROUP BY k")
    assert "aggregates=[" in plan(part)
    spark.conf.set(ENABLED, "false")
    for query, expected in found.items():
        frame = spark.sql(query)
        assert "aggregates=[" in plan(frame)
        assert rows_of(frame) == expected
    shuffled = spark.sql(join)
    assert "Exchange" in plan(shuffled)
    assert rows_of(shuffled) == rows_without


def test_many_rows(spark: SparkSession, tmp_path: Path) -> None:
    """A sample over the partitions tells how large the groups are."""
    number = pa.array(range(120_000))
    schema = pa.schema([("id", pa.int64()), ("few", pa.int64()), ("k", pa.string())])
    few = pa.array([value % 7 for value in range(120_000)])
    k = pa.array([str(value % 20) for value in range(120_000)])
    root = str(tmp_path / "t")
    save_rows(create_partitioned(root, schema, [BY_K]), pa.Table.from_arrays([number, few, k], schema=schema))
    read = spark.read.format("lance").load(root)
    large, small = read.groupBy("few").sum("id"), read.groupBy("id").count()
    assert "aggregates=[" in plan(large)
    assert {row.few: row["sum(id)"] for row in large.collect()} == {
        rest: sum(range(rest, 120_000, 7)) for rest in range(7)
    }
    assert "aggregates=[" not in plan(small)
    assert small.count() == 120_000


def test_tasks_take_several_partitions(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    rows = pa.table({"id": pa.array(range(40)), "k": pa.array([str(number) for number in range(40)])})
    made = save_rows(create_partitioned(uri, rows.schema, [BY_K]), rows)
    handle = TableHandle(uri, version=made.version, partitioned=True)
    wanted = (Aggregate("count_star"),)
    for target, expected in ((None, 1), ("1", 40)):
        options = {} if target is None else {"target_partition_bytes": target}
        request = AggregateRequest(ScanRequest(handle, options, columns=StructType()), wanted, ("id",))
        planner = ScanPlanner(request.scan, Call(Session(parallelism=2)), request)
        tasks = planner.tasks()
        assert len(tasks.work) == expected
        assert planner.summary(tasks).keys == ()
