"""CREATE, DROP, SHOW, OPTIMIZE and REFRESH INDEX, and their procedures."""

from __future__ import annotations

import lance
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession

from tests.support.connector.plans import plan
from tests.support.connector.spark_jobs import jobs


@pytest.fixture(params=["", "PARTITIONED BY (p)"], ids=["plain", "partitioned"])
def table(spark: SparkSession, request: pytest.FixtureRequest) -> str:
    """2,000 rows in two inserts; its name with the catalog's."""
    name = f"lance.idx_{abs(hash(request.node.name)) % 10**8}.t"
    spark.sql(f"CREATE NAMESPACE {name.rsplit('.', 1)[0]}")
    spark.sql(f"CREATE TABLE {name} (id BIGINT, p INT, s STRING) USING lance {request.param}")
    insert(spark, name, 0, 1000)
    insert(spark, name, 1000, 2000)
    return name


def insert(spark: SparkSession, name: str, start: int, stop: int) -> None:
    rows = spark.range(start, stop, numPartitions=1).selectExpr("id", "int(id % 2) AS p", "concat('s', id % 50) AS s")
    rows.writeTo(name).append()


def fragments(spark: SparkSession, name: str) -> int:
    return spark.sql(f"SELECT * FROM {name}.fragments").count()


def run(spark: SparkSession, text: str) -> list[Row]:
    return spark.sql(text).collect()


@pytest.mark.slow
def test_life_of_an_index(spark: SparkSession, table: str) -> None:
    total = fragments(spark, table)
    (made,) = run(spark, f"ALTER TABLE {table} CREATE INDEX by_id USING btree (id) WITH (zone_size = 128)")
    assert made.asDict() == {"fragments_indexed": total, "index_name": "by_id"}
    run(spark, f"ALTER TABLE {table} CREATE INDEX `by s` USING bitmap (s) WITH (NUM_SEGMENTS = 2)")
    shown = run(spark, f"SHOW INDEXES IN {table}")
    assert [row.asDict() for row in shown] == [
        {
            "name": name,
            "fields": [column],
            "index_type": kind,
            "num_indexed_fragments": total,
            "num_indexed_rows": 2000,
            "num_unindexed_fragments": 0,
            "num_unindexed_rows": 0,
        }
        for name, column, kind in (("by s", "s", "bitmap"), ("by_id", "id", "btree"))
    ]
    lookup = spark.table(table).where("id = 77")
    assert "indexes=[by_id (BTREE)" in plan(lookup)
    assert [row.s for row in lookup.collect()] == ["s27"]

    insert(spark, table, 2000, 2200)
    added = fragments(spark, table) - total
    assert run(spark, f"SHOW INDEX FROM {table}")[1].num_unindexed_rows == 200
    (refreshed,) = run(spark, f"ALTER TABLE {table} REFRESH INDEX by_id")
    assert (refreshed.fragments_indexed, refreshed.index_name) == (added, "by_id")
    assert refreshed.segments_added == added
    (optimized,) = run(spark, f"ALTER TABLE {table} OPTIMIZE INDEX `by s`")
    assert (optimized.index_name, optimized.fragments_indexed) == ("by s", added)
    assert all(row.num_unindexed_rows == 0 for row in run(spark, f"SHOW INDEXES IN {table}"))
    assert spark.table(table).where("s = 's7'").count() == 44

    (dropped,) = run(spark, f"ALTER TABLE {table} DROP INDEX by_id")
    assert dropped.asDict() == {"index_name": "by_id", "status": "dropped"}
    assert [row.name for row in run(spark, f"SHOW INDEXES IN {table}")] == ["by s"]
    assert run(spark, f"ALTER TABLE {table} DROP INDEX IF EXISTS by_id")[0].status == "absent"
    assert run(spark, f"DROP INDEX IF EXISTS by_id ON TABLE {table}")[0].status == "absent"
    (dropped,) = run(spark, f"DROP INDEX `by s` ON {table}")
    assert dropped.asDict() == {"index_name": "by s", "status": "dropped"}
    assert run(spark, f"SHOW INDEXES IN {table}") == []


