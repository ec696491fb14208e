"""`format("lance")` by path: modes, pushdown, time travel."""

from __future__ import annotations

import lance
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from tests.support.connector.plans import plan


def numbers(spark: SparkSession, stop: int = 100, start: int = 0) -> DataFrame:
    return spark.range(start, stop, numPartitions=2).selectExpr(
        "id", "concat('n', id) AS name", "struct(id AS x, id * 2 AS y) AS point"
    )


def read(spark: SparkSession, uri: str, **options: str) -> DataFrame:
    return spark.read.format("lance").options(**options).load(uri)


@pytest.mark.slow
def test_the_default_mode_makes_the_table_and_refuses_to_do_it_again(spark: SparkSession, uri: str) -> None:
    numbers(spark).write.format("lance").save(uri)
    assert lance.dataset(uri).version == 1
    assert sorted(lance.dataset(uri).to_table()["id"].to_pylist()) == list(range(100))
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        numbers(spark).write.format("lance").save(uri)
    numbers(spark).write.format("lance").mode("ignore").save(uri)
    assert lance.dataset(uri).version == 1


@pytest.mark.parametrize("mode", ["append", "overwrite", "ignore"])
def test_every_mode_makes_a_missing_table(spark: SparkSession, uri: str, mode: str) -> None:
    numbers(spark).write.format("lance").mode(mode).save(uri)
    assert lance.dataset(uri).version == 1
    assert lance.dataset(uri).count_rows() == 100


def test_append_adds_and_overwrite_replaces_rows_and_columns(spark: SparkSession, uri: str) -> None:
    numbers(spark).write.format("lance").save(uri)
    numbers(spark, 110, 100).write.format("lance").mode("append").save(uri)
    assert lance.dataset(uri).version == 2
    assert sorted(lance.dataset(uri).to_table()["id"].to_pylist()) == list(range(110))
    spark.range(3).selectExpr("id AS other").write.format("lance").mode("overwrite").save(uri)
    assert lance.dataset(uri).version == 3
    assert lance.dataset(uri).to_table().to_pydict() == {"other": [0, 1, 2]}
    assert read(spark, uri).columns == ["other"]


def test_an_append_without_rows_makes_no_version(spark: SparkSession, uri: str) -> None:
    numbers(spark).write.format("lance").save(uri)
    numbers(spark).where("id < 0").write.format("lance").mode("append").save(uri)
    assert lance.dataset(uri).version == 1


def test_columns_and_filters_are_pushed(spark: SparkSession, uri: str) -> None:
    numbers(spark).write.format("lance").save(uri)
    frame = read(spark, uri).where("id >= 95 AND name LIKE 'n9%' AND point.x < 98").select("point.y")
    assert sorted(row.y for row in frame.collect()) == [190, 192, 194]
    text = plan(frame)
    assert "columns=[point<y>]" in text
    assert "point.x < 98" in text
    assert "Filter" not in text.replace("RuntimeFilters", "")
    assert frame.schema.simpleString() == "struct<y:bigint>"


def test_what_is_not_exact_stays_with_spark(spark: SparkSession, uri: str) -> None:
    numbers(spark).write.format("lance").save(uri)
    frame = read(spark, uri).where("id % 10 = 3 AND id > 50")
    assert sorted(row.id for row in frame.collect()) == [53, 63, 73, 83, 93]
    assert "Filter" in plan(frame).replace("RuntimeFilters", "")
    assert "filters=[id IS NOT NULL AND id > 50]" in plan(frame)


@pytest.mark.slow
def test_two_branches_of_a_query_keep_their_own_filters(spark: SparkSession, uri: str) -> None:
    numbers(spark).write.format("lance").save(uri)
    table = read(spark, uri)
    assert table.where("id = 7").count() == 1
    assert table.count() == 100
    both = table.where("id < 10").unionAll(table.where("id >= 98")).unionAll(table)
    assert both.count() == 112
    assert sorted(row.id for row in table.where("id < 3").join(table.where("id > 1"), "id").collect()) == [2]


def test_limit_reads_only_the_fragments_that_it_needs(spark: SparkSession, uri: str) -> None:
    numbers(spark).write.format("lance").save(uri)
    frame = read(spark, uri).limit(5)
    assert len(frame.collect()) == 5
    assert "limit=5 fragments=1/2" in plan(frame)
    assert len(read(spark, uri).where("id > 90").limit(5).collect()) == 5
    assert len(read(spark, uri).offset(90).collect()) == 10


