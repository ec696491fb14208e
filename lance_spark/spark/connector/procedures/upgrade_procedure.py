"""`upgrade_files`: rewrites a table in a newer file version, one task for each fragment."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql.types import LongType, StringType

from lance_spark.file_version import FileVersion
from lance_spark.partitioned.compaction import PartitionResult
from lance_spark.partitioned.maintenance.upgrade import commit_partition_upgrade, plan_partition_upgrade
from lance_spark.partitioned.table import PartitionedTable, open_partitioned
from lance_spark.spark.connector.procedures.maintenance_procedures import CompactTask
from lance_spark.spark.connector.procedures.partitioned_procedures import CompactPartitionsTask, PartitionWork
from lance_spark.spark.connector.procedures.procedure_types import TABLE, TEXT, Invocation, Parameter, Procedure, Tasks
from lance_spark.spark.connector.scan.local_rows import LocalRows, row_type
from lance_spark.table.dataset import Dataset
from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.compaction import RewriteResult
from lance_spark.table.maintenance.upgrade import commit_upgrade, plan_upgrade, upgrade_version
from lance_spark.table.writing.save import CommitOptions

_UPGRADED = row_type(version=LongType(), file_version=StringType(), fragments_rewritten=LongType())


@dataclass(frozen=True)
class _Plain:
    location: TableLocation
    version: int
    file_version: FileVersion
    message: str | None

    def finish(self, results: Sequence[bytes]) -> tuple[int, str, int]:
        """Commits; returns the row of the procedure."""
        written = [RewriteResult.from_json(result.decode()) for result in results]
        base = self.location.at(self.version).manifest
        made = commit_upgrade(self.location, base, self.file_version, written, CommitOptions(message=self.message))
        return made.version, self.file_version.value, len(written)


@dataclass(frozen=True)
class _Partitioned:
    root: str
    storage_options: dict[str, str] | None
    version: int
    file_version: FileVersion
    message: str | None

    def finish(self, results: Sequence[bytes]) -> tuple[int, str, int]:
        """Commits; returns the row of the procedure."""
        written = [PartitionResult.from_json(result.decode()) for result in results]
        table = open_partitioned(self.root, version=self.version, storage_options=self.storage_options)
        options = CommitOptions(message=self.message)
        made = commit_partition_upgrade(table, self.file_version, written, options)
        return made.version, self.file_version.value, len(written)


def _upgrade(call: Invocation) -> LocalRows | Tasks:
    table, message = call.table(), call.arguments.text("commit_message")
    version = upgrade_version(call.arguments.required("version"))
    if isinstance(table, PartitionedTable):
        table.catalog.table.history.check_commits()
        job = _partition_tasks(table, version, message)
    else:
        table.location.history.check_commits()
        job = _tasks(table, version, message)
    # Without tasks only the version that the table names may be older.
    return job if job.work else LocalRows.of(_UPGRADED, [_finished(job.state, ())])


def _tasks(table: Dataset, version: FileVersion, message: str | None) -> Tasks:
    plan = plan_upgrade(table.location, table.manifest, version)
    state = _Plain(table.location, table.version, version, message)
    work = [task.to_json().encode() for task in plan.tasks]
    return Tasks(CompactTask(table.location, table.version), work, pickle.dumps(state))


def _partition_tasks(table: PartitionedTable, version: FileVersion, message: str | None) -> Tasks:
    opened = {item.partition.object_id: item for item in table.open_all(table.partitions())}
    work = []
    for task in plan_partition_upgrade(table, version):
        item = opened[task.object_id]
        work.append(PartitionWork(task.object_id, item.table, item.manifest.version, task.task.to_json()))
    state = _Partitioned(table.root, table.storage_options, table.version, version, message)
    return Tasks(CompactPartitionsTask(), [pickle.dumps(item) for item in work], pickle.dumps(state))


def _finished(state: bytes, results: Sequence[bytes]) -> tuple[int, str, int]:
    planned: _Plain | _Partitioned = pickle.loads(state)  # Pickled by this package, on this driver.
    return planned.finish(results)


def _commit(state: bytes, results: Sequence[bytes]) -> LocalRows:
    return LocalRows.of(_UPGRADED, [_finished(state, results)])


PROCEDURES = (
    Procedure(
        "upgrade_files",
        "Rewrites the files of a table in a newer file version, as a job over the cluster.",
        (
            TABLE,
            Parameter("version", TEXT, "the file version: 2.0, 2.1 or 2.2", required=True),
            Parameter("commit_message", TEXT, "kept with the version"),
        ),
        _upgrade,
        finish=_commit,
        changes_rows=True,
    ),
)
