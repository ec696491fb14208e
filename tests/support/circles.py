"""Circles in graphs of names."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter


def circle(graph: Mapping[str, set[str]]) -> list[str] | None:
    """The nodes of one circle; None if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return None
