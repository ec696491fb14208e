"""Summaries of the versions of a table, from manifests and transactions alone."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from datetime import datetime
from operator import add, eq, sub
from typing import cast

from google.protobuf.message import DecodeError

from lance_spark._proto import table_pb2
from lance_spark.errors import CorruptFileError, NotFoundError
from lance_spark.storage.cache import peek_by_etag, put_by_etag
from lance_spark.storage.overlap import overlapped
from lance_spark.table.manifests.history import History
from lance_spark.table.manifests.manifest import WriterVersion, timestamp_of
from lance_spark.table.manifests.manifest_store import ManifestLocation
from lance_spark.table.manifests.manifest_summary import ManifestSummary
from lance_spark.table.manifests.transaction import COMMIT_MESSAGE, OPERATION
from lance_spark.table.operations.base import OperationKind
from lance_spark.table.rows.fragment import FragmentList

_fragment = table_pb2.DataFragment.FromString

_AT_ONCE = 16
_BATCH = 64
"""The number of manifests in memory at a time."""


@dataclass(frozen=True, slots=True)
class Content:
    """The size of a version.

    Attributes:
        num_rows: rows that are not deleted; None in old manifests without row counts.
        num_deleted_rows: deleted rows in data files.
        num_bytes: size of the data files of known size.
    """

    num_fragments: int
    num_data_files: int
    num_rows: int | None
    num_deleted_rows: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of a version from its predecessor, in terms of fragments and files.

    A compaction neither adds nor removes rows; an updated row may count as both added and removed.

    Attributes:
        added_rows, removed_rows: None in old manifests without row counts.
    """

    added_fragments: int
    removed_fragments: int
    added_data_files: int
    removed_data_files: int
    added_rows: int | None
    removed_rows: int | None


@dataclass(frozen=True, slots=True)
class TableVersion:
    """One entry of a table's history.

    Attributes:
        version: its number.
        timestamp: when it was committed.
        operation: by the name in the transaction message ("append", "delete", "update" ...) or in its properties;
            "unknown" for operations that this release does not know, and for versions without a transaction.
        read_version: the version that its writer had read; None if unknown.
        transaction: the transaction's UUID; None if unknown.
        message: the commit message, if there is one.
        properties: of the transaction, except the message.
        writer: the library that wrote it; None in old manifests.
        content: how much it holds; None in long histories of partitioned tables, where that is expensive.
        difference: what it has changed; version 1 has added all that it holds. None if the version before it is not
            there, and for the first version of a clone or branch.
    """

    version: int
    timestamp: datetime
    operation: str
    read_version: int | None
    transaction: str | None
    message: str | None
    properties: Mapping[str, str]
    writer: WriterVersion | None
    content: Content | None
    difference: Difference | None


def version_summaries(history: History, limit: int | None = None) -> list[TableVersion]:
    """Versions, oldest first. Each manifest is read at most once, several concurrently.

    Args:
        limit: only this many of the newest versions; one more manifest is read, for the changes of the oldest of them.

    Raises:
        CorruptFileError: a manifest violates the format.
        UnsupportedFeatureError: a version needs a feature that this release does not read.
    """
    if limit is not None and limit <= 0:
        return []
    newest = history.locations() if limit is None else history.newest_locations(limit + 1)
    locations = sorted({location.version: location for location in newest}.values(), key=lambda item: item.version)
    steps = list(zip([None, *locations], locations, strict=False))
    chosen = steps if limit is None else steps[-limit:]
    cached = {step[1].version: _kept(history, step) for step in chosen}
    reading = [step for step in chosen if cached[step[1].version] is None]
    computed = _read(history, reading)
    summaries = [cached[step[1].version] or computed.get(step[1].version) for step in chosen]
    return [entry for entry in summaries if entry is not None]


_Step = tuple[ManifestLocation | None, ManifestLocation]
"""A version, and its predecessor if that still exists."""


