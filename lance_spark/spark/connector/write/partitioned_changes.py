"""Changes of rows in a partitioned table: rows are known by their partition, and by `_rowaddr` in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import Expr
from lance_spark.namespace.locations import location_uri
from lance_spark.partitioned.manifest_index import Partition
from lance_spark.partitioned.read_conflicts import partition_check_of
from lance_spark.partitioned.replace import commit_planned_delta, planned_with
from lance_spark.partitioned.save import RowDelta, commit_delta
from lance_spark.partitioned.table import PartitionedTable, PlannedTable, open_partitioned
from lance_spark.partitioned.writer import PartitionedWrite, PartitionWriter, RowOrigins, WrittenPartition
from lance_spark.schema.field import LanceSchema
from lance_spark.spark.connector.channel.tasks import PARTITION_COLUMN
from lance_spark.spark.jobs.original_values import BoolArray, OriginalValues, read_rows
from lance_spark.spark.jobs.packed_addresses import PackedAddresses
from lance_spark.spark.jobs.row_changes import ChangeKind, RowChangeJob, RowChanges
from lance_spark.spark.jobs.table_row_changes import CHEAP_BYTES, bytes_to_match
from lance_spark.spark.options import WriteOptions
from lance_spark.spark.types import exchanged_schema, from_spark_batch, table_types
from lance_spark.storage import open_store
from lance_spark.table.reading.system_columns import ROW_ADDRESS
from lance_spark.table.row_level.moved_rows import NO_ORIGIN, NewFragment
from lance_spark.table.row_level.read_conflicts import ReadRows
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.rows.row_address import UInt64Array, distinct
from lance_spark.table.writing.save import CommitOptions
from lance_spark.table.writing.write import remove_job_files

PARTITION_ROW_ID = (PARTITION_COLUMN, ROW_ADDRESS)
"""The columns that rows are known by."""

CHEAP_PARTITIONS = 64
"""So many partitions one process looks through sooner than a job of Spark would have started."""


@dataclass(frozen=True, slots=True)
class NewRows:
    """What a task wrote into one partition: fragments as `lance.table.DataFragment` bytes, and where each row was."""

    partition: Partition
    fragments: tuple[tuple[bytes, PackedAddresses], ...]

    @classmethod
    def of(cls, written: WrittenPartition) -> NewRows:
        """As it travels to the driver."""
        packed = []
        for item in written.new:
            assert item.origins is not None, "a writer of moved rows tells the origins"
            packed.append((item.fragment.to_bytes(), PackedAddresses.of(item.origins)))
        return cls(written.partition, tuple(packed))

    def unpack(self) -> WrittenPartition:
        """As the commit takes it."""
        new = (NewFragment(DataFragment.from_bytes(data), origins.unpack()) for data, origins in self.fragments)
        return WrittenPartition(self.partition, tuple(new))


@dataclass(frozen=True, slots=True)
class PartitionedTaskChanges:
    """What a task tells the driver.

    Attributes:
        gone: by object id of the partition, the addresses of its rows that go, to wherever they go.
        written: the rows that come.
    """

    gone: Mapping[str, PackedAddresses]
    written: tuple[NewRows, ...]


@dataclass(frozen=True)
class PartitionedRowChanges(RowChangeJob):
    """A statement that changes a partitioned table; rows move to the partitions of their new values.

    Attributes:
        root, storage_options, version: what was read.
        plan: how rows become files; None if none come.
        table_types: the columns of the rows, in the types in which they are written.
        originals: brings back values that Spark has rounded; None if there are no such columns.
        evolved: all columns of the table from then on, if the rows bring new ones.
    """

    root: str
    storage_options: Mapping[str, str]
    version: int
    plan: PartitionedWrite | None
    table_types: pa.Schema
    originals: OriginalValues | None
    message: str | None = None
    evolved: LanceSchema | None = None

    @classmethod
    def of(cls, whole: PartitionedTable, columns: StructType, options: WriteOptions) -> PartitionedRowChanges:
        """The statement that reads `whole` and brings rows with `columns`, none if it only deletes.

        A `PlannedTable` gets its columns with the rows.

        Raises:
            InvalidInputError: the columns do not fit the table.
            UnsupportedFeatureError: this release cannot write such columns.
        """
        check_partitioned_changeable(whole)
        whole.catalog.table.history.check_commits()
        shown = exchanged_schema(columns)
        types = table_types(shown, whole.schema)
        limits = options.limits(whole.properties)
        return cls(
            root=whole.root,
            storage_options=dict(whole.storage_options or {}),
            version=whole.version,
            plan=PartitionedWrite.of(whole, types, limits) if columns.fields else None,
            table_types=types,
            originals=OriginalValues.of(shown, types),
            message=options.commit_message,
            evolved=whole.lance_schema if isinstance(whole, PlannedTable) else None,
        )

    def apply(self, changes: Iterable[RowChanges]) -> PartitionedTaskChanges:
        gone = _GoneRows()
        if self.plan is None:
            for batch in changes:
                gone.add(batch)
            return PartitionedTaskChanges(gone.packed(), ())
        with PartitionWriter(self.plan) as writer:
            for batch in changes:
                gone.add(batch)
                if batch.rows is not None:
                    origins = _origins(batch)
                    writer.write(self._converted(batch.rows, origins), origins)
            written = writer.close()
        return PartitionedTaskChanges(gone.packed(), tuple(map(NewRows.of, written)))

    def _converted(self, rows: pa.RecordBatch, origins: RowOrigins) -> pa.RecordBatch:
        batch = from_spark_batch(rows, self.table_types)
        if self.originals is None:
            return batch
        assert self.plan is not None, "there are rows to write"
        whole = self.plan.table()
        known = {partition.object_id: partition for partition in whole.index.partitions}
        for object_id in origins.partitions.unique().drop_null().to_pylist():
            opened = whole.open(known[object_id])
            is_here = _is_equal(origins.partitions, object_id)
            location = whole.location(opened.partition)
            read = partial(read_rows, location, opened.manifest, origins.addresses[is_here])
            batch = self.originals.restored(batch, is_here, read)
        return batch

    def new_fragments(self, output: PartitionedTaskChanges) -> list[bytes]:
        return [fragment for rows in output.written for fragment, _ in rows.fragments]

    def commit(
        self,
        outputs: Sequence[PartitionedTaskChanges],
        properties: Mapping[str, str],
        *,
        repeated: bool,
        reads: Sequence[ReadRows] = (),
    ) -> int:
        whole = self._whole()
        gone: dict[str, list[UInt64Array]] = {}
        for output in outputs:
            for object_id, addresses in output.gone.items():
                gone.setdefault(object_id, []).append(addresses.unpack())
        written = [item.unpack() for output in outputs for item in output.written]
        delta = RowDelta({object_id: np.concatenate(parts) for object_id, parts in gone.items()}, written)
        options = CommitOptions(message=self.message, properties=properties)
        if isinstance(whole, PlannedTable):
            made = commit_planned_delta(whole, self.plan, delta, options, check=partition_check_of(whole.base, reads))
        else:
            made = commit_delta(whole, self.plan, delta, options, check=partition_check_of(whole, reads))
        if repeated:
            self._remove_files(written, keep=True)
        return max(0, made.version - whole.version - 1)

    def abort(self, outputs: Sequence[PartitionedTaskChanges], *, all_tasks_told: bool) -> None:
        # What killed tasks have left in other partitions, a clean-up finds.
        if not all_tasks_told:
            self._remove_files([item.unpack() for output in outputs for item in output.written], keep=False)

    def _remove_files(self, written: Sequence[WrittenPartition], *, keep: bool) -> None:
        if self.plan is None:
            return
        fragments = [item.fragment for part in written for item in part.new] if keep else []
        for location in {part.partition.location for part in written}:
            store = open_store(location_uri(self.root, location), self.storage_options)
            remove_job_files(store, self.plan.job, keep=fragments)

    def _whole(self) -> PartitionedTable:
        whole = open_partitioned(self.root, version=self.version, storage_options=self.storage_options)
        return whole if self.evolved is None else planned_with(whole, self.evolved)


@dataclass(frozen=True)
class _GoneRows:
    """Addresses of rows that go, by partition."""

    parts: dict[str, list[UInt64Array]] = field(default_factory=dict)

    def add(self, changes: RowChanges) -> None:
        goes = changes.kinds != ChangeKind.INSERT
        homes = changes.ids.column(0).filter(pa.array(goes))
        addresses = _addresses(changes)[goes]
        for object_id in homes.unique().to_pylist():
            self.parts.setdefault(object_id, []).append(addresses[_is_equal(homes, object_id)])

    def packed(self) -> dict[str, PackedAddresses]:
        # MERGE deletes a row that matches twice, twice.
        return {
            object_id: PackedAddresses.of(distinct(np.concatenate(parts))) for object_id, parts in self.parts.items()
        }


def check_partitioned_changeable(whole: PartitionedTable) -> None:
    """Passes if rows of `whole` can be told.

    Raises:
        InvalidInputError: a column of the table hides one of those that rows are known by.
    """
    hidden = set(PARTITION_ROW_ID) & set(whole.schema.names)
    if hidden:
        raise InvalidInputError(f"rows of a table with a column {min(hidden)!r} cannot be told; rename the column")


def partitions_match_cheaply(whole: PartitionedTable, filter: Expr) -> bool:
    """Whether one process finds the rows of `filter` sooner than a job of Spark would have started."""
    partitions = whole.partitions(filter)
    if len(partitions) > CHEAP_PARTITIONS:
        return False
    return sum(bytes_to_match(opened.manifest, filter) for opened in whole.open_all(partitions)) <= CHEAP_BYTES


def _addresses(changes: RowChanges) -> UInt64Array:
    # What stands for a new row, which has none, is never looked at.
    addresses: UInt64Array = changes.ids.column(1).fill_null(0).to_numpy().astype(np.uint64)
    return addresses


def _origins(changes: RowChanges) -> RowOrigins:
    """Where the rows that come were."""
    comes = changes.kinds != ChangeKind.DELETE
    is_new = changes.kinds[comes] == ChangeKind.INSERT
    homes = changes.ids.column(0).filter(pa.array(comes))
    homes = pa.array(np.where(is_new, None, homes.to_numpy(zero_copy_only=False)), pa.string())
    return RowOrigins(homes, np.where(is_new, np.uint64(NO_ORIGIN), _addresses(changes)[comes]))


def _is_equal(homes: pa.Array, object_id: str) -> BoolArray:
    found: BoolArray = pc.fill_null(pc.equal(homes, object_id), False).to_numpy(zero_copy_only=False)
    return found
