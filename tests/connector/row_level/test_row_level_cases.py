"""DELETE, UPDATE and MERGE with conditions and assignments of every kind, as tests of other table formats have them."""

from __future__ import annotations

import lance
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from tests.support.connector.row_level import make, seen, version, words

NESTED = """SELECT id, if(id < 0, NULL, struct(nullif(id, -1) AS x, struct(nullif(id * 2, -1) AS y) AS n)) AS s,
            array(struct(id AS a)) AS l, map('k', id) AS m FROM range({})"""


def ids(spark: SparkSession, uri: str) -> list[object]:
    return [row[0] for row in seen(spark, uri, "id")]


@pytest.mark.slow
def test_delete_by_conditions_of_all_kinds(spark: SparkSession, uri: str) -> None:
    table = make(spark.sql(NESTED.format(8)).coalesce(1), uri)
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW pairs AS SELECT * FROM VALUES (1L, 2L), (2L, 9L), (3L, NULL) AS v (a, b)"
    )
    nothing = ["false", "id = NULL", "id = 1 AND s.x = NULL", "id IN (NULL, 99)", "NOT (id <=> id)", "1 > 2 AND id = 1"]
    for condition in nothing:
        spark.sql(f"DELETE FROM {table} WHERE {condition}")
    assert version(uri) == 1
    for condition, left in (
        ("s.n.y = 0", [1, 2, 3, 4, 5, 6, 7]),
        ("(id, s.n.y) IN (SELECT a, b FROM pairs)", [2, 3, 4, 5, 6, 7]),
        ("(id, s.n.y) NOT IN (SELECT a, b FROM pairs WHERE b IS NOT NULL) AND id > 6", [2, 3, 4, 5, 6]),
        ("l[0].a = 2 AND m['k'] = 2", [3, 4, 5, 6]),
        ("NOT EXISTS (SELECT 1 FROM pairs WHERE a = id) AND id <> 4 AND id <> 5", [3, 4, 5]),
        ("id = (SELECT max(a) FROM pairs)", [4, 5]),
        ("true", []),
    ):
        before = version(uri)
        spark.sql(f"DELETE FROM {table} AS t WHERE {condition}")
        assert ids(spark, uri) == left, condition
        assert version(uri) == before + 1


@pytest.mark.slow
def test_update_of_nested_values(spark: SparkSession, uri: str) -> None:
    table = make(spark.sql(NESTED.format(3)).coalesce(1), uri)
    spark.sql(f"UPDATE {table} t SET s.n.y = -1, t.m = map('z', t.id) WHERE s.n.y = 2")
    spark.sql(f"UPDATE {table} SET l = transform(l, e -> struct(e.a + 10 AS a)) WHERE (id, s.x) IN (SELECT 2L, 2L)")
    spark.sql(f"UPDATE {table} SET s = NULL WHERE id = 0")
    spark.sql(f"UPDATE {table} SET s.n.y = 7 WHERE id = 0")
    assert seen(spark, uri, "id", "s", "l") == [
        (0, {"x": None, "n": {"y": 7}}, [{"a": 0}]),
        (1, {"x": 1, "n": {"y": -1}}, [{"a": 1}]),
        (2, {"x": 2, "n": {"y": 4}}, [{"a": 12}]),
    ]
    assert [row.m for row in spark.sql(f"SELECT m FROM {table} ORDER BY id").collect()] == [
        {"k": 0},
        {"z": 1},
        {"k": 2},
    ]
    assert version(uri) == 5


REFUSED = [
    "UPDATE {} SET s.n.y = 1, s.n = struct(2 AS y)",
    "UPDATE {} SET s.x = 1, s = NULL",
    "UPDATE {} SET l.a = 1",
    "UPDATE {} SET m.key = 'x'",
    "UPDATE {} SET s.missing = 1",
    "UPDATE {} SET id = 'text'",
    "UPDATE {} SET s = struct(1 AS x)",
    "UPDATE {} SET id = id WHERE nothing = 1",
    "MERGE INTO {} t USING pairs p ON t.id = p.a WHEN MATCHED THEN UPDATE SET l.a = 1",
    "MERGE INTO {} t USING pairs p ON t.id = p.a WHEN MATCHED THEN UPDATE SET s.x = 1, s.x = 2",
    "MERGE INTO {} t USING pairs p ON t.id = p.a WHEN NOT MATCHED THEN INSERT (id) VALUES ('text')",
    "MERGE INTO {} t USING pairs p ON t.id = p.a WHEN NOT MATCHED AND t.id = 1 THEN INSERT (id) VALUES (1)",
    "MERGE INTO {} t USING pairs p ON t.id = p.a WHEN NOT MATCHED BY SOURCE AND p.a = 1 THEN DELETE",
    "MERGE INTO {} t USING pairs p ON id = a AND nothing = 1 WHEN MATCHED THEN DELETE",
    "MERGE INTO {} t USING pairs p ON t.id = p.a AND rand() > 0.5 WHEN MATCHED THEN DELETE",
    "MERGE INTO {} t USING pairs p ON t.id = max(p.a) WHEN MATCHED THEN DELETE",
    "MERGE INTO {} t USING pairs p ON t.id = p.a WHEN MATCHED AND EXISTS (SELECT 1 FROM pairs) THEN DELETE",
    "MERGE INTO {} t USING pairs p ON t.id IN (SELECT a FROM pairs) WHEN MATCHED THEN DELETE",
    "MERGE INTO {} t USING {} p ON id = id WHEN MATCHED THEN DELETE",
    "MERGE INTO {} t USING gone p ON t.id = p.a WHEN MATCHED THEN DELETE",
    "DELETE FROM {} WHERE rand() < 0",
    "UPDATE {} SET id = 1 WHERE rand() < 0",
    "DELETE FROM {} WHERE sum(id) > 0",
]


