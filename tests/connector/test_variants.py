"""VARIANT columns: structs with `arrow.parquet.variant` in the table, the same values and type back in Spark."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as st

import lance_spark

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
