"""Fact tables whose joins are filtered at run time."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from tests.support.connector.plans import plan
from tests.support.connector.runtime_filters import PRUNING, result, scans

MARK = "lance join mark"
"""In the condition that the rule about joins puts over scans while it works."""


def answer(spark: SparkSession, text: str) -> tuple[list[str], DataFrame]:
    """The rows with filters at run time, which are those without."""
    frame = spark.sql(text)
    assert MARK not in optimized(frame)
    found = result(frame)
    spark.conf.set(PRUNING, "false")
    plain = spark.sql(text)
    assert "dynamicpruning" not in plan(plain)
    assert found == result(plain)
    spark.conf.unset(PRUNING)
    return found, frame


def optimized(frame: DataFrame) -> str:
    """The optimized plan as text, the queries of its filters included."""
    return str(frame._jdf.queryExecution().optimizedPlan().toString())


def rows_of_facts(frame: DataFrame) -> int:
    return max(scan["rows_read"] for scan in scans(frame))
