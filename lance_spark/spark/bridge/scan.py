"""Reading: what of a query a scan can do by itself, and the tasks that do it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql.types import DataType, StructType

from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import Expr, conjunction, quote_name
from lance_spark.expr.prune import ColumnStatistics, may_match
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.spark.bridge import partitioned
from lance_spark.spark.bridge.aggregates import ROWS_OF_GROUP, Aggregate, AggregateTask, Aggregation
from lance_spark.spark.bridge.expressions import SparkExpression, to_filter
from lance_spark.spark.bridge.handles import Recent, TableHandle
from lance_spark.spark.bridge.partition_keys import SparkTransform
from lance_spark.spark.bridge.registry import Call, Reply, operation
from lance_spark.spark.bridge.runtime_filters import (
    MANY_ROWS,
    MAX_VALUES,
    KeyFilter,
    RuntimeColumns,
    affordable,
    filter_columns,
    runtime_filter,
)
from lance_spark.spark.bridge.task_metrics import MeteredTask
from lance_spark.spark.bridge.tasks import ReadTask, ReadWork, command, narrowed
from lance_spark.spark.bridge.top_n import SortKey, SortOrder, TopNTask, sort_keys
from lance_spark.spark.bridge.wire_types import wire_schema
from lance_spark.spark.options import BATCH_BYTES, ReadOptions
from lance_spark.spark.partitions import (
    BYTES_PER_ROW,
    LanceInputPartition,
    ProjectedSizes,
    SizedFragment,
    estimated_bytes,
    plan_partitions,
    sized,
    task_bytes,
)
from lance_spark.spark.projection import narrow
from lance_spark.table.fragment import DataFragment
from lance_spark.table.manifest import Manifest
from lance_spark.table.operations.successor import data_format
from lance_spark.table.reading.blob_columns import shown
from lance_spark.table.reading.limit import physical_offset
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.selectivity import estimated_share, rows_of_a_group
from lance_spark.table.reading.system_columns import FRAGMENT_ID, ROW_ADDRESS, SYSTEM_FIELDS
from lance_spark.table.row_address import MAX_ROWS_PER_FRAGMENT, OFFSET_BITS

EXACT, NO = 2, 0
"""Answers about a filter: no row that the scan returns needs another look; or Spark keeps it to itself."""

_PRUNED_BY = ((ROW_ADDRESS,), (FRAGMENT_ID,))
"""The columns whose values tell the fragment."""


@dataclass(frozen=True, slots=True)
class TopN:
    """ORDER BY with LIMIT."""

    orders: tuple[SortOrder, ...]
    limit: int


@dataclass(frozen=True, slots=True)
class ScanRequest:
    """A scan as Spark has asked for it so far.

    Attributes:
        predicates: the filters that the scan took.
        columns: what it returns.
        limit: how many rows are enough.
        offset: how many rows to leave out before that.
        top_n: the order in which so many first rows are enough.
        runtime_filters: those that Spark knows only when the query runs. It checks them itself.
        for_changes: the rows are read for DELETE, UPDATE or MERGE. Filters at run time are not asked for then: Spark
            would make one of the values of all rows that match, and an IN leaves out the rows where they are null.
        group_by, aggregates: what every task returns instead of its rows; `columns` are their types then.
    """

    handle: TableHandle
    options: Mapping[str, str] = field(default_factory=dict)
    predicates: tuple[SparkExpression, ...] = ()
    columns: StructType | None = None
    limit: int | None = None
    offset: int | None = None
    top_n: TopN | None = None
    runtime_filters: tuple[KeyFilter, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    group_by: tuple[str, ...] = ()
    for_changes: bool = False

    def read_options(self) -> ReadOptions:
        """The options of the read; where the table is, is in the handle."""
        return ReadOptions.parse({**self.options, "path": self.handle.uri})


@dataclass(frozen=True, slots=True)
class PushAnswer:
    """For each filter whether the scan takes it."""

    answers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AggregateRequest:
    """Aggregates over all rows of a scan, or those that are alike in some columns.

    Attributes:
        clusters: how Spark makes use of the keys of partitions.
    """

    scan: ScanRequest
    aggregates: tuple[Aggregate, ...]
    group_by: tuple[str, ...] = ()
    clusters: partitioned.Clustering = field(default_factory=partitioned.Clustering)


@dataclass(frozen=True, slots=True)
class AggregateReply:
    """Aggregates as far as they can be had without all rows.

    Attributes:
        values: the row as text, if metadata has it.
        columns: if not, those of the rows that each task returns of its part, if it can.
    """

    values: tuple[str, ...] | None = None
    columns: StructType | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """Whether the scan takes it."""

    taken: bool


@dataclass(frozen=True, slots=True)
class Key:
    """One column of the keys of partitions, for joins without a shuffle."""

    transform: SparkTransform
    type: DataType


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """What Spark's planner is told; the tasks are in the attachments.

    Attributes:
        num_rows, size_bytes: of all rows that are read, before they are filtered.
        runtime_columns: filters of these are taken while the query runs already.
        max_runtime_values: unless they have more values.
        filters_many_rows: whether it is worth to ask for the share that the filter keeps; and
        share: that, if it was asked for before.
        has_all_rows: whether they are all rows that match the filter, and not some number of them, or groups.
    """

    description: str
    num_rows: int | None
    size_bytes: int | None
    keys: tuple[Key, ...] = ()
    key_values: tuple[tuple[str | None, ...], ...] = ()
    metrics: Mapping[str, int] = field(default_factory=dict)
    runtime_columns: RuntimeColumns = field(default_factory=RuntimeColumns)
    max_runtime_values: int = MAX_VALUES
    filters_many_rows: bool = False
    share: float | None = None
    has_all_rows: bool = False


@dataclass(frozen=True, slots=True)
class FilteredShare:
    """About which share of the planned rows a scan's filter keeps."""

    share: float


