"""Results of the table functions that search: columns, phrases, filters of the best rows, arguments that are NULL."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

COLUMNS = "ID BIGINT, p BIGINT, `odd name` BIGINT, Title STRING, st STRUCT<x: BIGINT, y: STRING>, v ARRAY<FLOAT>"


def title(number: int) -> str:
    # Scores differ by the length of the text.
    return "fox " + "bird " * number if number % 2 else f"quick fox {number} dog"


@pytest.fixture(scope="module", params=["plain", "partitioned"])
def table(request: pytest.FixtureRequest, spark: SparkSession) -> Any:
    name = f"lance.searched_{request.param}"
    by = "PARTITIONED BY (p)" if request.param == "partitioned" else ""
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}) {by} TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '2')")
    rows = [(i, i % 3, i, title(i), (i, str(i)), [float(i), 0.0]) for i in range(20)]
    spark.createDataFrame(rows, COLUMNS).coalesce(1).writeTo(name).append()
    spark.sql(f"ALTER TABLE {name} CREATE INDEX words USING fts (Title) WITH (with_position = true)")
    yield name
    spark.sql(f"DROP TABLE {name} PURGE")


SEARCHES = {
    "search": ("query => 'fox', limit => 3", ["_score"]),
    "vector_search": ("query_vector => array(0.0, 0.0), k => 3", ["_distance"]),
    "hybrid_search": (
        "query_vector => array(0.0, 0.0), query => 'fox', k => 3",
        ["_distance", "_score", "_relevance_score"],
    ),
}


@pytest.mark.parametrize("function", SEARCHES)
def test_order_and_names_of_the_columns(spark: SparkSession, table: str, function: str) -> None:
    arguments, added = SEARCHES[function]

    def found(columns: str, more: str = "") -> list[str]:
        frame = spark.sql(
            f"SELECT * FROM {function}(table => '{table}', {arguments}, columns => array({columns}){more})"
        )
        rows = frame.collect()
        assert len(rows) == 3
        assert all(row["_rowid"] is not None for row in rows if "_rowid" in frame.columns)
        return frame.columns

    first, *others = added
    with_row_id = ", with_row_id => true"
    assert found("'id'", with_row_id) == ["ID", *added, "_rowid"]
    assert found("'_rowid', 'id'", with_row_id) == ["ID", *added, "_rowid"]
    assert found("'_rowid', 'id'") == ["_rowid", "ID", *added]
    assert found(f"'ODD name', '{first}', 'id'") == ["odd name", first, "ID", *others]
    assert found(f"'{first}', '_rowid', 'st.X'", with_row_id) == [first, "st", *others, "_rowid"]
    frame = spark.sql(f"SELECT * FROM {function}(table => '{table}', {arguments}{with_row_id})")
    assert frame.columns == ["ID", "p", "odd name", "Title", "st", "v", *added, "_rowid"]
    with pytest.raises(PySparkException, match="'ID' is named twice"):
        found("'id', 'p', 'ID'")


def ids(spark: SparkSession, arguments: str) -> list[int]:
    return sorted(row["ID"] for row in spark.sql(f"SELECT ID FROM search({arguments})").collect())


def test_a_query_in_double_quotes_is_a_phrase(spark: SparkSession, table: str) -> None:
    def found(query: str, more: str = "") -> int:
        return len(ids(spark, f"table => '{table}', query => '{query}', limit => 100{more}"))

    assert found("fox quick") == 20
    assert found('"quick fox"') == 10
    assert found('"fox quick"') == 0
    assert found('"quick dog"') == 0
    assert found('"quick dog"', ", slop => 2") == 10
    assert found('"fox quick" ') == 20
    assert found('"fox quick"', ", phrase => false") == 20
    assert found('"fox quick"', ", operator => 'AND'") == 10
    name = table.removeprefix("lance.")
    call = f"table => '{name}', query => '\"quick fox\"', columns => array('id')"
    called = spark.sql(f"CALL lance.system.search({call})").collect()
    assert sorted(row["ID"] for row in called) == list(range(0, 20, 2))
    both = f"table => '{table}', query_vector => array(0.0, 0.0), query => '\"fox quick\"', k => 20"
    scores = spark.sql(f"SELECT _score FROM hybrid_search({both})").collect()
    assert [row["_score"] for row in scores] == [None] * 20


def test_a_filter_of_the_best_rows(spark: SparkSession, table: str) -> None:
    search = f"table => '{table}', query => 'fox', filter => 'id >= 3 AND p <> 1', limit => 3"
    name, only = table.removeprefix("lance."), "columns => array('id')"
    best = spark.sql(f"SELECT ID FROM search(table => '{table}', query => 'fox', limit => 3)").collect()
    kept = sorted(row["ID"] for row in best if row["ID"] >= 3 and row["ID"] % 3 != 1)
    assert len(kept) < 3
    assert ids(spark, f"{search}, prefilter => false") == kept
    assert len(ids(spark, search)) == len(ids(spark, f"{search}, prefilter => true")) == 3
    called = spark.sql(f"CALL lance.system.search({search.replace(table, name)}, {only}, prefilter => false)")
    assert sorted(row["ID"] for row in called.collect()) == kept


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT * FROM vector_search(table => '{t}', query_vector => NULL)", "query_vector of vector_search is NULL"),
        ("SELECT * FROM vector_search('{t}', CAST(NULL AS ARRAY<FLOAT>), 3)", "query_vector of vector_search is NULL"),
        ("SELECT * FROM hybrid_search('{t}', NULL, 'fox')", "query_vector of hybrid_search is NULL"),
        ("SELECT * FROM hybrid_search('{t}', array(0.0, 1.0), NULL)", "query of hybrid_search is NULL"),
        ("SELECT * FROM search('{t}', NULL)", "query of search is NULL"),
        ("CALL lance.system.vector_search('{n}', query_vector => NULL)", "query_vector of vector_search is NULL"),
        ("CALL lance.system.search(table => '{n}', query => NULL)", "query of search is NULL"),
        ("SELECT * FROM vector_search(table => '{t}', k => 3)", "vector_search needs the argument query_vector"),
    ],
)
def test_arguments_that_are_null_are_said_to_be(spark: SparkSession, table: str, statement: str, message: str) -> None:
    with pytest.raises(PySparkException, match=message):
        spark.sql(statement.format(t=table, n=table.removeprefix("lance."))).collect()
