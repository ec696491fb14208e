"""MERGE: all clauses, one version a statement."""

from __future__ import annotations

import lance
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from lance_spark.spark.compat import SPARK
from tests.support.connector.row_level import ALTERS, make, properties, seen, version, words


def test_all_clauses(spark: SparkSession, uri: str) -> None:
    table = make(words(spark, 6), uri)
    spark.range(3, 9).selectExpr("id", "concat('s', id) AS word", "9L AS part").createOrReplaceTempView("source")
    spark.sql(
        f"""MERGE INTO {table} t USING source s ON t.id = s.id
            WHEN MATCHED AND s.id = 3 THEN DELETE
            WHEN MATCHED AND s.id = 4 THEN UPDATE SET word = concat(t.word, s.word)
            WHEN MATCHED THEN UPDATE SET *
            WHEN NOT MATCHED AND s.id = 6 THEN INSERT (id, word) VALUES (s.id, 'six')
            WHEN NOT MATCHED AND s.id = 7 THEN INSERT *
            WHEN NOT MATCHED BY SOURCE AND t.id = 0 THEN DELETE
            WHEN NOT MATCHED BY SOURCE AND t.id = 1 THEN UPDATE SET part = -1"""
    )
    assert seen(spark, uri, "id", "word", "part") == [
        (1, "w1", -1),
        (2, "w2", None),
        (4, "w4s4", 1),
        (5, "s5", 9),
        (6, "six", None),
        (7, "s7", 9),
    ]
    assert version(uri) == 2
    told = properties(uri)
    assert told.pop("spark.operation") == "MERGE"
    counts = {name.removeprefix("spark.numTargetRows"): int(count) for name, count in told.items()}
    expected = {
        "Inserted": 2,
        "Updated": 3,
        "Deleted": 2,
        "MatchedUpdated": 2,
        "MatchedDeleted": 1,
        "NotMatchedBySourceUpdated": 1,
        "NotMatchedBySourceDeleted": 1,
    }
    assert counts == (expected if SPARK >= (4, 1) else {})  # Spark 4.0 counts no rows.


@pytest.mark.slow
def test_each_kind_alone(spark: SparkSession, uri: str) -> None:
    table = make(words(spark, 4), uri, enable_stable_row_ids="true")
    spark.range(2, 6).selectExpr("id", "concat('s', id) AS word", "9L AS part").createOrReplaceTempView("source")
    merge = f"MERGE INTO {table} t USING source s ON t.id = s.id"
    spark.sql(f"{merge} WHEN NOT MATCHED THEN INSERT *")
    assert [row[1] for row in seen(spark, uri, "id", "word")] == ["w0", "w1", "w2", "w3", "s4", "s5"]
    spark.sql(f"{merge} WHEN MATCHED THEN UPDATE SET word = 'm'")
    assert [row[1] for row in seen(spark, uri, "id", "word")] == ["w0", "w1", "m", "m", "m", "m"]
    spark.sql(f"{merge} WHEN MATCHED AND t.id = 5 THEN DELETE")
    spark.sql(f"{merge} WHEN NOT MATCHED BY SOURCE THEN DELETE")
    assert [row[0] for row in seen(spark, uri, "id")] == [2, 3, 4]
    assert version(uri) == 5
    spark.sql(f"{merge} AND false WHEN MATCHED THEN UPDATE SET word = 'never'")
    spark.sql(f"{merge} WHEN NOT MATCHED AND s.id > 100 THEN INSERT *")
    spark.sql(
        f"MERGE INTO {table} t USING (SELECT * FROM source WHERE id < 0) s ON t.id = s.id WHEN MATCHED THEN DELETE"
    )
    assert version(uri) == 5
    created = spark.sql(f"SELECT id, _row_created_at_version, _row_last_updated_at_version FROM {table}")
    assert {tuple(row) for row in created.collect()} == {(2, 1, 3), (3, 1, 3), (4, 2, 3)}
    ids = lance.dataset(uri).to_table(columns=["id"], with_row_id=True).to_pydict()
    assert len(set(ids["_rowid"])) == 3


