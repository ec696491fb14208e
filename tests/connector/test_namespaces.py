"""Namespaces: made, shown, changed and dropped; their comments and properties."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession


def told(spark: SparkSession, namespace: str) -> dict[str, str]:
    rows = spark.sql(f"DESCRIBE NAMESPACE EXTENDED {namespace}").collect()
    return {row.info_name: row.info_value for row in rows}


def test_a_namespace(spark: SparkSession) -> None:
    name = "lance.all_of_it"
    spark.sql(f"CREATE NAMESPACE {name} COMMENT 'hello' WITH DBPROPERTIES ('k' = 'v')")
    with pytest.raises(AnalysisException, match="SCHEMA_ALREADY_EXISTS"):
        spark.sql(f"CREATE NAMESPACE {name}")
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {name} COMMENT 'not this one'")
    assert (told(spark, name)["Comment"], told(spark, name)["Properties"]) == ("hello", "((k,v))")
    spark.sql(f"ALTER NAMESPACE {name} SET PROPERTIES ('k' = 'w', 'l' = 'm')")
    spark.sql(f"COMMENT ON NAMESPACE {name} IS 'new'")
    spark.sql(f"ALTER NAMESPACE {name} UNSET PROPERTIES ('l')")
    assert (told(spark, name)["Comment"], told(spark, name)["Properties"]) == ("new", "((k,w))")
    assert [row.namespace for row in spark.sql("SHOW NAMESPACES IN lance LIKE 'all_of*'").collect()] == ["all_of_it"]
    spark.sql(f"CREATE TABLE {name}.one (id INT)")
    spark.sql(f"CREATE TABLE {name}.`odd name` (id INT)")
    assert [row.tableName for row in spark.sql(f"SHOW TABLES IN {name} LIKE 'o*e'").collect()] == ["odd name", "one"]
    assert spark.sql(f"SHOW TABLES IN {name} LIKE 'x*'").collect() == []
    assert [row.col_name for row in spark.sql(f"SHOW COLUMNS IN {name}.`odd name`").collect()] == ["id"]
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_EMPTY"):
        spark.sql(f"DROP NAMESPACE {name} RESTRICT")
    spark.sql(f"DROP TABLE {name}.one PURGE")
    spark.sql(f"DROP TABLE {name}.`odd name`")
    spark.sql(f"DROP NAMESPACE {name}")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        spark.sql(f"DROP NAMESPACE {name}")
    spark.sql(f"DROP NAMESPACE IF EXISTS {name}")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        told(spark, name)


def test_what_a_catalog_does_not_have(spark: SparkSession) -> None:
    for statement, message in (
        ("CREATE VIEW lance.v AS SELECT 1", "VIEWS"),
        ("CREATE FUNCTION lance.f AS 'x'", "CREATE_FUNCTION"),
        ("SHOW TABLES IN lance.nowhere", "SCHEMA_NOT_FOUND"),
        ("CREATE TABLE lance.nowhere.t (id INT)", "SCHEMA_NOT_FOUND"),
        ("ALTER NAMESPACE lance.nowhere SET PROPERTIES ('a' = 'b')", "SCHEMA_NOT_FOUND"),
        ("CREATE TABLE lance.t (id INT) CLUSTER BY (id)", "LANCE_UNSUPPORTED_FEATURE"),
    ):
        with pytest.raises(AnalysisException, match=message):
            spark.sql(statement)


def test_a_namespace_has_no_location(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="namespaces have no LOCATION"):
        spark.sql("CREATE NAMESPACE lance.placed LOCATION '/elsewhere'")
    spark.sql("CREATE NAMESPACE lance.placed")
    with pytest.raises(AnalysisException, match="namespaces have no LOCATION"):
        spark.sql("ALTER NAMESPACE lance.placed SET LOCATION '/elsewhere'")
    assert "Location" not in told(spark, "lance.placed")
    spark.sql("DROP NAMESPACE lance.placed")
