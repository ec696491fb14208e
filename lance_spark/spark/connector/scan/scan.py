"""Reading: what of a query a scan can do by itself, and the tasks that do it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql.types import StructType

from lance_spark.expr.nodes import conjunction
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.registry import Call, Reply, operation
from lance_spark.spark.connector.channel.task_metrics import MeteredTask
from lance_spark.spark.connector.channel.tasks import command
from lance_spark.spark.connector.scan.local_scan import scan_locally
from lance_spark.spark.connector.scan.planner import ScanPlanner
from lance_spark.spark.connector.scan.requests import AggregateRequest, ScanPlan, ScanRequest, encoded_filter
from lance_spark.spark.connector.scan.settings import inline_bytes, uses_aggregates
from lance_spark.spark.connector.scan.text_searches import pushed_filter
from lance_spark.spark.options.options import log_read_options_without_effect
from lance_spark.spark.predicates import SparkExpression, implied_filter
from lance_spark.table.source import known_row_counts

EXACT, CHECK_AGAIN, NO = 2, 1, 0
"""Answers about a filter: no row that the scan returns needs another look; each needs one; Spark keeps it to itself."""


@dataclass(frozen=True, slots=True)
class PushRequest:
    """The filters of a query over a scan; a row is wanted if all of `predicates` are true."""

    handle: TableHandle
    predicates: tuple[SparkExpression, ...]
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PushReply:
    """Which filters the scan applies.

    Attributes:
        answers: for each filter EXACT, CHECK_AGAIN or NO.
        filter: all that it applies, for the later requests of the scan; None if there is none.
    """

    answers: tuple[int, ...]
    filter: str | None = None


@dataclass(frozen=True, slots=True)
class AggregateReply:
    """Aggregates as far as they can be had without all rows.

    Attributes:
        values: the row as text, if metadata has it.
        columns: if not, those of the rows that each task returns of its part, if it can.
        plan: of the scan that returns them, whose tasks are attached.
    """

    values: tuple[str, ...] | None = None
    columns: StructType | None = None
    plan: ScanPlan | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """Whether the scan takes it."""

    taken: bool


@dataclass(frozen=True, slots=True)
class Selectivity:
    """About which share of the planned rows a scan's filter keeps."""

    selectivity: float


@operation("scan.push")
def push(request: PushRequest, _call: Call) -> PushReply:
    """Which of the filters the scan applies."""
    if ScanRequest(request.handle, request.options).read_options().limit is not None:
        # Rows are limited before Spark filters them, so a limit leaves nothing to push.
        return PushReply(tuple(NO for _ in request.predicates))
    names = request.handle.filterable()
    found = [pushed_filter(item, names, request.handle) for item in request.predicates]
    implied = [
        implied_filter(item, names) if term is None else None
        for item, term in zip(request.predicates, found, strict=True)
    ]
    condition = conjunction(tuple(term for term in (*found, *implied) if term is not None))
    answers = (
        EXACT if exact is not None else CHECK_AGAIN if superset is not None else NO
        for exact, superset in zip(found, implied, strict=True)
    )
    return PushReply(tuple(answers), None if condition is None else encoded_filter(condition))


@operation("scan.offset")
def take_offset(request: ScanRequest, _call: Call) -> Taken:
    """Whether the scan leaves out the first rows by itself: where the row counts of all fragments are known."""
    return Taken(request.limit is None and _known_counts(request) is not None)


@operation("scan.aggregate")
def aggregate(request: AggregateRequest, call: Call) -> Reply:
    """The row of the aggregates, where metadata has it exactly, or what the tasks return of it, with their plan."""
    log_read_options_without_effect(request.scan.options)
    if not uses_aggregates(call.session):
        return Reply(AggregateReply())
    counts = _known_counts(request.scan)
    required = {column.name for column in request.scan.handle.filterable() if not column.nullable}
    counted = [item.kind == "count_star" or item.counts_one_of(required) for item in request.aggregates]
    if counts is not None and not request.group_by and all(counted):
        return Reply(AggregateReply(tuple(str(sum(counts)) for _ in counted)))
    if request.scan.read_options().limit is not None:
        return Reply(AggregateReply())
    planner = ScanPlanner(replace(request.scan, columns=StructType()), call, request)
    if not request.group_by and all(item.kind == "count_star" for item in request.aggregates):
        num_rows = planner.indexed_rows()
        if num_rows is not None:
            return Reply(AggregateReply(tuple(str(num_rows) for _ in request.aggregates)))
    found = planner.aggregation
    if found is None or planner.is_clustered_by(request.group_by, request.clusters) or not planner.has_large_groups():
        return Reply(AggregateReply())
    extremes = None if planner.is_small(inline_bytes(call.session)) else planner.extremes()
    if extremes is not None:
        planner = ScanPlanner(replace(request.scan, columns=StructType()), call, request, extremes=extremes)
    summary, attachments = _planned(planner, call)
    return Reply(AggregateReply(columns=found.returned, plan=summary), attachments)


def _known_counts(request: ScanRequest) -> list[int] | None:
    """The rows of each fragment that a scan without filters returns; None if there is a filter, or a count missing."""
    if request.read_options().limit is not None or request.condition() is not None:
        return None
    return known_row_counts(request.handle.source().splits())


@operation("scan.plan")
def plan(request: ScanRequest, call: Call) -> Reply:
    """The plan, with the function of the tasks and the work of each, or the rows of a small read."""
    log_read_options_without_effect(request.options)
    return Reply(*_planned(ScanPlanner(request, call), call))


def _planned(planner: ScanPlanner, call: Call) -> tuple[ScanPlan, tuple[bytes, ...]]:
    """The plan and its attachments."""
    function, returns = planner.task()
    tasks = planner.tasks()
    work = [item.to_bytes() for item in tasks.work]
    described = command(MeteredTask(function), returns)
    most = inline_bytes(call.session)
    rows = scan_locally(function, work, most, is_remote=planner.is_remote) if planner.is_small(most) else None
    if rows is None:
        return planner.summary(tasks), (described, *work)
    # Where tasks have keys, each has one, rows or not.
    streams = rows.streams if tasks.key_values else filter(None, rows.streams)
    return planner.summary(tasks).with_rows(rows), (described, *streams)


@operation("scan.selectivity")
def selectivity(request: ScanRequest, call: Call) -> Selectivity:
    """Estimates the share of rows that the filter of a scan keeps, for the choice of a join. Columns have no effect."""
    return Selectivity(ScanPlanner(replace(request, columns=StructType()), call).selectivity())
