"""Joins that are filtered at run time, and their scans."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

PRUNING = "spark.sql.optimizer.dynamicPartitionPruning.enabled"


def load(spark: SparkSession, uri: str) -> DataFrame:
    return spark.read.format("lance").load(uri)


def result(frame: DataFrame) -> list[str]:
    return sorted(str(row) for row in frame.collect())


def scans(frame: DataFrame) -> list[dict[str, int]]:
    """What each scan of an executed plan has read."""
    return _scans(frame._jdf.queryExecution().executedPlan())


def _scans(tree: Any) -> list[dict[str, int]]:
    kind = tree.getClass().getSimpleName()
    if kind == "AdaptiveSparkPlanExec":
        return _scans(tree.executedPlan())
    if kind.endswith("QueryStageExec"):
        return _scans(tree.plan())
    if kind == "BatchScanExec":
        names = ["partitions_read", "partitions_pruned", "fragments_read", "rows_read", "bytes_read"]
        return [{name: tree.metrics().apply(name).value() for name in names if tree.metrics().contains(name)}]
    children = tree.children()
    return [scan for place in range(children.size()) for scan in _scans(children.apply(place))]
