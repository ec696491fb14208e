"""Searches, streams and row-level statements through Spark Connect, by the name of the catalog and by path."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import pytest

from tests.support.connector.connect import ConnectSession, connect_session

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def connect(jar: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectSession]:
    with connect_session(tmp_path_factory.mktemp("connect")) as session:
        yield session


SEARCHES = """
import numpy as np
import lance_spark

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
"""


def test_searches_find_what_numpy_and_the_words_say(connect: ConnectSession) -> None:
    connect.run(SEARCHES)


STREAMS = """
spark.sql("CREATE NAMESPACE lance.db")
spark.sql("CREATE TABLE lance.db.t (id BIGINT)")
spark.sql("INSERT INTO lance.db.t VALUES (1), (2)")

def run(writer, name, start):
    writer = writer.option("checkpointLocation", root + "/" + name).trigger(availableNow=True)
    assert start(writer).awaitTermination(300)

def copy():
    run(spark.readStream.table("lance.db.t").writeStream, "c1", lambda writer: writer.toTable("lance.db.copy"))

copy()
spark.sql("INSERT INTO lance.db.t VALUES (3)")
copy()
copy()
assert sorted(row.id for row in spark.table("lance.db.copy").collect()) == [1, 2, 3]

changes = spark.readStream.option("startingVersion", 3).changes("lance.db.t").select("id", "_change_type")
run(changes.writeStream.format("lance"), "c2", lambda writer: writer.start(root + "/changes"))

def write(batch, number, target=root + "/batches"):
    for _ in range(2):
        options = {"txnAppId": "nightly", "txnVersion": str(number)}
        batch.write.format("lance").mode("append").options(**options).save(target)

run(spark.readStream.table("lance.db.t").writeStream.foreachBatch(write), "c3", lambda writer: writer.start())
"""


def test_streams_and_changes_and_named_writes(connect: ConnectSession) -> None:
    connect.run(STREAMS)
    changes = lance.dataset(str(connect.root / "changes")).to_table().to_pylist()
    assert changes == [{"id": 3, "_change_type": "insert"}]
    batches = lance.dataset(str(connect.root / "batches")).to_table()
    assert sorted(batches["id"].to_pylist()) == [1, 2, 3], "the second write of the batch has the name of the first"


@pytest.mark.parametrize(("partitioned", "seed"), [("", 2), ("PARTITIONED BY (bucket(3, id), k)", 3)])
def test_random_statements_give_the_rows_of_the_model(connect: ConnectSession, partitioned: str, seed: int) -> None:
    connect.run(f"""
from pathlib import Path
from tests.support.connector.random_statements import check_random_statements

check_random_statements(spark, Path(root) / "{seed}", {partitioned!r}, {seed})
spark.conf.unset("spark.sql.lance.inlineBytes")
""")
