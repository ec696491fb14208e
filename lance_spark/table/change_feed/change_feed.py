"""The change feed: the changed rows of a range of versions.

Each version of a range is compared with its predecessor (`version_diff`). The result is a list of tasks, which can be
pickled and run anywhere, and which yield batches: the columns as in the last version of the range, then

====================== ==========================================================================================
``_change_type``       ``insert``, ``delete``, ``update_preimage`` or ``update_postimage``
``_commit_version``    the version that made the change
``_commit_timestamp``  when that version was committed
====================== ==========================================================================================

A column that an older version did not have is null there; one of another type is cast. Unchanged rows are not
reported, even if they were rewritten: a compaction changes nothing. Without stable row ids an update that rewrites rows
is a delete and an insert; one that rewrites columns in place is an update in every table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.layouts.arrow_take import take_chunked
from lance_spark.schema.field import LanceSchema
from lance_spark.storage.overlap import overlapped
from lance_spark.table.bases import Bases
from lance_spark.table.change_feed.version_diff import (
    NEW_MEANING,
    RowPairs,
    RowSet,
    Version,
    diff_versions,
    found_in,
    nullable,
    same_field_ids,
)
from lance_spark.table.change_feed.version_range import VersionRange
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.manifest_file import ManifestFile
from lance_spark.table.operations.base import OperationKind
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.reading.blobs.blob_columns import wants_source, with_blob_descriptors
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.selection import FragmentRows
from lance_spark.table.row_level.value_equality import BoolArray, equal_values
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.source import Split

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"

CHANGE_FIELDS = (
    pa.field(CHANGE_TYPE, pa.string(), nullable=False),
    pa.field(COMMIT_VERSION, pa.int64(), nullable=False),
    pa.field(COMMIT_TIMESTAMP, pa.timestamp("us", tz="UTC"), nullable=False),
)

_KEPT_FRAGMENTS = 200_000
_NUM_THREADS = 8
_PAIRS_AT_ONCE = 1 << 16


class ChangeType(str, Enum):
    """The kind of change of a row."""

    INSERT = "insert"
    DELETE = "delete"
    UPDATE_PREIMAGE = "update_preimage"
    UPDATE_POSTIMAGE = "update_postimage"


@dataclass(frozen=True, slots=True)
class FeedCommit:
    """The version of a change, and its commit time in nanoseconds since 1970 UTC."""

    version: int
    timestamp_nanos: int


Present = Callable[[pa.RecordBatch, Bases], pa.RecordBatch]
"""Makes of the rows of a table with some bases what a feed shows of them, in the same columns and types."""


def _as_read(batch: pa.RecordBatch, _bases: Bases) -> pa.RecordBatch:
    return batch


class ChangeTask(ABC):
    """A part of the changes of one version. Can be pickled; reads in `batches`."""

    __slots__ = ()

    @abstractmethod
    def batches(self, present: Present = _as_read) -> Iterator[pa.RecordBatch]:
        """The changes, in the schema of the feed.

        Raises:
            NotFoundError: a file is missing, because a clean-up removed the version.
            InvalidInputError: a value cannot be cast to the type of its column in the last version.
        """

    @property
    @abstractmethod
    def num_rows(self) -> int | None:
        """The maximum number of rows; None if unknown."""


@dataclass(frozen=True)
class ChangeFeed:
    """The changes of a range of versions, in version order.

    Attributes:
        schema: of all batches.
        tasks: the tasks to read.
    """

    schema: pa.Schema
    tasks: tuple[ChangeTask, ...] = field(repr=False)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All changes, task by task; errors as `ChangeTask.batches`."""
        for task in self.tasks:
            yield from task.batches()


@dataclass(frozen=True, slots=True)
class FeedColumns:
    """The columns of a feed.

    Attributes:
        shown: their names and types in the feed.
        stored: the same columns with the ids and types that they have in the last version of the range.
    """

    shown: LanceSchema
    stored: LanceSchema

    @classmethod
    def of(cls, schema: LanceSchema) -> FeedColumns:
        """Columns of a feed whose last version has `schema`."""
        fields = LanceSchema(tuple(nullable(top) for top in schema.fields), schema.metadata)
        return cls(fields, fields)

    @property
    def with_source(self) -> bool:
        """Whether descriptions of blobs name their data file."""
        return any(map(wants_source, self.shown.fields))


