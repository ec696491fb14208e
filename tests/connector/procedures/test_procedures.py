"""CALL lance.system.*: maintenance, versions, tags, branches, columns from views."""

from __future__ import annotations

import lance
import pytest
from lance.query import MinHashQuery
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Row, SparkSession


@pytest.fixture
def table(spark: SparkSession, request: pytest.FixtureRequest) -> str:
    """Ten rows in five fragments, version 6; its name without the catalog's."""
    namespace = f"proc_{abs(hash(request.node.name)) % 10**8}"
    spark.sql(f"CREATE NAMESPACE lance.{namespace}")
    name = f"{namespace}.t"
    spark.sql(f"CREATE TABLE lance.{name} (id BIGINT NOT NULL, name STRING) USING lance")
    for start in range(0, 10, 2):
        rows = spark.range(start, start + 2, numPartitions=1).selectExpr("id", "concat('n', id) AS name")
        rows.writeTo(f"lance.{name}").append()
    return name


def dataset(spark: SparkSession, table: str) -> lance.LanceDataset:
    rows = spark.sql(f"DESCRIBE EXTENDED lance.{table}").where("col_name = 'Location'").collect()
    return lance.dataset(rows[0].data_type)


def call(spark: SparkSession, text: str) -> list[Row]:
    return spark.sql(f"CALL lance.system.{text}").collect()


def test_optimize_runs_as_tasks_and_makes_one_version(spark: SparkSession, table: str) -> None:
    before = dataset(spark, table).to_table().to_pylist()
    (expected,) = call(spark, f"optimize(table => '{table}', target_rows_per_fragment => 4, dry_run => true)")
    assert (expected.version, expected.dry_run, dataset(spark, table).version) == (6, True, 6)
    (row,) = call(spark, f"optimize(table => '{table}', target_rows_per_fragment => 4)")
    assert row.asDict() == {**expected.asDict(), "version": 7, "dry_run": False}
    assert (row.small_fragments, row.rows_rewritten, row.deleted_rows_removed) == (5, len(before), 0)
    assert row.bytes_rewritten > 0
    now = dataset(spark, table)
    assert (row.version, now.version) == (7, 7)
    assert (row.fragments_removed, row.fragments_added, len(now.get_fragments())) == (5, 2, 2)
    assert now.to_table().to_pylist() == before
    (row,) = call(spark, f"optimize('{table}', 4)")
    assert (row.version, row.fragments_removed) == (7, 0)
    with pytest.raises(AnalysisException, match="fragments cannot have about 0 rows"):
        call(spark, f"optimize('{table}', 0)")


def test_optimize_says_how_many_fragments_stay_for_an_unknown_index(spark: SparkSession, table: str) -> None:
    """The reference's MinHash index covers the five fragments, and two come later."""
    dataset(spark, table).create_scalar_index("name", "MINHASHLSH", name="mh")
    spark.sql(f"INSERT INTO lance.{table} VALUES (10, 'n10')")
    spark.sql(f"INSERT INTO lance.{table} VALUES (11, 'n11')")
    (expected,) = call(spark, f"optimize(table => '{table}', dry_run => true)")
    (row,) = spark.sql(f"OPTIMIZE lance.{table}").collect()
    for found in (expected, row):
        assert (found.small_fragments, found.fragments_removed, found.kept_fragments) == (7, 2, 5)
    similar = MinHashQuery("n3", "name")
    found = dataset(spark, table).to_table(["id", "_distance"], nearest=similar, limit=1, fast_search=True)
    assert found["id"].to_pylist() == [3]
    (row,) = spark.sql(f"OPTIMIZE lance.{table} WITH (defer_index_remap = true)").collect()
    assert (row.fragments_removed, row.kept_fragments) == (5, 0)
    found = dataset(spark, table).to_table(["id", "_distance"], nearest=similar, limit=1, fast_search=True)
    assert found["id"].to_pylist() == [3]


def test_optimize_can_leave_indexes_to_a_later_statement(spark: SparkSession, table: str) -> None:
    (column, *_) = spark.table(f"lance.{table}").columns
    call(spark, f"create_index(table => '{table}', name => 'i', kind => 'btree', columns => array('{column}'))")
    shown = f"SELECT name, uuid FROM lance.{table}.indexes ORDER BY name"
    before = spark.sql(shown).collect()
    call(spark, f"optimize(table => '{table}', defer_index_remap => true)")
    record, *kept = spark.sql(shown).collect()
    assert (record.name, kept) == ("__lance_frag_reuse", before)
    call(spark, f"optimize_index(table => '{table}', name => 'i')")
    assert [row.name for row in spark.sql(shown).collect()] == ["i"]


