"""Text predicates in WHERE: pushed into the scan, or refused; contains_tokens also row by row."""

from __future__ import annotations

import re
from collections.abc import Iterator

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.support.connector.plans import plan

ROWS = (
    "(1, 'red apples', 'a rose', 'x'), (2, 'green Apple', NULL, 'x'), (3, 'red red rose', 'thorns', 'y'), "
    "(4, NULL, NULL, 'y'), (5, 'it is blue', 'red sky', 'z')"
)
MORE = "(6, 'apple of red', 'x', 'x'), (7, 'the rose', 'y', 'w')"

CONDITIONS = {
    "lance_match(title, 'apple')": {1, 2, 6},
    "NOT lance_match(title, 'apple')": {3, 5, 7},
    "lance_match(title, 'apple') OR id = 5": {1, 2, 5, 6},
    "lance_match(title, 'apple') AND id > 1": {2, 6},
    "lance_match(title, 'red') AND NOT lance_match(body, 'rose')": {3, 6},
    "NOT (lance_match(title, 'red') AND lance_match(body, 'rose'))": {2, 3, 5, 6, 7},
    "lance_match(title, 'apple red', 'operator=AND')": {1, 6},
    "lance_match(title, 'bleu', 'fuzziness=2')": {5},
    "lance_match_phrase(title, 'red rose')": {3},
    "lance_match_phrase(title, 'red rose', 1)": {3},
    "lance_multi_match('red', title, body)": {1, 3, 5, 6},
    "lance_multi_match('red rose', 'operator=AND', title, body)": {1, 3},
    "contains_tokens(title, 'Apple')": {2},
    "contains_tokens(title, 'red rose') OR body IS NULL": {2, 3, 4},
}


