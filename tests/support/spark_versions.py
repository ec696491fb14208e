"""Tests of some minor versions of Spark: markers ``since("4.2", "what came with it")``, ``until("4.0", reason)``."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def minor_of(version: str) -> tuple[int, int]:
    """The minor version that a text such as "4.2" names, in the form of `lance_spark.spark.compat.SPARK`."""
    major, minor = version.split(".")
    return int(major), int(minor)


def skip_later(items: Iterable[pytest.Item]) -> None:
    """Skips tests that are not for PySpark's version by their markers; the report has their reasons."""
    marked = [(item, marker) for item in items for name in ("since", "until") for marker in item.iter_markers(name)]
    if not marked:
        return
    # Tests of the engine run without PySpark.
    from lance_spark.spark.compat import SPARK

    for item, marker in marked:
        version, reason = marker.args
        named = minor_of(version)
        if named > SPARK if marker.name == "since" else named < SPARK:
            item.add_marker(pytest.mark.skip(reason=f"{marker.name} Spark {version}: {reason}"))
