"""Statements of indexes and searches find columns whatever the case of their names, as other statements do."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

TABLE = "lance.db.spelt"
QUERY = "array(1.0, 0.0)"
SEARCHES = {
    f"vector_search(table => '{TABLE}', query_vector => {QUERY}, vector_column => 'VEC', "
    "columns => array('ID', '_ROWID'))": ["Id", "_rowid", "_distance"],
    f"search(table => '{TABLE}', query => 'sea', search_columns => array('NOTE'), columns => array('iD'))": [
        "Id",
        "_score",
    ],
    f"hybrid_search(table => '{TABLE}', query_vector => {QUERY}, query => 'sea', vector_column => 'vec', "
    "search_columns => array('note'), columns => array('id'))": ["Id", "_distance", "_score", "_relevance_score"],
    f"vector_search_batch(table => '{TABLE}', queries => '{TABLE}', k => 1, vector_column => 'VEC', "
    "query_column => 'vec', query_columns => array('NOTE'), columns => array('ID'))": ["Note", "Id", "_distance"],
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _table(spark: SparkSession) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.db")
    spark.sql(
        f"CREATE TABLE {TABLE} (Id INT, Note STRING, Vec ARRAY<FLOAT>) USING lance "
        "TBLPROPERTIES ('Vec.arrow.fixed-size-list.size' = '2')"
    )
    spark.sql(f"INSERT INTO {TABLE} VALUES (1, 'the sea', array(1.0, 0.0)), (2, 'a lake', array(0.0, 1.0))")


@pytest.mark.parametrize(("search", "columns"), SEARCHES.items(), ids=[text.split("(")[0] for text in SEARCHES])
def test_searches(spark: SparkSession, search: str, columns: list[str]) -> None:
    found = spark.sql(f"SELECT * FROM {search}")
    assert found.columns == columns
    assert 1 in [row["Id"] for row in found.collect()]


def test_procedure(spark: SparkSession) -> None:
    found = spark.sql(
        f"CALL lance.system.search(table => '{TABLE}', query => 'sea', search_columns => array('NOTE'), "
        "columns => array('ID'))"
    )
    assert [row["Id"] for row in found.collect()] == [1]


@pytest.mark.parametrize(("kind", "column"), [("btree", "ID"), ("fts", "note"), ("ivf_flat", "VEC")])
def test_indexes(spark: SparkSession, kind: str, column: str) -> None:
    spark.sql(f"ALTER TABLE {TABLE} CREATE INDEX by_{kind} USING {kind} ({column})")
    shown = {row["name"]: row["fields"] for row in spark.sql(f"SHOW INDEXES IN {TABLE}").collect()}
    assert [name.lower() for name in shown[f"by_{kind}"]] == [column.lower()]
    assert shown[f"by_{kind}"] != [column]


def test_unknown_columns_have_one_sentence(spark: SparkSession) -> None:
    for search in (
        f"vector_search(table => '{TABLE}', query_vector => {QUERY}, vector_column => 'nope')",
        f"search(table => '{TABLE}', query => 'sea', search_columns => array('nope'))",
    ):
        with pytest.raises(PySparkException, match=r"no column '?nope"):
            spark.sql(f"SELECT * FROM {search}").collect()
    with pytest.raises(PySparkException, match=r"no column '?nope"):
        spark.sql(f"ALTER TABLE {TABLE} CREATE INDEX n USING btree (nope)")
