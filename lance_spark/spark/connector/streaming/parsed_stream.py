"""One stream of the connector: its options, parsed once, and the plans of its batches."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone

import pyarrow as pa
from pyspark.sql.types import StructType

from lance_spark.cached import cached_property
from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.expr.nodes import quote_name
from lance_spark.file_version import FileVersion
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.wire import schema_from_bytes, schema_to_bytes
from lance_spark.spark.blobs.references import decoded_secret
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.registry import Call
from lance_spark.spark.connector.channel.tasks import ReadTask, ReadWork, SplitWork
from lance_spark.spark.connector.scan.changelog import ChangelogRange, ChangesTask, version_number
from lance_spark.spark.connector.scan.selection import SelectedFragments, SplitScan
from lance_spark.spark.connector.scan.task_packing import coalesced, pieces_of, split_parts, total_bytes, work_of
from lance_spark.spark.connector.streaming.change_columns import CHANGE_COLUMNS
from lance_spark.spark.options.names import OPTIONS_OF_CHANGES
from lance_spark.spark.partitions import task_bytes
from lance_spark.spark.projected_sizes import ProjectedSizes
from lance_spark.spark.scan_spec import ScanSpec, bound_to
from lance_spark.spark.streaming.admission import StreamReader
from lance_spark.spark.streaming.history import StreamFile, history_of
from lance_spark.spark.streaming.offsets import BEGINNING, Offset
from lance_spark.spark.streaming.options import SourceOptions
from lance_spark.table.change_feed.change_feed import ChangeFeed, FeedColumns, FeedCommit, snapshot_as_inserts
from lance_spark.table.change_feed.version_range import VersionRange
from lance_spark.table.reading.blobs.blob_columns import with_blob_descriptors
from lance_spark.table.reading.scan import Scan


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
        file_version: of the table's new data files; None if the table does not say.
    """

    request: StreamRequest
    schema: str
    file_version: str | None = None


