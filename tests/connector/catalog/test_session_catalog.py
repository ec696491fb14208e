"""Names in the session catalog: which side has one, and that no side takes or replaces one of the other."""

from __future__ import annotations

from pathlib import Path

import lance
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.spark.session import CATALOG_CLASS
from tests.support.connector.session_tables import names, rows, stored

TAKEN = "TABLE_OR_VIEW_ALREADY_EXISTS"


def all_are_there(session: SparkSession) -> None:
    assert rows(session, "SELECT * FROM t") == [(0, 0), (1, 10), (2, 20)]
    assert rows(session, "SELECT * FROM p") == [(1, "p"), (2, "p"), (3, "p")]
    assert rows(session, "SELECT * FROM v") == [(1, 10, "p"), (2, 20, "p")]


def test_tables_of_both_kinds_side_by_side(both: SparkSession, tables: Path) -> None:
    all_are_there(both)
    assert names(both) == ["p", "t", "v"]
    assert DirectoryNamespace(tables).list_tables(("mixed",)) == ["t"]
    both.sql("CREATE TABLE made (id INT, s STRING) USING lance")
    both.sql("INSERT INTO made VALUES (1, 'a'), (2, NULL)")
    assert stored(tables, "made").to_pydict() == {"id": [1, 2], "s": ["a", None]}
    both.sql("INSERT INTO made SELECT id, s FROM p WHERE id = 3")
    both.sql("INSERT INTO p SELECT id + 3, s FROM made WHERE id = 1")
    assert rows(both, "SELECT * FROM made WHERE s IS NOT NULL") == [(1, "a"), (3, "p")]
    assert rows(both, "SELECT * FROM p WHERE id > 2") == [(3, "p"), (4, "a")]
    both.sql("DROP TABLE made")
    assert names(both) == ["p", "t", "v"]
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        both.table("made")


@pytest.mark.slow
def test_lance_tables_of_a_server_beside_those_of_spark(served: SparkSession, tables: Path) -> None:
    served.sql("CREATE TABLE t USING lance AS SELECT id, id * 10 AS x FROM range(3)")
    served.sql("CREATE TABLE q USING lance PARTITIONED BY (k) AS SELECT id, id % 2 AS k FROM range(4)")
    served.sql("CREATE TABLE p USING parquet AS SELECT id, 'p' AS s FROM range(1, 4)")
    served.sql("CREATE VIEW v AS SELECT t.id, x, s FROM t JOIN p USING (id)")
    served.sql("UPDATE t SET x = 0 WHERE id = 2")
    assert rows(served, "SELECT * FROM v") == [(1, 10, "p"), (2, 0, "p")]
    assert rows(served, "SELECT id FROM q WHERE k = 1") == [(1,), (3,)]
    assert names(served) == ["p", "q", "t", "v"]
    assert DirectoryNamespace(tables).list_tables(("mixed",)) == ["q", "t"]
    for statement in ("CREATE TABLE t (id INT) USING parquet", "CREATE TABLE p USING lance AS SELECT 1 AS id"):
        with pytest.raises(AnalysisException, match=TAKEN):
            served.sql(statement)
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_EMPTY"):
        served.sql("DROP DATABASE mixed")
    served.sql("DROP TABLE t")
    assert names(served) == ["p", "q", "v"]


def test_name_of_a_lance_table_is_not_for_others(both: SparkSession) -> None:
    for statement in (
        "CREATE TABLE t (id INT) USING parquet",
        "CREATE TABLE T (id INT)",
        "CREATE TABLE mixed.t USING orc AS SELECT 1 AS id",
        "CREATE TABLE t USING lance LOCATION '/nowhere'",
        "CREATE TABLE t (id INT) USING lance",
        "CREATE TABLE t LIKE p",
        "CREATE VIEW t AS SELECT 1 AS id",
        "CREATE OR REPLACE VIEW t AS SELECT 1 AS id",
        "ALTER TABLE p RENAME TO t",
        "ALTER TABLE mixed.p RENAME TO mixed.t",
        "ALTER VIEW v RENAME TO mixed.t",
    ):
        with pytest.raises(AnalysisException, match=TAKEN):
            both.sql(statement)
    with pytest.raises(AnalysisException, match=r"spark_catalog.mixed.t is a Lance table below the catalog's root"):
        both.sql("CREATE OR REPLACE TABLE t USING lance LOCATION '/nowhere' AS SELECT 1 AS id")
    for statement in (
        "CREATE TABLE IF NOT EXISTS t (id INT) USING parquet",
        "CREATE TABLE IF NOT EXISTS t USING parquet AS SELECT 7 AS id",
        "CREATE TABLE IF NOT EXISTS t USING lance AS SELECT 7 AS id",
        "CREATE VIEW IF NOT EXISTS t AS SELECT 1 AS id",
        "DROP VIEW IF EXISTS t",
    ):
        both.sql(statement)
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        both.sql("DROP VIEW t")
    all_are_there(both)
    assert names(both) == ["p", "t", "v"]


