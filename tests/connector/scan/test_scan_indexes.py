"""Scans of Spark ask the scalar indexes of plain and partitioned tables; the rows are those of a scan without them."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import lance_spark
from lance_spark.partitioned.dataset import open_partitioned_dataset
from tests.support.connector.plans import plan
from tests.support.connector.scan_requests import answered, ask, compare, loaded, planned
from tests.support.indexed_partitions import indexed_partitions

pytestmark = pytest.mark.tasks

NUM_ROWS = 40_000
SETTING = "spark.sql.lance.useScalarIndex"
INDEXES = {"x": "BTREE", "k": "BITMAP", "z": "ZONEMAP", "b": "BLOOMFILTER", "s": "NGRAM", "l": "LABEL_LIST"}


def rows() -> pa.Table:
    numbers = range(NUM_ROWS)
    draw = random.Random(5)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "p": pa.array([number % 3 for number in numbers], pa.int32()),
            "x": pa.array([None if n % 97 == 0 else n * 7919 % NUM_ROWS for n in numbers], pa.int64()),
            "k": pa.array([None if n % 101 == 0 else f"kind {n % 200}" for n in numbers]),
            "z": pa.array([n // 2 for n in numbers], pa.int32()),
            "b": pa.array([f"{draw.randrange(NUM_ROWS):06}" for _ in numbers]),
            "s": pa.array([f"note {draw.randrange(5000)} of {n % 77}" for n in numbers]),
            "l": pa.array([[n % 300, n % 7] if n % 5 else None for n in numbers], pa.list_(pa.int64())),
        }
    )


def make_plain(uri: str) -> str:
    """Three indexed fragments with deleted rows, one fragment that no index covers."""
    table = rows()
    dataset = lance.write_dataset(table.slice(0, NUM_ROWS * 3 // 4), uri, max_rows_per_file=NUM_ROWS // 4)
    for column, kind in INDEXES.items():
        dataset.create_scalar_index(column, kind)
    lance.write_dataset(table.slice(NUM_ROWS * 3 // 4), uri, mode="append")
    lance.dataset(uri).delete("id % 10 = 3")
    return uri


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("scan_indexes")
    parts = indexed_partitions(root / "partitioned", rows(), "p", INDEXES)
    parts.delete("id % 10 = 3")
    return {"plain": make_plain(str(root / "plain")), "partitioned": parts.uri}


@pytest.fixture(params=["plain", "partitioned"])
def uri(request: pytest.FixtureRequest, tables: dict[str, str]) -> str:
    return tables[request.param]


@pytest.fixture(autouse=True)
def setting(spark: SparkSession) -> Iterator[None]:
    yield
    spark.conf.unset(SETTING)


def load(spark: SparkSession, uri: str, **options: str) -> DataFrame:
    return spark.read.format("lance").options(**options).load(uri)


def found(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


CONDITIONS = [
    "x = 7919",
    "x IN (1, 2, 3, 39000)",
    "x < 40 OR x > 39990",
    "x IS NULL",
    "NOT (x >= 30)",
    "k = 'kind 7' AND z < 4000",
    "k IS NULL AND p = 1",
    "z BETWEEN 700 AND 720",
    "b = '000123'",
    "s LIKE '%note 123 %'",
    "contains(s, '77')",
    "array_contains(l, 250)",
    "x = 7919 AND k = 'nothing'",
    "x = 5 AND id % 2 = 1",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_rows_are_the_same_without_indexes(spark: SparkSession, uri: str, condition: str) -> None:
    expected = found(load(spark, uri, use_scalar_index="false").where(condition))
    frame = load(spark, uri)
    assert found(frame.where(condition)) == expected
    assert frame.where(condition).count() == len(expected)
    # Read by tasks instead of by the planner.
    assert found(load(spark, uri, target_partition_bytes="1000000").where(condition)) == expected


@pytest.mark.slow
def test_random_filters_give_the_rows_of_a_scan(spark: SparkSession, uri: str) -> None:
    draw = random.Random(uri.rsplit("/", 1)[-1])
    for _ in range(12):
        terms = draw.sample(CONDITIONS, draw.choice([1, 2, 3]))
        text = f" {draw.choice(['AND', 'OR'])} ".join(
            f"NOT ({term})" if draw.random() < 0.3 else f"({term})" for term in terms
        )
        expected = found(load(spark, uri, use_scalar_index="false").where(text))
        assert found(load(spark, uri, target_partition_bytes="1000000").where(text)) == expected, text


def test_fragments_without_a_hit_make_no_task(uri: str) -> None:
    lookup = [compare("=", "x", 7919)]
    body = planned(uri, lookup)
    everything = planned(uri, lookup, {"use_scalar_index": "false"})
    assert body["num_rows"] <= NUM_ROWS // 4 + 1
    assert everything["num_rows"] > NUM_ROWS * 0.8
    assert body["metrics"]["fragments_read"] < everything["metrics"]["fragments_read"]


def counted(uri: str, predicate: dict[str, Any], **options: str) -> object:
    """The reply to COUNT(*) of a filter: the number, or that tasks have to count."""
    pushed = ask("scan.push", uri, predicates=[predicate])[0]
    scan = {"handle": loaded(uri)["handle"], "filter": pushed["filter"], "options": options}
    reply = answered("scan.aggregate", {"inline_bytes": "0"}, scan=scan, aggregates=[{"kind": "count_star"}])[0]
    return reply["values"] and [int(value) for value in reply["values"]]


def test_count_is_that_of_exact_indexes(spark: SparkSession, tables: dict[str, str], tmp_path: Path) -> None:
    for kind, uri in tables.items():
        assert counted(uri, compare("<", "x", 500)) is None, "a fragment is not indexed"
        copy = str(tmp_path / kind)
        shutil.copytree(uri, copy)
        dataset = lance_spark.open(copy) if kind == "plain" else open_partitioned_dataset(copy)
        expected = dataset.optimize_indices().count_rows("x < 500", use_scalar_index=False)
        assert counted(copy, compare("<", "x", 500)) == [expected]
        assert counted(copy, compare("<", "x", 500), use_scalar_index="false") is None
        assert counted(copy, compare("<", "z", 500, "integer")) is None, "a zone map is not exact"
        assert load(spark, copy).where("x < 500").count() == expected


def test_explain_names_index_condition_and_fragments(spark: SparkSession, tables: dict[str, str]) -> None:
    frame = load(spark, tables["plain"]).where("x = 7919")
    text = "indexes=[x_idx (BTREE): x IS NOT NULL AND x = 7919, segments=1, fragments=3; fragments without index=1]"
    assert text in plan(frame)
    assert "indexes=" not in plan(load(spark, tables["plain"], use_scalar_index="false").where("x = 7919"))


def test_setting_turns_indexes_off(spark: SparkSession, uri: str) -> None:
    spark.conf.set(SETTING, "false")
    assert "indexes=" not in plan(load(spark, uri).where("x = 7919"))
    assert "indexes=" in plan(load(spark, uri, use_scalar_index="true").where("x = 7919"))
    spark.conf.set(SETTING, "perhaps")
    with pytest.raises(AnalysisException, match=r"spark\.sql\.lance\.useScalarIndex is 'perhaps'"):
        load(spark, uri).where("x = 7919").collect()


@pytest.mark.parametrize("option", ["true", "false"])
def test_runtime_filter_and_limits(spark: SparkSession, uri: str, option: str) -> None:
    table = load(spark, uri, use_scalar_index=option)
    keys = spark.createDataFrame([(7919,), (15838,), (-4,)], "x long")
    assert found(table.join(keys, "x")) == [1, 2]
    assert table.where("k = 'kind 7'").limit(5).count() == 5
    first = table.where("k = 'kind 7' AND x IS NOT NULL").orderBy("x").limit(3).select("x").collect()
    every = sorted(row.x for row in table.where("k = 'kind 7'").select("x").collect() if row.x is not None)
    assert [row.x for row in first] == every[:3]
    assert table.where("k = 'kind 7'").groupBy("p").count().count() == 3


@pytest.mark.slow
@pytest.mark.parametrize("option", ["true", "false"])
def test_statements_change_the_rows_of_a_scan(spark: SparkSession, tmp_path: Path, option: str) -> None:
    uri = make_plain(str(tmp_path / "t"))
    spark.conf.set(SETTING, option)
    name = f"lance.`{uri}`"
    spark.sql(f"DELETE FROM {name} WHERE x = 7919")
    spark.sql(f"UPDATE {name} SET z = -1 WHERE k = 'kind 8'")
    spark.createDataFrame([(15838, "new"), (-9, "added")], "x long, k string").createOrReplaceTempView("changes")
    spark.sql(
        f"MERGE INTO {name} t USING changes c ON t.x = c.x WHEN MATCHED THEN UPDATE SET k = c.k "
        "WHEN NOT MATCHED THEN INSERT (id, x, k) VALUES (-1, c.x, c.k)"
    )
    dataset = lance_spark.open(uri)
    assert dataset.count_rows("x = 7919") == 0
    expected = [number for number in range(NUM_ROWS) if number % 200 == 8 and number % 101 and number % 10 != 3]
    assert dataset.count_rows("z = -1") == len(expected)
    changed: list[dict[str, Any]] = dataset.to_table(["id", "x", "k"], "k IN ('new', 'added')").to_pylist()
    assert sorted((row["id"], row["x"], row["k"]) for row in changed) == [(-1, -9, "added"), (2, 15838, "new")]
