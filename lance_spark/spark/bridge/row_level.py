"""DELETE, UPDATE and MERGE: planned before the tasks start, committed when all have told what they changed."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql.types import StructType

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.expr.literals import TRUE
from lance_spark.expr.nodes import Expr, conjunction
from lance_spark.spark.bridge.change_task import ChangeOutput, ChangeTask
from lance_spark.spark.bridge.expressions import SparkExpression, to_filter
from lance_spark.spark.bridge.handles import TableHandle
from lance_spark.spark.bridge.registry import Call, Done, Reply, operation
from lance_spark.spark.bridge.scan import Taken, filterable
from lance_spark.spark.bridge.tasks import MESSAGE_TYPE, command
from lance_spark.spark.options import WriteOptions
from lance_spark.spark.row_changes import RowChangeJob, properties_of
from lance_spark.spark.table_row_changes import ROW_ID, TableRowChanges, check_changeable, matches_cheaply
from lance_spark.table.delete import delete_rows
from lance_spark.table.save import CommitOptions

_DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """A DELETE whose filters Spark can say to others; a row goes if all of them are true."""

    handle: TableHandle
    predicates: tuple[SparkExpression, ...]


@dataclass(frozen=True, slots=True)
class BeginRequest:
    """A statement that Spark is about to plan.

    Attributes:
        command: "DELETE", "UPDATE" or "MERGE".
    """

    handle: TableHandle
    command: str


@dataclass(frozen=True, slots=True)
class BeginReply:
    """By which columns rows are known, and what EXPLAIN says."""

    row_id: tuple[str, ...]
    description: str


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A statement as Spark has planned it.

    Attributes:
        columns: of the rows that come; none for a DELETE.
        row_id: the columns that rows are known by.
    """

    handle: TableHandle
    command: str
    columns: StructType
    row_id: StructType
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PlanReply:
    """What EXPLAIN says."""

    description: str


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """A statement whose tasks are done; the job, and what they told, are attached.

    Attributes:
        counts: rows, by the names that Spark gives them; below 0 is not known.
    """

    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AbortRequest:
    """A statement that failed; the job is attached."""

    all_tasks_told: bool


@operation("row_level.can_delete")
def can_delete(request: DeleteRequest, _call: Call) -> Taken:
    """Whether the driver deletes the rows by itself: if few bytes have to be read to find them."""
    condition = _condition(request)
    if condition is None:
        return Taken(False)
    location, base = request.handle.open()
    check_changeable(location, base)
    return Taken(matches_cheaply(base, condition))


@operation("row_level.delete")
def delete(request: DeleteRequest, _call: Call) -> Done:
    """Deletes the rows; false if there were none."""
    condition = _condition(request)
    if condition is None:
        raise UnsupportedFeatureError("the condition of this DELETE has no exact counterpart", feature="DELETE")
    location, base = request.handle.open()
    check_changeable(location, base)
    made = delete_rows(location, base, condition, CommitOptions(properties=properties_of(_DELETE, {})))
    return Done(made is not base)


@operation("row_level.begin")
def begin(request: BeginRequest, _call: Call) -> BeginReply:
    """What Spark needs to plan the statement."""
    location, base = request.handle.open()
    check_changeable(location, base)
    return BeginReply(ROW_ID, f"lance {request.command} {location.uri}@v{base.version}")


@operation("row_level.plan")
def plan(request: PlanRequest, _call: Call) -> Reply:
    """The function of the tasks, and the job that the commit wants back."""
    location, base = request.handle.open()
    options = WriteOptions.parse({**request.options, "path": request.handle.uri})
    changes = TableRowChanges.of(location, base, request.columns, options)
    job = _Statement(request.command, changes)
    summary = PlanReply(f"lance {request.command} {location.uri}@v{base.version}")
    return Reply(summary, (command(ChangeTask(changes), MESSAGE_TYPE), pickle.dumps(job)))


@operation("row_level.commit")
def commit(request: CommitRequest, call: Call) -> Done:
    """Commits; false if there was nothing to change."""
    job = _job(call)
    told: list[ChangeOutput] = [pickle.loads(message) for message in call.attachments[1:] if message]
    properties = properties_of(job.command, request.counts)
    repeated = any(item.attempt for item in told)
    return Done(job.changes.commit([item.output for item in told], properties, repeated=repeated))


@operation("row_level.abort")
def abort(request: AbortRequest, call: Call) -> Done:
    """Removes the files of the statement."""
    _job(call).changes.abort(all_tasks_told=request.all_tasks_told)
    return Done()


@dataclass(frozen=True)
class _Statement:
    command: str
    changes: RowChangeJob


def _job(call: Call) -> _Statement:
    # Pickled by `plan` for this very statement.
    job: _Statement = pickle.loads(call.attachments[0])
    return job


def _condition(request: DeleteRequest) -> Expr | None:
    """The filter of the rows that go; None if Spark's has no exact counterpart."""
    names = filterable(request.handle.open()[1])
    terms = [to_filter(predicate, names) for predicate in request.predicates]
    known = tuple(term for term in terms if term is not None)
    if len(known) < len(terms):
        return None
    return conjunction(known) or TRUE
