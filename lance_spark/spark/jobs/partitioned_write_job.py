"""One write of a Spark job to a partitioned table: planned by the driver, files by the tasks, one commit by the driver.

What `write_job` says of files that no commit names holds here too, partition by partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.errors import LanceError, UnsupportedFeatureError
from lance_spark.expr.nodes import Expr
from lance_spark.namespace.locations import location_uri
from lance_spark.partitioned.commit import named
from lance_spark.partitioned.manifest_index import Partition
from lance_spark.partitioned.read_conflicts import partition_check_of
from lance_spark.partitioned.replace import commit_planned, commit_planned_delta, with_columns_of
from lance_spark.partitioned.save import RowDelta, SaveMode, commit_delta, commit_written, matching_rows
from lance_spark.partitioned.table import PartitionedTable, PlannedTable
from lance_spark.partitioned.writer import PartitionedWrite, PartitionWriter, WrittenPartition
from lance_spark.spark.options import WriteOptions
from lance_spark.spark.types import from_spark_batch, table_types, written_schema
from lance_spark.storage import open_store
from lance_spark.table.row_level.moved_rows import NewFragment
from lance_spark.table.row_level.read_conflicts import ReadRows
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.writing.save import CommitOptions
from lance_spark.table.writing.write import remove_job_files


def _check_as_made(whole: PartitionedTable, options: WriteOptions) -> None:
    """Refuses options of tables that are made, where they contradict the table that is there.

    Raises:
        UnsupportedFeatureError: there is such an option.
    """
    hint = (
        "it is decided when the table is made, before Spark hands over the options of the write; make the table with "
        "this property, such as by writeTo(...).tableProperty(...)"
    )
    stable, version = options.enable_stable_row_ids, options.file_format_version
    if stable is not None and stable != whole.has_stable_row_ids:
        raise UnsupportedFeatureError(f"option enable_stable_row_ids is {stable}: {hint}", feature="stable row ids")
    if version is not None and version != whole.file_version.value:
        raise UnsupportedFeatureError(
            f"option file_format_version is {version}, the partitioned table has {whole.file_version.value}: {hint}",
            feature="file format version of a partitioned table",
        )


@dataclass(frozen=True)
class PartitionFiles:
    """What a task wrote into one partition; `fragments` as `lance.table.DataFragment` bytes in row order."""

    partition: Partition
    fragments: tuple[bytes, ...]

    def unpack(self) -> WrittenPartition:
        """As the commit takes it."""
        return WrittenPartition(
            self.partition, tuple(NewFragment(DataFragment.from_bytes(data)) for data in self.fragments)
        )


@dataclass(frozen=True)
class PartitionedWriteJob:
    """What driver and tasks share; small, because every task gets it.

    Attributes:
        plan: how rows become files, and where the table is.
        mode: what becomes of the rows that are there; of them all, unless `replaced` says which.
        table_types: the columns of the rows, in the types in which they are written.
        replaced: the new rows come instead of those for which this is true.
        properties: of the namespace, which change with the rows if columns or partitions do.
    """

    plan: PartitionedWrite
    mode: SaveMode
    table_types: pa.Schema
    message: str | None = None
    replaced: Expr | None = None
    properties: Mapping[str, str | None] | None = None

    @classmethod
    def of(
        cls,
        whole: PartitionedTable,
        columns: StructType,
        mode: SaveMode,
        options: WriteOptions,
        replaced: Expr | None = None,
    ) -> PartitionedWriteJob:
        """The job that writes rows with `columns` into `whole`.

        Raises:
            InvalidInputError: the columns do not fit the table.
            UnsupportedFeatureError: this release cannot write such columns, or not with such options.
        """
        _check_as_made(whole, options)
        types = table_types(
            written_schema(columns), whole.schema, options.column_properties, large=options.use_large_var_types
        )
        if options.merge_schema and mode is SaveMode.APPEND:
            whole = with_columns_of(whole, types)
        limits = options.limits(whole.properties)
        return cls(PartitionedWrite.of(whole, types, limits), mode, types, options.commit_message, replaced)

    def write(self, batches: Iterable[pa.RecordBatch]) -> tuple[PartitionFiles, ...]:
        """The files of a task with the rows of `batches`, which are as Spark hands them over."""
        with PartitionWriter(self.plan) as writer:
            for batch in batches:
                writer.write(from_spark_batch(batch, self.table_types))
            written = writer.close()
        return tuple(
            PartitionFiles(item.partition, tuple(new.fragment.to_bytes() for new in item.new)) for item in written
        )

    def commit(
        self,
        files: Sequence[PartitionFiles],
        *,
        repeated: bool,
        properties: Mapping[str, str] | None = None,
        gone: Mapping[str, UInt64Array] | None = None,
        reads: Sequence[ReadRows] = (),
    ) -> PartitionedTable | None:
        """The version with the rows of all tasks; None if there is nothing to change.

        Args:
            files: what the tasks wrote, in the order of the rows.
            repeated: whether a task ran more than once, and may have left files.
            gone: by object id of the partition, the addresses of the rows that go, of those that have to be looked for;
                None if that is still to be done.
            reads: of an append, rows of the table that nobody else may have changed since they were read.

        Raises:
            CommitConflictError: another writer was first. Nothing of ours is visible, the files are gone.
            CommitStateUnknownError: the store never said; the version may be there, and the files stay.
        """
        whole = self.plan.table()
        written = [item.unpack() for item in files]
        options = CommitOptions(message=self.message, properties=properties or {})
        if self.replaced is not None:
            delta, told = self._delta(whole, self.replaced, written, gone), named(options, "overwrite")
            if isinstance(whole, PlannedTable):
                made = commit_planned_delta(whole, self.plan, delta, told)
            else:
                made = commit_delta(whole, self.plan, delta, told)
        elif isinstance(whole, PlannedTable):
            check = partition_check_of(whole.base, reads)
            made = commit_planned(
                whole, self.plan, written, self.mode, options, properties=self.properties, check=check
            )
        else:
            check = partition_check_of(whole, reads)
            made = commit_written(whole, self.plan, written, self.mode, options, check=check)
        if repeated:
            kept = [new.fragment for item in written for new in item.new]
            self._remove_files({item.partition.location for item in files}, kept)
        return None if made.version == whole.version else made

    def _delta(
        self,
        whole: PartitionedTable,
        replaced: Expr,
        written: Sequence[WrittenPartition],
        gone: Mapping[str, UInt64Array] | None,
    ) -> RowDelta:
        try:
            return replace(matching_rows(whole, replaced, gone), written=written)
        except LanceError:
            self.plan.remove_files(written)
            raise

    def abort(self, files: Sequence[PartitionFiles], *, all_tasks_told: bool) -> None:
        """Removes what the tasks have written, in the partitions that they have told of.

        Args:
            all_tasks_told: whether every task had come to its end; then the commit has decided about the files.
        """
        # What killed tasks have left in other partitions, a clean-up finds.
        if not all_tasks_told:
            self._remove_files({item.partition.location for item in files}, [])

    def _remove_files(self, locations: Iterable[str], kept: Sequence[DataFragment]) -> None:
        for location in locations:
            store = open_store(location_uri(self.plan.root, location), self.plan.storage_options)
            remove_job_files(store, self.plan.job, keep=kept)