def _read(history: History, steps: Sequence[_Step]) -> dict[int, TableVersion]:
    """The versions of some steps, in order, without those that a clean-up has removed since the listing."""
    by_version: dict[int, TableVersion] = {}
    last: tuple[ManifestSummary, Measured] | None = None
    for start in range(0, len(steps), _BATCH):
        batch = steps[start : start + _BATCH]
        summaries = _summaries(history, batch, None if last is None else last[0])
        for step in batch:
            before = None if step[0] is None else summaries.get(step[0].version)
            now = summaries.get(step[1].version)
            if now is None:
                continue
            previous = last[1] if last is not None and last[0] is before else None
            if previous is None and before is not None:
                previous = Measured.of(before.fragments)
            last = now, Measured.of(now.fragments, previous)
            by_version[now.version] = entry = _entry(history, now, last[1], _before(before, previous, now))
            _keep(history, step, entry)
    return by_version


def _before(before: ManifestSummary | None, measured: Measured | None, now: ManifestSummary) -> Measured | None:
    """The version to compare with; empty for the first version of all."""
    if now.version == 1:
        return Measured()
    return measured if before is not None and before.version == now.version - 1 else None


def _summaries(history: History, steps: Sequence[_Step], known: ManifestSummary | None) -> dict[int, ManifestSummary]:
    locations = {location.version: location for step in steps for location in step if location is not None}
    by_version = {} if known is None else {known.version: known}
    missing = [location for version, location in locations.items() if version not in by_version]

    def load(location: ManifestLocation) -> ManifestSummary | None:
        try:
            return history.summary_at(location)
        except NotFoundError:
            return None  # Cleaned up since the listing.

    summaries = overlapped(load, missing, _AT_ONCE)
    return by_version | {summary.version: summary for summary in summaries if summary is not None}


def _entry(history: History, summary: ManifestSummary, now: Measured, before: Measured | None) -> TableVersion:
    transaction = history.transaction_of(summary)
    kind = OperationKind.UNKNOWN if transaction is None else transaction.operation.kind
    properties = {} if transaction is None else dict(transaction.properties)
    message, operation = properties.pop(COMMIT_MESSAGE, None), properties.pop(OPERATION, kind.value)
    return TableVersion(
        version=summary.version,
        timestamp=timestamp_of(summary.timestamp_nanos),
        operation=operation,
        read_version=None if transaction is None else transaction.read_version,
        transaction=None if transaction is None else transaction.uuid,
        message=message,
        properties=properties,
        writer=summary.writer_version,
        content=now.content(),
        difference=_told(kind, None if before is None else now.difference_from(before)),
    )


def _told(kind: OperationKind, difference: Difference | None) -> Difference | None:
    """The difference of a version, as reported to users."""
    if kind is OperationKind.CLONE:
        return None  # Of the table or branch that was cloned, the rows were there before.
    return without_rewritten_rows(difference) if kind is OperationKind.REWRITE else difference


def without_rewritten_rows(difference: Difference | None) -> Difference | None:
    """Difference without rewritten rows: a compaction neither adds nor removes any."""
    if difference is None or difference.added_rows != difference.removed_rows:
        return difference
    return replace(difference, added_rows=0, removed_rows=0)


_KIND = "version summary"
_ENTRY_BYTES = 1024


def _stamp(step: _Step) -> Hashable | None:
    before, now = step
    if now.etag is None or (before is not None and before.etag is None):
        return None
    return now.etag, None if before is None else (before.version, before.etag)


def _kept(history: History, step: _Step) -> TableVersion | None:
    etag = _stamp(step)
    if etag is None:
        return None
    return cast("TableVersion | None", peek_by_etag(history.store, _KIND, step[1].path, etag))


def _keep(history: History, step: _Step, entry: TableVersion) -> None:
    etag = _stamp(step)
    follows = step[0] is None or entry.difference is not None or step[0].version != entry.version - 1
    if etag is not None and follows:
        put_by_etag(history.store, _KIND, step[1].path, etag, entry, _ENTRY_BYTES)


