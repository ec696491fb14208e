"""JSON columns: VARIANT or STRING in Spark, binary documents of the reference library in the table."""

from __future__ import annotations

import json
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as st

import lance_spark

DOCUMENTS = [
    '{"a":3,"b":{"c":"x"},"l":[1,2.5,null,true]}',
    "[]",
    None,
    '"text \\u00e9"',
    "null",
    "-12345678901234567",
    '{"a":"3"}',
]


def parsed(texts: list[str | None]) -> list[object]:
    return [None if text is None else json.loads(text) for text in texts]


@pytest.fixture
def theirs(uri: str) -> str:
    """A table of the reference library."""
    table = pa.table({"id": range(len(DOCUMENTS)), "j": pa.array(DOCUMENTS, pa.json_())})
    lance.write_dataset(table, uri)
    return uri


@pytest.mark.since("4.1", "paths of VARIANT after a colon")
def test_columns_of_pylance_are_variants(spark: SparkSession, theirs: str) -> None:
    found = spark.read.format("lance").load(theirs)
    assert found.schema["j"].dataType == st.VariantType()
    rows = found.orderBy("id").selectExpr("to_json(j)", "j IS NULL", "try_variant_get(j, '$.a', 'int')").collect()
    assert parsed([row[0] for row in rows]) == parsed(DOCUMENTS)
    assert [row[1] for row in rows] == [text is None for text in DOCUMENTS]
    assert [row[2] for row in rows] == [3, None, None, None, None, None, 3]
    assert found.where("j IS NOT NULL AND j:b.c::STRING = 'x'").select("id").collect() == [(0,)]


@pytest.mark.slow
def test_option_shows_text(spark: SparkSession, theirs: str) -> None:
    found = spark.read.format("lance").option("json_as", "string").load(theirs)
    assert found.schema["j"].dataType == st.StringType()
    assert parsed([row.j for row in found.orderBy("id").collect()]) == parsed(DOCUMENTS)
    # None of these may be asked of the stored bytes.
    text = DOCUMENTS[0]
    assert found.where(f"j = '{text}'").count() == 1
    assert found.where("j LIKE '%\"x\"%'").count() == 1
    assert found.where("j >= '[' AND j < '\\\\'").count() == 1
    assert found.where("j IN ('[]', 'null')").count() == 2
    assert (found.where("j LIKE '{%'").count(), found.where("j LIKE '%}'").count()) == (2, 2)
    assert found.join(found.withColumnRenamed("id", "other"), "j").count() == 6
    assert found.selectExpr("min(j)", "max(j)", "count(DISTINCT j)").first()[:] == ('"text é"', text, 6)
    assert [row.id for row in found.orderBy("j").limit(2).collect()] == [2, 3]
    assert found.where("get_json_object(j, '$.a') = '3'").count() == 2
    with pytest.raises(PySparkException, match="json_as is 'text'; it is variant or string"):
        spark.read.format("lance").option("json_as", "text").load(theirs)


