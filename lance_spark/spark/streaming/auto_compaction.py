"""Compaction of a sink's table after an epoch, as a version of its own."""

from __future__ import annotations

import logging

from lance_spark.errors import LanceError
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.partitioned.maintenance.compaction import compact_small_fragments as compact_partitions
from lance_spark.table.dataset import Dataset
from lance_spark.table.maintenance.auto_compaction import AutoCompaction, compact_small_fragments

_log = logging.getLogger(__name__)


def compact_after_epoch(table: Dataset | PartitionedDataset, min_files: int, name: str) -> bool:
    """Compacts a version of a table if at least `min_files` of its fragments would be rewritten; whether it was done.

    The rows of the epoch are committed already, so a failure is only logged.

    Args:
        min_files: of the table, or of one partition.
        name: the table in messages.
    """
    policy = AutoCompaction(min_files)
    try:
        if isinstance(table, PartitionedDataset):
            return compact_partitions(table, table.partitions(), policy) is not table
        return compact_small_fragments(table.location, table.manifest, policy) is not table.manifest
    except LanceError as error:
        _log.warning("the epoch is committed to %s, but the compaction after it failed: %s", name, error)
        return False
