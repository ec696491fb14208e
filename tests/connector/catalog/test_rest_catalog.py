"""Catalogs whose names somebody else keeps: the server and the class that the reference library brings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import pytest
from lance.namespace import RestAdapter, RestNamespace
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

import lance_spark
from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.spark.session import CATALOG_CLASS
from tests.support.connector.locations import location


@pytest.fixture
def remote(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    # Each session keeps the catalogs that it has loaded.
    spark = spark.newSession()
    with RestAdapter("dir", {"root": str(tmp_path / "root")}, host="127.0.0.1", port=0) as server:
        spark.conf.set("spark.sql.catalog.remote.impl", "rest")
        spark.conf.set("spark.sql.catalog.remote.uri", f"http://127.0.0.1:{server.port}")
        spark.conf.set("spark.sql.catalog.remote.header.Authorization", "Bearer x")
        spark.conf.set("spark.sql.catalog.remote", CATALOG_CLASS)
        yield spark


@pytest.mark.slow
def test_tables_of_a_server(remote: SparkSession) -> None:
    spark = remote
    spark.sql("CREATE NAMESPACE remote.db")
    assert [row.namespace for row in spark.sql("SHOW NAMESPACES IN remote").collect()] == ["db", "default"]
    spark.sql("CREATE TABLE remote.db.t AS SELECT id, 'a' AS name FROM range(10)")
    spark.sql("INSERT INTO remote.db.t VALUES (10, 'b')")
    spark.sql("UPDATE remote.db.t SET name = 'c' WHERE id = 3")
    assert [row.tableName for row in spark.sql("SHOW TABLES IN remote.db").collect()] == ["t"]
    assert spark.table("remote.db.t").where("name = 'a'").count() == 9
    where = location(spark, "remote.db.t")
    assert lance.dataset(where).version == 3
    assert lance.dataset(where).count_rows("name = 'c'") == 1
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        spark.sql("CREATE TABLE remote.db.t (id INT)")
    assert spark.table("remote.DB.T").count() == 11
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        spark.sql("CREATE TABLE remote.Db.T (id INT)")
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        spark.sql("CREATE NAMESPACE remote.DB")
    with pytest.raises(AnalysisException, match="not implemented"):
        spark.sql("ALTER TABLE remote.db.t RENAME TO remote.db.u")
    with pytest.raises(AnalysisException, match="NOT_EMPTY"):
        spark.sql("DROP NAMESPACE remote.db")
    spark.sql("DROP TABLE remote.db.t PURGE")
    assert not Path(where.removeprefix("file://")).exists()
    spark.sql("DROP NAMESPACE remote.db")
    assert [row.namespace for row in spark.sql("SHOW NAMESPACES IN remote").collect()] == ["default"]


@pytest.mark.slow
@pytest.mark.tasks
def test_tables_whose_versions_the_server_keeps(spark: SparkSession, tmp_path: Path) -> None:
    spark = spark.newSession()
    options = {"root": str(tmp_path), "manifest_enabled": "true", "table_version_tracking_enabled": "true"}
    with RestAdapter("dir", options, host="127.0.0.1", port=0) as server:
        uri = f"http://127.0.0.1:{server.port}"
        spark.conf.set("spark.sql.catalog.managed.impl", "rest")
        spark.conf.set("spark.sql.catalog.managed.uri", uri)
        spark.conf.set("spark.sql.catalog.managed.header.X-Secret", "9999")
        spark.conf.set("spark.sql.catalog.managed", CATALOG_CLASS)
        spark.sql("CREATE NAMESPACE managed.db")
        spark.sql("CREATE TABLE managed.db.t AS SELECT id, 'a' AS name FROM range(10)")
        spark.sql("INSERT INTO managed.db.t VALUES (10, 'b')")
        spark.sql("UPDATE managed.db.t SET name = 'c' WHERE id = 3")
        spark.sql(
            "MERGE INTO managed.db.t AS t USING (SELECT 4L AS id UNION ALL SELECT 99) AS s ON t.id = s.id "
            "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'new')"
        )
        theirs = lance.dataset(namespace_client=RestNamespace(uri=uri), table_id=["db", "t"])
        assert (theirs.version, theirs.count_rows(), theirs.count_rows("name = 'c'")) == (4, 11, 1)
        lance.write_dataset(
            theirs.to_table(limit=1), namespace_client=RestNamespace(uri=uri), table_id=["db", "t"], mode="append"
        )
        assert spark.table("managed.db.t").count() == 12
        assert spark.sql("SELECT * FROM managed.db.t VERSION AS OF 1").count() == 10
        found = spark.sql("SELECT version FROM managed.db.t.versions ORDER BY version").collect()
        assert [row.version for row in found] == [1, 2, 3, 4, 5]
        assert "9999" not in spark.sql("SHOW CREATE TABLE managed.db.t").first()[0]
        spark.sql("CREATE OR REPLACE TABLE managed.db.t AS SELECT 1 AS x")
        spark.sql("CREATE TABLE managed.db.p PARTITIONED BY (k) AS SELECT id, id % 3 AS k FROM range(9)")
        assert spark.table("managed.db.p").where("k = 1").count() == 3
        with pytest.raises(PySparkException, match="on purpose"):
            spark.sql("CREATE TABLE managed.db.u AS SELECT raise_error('on purpose') AS x")
        assert [row.tableName for row in spark.sql("SHOW TABLES IN managed.db").collect()] == ["p", "t"]


@pytest.mark.slow
def test_default_namespace_of_a_server_is_made_with_its_first_table(remote: SparkSession, tmp_path: Path) -> None:
    assert remote.sql("SHOW TABLES IN remote.default").collect() == []
    remote.sql("CREATE TABLE remote.default.t AS SELECT id FROM range(3)")
    assert lance.dataset(location(remote, "remote.default.t")).count_rows() == 3
    assert DirectoryNamespace(tmp_path / "root").list_namespaces() == ["default"]
    remote.sql("DROP TABLE remote.default.t")
    remote.sql("DROP NAMESPACE remote.default")
    assert DirectoryNamespace(tmp_path / "root").list_namespaces() == []
    remote.sql("DROP NAMESPACE remote.default")


@pytest.mark.slow
def test_partitioned_tables_of_a_server(remote: SparkSession, tmp_path: Path) -> None:
    spark = remote
    spark.sql("CREATE NAMESPACE remote.db")
    spark.sql("CREATE TABLE remote.db.p PARTITIONED BY (k) AS SELECT id, id % 3 AS k FROM range(9)")
    spark.sql("INSERT INTO remote.db.p VALUES (9, 0)")
    spark.sql("UPDATE remote.db.p SET id = 100 WHERE id = 4")
    assert sorted(row.id for row in spark.table("remote.db.p").where("k = 0").collect()) == [0, 3, 6, 9]
    rows = lance_spark.connect(f"{spark.conf.get('spark.sql.catalog.remote.uri')}", impl="rest").open_table("db.p")
    assert sorted(rows.to_table()["id"].to_pylist()) == [0, 1, 2, 3, 5, 6, 7, 8, 9, 100]
    assert [row.tableName for row in spark.sql("SHOW TABLES IN remote.db").collect()] == ["p"]
    spark.sql("CREATE OR REPLACE TABLE remote.db.p PARTITIONED BY (k) AS SELECT id, id % 2 AS k FROM range(4)")
    assert spark.table("remote.db.p").count() == 4
    with pytest.raises(AnalysisException, match="this needs a catalog in a folder"):
        spark.sql("CREATE OR REPLACE TABLE remote.db.p AS SELECT 1 AS id")
    with pytest.raises(AnalysisException, match="truncate"):
        spark.sql("CREATE TABLE remote.db.q (id BOOLEAN) PARTITIONED BY (truncate(4, id))")
    with pytest.raises(PySparkException, match="that is wrong"):
        spark.sql(
            "CREATE TABLE remote.db.q PARTITIONED BY (k) AS "
            "SELECT id, id % 3 AS k, IF(id = 8, raise_error('that is wrong'), 1) AS x FROM range(9)"
        )
    assert [row.tableName for row in spark.sql("SHOW TABLES IN remote.db").collect()] == ["p"]
    where = location(spark, "remote.db.p")
    spark.sql("DROP TABLE remote.db.p PURGE")
    assert not Path(where.removeprefix("file://")).exists()


@pytest.mark.slow
def test_partitioned_tables_of_a_class(spark: SparkSession, tmp_path: Path) -> None:
    spark = spark.newSession()
    spark.conf.set("spark.sql.catalog.classy.impl", "lance.namespace.DirectoryNamespace")
    spark.conf.set("spark.sql.catalog.classy.root", str(tmp_path))
    spark.conf.set("spark.sql.catalog.classy", CATALOG_CLASS)
    spark.sql("CREATE NAMESPACE classy.db")
    spark.sql("CREATE TABLE classy.db.p PARTITIONED BY (bucket(4, id)) AS SELECT id FROM range(9)")
    assert spark.table("classy.db.p").where("id = 3").count() == 1
    assert lance_spark.open(location(spark, "classy.db.p")).count_rows() == 9


@pytest.mark.slow
def test_tables_of_a_class(spark: SparkSession, tmp_path: Path) -> None:
    spark = spark.newSession()
    spark.conf.set("spark.sql.catalog.classy.impl", "lance.namespace.DirectoryNamespace")
    spark.conf.set("spark.sql.catalog.classy.root", str(tmp_path))
    spark.conf.set("spark.sql.catalog.classy.enable_stable_row_ids", "true")
    spark.conf.set("spark.sql.catalog.classy", CATALOG_CLASS)
    spark.sql("CREATE NAMESPACE classy.db")
    spark.sql("CREATE TABLE classy.db.t AS SELECT id, 'a' AS name FROM range(10)")
    spark.sql("UPDATE classy.db.t SET name = 'c' WHERE id = 3")
    assert spark.table("classy.DB.T").where("name = 'a'").count() == 9
    assert [row.tableName for row in spark.sql("SHOW TABLES IN classy.db").collect()] == ["t"]
    table = lance.dataset(location(spark, "classy.db.t"))
    assert (table.version, table.has_stable_row_ids) == (2, True)
    assert DirectoryNamespace(tmp_path).list_tables(("db",)) == ["t"]
    with pytest.raises(AnalysisException, match="rename_table"):
        spark.sql("ALTER TABLE classy.db.t RENAME TO classy.db.u")
    spark.sql("DROP TABLE classy.db.t PURGE")
    assert DirectoryNamespace(tmp_path).list_tables(("db",)) == []
    spark.conf.set("spark.sql.catalog.missing.impl", "nowhere.at.All")
    spark.conf.set("spark.sql.catalog.missing", CATALOG_CLASS)
    with pytest.raises(AnalysisException, match=r"nowhere\.at\.All, which cannot be imported"):
        spark.sql("SHOW NAMESPACES IN missing").collect()
