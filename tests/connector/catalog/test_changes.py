"""CHANGES FROM VERSION a TO VERSION b."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.support.connector.plans import plan

pytestmark = pytest.mark.since("4.2", "the CHANGES clause")


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> str:
    """Version 2 inserts five rows, 3 deletes one, 4 updates one; rows have stable ids."""
    name = "lance.changes_of.t"
    spark.sql("CREATE NAMESPACE lance.changes_of")
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, name STRING) USING lance TBLPROPERTIES ('enable_stable_row_ids' = 'true')"
    )
    spark.sql(f"INSERT INTO {name} SELECT id, concat('n', id) FROM range(5)")
    spark.sql(f"DELETE FROM {name} WHERE id = 1")
    spark.sql(f"UPDATE {name} SET name = 'new' WHERE id = 3")
    return name


def changes(spark: SparkSession, table: str, span: str) -> list[tuple[object, ...]]:
    query = f"SELECT _commit_version, _change_type, id, name FROM {table} CHANGES {span}"
    return sorted(map(tuple, spark.sql(query).collect()))


@pytest.mark.slow
def test_inserts_deletes_and_updates(spark: SparkSession, table: str) -> None:
    assert changes(spark, table, "FROM VERSION 3 TO VERSION 4") == [
        (3, "delete", 1, "n1"),
        (4, "update_postimage", 3, "new"),
        (4, "update_preimage", 3, "n3"),
    ]
    assert len(changes(spark, table, "FROM VERSION 2")) == 8
    assert changes(spark, table, "FROM VERSION 2 EXCLUSIVE TO VERSION 3 INCLUSIVE") == [(3, "delete", 1, "n1")]
    with pytest.raises(AnalysisException, match="LANCE_"):
        changes(spark, table, "FROM VERSION 3 TO VERSION 9")


def test_columns_are_pruned(spark: SparkSession, table: str) -> None:
    frame = spark.sql(f"SELECT id FROM {table} CHANGES FROM VERSION 2 TO VERSION 2 WHERE id > 2")
    assert sorted(row.id for row in frame.collect()) == [3, 4]
    assert "columns=[id]" in plan(frame)
    kinds = spark.sql(f"SELECT _change_type, count(*) AS n FROM {table} CHANGES FROM VERSION 2 GROUP BY 1").collect()
    assert {row._change_type: row.n for row in kinds} == {
        "insert": 5,
        "delete": 1,
        "update_preimage": 1,
        "update_postimage": 1,
    }


def test_moments(spark: SparkSession, table: str) -> None:
    moment = spark.sql(f"SELECT timestamp FROM {table}.versions WHERE version = 3").first().timestamp
    rows = changes(spark, table, f"FROM TIMESTAMP '{moment}' TO TIMESTAMP '{moment}'")
    assert rows == [(3, "delete", 1, "n1")]


def test_the_dataframe_reader(spark: SparkSession, table: str) -> None:
    frame = spark.read.option("startingVersion", "3").option("endingVersion", "3").changes(table)
    assert [(row.id, row._change_type) for row in frame.collect()] == [(1, "delete")]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("startingVersoin", "unknown option startingVersoin; did you mean startingVersion"),
        ("batch_size", "option batch_size has no effect on a read of changes"),
        ("storage.aws_region", "option storage.aws_region has no effect on"),
    ],
)
def test_options_without_effect_are_refused(spark: SparkSession, table: str, option: str, message: str) -> None:
    reader = spark.read.options(startingVersion="2", startingBoundInclusive="false", deduplicationMode="none")
    assert reader.changes(table).count() > 0
    with pytest.raises(AnalysisException, match=message):
        reader.option(option, "1").changes(table).collect()
