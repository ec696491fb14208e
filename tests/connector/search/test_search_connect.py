"""Searches through Spark Connect: each finds what numpy or the words say, in the planner process and in tasks."""

from __future__ import annotations

from pathlib import Path

from tests.support.session_scripts import run_script

SCRIPT = """
import sys
import numpy as np
import lance_spark
from pyspark.sql import SparkSession

builder = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
spark = lance_spark.configure(builder.remote("local[2]"), root=sys.argv[1] + "/tables").getOrCreate()
values = np.random.default_rng(3).normal(size=(60, 4)).astype(np.float32)
fixed = "TBLPROPERTIES ('{}.arrow.fixed-size-list.size' = '4')"
spark.sql("CREATE TABLE lance.t (id BIGINT, text STRING, v ARRAY<FLOAT>) " + fixed.format("v"))
rows = [(number, "rare" if number % 20 == 0 else "word", values[number].tolist()) for number in range(60)]
spark.createDataFrame(rows, "id BIGINT, text STRING, v ARRAY<FLOAT>").writeTo("lance.t").append()
spark.sql("CREATE TABLE lance.q (question BIGINT, w ARRAY<FLOAT>) " + fixed.format("w"))
asked = [(number, (values[number] + 0.01).tolist()) for number in range(8)]
spark.createDataFrame(asked, "question BIGINT, w ARRAY<FLOAT>").writeTo("lance.q").append()

def nearest(query, k):
    return np.argsort(np.square(values - query).sum(1), kind="stable")[:k].tolist()

def ids(frame):
    return [row.id for row in frame.collect()]

query = values[40] + np.float32(0.01)
array = "array(" + ", ".join(map(str, query.tolist())) + ")"
pairs = [(number, found) for number, vector in asked for found in nearest(np.float32(vector), 2)]
for inline in ("1000000", "0"):
    spark.conf.set("spark.sql.lance.vectorSearch.inlineBytes", inline)
    assert ids(spark.sql(f"SELECT id FROM vector_search('lance.t', {array}, 5)")) == nearest(query, 5)
    assert ids(lance_spark.search(spark, "lance.t", query, k=3)) == nearest(query, 3)
    assert ids(lance_spark.search(spark, "lance.t", values[:2], k=1)) == [0, 1]
    both = lance_spark.search(spark, "lance.t", query, "rare", k=3, fusion="linear", candidates=10)
    assert ids(both)[0] == 40
    found = spark.sql(f"SELECT * FROM hybrid_search('lance.t', {array}, 'rare', 2)")
    assert found.columns[-1] == "_relevance_score" and 40 in ids(found)
assert sorted(ids(lance_spark.search(spark, "lance.t", text="rare"))) == [0, 20, 40]
batch = spark.sql("SELECT question, id FROM vector_search_batch('lance.t', 'lance.q', 2)")
assert sorted(map(tuple, batch.collect())) == sorted(pairs)
join = "SELECT question, id FROM lance.q JOIN lance.t APPROX NEAREST 2 BY DISTANCE lance_distance(w, v)"
for approximate in ("false", "true"):
    spark.conf.set("spark.sql.lance.vectorSearch.approximate", approximate)
    assert sorted(map(tuple, spark.sql(join).collect())) == sorted(pairs)
spark.stop()
print("done")
"""


def test_searches_through_connect(jar: Path, tmp_path: Path) -> None:
    run_script(SCRIPT, str(tmp_path), tmp_path)