def plan_changes(
    table: TableLocation,
    versions: VersionRange,
    columns: Sequence[str] | None = None,
    known: FeedColumns | None = None,
) -> ChangeFeed:
    """The changes of the given versions of the branch `table`.

    Args:
        columns: names and dotted paths of `known`, and ``_rowid`` or ``_rowaddr``; None for all columns.
        known: the columns of the feed; None for those of the last version of the range. If descriptions of blobs name
            their data file there, they do so in the feed.

    Raises:
        NotFoundError: there is no such column, or a version of the range or its predecessor is missing, because it was
            cleaned up, is on another branch or is not yet committed.
        InvalidInputError: a column has the name of one of the change columns above.
        CorruptFileError: a file violates the format.
        UnsupportedFeatureError: a version needs a feature that this release does not read.
    """
    return _FeedPlanner(table, versions, columns, known).plan()


def snapshot_as_inserts(
    known: FeedColumns,
    files: Sequence[tuple[Split, DataFragment]],
    columns: Sequence[str] | None,
    commit: FeedCommit,
) -> ChangeFeed:
    """All rows of some fragments as inserts of the version `commit`.

    Args:
        known, columns: as in `plan_changes`.
    """
    tasks: list[ChangeTask] = []
    feed = pa.schema([])
    for split, fragment in files:
        stable = split.manifest.has_stable_row_ids
        scan = Scan.of(known.stored, split.bases, columns=columns, stable_row_ids=stable)
        shown = Scan.of(known.shown, split.bases, columns=columns, stable_row_ids=stable).arrow_schema
        feed = pa.schema([*shown, *CHANGE_FIELDS], metadata=shown.metadata)
        tasks.append(RowsTask(feed, commit, ChangeType.INSERT, scan, RowSet(fragment)))
    return ChangeFeed(feed, tuple(tasks))


class _FeedPlanner:
    def __init__(
        self,
        table: TableLocation,
        versions: VersionRange,
        columns: Sequence[str] | None,
        known: FeedColumns | None,
    ) -> None:
        self._table = table
        self._range = versions
        self._columns = columns
        self._known = known
        self._with_source = known is not None and known.with_source
        self._kept: dict[int, Manifest] = {}
        self._kinds: dict[int, OperationKind] = {}
        self._schemas: dict[int, LanceSchema] = {}

    def plan(self) -> ChangeFeed:
        first, last = self._range.first, self._range.last
        numbers = range(first, last + 1)
        self._look_at(numbers)
        end = self._manifest(max(last, 1))
        columns = self._known or FeedColumns.of(_shown(end))
        stored = {last: columns.stored}
        schema = self._schema(columns.shown, end)
        same_ids: dict[int, bool] = {}
        for number in reversed(numbers):
            stored[number - 1], same_ids[number] = self._one_back(stored[number], number)
        tasks: list[ChangeTask] = []
        for number in numbers:
            before, after = self._before(number), self._manifest(number)
            step = VersionStep(self._table, before, after, self._kinds[number], same_ids[number])
            tasks += step.tasks(FeedView(schema, self._columns, stored[number - 1], stored[number]))
            self._kept.pop(number - 1, None)
        return ChangeFeed(schema, tuple(tasks))

    def _look_at(self, numbers: Sequence[int]) -> None:
        """Reads operations and schemas of the versions; keeps their manifests if there are only a few."""
        num_fragments = 0
        # The last ones first: a number far beyond the newest version is refused at once.
        for start in reversed(range(0, len(numbers), _NUM_THREADS)):
            chunk = numbers[start : start + _NUM_THREADS]
            for number, (manifest, kind) in zip(chunk, overlapped(self._fact, chunk, _NUM_THREADS), strict=True):
                self._kinds[number] = kind
                self._schemas[number] = _shown(manifest, with_source=self._with_source)
                num_fragments += len(manifest.fragments)
                if num_fragments <= _KEPT_FRAGMENTS:
                    self._kept[number] = manifest

    def _fact(self, number: int) -> tuple[Manifest, OperationKind]:
        file = self._load(number)
        transaction = self._table.history.transaction(file)
        return file.manifest, OperationKind.UNKNOWN if transaction is None else transaction.operation.kind

    def _has_before(self, number: int) -> bool:
        """False for the first version of the table or branch."""
        return number > 1 and self._kinds[number] is not OperationKind.CLONE

    def _before(self, number: int) -> Manifest | None:
        return self._manifest(number - 1) if self._has_before(number) else None

    def _one_back(self, wanted: LanceSchema, number: int) -> tuple[LanceSchema, bool]:
        """(the columns as in the previous version, whether field ids mean the same in both versions)."""
        if not self._has_before(number):
            return wanted, True
        if number - 1 not in self._schemas:
            self._schemas[number - 1] = _shown(self._manifest(number - 1), with_source=self._with_source)
        same_ids = self._kinds[number] not in NEW_MEANING or same_field_ids(
            self._manifest(number - 1), self._manifest(number)
        )
        return found_in(wanted, self._schemas[number], self._schemas[number - 1], by_id=same_ids), same_ids

    def _schema(self, wanted: LanceSchema, end: Manifest) -> pa.Schema:
        taken = {field.name for field in CHANGE_FIELDS}
        scan = Scan.of(
            wanted,
            self._table.bases(end),
            columns=self._columns,
            stable_row_ids=end.has_stable_row_ids,
        )
        clash = taken.intersection(scan.arrow_schema.names)
        if clash:
            raise InvalidInputError(f"the table has a column {sorted(clash)[0]!r}, as the feed has; leave it out")
        return pa.schema([*scan.arrow_schema, *CHANGE_FIELDS], metadata=scan.arrow_schema.metadata)

    def _manifest(self, number: int) -> Manifest:
        if number not in self._kept:
            self._kept[number] = self._load(number).manifest
        return self._kept[number]

    def _load(self, number: int) -> ManifestFile:
        try:
            return self._table.at(number)
        except NotFoundError:
            raise NotFoundError(
                f"the changes of versions {self._range.first} to {self._range.last} of {self._table.store.uri} need "
                f"version {number}, which is not there: it was cleaned up, is of another branch, or does not exist yet"
            ) from None


