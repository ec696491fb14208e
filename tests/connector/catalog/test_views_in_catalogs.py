"""The life of a view in each kind of catalog, over a table of the same catalog."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lance_spark.spark.session import CATALOG_CLASS
from tests.support.external_catalogs import VIEW_KINDS, external_catalog
from tests.support.moto import S3Bucket

pytestmark = [pytest.mark.since("4.3", "views of catalogs"), pytest.mark.slow]


@pytest.fixture(params=["dir", *VIEW_KINDS, "unity"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def other(spark: SparkSession, s3_bucket: S3Bucket, kind: str, tmp_path: Path) -> Iterator[SparkSession]:
    """A session in a new database of the catalog `other`, which has the table `t`."""
    session, settings = spark.newSession(), {"root": str(tmp_path / "root")}
    with ExitStack() as stack:
        if kind != "dir":
            catalog = external_catalog(kind, str(tmp_path / "root"), s3_bucket.endpoint)
            settings = stack.enter_context(catalog).spark_settings()
        for name, value in settings.items():
            session.conf.set(f"spark.sql.catalog.other.{name}", value)
        session.conf.set("spark.sql.catalog.other", CATALOG_CLASS)
        session.sql(f"CREATE NAMESPACE other.{database(tmp_path)}")
        session.sql(f"USE other.{database(tmp_path)}")
        session.sql("CREATE TABLE t AS SELECT id, concat('s', id) AS s FROM range(3)")
        yield session
        session.sql(f"DROP NAMESPACE IF EXISTS other.{database(tmp_path)} CASCADE")


def database(folder: Path) -> str:
    return f"db_{folder.name.replace('-', '_')}".lower()


def rows(spark: SparkSession, query: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in spark.sql(query).collect()]


def refused(spark: SparkSession, statement: str, message: str) -> None:
    with pytest.raises(PySparkException, match=message):
        spark.sql(statement)


def test_life_of_a_view(other: SparkSession, kind: str, tmp_path: Path) -> None:
    if kind == "unity":
        refused(
            other, "CREATE VIEW v AS SELECT * FROM t", "keeps no views for Lance; make .* in a catalog with impl = dir"
        )
        assert rows(other, "SHOW VIEWS") == []
        refused(other, "SELECT * FROM v", "TABLE_OR_VIEW_NOT_FOUND")
        return
    spark, db = other, database(tmp_path)
    spark.sql("CREATE VIEW v (id COMMENT 'the id', name) COMMENT 'hello' AS SELECT id, s FROM t WHERE id > 0")
    expected = [(1, "s1"), (2, "s2")]
    assert rows(spark, "SELECT * FROM v") == rows(spark, "SELECT * FROM V") == expected
    spark.sql("USE spark_catalog.default")
    assert rows(spark, f"SELECT v.* FROM other.{db}.v JOIN other.{db}.t ON v.id = t.id ORDER BY id") == expected
    spark.sql(f"USE other.{db}")
    spark.sql("INSERT INTO t SELECT id + 2, 'new' FROM v WHERE id = 1")
    assert rows(spark, "SELECT name FROM v WHERE id = 3") == [("new",)]
    assert rows(spark, "SHOW VIEWS") == [(db, "v", False)]
    assert [name for _, name, _ in rows(spark, "SHOW TABLES")] == ["t", "v"]
    assert rows(spark, "DESCRIBE v") == [("id", "bigint", "the id"), ("name", "string", None)]
    told = {row.col_name: row.data_type for row in spark.sql("DESCRIBE EXTENDED v").collect()}
    assert (told["Type"], told["Comment"]) == ("VIEW", "hello")
    assert told["View Text"] == "SELECT id, s FROM t WHERE id > 0"
    [(statement,)] = rows(spark, "SHOW CREATE TABLE v")
    spark.sql("DROP VIEW v")
    spark.sql(str(statement))
    assert rows(spark, "SHOW CREATE TABLE v") == [(statement,)]
    refused(spark, "CREATE VIEW v AS SELECT 1", "TABLE_OR_VIEW_ALREADY_EXISTS")
    spark.sql("CREATE VIEW IF NOT EXISTS v AS SELECT 1")
    spark.sql("ALTER VIEW v SET TBLPROPERTIES ('a' = 'b')")
    assert rows(spark, "SHOW TBLPROPERTIES v") == [("a", "b")]
    spark.sql("ALTER VIEW v AS SELECT max(id) AS most FROM t")
    assert rows(spark, "SELECT most FROM v") == [(3,)]
    spark.sql("CREATE OR REPLACE VIEW v AS SELECT 'Zürich' AS place, count(*) AS n FROM t")
    assert rows(spark, "SELECT * FROM v") == [("Zürich", 4)]
    spark.sql("CREATE VIEW w AS SELECT n + 1 AS n FROM v")
    refused(spark, "ALTER VIEW w RENAME TO v", "VIEW_ALREADY_EXISTS")
    spark.sql("ALTER VIEW w RENAME TO x")
    assert rows(spark, "SELECT n FROM x") == [(5,)]
    for statement in ("CREATE TABLE x (id INT)", "CREATE OR REPLACE TABLE x AS SELECT 1 AS id"):
        refused(spark, statement, "exists")
    refused(spark, "CREATE OR REPLACE VIEW t AS SELECT 1", "EXPECT_VIEW_NOT_TABLE")
    refused(spark, "CREATE VIEW t AS SELECT 1", "TABLE_OR_VIEW_ALREADY_EXISTS")
    refused(spark, "ALTER VIEW x RENAME TO t", "VIEW_ALREADY_EXISTS")
    refused(spark, "DROP TABLE x", "is a VIEW")
    refused(spark, "DROP TABLE x PURGE", "is a VIEW")
    refused(spark, "DROP VIEW t", "is a TABLE")
    refused(spark, "INSERT INTO x VALUES (1)", "is a view, which takes no INSERT")
    refused(spark, "SELECT * FROM x VERSION AS OF 1", "is a view, which has no versions")
    assert (rows(spark, "SELECT n FROM x"), spark.table("t").count()) == ([(5,)], 4)
    refused(spark, f"DROP NAMESPACE other.{db}", "SCHEMA_NOT_EMPTY")
    spark.sql("DROP VIEW x")
    spark.sql("DROP VIEW IF EXISTS x")
    refused(spark, "DROP VIEW x", "VIEW_NOT_FOUND")
    spark.sql(f"DROP NAMESPACE other.{db} CASCADE")
    refused(spark, f"SELECT * FROM other.{db}.v", "TABLE_OR_VIEW_NOT_FOUND")
