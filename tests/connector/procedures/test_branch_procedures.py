"""Branches in production: rollback, fast-forward, cherrypick, comparison, and writes that are audited first."""

from __future__ import annotations

from collections.abc import Iterator

import lance
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Row, SparkSession


@pytest.fixture
def table(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """Rows 0 to 4, version 2, audited; its name without the catalog's."""
    namespace = f"wap_{abs(hash(request.node.name)) % 10**8}"
    spark.sql(f"CREATE NAMESPACE lance.{namespace}")
    name = f"{namespace}.t"
    properties = "TBLPROPERTIES ('lance.wap.enabled' = 'true')"
    spark.sql(f"CREATE TABLE lance.{name} (id BIGINT, v BIGINT) USING lance {properties}")
    spark.sql(f"INSERT INTO lance.{name} VALUES (0, 0), (1, 0), (2, 0), (3, 0), (4, 0)")
    yield name
    for setting in ("spark.wap.branch", "spark.wap.id"):
        spark.conf.unset(setting)


def call(spark: SparkSession, text: str) -> list[Row]:
    return spark.sql(f"CALL lance.system.{text}").collect()


def ids(spark: SparkSession, name: str) -> list[int]:
    return [row.id for row in spark.sql(f"SELECT id FROM lance.{name} ORDER BY id").collect()]


def reference(spark: SparkSession, table: str) -> list[int]:
    rows = spark.sql(f"DESCRIBE EXTENDED lance.{table}").where("col_name = 'Location'").collect()
    dataset = lance.dataset(rows[0].data_type)
    dataset.validate()
    return sorted(dataset.to_table()["id"].to_pylist())


def test_a_branch_is_compared_picked_and_published(spark: SparkSession, table: str) -> None:
    call(spark, f"create_branch(table => '{table}', branch => 'dev')")
    spark.sql(f"INSERT INTO lance.{table}.branch_dev VALUES (10, 0), (11, 0)")
    spark.sql(f"DELETE FROM lance.{table}.branch_dev WHERE id = 1")
    compared = call(spark, f"compare_branches('{table}', 'main', 'dev')")
    assert [tuple(row) for row in compared] == [("added", 2), ("deleted", 1), ("updated", 0)]
    (row,) = call(spark, f"cherrypick(table => '{table}', version => 4, branch => 'dev')")
    assert (row.picked_version, row.branch, row.version) == (4, "main", 3)
    assert ids(spark, table) == [0, 2, 3, 4]
    with pytest.raises(PySparkException, match="is in branch main already"):
        call(spark, f"cherrypick('{table}', 4, 'dev')")
    (row,) = call(spark, f"rollback_to_version('{table}', 2)")
    assert (row.previous_version, row.version) == (3, 4)
    assert ids(spark, table) == [0, 1, 2, 3, 4]
    with pytest.raises(PySparkException, match="does not contain version 4 of main"):
        call(spark, f"fast_forward('{table}', 'main', 'dev')")
    (row,) = call(spark, f"create_branch('{table}', 'next')")
    spark.sql(f"INSERT INTO lance.{table}.branch_next VALUES (20, 0)")
    (row,) = call(spark, f"fast_forward(table => '{table}', branch => 'main', to => 'next')")
    assert tuple(row) == ("main", 4, 5)
    assert ids(spark, table) == reference(spark, table) == [0, 1, 2, 3, 4, 20]


def test_all_statements_of_a_session_go_to_the_branch(spark: SparkSession, table: str) -> None:
    cached = spark.sql(f"SELECT id FROM lance.{table}").cache()
    assert cached.count() == 5
    spark.conf.set("spark.wap.branch", "audit")
    assert ids(spark, table) == [0, 1, 2, 3, 4]
    spark.sql(f"TRUNCATE TABLE lance.{table}")
    assert (ids(spark, table), reference(spark, table)) == ([], [0, 1, 2, 3, 4])
    spark.sql(f"INSERT INTO lance.{table} VALUES (0, 0), (1, 0), (2, 0), (3, 0), (4, 0)")
    spark.sql(f"INSERT INTO lance.{table} VALUES (10, 0)")
    spark.sql(f"DELETE FROM lance.{table} WHERE id = 1")
    spark.sql(f"UPDATE lance.{table} SET v = 1 WHERE id = 2")
    spark.sql(f"MERGE INTO lance.{table} t USING (SELECT 3 id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert ids(spark, table) == ids(spark, f"{table}.branch_audit") == [0, 2, 4, 10]
    with pytest.raises(AnalysisException, match=r"spark\.wap\.branch = audit"):
        ids_of_other(spark, table)
    spark.conf.unset("spark.wap.branch")
    assert ids(spark, table) == reference(spark, table) == [0, 1, 2, 3, 4]
    assert ids(spark, f"{table}.branch_audit") == [0, 2, 4, 10]
    cached.unpersist()


def ids_of_other(spark: SparkSession, table: str) -> list[int]:
    call(spark, f"create_branch('{table}', 'other')")
    return ids(spark, f"{table}.branch_other")


def test_staged_changes_are_published(spark: SparkSession, table: str) -> None:
    spark.conf.set("spark.wap.id", "job-7")
    spark.sql(f"INSERT INTO lance.{table} VALUES (10, 0)")
    spark.sql(f"UPDATE lance.{table} SET v = 9 WHERE id = 3")
    assert ids(spark, table) == [0, 1, 2, 3, 4]
    spark.conf.unset("spark.wap.id")
    spark.sql(f"INSERT INTO lance.{table} VALUES (11, 0)")
    (row,) = call(spark, f"publish_changes(table => '{table}', wap_id => 'job-7')")
    assert (row.wap_id, row.version) == ("job-7", 4)
    assert ids(spark, table) == reference(spark, table) == [0, 1, 2, 3, 4, 10, 11]
    assert spark.sql(f"SELECT v FROM lance.{table} WHERE id = 3").collect() == [Row(v=9)]
    with pytest.raises(PySparkException, match="already"):
        call(spark, f"publish_changes('{table}', 'job-7')")


def test_settings_that_are_refused_or_do_nothing(spark: SparkSession, table: str) -> None:
    with pytest.raises(PySparkException, match=r"lance\.wap\.enabled takes true or false"):
        spark.sql(f"ALTER TABLE lance.{table} SET TBLPROPERTIES ('lance.wap.enabled' = 'yes')")
    spark.conf.set("spark.wap.branch", "audit")
    spark.conf.set("spark.wap.id", "x")
    with pytest.raises(AnalysisException, match="are both set"):
        ids(spark, table)
    spark.conf.unset("spark.wap.id")
    spark.sql(f"ALTER TABLE lance.{table} UNSET TBLPROPERTIES ('lance.wap.enabled')")
    spark.sql(f"INSERT INTO lance.{table} VALUES (10, 0)")
    assert reference(spark, table) == [0, 1, 2, 3, 4, 10]
    assert call(spark, f"list_branches('{table}')") == []
    partitioned = f"{table}_p"
    with pytest.raises(PySparkException, match="needs branches"):
        spark.sql(
            f"CREATE TABLE lance.{partitioned} (id BIGINT, p STRING) USING lance PARTITIONED BY (p) "
            "TBLPROPERTIES ('lance.wap.enabled' = 'true')"
        )
