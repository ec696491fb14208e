"""Statements that are refused: each by one clear error with a condition, and nothing of them is left."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lance_spark.spark.compat import SPARK


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    where = str(tmp_path_factory.mktemp("errors") / "t")
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("i", pa.int32()),
            pa.field("s", pa.string()),
            pa.field("d", pa.decimal128(5, 2)),
            pa.field("st", pa.struct([("x", pa.int32())])),
            pa.field("h", pa.float16()),
            pa.field("u", pa.uint8()),
        ]
    )
    lance.write_dataset(pa.table({name: [] for name in schema.names}, schema=schema), where)
    return where


REFUSED = [
    ("INSERT INTO {} (id, i) VALUES (1, 3000000000)", "CAST_OVERFLOW_IN_TABLE_INSERT"),
    ("INSERT INTO {} (id, d) VALUES (1, 12345.5)", "CAST_OVERFLOW_IN_TABLE_INSERT"),
    ("INSERT INTO {} (id, i) VALUES ('x', 1)", "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST"),
    ("INSERT INTO {} (id, st) VALUES (1, 7)", "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST"),
    ("INSERT INTO {} (id) VALUES (NULL)", "NOT_NULL_ASSERT_VIOLATION"),
    ("INSERT INTO {} (i) VALUES (1)", "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_FIND_DATA"),
    ("INSERT INTO {} (id, nope) VALUES (1, 2)", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
    ("INSERT INTO {} VALUES (1, 2)", "INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS"),
    ("INSERT INTO {} BY NAME SELECT 1L AS id, 2 AS nope", "INCOMPATIBLE_DATA_FOR_TABLE.EXTRA_COLUMNS"),
    ("INSERT INTO {} WITH (max_row_per_fil = 1) (id) VALUES (1)", "LANCE_INVALID_INPUT"),
    ("INSERT INTO {} WITH (version = 1) (id) VALUES (1)", "LANCE_INVALID_INPUT"),
    ("INSERT INTO {} WITH (distribution = 'hash') (id) VALUES (1)", "LANCE_INVALID_INPUT"),
    ("DELETE FROM {} WHERE nope = 1", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
    ("ALTER TABLE {} ADD COLUMN _rowid BIGINT", "LANCE_INVALID_INPUT"),
    ("ALTER TABLE {} RENAME COLUMN i TO _rowaddr", "LANCE_INVALID_INPUT"),
    ("ALTER TABLE {} SET TBLPROPERTIES ('s.lance.encoding' = 'blob')", "LANCE_"),
    ("SELECT * FROM {} VERSION AS OF 99", "LANCE_NOT_FOUND"),
    ("SELECT * FROM {} VERSION AS OF 'gone'", "LANCE_NOT_FOUND"),
    ("SELECT * FROM {}.branch_gone", "LANCE_NOT_FOUND"),
    ("CREATE TABLE {}_new (_rowid BIGINT)", "LANCE_INVALID_INPUT"),
    ("CREATE TABLE {}_new (`a.b` BIGINT)", "LANCE_INVALID_INPUT"),
    ("CREATE TABLE {}_new (id BIGINT, ID BIGINT)", "COLUMN_ALREADY_EXISTS"),
    ("CREATE TABLE {}_new (id BIGINT) TBLPROPERTIES ('file_format_version' = '2.3')", "LANCE_UNSUPPORTED_FEATURE"),
    ("CREATE TABLE {}_new (id BIGINT) TBLPROPERTIES ('id.arrow.float16' = 'true')", "LANCE_INVALID_INPUT"),
    ("CREATE TABLE {}_new (b BINARY) TBLPROPERTIES ('b.lance.encoding' = 'blobs')", "LANCE_INVALID_INPUT"),
    ("CREATE TABLE {}_new AS SELECT 1 AS _rowaddr", "LANCE_INVALID_INPUT"),
]

GEOMETRY = pytest.mark.since("4.2", "GEOMETRY by default")
CONSTRAINTS = pytest.mark.since("4.1", "constraints")
LATER_REFUSED = [
    pytest.param("ALTER TABLE {} ADD COLUMN v GEOMETRY(ANY)", marks=GEOMETRY),
    pytest.param("CREATE TABLE {}_new (v STRUCT<a: GEOMETRY(ANY)>)", marks=GEOMETRY),
    pytest.param("CREATE TABLE {}_new (id BIGINT, CHECK (hash(id) > 5))", marks=CONSTRAINTS),
    pytest.param("CREATE TABLE {}_new (id BIGINT PRIMARY KEY)", marks=CONSTRAINTS),
]
"""Statements with what Spark has not always had."""


def files(uri: str) -> list[str]:
    return [path.name for path in Path(uri).glob("data/*")]


def refusal(spark: SparkSession, statement: str) -> PySparkException:
    with pytest.raises(PySparkException) as raised:
        spark.sql(statement).collect()
    text = str(raised.value)
    assert "Traceback" not in text, statement
    assert "\tat " not in text, statement
    return raised.value


@pytest.mark.slow
def test_statements_that_are_refused(spark: SparkSession, uri: str) -> None:
    for statement, condition in REFUSED:
        check_refused(spark, uri, statement, condition)
    assert lance.dataset(uri).version == 1
    assert files(uri) == []
    assert not Path(f"{uri}_new").exists()


@pytest.mark.parametrize("statement", LATER_REFUSED)
def test_later_statements_that_are_refused(spark: SparkSession, uri: str, statement: str) -> None:
    check_refused(spark, uri, statement, "LANCE_UNSUPPORTED_FEATURE")
    assert lance.dataset(uri).version == 1
    assert not Path(f"{uri}_new").exists()


def check_refused(spark: SparkSession, uri: str, statement: str, condition: str) -> None:
    told = refusal(spark, statement.format(f"lance.`{uri}`").replace("`_new", "_new`")).getCondition()
    assert str(told).startswith(condition), (statement, told)


@pytest.mark.parametrize(("column", "value"), [("h", "1e6F"), ("u", "-1S")])
def test_values_that_the_tables_own_types_cannot_hold(spark: SparkSession, uri: str, column: str, value: str) -> None:
    error = refusal(spark, f"INSERT INTO lance.`{uri}` (id, {column}) VALUES (1, {value})")
    assert (error.getCondition(), error.getSqlState()) == ("LANCE_INVALID_INPUT", "22023" if SPARK >= (4, 1) else None)
    assert f"column {column} has a value" in str(error)
    assert lance.dataset(uri).version == 1
    assert files(uri) == []


def test_writers_of_frames(spark: SparkSession, uri: str) -> None:
    rows = spark.range(1)
    for write in (
        lambda: rows.write.format("lance").option("version", "1").mode("append").save(uri),
        lambda: rows.writeTo(f"lance.`{uri}`").option("tag", "x").append(),
        lambda: rows.write.format("lance").option("write_mode", "append").mode("append").save(uri),
        lambda: rows.writeTo(f"lance.`{uri}x`").append(),
        lambda: rows.writeTo(f"lance.`{uri}x`").replace(),
        lambda: rows.writeTo(f"lance.`{uri}`").create(),
        lambda: rows.selectExpr("id", "1 AS nope").writeTo(f"lance.`{uri}`").append(),
    ):
        with pytest.raises(PySparkException) as raised:
            write()
        assert "Traceback" not in str(raised.value)
    assert lance.dataset(uri).version == 1
    assert not Path(f"{uri}x").exists()


def test_what_python_asks_of_an_error(spark: SparkSession) -> None:
    error = refusal(spark, "CALL lance.system.history(table => 'nowhere.orders')")
    text = "there is no table nowhere.orders in catalog lance"
    assert str(error).splitlines()[0] == f"[LANCE_NOT_FOUND] {text} SQLSTATE: 42704"
    assert (error.getCondition(), error.getSqlState()) == ("LANCE_NOT_FOUND", "42704")
    assert (error.getMessageParameters(), error.getQueryContext()) == ({}, [])
    # PySpark looks up the text by the condition; docs/reference/errors.md says so.
    with pytest.raises(Py4JJavaError, match="Cannot find main error class 'LANCE_NOT_FOUND'"):
        error.getMessage()
