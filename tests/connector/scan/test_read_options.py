"""Every option of a read, by path and by name; none is ignored in silence."""

from __future__ import annotations

from datetime import timedelta

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from lance_spark.spark.compat import SPARK
from tests.support.connector.plans import plan

MICROSECOND = timedelta(microseconds=1)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Version 1 has the ids 0 to 9 in two fragments and the tag `one`, version 2 ten more in a third."""
    where = str(tmp_path_factory.mktemp("options") / "t")
    rows = [{"id": row, "name": f"n{row}", "p": {"x": row, "y": -row}} for row in range(20)]
    lance.write_dataset(pa.Table.from_pylist(rows[:10]), where, max_rows_per_file=5)
    lance.dataset(where).tags.create("one", 1)
    lance.write_dataset(pa.Table.from_pylist(rows[10:]), where, mode="append")
    return where


@pytest.fixture(scope="module")
def moments(uri: str) -> dict[str, str]:
    """When each version was there; the reference's times are off by a microsecond now and then."""
    versions = lance.dataset(uri).versions()
    return {str(item["version"]): f"{(item['timestamp'] + MICROSECOND).isoformat()}Z" for item in versions}


def read(spark: SparkSession, uri: str, **options: str) -> DataFrame:
    return spark.read.format("lance").options(**options).load(uri)


@pytest.mark.parametrize(
    ("options", "columns", "ids"),
    [
        ({"version": "1"}, "id name p", range(10)),
        ({"TAG": "one"}, "id name p", range(10)),
        ({"timestampAsOf": "2999-01-01"}, "id name p", range(20)),
        ({"columns": "p.y,id", "with_row_id": "true"}, "p id _rowid", range(20)),
        ({"filter": "id < 3 AND p.y <> -1", "with_row_address": "true"}, "id name p _rowaddr", [0, 2]),
        ({"limit": "7"}, "id name p", range(7)),
        ({"batch_size": "1", "max_batch_bytes": "1", "storage.allow_http": "true"}, "id name p", range(20)),
        ({"pushDownFilters": "true", "topN_push_down": "true"}, "id name p", range(20)),
    ],
)
def test_options(spark: SparkSession, uri: str, options: dict[str, str], columns: str, ids: list[int]) -> None:
    frame = read(spark, uri, **options)
    assert frame.columns == columns.split()
    assert sorted(row.id for row in frame.collect()) == list(ids)


def test_the_version_of_a_moment(spark: SparkSession, uri: str, moments: dict[str, str]) -> None:
    assert read(spark, uri, timestamp=moments["1"]).count() == 10
    assert read(spark, uri, timestamp=moments["2"]).count() == 20
    for number, count in (("1", 10), ("2", 20)):
        query = f"SELECT * FROM lance.`{uri}` TIMESTAMP AS OF '{moments[number]}'"
        assert spark.sql(query).count() == count
    with pytest.raises(AnalysisException, match="has no version from 2000-01-01"):
        read(spark, uri, timestamp="2000-01-01T00:00:00Z")


def test_how_much_a_task_and_a_batch_get(spark: SparkSession, uri: str) -> None:
    assert read(spark, uri).rdd.getNumPartitions() < 3
    assert read(spark, uri, target_partition_bytes="1").rdd.getNumPartitions() > 3
    frame = read(spark, uri, batch_size="2")
    frame.collect()
    leaf = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
    assert leaf.metrics().apply("batches_read").value() >= 10


def test_top_n_can_be_left_to_spark(spark: SparkSession, uri: str) -> None:
    for push, found in (("true", True), ("false", False)):
        frame = read(spark, uri, topN_push_down=push).orderBy("id").limit(2)
        assert ("top=2" in plan(frame)) is found
    assert [row.id for row in frame.collect()] == [0, 1]


def test_options_of_a_name_and_in_sql(spark: SparkSession, uri: str) -> None:
    name = f"lance.`{uri}`"
    assert spark.read.option("version", "1").table(name).count() == 10
    assert spark.sql(f"SELECT * FROM {name} WITH (`batch_size` = 3, tag = 'one')").count() == 10
    assert spark.read.option("filter", "id = 4").table(name).count() == 1


@pytest.mark.since("4.3", "options of tables by name that choose columns")
def test_columns_of_a_name(spark: SparkSession, uri: str) -> None:
    name = f"lance.`{uri}`"
    frame = spark.read.options(columns="p.x", with_row_id="true").table(name)
    assert (frame.columns, frame.schema["p"].dataType.simpleString()) == (["p", "_rowid"], "struct<x:bigint>")
    assert frame.where("p.x = 12").count() == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"versoin": "1"}, "unknown option versoin; did you mean version"),
        ({"version": "one"}, "is 'one', which is not an integer"),
        ({"version": "9"}, "has no version 9"),
        ({"tag": "two"}, "has no tag 'two'"),
        ({"branch": "dev"}, "has no branch 'dev'"),
        ({"version": "1", "tag": "one"}, "options version and tag both choose a version"),
        ({"max_row_per_file": "5"}, "is one of writes"),
        ({"batch_size": "0"}, "an integer of at least 1"),
        ({"topN_push_down": "maybe"}, "not true or false"),
        ({"block_size": "1"}, "there is no option block_size"),
        ({"use_scalar_index": "maybe"}, "not true or false"),
        ({"filter": "id >"}, "unexpected end of the filter"),
        ({"filter": "nope = 1"}, "nope"),
        ({"columns": "nope"}, "nope"),
    ],
)
def test_what_makes_no_sense_is_one_line(spark: SparkSession, uri: str, options: dict[str, str], message: str) -> None:
    by_name = "option columns to no table by name" if "columns" in options and SPARK < (4, 3) else message
    for load, expected in (
        (lambda reader: reader.format("lance").load(uri), message),
        (lambda reader: reader.table(f"lance.`{uri}`"), by_name),
    ):
        with pytest.raises(AnalysisException, match="LANCE_") as raised:
            load(spark.read.options(**options)).collect()
        text = str(raised.value)
        assert expected in text
        assert len(text.splitlines()) == 1, text
        assert raised.value.getCondition().startswith("LANCE_")


def test_what_is_no_table(spark: SparkSession, uri: str, tmp_path: object) -> None:
    spark.range(1).write.parquet(f"{tmp_path}/parquet")
    for place, message in (
        (f"{tmp_path}/nowhere", "there is no Lance table"),
        (f"{tmp_path}/parquet", "there is no Lance table"),
        (__file__, "there is no Lance table"),
        ("nobody://a/b", "no client is known for nobody://"),
        ([uri, uri], "several paths are given"),
        ("", "no path is given"),
    ):
        with pytest.raises(AnalysisException, match=message):
            spark.read.format("lance").load(place).collect()  # type: ignore[arg-type]
    with pytest.raises(AnalysisException, match="no path is given"):
        spark.range(1).write.format("lance").save()