@operation("scan.push")
def push(request: ScanRequest, _call: Call) -> PushAnswer:
    """Which of `request.predicates` the scan takes."""
    if request.read_options().limit is not None:
        # Rows are limited before Spark filters them, so a limit leaves nothing to push.
        return PushAnswer(tuple(NO for _ in request.predicates))
    names = filterable_of(request.handle)
    return PushAnswer(tuple(NO if to_filter(item, names) is None else EXACT for item in request.predicates))


@operation("scan.offset")
def take_offset(request: ScanRequest, _call: Call) -> Taken:
    """Whether the scan leaves out the first rows by itself: where they can be told without reading."""
    is_plain = request.limit is None and not request.handle.partitioned
    return Taken(is_plain and _known_counts(request) is not None)


@operation("scan.top_n")
def take_top_n(request: ScanRequest, _call: Call) -> Taken:
    """Whether the tasks return the first rows in the order of `request.top_n` alone."""
    options = request.read_options()
    if request.top_n is None or request.limit is not None or options.limit is not None or not options.push_down_top_n:
        return Taken(False)
    return Taken(_sort_keys(request.top_n, request.handle) is not None)


@operation("scan.aggregate")
def aggregate(request: AggregateRequest, call: Call) -> AggregateReply:
    """The row of the aggregates, where metadata has it exactly, or what the tasks return of it."""
    counts = _known_counts(request.scan)
    required = {column.name for column in filterable_of(request.scan.handle) if not column.nullable}
    counted = [item.kind == "count_star" or item.counts_one_of(required) for item in request.aggregates]
    if counts is not None and not request.group_by and all(counted):
        return AggregateReply(tuple(str(sum(counts)) for _ in counted))
    if request.scan.read_options().limit is not None:
        return AggregateReply()
    if request.scan.handle.partitioned:
        return AggregateReply(columns=_of_partitions(request, call))
    found = _aggregation(request.aggregates, request.group_by, request.scan.handle.open()[1])
    if found is None or not _has_large_groups(request):
        return AggregateReply()
    return AggregateReply(columns=found.returned)


def _of_partitions(request: AggregateRequest, call: Call) -> StructType | None:
    """What tasks over partitions return; None if Spark aggregates the rows."""
    scan = replace(request.scan, aggregates=request.aggregates, group_by=request.group_by, columns=StructType())
    planner = _partitioned_planner(scan, call)
    found = planner.aggregation
    if found is None or planner.is_clustered_by(request.group_by, request.clusters) or not planner.has_large_groups():
        return None
    return found.returned


def _has_large_groups(request: AggregateRequest) -> bool:
    """Whether tasks group faster than Spark: not where rows of a group are few, if there are many rows."""
    location, manifest = request.scan.handle.open()
    counts = manifest.fragments.row_counts()
    if not request.group_by or sum(MANY_ROWS if count is None else count for count in counts) < MANY_ROWS:
        return True
    names = [quote_name(name) for name in request.group_by]
    scan = Scan.of(shown(manifest.schema, data_format(manifest)), location.bases(manifest), columns=names)
    return rows_of_a_group(scan, list(manifest.fragments)) >= ROWS_OF_GROUP


