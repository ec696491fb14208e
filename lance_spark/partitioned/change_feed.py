"""Row-level change feed of a partitioned table.

A version of the table is compared with the one before it, partition by partition, by the partition versions that they
name. ``_commit_version`` and ``_commit_timestamp`` are the table's, not the partition's. A row that moves to another
partition is a delete in the old one and an insert in the new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa

from lance_spark.errors import InvalidInputError, NotFoundError, RetryableConflictError
from lance_spark.partitioned.table import PartitionedTable, PartitionVersion
from lance_spark.schema.field import LanceSchema
from lance_spark.table.change_feed.change_feed import (
    CHANGE_FIELDS,
    ChangeFeed,
    ChangeTask,
    ChangeType,
    FeedColumns,
    FeedCommit,
    FeedView,
    RowsTask,
    VersionStep,
)
from lance_spark.table.change_feed.version_diff import RowSet, found_in
from lance_spark.table.change_feed.version_effect import Effect, VersionEffect, version_effect
from lance_spark.table.change_feed.version_range import VersionRange
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.transaction import Transaction
from lance_spark.table.operations.base import OperationKind
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.reading.blobs.blob_columns import with_blob_descriptors
from lance_spark.table.reading.scan import Scan


def plan_range(
    table: PartitionedTable,
    numbers: VersionRange,
    columns: Sequence[str] | None = None,
    fields: FeedColumns | None = None,
) -> ChangeFeed:
    """The changes of some versions as tasks that can be pickled and run anywhere.

    Args:
        columns: names as the last version of the range has them; None for all columns.
        fields: the columns of the feed; None for those of the last version.

    Raises:
        NotFoundError: there is no such column, or a version that is needed was cleaned up or does not exist yet.
        InvalidInputError: a column has the name of one of the change columns.
    """
    end = _at(table, max(numbers.last, 1))
    fields = fields or FeedColumns.of(_columns(end))
    schema = _schema(end, fields.shown, columns)
    versions = [_if_partitioned(table, number) for number in range(numbers.first - 1, numbers.last + 1)]
    # Step by step back, as a column that was dropped is not the one that was added under its name later.
    wanted = {end.version: fields.stored}
    for here, there in zip([end, *versions[::-1]], versions[::-1], strict=False):
        if here is not None and there is not None and there.version not in wanted:
            now, then = _columns(here, fields.with_source), _columns(there, fields.with_source)
            wanted[there.version] = found_in(wanted[here.version], now, then, by_id=True)
    tasks: list[ChangeTask] = []
    for before, after in pairwise(versions):
        if after is not None:
            tasks += _Step(before, after, wanted, fields.with_source).tasks(schema, columns)
    return ChangeFeed(schema, tuple(tasks))


class _Step:
    """One version of the table and the one before it, None if there was no table before."""

    def __init__(
        self,
        before: PartitionedTable | None,
        after: PartitionedTable,
        wanted: Mapping[int, LanceSchema],
        with_source: bool,
    ) -> None:
        self._before = before
        self._after = after
        self._wanted = wanted
        self._with_source = with_source

    def tasks(self, schema: pa.Schema, columns: Sequence[str] | None) -> Iterator[ChangeTask]:
        """Tasks that read the changes of the version."""
        commit = FeedCommit(self._after.version, _nanos(self._after))
        for old, new in _changed_partitions(self._before, self._after):
            recreated = _is_recreated(old, new)
            if old is not None and (new is None or recreated):
                assert self._before is not None, "the partition was there"
                yield from self._all_rows(self._before, old, commit, schema, columns)
            if new is not None:
                yield from self._between(None if recreated else old, new, commit, schema, columns)

    def _between(
        self,
        old: PartitionVersion | None,
        new: PartitionVersion,
        commit: FeedCommit,
        schema: pa.Schema,
        columns: Sequence[str] | None,
    ) -> Iterator[ChangeTask]:
        """The changes of one partition: step by step if the versions lead from one to the other."""
        before = None if old is None else old.manifest
        table = self._before or self._after
        for after, kind in _steps(before, new):
            then = self._as_in(table if before is not None else self._after, before or after)
            view = FeedView(schema, columns, then, self._as_in(self._after, after))
            yield from VersionStep(new.table, before, after, kind, True, commit).tasks(view)
            before, table = after, self._after

    def _all_rows(
        self,
        table: PartitionedTable,
        old: PartitionVersion,
        commit: FeedCommit,
        schema: pa.Schema,
        columns: Sequence[str] | None,
    ) -> Iterator[ChangeTask]:
        scan = Scan.of(
            self._as_in(table, old.manifest),
            old.table.bases(old.manifest),
            columns=columns,
            stable_row_ids=old.manifest.has_stable_row_ids,
        )
        for fragment in old.manifest.fragments:
            yield RowsTask(schema, commit, ChangeType.DELETE, scan, RowSet(fragment))

    def _as_in(self, table: PartitionedTable, manifest: Manifest) -> LanceSchema:
        """The columns of the feed as a version of a partition of `table` has them."""
        there = with_blob_descriptors(manifest.schema, data_format(manifest), with_source=self._with_source)
        return found_in(self._wanted[table.version], _columns(table, self._with_source), there, by_id=True)


def _steps(before: Manifest | None, new: PartitionVersion) -> list[tuple[Manifest, OperationKind]]:
    """The versions from `before` to the new one, each with what made it."""
    if before is None:
        return [(new.manifest, OperationKind.OVERWRITE)]
    steps = [
        (manifest, OperationKind.UNKNOWN if transaction is None else transaction.operation.kind)
        for manifest, transaction in _commits(before, new)
    ]
    return steps or [(new.manifest, OperationKind.RESTORE)]


def _commits(before: Manifest, new: PartitionVersion) -> list[tuple[Manifest, Transaction | None]]:
    """The versions of a partition after `before`, up to `new`, and their transactions.

    Empty if the table was restored to an older version, or a clean-up removed versions that no reader saw.
    """
    history = new.table.pinned_at(new.manifest.version).history
    try:
        files = [history.load(number) for number in history.versions_after(before.version, new.manifest.version)]
        return [(file.manifest, history.transaction(file)) for file in files]
    except (NotFoundError, RetryableConflictError):
        return []


def _changed_partitions(
    before: PartitionedTable | None, after: PartitionedTable
) -> Iterator[tuple[PartitionVersion | None, PartitionVersion | None]]:
    """The versions of each partition that differ between two versions of the table, None where it does not exist.

    Dropped partitions come first, then the others, each in the order of their object ids.
    """
    was = {} if before is None else {item.key: item for item in before.index.partitions}
    now = {item.key: item for item in after.index.partitions}
    for key in sorted(was.keys() - now.keys(), key=lambda key: was[key].object_id):
        assert before is not None, "the partition was there"
        yield before.open(was[key]), None
    for key in sorted(now, key=lambda key: now[key].object_id):
        known, partition = was.get(key), now[key]
        if known is None or before is None:
            yield None, after.open(partition)
        elif known.named_version != partition.named_version:
            yield before.open(known), after.open(partition)


def _is_recreated(old: PartitionVersion | None, new: PartitionVersion | None) -> bool:
    """Whether a partition has a new table, whose versions and fragments have nothing to do with the old one's."""
    return old is not None and new is not None and old.table.store.uri != new.table.store.uri


