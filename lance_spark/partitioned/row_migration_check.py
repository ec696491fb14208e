"""Whether rows that a backfill addresses have moved to another partition since."""

from __future__ import annotations

from collections.abc import Sequence

import pyroaring

from lance_spark.errors import RetryableConflictError
from lance_spark.partitioned.table import PartitionedTable, PartitionVersion
from lance_spark.table.columns.backfill import BackfilledFragment
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.rows.fragment import DataFragment


class MovedRows:
    """Looks at newer versions of the table for backfilled rows that may have moved to another partition.

    Such a row is deleted here and new there, where its value would be missing. Which of the new rows it is cannot be
    seen, so backfilled rows may be deleted only if no rows are added anywhere.

    Args:
        base: the version that the addresses are of.
        filled: the partitions with such rows, and the rows.
    """

    def __init__(
        self, base: PartitionedTable, filled: Sequence[tuple[PartitionVersion, Sequence[BackfilledFragment]]]
    ) -> None:
        self._base = base
        self._filled = filled

    def __call__(self, current: PartitionedTable) -> None:
        """Passes if no backfilled row has moved.

        Raises:
            RetryableConflictError: one may have.
        """
        if any(self._has_lost(current, *item) for item in self._filled) and self._has_new_rows(current):
            raise RetryableConflictError(
                f"another writer has deleted rows of {current.root} that values are written for, or moved them to "
                "other partitions. Read the table and run the operation again",
                table_version=current.version,
            )

    def _has_lost(
        self, current: PartitionedTable, before: PartitionVersion, files: Sequence[BackfilledFragment]
    ) -> bool:
        partition = current.index.find(before.partition.key)
        if partition is None or partition == before.partition:
            return False  # The commit refuses partitions that were dropped.
        now = current.open(partition)
        old, new = _by_number(before.manifest), _by_number(now.manifest)
        for item in files:
            was, left = old[item.fragment_id], new.get(item.fragment_id)
            if left is None:
                return True
            if left.deletion_file != was.deletion_file:
                deleted = _deleted(left, now) - _deleted(was, before)
                if deleted & pyroaring.BitMap.deserialize(item.rows):
                    return True
        return False

    def _has_new_rows(self, current: PartitionedTable) -> bool:
        changed = [item for item in current.index.partitions if item != self._base.index.find(item.key)]
        for now in current.open_all(changed):
            known = self._base.index.find(now.partition.key)
            if known is None or known.location != now.partition.location:
                return True
            if not _by_number(now.manifest).keys() <= _by_number(self._base.open(known).manifest).keys():
                return True
        return False


def _by_number(manifest: Manifest) -> dict[int, DataFragment]:
    return {int(fragment.id): fragment for fragment in manifest.fragments}


def _deleted(fragment: DataFragment, opened: PartitionVersion) -> pyroaring.BitMap:
    offsets = FragmentReader(fragment, opened.table.bases(opened.manifest)).deletions.offsets
    return pyroaring.BitMap(offsets.tolist())