def _aggregation(
    aggregates: tuple[Aggregate, ...], group_by: tuple[str, ...], manifest: Manifest
) -> Aggregation | None:
    counts = manifest.fragments.row_counts()
    known = [count for count in counts if count is not None]
    return Aggregation.of(group_by, aggregates, filterable(manifest), sum(known) if len(known) == len(counts) else None)


def _known_counts(request: ScanRequest) -> list[int] | None:
    """The rows of each fragment that a scan without filters returns; None if there is a filter, or a file to open."""
    options = request.read_options()
    if request.predicates or options.filter is not None or options.limit is not None:
        return None
    if request.handle.partitioned:
        return partitioned.known_counts(request.handle.open_partitioned())
    counts = request.handle.open()[1].fragments.row_counts()
    known = [count for count in counts if count is not None]
    return known if len(known) == len(counts) else None


@operation("scan.plan")
def plan(request: ScanRequest, call: Call) -> Reply:
    """The plan, with the function of the tasks and the work of each."""
    if request.handle.partitioned:
        return _partitioned_plan(request, call)
    planner = _Planner(request, call)
    parts = planner.partitions()
    runtime = affordable(planner.runtime_filter, len(parts))
    work = [ReadWork(part.slices, runtime).to_bytes() for part in parts]
    return Reply(planner.summary(), (planner.command(), *work))


@operation("scan.filtered_share")
def filtered_share(request: ScanRequest, call: Call) -> FilteredShare:
    """What the planner has to know before it joins the rows of the scan with others."""
    return FilteredShare(_Planner(request, call).share())


def _partitioned_planner(request: ScanRequest, call: Call) -> partitioned.PartitionedPlanner:
    assert request.columns is not None, "a plan is asked for with its columns"
    options = request.read_options()
    limits = [limit for limit in (request.limit, options.limit) if limit is not None]
    return partitioned.PartitionedPlanner(
        request.handle.open_partitioned(),
        options,
        request.columns,
        request.predicates,
        min(limits, default=None),
        call.session,
        request.runtime_filters,
        call.attachments,
        request.aggregates,
        request.group_by,
        None if request.top_n is None else (_sort_keys(request.top_n, request.handle) or (), request.top_n.limit),
    )


def _partitioned_plan(request: ScanRequest, call: Call) -> Reply:
    planner = _partitioned_planner(request, call)
    planned = planner.plan()
    summary = ScanPlan(
        planned.description,
        planned.num_rows,
        planned.size_bytes,
        tuple(Key(key.transform, key.type) for key in planned.keys),
        planned.key_values,
        planned.metrics,
        RuntimeColumns() if request.for_changes else planned.runtime_columns,
        has_all_rows=planned.has_all_rows,
    )
    function, returns = planned.command
    return Reply(summary, (command(MeteredTask(function), returns), *planned.work))


def filterable_of(handle: TableHandle) -> pa.Schema:
    """As `filterable`, of a table of either kind."""
    if handle.partitioned:
        return partitioned.filterable(handle.open_partitioned())
    return filterable(handle.open()[1])


_shares: Recent[float] = Recent()


