"""JSON columns with the plug-in, which needs no jar."""

from __future__ import annotations

import json

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

DOCUMENT = '{"a":3,"l":[1,2.5,null]}'


def test_documents_are_variants_or_text(spark: SparkSession, tmp_path: object) -> None:
    uri = str(tmp_path)
    lance.write_dataset(pa.table({"id": [1, 2], "j": pa.array([DOCUMENT, None], pa.json_())}), uri + "/t")
    read = spark.read.format("lance")
    found = read.load(uri + "/t").orderBy("id").selectExpr("to_json(j)", "variant_get(j, '$.a', 'int')").collect()
    assert (json.loads(found[0][0]), found[0][1], found[1][0]) == (json.loads(DOCUMENT), 3, None)
    shown = read.option("json_as", "string").load(uri + "/t").orderBy("id").collect()
    assert (json.loads(shown[0].j), shown[1].j) == (json.loads(DOCUMENT), None)
    filtered = read.option("json_as", "string").option("pushDownFilters", "true").load(uri + "/t")
    assert filtered.where("j LIKE '{%' AND id < 5").count() == 1


@pytest.mark.slow
def test_documents_are_written(spark: SparkSession, tmp_path: object) -> None:
    uri = f"{tmp_path}/t"
    rows = spark.sql(f"SELECT 1L AS id, parse_json('{DOCUMENT}') AS j UNION ALL SELECT 2L, NULL")
    rows.write.format("lance").mode("append").option("j.lance.json", "true").save(uri)
    rows.write.format("lance").mode("append").save(uri)
    spark.sql("SELECT 3L AS id, '[3]' AS j").write.format("lance").mode("append").save(uri)
    found = lance.dataset(uri).to_table().sort_by("id")["j"]
    assert found.type == pa.json_()
    assert found.to_pylist() == [DOCUMENT, DOCUMENT, None, None, "[3]"]
    with pytest.raises(PySparkException, match="'no' is no JSON"):
        spark.sql("SELECT 4L AS id, 'no' AS j").write.format("lance").mode("append").save(uri)
    assert lance.dataset(uri).count_rows() == 5
