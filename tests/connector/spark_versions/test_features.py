"""Each feature of the connector once, with every minor of Spark; docs/reference/spark-versions.md lists these tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, expr, lit

import lance_spark
from tests.support.connector.features import feature

SYNTAX = "PARSE_SYNTAX_ERROR|[Ss]yntax error"


@pytest.fixture
def name(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """A table named by the test, with ids 0 to 9, names `n0` to `n9` and the ids modulo 3."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.feature_matrix")
    table = f"lance.feature_matrix.{request.node.originalname.removeprefix('test_')}"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, name STRING, third INT) USING lance")
    spark.sql(f"INSERT INTO {table} SELECT id, concat('n', id), CAST(id % 3 AS INT) FROM range(10)")
    yield table
    spark.sql(f"DROP TABLE IF EXISTS {table} PURGE")


def rows(spark: SparkSession, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in spark.sql(query, *arguments).collect()]


def ids(spark: SparkSession, table: str) -> list[int]:
    return [row[0] for row in rows(spark, f"SELECT id FROM {table} ORDER BY id")]


def plan(spark: SparkSession, query: str) -> str:
    return str(spark.sql(query)._jdf.queryExecution().executedPlan().toString())


@feature("CREATE TABLE, DESCRIBE, SHOW TABLES, DROP TABLE")
def test_tables(spark: SparkSession, name: str) -> None:
    assert rows(spark, f"DESCRIBE {name}")[0][:2] == ("id", "bigint")
    assert "tables" in {row[1] for row in rows(spark, "SHOW TABLES IN lance.feature_matrix")}
    assert "USING lance" in rows(spark, f"SHOW CREATE TABLE {name}")[0][0]
    spark.sql(f"DROP TABLE {name}")
    assert not spark.catalog.tableExists(name)


