"""VARIANT columns: structs with `arrow.parquet.variant` in the table, the same values and type back in Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as st

import lance_spark
from lance_spark.expr.json_path.documents import json_document

pytestmark = pytest.mark.since("4.1", "paths of VARIANT after a colon")

COLUMNS = "id BIGINT, v VARIANT, s STRUCT<v: VARIANT, x: INT>, a ARRAY<VARIANT>, m MAP<STRING, VARIANT>"
DOCUMENT = '{"a":[1,2.5,null,"t"],"b":{"c":true}}'
ROW = (
    f"1L AS id, parse_json('{DOCUMENT}') AS v, named_struct('v', parse_json('[7]'), 'x', 1) AS s, "
    "array(parse_json('1'), NULL, parse_json('null')) AS a, map('k', parse_json('\"text\"')) AS m"
)
READ = (
    "SELECT to_json(v), to_json(s.v), to_json(a[0]), a[1] IS NULL, a[2] IS NULL, is_variant_null(a[2]), "
    "m['k']::STRING, v:b.c::BOOLEAN FROM {} WHERE id = 1"
)
EXPECTED = (DOCUMENT, "[7]", "1", True, False, True, "text", True)


@pytest.mark.slow
@pytest.mark.parametrize("partitioned", ["", " PARTITIONED BY (id)"])
def test_variants_come_back_from_tables_and_statements(spark: SparkSession, partitioned: str) -> None:
    name = f"lance.variants{len(partitioned)}"
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}){partitioned}")
    declared = spark.table(name).schema
    assert declared["v"].dataType == st.VariantType()
    assert declared["a"].dataType == st.ArrayType(st.VariantType())
    spark.sql(f"INSERT INTO {name} SELECT {ROW}")
    spark.sql(f"INSERT INTO {name} (id) VALUES (2), (3)")
    assert spark.sql(READ.format(name)).first()[:] == EXPECTED
    spark.sql(f"UPDATE {name} SET v = parse_json('{{\"n\":9}}') WHERE id = 2")
    spark.sql(
        f"MERGE INTO {name} t USING (SELECT id + 2 AS id, v FROM {name} WHERE id < 3) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
    )
    rows = spark.sql(f"SELECT id, to_json(v), size(a) FROM {name} ORDER BY id").collect()
    nine = '{"n":9}'
    assert [tuple(row) for row in rows] == [(1, DOCUMENT, 3), (2, nine, None), (3, DOCUMENT, None), (4, nine, None)]
    assert spark.sql(f"SELECT id FROM {name} WHERE v:n::INT = 9 ORDER BY id").collect() == [(2,), (4,)]
    assert spark.sql(f"SELECT count(v), count(s) FROM {name}").first()[:] == (4, 1)
    spark.sql(f"DELETE FROM {name} WHERE v:b.c::BOOLEAN")
    assert spark.sql(f"SELECT id FROM {name} ORDER BY id").collect() == [(2,), (4,)]
    spark.sql(f"CREATE TABLE {name}_copy AS SELECT * FROM {name}")
    assert spark.table(f"{name}_copy").schema == declared


def test_variants_by_path_are_structs_for_others(spark: SparkSession, uri: str) -> None:
    frame = spark.sql(f"SELECT {ROW}")
    frame.write.format("lance").save(uri)
    frame.write.format("lance").mode("append").save(uri)
    found = spark.read.format("lance").load(uri)
    assert [row.v.toPython() for row in found.collect()] == [{"a": [1, 2.5, None, "t"], "b": {"c": True}}] * 2
    table = lance.dataset(uri).to_table()
    field = table.schema.field("v")
    assert [child.name for child in field.type] == ["metadata", "value"]
    assert field.metadata[b"ARROW:extension:name"] == b"arrow.parquet.variant"
    own = frame.selectExpr("v").first().v
    assert table["v"].to_pylist() == [{"metadata": own.metadata, "value": own.value}] * 2
    lance_spark.open(uri).compact()
    assert spark.read.format("lance").load(uri).selectExpr("to_json(v)").collect() == [(DOCUMENT,)] * 2


def test_structs_of_others_with_the_extension_are_variants(spark: SparkSession, uri: str) -> None:
    value = spark.sql(f"SELECT parse_json('{DOCUMENT}') AS v").first().v
    members = [pa.field("metadata", pa.binary()), pa.field("value", pa.large_binary())]
    named = {"ARROW:extension:name": "arrow.parquet.variant"}
    fields = [
        pa.field("v", pa.struct(members), metadata=named),
        pa.field("plain", pa.struct(members)),
        pa.field("shredded", pa.struct([*members, pa.field("typed_value", pa.int64())]), metadata=named),
    ]
    given = {"metadata": bytes(value.metadata), "value": bytes(value.value)}
    rows = [
        {"v": given, "plain": given, "shredded": {**given, "typed_value": 1}},
        {"v": None, "plain": None, "shredded": None},
    ]
    lance.write_dataset(pa.Table.from_pylist(rows, pa.schema(fields)), uri, data_storage_version="2.2")
    found = spark.read.format("lance").load(uri)
    assert found.schema["v"].dataType == st.VariantType()
    assert [field.name for field in found.schema["plain"].dataType] == ["metadata", "value"]
    assert len(found.schema["shredded"].dataType.fields) == 3
    assert found.selectExpr("to_json(v)").collect() == [(DOCUMENT,), (None,)]
    found.write.format("lance").mode("append").save(uri)
    assert lance.dataset(uri).to_table(columns=["v"])["v"].to_pylist() == [given, None] * 2


def test_variants_are_streamed(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    spark.sql(f"SELECT {ROW}").write.format("lance").save(uri)
    stream = spark.readStream.format("lance").load(uri).writeStream.format("lance").trigger(availableNow=True)
    copy = str(tmp_path / "copy.lance")
    stream.option("checkpointLocation", str(tmp_path / "c")).start(copy).awaitTermination()
    spark.read.format("lance").load(copy).createOrReplaceTempView("streamed_variants")
    assert spark.sql(READ.format("streamed_variants")).first()[:] == EXPECTED


def test_plain_structs_are_not_written_into_variants(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE lance.only_variants (v VARIANT)")
    with pytest.raises(PySparkException):
        spark.sql("INSERT INTO lance.only_variants SELECT named_struct('metadata', X'00', 'value', X'00')")
    assert spark.table("lance.only_variants").count() == 0


NARROWED = [
    "SELECT id, v:a[1]::DOUBLE AS x, v:b.c::BOOLEAN AS y FROM {t} ORDER BY id",
    "SELECT sum(v:n::INT) AS x, v:s::STRING AS y FROM {t} GROUP BY v:s::STRING ORDER BY y",
    "SELECT t.id, to_json(u.v:a) AS x FROM {t} t JOIN {t} u ON t.v:n::INT = u.v:n::INT + 1 ORDER BY t.id",
    "SELECT id FROM {t} WHERE v:s::STRING = 'x' AND v IS NOT NULL ORDER BY v:n::INT DESC LIMIT 3",
    "SELECT id, schema_of_variant(v:b) AS x, v:missing.more[3]::INT AS y FROM {t} ORDER BY id",
    "SELECT count(v) AS c, count(v:n) AS x, count_if(v IS NULL) AS y FROM {t}",
    "SELECT id, try_variant_get(v, '$.s', 'int') AS x FROM {t} ORDER BY id",
    "SELECT id, variant_get(v, '$[\"long key\"]', 'string') AS y FROM {t} ORDER BY id",
    "SELECT id, to_json(v) AS x, v:n::INT AS y FROM {t} ORDER BY id",
    "SELECT id, v:n::INT AS x FROM (SELECT id, v FROM {t} WHERE id > 1 LIMIT 100) ORDER BY id",
    "SELECT id FROM {t} WHERE EXISTS (SELECT 1 FROM {t} u WHERE u.v:n::INT = {t}.v:n::INT + 1) ORDER BY id",
]


@pytest.fixture(scope="module")
def narrowed_tables(spark: SparkSession) -> Iterator[tuple[str, str, str]]:
    """The same rows in columns of variants, of JSON documents, and in Parquet."""
    texts = [f'{{"n": {row}, "s": "x", "a": [1, 2.5, {{"k": {row}}}], "b": {{"c": true}}}}' for row in range(5)]
    texts += ["[1, 2]", '"x"', "{}", '{"s": {"n": 1}, "long key": "é"}', '{"n": null, "a": {"k": 1}, "b": 5}']
    rows = spark.createDataFrame([*enumerate(texts), (99, None)], "id INT, text STRING")
    rows.createOrReplaceTempView("narrowed_rows")
    names = ("lance.narrowed_variants", "lance.narrowed_json", "narrowed_parquet")
    spark.sql(f"CREATE TABLE {names[0]} (id INT, v VARIANT)")
    spark.sql(f"CREATE TABLE {names[1]} (id INT, v VARIANT) TBLPROPERTIES ('v.lance.json' = 'true')")
    spark.sql(f"CREATE TABLE {names[2]} (id INT, v VARIANT) USING parquet")
    for name in names:
        spark.sql(f"INSERT INTO {name} SELECT id, parse_json(text) FROM narrowed_rows")
    yield names
    for name in names:
        spark.sql(f"DROP TABLE {name}")


@pytest.mark.parametrize("query", NARROWED)
@pytest.mark.parametrize("kind", [0, 1], ids=["variant", "json"])
def test_rows_of_narrowed_variants(
    spark: SparkSession, narrowed_tables: tuple[str, str, str], query: str, kind: int
) -> None:
    expected = spark.sql(query.format(t=narrowed_tables[2])).collect()
    for enabled in ("false", "true"):
        spark.conf.set("spark.sql.lance.variantPaths.enabled", enabled)
        assert spark.sql(query.format(t=narrowed_tables[kind])).collect() == expected
    spark.conf.unset("spark.sql.lance.variantPaths.enabled")


@pytest.mark.parametrize("kind", [0, 1], ids=["variant", "json"])
def test_casts_fail_for_the_rows_that_spark_casts(
    spark: SparkSession, narrowed_tables: tuple[str, str, str], kind: int
) -> None:
    query = f"SELECT v:s::INT FROM {narrowed_tables[kind]}"
    with pytest.raises(PySparkException, match="INVALID_VARIANT_CAST"):
        spark.sql(query).collect()
    assert spark.sql(f"{query} WHERE id IN (5, 99)").collect() == [(None,), (None,)]
    with pytest.raises(PySparkException, match="INVALID_VARIANT_CAST"):
        spark.sql(f"DELETE FROM {narrowed_tables[kind]} WHERE v:s::INT = 1")


def test_members_that_are_not_used_are_not_read(spark: SparkSession, uri: str) -> None:
    document = json_document('{"a": 5, "rest": "text"}').replace(b"text", b"te\xff\xff")
    metadata = {"ARROW:extension:name": "lance.json"}
    schema = pa.schema([pa.field("v", pa.large_binary(), metadata=metadata)])
    lance_spark.write(pa.table({"v": [document]}, schema=schema), uri)
    frame = spark.read.format("lance").load(uri)
    assert frame.selectExpr("v:a::INT").collect() == [(5,)]
    with pytest.raises(PySparkException, match="no binary JSON"):
        frame.selectExpr("to_json(v)").collect()