@pytest.mark.slow
def test_a_row_that_matches_twice(spark: SparkSession, uri: str) -> None:
    table = make(words(spark, 4), uri)
    spark.createDataFrame([(1, "a"), (1, "b"), (7, "c"), (7, "d")], "id BIGINT, word STRING").createOrReplaceTempView(
        "doubled"
    )
    merge = f"MERGE INTO {table} t USING doubled s ON t.id = s.id"
    with pytest.raises(Exception, match="MERGE_CARDINALITY_VIOLATION"):
        spark.sql(f"{merge} WHEN MATCHED THEN UPDATE SET word = s.word")
    assert version(uri) == 1
    spark.sql(f"{merge} WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, word) VALUES (s.id, s.word)")
    assert seen(spark, uri, "id", "word") == [(0, "w0"), (2, "w2"), (3, "w3"), (7, "c"), (7, "d")]
    assert version(uri) == 2


@pytest.mark.slow
def test_null_keys(spark: SparkSession, uri: str) -> None:
    frame = spark.createDataFrame([(None, "n"), (1, "a")], "k BIGINT, v STRING")
    table = make(frame.coalesce(1), uri)
    spark.createDataFrame([(None, "N"), (1, "A")], "k BIGINT, v STRING").createOrReplaceTempView("nulls")
    spark.sql(
        f"""MERGE INTO {table} t USING nulls s ON t.k = s.k
            WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
    )
    assert seen(spark, uri, "k", "v") == [(None, "N"), (None, "n"), (1, "A")]
    spark.sql(f"DELETE FROM {table} WHERE v = 'N'")
    spark.sql(f"MERGE INTO {table} t USING nulls s ON t.k <=> s.k WHEN MATCHED THEN UPDATE SET v = lower(s.v)")
    assert seen(spark, uri, "k", "v") == [(None, "n"), (1, "a")]


@pytest.mark.slow
def test_sources_of_all_kinds(spark: SparkSession, uri: str) -> None:
    table = make(words(spark, 4), uri)
    # Itself.
    spark.sql(
        f"""MERGE INTO {table} t USING (SELECT id + 1 AS id, word FROM {table}) s ON t.id = s.id
            WHEN MATCHED THEN UPDATE SET word = s.word
            WHEN NOT MATCHED THEN INSERT (id, word) VALUES (s.id, s.word)"""
    )
    assert [row[1] for row in seen(spark, uri, "id", "word")] == ["w0", "w0", "w1", "w2", "w3"]
    # A common table expression, a set operation, values.
    spark.sql(
        f"""WITH s AS (SELECT 0L AS id, 'cte' AS word UNION ALL SELECT 9L, 'nine')
            MERGE INTO {table} t USING s ON t.id = s.id
            WHEN MATCHED THEN UPDATE SET t.word = s.word
            WHEN NOT MATCHED THEN INSERT (word, id) VALUES (s.word, s.id)"""
    )
    spark.sql(
        f"""MERGE INTO {table} t USING (SELECT 9L AS id, (SELECT max(word) FROM {table}) AS word) s ON t.id = s.id
            WHEN MATCHED THEN UPDATE SET word = s.word"""
    )
    assert [row[1] for row in seen(spark, uri, "id", "word")] == ["cte", "w0", "w1", "w2", "w3", "w3"]
    assert version(uri) == 4
    frame = spark.range(1).selectExpr("id", "'df' AS word", "5L AS part")
    target = f"lance.`{uri}`"
    frame.mergeInto(target, frame.id == 0).whenNotMatched().insertAll().merge()


def test_into_an_empty_table(spark: SparkSession, uri: str) -> None:
    table = make(words(spark, 4).where("id < 0"), uri)
    before = version(uri)
    words(spark, 4).createOrReplaceTempView("all_words")
    spark.sql(f"MERGE INTO {table} t USING all_words s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert version(uri) == before
    spark.sql(
        f"""MERGE INTO {table} t USING all_words s ON t.id = s.id
            WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
    )
    assert [row[0] for row in seen(spark, uri, "id")] == [0, 1, 2, 3]
    assert version(uri) == before + 1


@pytest.mark.slow
def test_structs(spark: SparkSession, uri: str) -> None:
    frame = spark.sql("SELECT 1 AS id, struct(1 AS a, struct(2 AS b, 'x' AS c) AS n) AS s")
    table = make(frame, uri)
    spark.sql("SELECT 1 AS id, struct(7 AS a, struct(8 AS b, 'y' AS c) AS n) AS s").createOrReplaceTempView("structs")
    merge = f"MERGE INTO {table} t USING structs s ON t.id = s.id"
    spark.sql(f"{merge} WHEN MATCHED THEN UPDATE SET t.s.n.b = s.s.n.b")
    assert seen(spark, uri, "s") == [({"a": 1, "n": {"b": 8, "c": "x"}},)]
    spark.sql(f"{merge} WHEN MATCHED THEN UPDATE SET *")
    assert seen(spark, uri, "s") == [({"a": 7, "n": {"b": 8, "c": "y"}},)]