def test_name_of_another_table_or_view_is_not_for_lance(both: SparkSession, tables: Path) -> None:
    for name in ("p", "v"):
        for statement in (
            "CREATE TABLE {} (id INT) USING lance",
            "CREATE TABLE {} USING lance AS SELECT 1 AS id",
            "ALTER TABLE t RENAME TO {}",
            "ALTER TABLE t RENAME TO mixed.{}",
        ):
            with pytest.raises(AnalysisException, match=TAKEN):
                both.sql(statement.format(name))
        for statement in (
            "REPLACE TABLE {} (id INT) USING lance",
            "CREATE OR REPLACE TABLE {} (id INT) USING lance",
            "CREATE OR REPLACE TABLE {} USING lance AS SELECT 1 AS id",
        ):
            with pytest.raises(AnalysisException, match=f"spark_catalog.mixed.{name} is a table or view of Spark's"):
                both.sql(statement.format(name))
        both.sql(f"CREATE TABLE IF NOT EXISTS {name} USING lance AS SELECT 1 AS id")
    all_are_there(both)
    assert DirectoryNamespace(tables).list_tables(("mixed",)) == ["t"]


def test_writers_of_data_frames(both: SparkSession, tables: Path) -> None:
    data = both.range(2)
    data.write.format("lance").saveAsTable("w")
    data.write.format("lance").mode("append").saveAsTable("w")
    data.write.insertInto("w")
    data.writeTo("mixed.w").append()
    assert sorted(stored(tables, "w")["id"].to_pylist()) == [0, 0, 0, 0, 1, 1, 1, 1]
    data.write.format("lance").mode("overwrite").saveAsTable("w")
    data.write.mode("ignore").saveAsTable("w")
    with pytest.raises(AnalysisException, match=TAKEN):
        data.write.saveAsTable("w")
    for mode in ("append", "overwrite"):
        with pytest.raises(AnalysisException, match=r"mixed.w is a Lance table; write to it with format\('lance'\)"):
            data.write.mode(mode).saveAsTable("w")
    assert stored(tables, "w")["id"].to_pylist() == [0, 1]
    with pytest.raises(AnalysisException, match=r"mixed.p is a table or view of Spark's catalog"):
        data.write.format("lance").mode("overwrite").saveAsTable("p")
    with pytest.raises(AnalysisException, match=r"mixed.p is a table or view of Spark's catalog"):
        data.writeTo("p").using("lance").createOrReplace()
    data.writeTo("made").using("lance").partitionedBy("id").create()
    assert rows(both, "SELECT * FROM made") == [(0,), (1,)]
    data.write.mode("append").saveAsTable("files")
    assert DirectoryNamespace(tables).list_tables(("mixed",)) == ["made", "t", "w"]
    all_are_there(both)


def test_lance_as_default_source(mixed: SparkSession, tables: Path) -> None:
    mixed.sql("CREATE TABLE files AS SELECT 1 AS id")
    mixed.conf.set("spark.sql.sources.default", "lance")
    mixed.sql("CREATE TABLE a (id INT)")
    mixed.sql("CREATE TABLE b AS SELECT 2 AS id")
    mixed.range(3).write.saveAsTable("c")
    mixed.range(3).write.mode("append").saveAsTable("c")
    mixed.sql("CREATE TABLE d USING parquet AS SELECT 3 AS id")
    assert DirectoryNamespace(tables).list_tables(("mixed",)) == ["a", "b", "c"]
    assert names(mixed) == ["a", "b", "c", "d", "files"]
    assert stored(tables, "c").num_rows == 6


def test_renamed_tables(both: SparkSession, tables: Path) -> None:
    both.sql("ALTER TABLE t RENAME TO a")
    both.sql("ALTER TABLE mixed.a RENAME TO spark_catalog.mixed.b")
    assert rows(both, "SELECT * FROM b") == [(0, 0), (1, 10), (2, 20)]
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        both.sql("ALTER TABLE b RENAME TO nowhere.b")
    both.sql("ALTER TABLE p RENAME TO t")
    with pytest.raises(AnalysisException, match=TAKEN):
        both.sql("ALTER TABLE b RENAME TO t")
    assert names(both) == ["b", "t", "v"]
    assert stored(tables, "b")["id"].to_pylist() == [0, 1, 2]


