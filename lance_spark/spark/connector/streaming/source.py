"""The streaming source: offsets, limits, and the tasks of a batch (docs/design/036-streaming.md)."""

from __future__ import annotations

import pickle
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone

import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.expr.nodes import quote_name
from lance_spark.partitioned.change_feed import plan_range
from lance_spark.partitioned.table import open_partitioned
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.wire import schema_from_bytes, schema_to_bytes
from lance_spark.spark.blobs.references import decoded_secret
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.registry import Call, Reply, operation
from lance_spark.spark.connector.channel.task_metrics import MeteredTask
from lance_spark.spark.connector.channel.tasks import ReadTask, ReadWork, SplitWork, command
from lance_spark.spark.connector.channel.wire_types import wire_schema
from lance_spark.spark.connector.scan.changelog import ChangelogRange, ChangesTask, grouped_changes, version_number
from lance_spark.spark.connector.scan.selection import SelectedFragments, SplitScan
from lance_spark.spark.connector.scan.task_packing import coalesced, pieces_of, split_parts, total_bytes, work_of
from lance_spark.spark.connector.streaming.change_columns import CHANGE_COLUMNS
from lance_spark.spark.options.names import OPTIONS_OF_CHANGES
from lance_spark.spark.options.options import BATCH_BYTES, ReadOptions
from lance_spark.spark.partitions import task_bytes
from lance_spark.spark.projected_sizes import ProjectedSizes
from lance_spark.spark.projection import narrow
from lance_spark.spark.streaming.admission import StreamReader
from lance_spark.spark.streaming.history import StreamFile, history_of
from lance_spark.spark.streaming.offsets import BEGINNING, Offset
from lance_spark.spark.streaming.options import SourceOptions
from lance_spark.storage import open_store
from lance_spark.table.bases import Bases, options_of
from lance_spark.table.change_feed.change_feed import (
    ChangeFeed,
    FeedColumns,
    FeedCommit,
    plan_changes,
    snapshot_as_inserts,
)
from lance_spark.table.change_feed.version_range import VersionRange
from lance_spark.table.reading.blobs.blob_columns import with_blob_descriptors
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.system_columns import SYSTEM_FIELDS
from lance_spark.table.refs.tagging import hold_name, hold_versions
from lance_spark.table.source import Split

DEFAULT_TRIGGER_DELAY = 15 * 60.0
"""Seconds after which a batch comes that has less than minRowsPerTrigger rows."""


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """A stream that a query is about to start.

    Attributes:
        handle: the version that the DataFrame was made of.
        columns: what the stream returns.
        changes: the versions whose changes are read; None for a stream that its options describe.
    """

    handle: TableHandle
    columns: StructType
    options: Mapping[str, str] = field(default_factory=dict)
    changes: ChangelogRange | None = None


@dataclass(frozen=True, slots=True)
class StreamState:
    """State that every later request of a stream carries; Java returns it unchanged.

    Attributes:
        request: the stream.
        schema: the table's columns as `lance.file.Schema` in base64: the version of the handle may be cleaned up later.
    """

    request: StreamRequest
    schema: str


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
    options = _options(request)
    state = state_of(request)
    task = stream_task(state, call, wire_schema(request.columns))
    function = command(MeteredTask(task), request.columns)
    what = "changes" if options.read_change_feed else "rows"
    description = f"lance {what} of {request.handle.display_name}"
    return Reply(OpenedStream(state, description, int(options.poll_interval * 1000)), (function,))


def state_of(request: StreamRequest) -> StreamState:
    """The state of a stream that begins. Raises as `open_stream`."""
    _read_options(request, _options(request))
    return StreamState(request, b64encode(schema_to_bytes(request.handle.source().lance_schema)).decode())


def stream_task(state: StreamState, call: Call, target: pa.Schema) -> ReadTask | ChangesTask:
    """The function of a stream's tasks.

    Args:
        target: the columns in the Arrow types that Spark expects.
    """
    request, options = state.request, _options(state.request)
    key = decoded_secret(call.session.blob_key)
    if options.read_change_feed:
        return ChangesTask(tuple(request.columns.fieldNames()), target, key)
    return ReadTask(_scan(state, options, call), target, blob_key=key)


@operation("stream.initial")
def initial(request: StateRequest, _call: Call) -> OffsetReply:
    """The offset where a new query begins."""
    return OffsetReply(_reader(request.state).initial().to_json())


@operation("stream.newest")
def newest(request: StateRequest, _call: Call) -> OffsetReply:
    """The end of what is there now."""
    return OffsetReply(_reader(request.state).latest().to_json())


