"""The numbers that Spark's UI shows."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from tests.connector.conftest import plan


def metrics(frame: DataFrame, names: list[str]) -> dict[str, int]:
    leaf = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
    return {name: leaf.metrics().apply(name).value() for name in names}


def test_scans_count_what_they_read(spark: SparkSession, uri: str) -> None:
    spark.range(0, 100, numPartitions=4).write.format("lance").save(uri)
    frame = spark.read.format("lance").load(uri).where("_fragid >= 2 AND id < 90")
    assert "fragments=2/4" in plan(frame)
    assert len(frame.collect()) == 40
    names = ["fragments_read", "fragments_pruned", "files_read", "rows_read"]
    assert metrics(frame, names) == dict(zip(names, (2, 2, 2, 40), strict=True))
    assert metrics(frame, ["batches_read"])["batches_read"] >= 2
    assert metrics(frame, ["bytes_planned"])["bytes_planned"] > 0
    # A request for the end of each file and one for its pages, or one for both.
    told = metrics(frame, ["requests", "bytes_read", "fetch_time", "decode_time"])
    assert 2 <= told["requests"] <= 12
    assert told["bytes_read"] > 40
    assert told["decode_time"] > 0
    assert told["fetch_time"] >= 0
