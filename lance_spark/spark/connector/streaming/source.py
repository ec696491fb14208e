"""Operations of the streaming source: offsets, limits, and the tasks of a batch (docs/design/036-streaming.md)."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field

from lance_spark.spark.connector.channel.registry import Call, Reply, operation
from lance_spark.spark.connector.channel.task_metrics import MeteredTask
from lance_spark.spark.connector.channel.tasks import command
from lance_spark.spark.connector.channel.wire_types import wire_schema
from lance_spark.spark.connector.scan.changelog import grouped_changes
from lance_spark.spark.connector.streaming.parsed_stream import ParsedStream, StreamRequest, StreamState
from lance_spark.spark.streaming.admission import StreamReader
from lance_spark.spark.streaming.offsets import BEGINNING, Offset
from lance_spark.table.refs.tagging import hold_name, hold_versions

DEFAULT_TRIGGER_DELAY = 15 * 60.0
"""Seconds after which a batch comes that has less than minRowsPerTrigger rows."""


@dataclass(frozen=True, slots=True)
class OpenedStream:
    """A stream; the function of its tasks is attached.

    Attributes:
        description: for progress and logs.
        poll_millis: for how long a listing counts as fresh while nothing is new.
    """

    state: StreamState
    description: str
    poll_millis: int


@dataclass(frozen=True, slots=True)
class LatestRequest:
    """The next batch of a stream.

    Attributes:
        start: where it begins.
        ending: where the whole query ends, if that is fixed; None for the newest version.
        is_limited: whether the options limit the batch.
        waited_millis: since the last batch.
        query: the id of the streaming query; None if it holds the versions after `start` already.
        source: which source of the query this is.
    """

    state: StreamState
    start: str
    ending: str | None = None
    is_limited: bool = True
    waited_millis: int = 0
    query: str | None = None
    source: str = "0"


@dataclass(frozen=True, slots=True)
class LatestReply:
    """The end of the next batch, and the end of what is there."""

    end: str
    latest: str


@dataclass(frozen=True, slots=True)
class StateRequest:
    """A question about a stream."""

    state: StreamState


@dataclass(frozen=True, slots=True)
class OffsetReply:
    """An offset as text."""

    offset: str


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A batch, by the offsets in the log."""

    state: StreamState
    start: str
    end: str


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """A batch; the work of its tasks is attached.

    Attributes:
        counts: files, rows (those that are not deleted) and bytes of the files, for the progress of the query; none for
            a stream of changes, which reads its versions in the tasks.
    """

    counts: Mapping[str, int] = field(default_factory=dict)


@operation("stream.open")
def open_stream(request: StreamRequest, call: Call) -> Reply:
    """The state of a stream, and the function of its tasks.

    Raises:
        InvalidInputError: an option is invalid.
    """
    stream = ParsedStream.begin(request)
    options = stream.options
    function = command(MeteredTask(stream.task(call, wire_schema(request.columns))), request.columns)
    rows = "changes" if options.read_change_feed else "rows"
    description = f"lance {rows} of {request.handle.display_name}"
    return Reply(OpenedStream(stream.state, description, int(options.poll_interval * 1000)), (function,))


@operation("stream.initial")
def initial(request: StateRequest, _call: Call) -> OffsetReply:
    """The offset where a new query begins."""
    return OffsetReply(ParsedStream.of(request.state).reader.initial().to_json())


@operation("stream.newest")
def newest(request: StateRequest, _call: Call) -> OffsetReply:
    """The end of what is there now."""
    return OffsetReply(ParsedStream.of(request.state).reader.latest().to_json())


@operation("stream.latest")
def latest(request: LatestRequest, _call: Call) -> LatestReply:
    """The end of the next batch: `start` if there is nothing to read yet.

    Raises:
        NotFoundError: a version that the stream needs was cleaned up.
        IncompatibleConflictError: a version changes what the stream cannot follow.
    """
    stream = ParsedStream.of(request.state)
    reader, last = stream.reader, stream.last_version
    start, newest = Offset.from_json(request.start), reader.latest()
    if last is not None and newest.version > last:
        # The timestamp is not looked at: the next batch never goes there.
        newest = Offset(last)
    ending = newest if request.ending is None else min(newest, Offset.from_json(request.ending))
    end, budget = reader.advance(start, ending, limited=request.is_limited)
    options = reader.options
    if request.is_limited and request.ending is None and options.min_rows is not None:
        delay = DEFAULT_TRIGGER_DELAY if options.max_trigger_delay is None else options.max_trigger_delay
        if budget.rows < options.min_rows and request.waited_millis < delay * 1000:
            end = start
    if options.hold_versions and request.query is not None:
        _hold(reader, hold_name(request.query, request.source), start, end)
    return LatestReply(request.start if end == start else end.to_json(), newest.to_json())


def _hold(reader: StreamReader, name: str, start: Offset, end: Offset) -> None:
    """Keeps what is read from `start` on. All before has been processed: Spark asks after the commit of a batch."""
    first = end if start == BEGINNING else start
    if first != BEGINNING:
        hold_versions(reader.history.location, name, first.version)


@operation("stream.plan")
def plan(request: BatchRequest, call: Call) -> Reply:
    """The work of the tasks between two offsets, attached; nothing is needed but the offsets."""
    stream = ParsedStream.of(request.state)
    start, end = Offset.from_json(request.start), Offset.from_json(request.end)
    if stream.options.read_change_feed:
        groups = grouped_changes(stream.changes(start, end).tasks)
        return Reply(PlannedBatch(), tuple(pickle.dumps(group) for group in groups))
    files = list(stream.reader.files(start, end))
    work = stream.files_work(files, call)
    counts = {
        "files": len(files),
        "rows": sum(file.num_rows for file in files),
        "bytes": sum(file.size_bytes for file in files),
    }
    return Reply(PlannedBatch(counts), tuple(item.to_bytes() for item in work))
