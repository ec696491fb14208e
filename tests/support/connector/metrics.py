"""The metrics that Spark shows of an executed plan."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession


def metrics(frame: DataFrame, names: list[str]) -> dict[str, int]:
    leaf = frame._jdf.queryExecution().executedPlan().collectLeaves().head()
    return {name: leaf.metrics().apply(name).value() for name in names}


def shown(spark: SparkSession) -> dict[str, str]:
    """The metrics of the last statement as Spark's UI shows them."""
    store = spark._jsparkSession.sharedState().statusStore()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    last = store.executionsList().last()
    values = store.executionMetrics(last.executionId())
    texts: dict[str, str] = {}
    metrics = last.metrics()
    for index in range(metrics.size()):
        metric = metrics.apply(index)
        value = values.get(metric.accumulatorId())
        if value.isDefined():
            texts[metric.name()] = value.get()
    return texts
