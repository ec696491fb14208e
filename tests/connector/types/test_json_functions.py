"""The JSON functions of SQL: scans and the JVM give the same values, and indexes are asked."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import lance_spark
from lance_spark.expr.json_path.nodes import CONTAINS, EXISTS, EXTRACT, LENGTH, JsonTest
from lance_spark.expr.json_path.values import JsonKind, json_steps, json_values
from lance_spark.expr.nodes import Column
from lance_spark.spark.compat import SPARK
from tests.support.connector.plans import plan

VALUES = [
    *("1", "-1", "0", "2.5", "-2.5", "0.5", "1.0", "1e16", "1e15", "1e-7", "0.0001", "0.00001", "1e300", "5e-324"),
    *("123456789.125", "0.1", "1.7976931348623157e308", "9223372036854775807", "9223372036854775808"),
    *("18446744073709551615", "-9223372036854775808", "123456789012345678901234567890", "9.2e18", "9.3e18"),
    *("true", "false", "null", '"text"', '"12"', '"+5"', '"-0"', '"1e3"', '"1.5 "', '" 7"', '"0x10"', '"1_0"', '"inf"'),
    *('"NaN"', '"-Infinity"', '"1d"', '"true"', '"\\u0661"', '""', "[]", "{}", "[1]", '[1,"1",null,2.5,true,"é",[3]]'),
    '{"b c":{"d":[10,{"e":"deep"}]},"k":"v","":1,"$.k":2}',
]
DOCUMENTS = [*VALUES, *(f'{{"a":{value}}}' for value in VALUES), None]
PATHS = [
    "a",
    "$.a",
    "$",
    '$.a."b c".d[1].e',
    '$.a["b c"].d[0]',
    "$[0]",
    "$.a[1]",
    "$.a[99999999999]",
    "",
    "$.k",
    '$.""',
]
ITEMS = ["1", "null", "2.5", "2.50", "true", "é", '"é"', "10", "x"]


@pytest.fixture(scope="module")
def table(spark: SparkSession) -> Iterator[str]:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.db")
    spark.sql("CREATE TABLE lance.db.json_values (id BIGINT, j VARIANT) TBLPROPERTIES ('j.lance.json' = 'true')")
    uri = spark.sql("DESCRIBE EXTENDED lance.db.json_values").where("col_name = 'Location'").collect()[0][1]
    rows = pa.table({"id": range(len(DOCUMENTS)), "j": pa.array(DOCUMENTS, pa.json_())})
    lance.write_dataset(rows, uri, mode="append")
    yield "lance.db.json_values"
    spark.sql("DROP TABLE lance.db.json_values")


def stored(spark: SparkSession, table: str) -> pa.Array:
    uri = spark.sql(f"DESCRIBE EXTENDED {table}").where("col_name = 'Location'").collect()[0][1]
    _, batches = lance_spark.open(uri).stored_rows(["j"])
    return pa.Table.from_batches(batches)["j"].combine_chunks()


def same(one: list[object], other: list[object]) -> bool:
    def folded(values: list[object]) -> list[object]:
        return ["NaN" if isinstance(value, float) and math.isnan(value) else value for value in values]

    return folded(one) == folded(other)


ZEROS = pytest.mark.since("4.1", "decimal numbers of variants with the zeros at their end")


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=ZEROS if kind is JsonKind.STRING else ()) for kind in JsonKind]
)
def test_values_in_the_jvm_are_those_of_scans(spark: SparkSession, table: str, kind: JsonKind) -> None:
    documents = stored(spark, table)
    calls = [f"json_get_{kind.value}(j, '{path}')" for path in PATHS]
    rows = spark.table(table).orderBy("id").selectExpr(*calls).collect()
    for number, path in enumerate(PATHS):
        expected = json_values(documents, json_steps(path), kind).to_pylist()
        assert same([row[number] for row in rows], expected), path


@ZEROS
def test_tests_in_the_jvm_are_those_of_scans(spark: SparkSession, table: str) -> None:
    documents = stored(spark, table)
    paths = [path for path in PATHS if path.startswith("$")]
    tests = [JsonTest(name, Column(("j",)), path) for name in (EXISTS, LENGTH, EXTRACT) for path in paths]
    tests += [JsonTest(CONTAINS, Column(("j",)), path, item) for path in ("$", "$.a") for item in ITEMS]
    rows = spark.table(table).orderBy("id").selectExpr(*(test.to_sql() for test in tests)).collect()
    for number, test in enumerate(tests):
        assert [row[number] for row in rows] == test.evaluated(documents).to_pylist(), test


CONDITIONS = [
    "json_get_int(j, 'a') = 1",
    "json_get_int(j, '$.a') <> 1",
    "json_get_int(j, 'a') <=> 12",
    "json_get_int(j, 'a') IN (1, 5, 12)",
    "2 < json_get_int(j, 'a')",
    "json_get_int(j, 'a') IS NULL",
    "NOT (json_get_float(j, 'a') >= 2.5D)",
    "json_get_float(j, 'a') BETWEEN 0.1D AND 3D AND id > 3",
    "json_get_string(j, 'a') LIKE 'te%'",
    pytest.param("json_get_string(j, 'a') = '1.0'", marks=ZEROS),
    "json_get_string(j, '$.a.\"b c\".d[1].e') = 'deep'",
    "json_get_bool(j, 'a')",
    "NOT json_get_bool(j, 'a')",
    "json_exists(j, '$.a[1]')",
    "json_array_length(j, '$.a') > 1",
    "json_array_contains(j, '$.a', 'null') OR id < 2",
    "json_extract(j, '$.a') = '\"text\"'",
    "json_extract(j, '$') IN ('0.00001', '[1]', '{}', 'null')",
    "json_extract(j, '$.a') IS NULL",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_are_pushed(spark: SparkSession, table: str, condition: str) -> None:
    found = spark.table(table).where(condition)
    assert not re.search(r"\bFilter\b", plan(found))
    # A condition that the source cannot have read is evaluated by Spark.
    kept = spark.table(table).selectExpr("*", "rand() AS r").where(f"({condition}) AND r >= 0")
    assert re.search(r"\bFilter\b.*json_", plan(kept))
    ids = [row.id for row in found.select("id").orderBy("id").collect()]
    assert ids == [row.id for row in kept.select("id").orderBy("id").collect()]
    assert 0 < len(ids) < len(DOCUMENTS)


@pytest.mark.parametrize(
    ("condition", "equivalent"),
    [
        ("(json_get_bool(j, 'a') AND id < 60) IS NOT NULL", "b IS NOT NULL OR id >= 60"),
        ("CASE WHEN json_get_bool(j, 'a') OR id = 3 THEN true ELSE id < 3 END", "b OR id <= 3"),
        ("coalesce(NOT json_get_bool(j, 'a'), id < 9)", "NOT b OR (b IS NULL AND id < 9)"),
    ],
)
def test_functions_may_be_a_part_of_any_condition(
    spark: SparkSession, table: str, condition: str, equivalent: str
) -> None:
    """Spark's own translation of AND, OR and NOT of functions inside of other expressions fails."""
    known = [(row.id, row.b) for row in spark.sql(f"SELECT id, json_get_bool(j, 'a') AS b FROM {table}").collect()]
    expected = spark.createDataFrame(known, "id BIGINT, b BOOLEAN").where(equivalent)
    found = spark.table(table).where(condition)
    assert sorted(row.id for row in found.collect()) == sorted(row.id for row in expected.collect())


