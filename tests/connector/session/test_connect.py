"""Searches, streams and row-level statements through Spark Connect, by the name of the catalog and by path."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import lance
import pytest

from lance_spark.spark.compat import SPARK
from tests.support.connector.connect import ConnectSession, connect_session
from tests.support.connector.scripts import STREAMS_AND_ERRORS, TABLES

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def connect(jar: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectSession]:
    with connect_session(tmp_path_factory.mktemp("connect")) as session:
        session.run('spark.sql("CREATE NAMESPACE lance.db")')
        yield session


def test_writes_and_reads(connect: ConnectSession) -> None:
    try:
        connect.run(TABLES + STREAMS_AND_ERRORS)
    finally:
        connect.run('spark.sql("DROP NAMESPACE lance.db CASCADE")\nspark.sql("CREATE NAMESPACE lance.db")')
    assert lance.dataset(str(connect.root / "by_path")).version == 2


ERROR = """
try:
    spark.sql("CALL lance.system.history(table => 'nowhere.orders')").collect()
    raise SystemExit("there is no such table")
except Exception as error:
    assert error.getMessage().startswith("[LANCE_NOT_FOUND] there is no table nowhere.orders in catalog lance"), error
    assert (error.getCondition(), error.getSqlState()) == ("LANCE_NOT_FOUND", "42704"), error
    assert error.getMessageParameters() == {}, error
"""


def test_what_python_asks_of_an_error(connect: ConnectSession) -> None:
    connect.run(ERROR)


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
"""

JOIN = """
join = "SELECT question, id FROM lance.q JOIN lance.t APPROX NEAREST 2 BY DISTANCE lance_distance(w, v)"
for approximate in ("false", "true"):
    spark.conf.set("spark.sql.lance.vectorSearch.approximate", approximate)
    assert sorted(map(tuple, spark.sql(join).collect())) == sorted(pairs)
"""


def test_searches_find_what_numpy_and_the_words_say(connect: ConnectSession) -> None:
    connect.run(SEARCHES + (JOIN if SPARK >= (4, 2) else ""))


SEARCHES_OF_DOCUMENTS = """
spark.sql(
    "CREATE TABLE lance.docs (id BIGINT, body STRING, v ARRAY<FLOAT>) USING lance "
    "TBLPROPERTIES ('v.arrow.fixed-size-list.size' = '2', 'enable_stable_row_ids' = 'true')"
)
spark.sql("INSERT INTO lance.docs SELECT id, concat('word', id % 5, ' rain'), array(id, 0f) FROM range(50)")
spark.sql("ALTER TABLE lance.docs CREATE INDEX words USING fts (body)")
spark.sql("ALTER TABLE lance.docs CREATE INDEX ids USING btree (id)")
ids = lambda statement: sorted(row.id for row in spark.sql(statement).collect())
threes = list(range(3, 50, 5))
assert ids("SELECT id FROM SEARCH(table => 'lance.docs', query => 'word3', limit => 100)") == threes
assert ids("SELECT id FROM lance.docs WHERE lance_match(body, 'word3')") == threes
assert ids("SELECT id FROM lance.docs WHERE lance_match_phrase(body, 'word3 rain') AND id < 20") == [3, 8, 13, 18]
assert ids("SELECT id FROM VECTOR_SEARCH('lance.docs', array(7.2f, 0f), 2)") == [7, 8]
assert ids("SELECT id FROM lance.docs ORDER BY lance_distance(v, array(7.2f, 0f)) LIMIT 2") == [7, 8]
assert ids("SELECT id FROM lance.docs WHERE id = 12") == [12]
names = {row[0] for row in spark.sql("SHOW FUNCTIONS").collect()}
assert {"lance_match", "lance_distance", "lance_read_blob"} <= {name.split(".")[-1] for name in names}, names
"""

CHANGES = """
def run(frame, target, name, **options):
    writer = frame.writeStream.option("checkpointLocation", root + "/" + name).trigger(availableNow=True)
    writer.options(**options).toTable(target).awaitTermination()

run(spark.readStream.table("lance.docs"), "lance.copied", "first")
spark.sql("UPDATE lance.docs SET body = 'changed' WHERE id = 1")
spark.sql("DELETE FROM lance.docs WHERE id = 2")
changes = spark.readStream.option("startingVersion", 5).changes("lance.docs")
changes = changes.where("_change_type <> 'update_preimage'").select("id", "body", "v", "_change_type")
run(changes, "lance.copied", "second", key="id", delete_when="_change_type = 'delete'")
assert spark.table("lance.copied").exceptAll(spark.table("lance.docs")).count() == 0
assert spark.table("lance.copied").count() == 49
"""


def test_searches_and_changes_find_the_rows(connect: ConnectSession) -> None:
    connect.run(SEARCHES_OF_DOCUMENTS + (CHANGES if SPARK >= (4, 2) else ""))


STREAMS = """
spark.sql("CREATE TABLE lance.db.t (id BIGINT)")
spark.sql("INSERT INTO lance.db.t VALUES (1), (2)")

def run(writer, name, start):
    writer = writer.option("checkpointLocation", root + "/" + name).trigger(availableNow=True)
    assert start(writer).awaitTermination(300)

def copy():
    run(spark.readStream.table("lance.db.t").writeStream, "copies", lambda writer: writer.toTable("lance.db.copy"))

copy()
spark.sql("INSERT INTO lance.db.t VALUES (3)")
copy()
copy()
assert sorted(row.id for row in spark.table("lance.db.copy").collect()) == [1, 2, 3]

reader = spark.readStream.option("startingVersion", 3)
if CHANGES:
    changes = reader.changes("lance.db.t")
else:
    place = spark.sql("DESCRIBE EXTENDED lance.db.t").where("col_name = 'Location'").first().data_type
    changes = reader.format("lance").option("readChangeFeed", "true").load(place)
changes = changes.select("id", "_change_type")
run(changes.writeStream.format("lance"), "changed", lambda writer: writer.start(root + "/changes"))

def write(batch, number, target=root + "/batches"):
    for _ in range(2):
        options = {"txnAppId": "nightly", "txnVersion": str(number)}
        batch.write.format("lance").mode("append").options(**options).save(target)

run(spark.readStream.table("lance.db.t").writeStream.foreachBatch(write), "batched", lambda writer: writer.start())
"""


def test_streams_and_changes_and_named_writes(connect: ConnectSession) -> None:
    connect.run(f"CHANGES = {SPARK >= (4, 2)}" + STREAMS)
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
