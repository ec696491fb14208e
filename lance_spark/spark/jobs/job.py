"""A job that writes: its plan is made by the driver, its files by the tasks, one commit by the driver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from lance_spark.spark.jobs.task_result import TaskResult, filled_columns, written_splits
from lance_spark.table.commits.retry import cleanup_on_failure
from lance_spark.table.row_level.read_conflicts import ReadRows
from lance_spark.table.row_level.row_writer import WrittenSplit
from lance_spark.table.row_level.write_target import AnyTarget
from lance_spark.table.writing.save import CommitOptions

if TYPE_CHECKING:  # Every task imports this module.
    from lance_spark.partitioned.table import PartitionedTable
    from lance_spark.table.manifests.manifest import Manifest

Version: TypeAlias = "Manifest | PartitionedTable"
"""A version of a table: of a plain one its manifest."""


@dataclass(frozen=True)
class Job(ABC):
    """Write job that driver and tasks share; small, because every task gets it.

    Attributes:
        target: the version of the table that the job builds on.
        table_types: the columns of the rows, in the types in which they are written.
        commit_options: of the commit.
    """

    target: AnyTarget
    table_types: pa.Schema
    commit_options: CommitOptions

    @abstractmethod
    def write(self, batches: Iterable[pa.RecordBatch]) -> TaskResult:
        """Writes the rows of one task, which are as Spark hands them over. Takes all of `batches`.

        Raises:
            LanceError: nothing of what was written is left.
        """

    def abort(self, results: Sequence[TaskResult], *, all_tasks_finished: bool) -> None:
        """Removes what the tasks have written.

        Args:
            results: of the tasks that finished.
            all_tasks_finished: whether all did, and the commit was tried. Then Spark aborts after a commit that failed,
                and that has decided about the files, because it alone knows whether its version may be there.
        """
        if not all_tasks_finished:
            self.target.abandon(written_splits(results), filled_columns(results))

    def others_commits(self, committed: Version | None) -> int:
        """Number of versions of other writers between the base version of the job and `committed`."""
        return 0 if committed is None else max(0, committed.version - (self.target.base_version or 0) - 1)

    def _with_identity(self, options: CommitOptions, results: Sequence[TaskResult]) -> CommitOptions:
        """`options` with the values of identity columns that the tasks used."""
        return self.target.with_identity(options, [result.identity for result in results])

    def _run_commit(
        self,
        results: Sequence[TaskResult],
        commit: Callable[[Sequence[WrittenSplit]], Version],
        reads: Sequence[ReadRows] = (),
    ) -> Version | None:
        """The version with the new files; None if the commit changes nothing. Files that it does not name are removed.

        Args:
            reads: rows of the table that the statement has looked at.

        Raises:
            RetryableConflictError: no version has all of `reads`.
            CommitStateUnknownError: the version may be there and need the files, so they stay.
        """
        written, columns = written_splits(results), filled_columns(results)
        with cleanup_on_failure(lambda: self.target.remove_files(written, columns)):
            self.target.check_reads(reads)
            committed = commit(written)
        if any(result.attempt for result in results):
            files = [file for result in results for file in result.files]
            self.target.remove_files(written, columns, keep=files)
        return None if committed.version == self.target.base_version else committed
