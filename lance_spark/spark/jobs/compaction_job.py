"""A compaction of a table of either kind: fewer and larger fragments in all splits, as one version."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lance_spark.expr.nodes import Expr
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.partitioned.maintenance.compaction import PartitionResult
from lance_spark.storage.overlap import overlapped
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.clustering.cluster import planner
from lance_spark.table.maintenance.clustering.layout import Layout
from lance_spark.table.maintenance.compaction import RewriteResult, run_task
from lance_spark.table.maintenance.compaction_estimate import CompactionEstimate, estimate_plan, sizes_by_id
from lance_spark.table.maintenance.compaction_options import CompactionOptions
from lance_spark.table.maintenance.compaction_plan import CompactionTask, Size, plan_compaction
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.source import Split

_THREADS = 16

AnyDataset = Dataset | PartitionedDataset


@dataclass(frozen=True)
class CompactionWork:
    """One task, and the version of a split that it applies to.

    Attributes:
        key: of the split.
        task: as `CompactionTask.to_json` writes it.
    """

    key: str | None
    location: TableLocation
    version: int
    task: str

    def run(self) -> bytes:
        """Writes the new fragments; a pickled result for `CompactionJob.commit`.

        Raises:
            LanceError: nothing of what was written is left.
        """
        base = self.location.at(self.version).manifest
        made = run_task(self.location, base, CompactionTask.from_json(self.task))
        return pickle.dumps((self.key, made.to_json()))


@dataclass(frozen=True)
class CompactionJob:
    """State of a compaction on the driver while the tasks run.

    Attributes:
        table: the version that the tasks read.
        message: kept with the version.
        small_fragments: how many that version has, in the splits to be compacted.
        kept_fragments: how many of these stay, as in `CompactionEstimate`.
    """

    table: AnyDataset
    message: str | None
    small_fragments: int = 0
    kept_fragments: int = 0

    def planned(
        self, options: CompactionOptions, filter: Expr | None, layout: Layout | None = None
    ) -> tuple[CompactionJob, list[CompactionWork], CompactionEstimate]:
        """The job, its tasks for the splits that may hold rows which match `filter`, and what they will do.

        Args:
            layout: the order that the rows get. Of a table without partitions, only fragments with a row that matches
                are sorted.
        """
        of_fragments = filter if isinstance(self.table, Dataset) else None
        plan_split = plan_compaction if layout is None else planner(layout, of_fragments)

        def planned(split: Split) -> tuple[list[CompactionWork], CompactionEstimate]:
            base = split.manifest
            plan = plan_split(split.table, base, options)
            plan.log_kept(split.table.uri)
            work = [CompactionWork(split.key, split.table, base.version, task.to_json()) for task in plan.tasks]
            return work, estimate_plan(split.table, base, options, plan)

        found = overlapped(planned, self.table.splits(filter), _THREADS)
        estimate = CompactionEstimate.total(part for _, part in found)
        job = replace(self, small_fragments=estimate.small_fragments, kept_fragments=estimate.kept_fragments)
        return job, [item for work, _ in found for item in work], estimate

    def commit(self, results: Sequence[bytes]) -> tuple[int, CompactionEstimate]:
        """Commits what the tasks have written; the number of the version, and what it has replaced.

        Raises: as `Dataset.commit_compaction`.
        """
        # Pickled by the tasks of this job.
        found: list[tuple[str | None, str]] = [pickle.loads(result) for result in results]
        rewritten = [(key, RewriteResult.from_json(text)) for key, text in found]
        made = self._committed(rewritten)
        keys = {key for key, _ in rewritten}
        before, after = _splits(self.table, keys), _splits(made, keys)
        sizes = {key: sizes_by_id(split.table, split.manifest) for key, split in before.items()}
        counts = [
            _replaced(result, before[key].manifest, sizes[key], after[key].manifest)
            for key, result in rewritten
            if key in after
        ]
        whole = CompactionEstimate(self.small_fragments, kept_fragments=self.kept_fragments)
        return made.version, CompactionEstimate.total([whole, *counts])

    def _committed(self, rewritten: Sequence[tuple[str | None, RewriteResult]]) -> AnyDataset:
        if isinstance(self.table, Dataset):
            return self.table.commit_compaction([result for _, result in rewritten], commit_message=self.message)
        parts = [PartitionResult(key, result) for key, result in rewritten if key is not None]
        return self.table.commit_compaction(parts, commit_message=self.message)


def _splits(table: AnyDataset, keys: set[str | None]) -> dict[str | None, Split]:
    """The splits with some keys, of those that there are."""
    if isinstance(table, Dataset):
        return {split.key: split for split in table.splits()}
    known = [item for item in table.index.partitions if item.object_id in keys]
    return {split.key: split for split in table.open_all(known)}


def _replaced(
    result: RewriteResult, before: Manifest, sizes: Mapping[int, Size], after: Manifest
) -> CompactionEstimate:
    """Statistics of a task's rewrite; empty if another writer has changed its fragments."""
    kept = {message.id for message in after.fragments.messages}
    if not kept.isdisjoint(result.fragment_ids):
        return CompactionEstimate()
    files = {message.id: len(message.files) for message in before.fragments.messages}
    read = [sizes[number] for number in result.fragment_ids]
    return CompactionEstimate(
        fragments_removed=len(read),
        fragments_added=len(result.new_fragments),
        files_removed=sum(files[number] for number in result.fragment_ids),
        files_added=sum(len(fragment.files) for fragment in result.new_fragments),
        rows_rewritten=sum(size.live_rows for size in read),
        bytes_rewritten=sum(size.num_bytes for size in read),
        deleted_rows_removed=sum(size.physical_rows - size.live_rows for size in read),
    )