@pytest.mark.parametrize("layout", ["", "PARTITIONED BY (p)"], ids=["plain", "partitioned"])
def test_an_index_is_created_before_there_are_rows(spark: SparkSession, layout: str) -> None:
    empty = f"lance.idx_empty_{len(layout)}.t"
    run(spark, f"CREATE NAMESPACE {empty.rsplit('.', 1)[0]}")
    run(spark, f"CREATE TABLE {empty} (id BIGINT, p INT, s STRING) USING lance {layout}")
    (made,) = run(spark, f"CREATE INDEX by_id ON {empty} USING btree (id)")
    assert made.asDict() == {"fragments_indexed": 0, "index_name": "by_id"}
    run(spark, f"CREATE INDEX by_s ON {empty} USING bitmap (s)")
    assert [row.asDict() for row in run(spark, f"DROP INDEX IF EXISTS by_s ON {empty}")] == [
        {"index_name": "by_s", "status": "dropped"}
    ]
    run(spark, f"CREATE INDEX IF NOT EXISTS by_id ON {empty} USING bitmap (s)")
    (shown,) = run(spark, f"SHOW INDEXES IN {empty}")
    assert (shown.name, shown.fields, shown.index_type, shown.num_unindexed_rows) == ("by_id", ["id"], "btree", 0)
    insert(spark, empty, 0, 100)
    run(spark, f"ALTER TABLE {empty} OPTIMIZE INDEX by_id")
    (shown,) = run(spark, f"SHOW INDEXES IN {empty}")
    assert (shown.index_type, shown.num_indexed_rows, shown.num_unindexed_rows) == ("btree", 100, 0)
    assert "indexes=[by_id (BTREE)" in plan(spark.table(empty).where("id = 77"))


@pytest.mark.slow
@pytest.mark.parametrize("table", ["PARTITIONED BY (p)"], ids=["partitioned"], indirect=True)
def test_an_index_is_built_again_after_all_partitions_were_removed(spark: SparkSession, table: str) -> None:
    run(spark, f"ALTER TABLE {table} CREATE INDEX by_id USING btree (id) WITH (zone_size = 128)")
    run(spark, f"DELETE FROM {table}")
    (shown,) = run(spark, f"SHOW INDEXES IN {table}")
    assert (shown.name, shown.index_type, shown.num_indexed_rows) == ("by_id", "btree", 0)
    insert(spark, table, 0, 1000)
    (optimized,) = run(spark, f"ALTER TABLE {table} OPTIMIZE INDEX by_id")
    assert optimized.fragments_indexed == fragments(spark, table)
    (shown,) = run(spark, f"SHOW INDEXES IN {table}")
    assert (shown.name, shown.num_indexed_rows, shown.num_unindexed_rows) == ("by_id", 1000, 0)
    run(spark, f"DELETE FROM {table}")
    assert run(spark, f"ALTER TABLE {table} DROP INDEX by_id")[0].status == "dropped"
    assert run(spark, f"ALTER TABLE {table} DROP INDEX IF EXISTS by_id")[0].status == "absent"


def test_indexes_in_the_words_of_spark(spark: SparkSession, table: str) -> None:
    run(spark, f"CREATE INDEX by_id ON TABLE {table} USING zonemap (id) OPTIONS (rows_per_zone = 64)")
    run(spark, f"CREATE INDEX IF NOT EXISTS by_id ON {table} USING btree (s)")
    run(spark, f"CREATE INDEX `by s` ON {table} (s)")
    shown = {row.name: (row.fields, row.index_type) for row in run(spark, f"SHOW INDEXES IN {table}")}
    assert shown == {"by_id": (["id"], "zonemap"), "by s": (["s"], "btree")}
    run(spark, f"DROP INDEX by_id ON {table}")
    assert [row.name for row in run(spark, f"SHOW INDEXES IN {table}")] == ["by s"]
    with pytest.raises(AnalysisException, match="no kind of index 'tree'"):
        run(spark, f"CREATE INDEX n ON {table} USING tree (id)")


@pytest.mark.parametrize(
    "options",
    [
        "OPTIONS ('rows_per_zone' = '64')",
        "OPTIONS ('rows_per_zone' '64', num_segments 1)",
        'options ("Rows_Per_Zone"=64)',
        "WITH (`rows_per_zone` = 64, num_segments = NULL)",
    ],
)
def test_options_of_indexes_are_written_as_in_spark(spark: SparkSession, table: str, options: str) -> None:
    run(spark, f"CREATE INDEX by_id ON {table} USING zonemap (id) {options}")
    (shown,) = run(spark, f"SHOW INDEXES IN {table}")
    assert (shown.name, shown.index_type) == ("by_id", "zonemap")
    with pytest.raises(AnalysisException, match="rows_per_zon"):
        run(spark, f"CREATE INDEX other ON {table} USING zonemap (id) {options.lower().replace('zone', 'zon')}")
    with pytest.raises(AnalysisException, match="is given twice"):
        run(spark, f"CREATE INDEX other ON {table} USING zonemap (id) OPTIONS ('a=b' 1, a 2)")


