"""Compaction after commits of writes, for tables whose config asks for it (`compaction_setting`).

One run reads at most `MAX_BYTES` bytes and twice the target number of rows; the rest waits for later commits.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lance_spark.errors import LanceError
from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.compaction import commit_compaction, remove_results_on_failure, run_task
from lance_spark.table.maintenance.compaction_estimate import sizes_by_id
from lance_spark.table.maintenance.compaction_options import CompactionOptions
from lance_spark.table.maintenance.compaction_plan import CompactionTask, Size, plan_compaction
from lance_spark.table.maintenance.compaction_setting import AutoCompaction
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.base import OperationKind
from lance_spark.table.paths import is_detached

_log = logging.getLogger(__name__)

MAX_BYTES = 1 << 30
"""The most bytes of data files that one run reads."""
FULL_BYTES = 128 << 20
"""Fragments of this size are not rewritten, unless ``lance.compaction.max_bytes_per_file`` says something else."""

WRITES = frozenset({OperationKind.APPEND, OperationKind.OVERWRITE, OperationKind.UPDATE, OperationKind.DELETE})
"""The operations after which a table is compacted. A compaction is none of them, so none follows another."""


def compact_after(table: TableLocation, made: Manifest, kind: OperationKind) -> None:
    """Compacts after the commit `made` of a write if the config asks for it. Failures are logged, never raised."""
    if kind not in WRITES or is_detached(made.version):
        return
    try:
        policy = AutoCompaction.of(made.config)
        if policy is not None:
            compact_small_fragments(table, made, policy)
    except LanceError as error:
        _log.warning("version %d of %s is committed; compacting after it failed: %s", made.version, table.uri, error)


def compact_small_fragments(table: TableLocation, base: Manifest, policy: AutoCompaction) -> Manifest:
    """The version after one bounded compaction of `base`; `base` itself if too few fragments would be rewritten.

    Raises: as `compaction.compact`.
    """
    options = auto_options(base.config)
    tasks = bounded_tasks(table, base, options, policy, CompactionBudget.of(options))
    if not tasks:
        return base
    with remove_results_on_failure(table) as results:
        results.extend(run_task(table, base, task) for task in tasks)
    return commit_compaction(table, base, results)


def auto_options(config: Mapping[str, str]) -> CompactionOptions:
    """The options of a compaction that nobody waits for: those of the config, and files of a limited size."""
    options = CompactionOptions.of(config)
    return options if options.max_bytes_per_file is not None else replace(options, max_bytes_per_file=FULL_BYTES)


def bounded_tasks(
    table: TableLocation, base: Manifest, options: CompactionOptions, policy: AutoCompaction, budget: CompactionBudget
) -> list[CompactionTask]:
    """The tasks of one run, within `budget`; none if too few fragments would be rewritten.

    Raises: as `plan_compaction`.
    """
    tasks = plan_compaction(table, base, options).tasks
    if sum(len(task.fragment_ids) for task in tasks) < policy.min_fragments:
        return []
    return budget.take(tasks, sizes_by_id(table, base))


class CompactionBudget:
    """Rows and bytes that one run may still read.

    >>> sizes = {number: Size(10, 10, 100) for number in range(6)}
    >>> tasks = [CompactionTask(1, ids, CompactionOptions()) for ids in ((0, 1), (2, 3, 4, 5))]
    >>> [task.fragment_ids for task in CompactionBudget(1000, 650).take(tasks, sizes)]
    [(2, 3, 4, 5), (0, 1)]
    >>> [task.fragment_ids for task in CompactionBudget(1000, 350).take(tasks, sizes)]
    [(2, 3, 4)]
    """

    def __init__(self, max_rows: int, max_bytes: int = MAX_BYTES) -> None:
        self._rows = max_rows
        self._bytes = max_bytes

    @classmethod
    def of(cls, options: CompactionOptions) -> CompactionBudget:
        """Budget of a new run: one task always fits by its rows."""
        return cls(2 * options.target_rows_per_fragment)

    def take(self, tasks: Sequence[CompactionTask], sizes: Mapping[int, Size]) -> list[CompactionTask]:
        """The tasks that fit, those with the most fragments first; the last one may lose fragments."""
        chosen: list[CompactionTask] = []
        for task in sorted(tasks, key=lambda task: len(task.fragment_ids), reverse=True):
            fitting = self._num_fitting([sizes[number] for number in task.fragment_ids])
            if fitting == len(task.fragment_ids) or fitting > 1:
                chosen.append(replace(task, fragment_ids=task.fragment_ids[:fitting]))
            if fitting < len(task.fragment_ids):
                break
        return chosen

    def _num_fitting(self, sizes: Sequence[Size]) -> int:
        for number, size in enumerate(sizes):
            self._rows -= size.live_rows
            self._bytes -= size.num_bytes
            if self._rows < 0 or self._bytes < 0:
                return number
        return len(sizes)
