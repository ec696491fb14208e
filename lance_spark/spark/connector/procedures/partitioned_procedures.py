"""Procedures for partitioned tables: versions are those of the table, tasks process single partitions."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.expr.sql import parse
from lance_spark.partitioned.columns import edit_columns
from lance_spark.partitioned.compaction import (
    PartitionResult,
    commit_partition_compaction,
    plan_partition_compaction,
)
from lance_spark.partitioned.history import tags
from lance_spark.partitioned.names import RESTORE_GUARD
from lance_spark.partitioned.table import PartitionedTable, PartitionVersion, open_partitioned
from lance_spark.partitioned.vacuum import remove_orphans, vacuum
from lance_spark.schema import evolution
from lance_spark.schema.arrow import PRIMARY_KEY, PRIMARY_KEY_POSITION, with_metadata
from lance_spark.schema.field import FieldId, LanceSchema
from lance_spark.spark.connector.channel.tasks import messages
from lance_spark.spark.connector.procedures.procedure_types import Arguments, Tasks
from lance_spark.table.cleanup.cleanup import SAFETY_WINDOW, CleanupPolicy, CleanupStats
from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.compaction import RewriteResult, run_task
from lance_spark.table.maintenance.compaction_plan import CompactionOptions, CompactionTask
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.refs.refs import Tag
from lance_spark.table.writing.save import CommitOptions

MAIN = "main"


@dataclass(frozen=True)
class PartitionWork:
    """A compaction task, and the version of a partition that it applies to."""

    object_id: str
    location: TableLocation
    version: int
    task: str


@dataclass(frozen=True)
class CompactPartitionsTask:
    """Runs compaction tasks of partitions; returns each result as a message."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Pickled by the driver of this very procedure.
        work: list[PartitionWork] = [pickle.loads(item.as_py()) for batch in batches for item in batch.column(0)]
        results = []
        for item in work:
            base = item.location.at(item.version).manifest
            result = run_task(item.location, base, CompactionTask.from_json(item.task))
            results.append(PartitionResult(item.object_id, result).to_json().encode())
        yield messages(results)


@dataclass(frozen=True)
class PartitionedCompaction:
    """A running compaction of a partitioned table; the version that it is planned for."""

    root: str
    storage_options: dict[str, str] | None
    version: int
    message: str | None

    def finish(self, results: Sequence[bytes]) -> tuple[int, int, int, int, int]:
        """Commits; returns the version, and the numbers of removed and added fragments and files."""
        table = open_partitioned(self.root, version=self.version, storage_options=self.storage_options)
        rewritten = [PartitionResult.from_json(result.decode()) for result in results]
        made = commit_partition_compaction(table, rewritten, CommitOptions(message=self.message))
        before = _opened(table, (item.object_id for item in rewritten))
        after = _opened(made, before)
        sizes = [
            _replaced(item.result, before[item.object_id].manifest, after[item.object_id].manifest)
            for item in rewritten
            if item.object_id in after
        ]
        deleted, came, deleted_files, files_came = (sum(size[place] for size in sizes) for place in range(4))
        return made.version, deleted, came, deleted_files, files_came


def _replaced(result: RewriteResult, before: Manifest, after: Manifest) -> tuple[int, int, int, int]:
    """The numbers of removed and added fragments, then files; zeros if another writer has changed them."""
    kept = {message.id for message in after.fragments.messages}
    if not kept.isdisjoint(result.fragment_ids):
        return 0, 0, 0, 0
    files = {message.id: len(message.files) for message in before.fragments.messages}
    return (
        len(result.fragment_ids),
        len(result.new_fragments),
        sum(files[number] for number in result.fragment_ids),
        sum(len(fragment.files) for fragment in result.new_fragments),
    )


def _opened(table: PartitionedTable, object_ids: Iterable[str]) -> dict[str, PartitionVersion]:
    """The existing partitions, by object id."""
    known = table.index.by_id
    found = table.open_all([known[object_id] for object_id in sorted(set(object_ids)) if object_id in known])
    return {opened.partition.object_id: opened for opened in found}


def compaction(
    table: PartitionedTable, options: CompactionOptions, where: str | None, time_zone: str, message: str | None
) -> Tasks | None:
    """The job that compacts the partitions selected by the inclusive projection of `where`; None if there is no
    work.
    """
    chosen = None if where is None else parse(where, time_zone=time_zone)
    planned = plan_partition_compaction(table, chosen, options)
    opened = _opened(table, (item.object_id for item in planned))
    work = [
        PartitionWork(
            item.object_id, opened[item.object_id].table, opened[item.object_id].manifest.version, item.task.to_json()
        )
        for item in planned
    ]
    if not work:
        return None
    state = PartitionedCompaction(table.root, table.storage_options, table.version, message)
    return Tasks(CompactPartitionsTask(), [pickle.dumps(item) for item in work], pickle.dumps(state))


def cleaned(table: PartitionedTable, policy: CleanupPolicy, before: int | None) -> CleanupStats:
    """The result of a clean-up, or of its dry run."""
    return vacuum(
        table,
        policy.older_than,
        policy.keep_versions,
        keep_from=before,
        delete_unverified=policy.delete_unverified,
        error_if_tagged_old_versions=policy.error_if_tagged_old_versions,
        dry_run=policy.dry_run,
    ).total


def orphans(table: PartitionedTable, age: timedelta | None, *, dry_run: bool) -> CleanupStats:
    """The orphan files that were removed, or would be in a dry run."""
    return remove_orphans(table, SAFETY_WINDOW if age is None else age, dry_run=dry_run).total


def user_tags(table: PartitionedTable) -> dict[str, Tag]:
    """The tags of the table, except those that protect a running restore."""
    return {name: tag for name, tag in tags(table).items() if not name.startswith(RESTORE_GUARD)}


def at(table: PartitionedTable, given: Arguments) -> int:
    """The version selected by the parameters `version`, `from_branch` and `from_tag`.

    Raises:
        UnsupportedFeatureError: a branch is given.
        InvalidInputError: both a version and a tag are given.
    """
    version, tag = given.integer("version"), given.text("from_tag")
    if given.text("from_branch") not in (None, MAIN):
        raise without_branches(table)
    if tag is not None:
        if version is not None or given.text("from_branch") is not None:
            raise InvalidInputError("from_tag chooses a version by itself; leave version and from_branch out")
        return table.catalog.table.refs.tag(tag).version
    return table.version if version is None else version


def without_branches(table: PartitionedTable) -> UnsupportedFeatureError:
    """The error that partitioned tables have no branches."""
    return UnsupportedFeatureError(
        f"{table.root} is a partitioned table, which has no branches: its versions are those of __manifest, in one "
        "line. Use a tag",
        feature="branches of partitioned tables",
    )


def with_primary_key(table: PartitionedTable, columns: Sequence[str]) -> PartitionedTable:
    """The version with `columns` as the primary key."""
    entries = {
        name: {PRIMARY_KEY: b"true", PRIMARY_KEY_POSITION: str(place).encode()}
        for place, name in enumerate(columns, start=1)
    }

    def edit(schema: LanceSchema, _first_id: FieldId) -> LanceSchema:
        for name, metadata in entries.items():
            schema = evolution.replaced(
                schema,
                name,
                lambda old, new=metadata: with_metadata(old, {**old.metadata, **new}),  # type: ignore[misc]
            )
        return schema

    return edit_columns(table, edit)
