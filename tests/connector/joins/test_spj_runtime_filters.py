"""Filters that come while a query runs: fewer partitions and fragments are read, and the rows stay the same.

Spark makes them where it filters the other side itself, so the conditions here are none that a scan takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType

from lance_spark.partitioned.evolution import set_partitioning
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.table import open_partitioned
from lance_spark.partitioned.transforms.bucket import Bucket
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.spark.connector.scan import runtime_filters
from tests.partitioned.verbs import save_rows
from tests.support.connector.plans import plan
from tests.support.connector.runtime_filters import PRUNING, load, result, scans

pytestmark = pytest.mark.tasks

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("a b", pa.string()), pa.field("x", pa.float64())])
NAME = PartitionBy("name", ("a b",), Identity())
BUCKET = PartitionBy("bucket", ("id",), Bucket(8))


def rows(count: int) -> pa.Table:
    listed = [
        {"id": None if n % 10 == 9 else n, "a b": None if n % 10 == 9 else f"name {n % 6}", "x": float(n)}
        for n in range(count)
    ]
    return pa.Table.from_pylist(listed, SCHEMA)


def table(root: Path, *by: PartitionBy, count: int = 60) -> str:
    save_rows(create_partitioned(str(root), SCHEMA, by), rows(count))
    return str(root)


@pytest.fixture(autouse=True)
def pruned(spark: SparkSession) -> Iterator[None]:
    """Joins without broadcasts are pruned too, by a query of their own."""
    settings = {
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly": "false",
        "spark.sql.optimizer.dynamicPartitionPruning.fallbackFilterRatio": "100",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name in settings:
        spark.conf.unset(name)


def check(spark: SparkSession, text: str) -> DataFrame:
    """The query is pruned while it runs, and has the rows that it has otherwise."""
    frame = spark.sql(text)
    assert "dynamicpruning" in plan(frame), plan(frame)
    found = result(frame)
    spark.conf.set(PRUNING, "false")
    try:
        assert found == result(spark.sql(text))
    finally:
        spark.conf.unset(PRUNING)
    return frame


@pytest.mark.slow
@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize(("by", "on"), [(NAME, "`a b`"), (BUCKET, "id")])
def test_partitions_are_left_out_of_joins_without_a_shuffle(
    spark: SparkSession, tmp_path: Path, by: PartitionBy, on: str, adaptive: str
) -> None:
    load(spark, table(tmp_path / "l", by)).createOrReplaceTempView("l")
    load(spark, table(tmp_path / "r", by, count=40)).createOrReplaceTempView("r")
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        frame = check(spark, f"SELECT l.*, r.x AS y FROM l JOIN r ON l.{on} = r.{on} WHERE r.x + 1 = 4")
        assert "Exchange" not in plan(frame).split("SubqueryAdaptiveBroadcast")[0].split("Subquery")[0]
        if adaptive == "false":
            left, right = scans(frame)
            assert left["partitions_read"] == 1
            assert left["partitions_pruned"] >= 6
            assert left["rows_read"] == (8 if by is NAME else 1)
            assert right["partitions_read"] >= 6
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")


@pytest.mark.slow
def test_broadcast_joins_are_pruned_by_what_is_broadcast(spark: SparkSession, tmp_path: Path) -> None:
    load(spark, table(tmp_path / "l", NAME)).createOrReplaceTempView("l")
    spark.createDataFrame([("name 1", 1), ("name 4", 4), (None, 9)], "n string, y int").createOrReplaceTempView("d")
    text = "SELECT /*+ BROADCAST(d) */ l.*, y FROM l JOIN d ON l.`a b` = d.n WHERE d.y < 9"
    frame = check(spark, text)
    assert [scan["partitions_read"] for scan in scans(frame)] == [2]


@pytest.mark.slow
def test_nothing_is_read_if_the_other_side_is_empty(spark: SparkSession, tmp_path: Path) -> None:
    load(spark, table(tmp_path / "l", BUCKET)).createOrReplaceTempView("l")
    load(spark, table(tmp_path / "r", BUCKET)).createOrReplaceTempView("r")
    frame = check(spark, "SELECT l.* FROM l LEFT SEMI JOIN (SELECT id FROM r WHERE r.x + 1 < -1) r ON l.id = r.id")
    assert frame.collect() == []
    assert all(scan["rows_read"] == 0 for scan in scans(frame)[:1])


@pytest.mark.slow
def test_keys_stay_when_the_partitions_of_one_spec_are_left_out(spark: SparkSession, tmp_path: Path) -> None:
    """What is left then has finer keys than Spark was told of."""
    left, right = table(tmp_path / "l", BUCKET, count=20), table(tmp_path / "r", BUCKET, count=20)
    more = pa.Table.from_pylist([{"id": 1000 + n, "a b": f"name {n % 3}", "x": float(n)} for n in range(20)], SCHEMA)
    save_rows(set_partitioning(open_partitioned(left), [NAME, BUCKET]), more)
    load(spark, left).createOrReplaceTempView("l")
    load(spark, right).createOrReplaceTempView("r")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        frame = check(spark, "SELECT l.*, r.x AS y FROM l JOIN r ON l.id = r.id WHERE r.x + 1 IN (3, 4)")
        assert 0 < scans(frame)[0]["partitions_read"] < 28
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")


@pytest.mark.slow
def test_fragments_of_plain_tables_are_left_out(spark: SparkSession, tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    spark.range(0, 100, numPartitions=4).write.format("lance").save(uri)
    spark.createDataFrame(
        [(2 << 32, "a"), ((2 << 32) + 3, "b"), (None, "c")], "at bigint, y string"
    ).createOrReplaceTempView("d")
    load(spark, uri).select("id", "_rowaddr").createOrReplaceTempView("t")
    frame = check(spark, "SELECT /*+ BROADCAST(d) */ t.id, y FROM t JOIN d ON t._rowaddr = d.at WHERE y < 'd'")
    assert [scan["fragments_read"] for scan in scans(frame)] == [1]
    assert frame.count() == 2


NESTED = pa.schema(
    [
        pa.field("s", pa.struct([("k", pa.string()), ("f", pa.float64()), ("t", pa.struct([("n", pa.int32())]))])),
        pa.field("id", pa.int64()),
    ]
)


def nested(count: int) -> pa.Table:
    """Nulls at every level."""
    number = np.arange(count)
    below = pa.StructArray.from_arrays(
        [pa.array(number % 97, pa.int32(), mask=number % 5 == 0)],
        fields=list(NESTED.field("s").type.field("t").type),
        mask=pa.array(number % 13 == 0),
    )
    keys = pa.array([f"k{value % 6}" for value in range(count)], mask=number % 7 == 0)
    struct = pa.StructArray.from_arrays(
        [keys, pa.array(number / 4), below], fields=list(NESTED.field("s").type), mask=pa.array(number % 11 == 0)
    )
    return pa.Table.from_arrays([struct, pa.array(number)], schema=NESTED)


@pytest.mark.slow
def test_members_of_structs_choose_partitions(spark: SparkSession, tmp_path: Path) -> None:
    by = PartitionBy("k", (("s", "k"),), Identity())
    save_rows(create_partitioned(str(tmp_path / "l"), NESTED, [by]), nested(200))
    load(spark, str(tmp_path / "l")).createOrReplaceTempView("l")
    spark.createDataFrame([("k1", 1), ("k4", 4), (None, 9)], "k string, y int").createOrReplaceTempView("d")
    frame = check(spark, "SELECT /*+ BROADCAST(d) */ l.*, y FROM l JOIN d ON l.s.k = d.k WHERE d.y < 9")
    assert [scan["partitions_read"] for scan in scans(frame)] == [2]
    # Floats are compared by the join alone.
    spark.createDataFrame([(0.25, 1), (-0.0, 2)], "f double, y int").createOrReplaceTempView("d")
    text = "SELECT /*+ BROADCAST(d) */ l.id, l.s.k, y FROM l JOIN d ON l.s.f = d.f WHERE d.y < 9"
    expected = [(number, None if number % 7 == 0 else f"k{number % 6}", 1) for number in (1,)]
    assert [tuple(row) for row in spark.sql(text).collect()] == expected


@pytest.mark.slow
@pytest.mark.parametrize("is_partitioned", [False, True])
def test_members_of_structs_choose_rows(spark: SparkSession, tmp_path: Path, is_partitioned: bool) -> None:
    uri, rows = str(tmp_path / "t"), nested(120_000)
    if is_partitioned:
        by = PartitionBy("shard", ("id",), Bucket(2))
        save_rows(create_partitioned(uri, NESTED, [by]), rows)
    else:
        lance.write_dataset(rows, uri)
    load(spark, uri).createOrReplaceTempView("t")
    spark.createDataFrame([(3, "a"), (40, "b"), (None, "c"), (99, "d")], "n int, y string").createOrReplaceTempView("d")
    text = "SELECT /*+ BROADCAST(d) */ t.id, t.s.t.n, y FROM t JOIN d ON t.s.t.n = d.n WHERE y < 'z'"
    frame = check(spark, text)
    found = [
        number for number in range(120_000) if number % 97 in (3, 40) and number % 5 and number % 13 and number % 11
    ]
    assert sorted(row.id for row in frame.collect()) == found
    assert sum(scan["rows_read"] for scan in scans(frame)) == len(found)


def test_long_lists_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_filters, "MAX_CHOOSING_VALUES", 2)
    schema = pa.schema([pa.field("id", pa.int64())])
    filters = [runtime_filters.KeyFilter(("id",), LongType(), attachment=place) for place in range(3)]
    sent = [np.arange(count, dtype="<i8").tobytes() for count in (2, 3, 0)]
    assert str(runtime_filters.runtime_filter(filters[:2], sent, schema, [("id",)])) == "id IN (0, 1)"
    assert str(runtime_filters.runtime_filter(filters[2:], sent, schema, [("id",)])) == "FALSE"
