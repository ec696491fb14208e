"""The streaming sink: each epoch is one commit, whose manifest has the epoch's mark (docs/design/036-streaming.md)."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql.types import StructType

from lance_spark.errors import EpochCommittedError, InvalidInputError, LanceError, NotFoundError
from lance_spark.partitioned.access import find_table
from lance_spark.spark.blobs.references import BlobInputs
from lance_spark.spark.column_names import check_distinct
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.registry import Call, Done, Reply, operation
from lance_spark.spark.connector.channel.tasks import MESSAGE_TYPE, command
from lance_spark.spark.connector.scan.partition_keys import SparkTransform
from lance_spark.spark.connector.streaming.upsert import brought_columns, plan_upsert, with_extra_columns
from lance_spark.spark.connector.write.job_results import Written, blob_inputs, counts_of, unpickle_results
from lance_spark.spark.connector.write.job_task import JobTask
from lance_spark.spark.connector.write.overwrite_mode import OVERWRITE_ROWS
from lance_spark.spark.connector.write.tables import Layout, RequestedMode, table_of
from lance_spark.spark.connector.write.write import WriteSummary
from lance_spark.spark.jobs.upsert_job import UpsertJob
from lance_spark.spark.jobs.write_job import WriteJob
from lance_spark.spark.option_values import STATIC
from lance_spark.spark.options.options import StateOptions, WriteOptions
from lance_spark.spark.streaming.auto_compaction import compact_after_epoch
from lance_spark.spark.streaming.options import SinkOptions
from lance_spark.spark.table_view import written_columns
from lance_spark.table.manifests.epoch_mark import EpochMark, Verdict, committed_epoch
from lance_spark.table.refs.refs import MAIN

_log = logging.getLogger(__name__)

APPEND, COMPLETE, UPDATE = "append", "complete", "update"

_EVERYTHING = ()


@dataclass(frozen=True, slots=True)
class SinkRequest:
    """One epoch of a streaming query, about to be written.

    Attributes:
        handle: the table as it was when the query started.
        columns: of the rows: as the query has them when the sink is opened, as the table has them when it is planned.
        mode: "append"; "complete", where the rows replace all others; or "update", which needs a key.
        query_id: Spark's id of the query, which stays over restarts.
        epoch: the number of the micro-batch.
        planned: when Spark chose the rows of the epoch, in milliseconds since 1970; None if Spark does not tell.
        sources: the Lance tables that the query reads, whose blobs the rows may have.
    """

    handle: TableHandle
    columns: StructType
    mode: str
    query_id: str
    epoch: int
    options: Mapping[str, str] = field(default_factory=dict)
    planned: int | None = None
    sources: tuple[TableHandle, ...] = ()

    def sink_options(self) -> SinkOptions:
        """The options, checked."""
        return SinkOptions.parse(self.options, self.handle.uri)

    def mark(self) -> EpochMark:
        """The mark that the version of the epoch gets."""
        return EpochMark(self.sink_options().app or self.query_id, self.epoch, planned=self.planned)


@dataclass(frozen=True, slots=True)
class SinkTable:
    """The newest version of a sink's table.

    Attributes:
        is_done: whether the table has the epoch already, so that nothing is to be written.
        handle: the version; without a number if the epoch makes the table.
        schema: its columns; those of the rows if the epoch makes the table.
        merges_schema: whether columns that only the rows have are added.
    """

    is_done: bool
    handle: TableHandle
    schema: StructType
    merges_schema: bool = False


@dataclass(frozen=True, slots=True)
class EpochCommit:
    """An epoch whose tasks have finished; the job and their results are attached."""

    epoch: int


@dataclass(frozen=True, slots=True)
class EpochAbort:
    """An epoch that failed; the job, and the results of the tasks that finished, are attached.

    Attributes:
        commit_asked: whether the commit was asked for. Its version may be there although Spark had no reply.
    """

    epoch: int
    commit_asked: bool


@dataclass(frozen=True, slots=True)
class _PlannedEpoch:
    """Plan of an epoch, kept for its commit."""

    job: WriteJob | UpsertJob
    handle: TableHandle
    options: SinkOptions


@operation("stream.open_sink")
def open_sink(request: SinkRequest, call: Call) -> SinkTable:
    """The newest version of the table, and whether it has the epoch.

    Raises:
        StreamBehindError: it has a newer epoch of the query, or another one of this number.
        NotFoundError: the table or its branch was dropped, or another table is in its place.
        InvalidInputError: the output mode needs a key.
    """
    if request.mode == UPDATE:
        raise InvalidInputError(
            f"the output mode update replaces rows of {request.handle.display_name} by their key: give the option key, "
            "such as .option('key', 'id'), or use the output mode append or complete"
        )
    check_distinct(request.columns, case_sensitive=call.session.case_sensitive)
    options = request.sink_options()
    write = WriteOptions.parse({**_without_path(options.write), "path": request.handle.uri})
    mark = request.mark()
    newest, schema, config = _newest(_on_branch(request.handle, options), request.columns, mark.app)
    schema = with_extra_columns(schema, request.columns, options)
    is_done = mark.verdict(config) is Verdict.DONE
    if is_done:
        _log.info("epoch %d of query %s is in %s already", mark.epoch, mark.app, newest.display_name)
    else:
        mark.check(config, newest.display_name)
    return SinkTable(is_done, newest, schema, write.merge_schema)


@operation("stream.plan_sink")
def plan_sink(request: SinkRequest, call: Call) -> Reply:
    """The function of the tasks, and the job that the commit wants back."""
    options = request.sink_options()
    request.handle.check_place(options.write)
    write = WriteOptions.parse({**options.write, "path": request.handle.uri})
    write.log_without_effect()
    table = table_of(request.handle)
    if options.key is not None:
        return _plan_upsert(request, options, write, blob_inputs(call.session, request.sources))
    asked = OVERWRITE_ROWS if request.mode == COMPLETE else APPEND
    mode = table.write_mode(RequestedMode(asked, _EVERYTHING, None, STATIC))
    job = table.plan_write(request.columns, mode, write, None)
    options_of_commit = replace(job.commit_options, mark=request.mark())
    job = replace(job, commit_options=options_of_commit, blobs=blob_inputs(call.session, request.sources))
    layout = table.layout(job, write)
    sorted_by = (*layout.clustering, *layout.ordering)
    if any(column[0] not in request.columns.fieldNames() for item in sorted_by for column in item.columns):
        layout = Layout()  # Rows cannot be distributed by columns that tasks compute.
    summary = WriteSummary(
        f"lance streaming {request.mode} {request.handle.display_name}",
        layout.distribution,
        layout.clustering,
        ordering=layout.ordering,
    )
    epoch = _PlannedEpoch(job, request.handle, options)
    return Reply(summary, (command(JobTask(job), MESSAGE_TYPE), pickle.dumps(epoch)))


def _plan_upsert(request: SinkRequest, options: SinkOptions, write: WriteOptions, blobs: BlobInputs) -> Reply:
    if request.mode == COMPLETE:
        raise InvalidInputError("option key is for the output modes append and update; complete replaces all rows")
    job = plan_upsert(request.handle, request.columns, options, write, request.mark())
    job = replace(job, append=replace(job.append, blobs=blobs))
    clustering = tuple(SparkTransform("identity", ((name,),)) for name in job.keys.names)
    summary = WriteSummary(f"lance streaming upsert {request.handle.display_name}", "hash", clustering)
    epoch = _PlannedEpoch(job, request.handle, options)
    return Reply(summary, (command(JobTask(job), MESSAGE_TYPE), pickle.dumps(epoch)))


@operation("stream.commit")
def commit(request: EpochCommit, call: Call) -> Written:
    """Commits an epoch once: if the table has it already, the new files are removed."""
    planned, results = _planned(call), unpickle_results(call.attachments[1:])
    counted = counts_of(results)
    try:
        made = planned.job.commit(results)
    except EpochCommittedError:
        _log.info("epoch %d was committed by another run of the query; its files are removed", request.epoch)
        return Written({"replays": 1})
    if made is not None and planned.options.auto_compact:
        _compact(planned)
    return Written({**counted, "commits_of_others": planned.job.others_commits(made)})


@operation("stream.abort")
def abort(request: EpochAbort, call: Call) -> Done:
    """Removes the files of a failed epoch, unless a version may have them.

    After a lost reply Spark aborts an epoch that is committed, with the results of its tasks.
    """
    if not request.commit_asked:
        _planned(call).job.abort(unpickle_results(call.attachments[1:]), all_tasks_finished=False)
    return Done()


def _planned(call: Call) -> _PlannedEpoch:
    # Pickled by `plan_sink` for this very epoch.
    planned: _PlannedEpoch = pickle.loads(call.attachments[0])
    return planned


def _compact(epoch: _PlannedEpoch) -> None:
    """Compacts the newest version of the table, after the epoch's commit."""
    name = epoch.handle.display_name
    try:
        table = find_table(epoch.handle.location())
    except LanceError as error:
        _log.warning("the epoch is committed to %s, but its files cannot be counted for a compaction: %s", name, error)
        return
    if table is not None:
        compact_after_epoch(table, epoch.options.auto_compact_min_files, name)


