"""Statements on Lance tables of the session catalog."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from lance_spark.namespace.directory.namespace import DirectoryNamespace
from tests.support.connector.session_tables import names, rows, stored
from tests.support.connector.streams import run


def test_definitions_of_lance_tables(mixed: SparkSession) -> None:
    mixed.sql("CREATE TABLE g (id INT, k INT GENERATED ALWAYS AS (id + 1)) USING lance PARTITIONED BY (bucket(4, id))")
    mixed.sql("INSERT INTO g (id) VALUES (1)")
    assert rows(mixed, "SELECT * FROM g") == [(1, 2)]
    mixed.sql("ALTER TABLE g ADD COLUMNS (more STRING DEFAULT 'd')")
    mixed.sql("ALTER TABLE g SET TBLPROPERTIES ('a' = 'b')")
    assert ("a", "b") in rows(mixed, "SHOW TBLPROPERTIES g")
    assert mixed.table("g").columns == ["id", "k", "more"]
    mixed.sql("TRUNCATE TABLE g")
    assert mixed.table("g").count() == 0


def test_replaced_and_failed_tables(mixed: SparkSession, tables: Path) -> None:
    mixed.sql("CREATE TABLE t USING lance AS SELECT 1 AS id")
    mixed.sql("CREATE OR REPLACE TABLE t USING lance AS SELECT 'x' AS s")
    assert stored(tables, "t").to_pydict() == {"s": ["x"]}
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        mixed.sql("REPLACE TABLE t USING lance AS SELECT 1 / (id - id) AS q FROM range(3)")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        mixed.sql("CREATE TABLE u USING lance AS SELECT 1 / (id - id) AS q FROM range(3)")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        mixed.sql("REPLACE TABLE u USING lance AS SELECT 1 AS id")
    assert rows(mixed, "SELECT * FROM t") == [("x",)]
    assert names(mixed) == ["t"]
    mixed.sql("CREATE TABLE u USING lance AS SELECT 1 AS id")


def test_changed_rows_versions_branches_and_procedures(both: SparkSession, tables: Path) -> None:
    both.sql(
        "MERGE INTO t USING p ON t.id = p.id WHEN MATCHED THEN UPDATE SET x = -1 "
        "WHEN NOT MATCHED THEN INSERT (id, x) VALUES (p.id, NULL)"
    )
    both.sql("UPDATE t SET x = 7 WHERE id = 0")
    both.sql("DELETE FROM t WHERE id IN (SELECT id FROM p WHERE id = 2)")
    assert stored(tables, "t").sort_by("id").to_pydict() == {"id": [0, 1, 3], "x": [7, -1, None]}
    assert rows(both, "SELECT count(*) FROM t VERSION AS OF 1") == [(3,)]
    assert both.sql("SELECT max(version) FROM mixed.t.versions").first()[0] == 4
    both.sql("ALTER TABLE t CREATE BRANCH b")
    both.sql("INSERT INTO mixed.t.branch_b VALUES (9, 9)")
    assert rows(both, "SELECT count(*) FROM spark_catalog.mixed.t.branch_b") == [(4,)]
    assert both.read.option("branch", "b").table("t").count() == 4
    assert both.read.option("version", 1).table("mixed.t").count() == 3
    assert both.table("t").count() == 3
    history = [
        both.sql(f"CALL {call}").collect()
        for call in (
            "system.history(table => 't')",
            "system.history(table => 'mixed.t')",
            "spark_catalog.system.history(table => 'spark_catalog.mixed.t')",
        )
    ]
    assert len(history[0]) == 4
    assert history[0] == history[1] == history[2]
    assert both.sql("OPTIMIZE t").first() is not None
    both.sql("ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS")
    both.sql("CREATE INDEX i ON t (id)")
    assert [row[0] for row in both.sql("SHOW INDEXES IN t").collect()] == ["i"]
    with pytest.raises(AnalysisException, match="PARSE_SYNTAX_ERROR"):
        both.sql("OPTIMIZE p")
    with pytest.raises(AnalysisException, match=r"write CALL system.vacuum"):
        both.sql("CALL spark_catalog.system.expire_snapshots(table => 't')")


def test_searches(both: SparkSession) -> None:
    both.sql("CREATE TABLE words USING lance AS SELECT id, concat('word', id) AS w FROM range(3)")
    both.sql("CREATE INDEX w ON words USING fts (w)")
    for name in ("words", "mixed.words", "spark_catalog.mixed.words"):
        assert rows(both, f"SELECT id FROM lance_search('{name}', 'word1')") == [(1,)]
    with pytest.raises(AnalysisException, match=r"spark_catalog.mixed.p is no Lance table"):
        both.sql("SELECT * FROM lance_search('p', 'word1')").collect()


def test_joins_of_partitioned_tables_need_no_shuffle(mixed: SparkSession) -> None:
    for name in ("a", "b"):
        mixed.sql(f"CREATE TABLE {name} (id BIGINT, {name} STRING) USING lance PARTITIONED BY (bucket(4, id))")
        mixed.sql(f"INSERT INTO {name} SELECT id, '{name}' FROM range(20)")
    joined = mixed.sql("SELECT /*+ MERGE(a) */ * FROM a JOIN b USING (id)")
    assert "Exchange" not in joined._jdf.queryExecution().executedPlan().toString()
    assert joined.count() == 20


def test_streams(both: SparkSession, tables: Path, tmp_path: Path) -> None:
    source = both.readStream.table("t").where("id > 0")
    query = (
        source.writeStream.format("lance").option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    )
    query.toTable("sink").awaitTermination()
    run(both.readStream.table("mixed.t"), "spark_catalog.mixed.sink", tmp_path / "d")
    assert sorted(stored(tables, "sink")["id"].to_pylist()) == [0, 1, 1, 2, 2]


def test_lists(both: SparkSession) -> None:
    both.sql("CREATE TEMPORARY VIEW passing AS SELECT 1 AS one")
    assert names(both) == ["p", "passing", "t", "v"]
    assert [row.tableName for row in both.sql("SHOW TABLES IN mixed LIKE 't*'").collect()] == ["t"]
    shown = {row.tableName: row.information for row in both.sql("SHOW TABLE EXTENDED LIKE '*'").collect()}
    assert sorted(shown) == ["p", "passing", "t", "v"]
    assert "Provider: lance" in shown["t"]
    assert "Provider: parquet" in shown["p"]
    assert [row.tableName for row in both.sql("SHOW TABLE EXTENDED IN mixed LIKE 't|p'").collect()] == ["p", "t"]
    catalog = both.catalog
    assert [catalog.tableExists(name) for name in ("t", "p", "mixed.t", "mixed.q")] == [True, True, True, False]
    assert sorted(table.name for table in catalog.listTables()) == ["p", "passing", "t", "v"]
    catalog.cacheTable("t")
    both.sql("INSERT INTO t VALUES (9, 9)")
    assert both.table("t").count() == 4
    catalog.uncacheTable("t")
    catalog.refreshTable("t")


@pytest.mark.since("4.2", "CREATE TABLE LIKE of tables in catalogs")
def test_tables_alike(both: SparkSession, tables: Path) -> None:
    both.sql("CREATE TABLE like_t LIKE t")
    both.sql("CREATE TABLE files LIKE t USING parquet")
    both.sql("CREATE TABLE IF NOT EXISTS p LIKE t")
    assert stored(tables, "like_t").column_names == both.table("files").columns == ["id", "x"]
    assert DirectoryNamespace(tables).list_tables(("mixed",)) == ["like_t", "t"]
    with pytest.raises(AnalysisException, match=r"write CREATE TABLE .*n USING lance AS SELECT"):
        both.sql("CREATE TABLE n LIKE p USING lance")


@pytest.mark.until("4.1", "CREATE TABLE LIKE of Spark's own tables alone")
def test_tables_alike_are_not_lance_tables(both: SparkSession) -> None:
    for statement in ("CREATE TABLE n LIKE t", "CREATE TABLE n LIKE p USING lance"):
        with pytest.raises(
            AnalysisException, match=r"write CREATE TABLE \S*n USING lance AS SELECT \* FROM \S*[tp] LIM"
        ):
            both.sql(statement)


@pytest.mark.since("4.2", "CHANGES")
def test_changes(both: SparkSession) -> None:
    both.sql("INSERT INTO t VALUES (9, 9)")
    assert rows(both, "SELECT id, _change_type FROM t CHANGES FROM VERSION 2 TO VERSION 2") == [(9, "insert")]
    assert rows(both, "SELECT id FROM lance_changes('mixed.t', 2)") == [(9,)]
    with pytest.raises(AnalysisException, match=r"UNSUPPORTED_FEATURE.CHANGE_DATA_CAPTURE"):
        both.sql("SELECT * FROM p CHANGES FROM VERSION 1").collect()


@pytest.mark.since("4.2", "schema evolution and rows in one commit")
def test_schema_evolution_is_one_version(both: SparkSession) -> None:
    both.sql(
        "MERGE WITH SCHEMA EVOLUTION INTO t USING (SELECT 9L AS id, 9L AS x, 'new' AS s) n ON t.id = n.id "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(both, "SELECT * FROM t WHERE id = 9") == [(9, 9, "new")]
    assert both.sql("SELECT max(version) FROM mixed.t.versions").first()[0] == 2
    with pytest.raises(AnalysisException):
        both.sql("INSERT INTO p VALUES (1, 'x', 'more')")


def test_views_are_of_the_session_that_reads_them(both: SparkSession, spark: SparkSession) -> None:
    plain = spark.newSession()
    plain.sql("CREATE VIEW spark_catalog.mixed.files AS SELECT id FROM spark_catalog.mixed.p")
    assert rows(both, "SELECT files.id FROM files JOIN t USING (id)") == [(1,), (2,)]
    both.sql("CREATE VIEW of_files AS SELECT id FROM p")
    assert rows(plain, "SELECT * FROM spark_catalog.mixed.of_files") == [(1,), (2,), (3,)]
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        plain.table("spark_catalog.mixed.v").collect()