@feature("CREATE TABLE AS SELECT, CREATE OR REPLACE TABLE AS SELECT, in one version with its rows")
def test_table_as_select(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE {name}_b USING lance AS SELECT id FROM {name} WHERE id < 3")
    assert ids(spark, f"{name}_b") == [0, 1, 2]
    spark.sql(f"CREATE OR REPLACE TABLE {name}_b USING lance AS SELECT id FROM {name} WHERE id > 7")
    assert ids(spark, f"{name}_b") == [8, 9]
    spark.sql(f"DROP TABLE {name}_b")


@feature("ALTER TABLE: add, rename, drop and widen columns, comments, properties")
def test_alter_table(spark: SparkSession, name: str) -> None:
    spark.sql(f"ALTER TABLE {name} ADD COLUMNS (note STRING COMMENT 'free', s STRUCT<a: INT>)")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN s.b STRING")
    spark.sql(f"ALTER TABLE {name} RENAME COLUMN note TO remark")
    spark.sql(f"ALTER TABLE {name} ALTER COLUMN third TYPE BIGINT")
    spark.sql(f"ALTER TABLE {name} DROP COLUMN name")
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('team' = 'sales')")
    assert [row[:2] for row in rows(spark, f"DESCRIBE {name}")[:4]] == [
        ("id", "bigint"),
        ("third", "bigint"),
        ("remark", "string"),
        ("s", "struct<a:int,b:string>"),
    ]
    assert ("team", "sales") in rows(spark, f"SHOW TBLPROPERTIES {name}")
    assert ids(spark, name) == [*range(10)]


@feature("INSERT, INSERT OVERWRITE (dynamic), INSERT ... REPLACE WHERE, TRUNCATE")
def test_insert(spark: SparkSession, name: str) -> None:
    spark.sql(f"INSERT INTO {name} VALUES (10, 'n10', 1)")
    spark.sql(f"INSERT INTO {name} REPLACE WHERE id < 5 VALUES (1, 'one', 1)")
    assert ids(spark, name) == [1, 5, 6, 7, 8, 9, 10]
    spark.sql(f"INSERT OVERWRITE {name} VALUES (1, 'one', 1), (2, 'two', 2)")
    assert ids(spark, name) == [1, 2]
    spark.sql(f"TRUNCATE TABLE {name}")
    assert ids(spark, name) == []


@feature("INSERT that leaves out columns: DEFAULT, or NULL")
def test_insert_of_some_columns(spark: SparkSession, name: str) -> None:
    spark.sql(f"ALTER TABLE {name} ADD COLUMN city STRING DEFAULT 'Bern'")
    spark.sql(f"INSERT INTO {name} (id, name) VALUES (10, 'n10')")
    spark.sql(f"INSERT INTO {name} (id, third, city) VALUES (11, DEFAULT, DEFAULT)")
    found = rows(spark, f"SELECT * FROM {name} WHERE id >= 10 ORDER BY id")
    assert found == [(10, "n10", None, "Bern"), (11, None, None, "Bern")]
    spark.createDataFrame([(12,)], "id BIGINT").writeTo(name).append()
    assert rows(spark, f"SELECT * FROM {name} WHERE id = 12") == [(12, None, None, "Bern")]


@feature("UPDATE, DELETE, MERGE: unchanged rows are not rewritten")
def test_row_changes(spark: SparkSession, name: str) -> None:
    spark.sql(f"UPDATE {name} SET name = upper(name) WHERE id IN (1, 2)")
    spark.sql(f"DELETE FROM {name} WHERE third = 0")
    spark.sql(
        f"MERGE INTO {name} t USING (SELECT * FROM VALUES (1L, 'x'), (4L, 'y'), (20L, 'z') AS s (id, name)) s "
        "ON t.id = s.id WHEN MATCHED AND s.id = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET name = s.name "
        "WHEN NOT MATCHED THEN INSERT (id, name, third) VALUES (s.id, s.name, 2) "
        "WHEN NOT MATCHED BY SOURCE AND t.id = 8 THEN DELETE"
    )
    found = rows(spark, f"SELECT id, name FROM {name} ORDER BY id")
    assert found == [(2, "N2"), (4, "y"), (5, "n5"), (7, "n7"), (20, "z")]


@feature(
    "MERGE WITH SCHEMA EVOLUTION",
    since="4.1",
    refused="SCHEMA EVOLUTION",
    instead="refused; `ALTER TABLE ... ADD COLUMNS` before the MERGE",
)
def test_merge_with_schema_evolution(spark: SparkSession, name: str) -> None:
    spark.sql(
        f"MERGE WITH SCHEMA EVOLUTION INTO {name} t USING (SELECT 1L AS id, 'one' AS name, 1 AS third, 'c' AS city) s "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(spark, f"SELECT name, city FROM {name} WHERE id <= 1 ORDER BY id") == [("n0", None), ("one", "c")]


@feature(
    "INSERT WITH SCHEMA EVOLUTION",
    since="4.2",
    refused=SYNTAX,
    instead="Spark has no such statement; the option `mergeSchema` of a write to the table's path",
)
def test_insert_with_schema_evolution(spark: SparkSession, name: str) -> None:
    spark.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {name} BY NAME SELECT 10L AS id, 'c' AS city")
    assert rows(spark, f"SELECT city, name FROM {name} WHERE id >= 9 ORDER BY id") == [(None, "n9"), ("c", None)]


@feature("Option mergeSchema of a write to a path")
def test_merge_schema(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.range(2).write.format("lance").save(path)
    more = spark.range(2, 3).withColumn("city", lit("Bern"))
    more.write.format("lance").mode("append").option("mergeSchema", "true").save(path)
    found = spark.read.format("lance").load(path).orderBy("id").collect()
    assert [tuple(row) for row in found] == [(0, None), (1, None), (2, "Bern")]


@feature("VERSION AS OF, TIMESTAMP AS OF, tags, branches by name")
def test_time_travel(spark: SparkSession, name: str) -> None:
    spark.sql(f"ALTER TABLE {name} CREATE TAG full AS OF VERSION 2")
    spark.sql(f"DELETE FROM {name} WHERE id > 0")
    assert ids(spark, f"{name} VERSION AS OF 1") == []
    assert len(ids(spark, f"{name} VERSION AS OF 'full'")) == 10
    moment = rows(spark, f"SELECT timestamp FROM {name}.versions WHERE version = 2")[0][0]
    assert len(ids(spark, f"{name} TIMESTAMP AS OF '{moment.isoformat()}'")) == 10
    spark.sql(f"ALTER TABLE {name} CREATE BRANCH trial AS OF TAG full")
    spark.sql(f"INSERT INTO {name}.branch_trial VALUES (10, 'n10', 1)")
    assert (len(ids(spark, f"{name}.branch_trial")), ids(spark, name)) == (11, [0])
    spark.sql(f"RESTORE {name} TO TAG full")
    assert len(ids(spark, name)) == 10
    old = spark.sql(f"SELECT * FROM {name} VERSION AS OF 2 WHERE id = 1")
    spark.sql(f"UPDATE {name} SET third = 1000 WHERE id = 1")
    old.alias("s").mergeInto(name, expr(f"s.id = {name}.id")).whenMatched().updateAll().merge()
    assert rows(spark, f"SELECT count(*) FROM {name} WHERE third = 1000") == [(0,)]


@feature("Options version, tag and branch of tables by name, in reads")
def test_options_of_reads(spark: SparkSession, name: str) -> None:
    spark.sql(f"ALTER TABLE {name} CREATE TAG full AS OF VERSION 2")
    spark.sql(f"ALTER TABLE {name} CREATE BRANCH trial AS OF TAG full")
    spark.sql(f"DELETE FROM {name} WHERE id > 0")
    assert spark.read.option("version", 2).table(name).count() == 10
    assert spark.read.option("tag", "full").table(name).count() == 10
    assert spark.read.option("branch", "trial").table(name).count() == 10
    assert spark.read.table(name).count() == 1
    assert rows(spark, f"SELECT count(*) FROM {name} WITH (version = 2)") == [(10,)]


@feature("Option branch of writes to a table by name")
def test_options_of_writes(spark: SparkSession, name: str) -> None:
    spark.sql(f"ALTER TABLE {name} CREATE BRANCH trial AS OF VERSION 2")
    frame = spark.sql(f"SELECT id + 10 AS id, name, third FROM {name}")
    frame.writeTo(name).option("branch", "trial").append()
    frame.write.option("branch", "trial").insertInto(name)
    assert (spark.table(name).count(), spark.table(f"{name}.branch_trial").count()) == (10, 30)
    with pytest.raises(Exception, match="version"):
        frame.writeTo(name).option("version", 2).append()
    for replace in (
        lambda: frame.write.mode("overwrite").option("branch", "trial").saveAsTable(name),
        lambda: frame.writeTo(name).option("branch", "trial").createOrReplace(),
    ):
        with pytest.raises(Exception, match="makes or replaces the table itself"):
            replace()
    assert (spark.table(name).count(), spark.table(f"{name}.branch_trial").count()) == (10, 30)


@feature("Queries that come after a write do not read rows that were cached before it")
def test_cached_tables(spark: SparkSession, name: str) -> None:
    place = spark.sql(f"DESCRIBE EXTENDED {name}").where("col_name = 'Location'").collect()[0][1]
    spark.sql(f"CACHE TABLE {name}")
    by_path = spark.read.format("lance").load(place).cache()
    assert (spark.table(name).count(), by_path.count()) == (10, 10)
    spark.sql(f"INSERT INTO {name} VALUES (10, 'n10', 1)")
    spark.sql(f"DELETE FROM lance.`{place}` WHERE id = 0")
    assert ids(spark, name) == ids(spark, f"lance.`{place}`") == list(range(1, 11))
    assert spark.read.format("lance").load(place).count() == 10
    spark.catalog.clearCache()


@feature("Cached branches beside the cached table")
def test_cached_branches(spark: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "t")
    spark.range(3).write.format("lance").save(place)
    spark.sql(f"ALTER TABLE lance.`{place}` CREATE BRANCH trial")
    trial, main = spark.read.format("lance").option("branch", "trial"), spark.read.format("lance")
    kept = [trial.load(place).cache(), main.load(place).cache()]
    assert [frame.count() for frame in kept] == [3, 3]
    spark.sql(f"INSERT INTO lance.`{place}`.branch_trial VALUES (4), (5)")
    assert (trial.load(place).count(), main.load(place).count()) == (5, 3)
    for frame in kept:
        frame.unpersist()


@feature("Push-down of columns, filters, LIMIT, top N and aggregates")
def test_push_down(spark: SparkSession, name: str) -> None:
    assert "third" not in plan(spark, f"SELECT id FROM {name} WHERE name LIKE 'n%'").split("BatchScan")[-1]
    assert rows(spark, f"SELECT id FROM {name} WHERE id > 7 AND name <> 'n9'") == [(8,)]
    assert "HashAggregate" not in plan(spark, f"SELECT count(*) FROM {name}")
    assert rows(spark, f"SELECT count(*), min(id), max(id) FROM {name}") == [(10, 0, 9)]
    assert len(rows(spark, f"SELECT * FROM {name} LIMIT 3")) == 3
    assert rows(spark, f"SELECT id FROM {name} ORDER BY id DESC LIMIT 2") == [(9,), (8,)]


@feature("Joins of partitioned tables without a shuffle")
def test_join_without_shuffle(spark: SparkSession, name: str) -> None:
    # Of two numbers of buckets, Spark reduces the larger one.
    for side, buckets in (("l", 4), ("r", 8)):
        spark.sql(f"CREATE TABLE {name}_{side} (id BIGINT, v INT) USING lance PARTITIONED BY (bucket({buckets}, id))")
        spark.sql(f"INSERT INTO {name}_{side} SELECT id, CAST(id AS INT) FROM range(100)")
    join = f"SELECT /*+ MERGE(r) */ count(*) FROM {name}_l l JOIN {name}_r r ON l.id = r.id WHERE r.v < 50"
    assert "Exchange hashpartitioning" not in plan(spark, join)
    assert rows(spark, join) == [(50,)]
    for side in ("l", "r"):
        spark.sql(f"DROP TABLE {name}_{side}")


@feature("Indexes: CREATE INDEX, SHOW INDEXES, lookups, OPTIMIZE INDEX, DROP INDEX")
def test_indexes(spark: SparkSession, name: str) -> None:
    spark.sql(f"ALTER TABLE {name} CREATE INDEX by_id USING btree (id)")
    spark.sql(f"INSERT INTO {name} VALUES (10, 'n10', 1)")
    spark.sql(f"ALTER TABLE {name} OPTIMIZE INDEX by_id")
    assert rows(spark, f"SELECT name FROM {name} WHERE id IN (3, 10) ORDER BY id") == [("n3",), ("n10",)]
    assert len(rows(spark, f"SHOW INDEXES IN {name}")) == 1
    spark.sql(f"ALTER TABLE {name} DROP INDEX by_id")
    assert rows(spark, f"SHOW INDEXES IN {name}") == []


@feature("Full-text search: lance_match and the table function search")
def test_text_search(spark: SparkSession, name: str) -> None:
    spark.sql(f"ALTER TABLE {name} CREATE INDEX by_name USING fts (name)")
    assert rows(spark, f"SELECT id FROM {name} WHERE lance_match(name, 'n3 n5') ORDER BY id") == [(3,), (5,)]
    assert rows(spark, f"SELECT count(*) FROM {name} WHERE lance_match(name, 'n3 n5')") == [(2,)]
    assert rows(spark, f"SELECT id FROM search(table => '{name}', query => 'n7')") == [(7,)]


@feature("Vector search: vector_search and ORDER BY lance_distance")
def test_vector_search(spark: SparkSession, name: str) -> None:
    spark.sql(
        f"CREATE TABLE {name}_v (id BIGINT, v ARRAY<FLOAT>) USING lance "
        "TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '2')"
    )
    spark.sql(f"INSERT INTO {name}_v SELECT id, array(CAST(id AS FLOAT), 0F) FROM range(10)")
    spark.sql(f"ALTER TABLE {name}_v CREATE INDEX by_v USING ivf_flat (v) WITH (num_partitions = 2)")
    search = f"vector_search(table => '{name}_v', query_vector => array(4.2, 0.0), k => 2)"
    assert rows(spark, f"SELECT id FROM {search} ORDER BY _distance") == [(4,), (5,)]
    nearest = f"SELECT id FROM {name}_v WHERE id <> 4 ORDER BY lance_distance(v, array(4.2, 0.0)) LIMIT 1"
    assert rows(spark, nearest) == [(5,)]
    spark.sql(f"DROP TABLE {name}_v")


@feature(
    "JOIN ... APPROX NEAREST",
    since="4.2",
    refused=SYNTAX,
    instead="Spark has no such join; the table function `vector_search_batch`",
)
def test_nearest_join(spark: SparkSession, name: str) -> None:
    spark.sql(
        f"CREATE TABLE {name}_v (k BIGINT, v ARRAY<FLOAT>) USING lance "
        "TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '2')"
    )
    spark.sql(f"INSERT INTO {name}_v SELECT id, array(CAST(id AS FLOAT), 0F) FROM range(10)")
    query = (
        f"SELECT id, k FROM (SELECT id, array(CAST(id AS FLOAT), 0F) AS w FROM {name} WHERE id < 2) q "
        f"JOIN {name}_v APPROX NEAREST 1 BY DISTANCE lance_distance(w, v) ORDER BY id"
    )
    try:
        assert rows(spark, query) == [(0, 0), (1, 1)]
    finally:
        spark.sql(f"DROP TABLE {name}_v")


@feature("OPTIMIZE, VACUUM, ANALYZE, CALL")
def test_maintenance(spark: SparkSession, name: str) -> None:
    spark.sql(f"INSERT INTO {name} VALUES (10, 'n10', 1)")
    assert rows(spark, f"OPTIMIZE {name}")[0][2] == 1
    spark.sql(f"VACUUM {name} WITH (before_version = 3)")
    assert rows(spark, f"CALL lance.system.optimize(table => '{name}')")[0][1] == 0
    assert rows(spark, f"ANALYZE TABLE {name} COMPUTE STATISTICS FOR COLUMNS id")[0][:2] == ("id", 11)
    assert ids(spark, name) == [*range(11)]


@feature(
    "Parameters as names of tables in our statements: OPTIMIZE IDENTIFIER(:t)",
    since="4.1",
    refused="after the statement is parsed",
    instead="refused; the name itself, or `CALL lance.system.optimize(table => :t)`",
)
def test_identifier_of_parameter(spark: SparkSession, name: str) -> None:
    assert len(rows(spark, "OPTIMIZE IDENTIFIER(:t)", {"t": name})) == 1


@feature(
    "CHANGES clause and DataFrameReader.changes",
    since="4.2",
    refused=f"{SYNTAX}|changes",
    instead="Spark has no such clause; the table function `lance_changes`",
)
def test_changes_clause(spark: SparkSession, name: str) -> None:
    spark.sql(f"DELETE FROM {name} WHERE id = 1")
    found = rows(spark, f"SELECT _change_type, id FROM {name} CHANGES FROM VERSION 3")
    assert found == [("delete", 1)]


@feature("Changes by the table function lance_changes")
def test_changes_function(spark: SparkSession, name: str) -> None:
    spark.sql(f"DELETE FROM {name} WHERE id = 1")
    found = rows(spark, f"SELECT _change_type, id, _commit_version FROM lance_changes('{name}', 3, 3)")
    assert found == [("delete", 1, 3)]


@feature(
    "CHECK constraints in SQL",
    since="4.1",
    refused=f"{SYNTAX}|CHECK|CONSTRAINT",
    instead="Spark has no such clause; constraints that are there are kept and evaluated",
)
def test_check_constraints(spark: SparkSession, name: str) -> None:
    spark.sql(f"ALTER TABLE {name} ADD CONSTRAINT small CHECK (id < 100)")
    with pytest.raises(Exception, match="small"):
        spark.sql(f"INSERT INTO {name} VALUES (100, 'n', 1)")
    spark.sql(f"ALTER TABLE {name} DROP CONSTRAINT small")
    spark.sql(f"INSERT INTO {name} VALUES (100, 'n', 1)")


@feature("CHECK constraints of tables are evaluated by every write")
def test_checks_are_evaluated(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    lance_spark.write(pa.table({"id": [1, 2]}), path).add_check("small", "id < 100")
    table = f"lance.`{path}`"
    spark.sql(f"INSERT INTO {table} VALUES (3)")
    for statement in (
        f"INSERT INTO {table} VALUES (100)",
        f"UPDATE {table} SET id = 100 WHERE id = 1",
        f"MERGE INTO {table} t USING (SELECT 100L AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
    ):
        with pytest.raises(Exception, match="small"):
            spark.sql(statement)
    with pytest.raises(Exception, match="small"):
        spark.range(100, 101).write.format("lance").mode("append").save(path)
    assert ids(spark, table) == [1, 2, 3]


@feature("Generated columns and identity columns")
def test_computed_columns(spark: SparkSession, name: str) -> None:
    spark.sql(
        f"CREATE TABLE {name}_c (id BIGINT GENERATED ALWAYS AS IDENTITY, price INT, pieces INT, "
        "total INT GENERATED ALWAYS AS (price * pieces)) USING lance"
    )
    spark.sql(f"INSERT INTO {name}_c (price, pieces) VALUES (3, 5)")
    spark.createDataFrame([(2, 2)], "price INT, pieces INT").writeTo(f"{name}_c").append()
    spark.sql(f"UPDATE {name}_c SET pieces = 6 WHERE price = 3")
    assert rows(spark, f"SELECT price, pieces, total FROM {name}_c ORDER BY price") == [(2, 2, 4), (3, 6, 18)]
    assert rows(spark, f"SELECT count(DISTINCT id) FROM {name}_c WHERE id IS NOT NULL") == [(2,)]
    with pytest.raises(Exception, match="total"):
        spark.sql(f"INSERT INTO {name}_c (price, pieces, total) VALUES (3, 5, 16)")
    spark.sql(f"DROP TABLE {name}_c")


@feature(
    "CREATE TABLE ... LIKE",
    since="4.2",
    refused=f"{SYNTAX}|LIKE|REQUIRES_SINGLE_PART_NAMESPACE",
    instead="Spark has no such statement for catalogs; `CREATE TABLE ... AS SELECT ... LIMIT 0`",
)
def test_table_like(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE {name}_l LIKE {name}")
    assert [row[0] for row in rows(spark, f"DESCRIBE {name}_l")[:3]] == ["id", "name", "third"]
    spark.sql(f"DROP TABLE {name}_l")


@feature("VARIANT columns")
def test_variants(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE {name}_j USING lance AS SELECT id, parse_json('{{\"a\": 5}}') AS j FROM range(2)")
    assert rows(spark, f"SELECT id FROM {name}_j WHERE variant_get(j, '$.a', 'int') = 5 ORDER BY id") == [(0,), (1,)]
    spark.sql(f"DROP TABLE {name}_j")


@feature(
    "TIME columns", since="4.1", refused="time64", instead="refused by name; other columns by the option `columns`"
)
def test_times(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    lance_spark.write(pa.table({"at": pa.array([43_200_000_000], pa.time64("us"))}), path)
    setting = "spark.sql.timeType.enabled"
    spark.conf.set(setting, "true")
    try:
        assert str(spark.read.format("lance").load(path).collect()[0][0]) == "12:00:00"
    finally:
        spark.conf.unset(setting)


@feature("Streams: sources and sinks by name and by path")
def test_streams(spark: SparkSession, name: str, tmp_path: Path) -> None:
    copy, path = f"{name}_copy", str(tmp_path / "t")
    spark.sql(f"CREATE TABLE {copy} (id BIGINT, name STRING, third INT) USING lance")
    for round_ in range(2):
        by_name = spark.readStream.table(name).writeStream.option("checkpointLocation", str(tmp_path / "a"))
        by_name.trigger(availableNow=True).toTable(copy).awaitTermination()
        source = lance_spark_path(spark, name)
        by_path = spark.readStream.format("lance").load(source).writeStream.format("lance")
        by_path = by_path.option("checkpointLocation", str(tmp_path / "b"))
        by_path.trigger(availableNow=True).start(path).awaitTermination()
        assert (spark.table(copy).count(), spark.read.format("lance").load(path).count()) == (10 + round_, 10 + round_)
        spark.sql(f"INSERT INTO {name} VALUES ({10 + round_}, 'n', 0)")
    spark.sql(f"DROP TABLE {copy}")


def lance_spark_path(spark: SparkSession, table: str) -> str:
    """The path of a table of the catalog."""
    described = {row[0]: row[1] for row in rows(spark, f"DESCRIBE EXTENDED {table}")}
    return str(described["Location"])


@feature("Reads and writes by path, with options")
def test_paths(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.range(5).write.format("lance").save(path)
    spark.range(5, 7).write.format("lance").mode("append").save(path)
    assert spark.read.format("lance").option("version", 1).load(path).count() == 5
    assert spark.read.format("lance").load(path).where(col("id") > 4).count() == 2
    assert lance_spark.open(path).count_rows() == 7


@feature("Metadata tables")
def test_metadata_tables(spark: SparkSession, name: str) -> None:
    assert rows(spark, f"SELECT version, operation FROM {name}.versions ORDER BY version")[-1] == (2, "append")


@feature("Partitioned tables: pruning, UPDATE and MERGE")
def test_partitioned_tables(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE {name}_p USING lance PARTITIONED BY (third) AS SELECT * FROM {name}")
    spark.sql(f"UPDATE {name}_p SET name = 'zero' WHERE third = 0")
    assert rows(spark, f"SELECT count(*) FROM {name}_p WHERE third = 0 AND name = 'zero'") == [(4,)]
    spark.sql(f"MERGE INTO {name}_p t USING {name} s ON t.id = s.id AND s.third = 1 WHEN MATCHED THEN DELETE")
    assert len(ids(spark, f"{name}_p")) == 7
    spark.sql(f"DROP TABLE {name}_p")


@feature(
    "Views of catalogs",
    since="4.3",
    refused="does not support views",
    instead="Spark keeps views in its session catalog only; these may read Lance tables",
)
def test_views(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE VIEW {name}_v (number COMMENT 'of a row') AS SELECT id FROM {name} WHERE third = 0")
    assert rows(spark, f"SELECT number FROM {name}_v JOIN {name} ON id = number ORDER BY id") == [
        (0,),
        (3,),
        (6,),
        (9,),
    ]
    assert rows(spark, "SHOW VIEWS IN lance.feature_matrix") == [("feature_matrix", "views_v", False)]
    spark.sql(f"DROP VIEW {name}_v")