@pytest.mark.slow
def test_what_is_refused_changes_nothing(spark: SparkSession, uri: str) -> None:
    table = make(spark.sql(NESTED.format(2)).coalesce(1), uri)
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW pairs AS SELECT * FROM VALUES (1L, 2L) AS v (a, b)")
    for statement in REFUSED:
        with pytest.raises(PySparkException) as raised:
            spark.sql(statement.replace("{}", table))
        assert "Traceback" not in str(raised.value), statement
    assert version(uri) == 1


@pytest.mark.slow
def test_merge_conditions(spark: SparkSession, uri: str) -> None:
    table = make(words(spark, 4, 1), uri)
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW news AS SELECT * FROM VALUES (1L, 'a'), (2L, 'b'), (9L, 'c') AS v (k, w)"
    )
    merge = f"MERGE INTO {table} t USING news n ON t.id = n.k"
    for nothing in (
        f"MERGE INTO {table} t USING news n ON CAST(NULL AS BOOLEAN) WHEN MATCHED THEN DELETE",
        f"{merge} AND NULL WHEN MATCHED THEN DELETE",
        f"{merge} WHEN MATCHED AND NULL THEN DELETE WHEN NOT MATCHED AND NULL THEN INSERT (id, word) VALUES (n.k, n.w)",
        f"{merge} WHEN NOT MATCHED BY SOURCE AND t.part = NULL THEN DELETE",
        f"{merge} AND t.id > 100 WHEN MATCHED THEN DELETE",
    ):
        spark.sql(nothing)
    assert version(uri) == 1
    spark.sql(
        f"""{merge} AND t.id < 2
            WHEN MATCHED AND concat(n.w, t.word) = 'aw1' THEN UPDATE SET word = n.w
            WHEN NOT MATCHED AND n.k > 2 THEN INSERT (id, word) VALUES (n.k, upper(n.w))
            WHEN NOT MATCHED BY SOURCE AND t.id IN (3, 4) THEN DELETE"""
    )
    assert seen(spark, uri, "id", "word") == [(0, "w0"), (1, "a"), (2, "w2"), (9, "C")]
    assert version(uri) == 2
    # Columns go by name in whatever case and order; integers become longs.
    spark.sql(
        "CREATE OR REPLACE TEMPORARY VIEW other AS SELECT 'z' AS WORD, 5 AS Part, 10 AS ID UNION ALL SELECT 'y', 6, 9"
    )
    spark.sql(
        f"""MERGE INTO {table} t USING other o ON t.id = o.id
            WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""
    )
    assert seen(spark, uri, "id", "word", "part")[-2:] == [(9, "y", 6), (10, "z", 5)]


def test_rows_that_match_more_than_once(spark: SparkSession, uri: str) -> None:
    table = make(words(spark, 4, 1), uri)
    for condition in ("t.id <= n.k", "t.id = n.k"):
        with pytest.raises(Exception, match="MERGE_CARDINALITY_VIOLATION"):
            spark.sql(
                f"""MERGE INTO {table} t USING (SELECT * FROM VALUES (1L), (1L) AS v (k)) n ON {condition}
                    WHEN MATCHED AND n.k > 5 THEN DELETE WHEN MATCHED THEN UPDATE SET word = 'x'"""
            )
    assert version(uri) == 1
    spark.sql(
        f"""MERGE INTO {table} t USING (SELECT * FROM VALUES (1L), (1L) AS v (k)) n ON t.id <= n.k
            WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET word = concat(word, '!')"""
    )
    assert seen(spark, uri, "id", "word") == [(2, "w2!"), (3, "w3!")]
    assert version(uri) == 2


def test_branches_are_changed_alone(spark: SparkSession, uri: str) -> None:
    table = make(words(spark, 6, 1), uri)
    lance.dataset(uri).create_branch("dev")
    dev = f"{table}.branch_dev"
    spark.sql(f"DELETE FROM {dev} WHERE id < 2")
    spark.sql(f"UPDATE {dev} SET word = 'u' WHERE id = 2")
    spark.sql(
        f"""MERGE INTO {dev} t USING {table} n ON t.id = n.id
            WHEN MATCHED AND t.id = 3 THEN DELETE WHEN NOT MATCHED AND n.id = 0 THEN INSERT *"""
    )
    branch = lance.dataset(uri).checkout_version(("dev", None))
    assert sorted((row["id"], row["word"]) for row in branch.to_table().to_pylist()) == [
        (0, "w0"),
        (2, "u"),
        (4, "w4"),
        (5, "w5"),
    ]
    assert (branch.version, version(uri)) == (4, 1)


def test_cached_tables_see_what_statements_change(spark: SparkSession, uri: str) -> None:
    table = make(words(spark, 4, 1), uri)
    spark.sql(f"CACHE TABLE kept AS SELECT id FROM {table}")
    try:
        assert spark.table("kept").count() == 4
        spark.sql(f"DELETE FROM {table} WHERE id = 0")
        spark.sql(f"INSERT INTO {table} VALUES (7, 'w7', 1), (8, 'w8', 1)")
        assert sorted(row.id for row in spark.table("kept").collect()) == [1, 2, 3, 7, 8]
    finally:
        spark.sql("UNCACHE TABLE kept")
    with pytest.raises(AnalysisException):
        spark.sql(f"DELETE FROM {table}.fragments")
