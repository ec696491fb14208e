"""Compaction of a sink's table after an epoch, as a version of its own."""

from __future__ import annotations

import logging

from lance_spark.errors import LanceError
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.table.dataset import Dataset
from lance_spark.table.maintenance.compaction_plan import CompactionOptions

_log = logging.getLogger(__name__)


def compact_after_epoch(table: Dataset | PartitionedDataset, min_files: int, name: str) -> bool:
    """Compacts a version of a table if at least `min_files` of its fragments would be rewritten; whether it was done.

    The rows of the epoch are committed already, so a failure is only logged.

    Args:
        name: the table in messages.
    """
    try:
        if isinstance(table, PartitionedDataset):
            return _compact_partitions(table, min_files)
        return _compact_plain(table, min_files)
    except LanceError as error:
        _log.warning("the epoch is committed to %s, but the compaction after it failed: %s", name, error)
        return False


def _compact_plain(table: Dataset, min_files: int) -> bool:
    plan = table.plan_compaction(CompactionOptions.of(table.properties))
    if sum(len(task.fragment_ids) for task in plan.tasks) < min_files:
        return False
    table.commit_compaction([table.run_compaction_task(task) for task in plan.tasks])
    return True


def _compact_partitions(table: PartitionedDataset, min_files: int) -> bool:
    tasks = table.plan_compaction(CompactionOptions.of(table.properties))
    if sum(len(item.task.fragment_ids) for item in tasks) < min_files:
        return False
    table.commit_compaction([table.run_compaction_task(item) for item in tasks])
    return True
