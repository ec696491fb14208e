"""Reading: what of a query a scan can do by itself, and the tasks that do it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.expr.nodes import quote_name
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.registry import Call, Reply, operation
from lance_spark.spark.connector.channel.task_metrics import MeteredTask
from lance_spark.spark.connector.channel.tasks import ReadWork, command
from lance_spark.spark.connector.scan import partitioned
from lance_spark.spark.connector.scan.aggregates import ROWS_OF_GROUP, Aggregate
from lance_spark.spark.connector.scan.local_scan import inline_rows, most_bytes
from lance_spark.spark.connector.scan.planner import ScanPlanner, aggregation_of, filterable, sort_keys_of
from lance_spark.spark.connector.scan.requests import Key, ScanPlan, ScanRequest
from lance_spark.spark.connector.scan.runtime_filters import (
    MANY_ROWS,
    affordable,
)
from lance_spark.spark.options import log_read_options_without_effect
from lance_spark.spark.predicates import to_filter
from lance_spark.table.operations.successor import data_format
from lance_spark.table.reading.blob_columns import shown
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.selectivity import rows_of_a_group

EXACT, NO = 2, 0
"""Answers about a filter: no row that the scan returns needs another look; or Spark keeps it to itself."""


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
    return Taken(sort_keys_of(request.top_n, request.handle) is not None)


@operation("scan.aggregate")
def aggregate(request: AggregateRequest, call: Call) -> AggregateReply:
    """The row of the aggregates, where metadata has it exactly, or what the tasks return of it."""
    log_read_options_without_effect(request.scan.options)
    counts = _known_counts(request.scan)
    required = {column.name for column in filterable_of(request.scan.handle) if not column.nullable}
    counted = [item.kind == "count_star" or item.counts_one_of(required) for item in request.aggregates]
    if counts is not None and not request.group_by and all(counted):
        return AggregateReply(tuple(str(sum(counts)) for _ in counted))
    if request.scan.read_options().limit is not None:
        return AggregateReply()
    if request.scan.handle.partitioned:
        return AggregateReply(columns=_of_partitions(request, call))
    found = aggregation_of(request.aggregates, request.group_by, request.scan.handle.open()[1])
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
    """The plan, with the function of the tasks and the work of each, or the rows that there are."""
    log_read_options_without_effect(request.options)
    if request.handle.partitioned:
        return _partitioned_plan(request, call)
    planner = ScanPlanner(request, call)
    parts = planner.partitions()
    runtime = affordable(planner.runtime_filter, len(parts))
    work = [ReadWork(part.slices, runtime).to_bytes() for part in parts]
    function, returns = planner.task()
    described = command(MeteredTask(function), returns)
    most = most_bytes(call.session)
    rows = inline_rows(function, work, most, is_remote=planner.is_remote) if planner.is_small(most) else None
    if rows is None:
        return Reply(planner.summary(), (described, *work))
    return Reply(planner.summary().with_rows(rows), (described, *filter(None, rows.streams)))


@operation("scan.filtered_share")
def filtered_share(request: ScanRequest, call: Call) -> FilteredShare:
    """What the planner has to know before it joins the rows of the scan with others."""
    return FilteredShare(ScanPlanner(request, call).share())


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
        None if request.top_n is None else (sort_keys_of(request.top_n, request.handle) or (), request.top_n.limit),
        request.handle.shown,
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
        planned.packs,
        planned.metrics,
        () if request.for_changes else planned.runtime_columns,
    )
    function, returns = planned.command
    described = command(MeteredTask(function), returns)
    most = most_bytes(call.session)
    is_small = not request.for_changes and planner.is_small(most)
    rows = inline_rows(function, planned.work, most, is_remote=planner.is_remote) if is_small else None
    if rows is None:
        return Reply(summary, (described, *planned.work))
    return Reply(summary.with_rows(rows), (described, *rows.streams))


def filterable_of(handle: TableHandle) -> pa.Schema:
    """As `filterable`, of a table of either kind."""
    if handle.partitioned:
        return partitioned.filterable(handle.open_partitioned())
    return filterable(handle.open()[1])