@dataclass(frozen=True, slots=True)
class FeedView:
    """The mapping from rows of two consecutive versions to rows of the feed.

    Attributes:
        schema: of the feed.
        columns: the requested columns.
        before, after: the columns of the last version as in each of the two versions.
    """

    schema: pa.Schema
    columns: Sequence[str] | None
    before: LanceSchema
    after: LanceSchema

    def scan(self, schema: LanceSchema, version: Version) -> Scan:
        stable = version.manifest.has_stable_row_ids
        return Scan.of(schema, version.bases, columns=self.columns, stable_row_ids=stable)


class VersionStep:
    """One version and its predecessor, None if there is none.

    Args:
        kind: of its operation.
        same_ids: whether field ids mean the same columns in both.
        commit: the version reported by the feed; None for `after`.
    """

    def __init__(
        self,
        table: TableLocation,
        before: Manifest | None,
        after: Manifest,
        kind: OperationKind,
        same_ids: bool,
        commit: FeedCommit | None = None,
    ) -> None:
        self._before = None if before is None else Version(before, table.bases(before))
        self._after = Version(after, table.bases(after))
        self._kind = kind
        self._same_ids = same_ids
        self._commit = commit or FeedCommit(after.version, after.timestamp_nanos)

    def tasks(self, view: FeedView) -> Iterator[ChangeTask]:
        """The changes of the version."""
        diff = diff_versions(self._before, self._after, self._kind, self._same_ids)
        commit = self._commit
        after = view.scan(view.after, self._after)
        before = after if self._before is None else view.scan(view.before, self._before)
        for change_type, sets, scan in (
            (ChangeType.DELETE, diff.deleted, before),
            (ChangeType.UPDATE_PREIMAGE, diff.preimages, before),
            (ChangeType.UPDATE_POSTIMAGE, diff.postimages, after),
            (ChangeType.INSERT, diff.inserted, after),
        ):
            for rows in sets:
                yield RowsTask(view.schema, commit, change_type, scan, rows)
        for pairs in diff.maybe_updated:
            yield PairsTask(view.schema, commit, before, after, *self.compared(pairs.fields), pairs)

    def compared(self, names: Sequence[str]) -> tuple[Scan, Scan]:
        """Scans of the columns `names` of the newer version, in both versions."""
        assert self._before is not None
        here, there = _shown(self._after.manifest), _shown(self._before.manifest)
        now = LanceSchema(tuple(nullable(top) for top in here.fields if top.name in names), {})
        then = found_in(now, here, there, by_id=self._same_ids)
        return Scan.of(then, self._before.bases), Scan.of(now, self._after.bases)