class _Planner:
    def __init__(self, request: ScanRequest, call: Call) -> None:
        assert request.columns is not None, "a plan is asked for with its columns"
        self._options = request.read_options()
        self._handle = request.handle
        self._location, self._manifest = request.handle.open()
        # Tasks that aggregate read other columns than they return.
        self._returned = request.columns
        self._columns = request.columns
        self._aggregation: Aggregation | None = None
        if request.aggregates or request.group_by:
            self._aggregation = _aggregation(request.aggregates, request.group_by, self._manifest)
            assert self._aggregation is not None, "the scan took these aggregates before"
            self._columns = self._aggregation.read
        limits = [limit for limit in (request.limit, self._options.limit) if limit is not None]
        self._limit = min(limits) if limits else None
        self._top_n = request.top_n
        self._parallelism = call.session.parallelism
        self.runtime_filter = runtime_filter(
            request.runtime_filters, call.attachments, filterable(self._manifest), _PRUNED_BY
        )
        self._scan = self._make_scan(request, call.session.time_zone)
        self._sizes = ProjectedSizes(self._scan.schema, self._scan.projection)
        self._skip = request.offset or 0
        self._takes_all_rows = (
            self._limit is None and self._top_n is None and not self._skip and self._aggregation is None
        )
        self._for_changes = request.for_changes
        self._fragments = self._chosen()

    def _make_scan(self, request: ScanRequest, time_zone: str) -> Scan:
        schema = shown(self._manifest.schema, data_format(self._manifest))
        names = filterable(self._manifest)
        terms = [] if self._options.filter is None else [self._options.filter]
        for predicate in request.predicates:
            term = to_filter(predicate, names)
            assert term is not None, "the scan took this filter before"
            terms.append(term)
        scan = Scan.of(
            schema,
            self._location.bases(self._manifest),
            columns=[],
            filter=conjunction(tuple(terms)),
            stable_row_ids=self._manifest.has_stable_row_ids,
            batch_rows=self._options.batch_size,
            window_bytes=self._options.max_batch_bytes,
            time_zone=time_zone,
        )
        projection = narrow(schema, self._columns, SYSTEM_FIELDS)
        return replace(scan, projection=projection, output=tuple(self._columns.fieldNames()), batch_bytes=BATCH_BYTES)

    def _chosen(self) -> list[DataFragment]:
        """The fragments that can have rows of the answer."""
        fragments = self._manifest.fragments
        if self._skip:
            return self._after_offset()
        condition = narrowed(self._scan, self.runtime_filter).filter
        if condition is not None:
            return [fragment for fragment in fragments if self._may_match(fragment, condition)]
        if self._limit is None:
            return list(fragments)
        chosen: list[DataFragment] = []
        left = self._limit
        for place, rows in enumerate(fragments.row_counts()):
            if left <= 0:
                break
            chosen.append(fragments[place])
            left -= rows or 0
        return chosen

    def _may_match(self, fragment: DataFragment, condition: Expr) -> bool:
        """Whether a filter can be true in a fragment, by what its place tells."""
        hidden = self._scan.schema.names()
        places: dict[tuple[str, ...], ColumnStatistics] = {
            (name,): statistics for name, statistics in _place_statistics(fragment).items() if name not in hidden
        }
        return may_match(condition, places, time_zone=self._scan.time_zone)

    def _after_offset(self) -> list[DataFragment]:
        """The fragments after the first rows; `_skip` becomes the rows to leave out in the first of them."""
        fragments = self._manifest.fragments
        for place, rows in enumerate(fragments.row_counts()):
            assert rows is not None, "an offset is taken only where all counts are known"
            if rows > self._skip:
                return list(fragments[place:])
            self._skip -= rows
        return []

    def partitions(self) -> list[LanceInputPartition]:
        """The work of the tasks."""
        start = 0
        if self._skip and self._fragments:
            start = physical_offset(self._scan, self._fragments[0], self._skip)
        pieces = [sized(fragment, self._scan.bases, self._sizes) for fragment in self._fragments]
        planned = plan_partitions(pieces, self._target_bytes(pieces), start)
        # Spark takes the sum of no counts for null.
        needs_one = self._aggregation is not None and not self._aggregation.group_by
        return planned or [LanceInputPartition(())] if needs_one else planned

    def _target_bytes(self, pieces: list[SizedFragment]) -> int:
        """How much a task reads: as the user says, else no more than gives every core something to do."""
        if self._options.limit is not None:
            # Rows up to a limit of the user are counted in one place, or there would be too many.
            return 1 << 62
        total = sum(estimated_bytes(piece) for piece in pieces)
        return task_bytes(self._options.target_partition_bytes, total, self._parallelism)

    def command(self) -> bytes:
        """The function of the tasks."""
        target = wire_schema(self._columns)
        if self._aggregation is not None:
            task = AggregateTask(self._scan, self._aggregation.group_by, self._aggregation.slots, self._returned)
            return command(MeteredTask(task), self._returned)
        if self._top_n is not None:
            keys = _sort_keys(self._top_n, self._handle)
            assert keys is not None, "the scan took this order before"
            return command(MeteredTask(TopNTask(self._scan, keys, self._top_n.limit, target)), self._columns)
        return command(MeteredTask(ReadTask(self._scan, target, self._limit)), self._columns)

    def summary(self) -> ScanPlan:
        """What the planner is told."""
        num_rows = self._num_rows()
        if num_rows is not None and self._limit is not None:
            num_rows = min(num_rows, self._limit)
        if self._aggregation is not None and not self._aggregation.group_by:
            num_rows = self._parallelism
        sizes = [self._sizes.of(fragment) for fragment in self._fragments]
        size = None if None in sizes else sum(item for item in sizes if item is not None)
        floor = None if num_rows is None else num_rows * BYTES_PER_ROW
        return ScanPlan(
            description=self._description(size),
            num_rows=num_rows,
            size_bytes=max((item for item in (size, floor) if item is not None), default=None),
            filters_many_rows=self._filters_many_rows(),
            metrics={
                "fragments_read": len(self._fragments),
                "fragments_pruned": len(self._manifest.fragments) - len(self._fragments),
                "files_read": sum(len(fragment.files) for fragment in self._fragments),
                "bytes_planned": size or 0,
            },
            runtime_columns=self._runtime_columns(),
            share=_shares.get(self._share_key()),
            has_all_rows=self._takes_all_rows,
        )

    def _filters_many_rows(self) -> bool:
        num_rows = self._num_rows()
        has_many = num_rows is None or num_rows >= MANY_ROWS
        # As many groups as rows there can be, though mostly there are few.
        takes_all = self._takes_all_rows or (self._aggregation is not None and bool(self._aggregation.group_by))
        return self._scan.filter is not None and takes_all and has_many

    def share(self) -> float:
        """About which share of the rows the filter keeps."""
        if not self._filters_many_rows():
            return 1.0
        share = _shares.get(self._share_key())
        if share is None:
            share = self._estimated_share()
            _shares.put(self._share_key(), share)
        return share

    def _share_key(self) -> tuple[object, ...]:
        return (self._handle.key, self._scan.time_zone, str(self._scan.filter))

    def _estimated_share(self) -> float:
        try:
            return estimated_share(self._scan, self._fragments)
        except InvalidInputError:
            # The sample has deleted rows, too; whether a row that is there fails, the tasks tell.
            return 1.0

    def _num_rows(self) -> int | None:
        counts = [fragment.num_rows for fragment in self._fragments]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def _runtime_columns(self) -> RuntimeColumns:
        if not self._takes_all_rows or self._for_changes:
            return RuntimeColumns()
        columns = self._columns.fieldNames()
        return filter_columns(_PRUNED_BY, filterable(self._manifest), columns, self._num_rows())

    def _description(self, size: int | None) -> str:
        files = sum(len(fragment.files) for fragment in self._fragments)
        parts = [
            f"lance {self._location.uri}@v{self._manifest.version}",
            f"columns=[{', '.join(_column_names(self._columns))}]",
            f"filters=[{'' if self._scan.filter is None else self._scan.filter}]",
            *([] if self._limit is None else [f"limit={self._limit}"]),
            *([] if self._top_n is None else [f"top={self._top_n.limit}"]),
            *([] if self._aggregation is None else [str(self._aggregation)]),
            f"fragments={len(self._fragments)}/{len(self._manifest.fragments)}",
            f"files={files}",
            f"bytes={'unknown' if size is None else size}",
        ]
        return " ".join(parts)


