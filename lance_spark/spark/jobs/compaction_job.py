"""A compaction of a table of either kind: fewer and larger fragments in all splits, as one version."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass

from lance_spark.expr.nodes import Expr
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.partitioned.maintenance.compaction import PartitionResult
from lance_spark.storage.overlap import overlapped
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.compaction import RewriteResult, run_task
from lance_spark.table.maintenance.compaction_plan import CompactionOptions, CompactionTask, plan_compaction
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


@dataclass(frozen=True, slots=True)
class CompactionCounts:
    """The version that a compaction made, and what it has replaced."""

    version: int
    fragments_removed: int = 0
    fragments_added: int = 0
    files_removed: int = 0
    files_added: int = 0


@dataclass(frozen=True)
class CompactionJob:
    """What the driver keeps while the tasks run.

    Attributes:
        table: the version that the tasks read.
        message: kept with the version.
    """

    table: AnyDataset
    message: str | None

    def work(self, options: CompactionOptions, filter: Expr | None) -> list[CompactionWork]:
        """The tasks for the splits that may hold rows which match `filter`; none if there is nothing to gain."""

        def planned(split: Split) -> list[CompactionWork]:
            tasks = plan_compaction(split.table, split.manifest, options).tasks
            return [CompactionWork(split.key, split.table, split.manifest.version, task.to_json()) for task in tasks]

        found = overlapped(planned, self.table.splits(filter), _THREADS)
        return [item for part in found for item in part]

    def commit(self, results: Sequence[bytes]) -> CompactionCounts:
        """Commits what the tasks have written.

        Raises: as `Dataset.commit_compaction`.
        """
        # Pickled by the tasks of this job.
        found: list[tuple[str | None, str]] = [pickle.loads(result) for result in results]
        rewritten = [(key, RewriteResult.from_json(text)) for key, text in found]
        made = self._committed(rewritten)
        keys = {key for key, _ in rewritten}
        before, after = _manifests(self.table, keys), _manifests(made, keys)
        counts = [_replaced(result, before[key], after[key]) for key, result in rewritten if key in after]
        return CompactionCounts(made.version, *(sum(values) for values in zip(*counts, strict=True)))

    def _committed(self, rewritten: Sequence[tuple[str | None, RewriteResult]]) -> AnyDataset:
        if isinstance(self.table, Dataset):
            return self.table.commit_compaction([result for _, result in rewritten], commit_message=self.message)
        parts = [PartitionResult(key, result) for key, result in rewritten if key is not None]
        return self.table.commit_compaction(parts, commit_message=self.message)


def _manifests(table: AnyDataset, keys: set[str | None]) -> dict[str | None, Manifest]:
    """The manifests of the splits with some keys, of those that there are."""
    if isinstance(table, Dataset):
        return {None: table.manifest}
    known = [item for item in table.index.partitions if item.object_id in keys]
    return {split.key: split.manifest for split in table.open_all(known)}


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
