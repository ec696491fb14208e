"""Plans and messages call a table as statements do: catalog.namespace.table, or its path."""

from __future__ import annotations

import json
import pickle
import re

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

import lance_spark
from lance_spark.spark.connector.channel.registry import PROTOCOL, answer
from tests.support.connector.plans import plan


@pytest.mark.since("4.2", "the CHANGES clause")
@pytest.mark.slow
@pytest.mark.tasks
@pytest.mark.parametrize("partitioning", ["", "PARTITIONED BY (part)"])
def test_plans_name_the_table(spark: SparkSession, root: str, partitioning: str) -> None:
    table = f"lance.shown_{bool(partitioning)}.orders"
    spark.sql(f"CREATE NAMESPACE {table.rpartition('.')[0]}")
    spark.sql(f"CREATE TABLE {table} {partitioning} AS SELECT id, 'a' AS part FROM range(3)")
    explained = plan(spark.table(table))
    assert re.search(rf"BatchScan {re.escape(table)}\[", explained)
    assert f"lance {table}@v" in explained
    texts = [explained]
    for statement in (
        f"INSERT INTO {table} VALUES (5, 'b')",
        f"INSERT OVERWRITE {table} VALUES (5, 'b')",
        f"DELETE FROM {table} WHERE id + 1 = 2",
        f"UPDATE {table} SET id = 9 WHERE id = 1",
        f"MERGE INTO {table} t USING (SELECT 1L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        f"SELECT * FROM {table} CHANGES FROM VERSION 1 TO VERSION 1",
    ):
        texts.append(spark.sql(f"EXPLAIN EXTENDED {statement}").first()[0])
    assert all(table in text for text in texts)
    assert not any(root in text for text in texts)
    described = {row.col_name: row.data_type for row in spark.sql(f"DESCRIBE EXTENDED {table}").collect()}
    assert described["Location"].startswith(root)


def test_plans_by_path_say_the_path(spark: SparkSession, uri: str) -> None:
    spark.range(3).write.format("lance").save(uri)
    assert f"lance {uri}@v1" in plan(spark.read.format("lance").load(uri))
    assert f"lance {uri}@v1" in plan(spark.table(f"lance.`{uri}`"))


@pytest.mark.slow
def test_a_branch_is_named_as_it_is_read(spark: SparkSession, root: str) -> None:
    spark.sql("CREATE TABLE lance.shown_branch AS SELECT 1 AS id")
    spark.sql("ALTER TABLE lance.shown_branch CREATE BRANCH dev")
    assert "lance lance.shown_branch.branch_dev@v" in plan(spark.table("lance.shown_branch.branch_dev"))
    assert "lance lance.shown_branch.branch_dev@v" in plan(
        spark.read.option("branch", "dev").table("lance.shown_branch")
    )


@pytest.mark.slow
@pytest.mark.parametrize("partitioning", ["", "PARTITIONED BY (part)"])
def test_messages_name_the_table(spark: SparkSession, root: str, partitioning: str) -> None:
    table = f"lance.messages_{bool(partitioning)}"
    spark.sql(f"CREATE TABLE {table} {partitioning} AS SELECT id, 'a' AS part FROM range(3)")
    spark.sql(f"ALTER TABLE {table} CREATE TAG known")
    for statement in (
        f"SELECT * FROM {table} VERSION AS OF 99",
        f"SELECT * FROM {table} VERSION AS OF 'nothing'",
        f"RESTORE {table} TO VERSION 99",
        f"ALTER TABLE {table} DROP TAG nothing",
        f"ALTER TABLE {table} CREATE TAG known",
        f"ALTER TABLE {table} CREATE TAG other AS OF VERSION 99",
    ):
        with pytest.raises(AnalysisException) as raised:
            spark.sql(statement)
        assert table in str(raised.value)
        assert root not in str(raised.value)


def location(spark: SparkSession, table: str) -> str:
    rows = spark.sql(f"DESCRIBE EXTENDED {table}").where("col_name = 'Location'").collect()
    return str(rows[0].data_type)


@pytest.mark.slow
def test_conflict_of_optimize_names_the_table(spark: SparkSession, root: str) -> None:
    table = "lance.optimized_twice"
    spark.sql(f"CREATE TABLE {table} AS SELECT id FROM range(3)")
    spark.sql(f"INSERT INTO {table} VALUES (5)")
    call = {"catalog": {"name": "lance", "settings": {"root": root}}, "name": "optimize"}
    call["arguments"] = {"table": [table]}

    def asked(op: str, attachments: tuple[bytes, ...] = ()) -> tuple[dict[str, object], tuple[bytes, ...]]:
        body, attached = answer(json.dumps({"protocol": PROTOCOL, "op": op, "args": call}).encode(), attachments)
        return json.loads(body), attached

    _, (_, state, *work) = asked("procedure.call")
    results = [pickle.loads(item).run() for item in work]
    spark.sql(f"OPTIMIZE {table}")
    error = asked("procedure.finish", (state, *results))[0]["error"]
    assert error["condition"] == "LANCE_COMMIT_CONFLICT"  # type: ignore[index]
    assert table in error["message"] and root not in error["message"]  # type: ignore[index]  # noqa: PT018


@pytest.mark.slow
@pytest.mark.parametrize("partitioning", ["", "PARTITIONED BY (part)"])
def test_conflict_of_a_write_names_the_table(spark: SparkSession, root: str, partitioning: str) -> None:
    table = f"lance.written_{bool(partitioning)}"
    spark.sql(f"CREATE TABLE {table} {partitioning} AS SELECT id, 'w' AS word, 'a' AS part FROM range(3)")
    place = location(spark, table)

    def rival(key: int) -> int:
        opened = lance_spark.open(place)
        if "word" in opened.schema.names:
            opened.drop_columns(["word"])
        return key

    spark.udf.register("column_dropper", udf(rival, "bigint"))
    with pytest.raises(Exception, match=r"another writer|conflicts") as raised:
        spark.sql(f"INSERT INTO {table} SELECT column_dropper(9), 'new', 'b'")
    assert table in str(raised.value)
    assert root not in str(raised.value)
