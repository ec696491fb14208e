"""Counts the Spark jobs that an action starts."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TypeVar

from pyspark.sql import SparkSession

Result = TypeVar("Result")


def jobs(spark: SparkSession, action: Callable[[], Result]) -> tuple[int, Result]:
    """(how many jobs ``action`` has started, its result).

    The session's group and description are empty afterwards, so that jobs of other tests have their own names.
    """
    context = spark.sparkContext
    group = uuid.uuid4().hex
    context.setJobGroup(group, "counted by a test")
    try:
        result = action()
        context._jsc.sc().listenerBus().waitUntilEmpty()
        return len(context.statusTracker().getJobIdsForGroup(group)), result
    finally:
        context._jsc.clearJobGroup()
