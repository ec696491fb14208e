"""Catalogs of other formats in Spark: the statements of one kind of catalog in each of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import lance
import pandas as pd
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import lance_spark
from lance_spark.spark.session import CATALOG_CLASS
from lance_spark.storage.paths import parse_root
from tests.support.connector.locations import location
from tests.support.external_catalogs import external_catalog
from tests.support.moto import S3Bucket
from tests.support.vending_server import vending

RENAMES = {"glue", "hive2", "iceberg"}


@pytest.fixture(params=["glue", "hive2", "iceberg", "polaris", "unity"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def other(spark: SparkSession, s3_bucket: S3Bucket, kind: str, tmp_path: Path) -> Iterator[SparkSession]:
    session = spark.newSession()
    with external_catalog(kind, str(tmp_path / "root"), s3_bucket.endpoint) as catalog:
        for name, value in catalog.spark_settings().items():
            session.conf.set(f"spark.sql.catalog.other.{name}", value)
        session.conf.set("spark.sql.catalog.other", CATALOG_CLASS)
        yield session


@pytest.mark.slow
def test_statements(other: SparkSession, kind: str, tmp_path: Path) -> None:
    spark, db = other, f"db_{tmp_path.name.replace('-', '_')}".lower()
    spark.sql(f"CREATE NAMESPACE other.{db}")
    assert db in [row.namespace for row in spark.sql("SHOW NAMESPACES IN other").collect()]
    spark.sql(f"USE other.{db}")
    spark.sql("CREATE TABLE t AS SELECT id, 'a' AS name FROM range(10)")
    spark.sql("INSERT INTO t VALUES (10, 'b')")
    spark.sql("UPDATE t SET name = 'c' WHERE id = 3")
    spark.sql("MERGE INTO t USING (SELECT 4L AS id) AS s ON t.id = s.id WHEN MATCHED THEN DELETE")
    where = location(spark, f"other.{db}.t")
    assert parse_root(where).location.startswith(str(tmp_path / "root"))
    assert (lance.dataset(where).version, lance.dataset(where).count_rows()) == (4, 10)
    assert spark.table(f"other.{db.upper()}.T").count() == 10
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        spark.sql("CREATE TABLE t (id INT)")
    spark.sql("CREATE TABLE p PARTITIONED BY (k, bucket(2, id)) AS SELECT id, id % 3 AS k FROM range(9)")
    spark.sql("DELETE FROM p WHERE k = 1")
    assert sorted(row.id for row in spark.table("p").collect()) == [0, 2, 3, 5, 6, 8]
    assert lance_spark.open(location(spark, f"other.{db}.p")).count_rows() == 6
    assert sorted(row.tableName for row in spark.sql("SHOW TABLES").collect()) == ["p", "t"]
    spark.sql(f"CALL other.system.register_table(table => '{db}.again', location => '{where}')")
    assert spark.table("again").count() == 10
    spark.sql("DROP TABLE again")
    if kind in RENAMES:
        spark.sql(f"ALTER TABLE t RENAME TO {db}.u")
        assert location(spark, f"other.{db}.u").rstrip("/").endswith(where.rpartition("/")[2])
        spark.sql(f"ALTER TABLE u RENAME TO {db}.t")
    else:
        with pytest.raises(AnalysisException, match="cannot rename a table"):
            spark.sql(f"ALTER TABLE t RENAME TO {db}.u")
    with pytest.raises(AnalysisException, match="NOT_EMPTY"):
        spark.sql(f"DROP NAMESPACE other.{db}")
    spark.sql("DROP TABLE t")
    assert lance.dataset(where).count_rows() == 10
    spark.sql("CREATE TABLE t AS SELECT 1 AS x")
    assert spark.table("t").count() == 1
    assert location(spark, f"other.{db}.t") != where
    for name in ("t", "p"):
        where = parse_root(location(spark, f"other.{db}.{name}")).location
        spark.sql(f"DROP TABLE {name} PURGE")
        assert not [path for path in Path(where).rglob("*.lance") if path.is_file()]
    spark.sql(f"DROP NAMESPACE other.{db}")
    assert db not in [row.namespace for row in spark.sql("SHOW NAMESPACES IN other").collect()]


@pytest.mark.slow
@pytest.mark.tasks
def test_a_job_outlives_three_credentials(spark: SparkSession, s3_bucket: S3Bucket) -> None:
    """Tasks ask the catalog themselves; no credential stands in the plan or in what statements show."""
    spark = spark.newSession()
    with vending(s3_bucket, life_seconds=3.0) as vendor:
        spark.conf.set("spark.sql.catalog.vended.impl", "rest")
        spark.conf.set("spark.sql.catalog.vended.uri", vendor.uri)
        spark.conf.set("spark.sql.catalog.vended", CATALOG_CLASS)
        spark.sql("CREATE TABLE vended.t (id BIGINT)")

        def slowly(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
            for part in parts:
                for start in range(len(part)):
                    time.sleep(0.9)
                    yield part.iloc[start : start + 1]

        rows = spark.range(0, 20, 1, 2).mapInPandas(slowly, "id BIGINT")
        rows.writeTo("vended.t").append()
        assert sorted(row.id for row in spark.table("vended.t").collect()) == list(range(20))
        shown = spark.sql("EXPLAIN EXTENDED SELECT * FROM vended.t WHERE id > 3").first()[0]
        shown += spark.sql("SHOW CREATE TABLE vended.t").first()[0]
        shown += str(spark.sql("DESCRIBE EXTENDED vended.t").collect())
        assert "KEY" not in shown
        assert "secret-of" not in shown
        assert vendor.refused == []
