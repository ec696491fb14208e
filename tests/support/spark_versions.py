"""Tests that need a later minor version of Spark: the marker ``since("4.2", "what came with it")``."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def skip_later(items: Iterable[pytest.Item]) -> None:
    """Skips tests with the marker `since` of a later version than PySpark's; the report has their reasons."""
    marked = [(item, marker.args) for item in items for marker in item.iter_markers("since")]
    if not marked:
        return
    # Tests of the engine run without PySpark.
    from lance_spark.spark.compat import SPARK

    for item, (version, reason) in marked:
        major, minor = version.split(".")
        if (int(major), int(minor)) > SPARK:
            item.add_marker(pytest.mark.skip(reason=f"since Spark {version}: {reason}"))
