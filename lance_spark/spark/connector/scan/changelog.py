"""CHANGES FROM VERSION a TO VERSION b: what versions of a table have changed, row by row."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import partial

import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from lance_spark.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_spark.expr.nodes import quote_name
from lance_spark.partitioned.access import find_table
from lance_spark.partitioned.dataset import PartitionedDataset
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.spark.blobs.columns import DESCRIPTIONS, blobs_viewed, with_signed_sources
from lance_spark.spark.blobs.references import decoded_secret
from lance_spark.spark.connector.catalog.table import LoadRequest, load
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.connector.channel.registry import Call, Reply, operation
from lance_spark.spark.connector.channel.task_metrics import MeteredTask
from lance_spark.spark.connector.channel.tasks import command, work_of
from lance_spark.spark.connector.channel.wire_types import to_wire_batch, wire_schema
from lance_spark.spark.connector.scan.requests import ScanPlan
from lance_spark.spark.options.options import check_options_of_changes
from lance_spark.spark.types.schemas import to_spark_schema
from lance_spark.table.change_feed.change_feed import (
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    ChangeTask,
    FeedColumns,
)
from lance_spark.table.change_feed.version_range import VersionRange
from lance_spark.table.dataset import Dataset
from lance_spark.table.reading.blobs.blob_columns import with_blob_descriptors

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_ADDED = (
    StructField(CHANGE_TYPE, StringType(), False),
    StructField(COMMIT_VERSION, LongType(), False),
    StructField(COMMIT_TIMESTAMP, TimestampType(), False),
)
_TASK_ROWS = 1_000_000
"""Changes of small versions are read together."""


@dataclass(frozen=True, slots=True)
class ChangelogRange:
    """Versions, or moments in microseconds since 1970; the end is the newest version if nothing is said."""

    starting_version: str | None = None
    ending_version: str | None = None
    starting_micros: int | None = None
    ending_micros: int | None = None
    starting_inclusive: bool = True
    ending_inclusive: bool = True


@dataclass(frozen=True, slots=True)
class ChangelogRequest:
    """A changelog to load: of a table, over a range of its versions.

    Attributes:
        deduplication: "none", "drop_carryovers" (there are none), or "net_changes".
        compute_updates: whether a delete and an insert of one row are to show as an update.
    """

    table: LoadRequest
    range: ChangelogRange
    deduplication: str = "none"
    compute_updates: bool = False


@dataclass(frozen=True, slots=True)
class ChangelogReply:
    """The changelog, if there is the table."""

    found: bool
    handle: TableHandle | None = None
    name: str = ""
    schema: StructType | None = None


@dataclass(frozen=True, slots=True)
class ChangesRequest:
    """A scan of a changelog.

    Attributes:
        handle: the version that was the newest one when the changelog was loaded.
        columns: what it returns.
    """

    handle: TableHandle
    range: ChangelogRange
    columns: StructType
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ChangesTask:
    """Reads the changes that its only input row names.

    Attributes:
        blob_key: signs where described blobs are.
    """

    columns: tuple[str, ...]
    target: pa.Schema
    blob_key: bytes = b""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for item in work_of(batches):
            # Pickled by the driver of this very query; it never was in a file or with a user.
            tasks: tuple[ChangeTask, ...] = pickle.loads(item)
            for task in tasks:
                for batch in task.batches(partial(with_signed_sources, key=self.blob_key)):
                    yield to_wire_batch(batch.select(list(self.columns)), self.target)


@operation("changelog.load")
def load_changelog(request: ChangelogRequest, call: Call) -> ChangelogReply:
    """The columns of a changelog, and the version that is the newest one now."""
    loaded = load(replace(request.table, privileges=()), call)
    if loaded.table is None:
        return ChangelogReply(False)
    handle = loaded.table.handle
    if request.deduplication == "net_changes":
        raise UnsupportedFeatureError("changes are reported version by version, not net", feature="net changes")
    end = _end(handle, _range(handle, request.range))
    if request.compute_updates and not end.has_stable_row_ids:
        raise UnsupportedFeatureError(
            "rows of this table have no stable ids, so an update cannot be distinguished from a delete and an insert",
            feature="computed updates",
        )
    viewed = blobs_viewed(end.lance_schema, end.file_version, DESCRIPTIONS)
    columns = to_spark_schema(to_arrow_schema(viewed))
    clash = set(columns.fieldNames()) & {item.name for item in _ADDED}
    if clash:
        raise InvalidInputError(f"the table has a column {sorted(clash)[0]!r}, as changes have; rename it")
    data = [StructField(item.name, item.dataType, True, item.metadata) for item in columns.fields]
    return ChangelogReply(True, handle, f"{loaded.table.name} changes", StructType([*data, *_ADDED]))


@operation("changelog.plan")
def plan(request: ChangesRequest, call: Call) -> Reply:
    """The tasks that read the changes."""
    check_options_of_changes(request.options)
    request.handle.check_place(request.options)
    added = {item.name for item in _ADDED}
    names = request.columns.fieldNames()
    data = [quote_name(name) for name in names if name not in added]
    versions = _range(request.handle, request.range)
    end = _end(request.handle, versions)
    fields = FeedColumns.of(with_blob_descriptors(end.lance_schema, end.file_version, with_source=True))
    feed = end.plan_range(versions, data, fields)
    groups = grouped_changes(feed.tasks)
    target = wire_schema(request.columns)
    function = ChangesTask(tuple(names), target, decoded_secret(call.session.blob_key))
    known = [task.num_rows for task in feed.tasks]
    counts = [count for count in known if count is not None]
    num_rows = sum(counts) if len(counts) == len(known) else None
    described = f"lance changes {request.handle.display_name} columns=[{', '.join(names)}] tasks={len(groups)}"
    summary = ScanPlan(described, num_rows, None if num_rows is None else num_rows * 8 * max(len(names), 1))
    return Reply(summary, (command(MeteredTask(function), request.columns), *(pickle.dumps(group) for group in groups)))


def grouped_changes(tasks: Iterable[ChangeTask]) -> list[tuple[ChangeTask, ...]]:
    """The changes that one Spark task reads each."""
    groups: list[tuple[ChangeTask, ...]] = []
    current: list[ChangeTask] = []
    rows = 0
    for task in tasks:
        size = _TASK_ROWS if task.num_rows is None else task.num_rows
        if current and rows + size > _TASK_ROWS:
            groups.append(tuple(current))
            current, rows = [], 0
        current.append(task)
        rows += size
    return [*groups, tuple(current)] if current else groups


def _end(handle: TableHandle, versions: VersionRange) -> Dataset | PartitionedDataset:
    """The last version of a range. Planners do not keep it, as they do versions whose time of commit is known.

    Raises:
        NotFoundError: it was cleaned up.
    """
    last = max(versions.last, 1)
    if last == handle.version:
        return handle.dataset()
    end = find_table(handle.location(), version=last)
    if end is None:
        raise NotFoundError(f"there is no Lance table {handle.display_name}")
    return end


def _range(handle: TableHandle, chosen: ChangelogRange) -> VersionRange:
    source = handle.source()
    first = _bound(chosen.starting_version, chosen.starting_micros)
    last = _bound(chosen.ending_version, chosen.ending_micros)
    return VersionRange.of(
        source.versions_location,
        1 if first is None else first,
        source.version if last is None else last,
        from_inclusive=chosen.starting_inclusive,
        to_inclusive=chosen.ending_inclusive,
    )


def _bound(version: str | None, micros: int | None) -> int | datetime | None:
    if micros is not None:
        return _EPOCH + timedelta(microseconds=micros)
    if version is None:
        return None
    return version_number(version)


def version_number(text: str) -> int:
    """The version of a text.

    Raises:
        InvalidInputError: it is no number.
    """
    if not text.strip().isascii() or not text.strip().isdigit():
        raise InvalidInputError(f"{text!r} is no number of a version")
    return int(text)
