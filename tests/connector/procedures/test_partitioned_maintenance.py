"""Statements and procedures about the versions of partitioned tables: those of the whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession

from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.partitioned.table import PartitionedTable, open_partitioned


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    """Four rows in two partitions of two fragments each."""
    name = "lance.kept"
    spark.sql(f"CREATE TABLE {name} (id BIGINT NOT NULL, k STRING) PARTITIONED BY (k)")
    for number in (1, 2):
        spark.sql(f"INSERT INTO {name} VALUES ({number}, 'a'), ({number + 10}, 'b')")
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def whole(root: str, table: str) -> PartitionedTable:
    return open_partitioned(DirectoryNamespace(root).table_location(table.split(".")[1:]).uri)


def ids(spark: SparkSession, query: str) -> list[int]:
    return sorted(row.id for row in spark.sql(query).collect())


@pytest.mark.since("4.2", "the CHANGES clause")
@pytest.mark.slow
def test_optimize(spark: SparkSession, root: str, table: str) -> None:
    before = whole(root, table).version
    (expected,) = spark.sql(f"OPTIMIZE {table} WITH (where = \"k = 'a'\", dry_run = true)").collect()
    assert (expected.version, expected.dry_run, whole(root, table).version) == (before, True, before)
    (row,) = spark.sql(f"OPTIMIZE {table} WITH (where = \"k = 'a'\", commit_message = 'tidy')").collect()
    assert row.asDict() == {**expected.asDict(), "version": before + 1, "dry_run": False}
    assert tuple(row)[:8] == (before + 1, 2, 1, 2, 1, 2, 2, 0)
    spark.sql("CALL lance.system.optimize(table => 'kept')")
    made = whole(root, table)
    assert made.version == before + 2
    assert [len(opened.manifest.fragments) for opened in made.open_all(made.partitions())] == [1, 1]
    # Nothing is left to do: no version.
    (row,) = spark.sql(f"OPTIMIZE {table}").collect()
    assert tuple(row) == (before + 2, 0, 0, 0, 0, 2, 0, 0, 0, False, 0)
    assert ids(spark, f"SELECT id FROM {table}") == [1, 2, 11, 12]
    told = spark.sql(f"DESCRIBE HISTORY {table} LIMIT 2").collect()
    assert [(row.operation, row.message, row.num_rows, row.num_fragments) for row in told] == [
        ("rewrite", None, 4, 2),
        ("rewrite", "tidy", 4, 3),
    ]
    # Compaction moves rows and changes none.
    assert spark.sql(f"SELECT * FROM {table} CHANGES FROM VERSION {before + 1}").count() == 0
    with pytest.raises(AnalysisException, match="no column"):
        spark.sql(f"OPTIMIZE {table} WITH (where = 'nothing = 1')")


def test_history_tags_and_restore(spark: SparkSession, root: str, table: str) -> None:
    first = whole(root, table).version - 1
    spark.sql(f"ALTER TABLE {table} CREATE TAG one AS OF VERSION {first}")
    spark.sql(f"ALTER TABLE {table} CREATE TAG IF NOT EXISTS one")
    spark.sql("CALL lance.system.create_tag(table => 'kept', tag => 'two', from_tag => 'one')")
    spark.sql("CALL lance.system.update_tag(table => 'kept', tag => 'two')")
    tags = [Row(name="one", branch="main", version=first), Row(name="two", branch="main", version=first + 1)]
    shown = "name", "branch", "version"
    assert spark.sql(f"SHOW TAGS IN {table}").select(*shown).collect() == tags
    assert ids(spark, f"SELECT id FROM {table} VERSION AS OF 'one'") == [1, 11]
    spark.sql(f"DELETE FROM {table} WHERE k = 'a'")
    (row,) = spark.sql(f"RESTORE {table} TO TAG one").collect()
    assert row.version == whole(root, table).version == first + 3
    assert ids(spark, f"SELECT id FROM {table}") == [1, 11]
    spark.sql(f"RESTORE {table} TO VERSION {first + 1}")
    assert ids(spark, f"SELECT id FROM {table}") == [1, 2, 11, 12]
    told = spark.sql(f"DESCRIBE HISTORY {table}").collect()
    assert [(row.operation, row.num_rows, row.added_rows, row.removed_rows) for row in told][:5] == [
        ("restore", 4, 2, 0),
        ("restore", 2, 1, 1),
        ("delete", 2, 0, 2),
        ("append", 4, 2, 0),
        ("append", 2, 2, 0),
    ]
    moment = told[3].timestamp
    assert ids(spark, f"SELECT id FROM {table} TIMESTAMP AS OF '{moment}'") == [1, 2, 11, 12]
    spark.sql(f"ALTER TABLE {table} DROP TAG one")
    spark.sql(f"ALTER TABLE {table} DROP TAG IF EXISTS one")
    assert spark.sql(f"SHOW TAGS IN {table}").select(*shown).collect() == tags[1:]


def test_branches_are_refused(spark: SparkSession, table: str) -> None:
    assert spark.sql(f"SHOW BRANCHES IN {table}").collect() == []
    for statement in ("CREATE BRANCH b", "DROP BRANCH b", "CREATE TAG t AS OF BRANCH b"):
        with pytest.raises(AnalysisException, match="has no branches"):
            spark.sql(f"ALTER TABLE {table} {statement}")


def test_vacuum(spark: SparkSession, root: str, table: str) -> None:
    spark.sql(f"DELETE FROM {table} WHERE k = 'a'")
    last = whole(root, table).version
    spark.sql(f"ALTER TABLE {table} CREATE TAG kept AS OF VERSION {last - 2}")
    with pytest.raises(AnalysisException, match="have tags: kept"):
        spark.sql(f"VACUUM {table} WITH (before_version = {last})")
    spark.sql(f"ALTER TABLE {table} DROP TAG kept")
    for statement in (
        f"VACUUM {table} WITH (before_version = {last + 1})",
        f"CALL lance.system.vacuum(table => 'kept', before_version => {last + 1})",
    ):
        with pytest.raises(AnalysisException, match=f"before {last + 1} cannot be removed, .* from 1 to {last}"):
            spark.sql(statement)
    (would,) = spark.sql(f"VACUUM {table} WITH (before_version = {last}, dry_run = true)").collect()
    (row,) = spark.sql(f"VACUUM {table} WITH (before_version = {last})").collect()
    assert row.asDict() | {"dry_run": True} == would.asDict()
    # Two of __manifest, and the two of the partition of which nothing is left.
    assert (row.versions, row.data_files) == (last - 1, 4)
    assert ids(spark, f"SELECT id FROM {table}") == [11, 12]
    assert [entry.version for entry in spark.sql(f"DESCRIBE HISTORY {table}").collect()] == [last]
    (row,) = spark.sql("CALL lance.system.remove_orphans(table => 'kept', days => 0)").collect()
    assert (row.versions, row.data_files) == (0, 0)
    assert ids(spark, f"SELECT id FROM {table}") == [11, 12]


def test_primary_key(spark: SparkSession, root: str, table: str) -> None:
    before = whole(root, table).version
    spark.sql(f"ALTER TABLE {table} SET UNENFORCED PRIMARY KEY (id)")
    spark.sql(f"ALTER TABLE {table} SET UNENFORCED PRIMARY KEY (id)")
    made = whole(root, table)
    assert made.version == before + 1
    assert [field.name for field in made.lance_schema.walk() if field.unenforced_primary_key] == ["id"]


@pytest.mark.since("4.2", "the CHANGES clause")
@pytest.mark.slow
def test_changes(spark: SparkSession, root: str, table: str) -> None:
    start = whole(root, table).version + 1
    spark.sql(f"UPDATE {table} SET k = 'b' WHERE id = 1")
    spark.sql(f"DELETE FROM {table} WHERE id = 12")
    told = f"SELECT id, k, _change_type AS how, _commit_version AS at FROM {table} CHANGES FROM VERSION {start}"
    # The row has moved to another partition: it went here and came there.
    moved = [(1, "a", "delete", start), (1, "b", "insert", start)]
    assert sorted(map(tuple, spark.sql(f"{told} TO VERSION {start}").collect())) == moved
    assert sorted(map(tuple, spark.sql(told).collect())) == [*moved, (12, "b", "delete", start + 1)]
    counted = spark.sql(
        f"SELECT count(*) AS n FROM lance_changes('{table}', 1, {start - 1}) WHERE _change_type = 'insert'"
    )
    assert counted.first().n == 4
    frame = spark.read.option("startingVersion", start + 1).changes(table)
    assert [(row.id, row._change_type) for row in frame.collect()] == [(12, "delete")]
    with pytest.raises(AnalysisException, match="LANCE_"):
        spark.sql(f"SELECT * FROM {table} CHANGES FROM VERSION 2 TO VERSION 99").collect()