def test_dropped_databases(both: SparkSession, tables: Path) -> None:
    both.sql("DROP TABLE p")
    both.sql("DROP VIEW v")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_EMPTY"):
        both.sql("DROP DATABASE mixed")
    assert rows(both, "SELECT count(*) FROM mixed.t") == [(3,)]
    both.sql("DROP DATABASE mixed CASCADE")
    assert DirectoryNamespace(tables).list_namespaces() == []
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        both.table("mixed.t")
    both.sql("CREATE TABLE default.kept USING lance AS SELECT 1 AS id")
    with pytest.raises(AnalysisException, match="DROP_DATABASE"):
        both.sql("DROP DATABASE default CASCADE")
    assert stored(tables, "kept", "default").num_rows == 1
    both.sql("DROP TABLE default.kept")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        both.sql("CREATE TABLE nowhere.t (id INT) USING lance")
    assert DirectoryNamespace(tables).list_namespaces() in ([], ["default"])


def test_namespace_that_only_the_root_has(mixed: SparkSession, tables: Path) -> None:
    mixed.conf.set("spark.sql.catalog.by_name", CATALOG_CLASS)
    mixed.conf.set("spark.sql.catalog.by_name.root", str(tables))
    mixed.sql("CREATE NAMESPACE by_name.elsewhere")
    mixed.sql("CREATE TABLE by_name.elsewhere.t AS SELECT 5 AS id")
    try:
        assert rows(mixed, "SELECT * FROM spark_catalog.elsewhere.t") == [(5,)]
        assert "elsewhere" not in [row[0] for row in mixed.sql("SHOW DATABASES").collect()]
        with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
            mixed.sql("CREATE TABLE spark_catalog.elsewhere.u (id INT) USING lance")
        mixed.sql("CREATE DATABASE IF NOT EXISTS spark_catalog.elsewhere")
        mixed.sql("USE spark_catalog.elsewhere")
        mixed.sql("CREATE TABLE p USING parquet AS SELECT 1 AS id")
        assert names(mixed) == ["p", "t"]
    finally:
        mixed.sql("DROP DATABASE IF EXISTS spark_catalog.elsewhere CASCADE")


def test_name_that_both_have_is_of_spark(both: SparkSession, tables: Path) -> None:
    both.conf.set("spark.sql.catalog.by_name", CATALOG_CLASS)
    both.conf.set("spark.sql.catalog.by_name.root", str(tables))
    both.sql("CREATE TABLE by_name.mixed.p AS SELECT 5 AS five")
    assert names(both) == ["p", "t", "v"]
    all_are_there(both)
    with pytest.raises(AnalysisException, match=TAKEN):
        both.sql("CREATE TABLE p (id INT) USING lance")
    both.sql("INSERT INTO p VALUES (9, 'q')")
    both.sql("DROP TABLE p")
    assert rows(both, "SELECT * FROM p") == [(5,)]
    assert names(both) == ["p", "t", "v"]


def test_tables_with_a_location_stay_entries_of_spark(both: SparkSession, tables: Path, tmp_path: Path) -> None:
    both.sql(f"CREATE TABLE at_path (id INT) USING lance LOCATION '{tmp_path / 'a'}'")
    both.sql("INSERT INTO at_path VALUES (1), (2)")
    both.sql("MERGE INTO at_path USING t ON at_path.id = t.id WHEN MATCHED THEN UPDATE SET id = x")
    assert sorted(lance.dataset(tmp_path / "a").to_table()["id"].to_pylist()) == [10, 20]
    both.sql(f"CREATE TABLE copied USING lance LOCATION '{tmp_path / 'b'}' AS SELECT 3 AS id")
    both.sql(f"CREATE OR REPLACE TABLE copied USING lance LOCATION '{tmp_path / 'b'}' AS SELECT 4 AS id")
    both.sql(f"CREATE TABLE chosen USING lance OPTIONS (path '{tmp_path / 'b'}')")
    both.range(2).write.format("lance").option("path", str(tmp_path / "c")).saveAsTable("saved")
    assert rows(both, "SELECT * FROM copied") == rows(both, "SELECT * FROM chosen") == [(4,)]
    assert rows(both, "SELECT * FROM saved") == [(0,), (1,)]
    assert names(both) == ["at_path", "chosen", "copied", "p", "saved", "t", "v"]
    assert DirectoryNamespace(tables).list_tables(("mixed",)) == ["t"]
    with pytest.raises(AnalysisException, match="cannot have generated columns"):
        both.sql(f"CREATE TABLE g (id INT, k INT GENERATED ALWAYS AS (id + 1)) USING lance LOCATION '{tmp_path / 'd'}'")
    both.sql("DROP TABLE at_path")
    assert lance.dataset(tmp_path / "a").count_rows() == 2