def test_vacuum_removes_old_versions_but_tagged_ones(spark: SparkSession, table: str) -> None:
    call(spark, f"create_tag('{table}', 'keep', 3)")
    with pytest.raises(AnalysisException, match="have tags: keep"):
        call(spark, f"vacuum(table => '{table}', before_version => 6)")
    arguments = f"table => '{table}', before_version => 6, error_if_tagged_old_versions => false"
    (row,) = call(spark, f"vacuum({arguments}, dry_run => true)")
    assert (row.versions, row.dry_run) == (4, True)
    assert len(dataset(spark, table).versions()) == 6
    (row,) = call(spark, f"vacuum({arguments})")
    assert row.versions == 4
    assert [version["version"] for version in dataset(spark, table).versions()] == [3, 6]
    assert spark.sql(f"SELECT count(*) AS n FROM lance.{table} VERSION AS OF 'keep'").first().n == 4
    (row,) = call(spark, f"remove_orphans('{table}')")
    assert row.data_files == 0


def test_restore_history_tags(spark: SparkSession, table: str) -> None:
    call(spark, f"create_tag(table => '{table}', tag => 'two', version => 2)")
    (row,) = call(spark, f"restore(table => '{table}', tag => 'two')")
    assert row.version == dataset(spark, table).version == 7
    assert spark.table(f"lance.{table}").count() == 2
    rows = call(spark, f"history('{table}')")
    assert [row.version for row in rows] == [7, 6, 5, 4, 3, 2, 1]
    assert [rows[0].operation, rows[1].operation, rows[1].added_rows] == ["restore", "append", 2]
    assert len(call(spark, f"history(table => '{table}', limit => 2)")) == 2
    call(spark, f"update_tag('{table}', 'two', 3)")
    assert [(row.name, row.branch, row.version) for row in call(spark, f"list_tags('{table}')")] == [("two", "main", 3)]
    assert dataset(spark, table).tags.list()["two"]["version"] == 3
    assert call(spark, f"drop_tag('{table}', 'two')") == [Row(name="two")]
    assert call(spark, f"list_tags('{table}')") == []
    with pytest.raises(AnalysisException, match="two"):
        call(spark, f"drop_tag('{table}', 'two')")
    call(spark, f"drop_tag(table => '{table}', tag => 'two', if_exists => true)")


def test_branches_are_written_by_name(spark: SparkSession, table: str) -> None:
    (row,) = call(spark, f"create_branch(table => '{table}', branch => 'dev', version => 3)")
    assert (row.name, row.parent_branch, row.parent_version) == ("dev", "main", 3)
    assert spark.table(f"lance.{table}.branch_dev").count() == 4
    spark.sql(f"INSERT INTO lance.{table}.branch_dev VALUES (100, 'dev')")
    assert spark.table(f"lance.{table}.branch_dev").count() == 5
    assert spark.table(f"lance.{table}").count() == 10
    assert spark.read.option("branch", "dev").table(f"lance.{table}").count() == 5
    assert dataset(spark, table).checkout_version(("dev", None)).count_rows() == 5
    assert [row.name for row in call(spark, f"list_branches('{table}')")] == ["dev"]
    call(spark, f"create_branch(table => '{table}', branch => 'dev', if_not_exists => true)")
    assert call(spark, f"drop_branch('{table}', 'dev')") == [Row(name="dev")]
    assert call(spark, f"list_branches('{table}')") == []


def test_a_primary_key_is_set_once(spark: SparkSession, table: str) -> None:
    with pytest.raises(AnalysisException, match="allows nulls"):
        call(spark, f"set_primary_key('{table}', array('name'))")
    (row,) = call(spark, f"set_primary_key('{table}', array('id'))")
    assert (row.status, row.primary_key_columns, dataset(spark, table).version) == ("OK", "id", 7)
    assert dataset(spark, table).schema.field("id").metadata[b"lance-schema:unenforced-primary-key"] == b"true"
    (row,) = call(spark, f"set_primary_key('{table}', array('id'))")
    assert (row.status, dataset(spark, table).version) == ("OK", 7)


def test_columns_from_a_view(spark: SparkSession, table: str) -> None:
    files = {file.path for part in dataset(spark, table).get_fragments() for file in part.data_files()}
    view = f"SELECT _rowaddr, id * 2 AS twice, struct(id AS a) AS s FROM lance.{table} WHERE id <> 3"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW doubled AS {view}")
    (row,) = call(spark, f"add_columns_from('{table}', 'doubled', array('twice', 's'))")
    now = dataset(spark, table)
    assert (row.version, row.fragments, now.version) == (7, 5, 7)
    expected = [{"id": i, "twice": None if i == 3 else 2 * i, "s": None if i == 3 else {"a": i}} for i in range(10)]
    assert now.to_table(columns=["id", "twice", "s"]).to_pylist() == expected
    assert files < {file.path for part in now.get_fragments() for file in part.data_files()}
    spark.sql(f"SELECT _rowaddr, -id AS twice FROM lance.{table} WHERE id < 3").createOrReplaceTempView("negated")
    (row,) = call(spark, f"update_columns_from('{table}', 'negated', array('twice'))")
    assert (row.version, row.fragments) == (8, 2)
    values = dataset(spark, table).to_table(columns=["twice"])["twice"].to_pylist()
    assert values == [0, -1, -2, None, 8, 10, 12, 14, 16, 18]
    assert [row.twice for row in spark.table(f"lance.{table}").orderBy("id").collect()] == values