def test_metadata_columns(spark: SparkSession, uri: str) -> None:
    numbers(spark).write.format("lance").save(uri)
    expected = lance.dataset(uri).to_table(columns=["id"], with_row_address=True, with_row_id=True)
    frame = read(spark, uri).select("id", "_rowid", "_rowaddr", "_fragid")
    rows = {row.id: (row._rowid, row._rowaddr) for row in frame.collect()}
    columns = expected.to_pydict()
    assert rows == dict(zip(columns["id"], zip(columns["_rowid"], columns["_rowaddr"], strict=True), strict=True))
    assert read(spark, uri).columns == ["id", "name", "point"]


def test_time_travel(spark: SparkSession, uri: str) -> None:
    numbers(spark).write.format("lance").save(uri)
    lance.dataset(uri).tags.create("first", 1)
    numbers(spark, 110, 100).write.format("lance").mode("append").save(uri)
    assert read(spark, uri, version="1").count() == 100
    assert read(spark, uri, tag="first").count() == 100
    assert read(spark, uri, versionAsOf="1").count() == 100
    for moment in ("1", "'first'"):
        assert spark.sql(f"SELECT * FROM lance.`{uri}` VERSION AS OF {moment}").count() == 100
    second = lance.dataset(uri, version=2).versions()[-1]["timestamp"]
    query = f"SELECT * FROM lance.`{uri}` TIMESTAMP AS OF '{second.isoformat()}'"
    assert spark.sql(query).count() in (100, 110)
    assert spark.sql(f"SELECT * FROM lance.`{uri}`").count() == 110


def test_errors_are_one_line_with_a_condition(spark: SparkSession, uri: str) -> None:
    with pytest.raises(AnalysisException, match="there is no Lance table") as missing:
        read(spark, uri)
    assert missing.value.getCondition() == "LANCE_NOT_FOUND"
    assert missing.value.getSqlState() == "42704"
    assert "Traceback" not in str(missing.value)
    numbers(spark).write.format("lance").save(uri)
    with pytest.raises(AnalysisException, match="did you mean version"):
        read(spark, uri, versoin="1")


def test_a_dataframe_reads_the_version_that_it_was_made_of(spark: SparkSession, uri: str) -> None:
    numbers(spark).write.format("lance").save(uri)
    frame = read(spark, uri).where("id >= 0")
    assert frame.count() == 100
    spark.range(3).selectExpr("id AS other").write.format("lance").mode("overwrite").save(uri)
    assert [row.n for row in spark.sql(f"SELECT count(*) AS n FROM lance.`{uri}`").collect()] == [3]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM {}",
        "SELECT * FROM {} VERSION AS OF 3",
        "SELECT * FROM {}.files",
        "DELETE FROM {}",
        "UPDATE {} SET id = 1",
        "INSERT INTO {} VALUES (1)",
        "MERGE INTO {} AS t USING (SELECT 1L AS id) AS s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "CREATE OR REPLACE TEMPORARY VIEW never AS SELECT * FROM {}",
    ],
)
def test_a_missing_path_is_named(spark: SparkSession, uri: str, statement: str) -> None:
    with pytest.raises(AnalysisException) as raised:
        spark.sql(statement.format(f"lance.`{uri}`")).collect()
    assert raised.value.getCondition() == "LANCE_NOT_FOUND"
    assert f"there is no Lance table at {uri} " in str(raised.value)


def test_who_asks_whether_a_path_is_there_gets_an_answer(spark: SparkSession, uri: str) -> None:
    assert not spark.catalog.tableExists(f"lance.`{uri}`")
    spark.sql(f"DROP TABLE IF EXISTS lance.`{uri}`")
    spark.range(3).write.mode("append").saveAsTable(f"lance.`{uri}`")
    spark.range(3, 5).write.mode("append").saveAsTable(f"lance.`{uri}`")
    assert spark.table(f"lance.`{uri}`").count() == 5
    assert spark.catalog.tableExists(f"lance.`{uri}`")


def test_a_name_in_a_catalog_that_is_called_as_the_source_is_no_path(spark: SparkSession) -> None:
    for statement in (
        "SELECT * FROM lance.missing",
        "DELETE FROM lance.missing",
        "INSERT INTO lance.missing VALUES (1)",
    ):
        with pytest.raises(AnalysisException, match=r"(?i)table or view .*missing.* cannot be found") as raised:
            spark.sql(statement)
        assert raised.value.getCondition() == "TABLE_OR_VIEW_NOT_FOUND"
    assert not spark.catalog.tableExists("lance.missing")
