"""Writing: planned before the tasks start, committed when all have told what they wrote."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql.types import StructType

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.spark.bridge.expressions import SparkExpression
from lance_spark.spark.bridge.handles import TableHandle
from lance_spark.spark.bridge.registry import Call, Done, Reply, operation
from lance_spark.spark.bridge.scan import Taken
from lance_spark.spark.bridge.table import commit_job, staged_job
from lance_spark.spark.bridge.tasks import MESSAGE_TYPE, WriteTask, command
from lance_spark.spark.options import WriteOptions
from lance_spark.spark.write_job import TRUNCATE, WriteJob
from lance_spark.table.save import APPEND, OVERWRITE

_ALWAYS_TRUE = "ALWAYS_TRUE"


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """A write as Spark has asked for it so far.

    Attributes:
        columns: of the rows.
        mode: "append", "overwrite" (of the rows for which `predicates` are true) or "overwrite_dynamic".
    """

    handle: TableHandle
    columns: StructType
    mode: str
    options: Mapping[str, str] = field(default_factory=dict)
    predicates: tuple[SparkExpression, ...] = ()

    def write_options(self) -> WriteOptions:
        """The options of the write; where the table is, is in the handle."""
        return WriteOptions.parse({**self.options, "path": self.handle.uri})


@dataclass(frozen=True, slots=True)
class WriteSummary:
    """What EXPLAIN says."""

    description: str


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """A write that is to be committed; the job, and what its tasks told, are attached."""


@dataclass(frozen=True, slots=True)
class AbortRequest:
    """A write that failed; the job is attached."""

    all_tasks_told: bool


@operation("write.can_overwrite")
def can_overwrite(request: WriteRequest, _call: Call) -> Taken:
    """Whether exactly the rows of these filters can be replaced."""
    return Taken(_is_everything(request))


@operation("write.plan")
def plan(request: WriteRequest, _call: Call) -> Reply:
    """The function of the tasks, and the job that the commit wants back."""
    job = _job(request)
    attachments = (command(WriteTask(job), MESSAGE_TYPE), pickle.dumps(job))
    return Reply(WriteSummary(f"lance {job.mode} {request.handle.uri}"), attachments)


@operation("write.commit")
def commit(_request: CommitRequest, call: Call) -> Done:
    """Commits; false if there was nothing to change."""
    return Done(commit_job(call.attachments) is not None)


@operation("write.abort")
def abort(request: AbortRequest, call: Call) -> Done:
    """Removes the files of the job."""
    job: WriteJob = pickle.loads(call.attachments[0])
    job.abort(all_tasks_told=request.all_tasks_told)
    return Done()


def _job(request: WriteRequest) -> WriteJob:
    handle = request.handle
    if handle.staged is not None:
        return staged_job(handle, request.columns, request.options)
    mode = _mode(request)
    base = None if handle.version is None else handle.open()[1]
    return WriteJob.of(handle.location(), base, request.columns, mode, request.write_options())


def _mode(request: WriteRequest) -> str:
    if request.mode == "append":
        return APPEND
    # A table without partitions is one partition.
    if request.mode == "overwrite_dynamic" or _is_everything(request):
        return OVERWRITE if request.handle.replaces_schema or request.handle.version is None else TRUNCATE
    if request.mode != "overwrite":
        raise InvalidInputError(f"unknown mode {request.mode!r} of a write")
    raise UnsupportedFeatureError("only all rows of a table can be replaced", feature="overwrite by filter")


def _is_everything(request: WriteRequest) -> bool:
    return all(predicate.name == _ALWAYS_TRUE for predicate in request.predicates)
