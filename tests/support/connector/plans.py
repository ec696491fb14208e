"""Executed plans as text."""

from __future__ import annotations


def plan(frame: object) -> str:
    """The executed plan of a DataFrame as text."""
    return str(frame._jdf.queryExecution().executedPlan().toString())  # type: ignore[attr-defined]
