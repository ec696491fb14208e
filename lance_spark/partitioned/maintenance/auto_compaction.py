"""Compaction after writes to partitioned tables whose properties ask for it (``lance.auto_compact``)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from lance_spark.errors import LanceError
from lance_spark.partitioned.maintenance.compaction import (
    PartitionTask,
    commit_partition_compaction,
    run_partition_tasks,
)
from lance_spark.partitioned.manifest_index import Partition, PartitionKey
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.table.maintenance.auto_compaction import AutoCompaction, Budget, auto_options, bounded_tasks

_log = logging.getLogger(__name__)


def compact_after(made: PartitionedTable, keys: Iterable[PartitionKey]) -> None:
    """Compacts partitions that the write `made` has changed if the properties ask for it. Failures are only logged."""
    try:
        policy = AutoCompaction.of(made.properties)
        if policy is None:
            return
        changed = [partition for key in keys if (partition := made.index.find(key)) is not None]
        compact_small_fragments(made, changed, policy)
    except LanceError as error:
        _log.warning("version %d of %s is committed; compacting after it failed: %s", made.version, made.root, error)


def compact_small_fragments(
    table: PartitionedTable, partitions: Sequence[Partition], policy: AutoCompaction
) -> PartitionedTable:
    """The version after one bounded compaction of some partitions, those with enough fragments to rewrite; `table`
    itself if there is none.

    Raises: as `compaction.compact`.
    """
    options = auto_options(table.properties)
    budget = Budget.of(options)
    tasks = [
        PartitionTask(opened.partition.object_id, task)
        for opened in table.open_all(partitions)
        for task in bounded_tasks(opened.table, opened.manifest, options, policy, budget)
    ]
    return commit_partition_compaction(table, run_partition_tasks(table, tasks)) if tasks else table
