"""Statements of the session extension; all others are Spark's."""

from __future__ import annotations

import re
from datetime import timezone
from pathlib import Path

import lance
import pytest
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import Row, SparkSession

import lance_spark
from lance_spark.spark.connector.procedures.procedures import _MODULES


@pytest.fixture
def table(spark: SparkSession, request: pytest.FixtureRequest) -> str:
    """Six rows in three fragments, version 4."""
    namespace = f"lance.st_{abs(hash(request.node.name)) % 10**8}"
    spark.sql(f"CREATE NAMESPACE {namespace}")
    name = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {name} (id BIGINT NOT NULL) USING lance")
    for start in (0, 2, 4):
        spark.range(start, start + 2, numPartitions=1).writeTo(name).append()
    return name


def version(spark: SparkSession, table: str) -> int:
    rows = spark.sql(f"DESCRIBE EXTENDED {table}").where("col_name = 'Location'").collect()
    return int(lance.dataset(rows[0].data_type).version)


@pytest.mark.slow
def test_maintenance(spark: SparkSession, table: str) -> None:
    (row,) = spark.sql(f"OPTIMIZE {table} WITH (target_rows_per_fragment = 6)").collect()
    assert (row.version, row.fragments_removed, row.fragments_added) == (5, 3, 1)
    assert [row.version for row in spark.sql(f"DESC HISTORY {table} LIMIT 2").collect()] == [5, 4]
    (row,) = spark.sql(f"RESTORE TABLE {table} TO VERSION 2;").collect()
    assert row.version == version(spark, table) == 6
    assert spark.table(table).count() == 2
    with pytest.raises(AnalysisException, match="before 99 cannot be removed, because the newest version is 6"):
        spark.sql(f"VACUUM {table} WITH (before_version = 99)")
    (row,) = spark.sql(f"VACUUM {table} WITH (before_version = 6, delete_unverified = false)").collect()
    assert row.versions == 5
    assert [row.version for row in spark.sql(f"DESCRIBE HISTORY {table}").collect()] == [6]


def test_branches_and_tags(spark: SparkSession, table: str) -> None:
    spark.sql(f"ALTER TABLE {table} CREATE TAG first AS OF VERSION 2")
    spark.sql(f"/* a comment */ alter table {table} create branch if not exists dev as of tag `first` -- and another")
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH other AS OF BRANCH dev")
    assert spark.sql(f"SHOW TAGS IN {table}").select("name", "branch", "version").collect() == [
        Row(name="first", branch="main", version=2)
    ]
    assert [row.name for row in spark.sql(f"SHOW BRANCHES IN {table}").collect()] == ["dev", "other"]
    assert spark.table(f"{table}.branch_dev").count() == 2
    for name in ("other", "dev"):
        spark.sql(f"ALTER TABLE {table} DROP BRANCH {name}")
    spark.sql(f"ALTER TABLE {table} DROP TAG first")
    spark.sql(f"ALTER TABLE {table} DROP TAG IF EXISTS first")
    assert spark.sql(f"SHOW TAGS IN {table}").collect() == []
    with pytest.raises(AnalysisException, match="first"):
        spark.sql(f"ALTER TABLE {table} DROP TAG first")
    assert version(spark, table) == 4


