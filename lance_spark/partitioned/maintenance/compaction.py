"""Fewer and larger fragments in many partitions, as one version of the table.

Three steps that can run in three places, as for one table: plan, tasks, commit. A partition that another writer has
changed meanwhile gets what still fits; the next compaction takes the rest. `compact_after` compacts after writes, where
the properties of the table ask for it (``lance.auto_compact``).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lance_spark.errors import InvalidInputError, LanceError, RetryableConflictError
from lance_spark.expr.nodes import Expr
from lance_spark.partitioned.change import ChangeTable, PartitionChange, Step
from lance_spark.partitioned.commit import commit_changes, with_operation_name
from lance_spark.partitioned.manifest_index import Partition, PartitionKey
from lance_spark.partitioned.table import NUM_THREADS, PartitionedTable, PartitionVersion
from lance_spark.storage.overlap import overlapped
from lance_spark.table.cleanup.references import listed_versions
from lance_spark.table.commits.retry import cleanup_on_failure, retry_on_conflict
from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.auto_compaction import CompactionBudget, auto_options, bounded_tasks
from lance_spark.table.maintenance.compaction import Planner, RewriteResult, commit_compaction, run_task
from lance_spark.table.maintenance.compaction_estimate import CompactionEstimate, estimate_compaction
from lance_spark.table.maintenance.compaction_options import CompactionOptions
from lance_spark.table.maintenance.compaction_plan import CompactionTask, plan_compaction
from lance_spark.table.maintenance.compaction_setting import AutoCompaction
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.writing.save import CommitOptions
from lance_spark.table.writing.write import remove_fragments

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PartitionTask:
    """Work on one partition.

    Attributes:
        object_id: of the partition.
    """

    object_id: str
    task: CompactionTask

    def to_json(self) -> str:
        """The task as text."""
        return json.dumps({"object_id": self.object_id, "task": self.task.to_json()})

    @classmethod
    def from_json(cls, text: str) -> PartitionTask:
        """The task that `to_json` gave. Raises `InvalidInputError` for another text."""
        object_id, inner = _parts(text, "task")
        return cls(object_id, CompactionTask.from_json(inner))


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """Result of one compaction task, not committed yet."""

    object_id: str
    result: RewriteResult

    def to_json(self) -> str:
        """The result as text."""
        return json.dumps({"object_id": self.object_id, "result": self.result.to_json()})

    @classmethod
    def from_json(cls, text: str) -> PartitionResult:
        """The result that `to_json` gave. Raises `InvalidInputError` for another text."""
        object_id, inner = _parts(text, "result")
        return cls(object_id, RewriteResult.from_json(inner))


def plan_partition_compaction(
    table: PartitionedTable,
    filter: Expr | str | None = None,
    options: CompactionOptions | None = None,
    planner: Planner = plan_compaction,
) -> list[PartitionTask]:
    """The tasks that compact the partitions which may hold rows that match `filter`; none if there is nothing to gain.

    Args:
        options: None is what the properties of the namespace say, else the defaults.
        planner: chooses the fragments of a partition, and the order of their rows.

    Raises:
        InvalidInputError: the filter or a property is invalid.
        UnsupportedFeatureError: this release cannot rewrite the rows.
        StorageError: the store failed.
    """
    options = options or CompactionOptions.of(table.properties)

    def tasks(opened: PartitionVersion) -> list[PartitionTask]:
        plan = planner(opened.table, opened.manifest, options)
        plan.log_kept(opened.table.uri)
        return [PartitionTask(opened.partition.object_id, task) for task in plan.tasks]

    planned = overlapped(tasks, table.open_all(table.partitions(filter)), NUM_THREADS)
    return [task for part in planned for task in part]


def estimate_partition_compaction(
    table: PartitionedTable, filter: Expr | str | None = None, options: CompactionOptions | None = None
) -> CompactionEstimate:
    """Estimates a compaction of the partitions that may hold rows which match `filter`. Arguments and errors are the
    same as for `plan_partition_compaction`.
    """
    options = options or CompactionOptions.of(table.properties)
    opened = table.open_all(table.partitions(filter))
    return CompactionEstimate.total(estimate_compaction(item.table, item.manifest, options) for item in opened)


def run_partition_task(table: PartitionedTable, task: PartitionTask) -> PartitionResult:
    """The live rows of the task's fragments in new fragments. On an error nothing is left behind.

    Raises:
        InvalidInputError: the task is for another version.
        StorageError: the store failed.
    """
    opened = _opened(table, task.object_id)
    return PartitionResult(task.object_id, run_task(opened.table, opened.manifest, task.task))


def run_partition_tasks(table: PartitionedTable, tasks: Sequence[PartitionTask]) -> list[PartitionResult]:
    """The results of all tasks; after an error none, and no file of theirs. Raises as `run_partition_task`."""
    results: list[PartitionResult] = []
    try:
        # One by one, so that an error leaves those that are done to be removed.
        results.extend(run_partition_task(table, task) for task in tasks)
    except LanceError:
        for item in results:
            _remove(_opened(table, item.object_id).table, [item.result], None)
        raise
    return results


def commit_partition_compaction(
    table: PartitionedTable, results: Sequence[PartitionResult], options: CommitOptions | None = None
) -> PartitionedTable:
    """The version that has what tasks wrote from `table`; what does not fit any more is left out.

    Raises:
        CommitConflictError: nothing can be committed any more. Nothing is visible, and what was written is removed.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed. Nothing is visible.
    """
    by_id: dict[str, list[RewriteResult]] = {}
    for item in results:
        by_id.setdefault(item.object_id, []).append(item.result)
    opened = {object_id: _opened(table, object_id) for object_id in by_id}
    changes: list[PartitionChange] = [
        ChangeTable(opened[object_id].partition, opened[object_id].manifest, _step(own, options))
        for object_id, own in by_id.items()
    ]

    def remove() -> None:
        for object_id, own in by_id.items():
            _remove(opened[object_id].table, own, None)

    with cleanup_on_failure(remove):
        committed = commit_changes(table, changes, with_operation_name(options, "rewrite"))
    for object_id, own in by_id.items():
        partition = committed.index.find(opened[object_id].partition.key)
        _remove(opened[object_id].table, own, None if partition is None else committed.open(partition).manifest)
    return committed


def compact(
    table: PartitionedTable,
    filter: Expr | str | None = None,
    compaction: CompactionOptions | None = None,
    options: CommitOptions | None = None,
    planner: Planner = plan_compaction,
) -> PartitionedTable:
    """The newest version of the table with compacted partitions; it itself if there is nothing to gain.

    Args:
        filter: only partitions that may hold rows which match it.
        planner: chooses the fragments of a partition, and the order of their rows.

    Raises: as `plan_partition_compaction` and `commit_partition_compaction`.
    """
    table.catalog.table.history.check_commits()

    def attempt(current: PartitionedTable) -> PartitionedTable:
        results = run_partition_tasks(current, plan_partition_compaction(current, filter, compaction, planner))
        return commit_partition_compaction(current, results, options) if results else current

    return retry_on_conflict(attempt, table.newest(), table.newest, options.policy if options else None)


def _step(results: Sequence[RewriteResult], options: CommitOptions | None) -> Step:
    def step(table: TableLocation, base: Manifest) -> Manifest:
        try:
            return commit_compaction(table, base, results, options, keeps_files=True)
        except RetryableConflictError:
            # Other writers have changed all that was compacted here; other partitions need not wait for it.
            return table.history.load_latest().manifest

    return step


def _opened(table: PartitionedTable, object_id: str) -> PartitionVersion:
    partition = table.index.by_id.get(object_id)
    if partition is None:
        raise InvalidInputError(f"{table!r} has no partition {object_id!r}")
    return table.open(partition)


def _remove(table: TableLocation, results: Sequence[RewriteResult], but_those_of: Manifest | None) -> None:
    """Removes new fragments that no version has; if that is not known, a clean-up does it later."""
    messages = () if but_those_of is None else but_those_of.fragments.messages
    used = {file.path for message in messages for file in message.files}
    new = [fragment for result in results for fragment in result.new_fragments]
    unused = [fragment for fragment in new if used.isdisjoint(file.path for file in fragment.files)]
    if not unused:
        return
    try:
        for manifest in listed_versions(table.history):
            # An earlier call may have committed the same results.
            used.update(file.path for message in manifest.fragments.messages for file in message.files)
    except LanceError:
        return
    remove_fragments(table.store, [item for item in unused if used.isdisjoint(file.path for file in item.files)])


def _parts(text: str, key: str) -> tuple[str, str]:
    try:
        content = json.loads(text)
        return str(content["object_id"]), str(content[key])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"not the {key} of a compaction: {error}") from error


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
    budget = CompactionBudget.of(options)
    tasks = [
        PartitionTask(opened.partition.object_id, task)
        for opened in table.open_all(partitions)
        for task in bounded_tasks(opened.table, opened.manifest, options, policy, budget)
    ]
    return commit_partition_compaction(table, run_partition_tasks(table, tasks)) if tasks else table