@pytest.fixture(scope="module", params=["plain", "partitioned"])
def table(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """A table with an index over `title` of all rows but two, and none over `body`."""
    name = f"lance.text_{request.param}"
    clause = "PARTITIONED BY (part)" if request.param == "partitioned" else ""
    spark.sql(f"CREATE TABLE {name} (id BIGINT, title STRING, body STRING, part STRING) USING lance {clause}")
    spark.sql(f"INSERT INTO {name} VALUES {ROWS}")
    options = "with_position = true, max_token_length = 'null', custom_stop_words = '[\"sky\"]'"
    made = spark.sql(f"ALTER TABLE {name} CREATE INDEX words USING fts (title) WITH ({options})").collect()
    assert [row.index_name for row in made] == ["words"]
    spark.sql(f"INSERT INTO {name} VALUES {MORE}")
    yield name
    spark.sql(f"DROP TABLE {name}")


def ids(spark: SparkSession, query: str) -> set[int]:
    found = [row[0] for row in spark.sql(query).collect()]
    assert len(found) == len(set(found))
    return set(found)


@pytest.mark.slow
def test_conditions_are_pushed_into_the_scan(spark: SparkSession, table: str) -> None:
    for condition, expected in CONDITIONS.items():
        query = f"SELECT id FROM {table} WHERE {condition}"
        assert ids(spark, query) == expected, condition
        assert "Filter" not in plan(spark.sql(query)).replace("RuntimeFilters", ""), condition
    count = spark.sql(f"SELECT count(*), max(title) FROM {table} WHERE lance_match(title, 'apple')").first()
    assert tuple(count or ()) == (3, "red apples")


def test_plans_name_the_indexes_of_searches(spark: SparkSession, table: str) -> None:
    searched = "lance_match(title, 'apple') AND id > 1"
    shown = plan(spark.sql(f"SELECT id FROM {table} WHERE {searched}"))
    (index,) = re.findall(r"indexes=\[(.*?)\] ", shown)
    assert index.startswith("words (INVERTED): lance_match(title, 'apple', "), shown
    (unindexed,) = spark.sql(f"SHOW INDEXES IN {table}").collect()
    assert index.endswith(
        f"fragments={unindexed.num_indexed_fragments}; fragments without index={unindexed.num_unindexed_fragments}"
    ), index
    assert "indexes=" not in plan(spark.sql(f"SELECT id FROM {table} WHERE lance_match(body, 'rose')"))


NOTES = {
    "lance_match(notes.text, 'fox')": {1, 5},
    "NOT lance_match(notes.text, 'fox')": {2, 4},
    "lance_match(NOTES.Text, 'fox') OR id = 2": {1, 2, 5},
    "id < 3 AND lance_match(notes.text, 'fox cat')": {1, 2},
    "lance_match_phrase(notes.text, 'blue sky')": {1},
    "lance_multi_match('red', s.t, notes.text)": {1, 5},
    "lance_match(s.inner.text, 'deep')": {2},
}


@pytest.mark.slow
@pytest.mark.parametrize("partitioned", [False, True])
def test_members_of_structs_in_lists(spark: SparkSession, partitioned: bool) -> None:
    note, inner = "STRUCT<text: STRING, n: INT>", "ARRAY<STRUCT<text: STRING>>"
    clause = "PARTITIONED BY (part)" if partitioned else ""
    columns = f"id BIGINT, notes ARRAY<{note}>, s STRUCT<t: STRING, inner: {inner}>, part STRING"
    spark.sql(f"CREATE TABLE lance.notes ({columns}) USING lance {clause}")
    try:
        spark.sql(
            "INSERT INTO lance.notes VALUES "
            "(1, array(struct('red fox', 1), struct('blue sky', 2)), struct('red x', array()), 'x'), "
            "(2, array(struct('grey cat', 1)), struct('y', array(struct('deep sea'))), 'x'), "
            "(3, NULL, NULL, 'y'), (4, array(), struct(NULL, NULL), 'y')"
        )
        more = "(5, array(struct(NULL, 1), NULL, struct('red foxes of a fox', 1)), NULL, 'y')"
        for statement in (
            "ALTER TABLE lance.notes CREATE INDEX words USING fts (Notes.text) WITH (with_position = true)",
            f"INSERT INTO lance.notes VALUES {more}",
        ):
            expected = {
                condition: found - ({5} if statement.startswith("ALTER") else set())
                for condition, found in NOTES.items()
            }
            spark.sql(statement)
            for condition, found in expected.items():
                query = f"SELECT id FROM lance.notes WHERE {condition}"
                assert ids(spark, query) == found, condition
                assert "Filter" not in plan(spark.sql(query)).replace("RuntimeFilters", ""), condition
        searched = "search('lance.notes', 'fox', search_columns => array('NOTES.text'))"
        assert ids(spark, f"SELECT id FROM {searched}") == {1, 5}
        for wrong, message in (
            ("lance_match(notes[0].text, 'fox')", "takes constants and columns of one Lance table"),
            ("exists(notes, x -> lance_match(x.text, 'fox'))", "takes constants and columns of one Lance table"),
            ("lance_match(notes.n, 'fox')", "does not take arguments of types"),
        ):
            with pytest.raises(PySparkException, match=message):
                spark.sql(f"SELECT id FROM lance.notes WHERE {wrong}").collect()
    finally:
        spark.sql("DROP TABLE lance.notes")


def test_columns_behind_names(spark: SparkSession, table: str) -> None:
    renamed = f"WITH x AS (SELECT id, title AS t FROM {table}) SELECT x.id FROM x"
    assert ids(spark, f"{renamed} WHERE lance_match(t, 'apple')") == {1, 2, 6}
    assert ids(spark, f"{renamed} JOIN x y ON x.id = y.id WHERE lance_match(x.t, 'apple') AND y.id < 6") == {1, 2}
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW named AS SELECT id, title AS t FROM {table}")
    assert ids(spark, "SELECT id FROM named WHERE lance_match(t, 'apple') AND id < 6") == {1, 2}
    exists = f"SELECT o.id FROM {table} o WHERE EXISTS (SELECT 1 FROM {table} i WHERE i.id = o.id AND "
    assert ids(spark, f"{exists} lance_match(i.title, 'blue'))") == {5}


def test_optimized_index_gives_the_same_rows(spark: SparkSession, table: str) -> None:
    def unindexed() -> int:
        (shown,) = spark.sql(f"SHOW INDEXES FROM {table}").collect()
        assert (shown["name"], shown["index_type"], list(shown["fields"])) == ("words", "inverted", ["title"])
        return int(shown["num_unindexed_rows"])

    assert unindexed() == 2
    spark.sql(f"ALTER TABLE {table} OPTIMIZE INDEX words")
    assert unindexed() == 0
    for condition in list(CONDITIONS)[:3]:
        assert ids(spark, f"SELECT id FROM {table} WHERE {condition}") == CONDITIONS[condition], condition


def test_equal_columns_keep_their_own_analysis(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE lance.stemmed (id BIGINT, a STRING, b STRING) USING lance")
    spark.sql("INSERT INTO lance.stemmed VALUES (1, 'apples', 'apples'), (2, 'pears', 'pears')")
    spark.sql(
        "CALL lance.system.create_index(table => 'stemmed', name => 'b', kind => 'inverted', columns => array('b'), "
        "options => array('stem=false'))"
    )
    try:
        assert ids(spark, "SELECT id FROM lance.stemmed WHERE lance_match(b, 'apple')") == set()
        assert ids(spark, "SELECT id FROM lance.stemmed WHERE a = b AND lance_match(a, 'apple')") == {1}
        joined = "SELECT x.id FROM lance.stemmed x JOIN lance.stemmed y ON x.a = y.b WHERE lance_match(x.a, 'apple')"
        assert ids(spark, joined) == {1}
    finally:
        spark.sql("DROP TABLE lance.stemmed")


@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"])
def test_conditions_of_joins_are_pushed_into_the_side_that_they_are_about(
    spark: SparkSession, table: str, kind: str
) -> None:
    joined = f"SELECT a.id FROM {table} a {kind} {{}} b ON a.id = b.id AND {{}}"
    found = spark.sql(joined.format(table, "lance_match(b.title, 'red')"))
    chosen = joined.format(f"(SELECT * FROM {table} WHERE lance_match(title, 'red'))", "true")
    assert sorted(found.collect()) == sorted(spark.sql(chosen).collect())
    assert "lance_match(title, 'red'" in plan(found)


def test_what_no_scan_can_answer_is_refused(spark: SparkSession, table: str) -> None:
    select = f"SELECT id FROM {table} WHERE"
    for query, message in {
        f"{select} lance_match(upper(title), 'APPLE')": "takes constants and columns of one Lance table",
        f"{select} lance_match(title, 'red', 'bogus=1')": "has no option 'bogus'",
        f"{select} lance_match(title, body)": "must be a string constant",
        f"{select} lance_match(id, 'red')": "does not take arguments of types",
        f"{select} lance_match(title, 'red') IS NULL": "is combined by AND, OR and NOT",
        f"{select} lance_match(title, 'red') OR length(title) > 3": "is combined by AND, OR and NOT",
        f"{select} lance_match(title, 'red') OR id > 100 + rand()": "scans of Lance tables only|OR and NOT",
        f"SELECT lance_match(title, 'red') FROM {table}": "in WHERE or in ON of a join",
        f"SELECT a.id FROM {table} a LEFT JOIN {table} b ON lance_match(a.title, 'red')": "in ON of a join for a side",
        f"SELECT a.id FROM {table} a JOIN {table} b ON lance_match(a.title, 'red') OR a.id = b.id": "OR and NOT",
        f"SELECT id FROM (TABLE {table} UNION ALL TABLE {table}) WHERE lance_match(title, 'a')": "of one Lance table",
        f"DELETE FROM {table} WHERE lance_match(title, 'red')": "choose the rows by their keys",
        f"UPDATE {table} SET body = 'x' WHERE lance_match(title, 'red')": "choose the rows by their keys",
    }.items():
        with pytest.raises(PySparkException, match=message) as failure:
            spark.sql(query).collect()
        assert failure.value.getCondition() == "LANCE_INVALID_INPUT", query


def test_cached_tables_are_named_as_the_reason(spark: SparkSession, table: str) -> None:
    match = f"SELECT id FROM {table} WHERE lance_match(title, 'red')"
    expected = ids(spark, match)
    spark.sql(f"CACHE TABLE {table}")
    try:
        with pytest.raises(PySparkException, match="a cached table is not scanned"):
            spark.sql(match).collect()
        found = f"SELECT id FROM search(table => '{table}', query => 'red', search_columns => array('title'))"
        assert ids(spark, found) == expected
    finally:
        spark.sql(f"UNCACHE TABLE {table}")
    assert ids(spark, match) == expected


def test_statements_choose_rows_by_a_subquery(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE lance.words (id BIGINT, title STRING) USING lance")
    spark.sql("INSERT INTO lance.words VALUES (1, 'red'), (2, 'blue'), (3, 'Red')")
    try:
        spark.sql("DELETE FROM lance.words WHERE id IN (SELECT id FROM lance.words WHERE lance_match(title, 'blue'))")
        spark.sql("UPDATE lance.words SET id = 9 WHERE contains_tokens(title, 'Red')")
        assert ids(spark, "SELECT id FROM lance.words") == {1, 9}
    finally:
        spark.sql("DROP TABLE lance.words")


def test_contains_tokens_row_by_row_agrees_with_pylance(spark: SparkSession, uri: str) -> None:
    texts = [
        "a b",
        "A b",
        "b-a!",
        "ab",
        "",
        None,
        "é b a",
        "e\u0301 b a",
        "数字 a,b",
        "a\U00010400b",
        "a_b",
        "½ a b",
        "\u0661 a b",
    ]
    lance.write_dataset(pa.table({"id": range(len(texts)), "text": texts}), uri)
    reference = lance.dataset(uri)
    spark.read.format("lance").load(uri).createOrReplaceTempView("tokens")
    for words in ["a b", "é", "数字", "½", "!", "", "a_b", "\U00010400"]:
        expected = set(reference.to_table(filter=f"contains_tokens(text, '{words}')")["id"].to_pylist())
        scanned = f"SELECT id FROM tokens WHERE contains_tokens(text, '{words}')"
        kept = f"SELECT id FROM tokens WHERE contains_tokens(text || '', '{words}')"
        assert ids(spark, scanned) == expected, words
        assert ids(spark, kept) == expected, words
    assert spark.sql("SELECT contains_tokens(text, 'a') FROM tokens WHERE id = 5").first()[0] is None  # type: ignore[index]


def test_show_functions_lists_them(spark: SparkSession) -> None:
    names = {"lance_match", "lance_match_phrase", "lance_multi_match", "contains_tokens"}
    assert names <= {row[0] for row in spark.sql("SHOW FUNCTIONS").collect()}
    assert {f"lance.{name}" for name in names} <= {row[0] for row in spark.sql("SHOW FUNCTIONS IN lance").collect()}


@pytest.mark.parametrize("json_as", ["variant", "string"])
def test_searches_of_json_documents_are_pushed(spark: SparkSession, uri: str, json_as: str) -> None:
    documents = ['{"t": "Red apples", "n": 1}', '{"t": ["a rose", "red"]}', None, '{"n": 2}']
    lance.write_dataset(pa.table({"id": range(4), "doc": pa.array(documents, pa.json_())}), uri)
    spark.read.format("lance").option("json_as", json_as).load(uri).createOrReplaceTempView("documents")
    for condition, expected in {
        "lance_match(doc, 't,str,apple')": {0},
        "lance_match(doc, 'n,number,2;t,str,rose')": {1, 3},
        "NOT lance_match(doc, 't,str,red')": {3},
        "lance_match_phrase(doc, 't,str,red apples') OR id = 2": {0, 2},
    }.items():
        assert ids(spark, f"SELECT id FROM documents WHERE {condition}") == expected, condition
    with pytest.raises(PySparkException, match="path,type,value"):
        spark.sql("SELECT id FROM documents WHERE lance_match(doc, 'red')").collect()