@pytest.mark.slow
def test_result_columns_of_tags_and_branches(spark: SparkSession, table: str) -> None:
    tag_columns = ["name", "branch", "version", "created_at", "updated_at", "manifest_size"]
    branch_columns = ["name", "parent_branch", "parent_version", "created_at", "manifest_size"]
    where = spark.sql(f"DESCRIBE EXTENDED {table}").where("col_name = 'Location'").first().data_type
    made = spark.sql(f"ALTER TABLE {table} CREATE TAG one AS OF VERSION 2")
    assert (made.columns[0], [row.name for row in made.collect()]) == ("name", ["one"])
    made = spark.sql(f"ALTER TABLE {table} CREATE BRANCH dev AS OF VERSION 3")
    assert (made.columns[0], [row.name for row in made.collect()]) == ("name", ["dev"])
    spark.sql(f"ALTER TABLE {table} CREATE BRANCH below AS OF BRANCH dev")
    theirs = lance.dataset(where).tags.list()["one"]
    for statement in ("SHOW TAGS FROM", "SHOW TAG IN"):
        shown = spark.sql(f"{statement} {table}")
        assert shown.columns == tag_columns
        (row,) = shown.collect()
        assert (row.name, row.branch, row.version) == ("one", "main", 2)
        assert row.created_at.replace(tzinfo=timezone.utc) == theirs["created_at"]
        assert row.updated_at.replace(tzinfo=timezone.utc) == theirs["updated_at"]
        assert row.manifest_size == theirs["manifest_size"]
    branches = lance.dataset(where).branches.list()
    for statement in ("SHOW BRANCHES FROM", "SHOW BRANCH IN"):
        shown = spark.sql(f"{statement} {table}")
        assert shown.columns == branch_columns
        assert [(row.name, row.parent_branch, row.parent_version) for row in shown.collect()] == [
            ("below", "dev", 3),
            ("dev", "main", 3),
        ]
        for row in shown.collect():
            assert row.manifest_size == branches[row.name]["manifest_size"]
            assert row.created_at.replace(tzinfo=timezone.utc).timestamp() == branches[row.name]["create_at"]
    for kind, name in (("BRANCH", "below"), ("BRANCH", "dev"), ("TAG", "one"), ("TAG IF EXISTS", "one")):
        assert spark.sql(f"ALTER TABLE {table} DROP {kind} {name}").collect() == [Row(name=name)]


def test_result_columns_of_a_primary_key(spark: SparkSession) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.st_key")
    spark.sql("CREATE TABLE lance.st_key.t (a INT NOT NULL, b INT NOT NULL)")
    for _ in range(2):
        answer = spark.sql("ALTER TABLE lance.st_key.t SET UNENFORCED PRIMARY KEY (a, b)").collect()
        assert answer == [Row(status="OK", primary_key_columns="a, b")]
    assert version(spark, "lance.st_key.t") == 2


@pytest.mark.slow
def test_columns_and_key(spark: SparkSession, table: str) -> None:
    spark.sql(f"SELECT _rowaddr, id * 10 AS ten, 'x' AS name FROM {table}").createOrReplaceTempView("values_of_it")
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS ten, name FROM values_of_it")
    spark.sql(f"SELECT _rowaddr, ten + 1 AS ten FROM {table} WHERE id = 4").createOrReplaceTempView("new_values")
    spark.sql(f"ALTER TABLE {table} UPDATE COLUMNS ten FROM new_values")
    spark.sql(f"ALTER TABLE {table} SET UNENFORCED PRIMARY KEY (id)")
    assert version(spark, table) == 7
    assert [row.ten for row in spark.table(table).orderBy("id").collect()] == [0, 10, 20, 30, 41, 50]
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS (plain INT)")
    assert spark.table(table).columns == ["id", "ten", "name", "plain"]


def test_tables_of_the_current_namespace(spark: SparkSession, table: str) -> None:
    try:
        spark.sql(f"USE {table.removesuffix('.t')}")
        assert len(spark.sql("DESCRIBE HISTORY t").collect()) == 4
        assert spark.sql("OPTIMIZE t").first().fragments_removed == 3
    finally:
        spark.sql("USE spark_catalog.default")


