"""Serializable statements on partitioned tables: `table.row_level.read_conflicts`, version by version of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lance_spark.errors import NotFoundError
from lance_spark.partitioned.commit import Check
from lance_spark.partitioned.manifest_index import Partition, PartitionKey
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.table.manifests.transaction import OPERATION
from lance_spark.table.reading.scan import Scan
from lance_spark.table.row_level.read_conflicts import ReadRows, VersionRows, conflict, touches

COMPACTION = "rewrite"
"""Value of `OPERATION` in versions that only compact partitions."""


class PartitionReadConflicts:
    """A `Check`: passes if no rows that were read have changed since.

    Args:
        base: the table at the version that was read.
    """

    def __init__(self, base: PartitionedTable, reads: Sequence[ReadRows]) -> None:
        self._schema = base.lance_schema
        self._reads = [read.within(self._schema) for read in reads]
        self._checked = min((read.version for read in reads), default=0)

    def __call__(self, current: PartitionedTable) -> None:
        """Looks at the versions up to `current` that it has not seen yet.

        Raises:
            RetryableConflictError: another writer has added, changed or deleted such a row, or that is not known.
        """
        history = current.catalog.table.history
        try:
            before = _at(current, self._checked)
            for version in history.versions_after(self._checked, current.version):
                after = _at(current, version)
                transaction = history.transaction(history.load(version))
                is_compaction = transaction is not None and transaction.properties.get(OPERATION) == COMPACTION
                if not is_compaction and self._is_touched(before, after):
                    raise conflict(current.root, version)
                before = after
        except NotFoundError as error:
            raise conflict(current.root, current.version) from error
        self._checked = current.version

    def _is_touched(self, before: PartitionedTable, after: PartitionedTable) -> bool:
        old, new = _by_place(before.index.partitions), _by_place(after.index.partitions)
        changed = [place for place in old.keys() | new.keys() if old.get(place) != new.get(place)]
        return any(
            self._touches(read, before, after, old, new, changed)
            for read in self._reads
            if changed and read.version < after.version
        )

    def _touches(
        self,
        read: ReadRows,
        before: PartitionedTable,
        after: PartitionedTable,
        old: Mapping[PartitionKey, Partition],
        new: Mapping[PartitionKey, Partition],
        changed: Sequence[PartitionKey],
    ) -> bool:
        chosen = _chosen(before, read) | _chosen(after, read)
        for place in chosen.intersection(changed):
            was = None if place not in old else _rows(before, old[place])
            now = None if place not in new else _rows(after, new[place])
            if was is not None and now is not None and old[place].location != new[place].location:
                # Another table of the same partition: its fragments have nothing to do with the old ones.
                if touches(was, None, [read], self._schema) or touches(None, now, [read], self._schema):
                    return True
            elif touches(was, now, [read], self._schema):
                return True
        return False


def partition_check_of(base: PartitionedTable, reads: Sequence[ReadRows]) -> Check | None:
    """The check of a statement with these reads; None if it has read nothing."""
    return PartitionReadConflicts(base, reads) if reads else None


def _at(table: PartitionedTable, version: int) -> PartitionedTable:
    if version == table.version:
        return table
    found = table.catalog.at(table.catalog.table.at(version).manifest)
    return PartitionedTable(table.root, table.storage_options, table.catalog, found)


def _by_place(partitions: Sequence[Partition]) -> dict[PartitionKey, Partition]:
    return {partition.key: partition for partition in partitions}


def _chosen(table: PartitionedTable, read: ReadRows) -> set[PartitionKey]:
    """The partitions that may hold rows of `read`."""
    return {partition.key for partition in table.partitions(read.filter, time_zone=read.time_zone)}


def _rows(table: PartitionedTable, partition: Partition) -> VersionRows:
    opened = table.open(partition)

    def scan(read: ReadRows) -> Scan:
        return table.plan(opened, [], read.filter, with_row_address=True, time_zone=read.time_zone)

    return VersionRows(opened.manifest, opened.table.bases(opened.manifest), table.lance_schema, scan)