@operation("stream.latest")
def latest(request: LatestRequest, _call: Call) -> LatestReply:
    """The end of the next batch: `start` if there is nothing to read yet.

    Raises:
        NotFoundError: a version that the stream needs was cleaned up.
        IncompatibleConflictError: a version changes what the stream cannot follow.
    """
    reader = _reader(request.state)
    start, known = Offset.from_json(request.start), reader.latest()
    last = _last_version(request.state.request)
    if last is not None and known.version > last:
        # The timestamp is not looked at: the next batch never goes there.
        known = Offset(last)
    ending = known if request.ending is None else min(known, Offset.from_json(request.ending))
    end, budget = reader.advance(start, ending, limited=request.is_limited)
    options = reader.options
    if request.is_limited and request.ending is None and options.min_rows is not None:
        delay = DEFAULT_TRIGGER_DELAY if options.max_trigger_delay is None else options.max_trigger_delay
        if budget.rows < options.min_rows and request.waited_millis < delay * 1000:
            end = start
    if options.hold_versions and request.query is not None:
        _hold(reader, hold_name(request.query, request.source), start, end)
    return LatestReply(request.start if end == start else end.to_json(), known.to_json())


def _hold(reader: StreamReader, name: str, start: Offset, end: Offset) -> None:
    """Keeps what is read from `start` on. All before has been processed: Spark asks after the commit of a batch."""
    first = end if start == BEGINNING else start
    if first != BEGINNING:
        hold_versions(reader.history.location, name, first.version)


@operation("stream.plan")
def plan(request: BatchRequest, call: Call) -> Reply:
    """The work of the tasks between two offsets, attached; nothing is needed but the offsets."""
    reader = _reader(request.state)
    start, end = Offset.from_json(request.start), Offset.from_json(request.end)
    if reader.options.read_change_feed:
        feed = _changes(request.state, reader, start, end)
        return Reply(PlannedBatch(), tuple(pickle.dumps(group) for group in grouped_changes(feed.tasks)))
    files = list(reader.files(start, end))
    work = _work(request.state, reader.options, files, call)
    counts = {
        "files": len(files),
        "rows": sum(file.num_rows for file in files),
        "bytes": sum(file.size_bytes for file in files),
    }
    return Reply(PlannedBatch(counts), tuple(item.to_bytes() for item in work))


def _options(request: StreamRequest) -> SourceOptions:
    if request.changes is None:
        return SourceOptions.parse(request.options, request.handle.uri)
    # Spark has read these options itself: they are in the range.
    rest = {name: value for name, value in request.options.items() if name.lower() not in OPTIONS_OF_CHANGES}
    options = SourceOptions.parse(rest, request.handle.uri)
    first, moment = request.changes.starting_version, request.changes.starting_micros
    if moment is not None:
        after = 0 if request.changes.starting_inclusive else 1
        asked = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=moment + after)
        return replace(options, read_change_feed=True, starting_timestamp=asked)
    number = 1 if first is None else version_number(first)
    number += 0 if request.changes.starting_inclusive or first is None else 1
    return replace(options, read_change_feed=True, starting_version=number)


def _last_version(request: StreamRequest) -> int | None:
    """The last version that a stream of changes reads; None if there is none.

    Raises:
        UnsupportedFeatureError: the end is a moment.
    """
    asked = request.changes
    if asked is None or (asked.ending_version is None and asked.ending_micros is None):
        return None
    if asked.ending_version is None:
        raise UnsupportedFeatureError(
            "a stream of changes ends at a version, not at a moment; give endingVersion", feature="endingTimestamp"
        )
    return version_number(asked.ending_version) - (0 if asked.ending_inclusive else 1)


def _read_options(request: StreamRequest, options: SourceOptions) -> ReadOptions:
    request.handle.check_place(options.read)
    parsed = ReadOptions.parse({**options.read, "path": request.handle.uri})
    branch = request.handle.branch
    if parsed.branch is not None and parsed.branch != (branch or "main"):
        raise InvalidInputError(
            f"option branch is {parsed.branch!r}, but Spark looks the table up by its name without it; name it "
            f"db.table.branch_{parsed.branch}, or use load(path)"
        )
    has_feed = {item.name for item in CHANGE_COLUMNS} <= set(request.columns.fieldNames())
    if options.read_change_feed and not has_feed:
        raise InvalidInputError(
            "option readChangeFeed comes too late for a table by name; use spark.readStream.changes(table), or "
            "load(path)"
        )
    if options.read_change_feed and parsed.filter is not None:
        raise InvalidInputError("option filter does not apply to changes; filter the DataFrame")
    return parsed


def _reader(state: StreamState) -> StreamReader:
    handle = state.request.handle
    history = history_of(handle.uri, handle.storage_options, handle.branch, is_partitioned=handle.partitioned)
    schema = schema_from_bytes(b64decode(state.schema))
    return StreamReader(history, _options(state.request), handle.display_name, schema, handle.version or 0)


