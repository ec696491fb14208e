"""Reading: what of a query a scan can do by itself, and the tasks that do it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pyspark.sql.types import StructType

from lance_spark.spark.connector.channel.registry import Call, Reply, operation
from lance_spark.spark.connector.channel.task_metrics import MeteredTask
from lance_spark.spark.connector.channel.tasks import command
from lance_spark.spark.connector.scan.aggregates import Aggregate
from lance_spark.spark.connector.scan.local_scan import most_bytes, scan_locally
from lance_spark.spark.connector.scan.partitioning import Clustering
from lance_spark.spark.connector.scan.planner import ScanPlanner
from lance_spark.spark.connector.scan.requests import ScanRequest
from lance_spark.spark.connector.scan.top_n import sort_keys
from lance_spark.spark.options import log_read_options_without_effect
from lance_spark.spark.predicates import to_filter
from lance_spark.table.source import known_row_counts

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
    clusters: Clustering = field(default_factory=Clustering)


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
class Selectivity:
    """About which share of the planned rows a scan's filter keeps."""

    selectivity: float


@operation("scan.push")
def push(request: ScanRequest, _call: Call) -> PushAnswer:
    """Which of `request.predicates` the scan takes."""
    if request.read_options().limit is not None:
        # Rows are limited before Spark filters them, so a limit leaves nothing to push.
        return PushAnswer(tuple(NO for _ in request.predicates))
    names = request.handle.filterable()
    return PushAnswer(tuple(NO if to_filter(item, names) is None else EXACT for item in request.predicates))


@operation("scan.offset")
def take_offset(request: ScanRequest, _call: Call) -> Taken:
    """Whether the scan leaves out the first rows by itself: where the row counts of all fragments are known."""
    return Taken(request.limit is None and _known_counts(request) is not None)


@operation("scan.top_n")
def take_top_n(request: ScanRequest, _call: Call) -> Taken:
    """Whether the tasks return the first rows in the order of `request.top_n` alone."""
    options, top_n = request.read_options(), request.top_n
    if top_n is None or request.limit is not None or options.limit is not None or not options.push_down_top_n:
        return Taken(False)
    return Taken(sort_keys(top_n.orders, top_n.limit, request.handle.source().schema) is not None)


@operation("scan.aggregate")
def aggregate(request: AggregateRequest, call: Call) -> AggregateReply:
    """The row of the aggregates, where metadata has it exactly, or what the tasks return of it."""
    log_read_options_without_effect(request.scan.options)
    counts = _known_counts(request.scan)
    required = {column.name for column in request.scan.handle.filterable() if not column.nullable}
    counted = [item.kind == "count_star" or item.counts_one_of(required) for item in request.aggregates]
    if counts is not None and not request.group_by and all(counted):
        return AggregateReply(tuple(str(sum(counts)) for _ in counted))
    if request.scan.read_options().limit is not None:
        return AggregateReply()
    scan = replace(request.scan, aggregates=request.aggregates, group_by=request.group_by, columns=StructType())
    planner = ScanPlanner(scan, call)
    found = planner.aggregation
    if found is None or planner.is_clustered_by(request.group_by, request.clusters) or not planner.has_large_groups():
        return AggregateReply()
    return AggregateReply(columns=found.returned)


def _known_counts(request: ScanRequest) -> list[int] | None:
    """The rows of each fragment that a scan without filters returns; None if there is a filter, or a count missing."""
    options = request.read_options()
    if request.predicates or options.filter is not None or options.limit is not None:
        return None
    return known_row_counts(request.handle.source().splits())


@operation("scan.plan")
def plan(request: ScanRequest, call: Call) -> Reply:
    """The plan, with the function of the tasks and the work of each, or the rows of a small read."""
    log_read_options_without_effect(request.options)
    planner = ScanPlanner(request, call)
    function, returns = planner.task()
    tasks = planner.tasks()
    work = [item.to_bytes() for item in tasks.work]
    described = command(MeteredTask(function), returns)
    most = most_bytes(call.session)
    rows = scan_locally(function, work, most, is_remote=planner.is_remote) if planner.is_small(most) else None
    if rows is None:
        return Reply(planner.summary(tasks), (described, *work))
    # Where tasks have keys, each has one, rows or not.
    streams = rows.streams if tasks.key_values else filter(None, rows.streams)
    return Reply(planner.summary(tasks).with_rows(rows), (described, *streams))


@operation("scan.selectivity")
def selectivity(request: ScanRequest, call: Call) -> Selectivity:
    """How much of a filtered scan is left, for the choice of a join."""
    return Selectivity(ScanPlanner(request, call).selectivity())
