"""Streams through Spark Connect: source, sink, changes, and named writes of foreachBatch, whose function runs apart."""

from __future__ import annotations

from pathlib import Path

import lance

from tests.support.session_scripts import run_script

SCRIPT = """
import sys
import lance_spark
from pyspark.sql import SparkSession

root = sys.argv[1]
builder = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
spark = lance_spark.configure(builder.remote("local[2]"), root=root + "/tables").getOrCreate()
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
spark.stop()
print("done")
"""


def test_streams_through_connect(jar: Path, tmp_path: Path) -> None:
    run_script(SCRIPT, str(tmp_path), tmp_path)
    changes = lance.dataset(str(tmp_path / "changes")).to_table().to_pylist()
    assert changes == [{"id": 3, "_change_type": "insert"}]
    batches = lance.dataset(str(tmp_path / "batches")).to_table()
    assert sorted(batches["id"].to_pylist()) == [1, 2, 3], "the second write of the batch has the name of the first"
