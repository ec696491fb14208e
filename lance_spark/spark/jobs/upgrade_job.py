"""The files of a table of either kind rewritten in a newer file version, as one version of the table."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass

from lance_spark.file_version import FileVersion
from lance_spark.partitioned.maintenance.compaction import PartitionResult
from lance_spark.partitioned.maintenance.upgrade import commit_partition_upgrade, plan_partition_upgrade
from lance_spark.spark.jobs.compaction_job import AnyDataset, CompactionWork
from lance_spark.table.dataset import Dataset
from lance_spark.table.maintenance.compaction import RewriteResult
from lance_spark.table.maintenance.upgrade import commit_upgrade, plan_upgrade
from lance_spark.table.writing.save import CommitOptions


@dataclass(frozen=True)
class UpgradeJob:
    """State of an upgrade on the driver while the tasks run.

    Attributes:
        table: the version that the tasks read.
        file_version: the new one.
        message: kept with the version.
    """

    table: AnyDataset
    file_version: FileVersion
    message: str | None

    def work(self) -> list[CompactionWork]:
        """One task for each fragment with older files."""
        table = self.table
        if isinstance(table, Dataset):
            tasks = plan_upgrade(table.location, table.manifest, self.file_version).tasks
            return [CompactionWork(None, table.location, table.version, task.to_json()) for task in tasks]
        opened = {item.partition.object_id: item for item in table.open_all(table.partitions())}
        return [
            CompactionWork(task.object_id, item.table, item.manifest.version, task.task.to_json())
            for task in plan_partition_upgrade(table, self.file_version)
            for item in (opened[task.object_id],)
        ]

    def commit(self, results: Sequence[bytes]) -> int:
        """Commits what the tasks have written; the version that has it.

        Raises: as `Dataset.upgrade_files`.
        """
        # Pickled by the tasks of this job.
        found: list[tuple[str | None, str]] = [pickle.loads(result) for result in results]
        table, options = self.table, CommitOptions(message=self.message)
        if isinstance(table, Dataset):
            written = [RewriteResult.from_json(text) for _, text in found]
            return commit_upgrade(table.location, table.manifest, self.file_version, written, options).version
        parts = [PartitionResult(key, RewriteResult.from_json(text)) for key, text in found if key is not None]
        return commit_partition_upgrade(table, self.file_version, parts, options).version
