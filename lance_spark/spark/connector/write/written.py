"""Metrics for Spark's UI of the files that tasks have written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lance_spark.spark.jobs.task_result import TaskResult


@dataclass(frozen=True, slots=True)
class Written:
    """The numbers for Spark's UI, by the names of its metrics."""

    metrics: Mapping[str, int]


def counts_of(results: Iterable[TaskResult]) -> dict[str, int]:
    """The numbers of what the tasks wrote."""
    fragments = [fragment for result in results for fragment in result.fragments]
    files = [file for fragment in fragments for file in fragment.files]
    return {
        "rows_written": sum(fragment.physical_rows or 0 for fragment in fragments),
        "files_written": len(files),
        "bytes_written": sum(file.size_bytes or 0 for file in files),
    }
