"""Namespaces: made, shown, changed and dropped; their comments and properties."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import lance_spark
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.spark.session import CATALOG_CLASS


def told(spark: SparkSession, namespace: str) -> dict[str, str]:
    rows = spark.sql(f"DESCRIBE NAMESPACE EXTENDED {namespace}").collect()
    return {row.info_name: row.info_value for row in rows}


@pytest.mark.slow
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


@pytest.fixture
def fresh(spark: SparkSession, tmp_path: Path) -> SparkSession:
    """A session whose default catalog is an empty one at `tmp_path`."""
    session = spark.newSession()
    session.conf.set("spark.sql.catalog.fresh", CATALOG_CLASS)
    session.conf.set("spark.sql.catalog.fresh.root", str(tmp_path))
    session.conf.set("spark.sql.defaultCatalog", "fresh")
    return session


@pytest.mark.slow
def test_default_namespace_is_there_without_being_made(fresh: SparkSession, tmp_path: Path) -> None:
    names = DirectoryNamespace(tmp_path)
    fresh.sql("USE default")
    assert fresh.sql("SELECT current_catalog(), current_database()").first()[:] == ("fresh", "default")
    assert [row.namespace for row in fresh.sql("SHOW NAMESPACES IN fresh").collect()] == ["default"]
    assert fresh.sql("SHOW TABLES").collect() == fresh.sql("SHOW NAMESPACES IN fresh.default").collect() == []
    assert told(fresh, "fresh.default")["Namespace Name"] == "default"
    with pytest.raises(AnalysisException, match="SCHEMA_ALREADY_EXISTS"):
        fresh.sql("CREATE NAMESPACE fresh.default")
    fresh.sql("CREATE NAMESPACE IF NOT EXISTS fresh.default")
    fresh.sql("DROP NAMESPACE fresh.DEFAULT")
    assert names.list_namespaces() == []
    fresh.sql("CREATE TABLE t AS SELECT id FROM range(3)")
    fresh.sql("CREATE TABLE p (id INT, k STRING) PARTITIONED BY (k)")
    assert (names.list_namespaces(), names.list_tables(("default",))) == (["default"], ["p", "t"])
    assert fresh.table("fresh.default.t").count() == 3
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_EMPTY"):
        fresh.sql("DROP NAMESPACE fresh.default")
    fresh.sql("DROP NAMESPACE fresh.default CASCADE")
    assert names.list_namespaces() == fresh.sql("SHOW TABLES IN fresh.default").collect() == []


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER NAMESPACE fresh.default SET PROPERTIES ('a' = 'b')",
        "CREATE NAMESPACE fresh.default.inner",
        "ALTER TABLE fresh.t RENAME TO fresh.default.t",
        "CALL fresh.system.register_table(table => 'default.u', location => 't.lance')",
    ],
)
def test_default_namespace_is_made_with_its_first_content(fresh: SparkSession, tmp_path: Path, statement: str) -> None:
    lance_spark.write(pa.table({"id": [1]}), tmp_path / "t.lance")
    fresh.sql(statement)
    assert DirectoryNamespace(tmp_path).list_namespaces() == ["default"]
    assert [row.namespace for row in fresh.sql("SHOW NAMESPACES IN fresh").collect()] == ["default"]


def test_default_namespace_in_another_case(fresh: SparkSession, tmp_path: Path) -> None:
    fresh.sql("USE DEFAULT")
    DirectoryNamespace(tmp_path).create_namespace(("Default",))
    assert [row.namespace for row in fresh.sql("SHOW NAMESPACES IN fresh").collect()] == ["Default"]
    fresh.sql("CREATE TABLE fresh.default.t (id INT)")
    assert DirectoryNamespace(tmp_path).list_tables(("Default",)) == ["t"]


def test_what_a_catalog_does_not_have(spark: SparkSession) -> None:
    for statement, message in (
        ("CREATE VIEW lance.v AS SELECT 1", "(?i)view"),
        ("CREATE FUNCTION lance.f AS 'x'", r"CREATE[_ ]FUNCTION"),
        ("SHOW TABLES IN lance.nowhere", "SCHEMA_NOT_FOUND"),
        ("CREATE TABLE lance.nowhere.t (id INT)", "SCHEMA_NOT_FOUND"),
        ("ALTER NAMESPACE lance.nowhere SET PROPERTIES ('a' = 'b')", "SCHEMA_NOT_FOUND"),
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