def test_procedures_and_existing_names(spark: SparkSession, table: str) -> None:
    arguments = f"table => '{table}', name => 'n', kind => 'ZONEMAP', columns => array('id')"
    (made,) = run(spark, f"CALL lance.system.create_index({arguments}, options => array('rows_per_zone=100'))")
    assert made.index_name == "n"
    (kept,) = run(spark, f"ALTER TABLE {table} CREATE INDEX IF NOT EXISTS n USING zonemap (id)")
    assert kept.fragments_indexed == 0
    (replaced,) = run(spark, f"ALTER TABLE {table} CREATE INDEX n USING zonemap (id)")
    assert replaced.fragments_indexed == fragments(spark, table)
    (shown,) = run(spark, f"CALL lance.system.show_indexes('{table}')")
    assert shown.index_type == "zonemap"
    assert run(spark, f"CALL lance.system.drop_index('{table}', 'n')")[0].status == "dropped"


@pytest.mark.parametrize("verb", ["OPTIMIZE", "REFRESH"])
def test_new_segments_are_written_by_tasks(spark: SparkSession, table: str, verb: str) -> None:
    run(spark, f"ALTER TABLE {table} CREATE INDEX by_id USING btree (id)")
    insert(spark, table, 2000, 2200)
    statement = f"ALTER TABLE {table} {verb} INDEX by_id"
    assert jobs(spark, lambda: run(spark, statement))[0] == 1
    assert jobs(spark, lambda: run(spark, statement))[0] == 0, "no segment, no job"
    assert [row.s for row in spark.table(table).where("id = 2127").collect()] == ["s27"]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE INDEX n USING btree (nope)", "nope"),
        ("CREATE INDEX n USING heap (id)", "heap"),
        ("CREATE INDEX n USING fts (s) WITH (with_positions = true)", "document_granularity, .*with_position"),
        ("CREATE INDEX n USING btree (id, s)", "an index is on one column; 2 are given: id, s"),
        ("CREATE INDEX n USING btree (id) WITH (nonsense = 3)", "nonsense"),
        ("CREATE INDEX n USING btree (id) WITH (num_segments = 0)", "num_segments is 0"),
        ("CREATE INDEX n USING label_list (id)", "label_list|LABEL_LIST"),
        ("DROP INDEX n", "'n'"),
        ("OPTIMIZE INDEX n", "'n'"),
    ],
)
def test_refused_in_one_sentence(spark: SparkSession, table: str, statement: str, message: str) -> None:
    with pytest.raises(AnalysisException, match=message) as raised:
        run(spark, f"ALTER TABLE {table} {statement}")
    assert len(str(raised.value).splitlines()) == 1


def test_reference_library_uses_indexes_built_by_tasks(spark: SparkSession) -> None:
    spark.sql("CREATE NAMESPACE lance.idx_reference")
    spark.sql("CREATE TABLE lance.idx_reference.t (id BIGINT, p INT, s STRING) USING lance")
    for start in range(0, 3000, 1000):
        insert(spark, "lance.idx_reference.t", start, start + 1000)
    run(spark, "ALTER TABLE lance.idx_reference.t CREATE INDEX n USING btree (id) WITH (num_segments = 3)")
    rows = spark.sql("DESCRIBE EXTENDED lance.idx_reference.t").where("col_name = 'Location'").collect()
    dataset = lance.dataset(rows[0].data_type)
    assert "ScalarIndexQuery" in dataset.scanner(filter="id = 2500").explain_plan(True)
    assert dataset.to_table(filter="id IN (5, 1500, 2500)")["id"].to_pylist() == [5, 1500, 2500]
    assert dataset.stats.index_stats("n")["num_indexed_rows"] == 3000


@pytest.mark.slow
@pytest.mark.parametrize("partitioned", ["", "PARTITIONED BY (p)"], ids=["plain", "partitioned"])
def test_names_of_indexed_fields_can_be_written_back(spark: SparkSession, partitioned: str) -> None:
    name = f"lance.named_fields_{'parts' if partitioned else 'plain'}"
    members = ("plain", "odd.name", "a b", "tick`s")
    declared = ", ".join(f"`{member.replace('`', '``')}`: INT" for member in members)
    run(spark, f"CREATE TABLE {name} (p INT, `top level` INT, s STRUCT<{declared}>) {partitioned}")
    run(spark, f"INSERT INTO {name} VALUES (1, 1, struct(1, 2, 3, 4))")
    written = ["`top level`", "s.plain", "s.`odd.name`", "s.`a b`", "s.`tick``s`"]
    for place, column in enumerate(written):
        run(spark, f"CREATE INDEX i{place} ON {name} ({column})")
    expected = {f"i{place}": [column] for place, column in enumerate(written)}
    assert {row.name: row.fields for row in run(spark, f"SHOW INDEXES IN {name}")} == expected
    assert {
        row.name: row.fields for row in run(spark, f"SELECT name, columns AS fields FROM {name}.indexes")
    } == expected
    for column in written:
        assert run(spark, f"SELECT {column} FROM {name} WHERE {column} IS NOT NULL")
    run(spark, f"DROP TABLE {name} PURGE")
