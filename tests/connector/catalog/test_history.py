"""DESCRIBE HISTORY: what it counts for each statement, and that a limit reads only the newest versions."""

from __future__ import annotations

from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

PARTITIONED = ["", "PARTITIONED BY (k)"]


def history(spark: SparkSession, table: str) -> list[tuple[str, int, int, int]]:
    """Operation, rows, rows added and rows removed of each version, oldest first."""
    rows = spark.sql(f"DESCRIBE HISTORY {table}").orderBy("version").collect()
    return [(row.operation, row.num_rows, row.added_rows, row.removed_rows) for row in rows]


def select(first: int, last: int, more: str = "") -> str:
    return f"SELECT id, cast(id % 2 AS STRING) AS k {more} FROM range({first}, {last}, 1, 1)"


@pytest.mark.slow
@pytest.mark.parametrize("partitioned", PARTITIONED)
def test_row_counts_of_each_statement(spark: SparkSession, partitioned: str) -> None:
    table = f"lance.hist_{'parts' if partitioned else 'plain'}"
    merge = f"""
        MERGE INTO {table} AS t USING (SELECT * FROM VALUES (3L, '1'), (50L, '1') AS v(id, k)) AS s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET id = 33 WHEN NOT MATCHED THEN INSERT *"""
    # What each statement does to the rows, as (rows afterwards, added, removed); an update replaces a row.
    steps = [
        (f"CREATE TABLE {table} (id BIGINT, k STRING) USING lance {partitioned}", (0, 0, 0)),
        (f"INSERT INTO {table} {select(0, 6)}", (6, 6, 0)),
        (f"INSERT INTO {table} {select(6, 10)}", (10, 4, 0)),
        (f"UPDATE {table} SET id = 100 WHERE id = 1", (10, 1, 1)),
        (f"DELETE FROM {table} WHERE id = 2", (9, 0, 1)),
        (merge, (10, 2, 1)),
        (f"OPTIMIZE {table}", (10, 0, 0)),
        (f"ALTER TABLE {table} ADD COLUMN x INT", (10, 0, 0)),
        (f"INSERT OVERWRITE {table} {select(0, 5, ', 1 AS x')}", (5, 5, 10)),
        (f"RESTORE TABLE {table} TO VERSION 2", (6, 6, 5)),
        (f"TRUNCATE TABLE {table}", (0, 0, 6)),
    ]
    for statement, _ in steps:
        spark.sql(statement)
    assert [entry[1:] for entry in history(spark, table)] == [expected for _, expected in steps]


@pytest.mark.slow
@pytest.mark.parametrize("partitioned", PARTITIONED)
def test_row_counts_of_ctas_and_rtas(spark: SparkSession, partitioned: str) -> None:
    table = f"lance.hist_ctas_{'parts' if partitioned else 'plain'}"
    spark.sql(f"CREATE TABLE {table} USING lance {partitioned} AS {select(0, 7)}")
    assert history(spark, table) == [("overwrite", 7, 7, 0)]
    spark.sql(f"CREATE OR REPLACE TABLE {table} USING lance {partitioned} AS {select(0, 3)}")
    assert history(spark, table)[-1] == ("overwrite", 3, 3, 7)


@pytest.mark.slow
@pytest.mark.parametrize("partitioned", PARTITIONED)
def test_limit_does_not_read_older_versions(spark: SparkSession, partitioned: str) -> None:
    table = f"hist_limit_{'parts' if partitioned else 'plain'}"
    spark.sql(f"CREATE TABLE lance.{table} (id BIGINT, k STRING) USING lance {partitioned}")
    for start in range(4):
        spark.sql(f"INSERT INTO lance.{table} {select(start, start + 1)}")
    _damage_versions(spark, f"lance.{table}", partitioned, first=1, last=2)
    newest = [(5, 4), (4, 3)]
    found = {
        "statement": spark.sql(f"DESCRIBE HISTORY lance.{table} LIMIT 2"),
        "procedure": spark.sql(f"CALL lance.system.history(table => '{table}', limit => 2)"),
        "limit": spark.sql(f"SELECT * FROM lance.{table}.versions LIMIT 2"),
        "top n": spark.sql(f"SELECT * FROM lance.{table}.versions ORDER BY version DESC LIMIT 2"),
    }
    for name, frame in found.items():
        assert [(row.version, row.num_rows) for row in frame.collect()] == newest, name
    transactions = spark.table(f"lance.{table}.transactions").orderBy("version", ascending=False).limit(2)
    assert [row.version for row in transactions.collect()] == [5, 4]
    for query in (f"DESCRIBE HISTORY lance.{table}", f"SELECT * FROM lance.{table}.versions ORDER BY version LIMIT 2"):
        with pytest.raises(PySparkException, match="manifest"):
            spark.sql(query).collect()
    spark.sql(f"DROP TABLE lance.{table} PURGE")  # A purge of other tables refuses to guess what it names.