def _at(table: PartitionedTable, number: int) -> PartitionedTable:
    try:
        manifest = table.catalog.table.at(number).manifest
    except NotFoundError:
        raise NotFoundError(
            f"the changes of {table.root} need version {number}, which is not there: it was cleaned up or does not "
            "exist yet"
        ) from None
    return PartitionedTable(table.root, table.storage_options, table.catalog, table.catalog.at(manifest))


def _if_partitioned(table: PartitionedTable, number: int) -> PartitionedTable | None:
    """The version `number`; None for those before the table was made, which have no rows."""
    if number == 0:
        return None
    try:
        return _at(table, number)
    except InvalidInputError:
        return None


def _columns(table: PartitionedTable, with_source: bool = False) -> LanceSchema:
    return with_blob_descriptors(table.lance_schema, table.file_version, with_source=with_source)


def _schema(end: PartitionedTable, fields: LanceSchema, columns: Sequence[str] | None) -> pa.Schema:
    dataset = end.catalog_version.dataset
    assert dataset is not None  # A namespace without `__manifest` has no specs.
    scan = Scan.of(fields, end.catalog.table.bases(dataset.manifest), columns=columns)
    clash = {field.name for field in CHANGE_FIELDS}.intersection(scan.arrow_schema.names)
    if clash:
        raise InvalidInputError(f"the table has a column {sorted(clash)[0]!r}, as the feed has; leave it out")
    return pa.schema([*scan.arrow_schema, *CHANGE_FIELDS], metadata=scan.arrow_schema.metadata)


def _nanos(table: PartitionedTable) -> int:
    dataset = table.catalog_version.dataset
    return 0 if dataset is None else dataset.manifest.timestamp_nanos


def versions_between(
    before: PartitionedTable | None, after: PartitionedTable
) -> Iterator[tuple[PartitionVersion, VersionEffect]]:
    """Effects of a version on the rows of each changed partition, in the order of object ids.

    Args:
        before: the version before it; None if there was no table.
    """
    for old, new in _changed_partitions(before, after):
        if new is None:
            assert old is not None, "the partition was there"
            yield old, VersionEffect(Effect.DELETES, "delete")
        elif old is None:
            yield new, VersionEffect(Effect.NEW_ROWS, "append", tuple(new.manifest.fragments))
        elif _is_recreated(old, new):
            yield new, VersionEffect(Effect.CHANGES, "overwrite")
        else:
            yield from _effects(old, new)


def _effects(old: PartitionVersion, new: PartitionVersion) -> Iterator[tuple[PartitionVersion, VersionEffect]]:
    before = old.manifest
    commits = _commits(before, new)
    if not commits:
        yield new, VersionEffect(Effect.RESTORES, "restore")
    for manifest, transaction in commits:
        yield replace(new, manifest=manifest), version_effect(before, manifest, transaction)
        before = manifest
