"""Writing: planned before the tasks start, committed when all have finished."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql.types import StructType

from lance_spark.errors import EpochCommittedError, InvalidInputError, UnsupportedFeatureError
from lance_spark.expr.nodes import Expr, conjunction
from lance_spark.spark.column_names import check_distinct
from lance_spark.spark.compat import SPARK, SPARK_NAME
from lance_spark.spark.connector.catalog.make_table import staged_table
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.registry import Call, Done, Reply, operation
from lance_spark.spark.connector.channel.tasks import MESSAGE_TYPE, command
from lance_spark.spark.connector.scan.partition_keys import SparkTransform
from lance_spark.spark.connector.scan.requests import ScanRequest
from lance_spark.spark.connector.scan.scan import Taken
from lance_spark.spark.connector.write.job_results import (
    Written,
    blob_inputs,
    counts_of,
    pickle_job,
    unpickle_job,
    unpickle_results,
)
from lance_spark.spark.connector.write.job_task import JobTask
from lance_spark.spark.connector.write.overwrite_mode import is_everything
from lance_spark.spark.connector.write.row_search import search_job
from lance_spark.spark.connector.write.statement_reads import reads_of
from lance_spark.spark.connector.write.tables import RequestedMode, table_of
from lance_spark.spark.jobs.task_result import deleted_rows
from lance_spark.spark.jobs.write_job import WriteJob
from lance_spark.spark.option_values import DYNAMIC, STATIC
from lance_spark.spark.options.options import WriteOptions
from lance_spark.spark.predicates import SparkExpression, to_filter
from lance_spark.spark.types.texts import with_declared_types
from lance_spark.table.row_level.write_target import WriteMode

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """A write as Spark has asked for it so far.

    Attributes:
        columns: of the rows.
        mode: "append", "overwrite" (of the rows for which `predicates` are true) or "overwrite_dynamic".
        session_overwrite_mode: the setting spark.sql.sources.partitionOverwriteMode, in lower case.
        sources: the Lance tables that the statement reads, whose blobs the rows may have.
    """

    handle: TableHandle
    columns: StructType
    mode: str
    options: Mapping[str, str] = field(default_factory=dict)
    predicates: tuple[SparkExpression, ...] = ()
    session_overwrite_mode: str = STATIC
    sources: tuple[TableHandle, ...] = ()

    def write_options(self) -> WriteOptions:
        """The options of the write; where the table is, is in the handle."""
        self.handle.check_place(self.options)
        return WriteOptions.parse({**self.options, "path": self.handle.uri})


@dataclass(frozen=True, slots=True)
class WriteSummary:
    """Description for EXPLAIN, and the columns by which rows are clustered and sorted before they are written.

    Attributes:
        distribution: how they come to their tasks: "hash" (equal ones to one task), "range" (in order) or "none" (they
            stay where they are, and only each task sorts its own).
        replaces: whether rows are replaced by a condition, for which they are still to be searched.
        ordering: by what each task sorts its rows, after the columns of `clustering`.
    """

    description: str
    distribution: str = "none"
    clustering: tuple[SparkTransform, ...] = ()
    replaces: bool = False
    ordering: tuple[SparkTransform, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """The new rows are written, and it is time to search for those that they replace; the job is attached."""


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """A write that is to be committed; the job, the results of its tasks, and those of a search are attached.

    Attributes:
        num_found: how many attachments are of tasks that searched for replaced rows; None if there were no such tasks.
        target: the table, if the rows were chosen by what it holds; and
        reads: the scans of the statement then.
    """

    num_found: int | None = None
    target: TableHandle | None = None
    reads: tuple[ScanRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class AbortRequest:
    """A write that failed; the job, and the results of the tasks that finished, are attached.

    Attributes:
        all_tasks_finished: whether all did, and the commit was asked for; then it has decided about the files.
    """

    all_tasks_finished: bool


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
    request = replace(request, options=call.session.with_transaction(request.options))
    request.write_options().log_without_effect()
    _refuse_unknown_overwrite(request)
    _refuse_replaced_table(request)
    job, table = _job(request), table_of(request.handle)
    job = replace(job, blobs=blob_inputs(call.session, request.sources))
    layout = table.layout(job, request.write_options())
    description = f"lance {job.mode.value} {request.handle.display_name}"
    replaces = job.replaced is not None
    summary = WriteSummary(description, layout.distribution, layout.clustering, replaces, layout.ordering)
    return Reply(summary, (command(JobTask(job), MESSAGE_TYPE), pickle_job(job, request.handle)))


@operation("write.search")
def search(_request: SearchRequest, call: Call) -> Reply:
    """The job that searches for the replaced rows: its function, then the work of each task. Nothing is attached if
    the commit finds them by itself.
    """
    return Reply(Done(), search_job(unpickle_job(call.attachments[0]), call.session.parallelism))


@operation("write.commit")
def commit(request: CommitRequest, call: Call) -> Written:
    """Commits what the tasks wrote, if it changes anything."""
    attachments, matching = call.attachments, None
    if request.num_found is not None:
        first = len(attachments) - request.num_found
        attachments, matching = attachments[:first], attachments[first:]
    job, results = unpickle_job(attachments[0]), unpickle_results(attachments[1:])
    # Counted first: nothing may fail after the commit.
    counted = counts_of(results)
    reads = () if request.target is None else reads_of(request.target, request.reads, call.session.time_zone)
    try:
        committed = job.commit(
            results, matching=None if matching is None else deleted_rows(unpickle_results(matching)), reads=reads
        )
    except EpochCommittedError as error:
        _log.info("a write is not done again: %s", error)
        return Written({})
    return Written({**counted, "commits_of_others": job.others_commits(committed)})


@operation("write.metrics")
def metrics(_request: CommitRequest, call: Call) -> Written:
    """Metrics of the tasks of a write."""
    return Written(counts_of(unpickle_results(call.attachments[1:])))


@operation("write.abort")
def abort(request: AbortRequest, call: Call) -> Done:
    """Removes the files of the job."""
    results = unpickle_results(call.attachments[1:])
    unpickle_job(call.attachments[0]).abort(results, all_tasks_finished=request.all_tasks_finished)
    return Done()


def _job(request: WriteRequest) -> WriteJob:
    handle, options = request.handle, request.write_options()
    if handle.staged is not None:
        columns = with_declared_types(request.columns, handle.staged.columns)
        return staged_table(handle).job(columns, request.options, from_query=True)
    table = table_of(handle)
    requested = RequestedMode(
        request.mode, request.predicates, options.partition_overwrite_mode, request.session_overwrite_mode
    )
    mode = table.write_mode(requested)
    replaced = _required_filter(request) if mode is WriteMode.REPLACE_WHERE else None
    return table.plan_write(request.columns, mode, options, replaced)


def _refuse_replaced_table(request: WriteRequest) -> None:
    """Refuses to replace partitions where the statement replaces the table itself."""
    handle = request.handle
    replaces = handle.staged is not None and (handle.version is not None or handle.staged.replaces is not None)
    if replaces and request.write_options().partition_overwrite_mode == DYNAMIC:
        raise InvalidInputError(
            "option partitionOverwriteMode is dynamic, but saveAsTable and REPLACE TABLE replace the table itself; "
            "leave it out, or write INSERT OVERWRITE, df.write.insertInto('t', overwrite=True) or "
            "df.writeTo('t').overwritePartitions()"
        )


def _refuse_unknown_overwrite(request: WriteRequest) -> None:
    """Refuses `save(path)` in mode overwrite if its table was loaded for an append.

    Before 4.3 Spark does not say for what `save` loads a table; a rule of the session extension does.
    """
    handle = request.handle
    is_save = (
        not handle.name and not handle.of_session_catalog and any(key.lower() == "path" for key in request.options)
    )
    is_prepared = handle.version is None or handle.by_path or handle.replaces_schema
    if SPARK < (4, 3) and request.mode != "append" and is_save and not is_prepared:
        raise UnsupportedFeatureError(
            f"this session got the connector while it ran, and {SPARK_NAME} does not tell it that save(path) "
            "overwrites a table; begin the session with lance_spark.configure, or write to a table by name",
            feature="overwrite by path",
        )


def _required_filter(request: WriteRequest) -> Expr:
    """The filter of the replaced rows."""
    names = request.handle.filterable()
    terms = [to_filter(predicate, names) for predicate in request.predicates]
    exact = tuple(term for term in terms if term is not None)
    replaced = conjunction(exact)
    if replaced is None or len(exact) != len(terms):
        raise UnsupportedFeatureError(
            "this condition does not say exactly which rows to replace; DELETE them and INSERT",
            feature="overwrite by filter",
        )
    return replaced