@pytest.mark.since("4.1", "paths of VARIANT after a colon")
@pytest.mark.slow
@pytest.mark.parametrize("by", ["", " PARTITIONED BY (id)"])
def test_statements_write_documents_of_pylance(spark: SparkSession, by: str) -> None:
    name = f"lance.json_documents{len(by)}"
    spark.sql(f"CREATE TABLE {name} (id INT, j VARIANT, s STRUCT<v: INT>){by} TBLPROPERTIES ('j.lance.json' = 'true')")
    spark.sql(f'INSERT INTO {name} VALUES (1, parse_json(\'{{"n":1.5,"k":[1]}}\'), NULL), (2, NULL, NULL)')
    spark.sql(f"UPDATE {name} SET s = named_struct('v', 7)")
    spark.sql(f"UPDATE {name} SET j = parse_json('[true]') WHERE id = 2")
    spark.sql(
        f"MERGE INTO {name} t USING (SELECT id + 2 AS id, j FROM {name}) s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT (id, j) VALUES (s.id, s.j)"
    )
    spark.sql(f"DELETE FROM {name} WHERE j:n::DOUBLE > 1 AND id = 1")
    rows = spark.sql(f"SELECT id, to_json(j) FROM {name} ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(2, "[true]"), (3, '{"k":[1],"n":1.5}'), (4, "[true]")]
    if not by:
        uri = spark.sql(f"DESCRIBE EXTENDED {name}").where("col_name = 'Location'").collect()[0][1]
        table = lance.dataset(uri).to_table(filter="json_get_float(j, 'n') = 1.5")
        assert (table["id"].to_pylist(), table["j"].to_pylist()) == ([3], ['{"k":[1],"n":1.5}'])
        lance_spark.open(uri).compact()
        assert spark.table(name).count() == 3


@pytest.mark.since("4.1", "paths of VARIANT after a colon")
@pytest.mark.slow
@pytest.mark.parametrize("by", ["", " PARTITIONED BY (id)"])
def test_property_shows_text_and_takes_text(spark: SparkSession, by: str) -> None:
    name = f"lance.json_texts{len(by)}"
    properties = "'j.lance.json' = 'true', 'lance.json_as' = 'string'"
    spark.sql(f"CREATE TABLE {name} (id INT, j STRING){by} TBLPROPERTIES ({properties})")
    assert spark.table(name).schema["j"].dataType == st.StringType()
    spark.sql(f"""INSERT INTO {name} VALUES (1, '{{ "b": 1, "a": 2 }}'), (2, NULL)""")
    spark.sql(f"UPDATE {name} SET j = concat('[', id, ']') WHERE j IS NULL")
    spark.sql(f"MERGE INTO {name} t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = 9")
    assert [tuple(row) for row in spark.sql(f"SELECT * FROM {name} ORDER BY id").collect()] == [
        (2, "[2]"),
        (9, '{"a":2,"b":1}'),
    ]
    with pytest.raises(PySparkException, match="'nothing' is no JSON"):
        spark.sql(f"INSERT INTO {name} VALUES (3, 'nothing')")
    assert spark.table(name).count() == 2
    spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('lance.json_as' = 'variant')")
    assert spark.sql(f"SELECT j:a::INT FROM {name} WHERE id = 9").collect() == [(2,)]


@pytest.mark.since("4.1", "paths of VARIANT after a colon")
@pytest.mark.slow
def test_paths_and_streams(spark: SparkSession, theirs: str, tmp_path: Path) -> None:
    more = spark.sql("SELECT 100L AS id, parse_json('{\"z\":1}') AS j")
    more.write.format("lance").mode("append").save(theirs)
    texts = spark.sql("SELECT 101L AS id, '{\"z\":2}' AS j")
    with pytest.raises(PySparkException, match='Cannot safely cast `j` "STRING" to "VARIANT"'):
        texts.write.format("lance").mode("append").save(theirs)
    lance_spark.open(theirs).update_config({"lance.json_as": "string"})
    texts.write.format("lance").mode("append").save(theirs)
    lance_spark.open(theirs).update_config({"lance.json_as": None})
    found = lance.dataset(theirs).to_table(filter="json_get_int(j, 'z') > 0")
    assert found["j"].to_pylist() == ['{"z":1}', '{"z":2}']
    copy = str(tmp_path / "copy.lance")
    stream = spark.readStream.format("lance").load(theirs).writeStream.format("lance").trigger(availableNow=True)
    stream.option("checkpointLocation", str(tmp_path / "c")).start(copy).awaitTermination()
    assert spark.read.format("lance").load(copy).where("j:z::INT = 2").count() == 1
    fresh = str(tmp_path / "fresh.lance")
    texts.write.format("lance").option("j.lance.json", "true").save(fresh)
    assert lance.dataset(fresh).to_table()["j"].type == pa.json_()
    with pytest.raises(PySparkException, match=r"option id\.lance\.json is for VARIANT and STRING"):
        texts.write.format("lance").option("id.lance.json", "true").mode("overwrite").save(fresh)


@pytest.mark.since("4.1", "paths of VARIANT after a colon")
def test_nested_documents(spark: SparkSession, uri: str) -> None:
    items = pa.array([DOCUMENTS[0], None], pa.json_())
    values = pa.ListArray.from_arrays(pa.array([0, 2, 2], pa.int32()), items, mask=pa.array([False, True]))
    lance.write_dataset(pa.table({"l": values}), uri)
    found = spark.read.format("lance").load(uri)
    assert found.schema["l"].dataType == st.ArrayType(st.VariantType())
    assert found.selectExpr("l[0]:a::INT", "l[1] IS NULL").collect() == [(3, True), (None, True)]
    shown = spark.read.format("lance").option("json_as", "string").load(uri)
    assert shown.schema["l"].dataType == st.ArrayType(st.StringType())
    assert json.loads(shown.first().l[0]) == json.loads(DOCUMENTS[0] or "")


def test_searches_return_text(spark: SparkSession, uri: str) -> None:
    words = ["red fox", "blue whale", "red panda"]
    documents = pa.array(['{"n":1}', '{"n":2}', None], pa.json_())
    lance.write_dataset(pa.table({"t": words, "j": documents}), uri)
    called = spark.sql(f"CALL lance.system.search(table => '{uri}', query => 'red', search_columns => array('t'))")
    assert called.schema["j"].dataType == st.StringType()
    assert {(row.t, row.j) for row in called.collect()} == {("red fox", '{"n":1}'), ("red panda", None)}
    found = spark.sql(
        f"SELECT t, json_get_int(j, 'n') AS n FROM search('lance.`{uri}`', 'red', search_columns => array('t'))"
    )
    assert {tuple(row) for row in found.collect()} == {("red fox", 1), ("red panda", None)}
