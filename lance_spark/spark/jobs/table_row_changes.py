"""Changes of rows in a table without partitions: rows are known by `_rowaddr` in the version that was read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.errors import CommitStateUnknownError, InvalidInputError, LanceError
from lance_spark.expr.literals import Literal
from lance_spark.expr.nodes import Expr, quote_name, referenced_columns
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.projection import project
from lance_spark.spark.jobs.original_values import OriginalValues, read_rows
from lance_spark.spark.jobs.packed_addresses import PackedAddresses
from lance_spark.spark.jobs.row_changes import ChangeKind, RowChangeJob, RowChanges
from lance_spark.spark.jobs.write_job import abandon
from lance_spark.spark.options import WriteOptions
from lance_spark.spark.partitions import ProjectedSizes
from lance_spark.spark.types import exchanged_schema, from_spark_batch, table_types
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.features import check_writable
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.paths import new_job
from lance_spark.table.reading.system_columns import ROW_ADDRESS
from lance_spark.table.row_level.moved_row_writer import MovedRowWriter
from lance_spark.table.row_level.moved_rows import NO_ORIGIN, NewFragment
from lance_spark.table.row_level.read_conflicts import ReadRows, check_of
from lance_spark.table.row_level.row_changes import commit_row_changes, rows_by_fragment
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.rows.row_address import UInt64Array, distinct
from lance_spark.table.writing.row_source import RowSource
from lance_spark.table.writing.save import APPEND, CommitOptions, WritePlan, plan_write
from lance_spark.table.writing.write import FileLimits, remove_job_files

ROW_ID = (ROW_ADDRESS,)
"""The columns that rows are known by."""

CHEAP_BYTES = 256 << 20
"""So much one process reads sooner than a job of Spark would have started its tasks."""

_UNKNOWN_BYTES = 16 << 20
"""Assumed of a file whose size the manifest does not tell."""


@dataclass(frozen=True, slots=True)
class TaskChanges:
    """What a task tells the driver.

    Attributes:
        deleted: the addresses of the rows that go for good.
        fragments: what it wrote, as `lance.table.DataFragment` bytes, with the address that each row had.
    """

    deleted: PackedAddresses
    fragments: tuple[tuple[bytes, PackedAddresses], ...]


@dataclass(frozen=True)
class TableRowChanges(RowChangeJob):
    """A statement that changes one table.

    Attributes:
        location: the branch.
        base_version: the version that was read.
        plan: how rows become files, its base left out; None if none come.
        table_types: the columns of the rows, in the types in which they are written.
        originals: brings back values that Spark has rounded; None if there are no such columns.
        job: names the files.
        evolved: all columns of the table from then on, if the rows bring new ones.
    """

    location: TableLocation
    base_version: int
    plan: WritePlan | None
    table_types: pa.Schema
    originals: OriginalValues | None
    limits: FileLimits
    job: str
    message: str | None = None
    evolved: LanceSchema | None = None

    @classmethod
    def of(
        cls,
        location: TableLocation,
        base: Manifest,
        columns: StructType,
        options: WriteOptions,
        evolved: LanceSchema | None = None,
    ) -> TableRowChanges:
        """The statement that reads the version `base` and brings rows with `columns`, none if it only deletes.

        Args:
            evolved: all columns from then on, if the rows bring new ones; `base` shows them already.

        Raises:
            InvalidInputError: the columns do not fit the table.
            UnsupportedFeatureError: this release cannot write to the table, or not such columns.
        """
        check_changeable(location, base)
        location.history.check_commits()
        shown = exchanged_schema(columns)
        types = table_types(shown, to_arrow_schema(base.schema))
        plan = None
        if columns.fields:
            planned = plan_write(base, RowSource(types, iter(())), mode=APPEND)
            plan = replace(planned, base=None)
        return cls(
            location=location,
            base_version=base.version,
            plan=plan,
            table_types=types,
            originals=OriginalValues.of(shown, types),
            limits=options.limits(base.config),
            job=new_job(),
            message=options.commit_message,
            evolved=evolved,
        )

    def apply(self, changes: Iterable[RowChanges]) -> TaskChanges:
        deleted = [np.empty(0, np.uint64)]
        if self.plan is None:
            deleted += [_addresses(batch) for batch in changes]
            return TaskChanges(PackedAddresses.of(distinct(np.concatenate(deleted))), ())
        writer = MovedRowWriter(
            self.location.store,
            self.plan.schema,
            file_version=self.plan.file_version,
            limits=self.limits,
            job=self.job,
        )
        with writer:
            for batch in changes:
                addresses = _addresses(batch)
                deleted.append(addresses[batch.kinds == ChangeKind.DELETE])
                if batch.rows is not None:
                    origins = np.where(batch.kinds == ChangeKind.INSERT, np.uint64(NO_ORIGIN), addresses)
                    origins = origins[batch.kinds != ChangeKind.DELETE]
                    writer.write(self._converted(batch.rows, origins), origins)
            new = writer.close()
        return TaskChanges(
            # MERGE deletes a row that matches twice, twice.
            PackedAddresses.of(distinct(np.concatenate(deleted))),
            tuple((item.fragment.to_bytes(), _packed_origins(item)) for item in new),
        )

    def _converted(self, rows: pa.RecordBatch, origins: UInt64Array) -> pa.RecordBatch:
        assert self.plan is not None, "there are rows to write"
        batch = from_spark_batch(rows, self.table_types)
        if self.originals is not None:
            had_rows = origins != NO_ORIGIN
            base = self.location.at(self.base_version).manifest
            batch = self.originals.restored(
                batch, had_rows, lambda names: read_rows(self.location, base, origins[had_rows], names)
            )
        return batch if self.plan.conform is None else self.plan.conform(batch)

    def new_fragments(self, output: TaskChanges) -> list[bytes]:
        return [fragment for fragment, _ in output.fragments]

    def commit(
        self,
        outputs: Sequence[TaskChanges],
        properties: Mapping[str, str],
        *,
        repeated: bool,
        reads: Sequence[ReadRows] = (),
    ) -> int:
        new = [
            NewFragment(DataFragment.from_bytes(fragment), origins.unpack())
            for output in outputs
            for fragment, origins in output.fragments
        ]
        moved = [item.origins[item.origins != NO_ORIGIN] for item in new if item.origins is not None]
        gone = np.concatenate([np.empty(0, np.uint64), *(output.deleted.unpack() for output in outputs), *moved])
        base = self.location.at(self.base_version).manifest
        options = CommitOptions(message=self.message, properties=properties)
        try:
            made = commit_row_changes(
                self.location,
                base,
                rows_by_fragment(gone),
                new,
                options,
                check=check_of(self.location, reads, base.schema),
                evolved=self.evolved,
            )
        except CommitStateUnknownError:
            raise  # The version may be there, and then it needs the files.
        except LanceError:
            remove_job_files(self.location.store, self.job)
            raise
        if repeated:
            remove_job_files(self.location.store, self.job, keep=[item.fragment for item in new])
        return max(0, made.version - base.version - 1)

    def abort(self, outputs: Sequence[TaskChanges], *, all_tasks_told: bool) -> None:
        if not all_tasks_told:
            abandon(self.location.store, self.job)


def check_changeable(location: TableLocation, base: Manifest) -> None:
    """Passes if rows of `base` can be told and changed.

    Raises:
        InvalidInputError: a column of the table hides the one that rows are known by.
        UnsupportedFeatureError: this release cannot write to the table.
    """
    check_writable(base.writer_flags, location.uri)
    if ROW_ADDRESS in base.schema.names():
        raise InvalidInputError(f"rows of a table with a column {ROW_ADDRESS!r} cannot be told; rename the column")


def bytes_to_match(base: Manifest, filter: Expr) -> int:
    """About how many bytes have to be read to find the rows of `filter`."""
    if isinstance(filter, Literal):
        return 0
    sizes = map(sizes_to_match(base.schema, filter).of, base.fragments)
    return sum(_UNKNOWN_BYTES if size is None else size for size in sizes)


def sizes_to_match(schema: LanceSchema, filter: Expr) -> ProjectedSizes:
    """How much of each fragment has to be read for that."""
    known = schema.names()
    paths = [".".join(map(quote_name, path)) for path in referenced_columns(filter) if path[0] in known]
    return ProjectedSizes(schema, project(schema, paths))


def _addresses(changes: RowChanges) -> UInt64Array:
    # What stands for a new row, which has none, is never looked at.
    column = changes.ids.column(0).fill_null(0)
    addresses: UInt64Array = column.to_numpy().astype(np.uint64)
    return addresses


def _packed_origins(item: NewFragment) -> PackedAddresses:
    assert item.origins is not None, "a writer of moved rows tells the origins"
    return PackedAddresses.of(item.origins)