def _shown(manifest: Manifest, *, with_source: bool = False) -> LanceSchema:
    return with_blob_descriptors(manifest.schema, data_format(manifest), with_source=with_source)


@dataclass(frozen=True)
class RowsTask(ChangeTask):
    """Rows of one fragment with the same kind of change."""

    schema: pa.Schema
    commit: FeedCommit
    change_type: ChangeType
    scan: Scan
    rows: RowSet

    @property
    def num_rows(self) -> int | None:
        return self.rows.fragment.num_rows if self.rows.offsets is None else len(self.rows.offsets)

    def batches(self, present: Present = _as_read) -> Iterator[pa.RecordBatch]:
        for batch in self.scan.read([FragmentRows(self.rows.fragment, self.rows.offsets)]):
            yield _change(self.schema, self.commit, self.change_type, present(batch, self.scan.bases))


@dataclass(frozen=True)
class PairsTask(ChangeTask):
    """Rows that are in both versions: those whose values differ were updated.

    Attributes:
        before, after: the scans that read the rows for the feed.
        compared_before, compared_after: the scans of the columns that may differ.
    """

    schema: pa.Schema
    commit: FeedCommit
    before: Scan
    after: Scan
    compared_before: Scan
    compared_after: Scan
    pairs: RowPairs

    @property
    def num_rows(self) -> int | None:
        return 2 * len(self.pairs.offsets_before)

    def batches(self, present: Present = _as_read) -> Iterator[pa.RecordBatch]:
        pairs = self.pairs
        for start in range(0, len(pairs.offsets_before), _PAIRS_AT_ONCE):
            old = pairs.offsets_before[start : start + _PAIRS_AT_ONCE]
            new = pairs.offsets_after[start : start + _PAIRS_AT_ONCE]
            differs = ~self._equal(old, new)
            if not differs.any():
                continue
            for batch in self.before.read([FragmentRows(pairs.before, old[differs])]):
                shown = present(batch, self.before.bases)
                yield _change(self.schema, self.commit, ChangeType.UPDATE_PREIMAGE, shown)
            for batch in self.after.read([FragmentRows(pairs.after, np.sort(new[differs]))]):
                shown = present(batch, self.after.bases)
                yield _change(self.schema, self.commit, ChangeType.UPDATE_POSTIMAGE, shown)

    def num_updated(self) -> int:
        """The number of rows whose values differ. Errors as `batches`."""
        old, new = self.pairs.offsets_before, self.pairs.offsets_after
        parts = [slice(start, start + _PAIRS_AT_ONCE) for start in range(0, len(old), _PAIRS_AT_ONCE)]
        return sum(int(np.count_nonzero(~self._equal(old[part], new[part]))) for part in parts)

    def _equal(self, old: Int64Array, new: Int64Array) -> BoolArray:
        before = _table(self.compared_before, self.pairs.before, old)
        order = np.argsort(new, kind="stable")
        after = _table(self.compared_after, self.pairs.after, new[order])
        equal = np.ones(len(old), np.bool_)
        back = np.argsort(order, kind="stable")
        for one, column in zip(before.columns, after.columns, strict=True):
            other = column if (np.diff(order) == 1).all() else take_chunked(column, back)
            try:
                cast = one.cast(other.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                return np.zeros(len(old), np.bool_)  # Of another type: a change, whatever the values.
            equal &= equal_values(_whole(cast), _whole(other))
        return equal


def _table(scan: Scan, fragment: DataFragment, offsets: Int64Array) -> pa.Table:
    return scan.read_table([FragmentRows(fragment, offsets)])


def _whole(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def _change(schema: pa.Schema, commit: FeedCommit, change_type: ChangeType, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Converts a batch of a scan to a batch of the feed."""
    num_rows = batch.num_rows
    arrays = []
    for place, target in enumerate(list(schema)[: -len(CHANGE_FIELDS)]):
        array = batch.column(place)
        try:
            arrays.append(array if array.type == target.type else array.cast(target.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidInputError(
                f"column {target.name!r} is {array.type} in rows that version {commit.version} changed, and "
                f"{target.type} in the last version of the range: {error}. Leave the column out, or ask for the ranges "
                "on both sides of the change of type"
            ) from error
    micros = commit.timestamp_nanos // 1000
    values = (change_type.value, commit.version, micros)
    for target, value in zip(CHANGE_FIELDS, values, strict=True):
        arrays.append(pa.repeat(pa.scalar(value, target.type), num_rows))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