@pytest.mark.slow
@pytest.mark.since("4.1", "parameters of statements of extensions")
def test_parameters(spark: SparkSession, table: str) -> None:
    version = {"version": 2}
    spark.sql(f"ALTER TABLE {table} CREATE TAG first AS OF VERSION :version", args=version)
    spark.sql(f"ALTER TABLE {table} CREATE TAG ? AS OF VERSION ?", args=["second", 3])
    tags = spark.sql(f"SHOW TAGS IN {table}").select("name", "version").collect()
    assert tags == [Row(name="first", version=2), Row(name="second", version=3)]
    spark.sql(f"RESTORE {table} TO TAG :tag", args={"tag": "second"})
    assert spark.table(table).count() == 4
    spark.sql(f"RESTORE {table} TO VERSION :version", args=version)
    assert spark.table(table).count() == 2
    spark.sql(f"ALTER TABLE {table} CREATE INDEX i USING zonemap (id) WITH (rows_per_zone = :rows)", args={"rows": 7})
    assert [row.name for row in spark.sql(f"SHOW INDEXES IN {table}").collect()] == ["i"]
    (row,) = spark.sql(f"OPTIMIZE {table} WITH (target_rows_per_fragment = ?, dry_run = ?)", args=[100, True]).collect()
    assert row.dry_run
    assert len(spark.sql(f"DESCRIBE HISTORY {table} LIMIT :count", args={"count": 2}).collect()) == 2
    with pytest.raises(AnalysisException, match="UNBOUND_SQL_PARAMETER"):
        spark.sql(f"VACUUM {table} WITH (days = :days)")


@pytest.mark.since("4.1", "parameters of IDENTIFIER in statements of extensions")
def test_tables_in_identifier(spark: SparkSession, table: str) -> None:
    named = {"table": table, "rows": 100}
    (row,) = spark.sql(
        "OPTIMIZE IDENTIFIER(:table) WITH (target_rows_per_fragment = :rows, dry_run = true)", args=named
    ).collect()
    assert (row.dry_run, row.fragments_removed) == (True, 3)
    assert len(spark.sql(f"DESCRIBE HISTORY IDENTIFIER('{table}')").collect()) == 4
    spark.sql("ALTER TABLE IDENTIFIER(:table) CREATE INDEX i USING zonemap (id)", args=named)
    assert [row.name for row in spark.sql("SHOW INDEXES IN IDENTIFIER(:table)", args=named).collect()] == ["i"]
    spark.sql("ALTER TABLE IDENTIFIER(:table) ADD COLUMN more INT", args=named)  # Spark's own statement.
    assert spark.table(table).columns == ["id", "more"]
    for statement, values in (("OPTIMIZE IDENTIFIER(:other)", named), ("OPTIMIZE IDENTIFIER(?)", [table])):
        with pytest.raises(ParseException):
            spark.sql(statement, args=values)


@pytest.mark.until("4.0", "parameters are bound after statements are parsed")
def test_parameters_in_identifier_are_refused(spark: SparkSession, table: str) -> None:
    with pytest.raises(Exception, match="write the name of the table into the statement"):
        spark.sql("OPTIMIZE IDENTIFIER(:table)", args={"table": table})


def test_other_statements_are_not_touched(spark: SparkSession, table: str) -> None:
    assert spark.sql("SELECT 'OPTIMIZE t' AS a /* VACUUM t */").first().a == "OPTIMIZE t"
    with pytest.raises(ParseException):
        spark.sql("OPTIMIZE spark_catalog.default.nothing")
    for statement in (
        "CONVERT TO DELTA parquet.`/tmp/x`",
        "VACUUM spark_catalog.default.nothing RETAIN 1 HOURS",
        "CREATE TABLE spark_catalog.default.a SHALLOW CLONE spark_catalog.default.b",
    ):
        with pytest.raises(ParseException, match="PARSE_SYNTAX_ERROR"):
            spark.sql(statement)
    with pytest.raises(AnalysisException, match="no_such_option"):
        spark.sql(f"OPTIMIZE {table} WITH (no_such_option = 1)")
    assert spark.sql(f"SELECT * FROM {table} WHERE id > :low", args={"low": 3}).count() == 2
    assert version(spark, table) == 4


def test_a_changes_function(spark: SparkSession, table: str) -> None:
    rows = spark.sql(f"SELECT id, _change_type, _commit_version FROM lance_changes('{table}', 3, 4)").collect()
    assert sorted(map(tuple, rows)) == [(2, "insert", 3), (3, "insert", 3), (4, "insert", 4), (5, "insert", 4)]
    assert spark.sql(f"SELECT count(*) AS n FROM lance_changes('{table}', 4)").first().n == 2