@pytest.mark.since("4.1", "views that read the newest version")
def test_a_view_that_is_older_than_the_rows_are_where_they_are(spark: SparkSession, table: str) -> None:
    spark.table(f"lance.{table}").selectExpr("_rowaddr", "id AS copy").createOrReplaceTempView("old_addresses")
    call(spark, f"optimize('{table}')")
    call(spark, f"add_columns_from('{table}', 'old_addresses', array('copy'))")
    rows = dataset(spark, table).to_table(columns=["id", "copy"]).to_pylist()
    assert [row["copy"] for row in rows] == [row["id"] for row in rows] == list(range(10))


def test_errors_name_what_is_wrong(spark: SparkSession, table: str) -> None:
    with pytest.raises(AnalysisException, match="there is no table"):
        call(spark, "optimize('nowhere.t')")
    with pytest.raises(PySparkException, match=r"there is no procedure optimise; .* lists those that are there"):
        call(spark, f"optimise('{table}')")


@pytest.mark.since("4.1", "SHOW PROCEDURES")
def test_procedures_are_shown(spark: SparkSession) -> None:
    names = [row.procedure_name for row in spark.sql("SHOW PROCEDURES IN lance.system").collect()]
    assert {"optimize", "vacuum", "restore", "history"} <= set(names)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("history('{}', -1)", "there are no -1 versions to show"),
        ("vacuum(table => '{}', before_timestamp_millis => 99999999999999999)", "which is not a valid time"),
        ("vacuum(table => '{}', before_version => 99)", "before 99 cannot be removed, .* from 1 to 6"),
        ("vacuum(table => '{}', before_version => 0)", "before 0 cannot be removed, .* from 1 to 6"),
        ("vacuum(table => '{}', days => 1e9)", "parameter days: the calendar does not go back"),
        ("vacuum(table => '{}', days => double('nan'))", "parameter days: the calendar does not go back"),
        ("remove_orphans('{}', 800000)", "parameter days: the calendar does not go back"),
        ("set_primary_key('{}', array('id', NULL))", "parameter columns has a null in it"),
    ],
)
def test_arguments_out_of_range(spark: SparkSession, table: str, text: str, message: str) -> None:
    with pytest.raises(AnalysisException, match=message):
        call(spark, text.format(table))
    assert dataset(spark, table).version == 6


@pytest.mark.since("4.1", "cached plans that read the newest version")
def test_cached_tables_see_what_procedures_change(spark: SparkSession, table: str) -> None:
    name = f"lance.{table}"
    spark.sql(f"CACHE TABLE {name}")
    assert spark.table(name).count() == 10
    call(spark, f"restore('{table}', 2)")
    assert spark.table(name).count() == 2
    spark.sql(f"RESTORE {name} TO VERSION 6")
    assert spark.table(name).count() == 10
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW doubled AS SELECT _rowaddr, id * 2 AS twice FROM {name}")
    spark.sql(f"ALTER TABLE {name} ADD COLUMNS twice FROM doubled")
    assert spark.table(name).agg({"twice": "sum"}).first()[0] == 90
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW ones AS SELECT _rowaddr, 1L AS twice FROM {name}")
    call(spark, f"update_columns_from('{name}', 'ones', array('twice'))")
    assert spark.table(name).agg({"twice": "sum"}).first()[0] == 10
    addresses = [row[0] for row in spark.table(name).select("_rowaddr").collect()]
    call(spark, f"optimize('{table}')")
    assert set(addresses).isdisjoint(row[0] for row in spark.table(name).select("_rowaddr").collect())
    assert spark.catalog.isCached(name)
    spark.sql(f"UNCACHE TABLE {name}")


def test_columns_of_a_view_in_any_case(spark: SparkSession, table: str) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW louder AS SELECT _rowaddr, upper(name) AS NAME FROM lance.{table}")
    with pytest.raises(AnalysisException, match="the table has a column 'name'"):
        call(spark, f"add_columns_from('{table}', 'louder', array('NAME'))")
    with pytest.raises(AnalysisException, match="are not columns to write"):
        call(spark, f"add_columns_from('{table}', 'louder', array('NAME', 'name'))")
    (row,) = call(spark, f"update_columns_from('{table}', 'louder', array('Name'))")
    assert row.columns == ["name"]
    assert dataset(spark, table).schema.names == ["id", "name"]
    assert spark.table(f"lance.{table}").where("name = 'N3'").count() == 1
