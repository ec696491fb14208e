"""What the planner does for plain and for partitioned tables alike; rows beside Parquet and Spark's own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import lance_spark
from lance_spark.expr.literals import literal
from lance_spark.expr.nodes import Column, Comparison, ComparisonOp
from lance_spark.partitioned.save import PartitionBy, create_partitioned
from lance_spark.partitioned.table import open_partitioned
from lance_spark.partitioned.transforms.bucket import Bucket
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.spark.connector.scan.requests import decoded_filter
from tests.partitioned.verbs import save_rows
from tests.support.connector.plans import plan
from tests.support.connector.scan_requests import aggregated, ask, compare, planned

ROWS = 120_000
KINDS = ("plain", "partitioned")


def rows() -> pa.Table:
    """Sorted ids, a key of four values with nulls, and a number in any order."""
    ids = range(ROWS)
    key = pa.array([None if number % 5 == 4 else number % 5 for number in ids], pa.int32())
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "k": key, "n": pa.array([number * 7919 % 1000 for number in ids])}
    )


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Both kinds with the same rows, in several files each, and zone maps of the ids."""
    root = tmp_path_factory.mktemp("planner")
    plain, partitioned = str(root / "plain"), str(root / "partitioned")
    lance_spark.write(rows(), plain, max_rows_per_file=ROWS // 5)
    save_rows(create_partitioned(partitioned, rows().schema, [PartitionBy("k", ("k",), Identity())]), rows())
    for uri in (plain, partitioned):
        lance_spark.open(uri).create_scalar_index("id", "ZONEMAP", rows_per_zone=2048)
    return {"plain": plain, "partitioned": partitioned}


@pytest.fixture(params=KINDS)
def uri(request: pytest.FixtureRequest, tables: dict[str, str]) -> str:
    return tables[request.param]


def load(spark: SparkSession, uri: str, **options: str) -> DataFrame:
    return spark.read.format("lance").options(**options).load(uri)


def test_stored_zone_maps_choose_rows(spark: SparkSession, uri: str) -> None:
    frame = load(spark, uri).where("id BETWEEN 60000 AND 60002")
    assert sorted(row.id for row in frame.collect()) == [60_000, 60_001, 60_002]
    lookup = [compare("=", "id", 60_000)]
    assert planned(uri, lookup)["num_rows"] < ROWS / 4
    assert planned(uri, lookup, {"use_scalar_index": "false"})["num_rows"] == ROWS
    assert planned(uri, lookup, options={"use_scalar_index": "false"})["num_rows"] == ROWS
    both = planned(uri, lookup, {"use_scalar_index": "false"}, options={"use_scalar_index": "true"})
    assert both["num_rows"] < ROWS / 4


@pytest.mark.parametrize(
    "condition",
    ["id = 77", "id < 0", "id IN (1, 60000, 119999)", "n = 5", "id > 50000 AND n < 3", "k = 2 AND id < 9", "k IS NULL"],
)
def test_rows_are_the_same_without_zone_maps(spark: SparkSession, uri: str, condition: str) -> None:
    expected = spark.createDataFrame(rows()).where(condition).select("id")
    without = load(spark, uri, use_scalar_index="false").where(condition)
    assert sorted(without.select("id").collect()) == sorted(expected.collect())
    assert sorted(load(spark, uri).where(condition).collect()) == sorted(without.collect())


def test_a_plan_of_a_filter_reads_no_data_file(uri: str, tmp_path: Path) -> None:
    copy = tmp_path / "t"
    shutil.copytree(uri, copy)
    for file in copy.rglob("data/*.lance"):
        if "__manifest" not in file.parts:  # The table of partitions.
            file.unlink()
    for condition in (compare("=", "id", 60_000), compare("<", "n", 3)):
        body = planned(str(copy), [condition], {"use_scalar_index": "false"})
        assert (body["num_rows"], body["metrics"]["fragments_pruned"]) == (ROWS, 0)
    assert planned(str(copy), [compare("=", "id", 60_000)])["num_rows"] < ROWS / 4


@pytest.mark.slow
def test_explain_names_stored_zone_maps_for_literals_of_all_types(spark: SparkSession, tmp_path: Path) -> None:
    count, first = 40_000, datetime(2020, 1, 1)
    moments = [first + timedelta(minutes=number) for number in range(count)]
    columns = {
        "d": pa.array([moment.date() for moment in moments], pa.date32()),
        "at": pa.array(moments, pa.timestamp("us")),
        "zoned": pa.array(moments, pa.timestamp("us", "UTC")),
        "an int": pa.array(range(count), pa.int32()),
        "small": pa.array([number // 4000 for number in range(count)], pa.int8()),
        "text": pa.array([f"{number:06d}" for number in range(count)]),
    }
    uri = str(tmp_path / "t")
    table = lance_spark.write(pa.table(columns), uri, max_rows_per_file=count // 4)
    for name in columns:
        table = table.create_scalar_index(f"`{name}`", "ZONEMAP", name=f"{name} zones")
    conditions = {
        "d = DATE '2020-01-05'": "d",
        "d IN (DATE '2020-01-05', DATE '2020-01-07')": "d",
        "d BETWEEN DATE '2020-01-05' AND DATE '2020-01-06'": "d",
        "d = '2020-01-05'": "d",
        "at < TIMESTAMP_NTZ '2020-01-02 00:00:00'": "at",
        "zoned = TIMESTAMP '2020-01-02 00:00:00'": "zoned",
        "`an int` = 70": "an int",
        "small = 9Y": "small",
        "text = '000005'": "text",
    }
    for condition, column in conditions.items():
        assert f"indexes=[{column} zones (ZONEMAP): " in plan(load(spark, uri).where(condition)), condition


@pytest.mark.slow
def test_offset(spark: SparkSession, uri: str) -> None:
    everything = [row.id for row in load(spark, uri).select("id").toLocalIterator()]
    for offset in (0, 1, 30_000, 119_999, 120_000, 500_000):
        frame = load(spark, uri).select("id").offset(offset)
        found = [row.id for row in frame.collect()]
        assert len(found) == max(0, ROWS - offset)
        assert set(found) <= set(everything)
        assert len(set(found)) == len(found)
    assert "fragments=1/" in plan(load(spark, uri).select("id").offset(ROWS - 1))


def test_limit_reads_as_many_fragments_as_it_needs(spark: SparkSession, uri: str) -> None:
    frame = load(spark, uri).limit(10)
    assert frame.count() == 10
    assert "limit=10" in plan(frame)
    assert "fragments=1/5" in plan(frame)


def test_option_limit_counts_rows_of_all_partitions(spark: SparkSession, uri: str) -> None:
    assert load(spark, uri, limit="7").count() == 7
    assert len(load(spark, uri, limit="7").collect()) == 7


def test_selectivity(uri: str) -> None:
    predicates = [compare("<", "n", 100)]
    assert planned(uri, predicates)["needs_selectivity"]
    pushed = ask("scan.push", uri, predicates=predicates)[0]["filter"]
    found = ask("scan.selectivity", uri, filter=pushed)[0]["selectivity"]
    assert 0.1 <= found <= 0.3


def test_metrics_count_what_is_pruned(uri: str) -> None:
    body = planned(uri, [compare("=", "k", 2, "integer")])
    metrics = body["metrics"]
    assert metrics["fragments_read"] >= 1
    assert metrics["fragments_pruned"] >= 0
    assert metrics["files_read"] == metrics["fragments_read"]
    assert ("partitions_pruned" in metrics) is (" partitions=" in body["description"])


def test_push_answers_each_filter(uri: str) -> None:
    unknown = {"name": "UNKNOWN", "children": [{"column": ["id"]}]}
    body, _ = ask("scan.push", uri, predicates=[unknown, compare("=", "id", 3)])
    assert body["answers"] == [0, 2]
    assert decoded_filter(body["filter"]) == Comparison(ComparisonOp.EQ, Column(("id",)), literal(3))
    assert ask("scan.push", uri, predicates=[unknown])[0] == {"answers": [0], "filter": None}


def test_push_with_a_limit_of_the_read_takes_no_filter(uri: str) -> None:
    body, _ = ask("scan.push", uri, predicates=[compare("=", "id", 3)], options={"limit": "5"})
    assert body == {"answers": [0], "filter": None}


def test_plan_keeps_the_pushed_filter(uri: str) -> None:
    assert "filters=[id = 60000]" in planned(uri, [compare("=", "id", 60_000)])["description"]
    assert "filters=[]" in ask("scan.plan", uri)[0]["description"]


def test_plan_says_whether_a_filter_asks_for_values(uri: str) -> None:
    not_null = {"name": "IS_NOT_NULL", "children": [{"column": ["id"]}]}
    assert not planned(uri, [not_null])["filters_values"]
    assert planned(uri, [not_null, compare("=", "id", 3)])["filters_values"]


def test_aggregate_that_tasks_cannot_compute(uri: str) -> None:
    median = {"kind": "median", "of": {"column": ["n"]}}
    body, attached = aggregated(uri, [median])
    assert body == {"values": None, "columns": None, "plan": None}
    assert attached < 1


def test_aggregate_comes_with_its_plan(uri: str) -> None:
    body, attached = aggregated(uri, [{"kind": "max", "of": {"column": ["n"]}}])
    assert [field["name"] for field in body["columns"]["fields"]] == ["max(n)#0"]
    assert "aggregates=[max(n)]" in body["plan"]["description"]
    assert attached >= 1


def test_order_that_tasks_cannot_sort_by_is_left_to_spark(uri: str) -> None:
    order = {"expression": {"column": ["nothing"]}, "descending": False, "nulls_first": True}
    body, _ = ask("scan.plan", uri, top_n={"limit": 3, "orders": [order]})
    assert "top=" not in body["description"]
    order["expression"] = {"column": ["n"]}
    body, _ = ask("scan.plan", uri, top_n={"limit": 3, "orders": [order]})
    assert "top=3" in body["description"]


_PROGRAM = """
import json, sys
from tests.support.connector.scan_requests import compare, planned
uri = sys.argv[1]
for times in (1, 2):
    print(json.dumps(planned(uri, [compare("=", "id", 60000)])))
"""


@pytest.mark.slow
def test_plans_do_not_depend_on_earlier_queries(uri: str) -> None:
    """A fresh process, one that has planned the query before, and one that has planned others."""
    fresh = [
        subprocess.run([sys.executable, "-c", _PROGRAM, uri], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    plans = [line for text in fresh for line in text.splitlines()]
    for value in (3, 60_000, 119_000):
        planned(uri, [compare("<", "id", value)])
    plans.append(json.dumps(planned(uri, [compare("=", "id", 60_000)])))
    assert len(plans) == 5
    assert len(set(plans)) == 1


@pytest.mark.slow
def test_runtime_filter_leaves_keys_of_tasks_alone(spark: SparkSession, tmp_path: Path) -> None:
    """A join by key, whose keys come while the query runs, over partitions whose tasks zone maps narrow."""
    root = str(tmp_path / "t")
    by = [PartitionBy("shard", ("k",), Bucket(3))]
    save_rows(create_partitioned(root, rows().schema, by), rows())
    lance_spark.open(root).create_scalar_index("id", "ZONEMAP")
    assert open_partitioned(root).num_partitions <= 3
    frame = load(spark, root, target_partition_bytes="100000")
    few = frame.where("id IN (1, 40002, 119998)").select("k", "id")
    joined = few.alias("a").hint("merge").join(frame.alias("b"), ["k", "id"])
    assert sorted(row.id for row in joined.collect()) == [1, 40_002, 119_998]
