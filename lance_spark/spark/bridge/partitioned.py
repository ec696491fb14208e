"""Partitioned tables: described, and read partition by partition."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from lance_spark.expr.nodes import Expr, conjunction
from lance_spark.expr.sql import parse
from lance_spark.namespace.partitioned_table import PartitionedTable, PartitionVersion
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.spark.bridge.common_keys import CommonKey, common_keys
from lance_spark.spark.bridge.expressions import SparkExpression, to_filter
from lance_spark.spark.bridge.handles import TableHandle
from lance_spark.spark.bridge.partition_keys import texts
from lance_spark.spark.bridge.registry import Call, operation
from lance_spark.spark.bridge.runtime_filters import (
    KeyFilter,
    affordable,
    filter_columns,
    runtime_filter,
    source_columns,
)
from lance_spark.spark.bridge.tasks import narrowed
from lance_spark.spark.bridge.wire_types import to_wire_batch, wire_schema
from lance_spark.spark.options import BATCH_BYTES, ReadOptions
from lance_spark.spark.partitions import BYTES_PER_ROW, FragmentSlice, ProjectedSizes, plan_partitions, sized
from lance_spark.spark.projection import narrow
from lance_spark.spark.types import to_spark_schema
from lance_spark.storage import open_store
from lance_spark.table.bases import BasePath, Bases
from lance_spark.table.fragment import DataFragment
from lance_spark.table.reading.blob_columns import shown
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.system_columns import SYSTEM_FIELDS

PARTITION_COLUMN = "_partition"
"""The metadata column that tells the partition of a row, by its object id."""

NO_KEYS = "no partition field is a key of Spark's and has its columns in the scan"
SEVERAL_SPECS = "partitions of several specs have no key in common"


@dataclass(frozen=True, slots=True)
class PartitionWork:
    """Fragments of one partition for one task.

    Attributes:
        uri: of the partition's table, or of its branch.
        object_id: of the partition.
        base_paths: of its table.
        stable_row_ids: whether that has them.
        slices: what to read.
        runtime_filter: what rows have to match besides the filter of all tasks.
    """

    uri: str
    object_id: str
    base_paths: tuple[BasePath, ...]
    stable_row_ids: bool
    slices: tuple[FragmentSlice, ...]
    runtime_filter: Expr | None = None


@dataclass(frozen=True)
class PartitionedReadTask:
    """Reads the work that its only input row names.

    Attributes:
        scan: what to read of each partition; its bases are none.
        target: the columns in the Arrow types that Spark expects.
        storage_options: how to reach the partitions.
        limit: rows after which a task stops.
    """

    scan: Scan
    target: pa.Schema
    storage_options: dict[str, str]
    limit: int | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        left = self.limit
        for object_id, batch in self._read(_work(batches)):
            if left is not None:
                batch = batch.slice(0, left)
                left -= batch.num_rows
            yield to_wire_batch(self._with_partition(batch, object_id), self.target)
            if left == 0:
                return

    def _read(self, work: list[PartitionWork]) -> Iterator[tuple[str, pa.RecordBatch]]:
        for part in work:
            bases = Bases(open_store(part.uri, self.storage_options), part.base_paths, self.storage_options)
            scan = replace(self.scan, bases=bases, stable_row_ids=part.stable_row_ids)
            scan = narrowed(scan, part.runtime_filter)
            for piece in part.slices:
                fragment = DataFragment.from_bytes(piece.fragment)
                for batch in scan.read_fragment(fragment, start=piece.start, stop=piece.stop):
                    yield part.object_id, batch

    def _with_partition(self, batch: pa.RecordBatch, object_id: str) -> pa.RecordBatch:
        place = self.target.get_field_index(PARTITION_COLUMN)
        if place < 0 or PARTITION_COLUMN in batch.schema.names:
            return batch
        told = pa.repeat(pa.scalar(object_id), batch.num_rows)
        columns = [*batch.columns[:place], told, *batch.columns[place:]]
        names = [*batch.schema.names[:place], PARTITION_COLUMN, *batch.schema.names[place:]]
        return pa.RecordBatch.from_arrays(columns, names)


def _work(batches: Iterable[pa.RecordBatch]) -> list[PartitionWork]:
    """All of the input at once: a worker that leaves some of it unread cannot be used again."""
    # Pickled by the driver of this very query; it never was in a file or with a user.
    return [part for batch in batches for work in batch.column(0) for part in pickle.loads(work.as_py())]


@dataclass(frozen=True, slots=True)
class PartitionedPlan:
    """A planned scan.

    Attributes:
        description: for EXPLAIN.
        num_rows, size_bytes: None if not known.
        keys: the columns of the keys of `work`; none if Spark is told of no partitioning.
        key_values: for each of `work` the values of `keys`.
        command: the function of the tasks and what it returns.
        metrics: for Spark's UI.
        runtime_columns: columns whose values choose partitions while the query runs.
        work: what each task does.
    """

    description: str
    num_rows: int | None
    size_bytes: int | None
    keys: tuple[CommonKey, ...]
    key_values: tuple[tuple[str | None, ...], ...]
    metrics: Mapping[str, int]
    runtime_columns: tuple[str, ...]
    command: tuple[PartitionedReadTask, StructType]
    work: tuple[bytes, ...] = field(repr=False)


def filterable(table: PartitionedTable) -> pa.Schema:
    """What a filter may name: the columns, and system columns that they do not hide."""
    data = to_arrow_schema(shown(table.lance_schema, table.file_version))
    return pa.schema([*data, *(item for name, item in SYSTEM_FIELDS.items() if name not in data.names)])


def known_counts(table: PartitionedTable) -> list[int] | None:
    """The rows of each fragment of each partition; None if one is not known."""
    counts = [count for item in table.open_all(table.partitions()) for count in item.manifest.fragments.row_counts()]
    known = [count for count in counts if count is not None]
    return known if len(known) == len(counts) else None


class PartitionedPlanner:
    """Plans one scan.

    Args:
        predicates: filters that the scan has taken.
        limit: how many rows are enough.
        runtime_filters: those that came while the query runs. They leave out partitions and rows, and change
            nothing else of what Spark was told before: keys and the tasks of a partition stay.
        attachments: of the request with those filters.
    """

    def __init__(
        self,
        table: PartitionedTable,
        options: ReadOptions,
        columns: StructType,
        predicates: Sequence[SparkExpression],
        limit: int | None,
        time_zone: str,
        runtime_filters: Sequence[KeyFilter] = (),
        attachments: Sequence[bytes] = (),
    ) -> None:
        self._table = table
        self._options = options
        self._columns = columns
        self._limit = limit
        self._filter = self._conjunction(predicates, time_zone)
        self._partitions = table.partitions(self._filter, time_zone=time_zone)
        specs = {partition.spec.id: partition.spec for partition in self._partitions}
        self._choosing = source_columns(specs.values(), table.lance_schema)
        self._runtime_filter = runtime_filter(runtime_filters, attachments, filterable(table), self._choosing)
        if self._runtime_filter is not None:
            kept = {item.object_id for item in table.partitions(self._runtime_filter, time_zone=time_zone)}
            self._partitions = [item for item in self._partitions if item.object_id in kept]
        self._opened = table.open_all(self._partitions)
        self._scan = self._make_scan(time_zone)
        self._sizes = ProjectedSizes(self._scan.schema, self._scan.projection)
        self._keys = common_keys(list(specs.values()), table.lance_schema, columns.fieldNames())
        self._reason = SEVERAL_SPECS if len(specs) > 1 else NO_KEYS

    def _conjunction(self, predicates: Sequence[SparkExpression], time_zone: str) -> Expr | None:
        names = filterable(self._table)
        terms: list[Expr] = []
        if self._options.filter is not None:
            given = self._options.filter
            terms.append(parse(given, time_zone=time_zone) if isinstance(given, str) else given)
        for predicate in predicates:
            term = to_filter(predicate, names)
            assert term is not None, "the scan took this filter before"
            terms.append(term)
        return conjunction(tuple(terms))

    def _make_scan(self, time_zone: str) -> Scan:
        schema = shown(self._table.lance_schema, self._table.file_version)
        nowhere = Bases(open_store(self._table.root, self._table.storage_options), (), None)
        scan = Scan.of(
            schema,
            nowhere,
            columns=[],
            filter=self._filter,
            batch_rows=self._options.batch_size,
            window_bytes=self._options.max_batch_bytes,
            time_zone=time_zone,
        )
        projection = narrow(schema, self._columns, [*SYSTEM_FIELDS, PARTITION_COLUMN])
        hidden = [] if PARTITION_COLUMN in schema.names() else [PARTITION_COLUMN]
        output = tuple(name for name in self._columns.fieldNames() if name not in hidden)
        return replace(scan, projection=projection, output=output, batch_bytes=BATCH_BYTES)

    def plan(self) -> PartitionedPlan:
        """The plan."""
        work: list[bytes] = []
        owners: list[int] = []
        for number, opened in enumerate(self._opened):
            for slices in self._slices(opened):
                work.append(pickle.dumps([self._work_of(opened, slices)]))
                owners.append(number)
        columns = [key.values(self._partitions) for key in self._keys] if self._partitions else []
        sizes = [self._size(opened) for opened in self._opened]
        size = None if None in sizes else sum(item for item in sizes if item is not None)
        num_rows = self._num_rows()
        floor = None if num_rows is None else num_rows * BYTES_PER_ROW
        return PartitionedPlan(
            description=self._description(size),
            num_rows=num_rows,
            size_bytes=max((item for item in (size, floor) if item is not None), default=None),
            keys=tuple(self._keys),
            key_values=tuple(tuple(column[number] for column in columns) for number in owners),
            command=(self._task(), self._columns),
            metrics=self._metrics(size),
            runtime_columns=self._runtime_columns(),
            work=tuple(work),
        )

    def _runtime_columns(self) -> tuple[str, ...]:
        if self._limit is not None:
            return ()
        columns = self._columns.fieldNames()
        return filter_columns(self._choosing, filterable(self._table), columns, self._num_rows())

    def _metrics(self, size: int | None) -> dict[str, int]:
        fragments = [fragment for opened in self._opened for fragment in opened.manifest.fragments]
        return {
            "partitions_read": len(self._partitions),
            "partitions_pruned": self._table.num_partitions - len(self._partitions),
            "fragments_read": len(fragments),
            "files_read": sum(len(fragment.files) for fragment in fragments),
            "bytes_planned": size or 0,
        }

    def _slices(self, opened: PartitionVersion) -> list[tuple[FragmentSlice, ...]]:
        bases = opened.table.bases(opened.manifest)
        fragments = [sized(item, bases, self._sizes) for item in opened.manifest.fragments]
        return [part.slices for part in plan_partitions(fragments, self._options.target_partition_bytes)]

    def _work_of(self, opened: PartitionVersion, slices: tuple[FragmentSlice, ...]) -> PartitionWork:
        return PartitionWork(
            opened.table.store.uri,
            opened.partition.object_id,
            opened.manifest.base_paths,
            opened.manifest.has_stable_row_ids,
            slices,
            affordable(self._runtime_filter, self._table.num_partitions),
        )

    def _task(self) -> PartitionedReadTask:
        target = wire_schema(self._columns)
        return PartitionedReadTask(self._scan, target, dict(self._table.storage_options or {}), self._limit)

    def _num_rows(self) -> int | None:
        counts = [count for opened in self._opened for count in opened.manifest.fragments.row_counts()]
        known = [count for count in counts if count is not None]
        if len(known) < len(counts):
            return None
        return sum(known) if self._limit is None else min(sum(known), self._limit)

    def _size(self, opened: PartitionVersion) -> int | None:
        sizes = [self._sizes.of(fragment) for fragment in opened.manifest.fragments]
        return None if None in sizes else sum(item for item in sizes if item is not None)

    def _description(self, size: int | None) -> str:
        keys = ", ".join(f"{key.transform.name}({'.'.join(key.transform.columns[0])})" for key in self._keys)
        parts = [
            f"lance {self._table.root}@v{self._table.version}",
            f"columns=[{', '.join(self._columns.fieldNames())}]",
            f"filters=[{'' if self._filter is None else self._filter}]",
            *([] if self._limit is None else [f"limit={self._limit}"]),
            f"partitions={len(self._partitions)}/{self._table.num_partitions}",
            f"fragments={sum(len(opened.manifest.fragments) for opened in self._opened)}",
            f"bytes={'unknown' if size is None else size}",
            f"partitioning=[{keys}]" if self._keys else f"partitioning=none ({self._reason})",
        ]
        return " ".join(parts)


def partition_column() -> StructField:
    """The metadata column `_partition`."""
    return StructField(PARTITION_COLUMN, StringType(), False)


@dataclass(frozen=True, slots=True)
class PartitionsRequest:
    """A partitioned table whose partitions are asked for."""

    handle: TableHandle


@dataclass(frozen=True, slots=True)
class PartitionsReply:
    """The fields of the newest spec, and for each partition their values as text; None for one it does not have."""

    schema: StructType
    values: tuple[tuple[str | None, ...], ...]


@operation("partitions.list")
def list_partitions(request: PartitionsRequest, _call: Call) -> PartitionsReply:
    """The partitions for SHOW PARTITIONS."""
    table = request.handle.open_partitioned()
    fields = [field.arrow_field for field in table.specs.current.fields]
    named = [pa.field(field.field_id, field.result_type) for field in table.specs.current.fields]
    rows = [
        tuple(
            texts(partition.values.column(field.name))[0] if field.name in partition.values.schema.names else None
            for field in fields
        )
        for partition in table.index.partitions
    ]
    return PartitionsReply(to_spark_schema(pa.schema(named)), tuple(rows))