@pytest.mark.slow
def test_functions_may_be_a_part_of_any_expression(spark: SparkSession, table: str, tmp_path: Path) -> None:
    path = f"lance.`{tmp_path / 'copy'}`"
    spark.sql(f"CREATE TABLE {path} (id INT, j VARIANT) USING lance TBLPROPERTIES ('j.lance.json' = 'true')")
    values = "(1, 'true'), (2, 'false'), (3, 'null'), (4, 'true')"
    spark.sql(f"INSERT INTO {path} SELECT id, parse_json(concat('{{\"a\":', j, '}}')) FROM VALUES {values} AS v(id, j)")
    both = "json_get_bool(j, 'a') AND id > 1"
    for query, rows in {
        f"SELECT {both}, count(*) FROM {path} GROUP BY 1 ORDER BY 2, 1": [(None, 1), (True, 1), (False, 2)],
        f"SELECT sum(CASE WHEN {both} THEN id END) FROM {path}": [(4,)],
        f"SELECT id FROM {path} ORDER BY {both}, id DESC LIMIT 2": [(3,), (2,)],
        f"SELECT t.id FROM {path} t JOIN {path} u ON (t.id = u.id AND coalesce(NOT json_get_bool(t.j, 'a'), true))": [
            (2,),
            (3,),
        ],
    }.items():
        assert sorted(map(tuple, spark.sql(query).collect()), key=str) == sorted(rows, key=str), query
    spark.sql(f"DELETE FROM {path} WHERE ({both}) IS NULL")
    spark.sql(f"DELETE FROM {path} WHERE NOT json_get_bool(j, 'a') AND id > 1")
    assert sorted(row.id for row in spark.table(path).collect()) == [1, 4]


