"""Partitioned tables: described, and read partition by partition."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from lance_spark.expr.nodes import Expr, conjunction, quote_name
from lance_spark.expr.sql import parse
from lance_spark.partitioned.table import PartitionedTable, PartitionVersion
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.registry import Call, Session, operation
from lance_spark.spark.connector.channel.tasks import narrowed
from lance_spark.spark.connector.channel.wire_types import wire_schema
from lance_spark.spark.connector.scan.aggregates import ROWS_OF_GROUP, Aggregate, Aggregation
from lance_spark.spark.connector.scan.common_keys import CommonKey, common_keys
from lance_spark.spark.connector.scan.local_scan import can_be_inline
from lance_spark.spark.connector.scan.partition_keys import texts
from lance_spark.spark.connector.scan.partitioned_tasks import (
    PARTITION_COLUMN,
    PartitionedAggregateTask,
    PartitionedReadTask,
    PartitionedTopNTask,
    PartitionWork,
)
from lance_spark.spark.connector.scan.runtime_filters import (
    MANY_ROWS,
    KeyFilter,
    affordable,
    filter_columns,
    runtime_filter,
    source_columns,
)
from lance_spark.spark.connector.scan.top_n import SortKey
from lance_spark.spark.options import BATCH_BYTES, ReadOptions
from lance_spark.spark.partitions import (
    BYTES_PER_ROW,
    FragmentSlice,
    ProjectedSizes,
    estimated_bytes,
    packed_neighbours,
    plan_partitions,
    sized,
    task_bytes,
)
from lance_spark.spark.predicates import SparkExpression, to_filter
from lance_spark.spark.projection import narrow
from lance_spark.spark.types import to_spark_schema
from lance_spark.storage import open_store
from lance_spark.storage.local import LocalStore
from lance_spark.table.bases import Bases
from lance_spark.table.reading.blob_columns import shown
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.selectivity import rows_of_a_group
from lance_spark.table.reading.system_columns import SYSTEM_FIELDS

NO_KEYS = "no partition field is a key of Spark's and has its columns in the scan"
SEVERAL_SPECS = "partitions of several specs have no key in common"


@dataclass(frozen=True, slots=True)
class PartitionedPlan:
    """A planned scan.

    Attributes:
        description: for EXPLAIN.
        num_rows, size_bytes: None if not known.
        keys: the columns of the keys of `work`; none if Spark is told of no partitioning.
        key_values: for each of `work` the values of `keys`.
        packs: which of `work` may be one task where the keys are of no use.
        command: the function of the tasks and what it returns.
        metrics: for Spark's UI.
        runtime_columns: columns whose values choose partitions and rows while the query runs.
        work: what each task does.
    """

    description: str
    num_rows: int | None
    size_bytes: int | None
    keys: tuple[CommonKey, ...]
    key_values: tuple[tuple[str | None, ...], ...]
    packs: tuple[tuple[int, ...], ...]
    metrics: Mapping[str, int]
    runtime_columns: tuple[str, ...]
    command: tuple[PartitionedReadTask | PartitionedAggregateTask, StructType]
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


@dataclass(frozen=True, slots=True)
class Clustering:
    """How Spark makes use of the keys of partitions: rows of equal keys need no shuffle to come together.

    Attributes:
        keys: whether it does.
        some_keys: whether rows may be clustered by a part of the keys.
    """

    keys: bool = False
    some_keys: bool = False


class PartitionedPlanner:
    """Plans one scan.

    Args:
        columns: what the scan returns.
        predicates: filters that the scan has taken.
        limit: how many rows are enough.
        runtime_filters: those that came while the query runs. They leave out partitions and rows, and change
            nothing else of what Spark was told before: keys and the tasks of a partition stay.
        attachments: of the request with those filters.
        aggregates, group_by: what every task returns instead of its rows, if it can.
        first: the order in which so many first rows are enough.
        name: what the description calls the table.

    Attributes:
        aggregation: how tasks aggregate; None if they do not, or cannot.
    """

    def __init__(
        self,
        table: PartitionedTable,
        options: ReadOptions,
        columns: StructType,
        predicates: Sequence[SparkExpression],
        limit: int | None,
        session: Session,
        runtime_filters: Sequence[KeyFilter] = (),
        attachments: Sequence[bytes] = (),
        aggregates: Sequence[Aggregate] = (),
        group_by: tuple[str, ...] = (),
        first: tuple[tuple[SortKey, ...], int] | None = None,
        name: str | None = None,
    ) -> None:
        time_zone = session.time_zone
        self._table = table
        self._name = table.root if name is None else name
        self._options = options
        self._parallelism = session.parallelism
        self._returned = columns
        self._limit = limit
        self._first = first
        self._filter = self._conjunction(predicates, time_zone)
        self._partitions = table.partitions(self._filter, time_zone=time_zone)
        specs = {partition.spec.id: partition.spec for partition in self._partitions}
        self._choosing = source_columns(specs.values(), table.lance_schema)
        self._runtime_filter = runtime_filter(runtime_filters, attachments, filterable(table), self._choosing)
        if self._runtime_filter is not None:
            kept = {item.object_id for item in table.partitions(self._runtime_filter, time_zone=time_zone)}
            self._partitions = [item for item in self._partitions if item.object_id in kept]
        self._opened = table.open_all(self._partitions)
        self.aggregation: Aggregation | None = None
        if aggregates or group_by:
            self.aggregation = Aggregation.of(group_by, aggregates, filterable(table), self._known_rows())
        # Tasks that aggregate read other columns than they return.
        self._columns = columns if self.aggregation is None else self.aggregation.read
        self._scan = self._make_scan(time_zone)
        self._sizes = ProjectedSizes(self._scan.schema, self._scan.projection)
        self._keys = common_keys(list(specs.values()), table.lance_schema, self._columns.fieldNames())
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

    def is_clustered_by(self, group_by: Sequence[str], clustering: Clustering) -> bool:
        """Whether Spark groups the rows without a shuffle. It would need one for groups, whose keys it is not told."""
        tops = [path[0] for key in self._keys for path in key.transform.columns]
        known = [name in group_by for name in tops]
        return clustering.keys and bool(known) and (any(known) if clustering.some_keys else all(known))

    def has_large_groups(self) -> bool:
        """Whether tasks group faster than Spark: not where rows of a group are few, if there are many rows."""
        assert self.aggregation is not None, "the tasks aggregate"
        num_rows = self._known_rows()
        if not self.aggregation.group_by or (num_rows is not None and num_rows < MANY_ROWS):
            return True
        pieces = [(opened, fragment) for opened in self._opened for fragment in opened.manifest.fragments]
        bases = [opened.table.bases(opened.manifest) for opened, _ in pieces]
        names = [quote_name(name) for name in self.aggregation.group_by]
        scan = Scan.of(self._scan.schema, self._scan.bases, columns=names)
        return rows_of_a_group(scan, [fragment for _, fragment in pieces], bases) >= ROWS_OF_GROUP

    def plan(self) -> PartitionedPlan:
        """The plan."""
        sizes = [self._size(opened) for opened in self._opened]
        size = None if None in sizes else sum(item for item in sizes if item is not None)
        num_rows = self._num_rows()
        floor = None if num_rows is None else num_rows * BYTES_PER_ROW
        work, key_values, packs = self._work() if self.aggregation is None else (self._work_of_groups(), (), ())
        return PartitionedPlan(
            description=self._description(size),
            num_rows=num_rows,
            size_bytes=max((item for item in (size, floor) if item is not None), default=None),
            keys=tuple(self._keys) if self.aggregation is None else (),
            key_values=key_values,
            packs=packs,
            command=(self._task(), self._returned),
            metrics=self._metrics(size),
            runtime_columns=self._runtime_columns(),
            work=tuple(work),
        )

    @property
    def is_remote(self) -> bool:
        """Whether there is a store to wait for."""
        return not isinstance(self._scan.bases.root, LocalStore)

    def is_small(self, most: int) -> bool:
        """Whether the planner can read all by itself: `most` bytes of the files at most."""
        sizes = ProjectedSizes(self._scan.schema, narrowed(self._scan, self._runtime_filter).decoded)
        pieces = (
            sized(fragment, opened.table.bases(opened.manifest), sizes)
            for opened in self._opened
            for fragment in opened.manifest.fragments
        )
        return can_be_inline(pieces, self._options, most)

    def _work(self) -> tuple[list[bytes], tuple[tuple[str | None, ...], ...], tuple[tuple[int, ...], ...]]:
        """The work of tasks that return rows, each of one partition; the keys of each; and which of them may be one
        task where the keys are of no use; none if that makes no difference.
        """
        pieces = self._pieces(self._options.target_partition_bytes)
        work = [pickle.dumps([self._work_of(self._opened[owner], slices)]) for owner, slices, _ in pieces]
        columns = [key.values(self._partitions) for key in self._keys] if self._partitions else []
        keys = tuple(tuple(column[owner] for column in columns) for owner, _, _ in pieces)
        packs = packed_neighbours([size for _, _, size in pieces], self._target_bytes())
        return work, keys, packs if len(packs) < len(work) else ()

    def _work_of_groups(self) -> list[bytes]:
        """The work of tasks that return groups, each of as many partitions as make up a task."""
        assert self.aggregation is not None, "the tasks aggregate"
        target = self._target_bytes()
        pieces = self._pieces(target)
        work = [self._work_of(self._opened[owner], slices) for owner, slices, _ in pieces]
        packed = [
            [work[number] for number in pack] for pack in packed_neighbours([size for _, _, size in pieces], target)
        ]
        # Spark takes the sum of no counts for null.
        return [pickle.dumps(work) for work in (packed or ([] if self.aggregation.group_by else [[]]))]

    def _pieces(self, target_bytes: int) -> list[tuple[int, tuple[FragmentSlice, ...], float]]:
        """Parts of partitions of about `target_bytes` at most: (place of the partition, what to read, bytes)."""
        pieces = []
        for owner, opened in enumerate(self._opened):
            parts = self._slices(opened, target_bytes)
            size = self._estimated_bytes(opened) / max(1, len(parts))
            pieces += [(owner, part, size) for part in parts]
        return pieces

    def _target_bytes(self) -> int:
        total = sum(map(self._estimated_bytes, self._opened))
        return task_bytes(self._options.target_partition_bytes, total, self._parallelism)

    def _estimated_bytes(self, opened: PartitionVersion) -> int:
        bases = opened.table.bases(opened.manifest)
        return sum(estimated_bytes(sized(fragment, bases, self._sizes)) for fragment in opened.manifest.fragments)

    @property
    def _takes_all_rows(self) -> bool:
        return self._limit is None and self._first is None and self.aggregation is None

    def _runtime_columns(self) -> tuple[str, ...]:
        if not self._takes_all_rows:
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

    def _slices(self, opened: PartitionVersion, target_bytes: int) -> list[tuple[FragmentSlice, ...]]:
        bases = opened.table.bases(opened.manifest)
        fragments = [sized(item, bases, self._sizes) for item in opened.manifest.fragments]
        return [part.slices for part in plan_partitions(fragments, target_bytes)]

    def _work_of(self, opened: PartitionVersion, slices: tuple[FragmentSlice, ...]) -> PartitionWork:
        return PartitionWork(
            opened.table.store.uri,
            opened.partition.object_id,
            opened.manifest.base_paths,
            opened.manifest.has_stable_row_ids,
            slices,
            affordable(self._runtime_filter, self._table.num_partitions),
            version=opened.manifest.version,
            shown_as=opened.shown_as,
        )

    def _task(self) -> PartitionedReadTask | PartitionedAggregateTask:
        storage_options = dict(self._table.storage_options or {})
        if self.aggregation is not None:
            group_by, slots = self.aggregation.group_by, self.aggregation.slots
            return PartitionedAggregateTask(self._scan, group_by, slots, self._returned, storage_options)
        if self._first is not None:
            keys, first = self._first
            assert keys, "the scan took this order before"
            target = wire_schema(self._columns)
            return PartitionedTopNTask(self._scan, target, storage_options, self._limit, keys, first)
        return PartitionedReadTask(self._scan, wire_schema(self._columns), storage_options, self._limit)

    def _known_rows(self) -> int | None:
        """The rows of the partitions before they are filtered; None if that is not known."""
        counts = [count for opened in self._opened for count in opened.manifest.fragments.row_counts()]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def _num_rows(self) -> int | None:
        """How many rows the scan returns at most."""
        if self.aggregation is not None and not self.aggregation.group_by:
            return self._parallelism
        num_rows = self._known_rows()
        return num_rows if num_rows is None or self._limit is None else min(num_rows, self._limit)

    def _size(self, opened: PartitionVersion) -> int | None:
        sizes = [self._sizes.of(fragment) for fragment in opened.manifest.fragments]
        return None if None in sizes else sum(item for item in sizes if item is not None)

    def _description(self, size: int | None) -> str:
        keys = ", ".join(f"{key.transform.name}({'.'.join(key.transform.columns[0])})" for key in self._keys)
        partitioning = f"partitioning=[{keys}]" if self._keys else f"partitioning=none ({self._reason})"
        parts = [
            f"lance {self._name}@v{self._table.version}",
            f"columns=[{', '.join(self._columns.fieldNames())}]",
            f"filters=[{'' if self._filter is None else self._filter}]",
            *([] if self._limit is None else [f"limit={self._limit}"]),
            *([] if self._first is None else [f"top={self._first[1]}"]),
            *([] if self.aggregation is None else [str(self.aggregation)]),
            f"partitions={len(self._partitions)}/{self._table.num_partitions}",
            f"fragments={sum(len(opened.manifest.fragments) for opened in self._opened)}",
            f"bytes={'unknown' if size is None else size}",
            *([partitioning] if self.aggregation is None else []),
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
