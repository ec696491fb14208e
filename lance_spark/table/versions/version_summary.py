"""What made each version of a table, told from manifests and transactions alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lance_spark.errors import NotFoundError
from lance_spark.storage.overlap import overlapped
from lance_spark.table.fragment import FragmentList
from lance_spark.table.history import History
from lance_spark.table.manifest import Manifest, WriterVersion
from lance_spark.table.manifest_store import ManifestLocation
from lance_spark.table.operations import OperationKind
from lance_spark.table.transaction import COMMIT_MESSAGE, Transaction

_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Content:
    """How much a version holds.

    Attributes:
        num_rows: rows that are not deleted; None in old manifests that do not tell.
        num_deleted_rows: rows that are in data files but deleted.
        num_bytes: size of the data files whose size is known.
    """

    num_fragments: int
    num_data_files: int
    num_rows: int | None
    num_deleted_rows: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class Difference:
    """What a version has added to the one before it and what it has taken away, as fragments and files show it.

    A compaction adds and removes the rows that it moves; a row that was updated may count on both sides.

    Attributes:
        added_rows, removed_rows: None in old manifests that do not tell.
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
        operation: what made it, by the name in the transaction message ("append", "delete", "update" ...); "unknown"
            for operations that this release does not know, and for versions that do not tell.
        read_version: the version that its writer had read; None if it does not tell.
        transaction: the transaction's UUID; None if it does not tell.
        message: the writer's own words, if there are any.
        properties: of the transaction, the message aside.
        writer: the library that wrote it; None in old manifests.
        content: how much it holds.
        difference: what it has changed; None for the first version and one whose predecessor is not there.
    """

    version: int
    timestamp: datetime
    operation: str
    read_version: int | None
    transaction: str | None
    message: str | None
    properties: Mapping[str, str]
    writer: WriterVersion | None
    content: Content
    difference: Difference | None


def version_summaries(history: History) -> list[TableVersion]:
    """All versions, oldest first; each manifest is read once, several at a time.

    Raises:
        CorruptFileError: a manifest contradicts the format.
        UnsupportedFeatureError: a version needs something that this release does not read.
    """
    locations = sorted(history.locations(), key=lambda location: location.version)
    found: list[TableVersion] = []
    before: _Loaded | None = None
    for start in range(0, len(locations), _AT_ONCE):
        for loaded in _load(history, locations[start : start + _AT_ONCE]):
            found.append(_summary(before, loaded))
            before = loaded
    return found


@dataclass(frozen=True, slots=True)
class _Loaded:
    manifest: Manifest
    transaction: Transaction | None


def _load(history: History, locations: Sequence[ManifestLocation]) -> Iterator[_Loaded]:
    def load(location: ManifestLocation) -> _Loaded | None:
        try:
            file = history.load_at(location)
        except NotFoundError:
            return None  # Cleaned up since the listing.
        return _Loaded(file.manifest, history.transaction(file))

    return (loaded for loaded in overlapped(load, locations, _AT_ONCE) if loaded is not None)


def _summary(before: _Loaded | None, loaded: _Loaded) -> TableVersion:
    manifest, transaction = loaded.manifest, loaded.transaction
    follows = before is not None and before.manifest.version == manifest.version - 1
    properties = {} if transaction is None else dict(transaction.properties)
    message = properties.pop(COMMIT_MESSAGE, None)
    return TableVersion(
        version=manifest.version,
        timestamp=manifest.timestamp,
        operation=(OperationKind.UNKNOWN if transaction is None else transaction.operation.kind).value,
        read_version=None if transaction is None else transaction.read_version,
        transaction=None if transaction is None else transaction.uuid,
        message=message,
        properties=properties,
        writer=manifest.writer_version,
        content=content_of(manifest.fragments),
        difference=difference_of(before.manifest.fragments, manifest.fragments) if before and follows else None,
    )


def content_of(fragments: FragmentList) -> Content:
    """How much some fragments hold."""
    rows = fragments.row_counts()
    files = [file for message in fragments.messages for file in message.files]
    return Content(
        num_fragments=len(fragments),
        num_data_files=len(files),
        num_rows=_total(rows),
        num_deleted_rows=sum(message.deletion_file.num_deleted_rows for message in fragments.messages),
        num_bytes=sum(file.file_size_bytes for file in files),
    )


def difference_of(before: FragmentList, after: FragmentList) -> Difference:
    """What the fragments of a version have added to those of another one of the same table, and taken away."""
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
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
