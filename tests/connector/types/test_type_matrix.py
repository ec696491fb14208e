"""Every type of Spark in every place: by path, by name, nested, as a key of partitions, in MERGE, and in streams.

What is expected are the rows of Spark itself before they are written.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from lance_spark.spark.compat import SPARK
from tests.docs.generators import loaded

_SINCE = {"time(6)": (4, 1), "geometry(4326)": (4, 3), "geography(4326)": (4, 3)}
"""The first versions of Spark whose columns have a type; all others have the rest."""

_VALUES = {
    "boolean": ("true", "false"),
    "tinyint": ("-128Y", "127Y"),
    "smallint": ("-32768S", "32767S"),
    "int": ("-2147483648", "7"),
    "bigint": ("-9223372036854775808L", "9223372036854775807L"),
    "float": ("FLOAT('NaN')", "-0.5F"),
    "double": ("DOUBLE('-Infinity')", "1e300D"),
    "decimal(12,2)": ("-9999999999.99BD", "CAST(0.1 AS DECIMAL(12, 2))"),
    "string": ("''", "'größer \\\\ \\'x\\''"),
    "string collate UTF8_LCASE": ("'a' COLLATE UTF8_LCASE", "'Ä' COLLATE UTF8_LCASE"),
    "char(5)": ("CAST('ab   ' AS CHAR(5))", "CAST('abcde' AS CHAR(5))"),
    "varchar(5)": ("CAST('' AS VARCHAR(5))", "CAST('abcde' AS VARCHAR(5))"),
    "binary": ("X''", "X'00FF10'"),
    "date": ("DATE '0001-01-01'", "DATE '9999-12-31'"),
    "timestamp": ("TIMESTAMP '1900-01-01 00:00:00.000001'", "TIMESTAMP '9999-12-31 23:59:59.999999'"),
    "timestamp_ntz": ("TIMESTAMP_NTZ '0001-01-01 00:00:00'", "TIMESTAMP_NTZ '2026-03-29 02:30:00.5'"),
    "time(6)": ("TIME '00:00:00'", "TIME '23:59:59.999999'"),
    "interval day to second": ("INTERVAL '-1 2:3:4.5' DAY TO SECOND", "INTERVAL '100 0:0:0' DAY TO SECOND"),
    "interval year to month": ("INTERVAL '-1-2' YEAR TO MONTH", "INTERVAL '100-11' YEAR TO MONTH"),
    "geometry(4326)": (
        "ST_SetSrid(ST_GeomFromWKB(X'0101000000000000000000F03F0000000000000040'), 4326)",
        "ST_SetSrid(ST_GeomFromWKB(X'010100000000000000000000000000000000000000'), 4326)",
    ),
    "geography(4326)": (
        "ST_GeogFromWKB(X'0101000000000000000000F03F0000000000000040')",
        "ST_GeogFromWKB(X'010100000000000000000000000000000000000000')",
    ),
    "variant": ("parse_json('{\"a\": [1, null]}')", "parse_json('7')"),
}
"""Two values of each type, in SQL."""

VALUES = {kind: values for kind, values in _VALUES.items() if _SINCE.get(kind, SPARK) <= SPARK}
"""Those of the types that this Spark has."""

_NO_KEYS = ("geometry(4326)", "geography(4326)", "variant", "binary", "string collate UTF8_LCASE")
KEYS = [kind for kind in VALUES if kind not in _NO_KEYS]
"""The types that have identity as a partition transform."""


def shown(kind: str, value: str) -> str:
    """A value in a form that has an equality."""
    if kind == "variant":
        return f"to_json({value})"
    if kind.startswith("geo"):
        return f"hex(ST_AsBinary({value}))"
    if kind == "interval year to month":
        return f"CAST({value} AS STRING)"  # pyspark has no value for it.
    return value


def rows(spark: SparkSession) -> DataFrame:
    """A row with the first values, one with the second, one of nulls; each type alone and in the nested types."""
    columns = ["1 AS id"], ["2 AS id"], ["3 AS id"]
    for number, (kind, values) in enumerate(VALUES.items()):
        for place, value in enumerate((*values, f"CAST(NULL AS {kind})")):
            columns[place].append(f"{value} AS c{number}")
            columns[place].append(f"struct({value} AS x, struct({value} AS y) AS s) AS s{number}")
            columns[place].append(f"array({value}, NULL) AS a{number}")
            columns[place].append(f"map('k', {value}) AS m{number}")
    return spark.sql(" UNION ALL ".join(f"SELECT {', '.join(part)}" for part in columns))


def answer(frame: DataFrame) -> list[str]:
    """All values as Spark prints them, rows by id; NaN equals itself."""
    taken = ["id"]
    for number, kind in enumerate(VALUES):
        taken.append(shown(kind, f"c{number}"))
        taken += [shown(kind, f"s{number}.x"), shown(kind, f"s{number}.s.y")]
        taken += [shown(kind, f"a{number}[0]"), shown(kind, f"a{number}[1]"), shown(kind, f"m{number}['k']")]
        taken += [f"size(a{number})", f"size(m{number})"]
    return [repr(row) for row in frame.selectExpr(*taken).orderBy("id").collect()]


@pytest.fixture(scope="module", autouse=True)
def time_type(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.timeType.enabled", "true")
    yield
    spark.conf.unset("spark.sql.timeType.enabled")


@pytest.fixture(scope="module")
def source(spark: SparkSession) -> DataFrame:
    return rows(spark)


@pytest.mark.since("4.3", "all types of the page")
def test_all_types_of_the_page_are_here() -> None:
    page = loaded("generate_types")
    assert {kind.simpleString() for kind in page.WRITTEN} - {
        *("void", "array<int>", "map<string,int>", "struct<x:int>"),  # Around each of the others.
        *(
            kind.simpleString() for kind in page.WRITTEN if hasattr(kind, "sqlType")
        ),  # tests/connector/search/test_ml_vectors.py
    } == set(VALUES)


@pytest.mark.slow
def test_by_path(spark: SparkSession, source: DataFrame, uri: str) -> None:
    source.write.format("lance").save(uri)
    found = spark.read.format("lance").load(uri)
    assert found.dtypes == source.dtypes
    assert answer(found) == answer(source)
    source.write.format("lance").mode("overwrite").save(uri)
    assert answer(spark.read.format("lance").load(uri)) == answer(source)


@pytest.mark.slow
@pytest.mark.parametrize("partitioned", ["", "PARTITIONED BY (id)"])
def test_by_name_and_in_dml(spark: SparkSession, source: DataFrame, partitioned: str) -> None:
    table = f"lance.type_matrix_{len(partitioned)}"
    source.createOrReplaceTempView("type_matrix")
    spark.sql(f"CREATE TABLE {table} {partitioned} AS SELECT * FROM type_matrix")
    assert spark.table(table).dtypes == source.dtypes
    assert answer(spark.table(table)) == answer(source)
    # Rows swap their values, one is new, and the nulls are deleted.
    changed = "SELECT * EXCEPT (id), CASE id WHEN 1 THEN 2 WHEN 2 THEN 1 ELSE 4 END AS id FROM type_matrix"
    spark.sql(
        f"MERGE INTO {table} t USING ({changed}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    expected = answer(spark.sql(changed).select(source.columns))
    assert answer(spark.table(table)) == expected
    spark.sql(f"UPDATE {table} SET id = id + 0")
    spark.sql(f"CALL lance.system.optimize(table => '{table}')")
    assert answer(spark.table(table)) == expected


@pytest.mark.since("4.2", "CREATE TABLE LIKE of such tables")
@pytest.mark.slow
def test_streamed(spark: SparkSession, source: DataFrame, tmp_path: Path) -> None:
    source.writeTo("lance.type_matrix_source").create()
    spark.sql("CREATE TABLE lance.type_matrix_sink LIKE lance.type_matrix_source")
    stream = spark.readStream.table("lance.type_matrix_source").writeStream.trigger(availableNow=True)
    query = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).toTable("lance.type_matrix_sink")
    query.awaitTermination()
    assert answer(spark.table("lance.type_matrix_sink")) == answer(source)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KEYS)
def test_as_keys_of_partitions(spark: SparkSession, kind: str) -> None:
    table = f"lance.type_matrix_key_{KEYS.index(kind)}"
    first, second = VALUES[kind]
    spark.sql(f"CREATE TABLE {table} (id INT, k {kind}) PARTITIONED BY (k)")
    spark.sql(f"INSERT INTO {table} VALUES (1, {first}), (2, {second}), (3, NULL), (4, {first})")
    expected = spark.sql(f"SELECT * FROM VALUES (1, {first}), (2, {second}), (3, NULL), (4, {first}) AS t(id, k)")
    columns = ["id", shown(kind, "k")]
    found = spark.table(table).selectExpr(*columns).collect()
    assert sorted(map(repr, found)) == sorted(map(repr, expected.selectExpr(*columns).collect()))
    assert [row.id for row in spark.table(table).where(f"k = {second}").select("id").collect()] == [2]
    assert sorted(row.id for row in spark.table(table).where(f"k = {first}").select("id").collect()) == [1, 4]
    assert [row.id for row in spark.table(table).where("k IS NULL").select("id").collect()] == [3]
