"""Full-text search in SQL."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import LongType

import lance_spark
from lance_spark.index.text.queries import MatchQuery, PhraseQuery, TextQuery


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> str:
    spark.sql("CREATE NAMESPACE lance.search")
    name = "lance.search.t"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, title STRING, body STRING) USING lance")
    spark.sql(
        f"INSERT INTO {name} VALUES (1, 'red apple', 'a rose'), (2, 'green apple', NULL), "
        "(3, 'red red rose', 'thorns'), (4, NULL, NULL), (5, 'it is blue', 'red sky')"
    )
    return name


def expected(spark: SparkSession, table: str, words: str | TextQuery, **options: object) -> list[tuple[object, ...]]:
    location = spark.sql(f"DESCRIBE EXTENDED {table}").where("col_name = 'Location'").first()
    found = lance_spark.open(location.data_type).search(words, **options)  # type: ignore[arg-type, union-attr]
    return [tuple(row.values()) for row in found.to_pylist()]


def test_call(spark: SparkSession, table: str) -> None:
    rows = spark.sql(f"CALL lance.system.search(table => '{table}', query => 'red apple')").collect()
    assert [tuple(row) for row in rows] == expected(spark, table, "red apple")
    assert {row.id for row in rows} == {1, 2, 3, 5}
    rows = spark.sql(
        f"CALL lance.system.search(table => '{table}', query => 'red', search_columns => array('body'), "
        "columns => array('id'), filter => 'id > 3', limit => 5)"
    ).collect()
    assert [row.id for row in rows] == [5]


@pytest.mark.parametrize("name", ["search", "lance_search"])
def test_table_function(spark: SparkSession, table: str, name: str) -> None:
    rows = spark.sql(f"SELECT * FROM {name}('{table}', 'red apple', 2) ORDER BY _score DESC").collect()
    assert [tuple(row) for row in rows] == expected(spark, table, "red apple", limit=2)
    named = spark.sql(
        f"SELECT s.id, t.body FROM {name}(table => '{table}', query => 'apple', search_columns => array('title'), "
        f"limit => 10, offset => 1) s JOIN {table} t ON s.id = t.id WHERE _score > 0"
    )
    assert named.count() == 1
    twice = spark.sql(f"SELECT a.id FROM {name}('{table}', 'red') a JOIN {name}('{table}', 'rose') b ON a.id = b.id")
    assert sorted(row.id for row in twice.collect()) == [1, 3]
    quoted = spark.sql(f"SELECT id FROM {name}(:name, :words)", args={"name": table, "words": "it's \\'blue' \\\\"})
    assert [row.id for row in quoted.collect()] == [5]


OPTIONS: dict[str, tuple[str, str, TextQuery]] = {
    "operator": ("red rose", "operator => 'and'", MatchQuery("red rose", operator="AND")),
    "fuzziness": ("rde", "fuzziness => 2, prefix_length => 1", MatchQuery("rde", fuzziness=2, prefix_length=1)),
    "auto": (
        "appll",
        "fuzziness => 'auto', max_expansions => 7",
        MatchQuery("appll", fuzziness=None, max_expansions=7),
    ),
    "boost": ("red", "boost => 2.5", MatchQuery("red", boost=2.5)),
    "phrase": ("red rose", "phrase => true", PhraseQuery("red rose")),
    "slop": ("red rose", "slop => 1", PhraseQuery("red rose", slop=1)),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_options_of_words(spark: SparkSession, table: str, case: str) -> None:
    words, options, query = OPTIONS[case]
    found = spark.sql(f"SELECT * FROM search('{table}', '{words}', {options})").collect()
    assert found
    assert [tuple(row) for row in found] == expected(spark, table, query)
    called = options.replace("=> 2,", "=> '2',")
    rows = spark.sql(f"CALL lance.system.search(table => '{table}', query => '{words}', {called})").collect()
    assert [tuple(row) for row in rows] == [tuple(row) for row in found]


def test_name_of_the_current_catalog(spark: SparkSession, table: str) -> None:
    spark.sql("USE lance.search")
    try:
        assert spark.sql("SELECT * FROM search('t', 'thorns')").first().id == 3
    finally:
        spark.sql("USE spark_catalog.default")


def test_types_of_the_result(spark: SparkSession) -> None:
    values = {
        "words": "one two",
        "n": 3,
        "f": float("nan"),
        "d": Decimal("1.50"),
        "day": date(2024, 2, 29),
        "at": datetime(2024, 2, 29, 12, 30, 1, 5, tzinfo=timezone.utc),
        "raw": bytearray(b"\x00\xff"),
        "flag": True,
        "items": ["a", None],
        "nested": Row(a=1, b="two"),
        "nothing": None,
    }
    schema = (
        "words STRING, n INT, f DOUBLE, d DECIMAL(9, 2), day DATE, at TIMESTAMP, raw BINARY, flag BOOLEAN, "
        "items ARRAY<STRING>, nested STRUCT<a: BIGINT, b: STRING>, nothing STRING"
    )
    spark.createDataFrame([Row(**values)], schema).writeTo("lance.search.kinds").using("lance").create()
    found = spark.sql("SELECT * FROM search('lance.search.kinds', 'two')").drop("_score")
    assert str(found.collect()) == str(spark.table("lance.search.kinds").collect())
    some = spark.sql(
        "SELECT * FROM search('lance.search.kinds', 'two', columns => array('nested.b', 'n'), with_row_id => true, "
        "version => 1)"
    )
    assert some.columns == ["nested", "n", "_score", "_rowid"]
    assert some.schema["_rowid"].dataType == LongType()
    assert [(row["nested"], row["n"], row["_rowid"]) for row in some.collect()] == [(Row(b="two"), 3, 0)]
    assert spark.sql("SELECT count(*) FROM search('lance.search.kinds', 'two')").first()[0] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("'{}'", "query"),
        ("'{}', 'x', 10, 'more'", "search takes 3 arguments without names"),
        ("'{}', 'x', query => 'y'", "search has its argument query twice"),
        ("query => 'x', '{}'", "without a name after one with a name"),
        ("'{}', concat('x', rand())", "search takes constants"),
        ("'{}', 'x', colour => 'red'", "colour"),
        ("'{}', 'x', search_columns => array('nope')", "nope"),
        ("'spark_catalog.default.t', 'x'", "no Lance catalog"),
        ("'lance.search.nothing', 'x'", "nothing"),
        ("query => 'x'", "takes the name of a table first"),
        ("'{}', 'x', operator => 'XOR'", "operator 'XOR' of search is not OR or AND"),
        ("'{}', 'x', fuzziness => 11", "fuzziness '11' of search is not a whole number from 0 to 10"),
        ("'{}', 'x', max_expansions => 0", "max_expansions '0' of search is not a whole number from 1"),
        ("'{}', 'x', boost => -1", "boost '-1' of search is not a number >= 0"),
        ("'{}', 'x', slop => -1", "slop -1 is not a whole number from 0"),
        ("'{}', 'x', phrase => true, operator => 'AND'", "search takes no operator for a phrase"),
        ("'{}', 'x', phrase => false, slop => 1", "search has a slop, which is for phrases"),
    ],
)
def test_bad_arguments_are_refused(spark: SparkSession, table: str, arguments: str, message: str) -> None:
    with pytest.raises(PySparkException, match=message) as caught:
        spark.sql(f"SELECT * FROM search({arguments.format(table)})").collect()
    assert caught.value.getCondition() is not None


def test_results_of_a_search_are_a_table_that_is_searched_without_its_score(spark: SparkSession, table: str) -> None:
    name = "lance.search.found"
    spark.sql(f"CREATE TABLE {name} AS SELECT 1L AS id, 'red' AS t, 0.5F AS _score")
    with pytest.raises(PySparkException, match="has a column _score, and so has the table") as caught:
        spark.sql(f"SELECT * FROM search('{name}', 'red')").collect()
    assert caught.value.getCondition() == "LANCE_INVALID_INPUT"
    found = spark.sql(f"SELECT * FROM search('{name}', 'red', columns => array('id'))").collect()
    assert [row.id for row in found] == [1]


def test_partitioned_table(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE lance.search.p (id BIGINT, p STRING, t STRING) USING lance PARTITIONED BY (p)")
    spark.sql("INSERT INTO lance.search.p VALUES (1, 'a', 'red'), (2, 'b', 'red rose'), (3, 'b', 'blue')")
    rows = spark.sql("SELECT id FROM search('lance.search.p', 'red', 5) ORDER BY _score DESC").collect()
    assert [row.id for row in rows] == [1, 2]


@pytest.mark.slow
@pytest.mark.parametrize("clause", ["", "PARTITIONED BY (p)"])
def test_items_of_lists_have_their_numbers(spark: SparkSession, clause: str) -> None:
    name = "lance.search.lists"
    spark.sql(f"CREATE TABLE {name} (id BIGINT, p STRING, parts ARRAY<STRING>) USING lance {clause}")
    try:
        spark.sql(
            f"INSERT INTO {name} VALUES (1, 'a', array('quick fox', 'lazy dog')), "
            "(2, 'b', array('fox', 'quick dog fox')), (3, 'b', array()), (4, 'a', NULL)"
        )
        assert (
            "_doc_index"
            not in spark.sql(f"SELECT * FROM search('{name}', 'fox', search_columns => array('parts'))").columns
        )
        options = "document_granularity = 'LIST_ELEMENT'"
        spark.sql(f"ALTER TABLE {name} CREATE INDEX items USING fts (parts) WITH ({options})").collect()
        found = spark.sql(f"SELECT * FROM search('{name}', 'fox')")
        assert found.columns == ["id", "p", "parts", "_doc_index", "_score"]
        rows = found.collect()
        assert {(row.id, *row._doc_index) for row in rows} == {(1, 0), (2, 0), (2, 1)}
        assert [tuple(row) for row in rows] == expected(spark, name, "fox")
        some = spark.sql(f"SELECT * FROM search('{name}', 'dog', columns => array('_doc_index', '_SCORE', 'id'))")
        assert some.columns == ["_doc_index", "_score", "id"]
        assert {(row.id, *row._doc_index) for row in some.collect()} == {(1, 1), (2, 1)}
        exploded = f"SELECT id, parts[_doc_index[0]] FROM search('{name}', 'lazy')"
        assert [tuple(row) for row in spark.sql(exploded).collect()] == [(1, "lazy dog")]
        called = spark.sql(f"CALL lance.system.search(table => '{name}', query => 'fox', columns => array('id'))")
        assert called.columns == ["id", "_doc_index", "_score"]
        assert {(row.id, *row._doc_index) for row in called.collect()} == {(1, 0), (2, 0), (2, 1)}
        assert spark.sql(f"SELECT count(*) FROM search('{name}', 'fox')").first()[0] == 3
    finally:
        spark.sql(f"DROP TABLE {name}")


def test_score_may_be_among_the_columns_of_a_search(spark: SparkSession, table: str) -> None:
    found = spark.sql(f"SELECT * FROM search('{table}', 'red', columns => array('_score', 'id'))")
    assert found.columns == ["_score", "id"]
    assert {row.id for row in found.collect()} == {1, 3, 5}
    with pytest.raises(PySparkException, match="the documents of this search are rows"):
        spark.sql(f"SELECT * FROM search('{table}', 'red', columns => array('_doc_index', 'id'))").collect()