def test_length_of_an_array_is_that_of_spark_unless_a_path_is_given(spark: SparkSession) -> None:
    spark.sql("CREATE OR REPLACE TEMP VIEW documents AS SELECT '[1,2,3]' AS whole, '{\"a\":[1,2]}' AS part, 2L AS id")
    lengths = "json_array_length(whole), JSON_array_length(part, '$.a'), json_array_length(part, '$.b')"
    assert spark.sql(f"SELECT {lengths} FROM documents").first()[:] == (3, 2, None)
    nested = "SELECT count(*) FROM documents WHERE id IN (SELECT json_array_length(part, '$.a') FROM documents)"
    assert spark.sql(nested).first()[0] == 1
    frame = spark.table("documents")
    assert frame.select(F.json_array_length("whole"), F.expr("json_array_length(part, '$.a')")).first()[:] == (3, 2)
    assert frame.select(F.call_function("json_array_length", "part", F.lit("$.a"))).first()[:] == (2,)
    with pytest.raises(AnalysisException, match="WRONG_NUM_ARGS"):
        spark.sql("SELECT json_array_length(whole, '$', 1) FROM documents")


def test_index_of_a_path_is_asked(spark: SparkSession, table: str) -> None:
    spark.sql(
        f"ALTER TABLE {table} CREATE INDEX by_a USING json (j) WITH (path = '$.a.k', target_index_type = 'btree')"
    )
    found = spark.table(table).where("json_get_string(j, '$.a.k') = 'v'")
    assert "by_a" in plan(found)
    assert found.count() == 1


PUSHED_TEXTS = ["j:a::STRING = 'text'", "'v' = j:a.k::STRING", "j:a.k::STRING IN ('v', 'w')"]
PUSHED_TEXTS += [
    "variant_get(j, '$.a', 'string') = 'true' OR id = 3",
    "try_variant_get(j, '$[\"a\"].k', 'string') = 'v'",
]
PUSHED_TEXTS += ["""variant_get(j, '$.a["b c"].d[1].e')::STRING = 'deep'""", "j:a::STRING = ''"]
KEPT_TEXTS = ["NOT (j:a::STRING = 'text')", "j:a::STRING <> 'text'", "j:a::STRING = '1'", "j:a::STRING <=> 'text'"]
KEPT_TEXTS += ["j:a::STRING IN ('text', '2.5')", "j:a::STRING = 'inf'", "j:a::STRING = '[]'", "j:a::STRING > 's'"]
KEPT_TEXTS += ["try_variant_get(j, '$.a', 'int') = 1", "collate(j:a::STRING, 'UTF8_LCASE') = 'TEXT'"]


