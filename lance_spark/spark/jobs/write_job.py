"""A write: rows that are appended, or that replace others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from lance_spark.expr.nodes import Expr
from lance_spark.spark.blobs.references import BlobInputs, with_references
from lance_spark.spark.jobs.job import Job
from lance_spark.spark.jobs.target import Version, WriteMode
from lance_spark.spark.jobs.task_result import NewFiles, TaskResult, identity_values
from lance_spark.spark.types.values import from_spark_batch
from lance_spark.table.row_level.read_conflicts import ReadRows
from lance_spark.table.rows.row_address import UInt64Array


@dataclass(frozen=True)
class WriteJob(Job):
    """A write to one table. `plan_plain_write` and `plan_partitioned_write` make one.

    Attributes:
        mode: what becomes of the rows that the table has.
        replaced: which rows are replaced, with REPLACE_WHERE.
        blobs: that rows name.
    """

    mode: WriteMode
    replaced: Expr | None = None
    blobs: BlobInputs = field(default_factory=BlobInputs)

    def write(self, batches: Iterable[pa.RecordBatch]) -> TaskResult:
        identity = identity_values(self.target.identity)
        rows = (
            (identity(part), None)
            for batch in batches
            for part in with_references(from_spark_batch(batch, self.table_types), self.blobs.mark)
        )
        written = self.target.write(rows, with_source_addresses=False, blobs=self.blobs)
        return TaskResult(written, identity=identity.used() if self.target.identity else None)

    def commit(
        self,
        results: Sequence[TaskResult],
        *,
        found: Mapping[str | None, UInt64Array] | None = None,
        reads: Sequence[ReadRows] = (),
    ) -> Version | None:
        """The version with the rows of all tasks; None if there is nothing to change.

        Args:
            results: in the order of the rows.
            found: with REPLACE_WHERE, by key of the split, the addresses of the replaced rows in the splits of
                `Target.search`; None to search for them.
            reads: of an append, rows of the table that nobody else may have changed since they were read.

        Raises:
            CommitConflictError: another writer was first. Nothing was changed, and the files are removed.
            CommitStateUnknownError: the store never said whether the version was committed, and the files stay.
        """

        options = self._with_identity(self.commit_options, results)

        def commit(files: Sequence[NewFiles]) -> Version:
            if self.replaced is not None:
                return self.target.replace_rows(self.replaced, files, options, found)
            return self.target.save(self.mode, files, options, reads)

        return self._run_commit(results, commit, reads)
