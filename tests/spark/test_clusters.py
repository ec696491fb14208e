"""The plug-in where driver and executors are processes of their own, and under Spark Connect.

A Python process holds one Spark; so each case runs a script of its own.
"""

from __future__ import annotations

from pathlib import Path

import lance
import pytest

from tests.support.session_scripts import run_script

SCRIPT = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

builder, uri = SparkSession.builder, sys.argv[1]
builder = {session}
spark = (
    builder.config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
frame = spark.range(0, 3000, numPartitions=3).select("id", F.concat(F.lit("n"), F.col("id")).alias("name"))
frame.write.format("lance").mode("append").save(uri)
frame.write.format("lance").mode("append").save(uri)
read = spark.read.format("lance").load(uri)
assert read.count() == 6000
assert read.where("id >= 2990").agg(F.sum("id")).first()[0] == 2 * sum(range(2990, 3000))
assert spark.read.format("lance").option("version", 1).load(uri).count() == 3000
assert spark.read.format("lance").option("columns", "name").load(uri).columns == ["name"]
spark.stop()
print("done")
"""

SESSIONS = {
    "local-cluster": 'builder.master("local-cluster[2,1,1024]")',
    "connect": 'builder.remote("local[2]")',
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SESSIONS)
def test_writes_and_reads(tmp_path: Path, kind: str) -> None:
    uri = str(tmp_path / "t")
    run_script(SCRIPT.format(session=SESSIONS[kind]), uri, tmp_path, timeout=300)
    assert lance.dataset(uri).version == 2
    assert sorted(lance.dataset(uri).to_table()["id"].to_pylist()) == sorted([*range(3000), *range(3000)])