def _damage_versions(spark: SparkSession, table: str, partitioned: str, *, first: int, last: int) -> None:
    """Empties manifests, so that reading them fails."""
    where = spark.sql(f"DESCRIBE EXTENDED {table}").where("col_name = 'Location'").first().data_type
    root = Path(where.removeprefix("file:"))
    folder = (root / "__manifest" if partitioned else root) / "_versions"
    for version in range(first, last + 1):
        path = folder / f"{2**64 - 1 - version:020d}.manifest"
        assert path.exists()
        path.write_bytes(b"")


@pytest.mark.parametrize("partitioned", PARTITIONED)
def test_filters_and_offsets_see_all_versions(spark: SparkSession, partitioned: str) -> None:
    table = f"lance.hist_filter_{'parts' if partitioned else 'plain'}"
    spark.sql(f"CREATE TABLE {table} (id BIGINT, k STRING) USING lance {partitioned}")
    for start in range(4):
        spark.sql(f"INSERT INTO {table} {select(start, start + 1)}")

    def versions(query: str) -> list[int]:
        return [row.version for row in spark.sql(query).collect()]

    assert versions(f"SELECT version FROM {table}.versions WHERE num_rows <= 2 LIMIT 2") == [3, 2]
    assert versions(f"SELECT version FROM {table}.versions LIMIT 2 OFFSET 1") == [4, 3]
    assert versions(f"SELECT version FROM {table}.versions ORDER BY num_rows LIMIT 2") == [1, 2]
    assert versions(f"SELECT version FROM {table}.versions ORDER BY version LIMIT 1") == [1]
    assert spark.sql(f"SELECT count(*) AS n FROM {table}.versions").first().n == 5


@pytest.mark.slow
@pytest.mark.tasks
@pytest.mark.parametrize("partitioned", PARTITIONED)
def test_reader_hears_which_version_vacuum_removed(spark: SparkSession, partitioned: str) -> None:
    table = f"overtaken_{'parts' if partitioned else 'plain'}"
    spark.sql(f"CREATE TABLE lance.{table} (id BIGINT, k STRING) USING lance {partitioned}")
    spark.sql(f"INSERT INTO lance.{table} {select(0, 6)}")
    frame = spark.sql(f"SELECT sum(id) AS n FROM lance.{table}")
    frame._jdf.queryExecution().executedPlan()  # The version is chosen; its files are not open.
    spark.sql(f"INSERT OVERWRITE lance.{table} {select(9, 10)}")
    spark.sql(f"CALL lance.system.vacuum(table => '{table}', days => 0, delete_unverified => true)")
    with pytest.raises(
        (PySparkException, Py4JJavaError), match=r"version 2 of .* was removed by VACUUM .* while it was read"
    ):
        frame.collect()
    assert spark.sql(f"SELECT sum(id) AS n FROM lance.{table}").first().n == 9


def test_dropped_tables_are_listed_and_purged(spark: SparkSession) -> None:
    spark.sql("CREATE NAMESPACE lance.bin")
    for name in ("a", "b"):
        spark.sql(f"CREATE TABLE lance.bin.{name} USING lance AS {select(0, 3)}")
        spark.sql(f"DROP TABLE lance.bin.{name}")
    listed = spark.sql("CALL lance.system.dropped_tables('bin')").collect()
    assert [(row.name, row.versions) for row in listed] == [("bin.a", 1), ("bin.b", 1)]
    assert all(row.files >= 2 and row.bytes > 0 and row.dropped_at is not None for row in listed)
    where = Path(listed[0].location)
    (row,) = spark.sql("CALL lance.system.purge(table => 'bin.a', dry_run => true)").collect()
    assert (row.name, row.files, row.dry_run, where.exists()) == ("bin.a", listed[0].files, True, True)
    (row,) = spark.sql("CALL lance.system.purge(table => 'bin.a')").collect()
    assert (row.name, row.dry_run, where.exists()) == ("bin.a", False, False)
    assert spark.sql("CALL lance.system.purge(days => 1)").collect() == [], "bin.b was dropped just now"
    assert spark.sql("CALL lance.system.purge(expired => true)").collect() == [], "it is kept for seven days"
    assert len(spark.sql("CALL lance.system.dropped_tables(namespace => 'lance.bin')").collect()) == 1
    (row,) = spark.sql(f"CALL lance.system.purge(location => '{listed[1].location}')").collect()
    assert row.name == "bin.b"
    assert spark.sql("CALL lance.system.dropped_tables('bin')").collect() == []
    with pytest.raises(PySparkException, match=r"has no dropped table bin\.a"):
        spark.sql("CALL lance.system.purge(table => 'bin.a')")
    with pytest.raises(PySparkException, match=r"give the table, its location, days .* or expired => true"):
        spark.sql("CALL lance.system.purge()")