@pytest.mark.since("4.1", "v:a, short for variant_get")
@pytest.mark.parametrize("condition", PUSHED_TEXTS + KEPT_TEXTS)
def test_conditions_on_texts_of_variants(spark: SparkSession, table: str, condition: str) -> None:
    found = spark.table(table).where(condition)
    # Spark has no such condition for sources before 4.3.
    assert bool(re.search(r"\bFilter\b", plan(found))) is (condition in KEPT_TEXTS or SPARK < (4, 3))
    kept = spark.table(table).selectExpr("*", "rand() AS r").where(f"({condition}) AND r >= 0")
    assert re.search(r"\bFilter\b", plan(kept))
    ids = [row.id for row in found.select("id").orderBy("id").collect()]
    assert ids == [row.id for row in kept.select("id").orderBy("id").collect()]
    assert 0 < len(ids) < len(DOCUMENTS) or "inf" in condition


@pytest.mark.since("4.1", "v:a, short for variant_get")
@pytest.mark.slow
def test_conditions_on_all_texts_of_variants(spark: SparkSession, table: str) -> None:
    texts = {row.t for row in spark.table(table).selectExpr("j:a::STRING AS t").collect()} | {"Infinity", "1d"}
    for text in sorted(text for text in texts if text is not None):
        condition = f"j:a::STRING = r'{text}'"
        kept = spark.table(table).selectExpr("*", "rand() AS r").where(f"({condition}) AND r >= 0")
        expected = [row.id for row in kept.select("id").orderBy("id").collect()]
        assert [row.id for row in spark.table(table).where(condition).orderBy("id").collect()] == expected, text


@pytest.mark.since("4.3", "variant_get in conditions for sources")
def test_index_answers_conditions_on_texts_of_variants(spark: SparkSession) -> None:
    name = "lance.db.json_kinds"
    spark.sql(f"CREATE OR REPLACE TABLE {name} (id BIGINT, j VARIANT) TBLPROPERTIES ('j.lance.json' = 'true')")
    uri = spark.sql(f"DESCRIBE EXTENDED {name}").where("col_name = 'Location'").collect()[0][1]
    texts = [*(f'{{"kind": "k{row % 7}", "n": {row}}}' for row in range(200)), '{"kind": {"k3": 1}}', "{}", None]
    rows = pa.table({"id": range(len(texts)), "j": pa.array(texts, pa.json_())})
    lance.write_dataset(rows, uri, mode="append")
    spark.sql(
        f"ALTER TABLE {name} CREATE INDEX by_kind USING json (j) WITH (path = '$.kind', target_index_type = 'btree')"
    )
    found = spark.table(name).where("j:kind::STRING = 'k3'")
    assert "by_kind" in plan(found)
    assert [row.id for row in found.select("id").orderBy("id").collect()] == list(range(3, 200, 7))


def test_texts_are_documents_too(spark: SparkSession) -> None:
    row = spark.sql("""SELECT json_get_int('{"a":3}', 'a'), json_get_int('no', 'a'), json_get_int(NULL, 'a')""").first()
    assert row is not None
    assert row[:] == (3, None, None)
    assert spark.sql("SELECT lance.json_get_bool('[true]', '$[0]')").collect() == [(True,)]


def test_functions_change_rows(spark: SparkSession, table: str) -> None:
    spark.sql("CREATE TABLE lance.db.json_changes AS SELECT id, j FROM lance.db.json_values WHERE id < 3")
    spark.sql("UPDATE lance.db.json_changes SET id = 100 WHERE json_get_int(j, '$') = -1")
    spark.sql("DELETE FROM lance.db.json_changes WHERE json_get_int(j, '$') = 1")
    rows = spark.sql("SELECT id FROM lance.db.json_changes ORDER BY id").collect()
    assert [row.id for row in rows] == [2, 100]
    spark.sql("DROP TABLE lance.db.json_changes")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("json_get_int(j)", "use it as json_get_int"),
        ("json_get_int(id, 'a')", "does not take arguments of types"),
        ("json_exists(j, 'a')", r"begins with \$"),
        ("json_get_int(j, '$.')", "no path into JSON"),
        ("json_array_contains(j, '$.a')", "use it as json_array_contains"),
    ],
)
def test_wrong_arguments(spark: SparkSession, table: str, call: str, message: str) -> None:
    with pytest.raises(PySparkException, match=message):
        spark.sql(f"SELECT {call} FROM {table}").collect()
