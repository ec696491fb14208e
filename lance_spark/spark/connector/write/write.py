"""Writing: planned before the tasks start, committed when all have told what they wrote."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql.types import StructType

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.expr.nodes import Expr, conjunction
from lance_spark.spark.column_names import check_distinct
from lance_spark.spark.connector.catalog.make_table import commit_job, staged_job
from lance_spark.spark.connector.catalog.staged_partitioned import staged_partitioned_job
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.registry import Call, Done, Reply, operation
from lance_spark.spark.connector.channel.tasks import MESSAGE_TYPE, TaskOutput, WriteTask, command
from lance_spark.spark.connector.scan.partition_keys import SparkTransform, write_transforms
from lance_spark.spark.connector.scan.requests import ScanRequest
from lance_spark.spark.connector.scan.scan import Taken
from lance_spark.spark.connector.write.overwrite_mode import (
    OVERWRITE_DYNAMIC,
    OVERWRITE_ROWS,
    is_everything,
    overwrite_mode,
)
from lance_spark.spark.connector.write.partitioned_writes import (
    PartitionedTaskOutput,
    PartitionedWriteTask,
    abort_partitioned,
    commit_partitioned,
    partitioned_job,
)
from lance_spark.spark.connector.write.row_search import gone_from_partitions, gone_rows, search_job
from lance_spark.spark.connector.write.statement_reads import reads_of
from lance_spark.spark.connector.write.written import Written, counts_of
from lance_spark.spark.jobs.partitioned_write_job import PartitionedWriteJob
from lance_spark.spark.jobs.write_job import REPLACE_WHERE, TRUNCATE, WriteJob
from lance_spark.spark.options import DYNAMIC, STATIC, TableDefaults, WriteOptions
from lance_spark.spark.predicates import SparkExpression, to_filter
from lance_spark.table.writing.save import APPEND, OVERWRITE

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """A write as Spark has asked for it so far.

    Attributes:
        columns: of the rows.
        mode: "append", "overwrite" (of the rows for which `predicates` are true) or "overwrite_dynamic".
        session_overwrite_mode: the setting spark.sql.sources.partitionOverwriteMode, in lower case.
    """

    handle: TableHandle
    columns: StructType
    mode: str
    options: Mapping[str, str] = field(default_factory=dict)
    predicates: tuple[SparkExpression, ...] = ()
    session_overwrite_mode: str = STATIC

    def write_options(self) -> WriteOptions:
        """The options of the write; where the table is, is in the handle."""
        self.handle.check_place(self.options)
        return WriteOptions.parse({**self.options, "path": self.handle.uri})


@dataclass(frozen=True, slots=True)
class WriteSummary:
    """What EXPLAIN says, and what rows are to be clustered and sorted by before they are written.

    Attributes:
        distribution: how they come to their tasks: "hash" (equal ones to one task), "range" (in order) or "none" (they
            stay where they are, and only each task sorts its own).
        replaces: whether rows go by a condition, which are still to be looked for.
    """

    description: str
    distribution: str = "none"
    clustering: tuple[SparkTransform, ...] = ()
    replaces: bool = False


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """Rows come, and it is time to look for those that go; the job is attached."""


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """A write that is to be committed; the job, what its tasks told, and what others have found are attached.

    Attributes:
        num_found: how many attachments are of tasks that looked for rows that go; None if there were no such tasks.
        target: the table, if the rows were chosen by what it holds; and
        reads: the scans of the statement then.
    """

    num_found: int | None = None
    target: TableHandle | None = None
    reads: tuple[ScanRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class AbortRequest:
    """A write that failed; the job, and what those tasks told that came to their end, are attached.

    Attributes:
        all_tasks_told: whether the commit was asked for after all of them; then it has decided about the files.
    """

    all_tasks_told: bool


@operation("write.can_overwrite")
def can_overwrite(request: WriteRequest, _call: Call) -> Taken:
    """Whether exactly the rows of these filters can be replaced.

    Raises:
        UnsupportedFeatureError: the condition has no exact counterpart; after a mere no Spark's error would
            name neither the condition's fault nor a way out.
    """
    if is_everything(request.predicates):
        return Taken(True)
    _required_filter(request)
    return Taken(request.handle.version is not None)


@operation("write.plan")
def plan(request: WriteRequest, call: Call) -> Reply:
    """The function of the tasks, and the job that the commit wants back."""
    check_distinct(request.columns, case_sensitive=call.session.case_sensitive)
    request.write_options().log_without_effect()
    _log_replaced_table(request)
    if request.handle.partitioned:
        return _partitioned_plan(request)
    request.write_options().check_without_partitions()
    job = _job(request)
    attachments = (command(WriteTask(job), MESSAGE_TYPE), pickle.dumps(job))
    summary = WriteSummary(f"lance {job.mode} {request.handle.shown}", replaces=job.replaced is not None)
    return Reply(summary, attachments)


def _partitioned_plan(request: WriteRequest) -> Reply:
    handle = request.handle
    if handle.staged is not None:
        job = staged_partitioned_job(handle, request.columns, request.options)
    else:
        mode = _partitioned_mode(request)
        is_conditional = mode == OVERWRITE_ROWS and not is_everything(request.predicates)
        replaced = _required_filter(request) if is_conditional else None
        job = partitioned_job(handle, request.columns, mode, request.write_options(), replaced)
    whole = job.plan.table()
    transforms = write_transforms(whole.specs.current, whole.lance_schema)
    attachments = (command(PartitionedWriteTask(job), MESSAGE_TYPE), pickle.dumps(job))
    distribution = request.write_options().distribution or TableDefaults.of(whole.properties).distribution or "hash"
    description = f"lance {job.mode.value} {handle.shown}"
    summary = WriteSummary(description, distribution, tuple(transforms), replaces=job.replaced is not None)
    return Reply(summary, attachments)


@operation("write.search")
def search(_request: SearchRequest, call: Call) -> Reply:
    """The job that looks for the rows that go: its function, then the work of each task. Nothing is attached if the
    commit finds them by itself.
    """
    return Reply(Done(), search_job(pickle.loads(call.attachments[0]), call.session.parallelism))


@operation("write.commit")
def commit(request: CommitRequest, call: Call) -> Written:
    """Commits what the tasks wrote, if it changes anything."""
    attachments, found = call.attachments, None
    if request.num_found is not None:
        first = len(attachments) - request.num_found
        attachments, found = attachments[:first], attachments[first:]
    # Counted first: nothing may fail after the commit.
    written = metrics(request, replace(call, attachments=attachments))
    job: WriteJob | PartitionedWriteJob = pickle.loads(attachments[0])
    reads = () if request.target is None else reads_of(request.target, request.reads, call.session.time_zone)
    if isinstance(job, PartitionedWriteJob):
        commit_partitioned(job, attachments[1:], None if found is None else gone_from_partitions(found), reads)
        return written
    made = commit_job(attachments, None if found is None else gone_rows(found), reads)
    others = 0 if made is None else made.version - (job.base_version or 0) - 1
    return Written({**written.metrics, "commits_of_others": others})


@operation("write.metrics")
def metrics(_request: CommitRequest, call: Call) -> Written:
    """How much the tasks wrote."""
    messages = [message for message in call.attachments[1:] if message]
    outputs: list[TaskOutput | PartitionedTaskOutput] = [pickle.loads(message) for message in messages]
    return Written(counts_of(fragment for output in outputs for fragment in output.fragments))


@operation("write.abort")
def abort(request: AbortRequest, call: Call) -> Done:
    """Removes the files of the job."""
    job: WriteJob | PartitionedWriteJob = pickle.loads(call.attachments[0])
    if isinstance(job, PartitionedWriteJob):
        abort_partitioned(job, call.attachments[1:], all_tasks_told=request.all_tasks_told)
    else:
        job.abort(all_tasks_told=request.all_tasks_told)
    return Done()


def _job(request: WriteRequest) -> WriteJob:
    handle = request.handle
    if handle.staged is not None:
        return staged_job(handle, request.columns, request.options, from_query=True)
    mode = _mode(request)
    base = None if handle.version is None else handle.open()[1]
    replaced = _required_filter(request) if mode == REPLACE_WHERE else None
    return WriteJob.of(
        handle.location(),
        base,
        request.columns,
        mode,
        request.write_options(),
        replaced=replaced,
        evolved=handle.evolved_schema(),
        from_query=True,
    )


def _log_replaced_table(request: WriteRequest) -> None:
    if request.handle.staged is not None and request.write_options().partition_overwrite_mode == DYNAMIC:
        _log.warning("option partitionOverwriteMode has no effect: the statement replaces the table itself")


def _partitioned_mode(request: WriteRequest) -> str:
    return overwrite_mode(
        request.handle.open_partitioned(),
        request.mode,
        request.predicates,
        option=request.write_options().partition_overwrite_mode,
        session=request.session_overwrite_mode,
        by_path=request.handle.by_path,
    )


def _mode(request: WriteRequest) -> str:
    if request.mode == "append":
        return APPEND
    # A table without partitions is one partition.
    if request.mode == OVERWRITE_DYNAMIC or is_everything(request.predicates):
        return OVERWRITE if request.handle.replaces_schema or request.handle.version is None else TRUNCATE
    if request.mode != OVERWRITE_ROWS:
        raise InvalidInputError(f"unknown mode {request.mode!r} of a write")
    return REPLACE_WHERE


def _required_filter(request: WriteRequest) -> Expr:
    """The filter of the rows that go."""
    names = request.handle.filterable()
    terms = [to_filter(predicate, names) for predicate in request.predicates]
    known = tuple(term for term in terms if term is not None)
    replaced = conjunction(known)
    if replaced is None or len(known) != len(terms):
        raise UnsupportedFeatureError(
            "the rows to replace cannot be told by this condition; DELETE them and INSERT",
            feature="overwrite by filter",
        )
    return replaced