def _sort_keys(top_n: TopN, handle: TableHandle) -> tuple[SortKey, ...] | None:
    """The keys, if tasks can tell the first rows."""
    return sort_keys(top_n.orders, top_n.limit, columns_of(handle))


def columns_of(handle: TableHandle) -> pa.Schema:
    """The columns of a table of either kind, as a scan reads them."""
    if handle.partitioned:
        table = handle.open_partitioned()
        return to_arrow_schema(shown(table.lance_schema, table.file_version))
    manifest = handle.open()[1]
    return to_arrow_schema(shown(manifest.schema, data_format(manifest)))


def _column_names(columns: StructType) -> list[str]:
    """The columns as EXPLAIN shows them: of a struct that is read in part, its fields."""
    return [
        f"{field.name}<{', '.join(_column_names(field.dataType))}>"
        if isinstance(field.dataType, StructType)
        else field.name
        for field in columns.fields
    ]


def _place_statistics(fragment: DataFragment) -> dict[str, ColumnStatistics]:
    """The bounds of the system columns that a fragment's id decides."""
    number = pa.scalar(fragment.id, pa.uint64())
    first = fragment.id << OFFSET_BITS
    last = first + (fragment.physical_rows or MAX_ROWS_PER_FRAGMENT) - 1
    return {
        FRAGMENT_ID: ColumnStatistics(number, number, null_count=0),
        ROW_ADDRESS: ColumnStatistics(pa.scalar(first, pa.uint64()), pa.scalar(last, pa.uint64()), null_count=0),
    }


def filterable(manifest: Manifest) -> pa.Schema:
    """What a filter may name: the columns, and system columns that they do not hide."""
    data = to_arrow_schema(shown(manifest.schema, data_format(manifest)))
    return pa.schema([*data, *(item for name, item in SYSTEM_FIELDS.items() if name not in data.names)])