def test_what_is_refused(spark: SparkSession, uri: str) -> None:
    table = make(words(spark, 4), uri)
    words(spark, 4).createOrReplaceTempView("all_words")
    merge = f"MERGE INTO {table} t USING all_words s ON t.id = s.id"
    for clauses in (
        "WHEN MATCHED THEN UPDATE SET missing = 1",
        "WHEN MATCHED THEN UPDATE SET word = 'a', word = 'b'",
        "WHEN NOT MATCHED THEN INSERT (id, nothing) VALUES (1, 2)",
        "WHEN MATCHED AND max(s.id) > 1 THEN DELETE",
        "WHEN MATCHED THEN DELETE WHEN MATCHED THEN UPDATE SET word = 'x'",
    ):
        with pytest.raises(AnalysisException):
            spark.sql(f"{merge} {clauses}")
    assert version(uri) == 1


@pytest.mark.since("4.1", "MERGE WITH SCHEMA EVOLUTION")
@pytest.mark.slow
def test_schema_evolution(spark: SparkSession, root: str) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.evolving")
    spark.sql("CREATE TABLE lance.evolving.t (id BIGINT, s STRUCT<a: INT>) USING lance")
    spark.sql("INSERT INTO lance.evolving.t VALUES (1, struct(1)), (2, struct(2))")
    uri = spark.sql("DESCRIBE TABLE EXTENDED lance.evolving.t").where("col_name = 'Location'").first()[1]
    spark.sql("SELECT 2L AS id, struct(5 AS a, 'x' AS b) AS s, 'new' AS word").createOrReplaceTempView("wider")
    before = version(uri)
    merge = "INTO lance.evolving.t t USING wider s ON t.id = s.id"
    spark.sql(f"MERGE WITH SCHEMA EVOLUTION {merge} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")
    assert seen(spark, uri, "id", "s", "word") == [
        (1, {"a": 1, "b": None}, None),
        (2, {"a": 5, "b": "x"}, "new"),
    ]
    assert version(uri) == before + 1 + ALTERS
    spark.sql("SELECT 3L AS id, struct(6 AS a, 'y' AS b) AS s, 'n' AS word, 1 AS more").createOrReplaceTempView("wider")
    spark.sql(f"MERGE {merge} WHEN NOT MATCHED THEN INSERT *")
    assert "more" not in lance.dataset(uri).schema.names
    assert version(uri) == before + 2 + ALTERS


@pytest.mark.since("4.2", "a wider type and a new column in one MERGE WITH SCHEMA EVOLUTION")
def test_schema_evolution_of_a_path(spark: SparkSession, uri: str) -> None:
    table = make(spark.range(2), uri)
    spark.sql("SELECT 1 AS id, 'w' AS word").createOrReplaceTempView("wider")
    spark.sql(
        f"""MERGE WITH SCHEMA EVOLUTION INTO {table} t USING wider s ON t.id = s.id
            WHEN MATCHED THEN UPDATE SET *"""
    )
    assert seen(spark, uri, "id", "word") == [(0, None), (1, "w")]
    assert str(lance.dataset(uri).schema.field("id").type) == "int64"


@pytest.mark.since("4.1", "MERGE WITH SCHEMA EVOLUTION")
def test_columns_are_never_left_out_in_silence(spark: SparkSession, uri: str) -> None:
    make(spark.range(2), uri)
    table = "spark_catalog.default.cannot_evolve"
    spark.sql(f"CREATE TABLE {table} USING lance LOCATION '{uri}'")
    merge = "MERGE WITH SCHEMA EVOLUTION INTO {} t USING (SELECT 1L AS id, 'w' AS word) s ON t.id = s.id"
    try:
        with pytest.raises(Exception, match=r"WITH SCHEMA EVOLUTION|AUTO_SCHEMA_EVOLUTION"):
            spark.sql(f"{merge.format(table)} WHEN MATCHED THEN UPDATE SET *")
        spark.sql(f"MERGE INTO {table} t USING (SELECT 1L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
        assert seen(spark, uri, "id") == [(0,)]
    finally:
        spark.sql(f"DROP TABLE {table}")