@pytest.mark.parametrize(
    "arguments", ["'{}'", "'{}', 'first'", "'{}', -1", "NULL, 1", "'{}', 1, NULL", "'{}', 1, 2, 3"]
)
def test_arguments_of_the_changes_function(spark: SparkSession, table: str, arguments: str) -> None:
    with pytest.raises(PySparkException, match="lance_changes takes the name of a table, a first and") as raised:
        spark.sql(f"SELECT * FROM lance_changes({arguments.format(table)})")
    assert "\tat " not in str(raised.value)


def test_versions_are_whole_numbers(spark: SparkSession, table: str) -> None:
    with pytest.raises(AnalysisException, match="write RESTORE t TO VERSION n or RESTORE t TO TAG name"):
        spark.sql(f"RESTORE {table} TO VERSION 1.5")
    with pytest.raises(ParseException):
        spark.sql(f"ALTER TABLE {table} CREATE TAG t AS OF VERSION 1.5")
    assert spark.sql(f"SELECT * FROM {table}.versions").count() == 4


@pytest.mark.parametrize(
    ("statement", "instead"),
    [
        ("OPTIMIZE {t} CLUSTER BY (id)", "write ALTER TABLE t CLUSTER BY (a, b), and then OPTIMIZE t"),
        ("OPTIMIZE {t} WHERE id > 1", "where chooses partitions, and the table has none"),
        ("OPTIMIZE {t} REWRITE DATA USING BIN_PACK", "write OPTIMIZE t, or OPTIMIZE t WITH (name = value, ...)"),
        ("VACUUM {t} RETAIN 168 HOURS", "write VACUUM t WITH (days = 7)"),
        ("vacuum {t} retain 6 hours dry run", "write VACUUM t WITH (days = 0.25, dry_run = true)"),
        ("VACUUM {t} DRY RUN", "write VACUUM t WITH (dry_run = true)"),
        ("VACUUM {t} FULL", "write VACUUM t, or VACUUM t WITH (name = value, ...)"),
        ("RESTORE TABLE {t} TO TIMESTAMP AS OF '2026-01-01'", "DESCRIBE HISTORY t shows which version"),
        ("CONVERT TO LANCE parquet.`/data/x`", "CONVERT TO LANCE parquet.`path` AS lance.db.t copies the rows"),
        ("REORG TABLE {t} APPLY (PURGE)", "OPTIMIZE t rewrites files with deleted rows"),
        ("UNDROP TABLE {t}", "system.register_table"),
        ("CREATE OR REPLACE TABLE {t}_new SHALLOW CLONE {t}", "ALTER TABLE t CREATE BRANCH name"),
        ("CREATE TABLE IF NOT EXISTS {t}_new DEEP CLONE {t}", "CREATE TABLE t AS SELECT * FROM other"),
        ("CREATE TABLE {t}_new (id INT) CLUSTERED BY (id) SORTED BY (id) INTO 4 BUCKETS", "leave SORTED BY out"),
        ("DESCRIBE DETAIL {t}", "DESCRIBE EXTENDED t shows location"),
        ("desc detail {t}", "DESCRIBE EXTENDED t shows location"),
        ("ALTER TABLE {t} WRITE ORDERED BY id DESC", "write ALTER TABLE t CLUSTER BY (a, b)"),
        ("ALTER TABLE {t} WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY id", "SET TBLPROPERTIES ('distribution'"),
        ("ALTER TABLE {t} SET IDENTIFIER FIELDS id", "write ALTER TABLE t SET UNENFORCED PRIMARY KEY (a, b)"),
        ("ALTER TABLE {t} DROP IDENTIFIER FIELDS id", "cannot be changed once it is set"),
        ("ALTER TABLE {t} DROP FEATURE deletionVectors TRUNCATE HISTORY", "has no features to drop"),
        ("ALTER TABLE {t} ALTER COLUMN id SYNC IDENTITY", "write CALL system.sync_identity(table => 't')"),
        (
            "ALTER TABLE {t} CREATE OR REPLACE TAG g AS OF VERSION 1 RETAIN 7 DAYS",
            "CALL system.update_tag(table => 't'",
        ),
        ("ALTER TABLE {t} REPLACE BRANCH b AS OF VERSION 1", "write ALTER TABLE t DROP BRANCH IF EXISTS name, then"),
        ("ALTER TABLE {t} CREATE TAG g AS OF VERSION 1 RETAIN 7 DAYS", "leave RETAIN"),
        ("ALTER TABLE {t} CREATE BRANCH b WITH SNAPSHOT RETENTION 5 SNAPSHOTS", "leave RETAIN"),
        ("ALTER TABLE {t} RECOVER PARTITIONS", "there are none to find: leave the statement out"),
        ("MSCK REPAIR TABLE {t}", "there are none to find: leave the statement out"),
        ("FSCK REPAIR TABLE {t} DRY RUN", "python -m lance_spark verify"),
        ("GENERATE symlink_format_manifest FOR TABLE {t}", "there is no GENERATE"),
        ("COPY INTO {t} FROM '/data' FILEFORMAT = PARQUET", "write INSERT INTO t SELECT * FROM parquet.`path`"),
        ("CREATE BLOOMFILTER INDEX ON TABLE {t} FOR COLUMNS (id)", "CREATE INDEX name USING bloomfilter (a)"),
        ("DROP BLOOMFILTER INDEX ON TABLE {t} FOR COLUMNS (id)", "ALTER TABLE t DROP INDEX name"),
        ("ANALYZE TABLE {t} COMPUTE DELTA STATISTICS", "CREATE INDEX name USING zonemap (a)"),
        ("CALL lance.system.rewrite_data_files(table => 't')", "write CALL system.optimize(table => 't')"),
        ("CALL lance.system.expire_snapshots('t', TIMESTAMP '2026-01-01')", "write CALL system.vacuum(table => 't'"),
        ("CALL lance.system.Rollback_To_Snapshot('t', 1)", "write CALL system.restore(table => 't', version => n)"),
        ("CALL lance.system.nothing()", "SHOW PROCEDURES IN lance.system lists those that are there"),
    ],
)
def test_statements_of_other_formats_say_what_to_write(spark: SparkSession, statement: str, instead: str) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.st_others")
    spark.sql("CREATE TABLE IF NOT EXISTS lance.st_others.t (id BIGINT)")
    with pytest.raises(AnalysisException, match=re.escape(instead)) as raised:
        spark.sql(statement.format(t="lance.st_others.t"))
    assert raised.value.getCondition() in {"LANCE_INVALID_INPUT", "LANCE_UNSUPPORTED_FEATURE"}
    assert spark.sql("SHOW TABLES IN lance.st_others").count() == 1


def test_procedures_that_hints_name_are_there() -> None:
    source = Path(lance_spark.__file__).parent / "spark" / "jvm" / "io" / "lancespark"
    texts = [(source / name).read_text() for name in ("catalog/ForeignProcedures.java", "sql/LanceHints.java")]
    named = set(re.findall(r"system\.(\w+)\(", "".join(texts)))
    assert named >= {"optimize", "vacuum", "restore", "update_tag", "sync_identity"}
    assert named <= {procedure.name for module in _MODULES for procedure in module.PROCEDURES}


def test_calls_of_other_catalogs_are_not_touched(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException) as raised:
        spark.sql("CALL spark_catalog.system.rewrite_data_files(table => 't')")
    assert not str(raised.value.getCondition()).startswith("LANCE_")


def test_what_is_to_be_written_instead_does_it(spark: SparkSession, table: str) -> None:
    spark.sql(f"INSERT INTO {table} VALUES (-1)")
    spark.sql(f"INSERT OVERWRITE {table} SELECT * FROM {table} ORDER BY id")
    assert [row.id for row in spark.table(table).collect()] == [-1, *range(6)]
    assert spark.sql(f"VACUUM {table} WITH (days = 0.25, dry_run = true)").first().versions == 0
