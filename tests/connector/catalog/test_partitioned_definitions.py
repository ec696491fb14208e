"""Partitioned tables: properties, comments, metadata tables, replacements, new columns, and names of old folders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Row, SparkSession

from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.partitioned.table import PartitionedTable, open_partitioned


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    """Two rows in partitions of their own."""
    name = "lance.defined"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, k STRING) USING lance PARTITIONED BY (bucket(2, id), k) "
        "COMMENT 'mine' TBLPROPERTIES ('team' = 'sales')"
    )
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def whole(root: str, table: str) -> PartitionedTable:
    return open_partitioned(DirectoryNamespace(root).table_location(table.split(".")[1:]).uri)


def listed(spark: SparkSession, query: str) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in spark.sql(query).collect()), key=str)


@pytest.mark.slow
def test_properties(spark: SparkSession, root: str, table: str) -> None:
    before = whole(root, table).version
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('team' = 'shop', 'k.lance.compression' = 'zstd')")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('team' = 'shop')")
    assert whole(root, table).version == before + 1
    assert listed(spark, f"SHOW TBLPROPERTIES {table}") == [("k.lance.compression", "zstd"), ("team", "shop")]
    made = whole(root, table)
    # The partitions write by it too, and the reference library sees it there.
    for opened in made.open_all(made.partitions()):
        schema = lance.dataset(opened.table.store.uri, version=opened.manifest.version).schema
        assert schema.field("k").metadata[b"lance-encoding:compression"] == b"zstd"
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('team')")
    spark.sql(f"COMMENT ON TABLE {table} IS 'yours'")
    assert whole(root, table).version == before + 3
    (shown,) = spark.sql(f"SHOW CREATE TABLE {table}").collect()
    for part in ("PARTITIONED BY (bucket(2, id), k)", "COMMENT 'yours'", "'k.lance.compression' = 'zstd'"):
        assert part in shown[0]
    for name, message in {
        "schema": "cannot be set",
        "partition_spec_v1": "cannot be set",
        "lance.max_field_id": "unknown property",
    }.items():
        with pytest.raises(AnalysisException, match=message):
            spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{name}' = 'x')")
    with pytest.raises(AnalysisException, match="has its type"):
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('k.arrow.float16' = 'true')")
    assert whole(root, table).version == before + 3
    assert listed(spark, f"SELECT * FROM {table}") == [(1, "a"), (2, "b")]


@pytest.mark.slow
def test_metadata_tables(spark: SparkSession, root: str, table: str) -> None:
    version = whole(root, table).version
    spark.sql(f"ALTER TABLE {table} CREATE TAG t")
    refs = [Row(name="main", type="branch", branch="main", version=version)]
    refs.append(Row(name="t", type="tag", branch="main", version=version))
    assert spark.table(f"{table}.refs").collect() == refs
    partitions = {row.partition for row in spark.table(f"{table}.partitions").collect()}
    assert len(partitions) == 2
    for kind in ("files", "fragments"):
        assert {row.partition for row in spark.table(f"{table}.{kind}").collect()} == partitions
    assert spark.table(f"{table}.indexes").count() == 0
    assert spark.sql(f"SELECT * FROM {table}.files VERSION AS OF {version - 1}").count() == 0
    newest = spark.table(f"{table}.versions").first()
    assert (newest.version, newest.operation, newest.num_rows, newest.added_rows) == (version, "append", 2, 2)
    assert spark.table(f"{table}.transactions").first().transaction == newest.transaction


def test_columns_come_with_rows(spark: SparkSession, root: str, table: str) -> None:
    before = whole(root, table).version
    rows = spark.sql("SELECT 1.5D AS price, 'a' AS k, 1L AS id")
    rows.writeTo(table).option("mergeSchema", "true").append()
    assert whole(root, table).version == before + 1
    assert listed(spark, f"SELECT * FROM {table}") == [(1, "a", 1.5), (1, "a", None), (2, "b", None)]
    # No new column: an append as any other.
    rows.writeTo(table).option("mergeSchema", "true").append()
    assert whole(root, table).version == before + 2
    with pytest.raises(PySparkException):
        spark.sql("SELECT 1L AS id, 'a' AS k, 1.5D AS price, 2 AS other").writeTo(table).append()


@pytest.mark.slow
def test_replacements(spark: SparkSession, root: str, table: str) -> None:
    before = whole(root, table).version
    spark.sql(
        f"CREATE OR REPLACE TABLE {table} USING lance PARTITIONED BY (n) TBLPROPERTIES ('a' = 'b') "
        "AS SELECT 'x' AS n, 7L AS id"
    )
    assert listed(spark, f"SELECT * FROM {table}") == [("x", 7)]
    assert listed(spark, f"SHOW TBLPROPERTIES {table}") == [("a", "b")]
    with pytest.raises(PySparkException):
        spark.sql(f"REPLACE TABLE {table} USING lance PARTITIONED BY (m) AS SELECT raise_error('no') AS m")
    assert listed(spark, f"SELECT * FROM {table} VERSION AS OF {before}") == [(1, "a"), (2, "b")]
    spark.sql(f"REPLACE TABLE {table} (id BIGINT, m INT) USING lance PARTITIONED BY (m)")
    assert whole(root, table).version == before + 2
    assert whole(root, table).partitions() == []
    spark.sql(f"INSERT INTO {table} VALUES (8, 1)")
    assert listed(spark, f"SELECT * FROM {table}") == [(8, 1)]
    spark.sql(f"CREATE OR REPLACE TABLE {table} USING lance AS SELECT 1 AS id")
    assert listed(spark, f"SELECT * FROM {table}") == [(1,)]


@pytest.mark.slow
def test_expressions(spark: SparkSession, root: str) -> None:
    pytest.importorskip("datafusion")
    spark.sql("CREATE TABLE lance.computed (id BIGINT) USING lance PARTITIONED BY (expression('col0 % 3', id))")
    assert "(expression('col0 % 3', id))" in spark.sql("SHOW CREATE TABLE lance.computed").first()[0]
    spark.sql("INSERT INTO lance.computed SELECT id FROM range(6)")
    assert sorted(row[0] for row in spark.sql("SELECT num_rows FROM lance.computed.partitions").collect()) == [2, 2, 2]
    spark.sql("ALTER TABLE lance.computed REPLACE PARTITION FIELD id_expression WITH expression('col0 > 2', id) AS big")
    assert [field.expression for field in whole(root, "lance.computed").specs.current.fields] == ["col0 > 2"]
    spark.sql("INSERT INTO lance.computed VALUES (6)")
    assert [row.id for row in spark.sql("SELECT id FROM lance.computed ORDER BY id").collect()] == list(range(7))
    with pytest.raises(AnalysisException, match="deterministic"):
        spark.sql("ALTER TABLE lance.computed ADD PARTITION FIELD expression('random()', id)")
    spark.sql("DROP TABLE lance.computed")


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["CREATE TABLE {0} (k INT)", "CREATE OR REPLACE TABLE {1} (k INT)"])
def test_definitions_are_no_properties_of_a_new_table(spark: SparkSession, table: str, statement: str) -> None:
    """Such a table could not be read any more."""
    statement = statement.format("lance.undefined", table)
    with pytest.raises(AnalysisException, match="property partition_spec_v2 of a partitioned table cannot be set"):
        spark.sql(f"{statement} PARTITIONED BY (k) TBLPROPERTIES ('partition_spec_v2' = '{{}}')")
    assert not spark.catalog.tableExists("lance.undefined")
    assert listed(spark, f"SELECT * FROM {table}") == [(1, "a"), (2, "b")]


@pytest.mark.slow
def test_names_for_folders(spark: SparkSession, root: str, table: str, tmp_path: Path) -> None:
    where = whole(root, table).root
    spark.sql(f"DROP TABLE {table}")
    (row,) = spark.sql(f"CALL lance.system.register_table(table => 'defined', location => '{where}')").collect()
    assert (row.location, row.partitioned) == (where, True)
    assert listed(spark, f"SELECT * FROM {table}") == [(1, "a"), (2, "b")]
    for location, message in ((where, "exists"), (str(tmp_path / "nothing"), "no Lance table")):
        with pytest.raises(AnalysisException, match=message):
            spark.sql(f"CALL lance.system.register_table(table => 'defined', location => '{location}')")
    plain = str(tmp_path / "plain")
    spark.range(3).write.format("lance").save(plain)
    spark.sql(f"CALL lance.system.register_table('registered', '{plain}')")
    assert spark.table("lance.registered").count() == 3
    spark.sql("DROP TABLE lance.registered")
