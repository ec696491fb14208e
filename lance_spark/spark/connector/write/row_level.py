"""DELETE, UPDATE and MERGE: planned before the tasks start, committed when all have finished."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql.types import StructType

from lance_spark.errors import EpochCommittedError, UnsupportedFeatureError
from lance_spark.expr.literals import TRUE
from lance_spark.expr.nodes import Expr, conjunction
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.registry import Call, Done, Reply, operation
from lance_spark.spark.connector.channel.tasks import MESSAGE_TYPE, command
from lance_spark.spark.connector.scan.requests import ScanRequest
from lance_spark.spark.connector.scan.scan import Taken
from lance_spark.spark.connector.write.job_results import Written, blob_inputs, counts_of, unpickle_results
from lance_spark.spark.connector.write.job_task import JobTask
from lance_spark.spark.connector.write.row_search import CHEAP_SPLITS, is_cheap_to_search
from lance_spark.spark.connector.write.statement_reads import isolation_of, reads_of
from lance_spark.spark.connector.write.tables import table_of
from lance_spark.spark.jobs.row_change_job import RowChangeJob, properties_of
from lance_spark.spark.options.options import WriteOptions
from lance_spark.spark.predicates import SparkExpression, to_filter
from lance_spark.table.row_level.isolation import IsolationLevel
from lance_spark.table.row_level.update_mode import RewriteMode
from lance_spark.table.writing.save import CommitOptions

_log = logging.getLogger(__name__)

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
    """Columns that identify rows, and the description for EXPLAIN."""

    row_id: tuple[str, ...]
    description: str


@dataclass(frozen=True, slots=True)
class ColumnsRequest:
    """A statement that updates rows.

    Attributes:
        command: "UPDATE" or "MERGE".
        columns: those that get other values in some of the rows.
    """

    handle: TableHandle
    command: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ColumnsReply:
    """Whether updated rows come with these columns only, for rows that do not move; and the description for EXPLAIN."""

    in_place: bool
    row_id: tuple[str, ...] = ()
    description: str = ""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A statement as Spark has planned it.

    Attributes:
        columns: of the added rows; none for a DELETE.
        row_id: the columns that rows are known by.
        sources: the Lance tables that the statement reads, whose blobs the rows may have.
        changed: the columns that updated rows come with; none if these are all.
    """

    handle: TableHandle
    command: str
    columns: StructType
    row_id: StructType
    options: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[TableHandle, ...] = ()
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanReply:
    """Description for EXPLAIN."""

    description: str


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """A statement whose tasks are done; the job, and their results, are attached.

    Attributes:
        counts: rows, by the names that Spark gives them; below 0 is not known.
        reads: its scans of all tables.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    reads: tuple[ScanRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class AbortRequest:
    """A statement that failed; the job, and the results of the tasks that finished, are attached."""

    all_tasks_finished: bool


@dataclass(frozen=True, slots=True)
class NewestRequest:
    """A version of a table that a statement was analysed with, which is to run again."""

    handle: TableHandle


@dataclass(frozen=True, slots=True)
class NewestReply:
    """The newest version."""

    handle: TableHandle
    version: str


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """Column change that schema evolution requests.

    Attributes:
        kind: "add", "type" or another of ALTER TABLE's.
    """

    kind: str


@dataclass(frozen=True, slots=True)
class EvolveRequest:
    """Changes of columns that a statement WITH SCHEMA EVOLUTION asks for."""

    handle: TableHandle
    changes: tuple[ColumnChange, ...]


@operation("table.newest")
def newest(request: NewestRequest, _call: Call) -> NewestReply:
    """The newest version of a table, with the columns that the statement brings.

    Raises:
        IncompatibleConflictError: somebody has changed the columns that the statement was analysed with.
        NotFoundError: the table no longer exists.
    """
    newest_handle = table_of(request.handle).newest()
    return NewestReply(newest_handle, str(newest_handle.version))


@operation("row_level.can_evolve")
def can_evolve(request: EvolveRequest, _call: Call) -> Taken:
    """Whether the columns change with the rows: new ones come; one that is there keeps its type, as INSERT does.

    Raises:
        UnsupportedFeatureError: new ones cannot come. Spark would leave them out without a word.
    """
    adds = [change.kind == "add" for change in request.changes]
    if any(adds) and request.handle.of_session_catalog:
        raise UnsupportedFeatureError(
            "tables of the session catalog get no new columns WITH SCHEMA EVOLUTION; add them first, or leave them out",
            feature="WITH SCHEMA EVOLUTION",
        )
    return Taken(all(adds))


@operation("row_level.can_delete")
def can_delete(request: DeleteRequest, _call: Call) -> Taken:
    """Whether the driver deletes the rows by itself: if few bytes have to be read to find them."""
    condition = _condition(request)
    if condition is None:
        return Taken(False)
    splits = table_of(request.handle).splits(condition, CHEAP_SPLITS)
    return Taken(splits is not None and is_cheap_to_search(splits, condition))


@operation("row_level.delete")
def delete(request: DeleteRequest, call: Call) -> Done:
    """Deletes the rows; false if there were none."""
    condition = _condition(request)
    if condition is None:
        raise UnsupportedFeatureError("the condition of this DELETE has no exact counterpart", feature="DELETE")
    named = WriteOptions.parse({**call.session.with_transaction({}), "path": request.handle.uri})
    options = CommitOptions(properties=properties_of(_DELETE, {}), mark=named.mark())
    is_serializable = isolation_of(request.handle) is IsolationLevel.SERIALIZABLE
    try:
        return Done(table_of(request.handle).delete(condition, options, is_serializable=is_serializable))
    except EpochCommittedError as error:
        _log.info("a statement is not run again: %s", error)
        return Done(False)


@operation("row_level.begin")
def begin(request: BeginRequest, _call: Call) -> BeginReply:
    """Begins a statement: checks that the table can be changed, and returns what Spark plans the statement with."""
    table = table_of(request.handle)
    table.check_changeable()
    return BeginReply(table.row_id, _description(request.command, request.handle))


@operation("row_level.columns")
def columns(request: ColumnsRequest, _call: Call) -> ColumnsReply:
    """Whether updated rows come with the columns that change only.

    Raises:
        UnsupportedFeatureError: the table's `lance.update.mode` is "columns", and these cannot change in place.
    """
    table = table_of(request.handle)
    mode = table.update_mode(request.columns)
    if mode is None:
        return ColumnsReply(False)
    return ColumnsReply(True, table.row_id, _description(request.command, request.handle, request.columns, mode))


@operation("row_level.plan")
def plan(request: PlanRequest, call: Call) -> Reply:
    """The function of the tasks, and the job that the commit wants back."""
    request.handle.check_place(request.options)
    named = call.session.with_transaction(request.options)
    options = WriteOptions.parse({**named, "path": request.handle.uri})
    job = table_of(request.handle).plan_changes(request.columns, options, request.changed)
    job = replace(job, blobs=blob_inputs(call.session, request.sources))
    statement = _Statement(request.command, job, request.handle)
    mode = None if job.in_place is None else job.in_place.update.mode
    summary = PlanReply(_description(request.command, request.handle, request.changed, mode))
    return Reply(summary, (command(JobTask(job), MESSAGE_TYPE), pickle.dumps(statement)))


@operation("row_level.commit")
def commit(request: CommitRequest, call: Call) -> Written:
    """Commits what there is to change."""
    statement, results = _statement(call), unpickle_results(call.attachments[1:])
    # Counted first: nothing may fail after the commit.
    counted = counts_of(results)
    reads = reads_of(statement.target, request.reads, call.session.time_zone)
    try:
        committed = statement.job.commit(results, properties_of(statement.command, request.counts), reads=reads)
    except EpochCommittedError as error:
        _log.info("a statement is not run again: %s", error)
        return Written({})
    return Written({**counted, "commits_of_others": statement.job.others_commits(committed)})


@operation("row_level.abort")
def abort(request: AbortRequest, call: Call) -> Done:
    """Removes the files of the statement."""
    results = unpickle_results(call.attachments[1:])
    _statement(call).job.abort(results, all_tasks_finished=request.all_tasks_finished)
    return Done()


@dataclass(frozen=True)
class _Statement:
    command: str
    job: RowChangeJob
    target: TableHandle


def _statement(call: Call) -> _Statement:
    # Pickled by `plan` for this very statement.
    statement: _Statement = pickle.loads(call.attachments[0])
    return statement


def _description(
    command: str, handle: TableHandle, changed: Sequence[str] = (), mode: RewriteMode | None = None
) -> str:
    statement = f"lance {command} {handle.display_name}@v{handle.version}"
    return statement if mode is None else f"{statement} update mode={mode.value} columns=[{', '.join(changed)}]"


def _condition(request: DeleteRequest) -> Expr | None:
    """The filter of the deleted rows; None if Spark's has no exact counterpart."""
    names = table_of(request.handle).delete_columns()
    terms = [to_filter(predicate, names) for predicate in request.predicates]
    exact = tuple(term for term in terms if term is not None)
    if len(exact) < len(terms):
        return None
    return conjunction(exact) or TRUE
