"""DELETE, UPDATE and MERGE: planned before the tasks start, committed when all have told what they changed."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql.types import StructType

from lance_spark.errors import IncompatibleConflictError, NotFoundError, UnsupportedFeatureError
from lance_spark.expr.literals import TRUE
from lance_spark.expr.nodes import Expr, conjunction
from lance_spark.partitioned.commit import Check
from lance_spark.partitioned.read_conflicts import partition_check_of
from lance_spark.partitioned.save import delete_rows as delete_partitioned_rows
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.registry import Call, Done, Reply, operation
from lance_spark.spark.connector.channel.tasks import MESSAGE_TYPE, command
from lance_spark.spark.connector.scan.requests import ScanRequest
from lance_spark.spark.connector.scan.scan import Taken
from lance_spark.spark.connector.write.change_task import ChangeOutput, ChangeTask
from lance_spark.spark.connector.write.partitioned_changes import (
    PARTITION_ROW_ID,
    PartitionedRowChanges,
    check_partitioned_changeable,
    partitions_match_cheaply,
)
from lance_spark.spark.connector.write.partitioned_writes import timestamp_of
from lance_spark.spark.connector.write.statement_reads import isolation_of, reads_of
from lance_spark.spark.connector.write.written import Written, counts_of
from lance_spark.spark.jobs.row_changes import RowChangeJob, properties_of
from lance_spark.spark.jobs.table_row_changes import (
    CHEAP_BYTES,
    ROW_ID,
    TableRowChanges,
    bytes_to_match,
    check_changeable,
)
from lance_spark.spark.options import WriteOptions
from lance_spark.spark.predicates import SparkExpression, to_filter
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.row_level.delete import delete_rows
from lance_spark.table.row_level.isolation import IsolationLevel
from lance_spark.table.row_level.read_conflicts import ReadRows, check_of
from lance_spark.table.row_level.row_changes import NewerVersionCheck
from lance_spark.table.writing.save import CommitOptions

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
        reads: its scans of all tables.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    reads: tuple[ScanRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class AbortRequest:
    """A statement that failed; the job, and what those tasks told that came to their end, are attached."""

    all_tasks_told: bool


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
    """What schema evolution wants of a column.

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
        NotFoundError: the table is gone.
    """
    handle = request.handle
    plain = replace(handle, evolved=None)
    if handle.partitioned:
        old = plain.open_partitioned()
        found = old.newest()
        if found.specs != old.specs:
            raise _other_columns(handle, found.version)
        return NewestReply(
            replace(handle, version=found.version, timestamp_nanos=timestamp_of(found)), str(found.version)
        )
    location, base = plain.open()
    manifest = location.latest()
    if manifest is None:
        raise NotFoundError(f"the table {location.uri} is gone")
    if manifest.schema.fields != base.schema.fields:
        raise _other_columns(handle, manifest.version)
    return NewestReply(
        replace(handle, version=manifest.version, timestamp_nanos=manifest.timestamp_nanos), str(manifest.version)
    )


def _other_columns(handle: TableHandle, version: int) -> IncompatibleConflictError:
    return IncompatibleConflictError(
        f"another writer has changed the columns of {handle.uri}, so it cannot go on. Run the statement again",
        table_version=version,
    )


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
    if request.handle.partitioned:
        return Taken(partitions_match_cheaply(request.handle.open_partitioned(), condition))
    return Taken(bytes_to_match(request.handle.open()[1], condition) <= CHEAP_BYTES)


@operation("row_level.delete")
def delete(request: DeleteRequest, _call: Call) -> Done:
    """Deletes the rows; false if there were none."""
    condition = _condition(request)
    if condition is None:
        raise UnsupportedFeatureError("the condition of this DELETE has no exact counterpart", feature="DELETE")
    options = CommitOptions(properties=properties_of(_DELETE, {}))
    is_serializable = isolation_of(request.handle) is IsolationLevel.SERIALIZABLE
    if request.handle.partitioned:
        whole = request.handle.open_partitioned()

        def check_partitions(version: PartitionedTable) -> Check | None:
            return partition_check_of(version, [ReadRows(version.version, condition)])

        checks = check_partitions if is_serializable else None
        return Done(delete_partitioned_rows(whole, condition, options, check=checks) is not whole)
    location, base = request.handle.open()
    check_changeable(location, base)

    def check(version: Manifest) -> NewerVersionCheck | None:
        return check_of(location, [ReadRows(version.version, condition)], version.schema)

    return Done(delete_rows(location, base, condition, options, check=check if is_serializable else None) is not base)


@operation("row_level.begin")
def begin(request: BeginRequest, _call: Call) -> BeginReply:
    """What Spark needs to plan the statement."""
    description = f"lance {request.command} {request.handle.shown}@v{request.handle.version}"
    if request.handle.partitioned:
        check_partitioned_changeable(request.handle.open_partitioned())
        return BeginReply(PARTITION_ROW_ID, description)
    check_changeable(*request.handle.open())
    return BeginReply(ROW_ID, description)


@operation("row_level.plan")
def plan(request: PlanRequest, _call: Call) -> Reply:
    """The function of the tasks, and the job that the commit wants back."""
    changes = _changes(request)
    job = _Statement(request.command, changes, request.handle)
    summary = PlanReply(f"lance {request.command} {request.handle.shown}@v{request.handle.version}")
    return Reply(summary, (command(ChangeTask(changes), MESSAGE_TYPE), pickle.dumps(job)))


def _changes(request: PlanRequest) -> RowChangeJob:
    request.handle.check_place(request.options)
    options = WriteOptions.parse({**request.options, "path": request.handle.uri})
    if request.handle.partitioned:
        return PartitionedRowChanges.of(request.handle.open_partitioned(), request.columns, options)
    location, base = request.handle.open()
    return TableRowChanges.of(location, base, request.columns, options, request.handle.evolved_schema())


@operation("row_level.commit")
def commit(request: CommitRequest, call: Call) -> Written:
    """Commits what there is to change."""
    job = _job(call)
    told = _told(call)
    properties = properties_of(job.command, request.counts)
    # Counted first: nothing may fail after the commit.
    counted = counts_of(fragment for item in told for fragment in job.changes.new_fragments(item.output))
    repeated = any(item.attempt for item in told)
    reads = reads_of(job.target, request.reads, call.session.time_zone)
    others = job.changes.commit([item.output for item in told], properties, repeated=repeated, reads=reads)
    return Written({**counted, "commits_of_others": others})


@operation("row_level.abort")
def abort(request: AbortRequest, call: Call) -> Done:
    """Removes the files of the statement."""
    outputs = [item.output for item in _told(call)]
    _job(call).changes.abort(outputs, all_tasks_told=request.all_tasks_told)
    return Done()


@dataclass(frozen=True)
class _Statement:
    command: str
    changes: RowChangeJob
    target: TableHandle


def _job(call: Call) -> _Statement:
    # Pickled by `plan` for this very statement.
    job: _Statement = pickle.loads(call.attachments[0])
    return job


def _told(call: Call) -> list[ChangeOutput]:
    return [pickle.loads(message) for message in call.attachments[1:] if message]


def _condition(request: DeleteRequest) -> Expr | None:
    """The filter of the rows that go; None if Spark's has no exact counterpart."""
    handle = request.handle
    names = handle.open_partitioned().schema if handle.partitioned else handle.filterable()
    terms = [to_filter(predicate, names) for predicate in request.predicates]
    known = tuple(term for term in terms if term is not None)
    if len(known) < len(terms):
        return None
    return conjunction(known) or TRUE