class ParsedStream:
    """A stream whose options are parsed, for one request or for the time that a driver keeps it.

    Attributes:
        request: the stream.
        schema: the table's columns when it was planned.
        file_version: of the table's new data files then.
        options: of the stream and of its reads.

    Raises:
        InvalidInputError: an option is invalid.
        UnsupportedFeatureError: a stream does not have an option.
    """

    def __init__(self, request: StreamRequest, schema: LanceSchema, file_version: FileVersion | None) -> None:
        self.request = request
        self.schema = schema
        self.file_version = file_version
        self.options = _options(request)
        self._check()

    @classmethod
    def begin(cls, request: StreamRequest) -> ParsedStream:
        """A stream that begins, with the columns of the version that its DataFrame was made of."""
        source = request.handle.source()
        return cls(request, source.lance_schema, source.file_version)

    @classmethod
    def of(cls, state: StreamState) -> ParsedStream:
        """A stream that has begun."""
        named = state.file_version
        schema = schema_from_bytes(b64decode(state.schema))
        return cls(state.request, schema, None if named is None else FileVersion.parse(named))

    @property
    def state(self) -> StreamState:
        """The state that later requests carry."""
        schema = b64encode(schema_to_bytes(self.schema)).decode()
        return StreamState(self.request, schema, None if self.file_version is None else self.file_version.value)

    def _check(self) -> None:
        request, read = self.request, self.options.read
        request.handle.check_place(request.options)
        branch = request.handle.branch
        if read.branch is not None and read.branch != (branch or "main"):
            raise InvalidInputError(
                f"option branch is {read.branch!r}, but Spark looks the table up by its name without it; name it "
                f"db.table.branch_{read.branch}, or use load(path)"
            )
        if not self.options.read_change_feed:
            return
        if not {item.name for item in CHANGE_COLUMNS} <= set(request.columns.fieldNames()):
            raise InvalidInputError(
                "option readChangeFeed comes too late for a table by name; use load(path), or from Spark 4.2 on "
                "spark.readStream.changes(table)"
            )
        if read.filter is not None:
            raise InvalidInputError("option filter does not apply to changes; filter the DataFrame")

    @cached_property
    def reader(self) -> StreamReader:
        """The versions of the table, as this stream admits them."""
        handle = self.request.handle
        history = history_of(handle.uri, handle.storage_options, handle.branch, is_partitioned=handle.partitioned)
        return StreamReader(history, self.options, handle.display_name, self.schema, handle.version or 0)

    @cached_property
    def last_version(self) -> int | None:
        """The last version that a stream of changes reads; None if there is none.

        Raises:
            UnsupportedFeatureError: the end is a moment.
        """
        changes = self.request.changes
        if changes is None or (changes.ending_version is None and changes.ending_micros is None):
            return None
        if changes.ending_version is None:
            raise UnsupportedFeatureError(
                "a stream of changes ends at a version, not at a moment; give endingVersion", feature="endingTimestamp"
            )
        return version_number(changes.ending_version) - (0 if changes.ending_inclusive else 1)

    def _spec(self, call: Call, columns: LanceSchema) -> ScanSpec:
        """A read of the stream from files with these columns."""
        return ScanSpec.of(
            columns,
            self.file_version,
            self.request.columns,
            self.options.read,
            time_zone=call.session.time_zone,
        )

    def _scan(self, spec: ScanSpec) -> Scan:
        """The scan that tasks run on each split; it is bound to none."""
        return spec.scan(self.request.handle.unbound_bases(), self.options.read.filter)

    def task(self, call: Call, target: pa.Schema) -> ReadTask | ChangesTask:
        """The function of the stream's tasks.

        Args:
            target: the columns in the Arrow types that Spark expects.

        Raises:
            InvalidInputError: Spark has looked the table up without an option, so it has no effect.
        """
        key = decoded_secret(call.session.blob_key)
        if self.options.read_change_feed:
            return ChangesTask(tuple(self.request.columns.fieldNames()), target, key)
        spec = self._spec(call, self.schema)
        scan = self._scan(spec)
        spec.check_shown(scan, self.request.handle.display_name)
        return ReadTask(scan, target, blob_key=key)

    def files_work(self, files: Sequence[StreamFile], call: Call) -> list[ReadWork]:
        """The work of the tasks that read some files."""
        scan = self._scan(self._spec(call, self.schema))
        splits: list[SplitScan] = []
        firsts: list[StreamFile] = []
        places: dict[int, int] = {}
        selected: list[SelectedFragments] = []
        for file in files:
            place = places.get(id(file.split))
            if place is None:
                place = places[id(file.split)] = len(splits)
                splits.append(SplitScan(file.split, bound_to(scan, file.split)))
                firsts.append(file)
            fragments = file.split.manifest.fragments
            number = fragments.place_of(file.fragment.id)
            if selected and (selected[-1].split, selected[-1].stop) == (place, number):
                selected[-1] = replace(selected[-1], stop=number + 1)
            else:
                selected.append(SelectedFragments(place, fragments, number, number + 1))
        pieces = list(pieces_of(selected, splits, ProjectedSizes(scan.schema, scan.projection)))
        target = task_bytes(self.options.read.target_partition_bytes, total_bytes(pieces), call.session.parallelism)
        parts = split_parts(pieces, target)
        packs = ([parts[number] for number in pack] for pack in coalesced(parts, target))
        older = {id(file.columns): self._older(call, file.columns) for file in firsts if file.columns is not None}

        def of_stream(work: SplitWork, first: StreamFile) -> SplitWork:
            return replace(work, older=older.get(id(first.columns)), constants=first.constants)

        return [
            ReadWork(tuple(of_stream(work, firsts[part.split]) for part, work in pairs))
            for pairs in (zip(pack, work_of(pack, splits), strict=True) for pack in packs)
        ]

    def _older(self, call: Call, columns: LanceSchema) -> tuple[LanceSchema, LanceSchema]:
        """The columns of older files, and those of them that the stream returns."""
        spec = self._spec(call, columns)
        return spec.schema, spec.projection

    def changes(self, start: Offset, end: Offset) -> ChangeFeed:
        """The changes between two offsets."""
        added = {item.name for item in CHANGE_COLUMNS}
        columns = [quote_name(name) for name in self.request.columns.fieldNames() if name not in added]
        if start == end:
            return ChangeFeed(pa.schema([]), ())
        if start.snapshot:
            begin = 0 if start == BEGINNING else start.index
            files = self.reader.history.snapshot(end.version)[begin : None if end.is_complete else end.index]
            pairs = [(file.split, file.fragment) for file in files]
            commit = FeedCommit(end.version, end.timestamp)
            return snapshot_as_inserts(self._feed_columns(end.version), pairs, columns, commit)
        # Columns that came later are not the stream's: it stops at versions that change those that it has.
        feeds = [
            self.reader.history.plan_changes(versions, columns, self._feed_columns(versions.last))
            for versions in _ranges(start.version + 1, end.version, self.options.skip_versions)
        ]
        return ChangeFeed(pa.schema([]), tuple(task for feed in feeds for task in feed.tasks))

    def _feed_columns(self, version: int) -> FeedColumns:
        """The columns of the stream, and those that they are in a version."""
        fields = FeedColumns.of(with_blob_descriptors(self.schema, self.file_version, with_source=True))
        older = self.reader.older_columns(version)
        if older is None:
            return fields
        return replace(fields, stored=with_blob_descriptors(older, self.file_version, with_source=True))


def _options(request: StreamRequest) -> SourceOptions:
    if request.changes is None:
        return SourceOptions.parse(request.options, request.handle.uri)
    # Spark has read these options itself: they are in the range.
    rest = {name: value for name, value in request.options.items() if name.lower() not in OPTIONS_OF_CHANGES}
    options = SourceOptions.parse(rest, request.handle.uri)
    first, moment = request.changes.starting_version, request.changes.starting_micros
    if moment is not None:
        after = 0 if request.changes.starting_inclusive else 1
        begin = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=moment + after)
        return replace(options, read_change_feed=True, starting_timestamp=begin)
    number = 1 if first is None else version_number(first)
    number += 0 if request.changes.starting_inclusive or first is None else 1
    return replace(options, read_change_feed=True, starting_version=number)


def _ranges(first: int, last: int, skipped: frozenset[int]) -> Iterator[VersionRange]:
    """The versions from `first` to `last` without those that are skipped."""
    for stop in sorted({number for number in skipped if first <= number <= last} | {last + 1}):
        if first < stop:
            yield VersionRange(first, stop - 1)
        first = stop + 1
