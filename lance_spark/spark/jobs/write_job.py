"""A write: rows that are appended, or that replace others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lance_spark.expr.nodes import Expr
from lance_spark.spark.blobs.references import BlobInputs, with_references
from lance_spark.spark.jobs.job import Job, Version
from lance_spark.spark.jobs.task_result import TaskResult, task_number
from lance_spark.spark.types.values import from_spark_batch
from lance_spark.table.row_level.read_conflicts import ReadRows
from lance_spark.table.row_level.row_writer import WrittenSplit
from lance_spark.table.row_level.write_target import WriteMode
from lance_spark.table.rows.row_address import UInt64Array


@dataclass(frozen=True)
class WriteJob(Job):
    """A write to one table. `plan_write` makes one.

    Attributes:
        mode: what becomes of the rows that the table has.
        replaced: which rows are replaced, with REPLACE_WHERE.
        blobs: that rows name.
    """

    mode: WriteMode
    replaced: Expr | None = None
    blobs: BlobInputs = field(default_factory=BlobInputs)

    def write(self, batches: Iterable[pa.RecordBatch]) -> TaskResult:
        task, num_tasks = task_number(self.target.identity)
        with self.target.writer(task, num_tasks, self.blobs.others) as writer:
            for batch in batches:
                for part in with_references(from_spark_batch(batch, self.table_types), self.blobs.mark):
                    writer.write(part)
            return TaskResult(writer.close(), identity=writer.used())

    def commit(
        self,
        results: Sequence[TaskResult],
        *,
        matching: Mapping[str | None, UInt64Array] | None = None,
        reads: Sequence[ReadRows] = (),
    ) -> Version | None:
        """The version with the rows of all tasks; None if there is nothing to change.

        Args:
            results: in the order of the rows.
            matching: with REPLACE_WHERE, by key of the split, the addresses of the replaced rows in the splits of
                `WriteTarget.search`; None to search for them.
            reads: of an append, rows of the table that nobody else may have changed since they were read.

        Raises:
            CommitConflictError: another writer was first. Nothing was changed, and the files are removed.
            CommitStateUnknownError: the store never said whether the version was committed, and the files stay.
        """
        options = self._with_identity(self.commit_options, results)

        def commit(written: Sequence[WrittenSplit]) -> Version:
            version: Version
            if self.replaced is not None:
                version = self.target.replace_rows(self.replaced, written, options, matching)
            elif self.target.changes_nothing(self.mode, written):
                version = self.target.version
            else:
                version = self.target.save(self.mode, written, options, self.target.check_of(reads))
            return version

        return self._run_commit(results, commit, reads)