@dataclass(frozen=True, slots=True)
class _Totals:
    """Sums over fragments, which can be added and subtracted.

    Attributes:
        unknown: fragments with an unknown row count; their rows are not in `rows`.
    """

    fragments: int = 0
    files: int = 0
    rows: int = 0
    unknown: int = 0
    deleted_rows: int = 0
    num_bytes: int = 0

    @classmethod
    def of(cls, fragments: FragmentList) -> _Totals:
        counts = fragments.row_counts()
        files = [file for message in fragments.messages for file in message.files]
        return cls(
            fragments=len(fragments),
            files=len(files),
            rows=sum(count for count in counts if count is not None),
            unknown=counts.count(None),
            deleted_rows=sum(message.deletion_file.num_deleted_rows for message in fragments.messages),
            num_bytes=sum(file.file_size_bytes for file in files),
        )

    def plus(self, other: _Totals) -> _Totals:
        return _Totals(*map(add, astuple(self), astuple(other)))

    def minus(self, other: _Totals) -> _Totals:
        return _Totals(*map(sub, astuple(self), astuple(other)))

    def content(self) -> Content:
        return Content(
            num_fragments=self.fragments,
            num_data_files=self.files,
            num_rows=None if self.unknown else self.rows,
            num_deleted_rows=self.deleted_rows,
            num_bytes=self.num_bytes,
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """The serialized fragments of a version of a table, with their sums."""

    fragments: tuple[bytes, ...] = ()
    _totals: _Totals = field(default_factory=_Totals)

    @classmethod
    def of(cls, fragments: tuple[bytes, ...], like: Measured | None = None) -> Measured:
        """Measures fragments; those that are also in `like` are not measured again.

        Raises:
            CorruptFileError: one of them is damaged.
        """
        like = like or cls()
        removed, added = _differing(like.fragments, fragments)
        return cls(fragments, like._totals.minus(_Totals.of(removed)).plus(_Totals.of(added)))

    def content(self) -> Content:
        """The size of the fragments."""
        return self._totals.content()

    def difference_from(self, before: Measured) -> Difference:
        """The difference of these fragments from those of another version of the same table."""
        return _difference(*_differing(before.fragments, self.fragments))


def _differing(before: Sequence[bytes], after: Sequence[bytes]) -> tuple[FragmentList, FragmentList]:
    """The fragments of two versions without those that both have."""
    shorter = min(len(before), len(after))
    head = next((place for place, same in enumerate(map(eq, before, after)) if not same), shorter)
    old, new = before[head:], after[head:]
    common = set(old).intersection(new)
    return _parsed(item for item in old if item not in common), _parsed(item for item in new if item not in common)


def _parsed(fragments: Iterable[bytes]) -> FragmentList:
    try:
        return FragmentList([_fragment(message) for message in fragments])
    except DecodeError as error:
        raise CorruptFileError(f"a fragment of a manifest is not a protobuf message: {error}") from error


def _difference(before: FragmentList, after: FragmentList) -> Difference:
    was = dict(zip((message.id for message in before.messages), before.row_counts(), strict=True))
    now = dict(zip((message.id for message in after.messages), after.row_counts(), strict=True))
    files_before, files_after = _files(before), _files(after)
    grown = [_grown(was.get(number, 0), rows) for number, rows in now.items()]
    shrunk = [_grown(now.get(number, 0), rows) for number, rows in was.items()]
    return Difference(
        added_fragments=len(now.keys() - was.keys()),
        removed_fragments=len(was.keys() - now.keys()),
        added_data_files=len(files_after - files_before),
        removed_data_files=len(files_before - files_after),
        added_rows=_total(grown),
        removed_rows=_total(shrunk),
    )


def _files(fragments: FragmentList) -> set[tuple[str, int | None]]:
    return {
        (file.path, file.base_id if file.HasField("base_id") else None)
        for message in fragments.messages
        for file in message.files
    }


def _grown(was: int | None, now: int | None) -> int | None:
    return None if was is None or now is None else max(0, now - was)


def _total(counts: Sequence[int | None]) -> int | None:
    recorded = [count for count in counts if count is not None]
    return sum(recorded) if len(recorded) == len(counts) else None
