"""Columns of partitioned tables from a view, by ALTER TABLE ... ADD | UPDATE COLUMNS ... FROM, beside pylance."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from lance_spark.namespace.directory.namespace import DirectoryNamespace
from lance_spark.partitioned.maintenance.compaction import compact
from lance_spark.partitioned.table import PartitionedTable, open_partitioned
from lance_spark.table.maintenance.compaction_options import CompactionOptions
from tests.partitioned.verbs import delete_rows, save_rows

TABLE = "lance.filled"


@pytest.fixture
def table(spark: SparkSession) -> Iterator[str]:
    """Rows 0 to 11 by their remainder of 3, in two fragments a partition; row 12 where it is null."""
    spark.sql(f"CREATE TABLE {TABLE} (id BIGINT, k STRING, n INT) USING lance PARTITIONED BY (k)")
    for start in (0, 6):
        rows = spark.range(start, start + 6).selectExpr("id", "cast(id % 3 as string) AS k", "cast(id AS INT) AS n")
        rows.writeTo(TABLE).append()
    spark.sql(f"INSERT INTO {TABLE} VALUES (12, NULL, 12)")
    yield TABLE
    spark.sql(f"DROP TABLE IF EXISTS {TABLE}")


def whole(root: str) -> PartitionedTable:
    return open_partitioned(DirectoryNamespace(root).table_location(("filled",)).uri)


def by_id(root: str, column: str) -> dict[int, object]:
    """What the reference library reads of a column in the partitions that `__manifest` names."""
    found: dict[int, object] = {}
    table = whole(root)
    listed = lance.dataset(f"{table.root}/__manifest", version=table.version).to_table().to_pylist()
    schemas = set()
    for row in listed:
        if row["object_type"] == "table":
            data = lance.dataset(f"{table.root}/{row['location']}", version=row["read_version"])
            schemas.add(tuple(data.schema.names))
            found |= {item["id"]: item[column] for item in data.to_table().to_pylist()}
    assert schemas <= {tuple(table.schema.names)}
    return dict(sorted(found.items()))


def view(spark: SparkSession, text: str) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW told AS {text}")


def version(spark: SparkSession) -> int:
    return int(spark.sql(f"SELECT max(version) AS v FROM {TABLE}.versions").first().v)


@pytest.mark.since("4.2", "the CHANGES clause")
def test_columns_from_a_view(spark: SparkSession, root: str, table: str) -> None:
    before = version(spark)
    view(
        spark, f"SELECT _partition, _rowaddr, id * 2 AS twice, named_struct('a', k) AS s FROM {table} WHERE id % 3 = 1"
    )
    (row,) = spark.sql(f"ALTER TABLE {table} ADD COLUMNS twice, s FROM told").collect()
    assert (row.version, row.fragments, row.columns) == (before + 1, 2, ["twice", "s"])
    assert by_id(root, "twice") == {key: 2 * key if key % 3 == 1 else None for key in range(13)}
    assert by_id(root, "s") == {key: {"a": "1"} if key % 3 == 1 else None for key in range(13)}
    shown = spark.table(table).orderBy("id").collect()
    assert [item.twice for item in shown] == list(by_id(root, "twice").values())
    (newest,) = spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").collect()
    assert (newest.version, newest.operation) == (before + 1, "columns")
    # By the procedure, and some rows of every partition, the one of nulls too.
    view(spark, f"SELECT -id AS twice, _rowaddr, _partition FROM {table} WHERE id > 5")
    (row,) = spark.sql(
        "CALL lance.system.update_columns_from(table => 'filled', source => 'told', columns => array('twice'))"
    ).collect()
    assert (row.version, row.fragments) == (before + 2, 4)
    assert by_id(root, "twice") == {key: -key if key > 5 else 2 * key if key % 3 == 1 else None for key in range(13)}
    # Other statements go on with the new columns, and older versions are without them.
    spark.sql(f"INSERT INTO {table} (id, k, twice) VALUES (13, 'new', 1)")
    spark.sql(f"UPDATE {table} SET twice = 0, k = '1' WHERE id = 12")
    spark.sql(f"DELETE FROM {table} WHERE twice = -11")
    expected = {key: value for key, value in by_id(root, "twice").items() if key < 11}
    assert spark.table(table).where("id < 11").count() == len(expected) == 11
    assert by_id(root, "twice")[12] == 0
    assert spark.sql(f"SELECT * FROM {table} VERSION AS OF {before}").columns == ["id", "k", "n"]
    told = spark.sql(f"SELECT id, twice FROM {table} CHANGES FROM VERSION {before + 2} TO VERSION {before + 2}")
    assert {row.id for row in told.collect()} >= {6, 12}


@pytest.mark.slow
def test_values_of_other_tables(spark: SparkSession, root: str, table: str) -> None:
    """What a join with another table says, and addresses that were written down."""
    spark.createDataFrame(
        [(key, f"name {key}") for key in range(0, 13, 2)], "id BIGINT, name STRING"
    ).createOrReplaceTempView("names")
    view(spark, f"SELECT t._partition, t._rowaddr, names.name FROM {table} t JOIN names ON t.id = names.id")
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS (name) FROM told")
    assert by_id(root, "name") == {key: None if key % 2 else f"name {key}" for key in range(13)}
    noted = spark.table(table).selectExpr("_partition", "_rowaddr", "id").collect()
    spark.createDataFrame(noted, "_partition STRING, _rowaddr BIGINT, id BIGINT").selectExpr(
        "_partition", "_rowaddr", "cast(id + 100 AS INT) AS n"
    ).createOrReplaceTempView("told")
    spark.sql(f"ALTER TABLE {table} UPDATE COLUMNS n FROM told")
    assert by_id(root, "n") == {key: key + 100 for key in range(13)}


@pytest.mark.slow
def test_no_rows_and_nulls(spark: SparkSession, root: str, table: str) -> None:
    before = version(spark)
    view(spark, f"SELECT _partition, _rowaddr, id AS c FROM {table} WHERE id < 0")
    (row,) = spark.sql(f"ALTER TABLE {table} ADD COLUMNS c FROM told").collect()
    assert (row.version, row.fragments) == (before + 1, 0)
    (row,) = spark.sql(f"ALTER TABLE {table} UPDATE COLUMNS c FROM told").collect()
    assert (row.version, row.fragments) == (before + 1, 0)
    assert set(by_id(root, "c").values()) == {None}
    view(spark, f"SELECT _partition, _rowaddr, if(id = 3, NULL, 0) AS n FROM {table} WHERE id < 4")
    spark.sql(f"ALTER TABLE {table} UPDATE COLUMNS n FROM told")
    assert by_id(root, "n") == {key: None if key == 3 else 0 if key < 4 else key for key in range(13)}


def test_a_table_without_rows(spark: SparkSession, root: str, table: str) -> None:
    spark.sql(f"DELETE FROM {table}")
    view(spark, f"SELECT _partition, _rowaddr, id AS c FROM {table}")
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS c FROM told")
    assert spark.table(table).columns == ["id", "k", "n", "c"]
    assert by_id(root, "c") == {}


REFUSED = {
    "SELECT _partition, _rowaddr, 'x' AS k FROM {t}": ("UPDATE", "k", "field 'k' .* from column 'k'.*MERGE"),
    "SELECT _partition, _rowaddr, id AS n FROM {t}": ("UPDATE", "n", "its new values are int64; cast them"),
    "SELECT _partition, _rowaddr, 1 AS nope FROM {t}": ("UPDATE", "nope", "nope"),
    "SELECT _partition, _rowaddr, n AS id FROM {t}": ("ADD", "id", "the table has a column 'id'"),
    "SELECT _partition, _rowaddr, 1 AS c FROM {t} UNION ALL SELECT _partition, _rowaddr, 2 FROM {t} WHERE id = 7": (
        "ADD",
        "c",
        "several rows are for row",
    ),
    "SELECT 'elsewhere' AS _partition, _rowaddr, 1 AS c FROM {t}": ("ADD", "c", "has no partition 'elsewhere'"),
    "SELECT _partition, _rowaddr + 99 AS _rowaddr, 1 AS c FROM {t}": ("ADD", "c", "an address is not in fragment"),
    "SELECT _partition, 99 * 4294967296 + _rowaddr AS _rowaddr, 1 AS c FROM {t}": ("ADD", "c", "has no fragment 99"),
    "SELECT _partition, nullif(_rowaddr, 0) AS _rowaddr, 1 AS c FROM {t}": ("ADD", "c", "a row has no _rowaddr"),
    "SELECT nullif(_partition, _partition) AS _partition, _rowaddr, 1 AS c FROM {t}": ("ADD", "c", "has no _partition"),
    "SELECT _rowaddr, 1 AS c FROM {t}": ("ADD", "c", "_partition"),
    "SELECT _partition, _rowaddr, raise_error('no') AS c FROM {t}": ("ADD", "c", "no"),
    "SELECT _partition, _rowaddr FROM {t}": ("ADD", "_partition", "are not columns to write"),
    "SELECT a._partition, a._rowaddr, 1 AS c FROM {t} a JOIN {t} VERSION AS OF 2 b ON a.id = b.id": (
        "ADD",
        "c",
        "let it read one",
    ),
}


@pytest.mark.slow
def test_what_is_refused_leaves_nothing(spark: SparkSession, root: str, table: str) -> None:
    before = version(spark)
    there = {path for path in Path(whole(root).root).rglob("*") if path.is_file()}
    for query, (verb, column, message) in REFUSED.items():
        view(spark, query.format(t=table))
        # Errors of tasks keep Java's class.
        with pytest.raises(Exception, match=message):
            spark.sql(f"ALTER TABLE {table} {verb} COLUMNS {column} FROM told")
        assert {path for path in Path(whole(root).root).rglob("*") if path.is_file()} == there, query
    assert version(spark) == before


@pytest.mark.slow
def test_a_view_of_an_older_version(spark: SparkSession, root: str, table: str) -> None:
    """The rows are where that version has them, and a commit in between counts."""
    start = version(spark)
    view(spark, f"SELECT _partition, _rowaddr, id AS copy FROM {table} VERSION AS OF {start}")
    save_rows(whole(root), spark.sql("SELECT 20L AS id, '1' AS k, 20 AS n").toArrow())
    delete_rows(whole(root), "id = 20")
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS copy FROM told")
    assert by_id(root, "copy") == {key: key for key in range(13)}
    view(spark, f"SELECT _partition, _rowaddr, cast(0 AS BIGINT) AS copy FROM {table} VERSION AS OF {version(spark)}")
    compact(whole(root), None, CompactionOptions(target_rows_per_fragment=100))
    before = version(spark)
    with pytest.raises(AnalysisException, match="LANCE_COMMIT_CONFLICT"):
        spark.sql(f"ALTER TABLE {table} UPDATE COLUMNS copy FROM told")
    assert version(spark) == before
    assert by_id(root, "copy") == {key: key for key in range(13)}


@pytest.mark.slow
def test_several_specs(spark: SparkSession, root: str, table: str) -> None:
    spark.sql(f"ALTER TABLE {table} REPLACE PARTITION FIELD k WITH bucket(2, id)")
    spark.sql(f"INSERT INTO {table} VALUES (13, '1', 13), (14, '1', 14)")
    view(spark, f"SELECT _partition, _rowaddr, k || id AS c FROM {table}")
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS c FROM told")
    assert by_id(root, "c") == {key: None if key == 12 else f"{1 if key > 12 else key % 3}{key}" for key in range(15)}
    view(spark, f"SELECT _partition, _rowaddr, id + 1 AS id FROM {table} WHERE id > 12")
    with pytest.raises(AnalysisException, match=r"partition field 'id_bucket_2' .* is computed from"):
        spark.sql(f"ALTER TABLE {table} UPDATE COLUMNS id FROM told")