def _on_branch(handle: TableHandle, options: SinkOptions) -> TableHandle:
    branch = StateOptions.pick(options.write).branch
    if branch is None or branch == (handle.branch or MAIN):
        return handle
    if handle.branch is not None:
        raise InvalidInputError(f"option branch is {branch!r}, but the table is branch {handle.branch!r}; keep one")
    if handle.version is not None:
        # Raises for tables that have no branches.
        handle.dataset().on_branch(branch)
    return replace(handle, branch=branch)


def _newest(handle: TableHandle, columns: StructType, app: str) -> tuple[TableHandle, StructType, Mapping[str, str]]:
    """The newest version, its columns, and the config that has its marks."""
    newest = find_table(handle.location())
    if newest is None:
        if handle.version is not None:
            raise NotFoundError(f"the table {handle.display_name} was dropped")
        return handle, columns.toNullable(), {}
    opened = handle.at(newest)
    config = newest.versions_manifest.config
    if handle.branch is None:
        _check_same(handle, opened, is_marked=committed_epoch(config, app) is not None)
    shown = written_columns(newest.lance_schema, newest.file_version, newest.properties)
    return opened, brought_columns(shown, newest.lance_schema, columns), config


def _check_same(started: TableHandle, newest: TableHandle, *, is_marked: bool) -> None:
    """Passes if a version can be a later one of the table that the query was started with.

    Args:
        is_marked: whether it has an epoch of the query. A new table at the same place has none, and only then the
            version that the query was started with is read again.

    Raises:
        NotFoundError: it cannot: versions do not go back, and keep their commit times.
    """
    if started.version is None or started.timestamp_nanos is None or newest.version is None:
        return
    is_same = newest.version >= started.version
    if is_same and newest.version == started.version:
        is_same = newest.timestamp_nanos == started.timestamp_nanos
    elif is_same and not is_marked:
        is_same = _timestamp_of(newest, started.version) in (None, started.timestamp_nanos)
    if not is_same:
        raise NotFoundError(
            f"{started.display_name} was dropped and created again while the query ran; start the query again"
        )


def _timestamp_of(newest: TableHandle, version: int) -> int | None:
    """Commit time of a version in nanoseconds; None if it was cleaned up."""
    try:
        opened = find_table(newest.location(), version=version)
        return None if opened is None else opened.versions_manifest.timestamp_nanos
    except NotFoundError:
        return None


def _without_path(options: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in options.items() if name.lower() != "path"}
