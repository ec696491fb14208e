"""The catalog: namespaces, tables by name, and what SQL does with them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tests.support.connector.locations import location


@pytest.fixture
def namespace(spark: SparkSession, request: pytest.FixtureRequest) -> str:
    name = f"lance.ns_{abs(hash(request.node.name)) % 10**8}"
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {name}")
    return name


@pytest.mark.slow
def test_create_insert_select(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {table} (id BIGINT NOT NULL, name STRING) USING lance TBLPROPERTIES ('owner.team' = 'x')")
    where = location(spark, table)
    assert lance.dataset(where).version == 1
    assert not lance.dataset(where).schema.field("id").nullable
    spark.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, NULL)")
    spark.sql(f"INSERT INTO {table} (name, id) VALUES ('c', 3)")
    assert lance.dataset(where).version == 3
    rows = [(1, "a"), (2, None), (3, "c")]
    assert sorted(map(tuple, spark.table(table).collect())) == rows
    assert sorted(tuple(row.values()) for row in lance.dataset(where).to_table().to_pylist()) == rows
    assert {row.key: row.value for row in spark.sql(f"SHOW TBLPROPERTIES {table}").collect()}["owner.team"] == "x"
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        spark.sql(f"CREATE TABLE {table} (id INT)")
    spark.sql(f"CREATE TABLE IF NOT EXISTS {table} (id INT)")
    assert lance.dataset(where).version == 3


@pytest.mark.slow
def test_insert_overwrite_and_truncate_keep_the_columns(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {table} AS SELECT id, id * 2 AS twice FROM range(10)")
    where = location(spark, table)
    ids = [field.id() for field in lance.dataset(where).lance_schema.fields()]
    spark.sql(f"INSERT OVERWRITE {table} SELECT id, id FROM range(3)")
    assert lance.dataset(where).to_table().to_pydict() == {"id": [0, 1, 2], "twice": [0, 1, 2]}
    assert [field.id() for field in lance.dataset(where).lance_schema.fields()] == ids
    spark.sql(f"TRUNCATE TABLE {table}")
    assert lance.dataset(where).version == 3
    assert lance.dataset(where).count_rows() == 0
    spark.sql(f"TRUNCATE TABLE {table}")
    assert lance.dataset(where).version == 3
    assert spark.table(table).columns == ["id", "twice"]


@pytest.mark.slow
def test_ctas_and_rtas_are_one_version(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {table} AS SELECT id FROM range(5)")
    where = location(spark, table)
    assert lance.dataset(where).version == 1
    spark.sql(f"CREATE OR REPLACE TABLE {table} AS SELECT id AS other FROM range(3)")
    assert location(spark, table) == where
    assert lance.dataset(where).version == 2
    assert lance.dataset(where).to_table().to_pydict() == {"other": [0, 1, 2]}
    spark.sql(f"REPLACE TABLE {table} (x INT)")
    assert lance.dataset(where).version == 3
    assert spark.table(table).columns == ["x"]
    assert spark.sql(f"SELECT count(*) AS n FROM {table} VERSION AS OF 1").first().n == 5
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql(f"REPLACE TABLE {namespace}.missing (x INT)")


@pytest.mark.slow
def test_a_ctas_that_fails_leaves_no_name(spark: SparkSession, namespace: str) -> None:
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        spark.sql(f"CREATE TABLE {namespace}.t AS SELECT id / (id - 3) AS q FROM range(5)")
    assert spark.sql(f"SHOW TABLES IN {namespace}").collect() == []
    spark.sql(f"CREATE TABLE {namespace}.t AS SELECT id FROM range(5)")
    assert spark.table(f"{namespace}.t").count() == 5


def test_names(spark: SparkSession, namespace: str) -> None:
    spark.sql(f"CREATE NAMESPACE {namespace}.inner WITH DBPROPERTIES ('a' = 'b')")
    spark.sql(f"CREATE TABLE {namespace}.inner.t (id INT)")
    assert [row.namespace for row in spark.sql(f"SHOW NAMESPACES IN {namespace}").collect()] == [
        f"{namespace.removeprefix('lance.')}.inner"
    ]
    assert [row.tableName for row in spark.sql(f"SHOW TABLES IN {namespace}.inner").collect()] == ["t"]
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_EMPTY"):
        spark.sql(f"DROP NAMESPACE {namespace}.inner")
    spark.sql(f"DROP TABLE {namespace}.inner.t")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql(f"DROP TABLE {namespace}.inner.t")
    spark.sql(f"DROP TABLE IF EXISTS {namespace}.inner.t")
    spark.sql(f"DROP NAMESPACE {namespace}.inner")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        spark.sql(f"SHOW TABLES IN {namespace}.inner")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        spark.sql(f"CREATE TABLE {namespace}.inner.t (id INT)")


@pytest.mark.slow
def test_dataframe_writer_v2(spark: SparkSession, namespace: str) -> None:
    table = f"{namespace}.t"
    spark.range(5).writeTo(table).using("lance").create()
    where = location(spark, table)
    spark.range(5, 7).writeTo(table).append()
    assert lance.dataset(where).version == 2
    spark.range(2).selectExpr("id", "id AS copy").writeTo(table).createOrReplace()
    assert lance.dataset(where).to_table().to_pydict() == {"id": [0, 1], "copy": [0, 1]}
    spark.range(4).selectExpr("id", "id AS copy").writeTo(table).overwritePartitions()
    assert lance.dataset(where).count_rows() == 4
    assert lance.dataset(where).version == 4
    spark.range(3).selectExpr("id AS copy", "-id AS id").write.insertInto(table)
    assert lance.dataset(where).count_rows() == 7
    spark.range(3).write.mode("overwrite").saveAsTable(table)
    assert lance.dataset(where).to_table().to_pydict() == {"id": [0, 1, 2]}
    spark.range(3).write.mode("append").saveAsTable(table)
    assert lance.dataset(where).version == 7


@pytest.mark.slow
def test_drop_cascade_deletes_what_is_the_catalogs_own(spark: SparkSession, namespace: str, tmp_path: Path) -> None:
    spark.sql(f"CREATE NAMESPACE {namespace}.inner")
    elsewhere = str(tmp_path / "elsewhere")
    spark.sql(f"CREATE TABLE {namespace}.inner.t AS SELECT id FROM range(3)")
    spark.sql(f"CREATE TABLE {namespace}.p (id BIGINT, k STRING) PARTITIONED BY (k)")
    spark.sql(f"CREATE TABLE {namespace}.x (id BIGINT) LOCATION '{elsewhere}'")
    own = [Path(location(spark, f"{namespace}.{name}")) for name in ("inner.t", "p")]
    assert all(place.exists() for place in own)
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_EMPTY"):
        spark.sql(f"DROP NAMESPACE {namespace}")
    spark.sql(f"DROP NAMESPACE {namespace} CASCADE")
    assert not any(place.exists() for place in own)
    assert lance.dataset(elsewhere).count_rows() == 0
    names = [row.namespace for row in spark.sql("SHOW NAMESPACES IN lance").collect()]
    assert namespace.removeprefix("lance.") not in names


@pytest.mark.slow
def test_what_is_no_name_is_not_dropped(spark: SparkSession, namespace: str, uri: str) -> None:
    table = f"{namespace}.t"
    spark.range(3).write.format("lance").save(uri)
    spark.range(3).writeTo(table).create()
    for purge in ("", "PURGE"):
        with pytest.raises(AnalysisException, match="is a path, and DROP TABLE takes names out of the catalog"):
            spark.sql(f"DROP TABLE lance.`{uri}` {purge}")
        with pytest.raises(AnalysisException, match="'branch_main' is a branch"):
            spark.sql(f"DROP TABLE {table}.branch_main {purge}")
    assert lance.dataset(uri).count_rows() == spark.table(table).count() == 3
    spark.sql(f"DROP TABLE IF EXISTS lance.`{uri}/nowhere`")
    spark.sql(f"DROP TABLE IF EXISTS {table}.branch_nowhere")


def at_once(spark: SparkSession, statement: str, times: int = 4) -> list[str]:
    """The statement in so many threads at a time; the conditions of the errors."""

    def run(_: int) -> str | None:
        try:
            spark.sql(statement).collect()
        except AnalysisException as error:
            return error.getCondition()
        return None

    with ThreadPoolExecutor(times) as pool:
        return sorted(condition for condition in pool.map(run, range(times)) if condition is not None)


@pytest.mark.slow
@pytest.mark.parametrize("columns", ["(id BIGINT)", "(id BIGINT) PARTITIONED BY (bucket(2, id))"])
def test_statements_that_are_as_quick_as_others(spark: SparkSession, namespace: str, columns: str) -> None:
    for turn in range(3):
        table = f"{namespace}.t{turn}"
        assert at_once(spark, f"CREATE TABLE IF NOT EXISTS {table} {columns}") == []
        assert at_once(spark, f"DROP TABLE IF EXISTS {table}") == []
        assert at_once(spark, f"CREATE TABLE {table} {columns}") == ["TABLE_OR_VIEW_ALREADY_EXISTS"] * 3
        assert spark.table(table).count() == 0
        assert at_once(spark, f"CREATE NAMESPACE IF NOT EXISTS {namespace}.n{turn}") == []
    told = at_once(spark, f"CREATE OR REPLACE TABLE {namespace}.r AS SELECT id FROM range(5)")
    assert set(told) <= {"LANCE_COMMIT_CONFLICT"}
    assert spark.table(f"{namespace}.r").count() == 5
    with pytest.raises(AnalysisException, match="it is a namespace"):
        spark.sql(f"CREATE TABLE IF NOT EXISTS {namespace}.n0 {columns}")


@pytest.mark.slow
@pytest.mark.parametrize("partitioning", ["", "PARTITIONED BY (id)"])
def test_a_location_of_another_table(spark: SparkSession, namespace: str, uri: str, partitioning: str) -> None:
    table = f"{namespace}.t"
    spark.range(3).write.format("lance").save(uri)
    for statement in (
        f"CREATE TABLE {table} (id BIGINT) {partitioning} LOCATION '{uri}'",
        f"CREATE TABLE IF NOT EXISTS {table} (id BIGINT) {partitioning} LOCATION '{uri}'",
        f"CREATE TABLE {table} {partitioning} LOCATION '{uri}' AS SELECT 1L AS id",
        f"CREATE OR REPLACE TABLE {table} {partitioning} LOCATION '{uri}' AS SELECT 1L AS id",
    ):
        with pytest.raises(AnalysisException, match=r"there is a table at .*register_table gives it a name"):
            spark.sql(statement)
    assert spark.sql(f"SHOW TABLES IN {namespace}").collect() == []
    assert lance.dataset(uri).count_rows() == 3
    spark.sql(f"CREATE TABLE {table} {partitioning} AS SELECT 1L AS id")
    with pytest.raises(AnalysisException, match="REPLACE does not move it"):
        spark.sql(f"CREATE OR REPLACE TABLE {table} {partitioning} LOCATION '{uri}_new' AS SELECT 2L AS id")
    spark.sql(f"CREATE OR REPLACE TABLE {table} {partitioning} LOCATION '{location(spark, table)}' AS SELECT 3L AS id")
    assert [row.id for row in spark.table(table).collect()] == [3]


@pytest.mark.slow
@pytest.mark.parametrize("partitioning", ["", "PARTITIONED BY (q)"])
def test_a_failure_at_a_location_leaves_no_name(
    spark: SparkSession, namespace: str, uri: str, partitioning: str
) -> None:
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        spark.sql(
            f"CREATE TABLE {namespace}.t {partitioning} LOCATION '{uri}' "
            "AS SELECT CAST(id / (id - 3) AS INT) AS q FROM range(5)"
        )
    with pytest.raises(AnalysisException, match="no client is known for nobody://"):
        spark.sql(f"CREATE TABLE {namespace}.t (q INT) {partitioning} LOCATION 'nobody://a/b'")
    assert spark.sql(f"SHOW TABLES IN {namespace}").collect() == []
    spark.sql(f"CREATE TABLE {namespace}.t {partitioning} LOCATION '{uri}' AS SELECT 5 AS q")
    assert spark.table(f"{namespace}.t").count() == 1
