"""The numbers that Spark's UI shows."""

from __future__ import annotations

import pytest
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


@pytest.mark.parametrize("partitioned", [False, True])
def test_statements_count_what_they_write(spark: SparkSession, partitioned: bool) -> None:
    name = f"lance.metrics_{'of_partitions' if partitioned else 'of_a_table'}"
    by = "PARTITIONED BY (part)" if partitioned else ""
    spark.sql(f"CREATE TABLE {name} {by} AS SELECT id, id % 2 AS part, 'word' AS word FROM range(0, 100, 1, 1)")
    try:
        merged = spark.sql(f"""
            MERGE INTO {name} t USING (SELECT id + 90 AS id FROM range(20)) s ON t.id = s.id
            WHEN MATCHED AND s.id = 95 THEN DELETE
            WHEN MATCHED THEN UPDATE SET word = 'new'
            WHEN NOT MATCHED THEN INSERT (id, part, word) VALUES (s.id, 0, 'came')
        """)
        told = written(merged)
        assert (told["rows_written"], told["commits_of_others"]) == (19, 0)
        assert told["files_written"] >= (2 if partitioned else 1)
        assert told["bytes_written"] > 100
        updated = written(spark.sql(f"UPDATE {name} SET word = concat(word, id) WHERE id < 7 OR word LIKE 'c%'"))
        assert updated["rows_written"] == 17
        deleted = written(spark.sql(f"DELETE FROM {name} WHERE id % 10 = length(word) - 1"))
        assert (deleted["rows_written"], deleted["files_written"], deleted["bytes_written"]) == (0, 0, 0)
    finally:
        spark.sql(f"DROP TABLE {name} PURGE")


def written(frame: DataFrame) -> dict[str, int]:
    """What the statement of a frame has told."""
    plan = frame._jdf.queryExecution().optimizedPlan().commandPhysicalPlan()
    names = ["rows_written", "files_written", "bytes_written", "commits_of_others"]
    return {name: plan.metrics().apply(name).value() for name in names}
