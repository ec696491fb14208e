"""Compaction of a sink's table after an epoch, as a version of its own."""

from __future__ import annotations

import logging

from lance_spark.errors import LanceError
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.table.dataset import Dataset
from lance_spark.table.maintenance.compaction_setting import AutoCompaction

_log = logging.getLogger(__name__)


def compact_after_epoch(table: Dataset | PartitionedDataset, min_files: int, name: str) -> bool:
    """Compacts a version of a table if at least `min_files` of its fragments would be rewritten; whether it was done.

    The rows of the epoch are committed already, so a failure is only logged.

    Args:
        min_files: of the table, or of one partition.
        name: the table in messages.
    """
    try:
        return table.compact_small_fragments(AutoCompaction(min_files)).version != table.version
    except LanceError as error:
        _log.warning("the epoch is committed to %s, but the compaction after it failed: %s", name, error)
        return False