def _scan(state: StreamState, options: SourceOptions, call: Call) -> Scan:
    """The scan that tasks run on each split; it is bound to none."""
    request = state.request
    handle, read = request.handle, _read_options(request, options)
    schema, projection = _projected(state, schema_from_bytes(b64decode(state.schema)))
    scan = Scan.of(
        schema,
        Bases(open_store(handle.uri, options_of(handle.storage_options)), (), handle.storage_options),
        columns=[],
        filter=read.filter,
        batch_rows=read.batch_size,
        window_bytes=read.max_batch_bytes,
        time_zone=call.session.time_zone,
    )
    return replace(scan.returning(projection, tuple(request.columns.fieldNames())), batch_bytes=BATCH_BYTES)


def _projected(state: StreamState, columns: LanceSchema) -> tuple[LanceSchema, LanceSchema]:
    """`columns` of the stream as they are in files, and those of them that it returns."""
    request = state.request
    schema = with_blob_descriptors(columns, request.handle.source().file_version, with_source=True)
    return schema, narrow(schema, request.columns, SYSTEM_FIELDS)


def _work(state: StreamState, options: SourceOptions, files: Iterable[StreamFile], call: Call) -> list[ReadWork]:
    read = _read_options(state.request, options)
    scan = _scan(state, options, call)
    splits: list[SplitScan] = []
    firsts: list[StreamFile] = []
    places: dict[int, int] = {}
    selected: list[SelectedFragments] = []
    for file in files:
        place = places.get(id(file.split))
        if place is None:
            place = places[id(file.split)] = len(splits)
            splits.append(SplitScan(file.split, _bound(scan, file.split)))
            firsts.append(file)
        fragments = file.split.manifest.fragments
        number = fragments.place_of(file.fragment.id)
        if selected and (selected[-1].split, selected[-1].stop) == (place, number):
            selected[-1] = replace(selected[-1], stop=number + 1)
        else:
            selected.append(SelectedFragments(place, fragments, number, number + 1))
    pieces = list(pieces_of(selected, splits, ProjectedSizes(scan.schema, scan.projection)))
    target = task_bytes(read.target_partition_bytes, total_bytes(pieces), call.session.parallelism)
    parts = split_parts(pieces, target)
    packs = ([parts[number] for number in pack] for pack in coalesced(parts, target))
    older = {id(file.columns): _projected(state, file.columns) for file in firsts if file.columns is not None}

    def of_stream(work: SplitWork, first: StreamFile) -> SplitWork:
        return replace(work, older=older.get(id(first.columns)), constants=first.constants)

    return [
        ReadWork(tuple(of_stream(work, firsts[part.split]) for part, work in pairs))
        for pairs in (zip(pack, work_of(pack, splits), strict=True) for pack in packs)
    ]


def _bound(scan: Scan, split: Split) -> Scan:
    return replace(scan, bases=split.bases, stable_row_ids=split.manifest.has_stable_row_ids)


def _changes(state: StreamState, reader: StreamReader, start: Offset, end: Offset) -> ChangeFeed:
    names = state.request.columns.fieldNames()
    added = {item.name for item in CHANGE_COLUMNS}
    columns = [quote_name(name) for name in names if name not in added]
    if start == end:
        return ChangeFeed(pa.schema([]), ())
    if start.snapshot:
        begin = 0 if start == BEGINNING else start.index
        files = reader.history.snapshot(end.version)[begin : None if end.is_complete else end.index]
        pairs = [(file.split, file.fragment) for file in files]
        return snapshot_as_inserts(
            _feed_columns(state, reader, end.version), pairs, columns, FeedCommit(end.version, end.timestamp)
        )
    feeds = [
        _feed(state, reader, versions, columns)
        for versions in _ranges(start.version + 1, end.version, reader.options.skip_versions)
    ]
    return ChangeFeed(pa.schema([]), tuple(task for feed in feeds for task in feed.tasks))


def _ranges(first: int, last: int, skipped: frozenset[int]) -> Iterator[VersionRange]:
    """The versions from `first` to `last` without those that are skipped."""
    for stop in sorted({number for number in skipped if first <= number <= last} | {last + 1}):
        if first < stop:
            yield VersionRange(first, stop - 1)
        first = stop + 1


def _feed(state: StreamState, reader: StreamReader, versions: VersionRange, columns: Sequence[str]) -> ChangeFeed:
    handle = state.request.handle
    # Columns that came later are not the stream's: it stops at versions that change those that it has.
    known = _feed_columns(state, reader, versions.last)
    if not handle.partitioned:
        return plan_changes(reader.history.location, versions, columns, known)
    table = open_partitioned(handle.uri, version=versions.last, storage_options=handle.storage_options)
    return plan_range(table, versions, columns, known)


def _feed_columns(state: StreamState, reader: StreamReader, version: int) -> FeedColumns:
    """The columns of the stream, and those that they are in a version."""
    file_version = state.request.handle.source().file_version
    known = FeedColumns.of(with_blob_descriptors(reader.schema, file_version, with_source=True))
    older = reader.older_columns(version)
    if older is None:
        return known
    return replace(known, stored=with_blob_descriptors(older, file_version, with_source=True))
