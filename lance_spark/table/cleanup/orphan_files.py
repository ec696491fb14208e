"""Files below a root that no version names, and which of them may go (Lance table format specification, "Cleanup").

What a version once named, and no version names now, nobody will ever need again. Any other file may belong to a writer
that is still at work, so it has to be old first. Files that are not known to be parts of a table are never touched.

A name is unique below all roots, because it was made of random digits. So files that a version names below another root
count too where files are to be kept: that is safe, and does not depend on how roots are spelled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Protocol, runtime_checkable

from lance_spark._proto import table_pb2
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.progress import progress
from lance_spark.storage.base import ObjectInfo, ObjectStore
from lance_spark.storage.overlap import overlapped
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.paths import BRANCHES, DATA, DELETIONS, INDICES, TAGS, TRANSACTIONS, VERSIONS, deletion_path
from lance_spark.table.rows.deletion_vector import DeletionFileType

_EXTENSIONS = {kind.value: kind.extension for kind in DeletionFileType}

_BATCH = 1000
_THREADS = 16
_BLOB = re.compile(r"[^/]+/[01]{32}\.blob")
_STAGED_MANIFEST = re.compile(r"\.tmp.*|.*\.manifest#[0-9]+")


@dataclass(slots=True)
class NamedFiles:
    """Files that were seen in some versions; it grows with each.

    Attributes:
        data: paths of data files in `data/`.
        deletions: paths of deletion files, with their folder.
        indices: UUIDs of indices, each a folder in `_indices/`.
        transactions: names in `_transactions/`.
    """

    data: set[str] = field(default_factory=set)
    deletions: set[str] = field(default_factory=set)
    indices: set[str] = field(default_factory=set)
    transactions: set[str] = field(default_factory=set)
    _last_places: tuple[bool, bool] | None = None
    _last_fragments: dict[int, table_pb2.DataFragment] = field(default_factory=dict)

    def add(self, manifest: Manifest, *, in_own_root: bool = True, elsewhere: bool = True) -> None:
        """Adds what a version names.

        Args:
            in_own_root: whether files below the root of the version itself count.
            elsewhere: whether files below its base paths count.

        Raises:
            CorruptFileError: the list of indices is damaged.
            UnsupportedFeatureError: the version names files that this release does not know.
        """

        def counts(has_base: bool) -> bool:
            return elsewhere if has_base else in_own_root

        # Versions differ in few fragments from those before them, and comparing is cheaper than looking.
        previous = self._last_fragments if self._last_places == (in_own_root, elsewhere) else {}
        messages = manifest.fragments.messages
        for message in messages:  # Old releases gave one id to several fragments.
            if previous.get(message.id) != message:
                self._add_fragment(message, counts)
        self._last_places = (in_own_root, elsewhere)
        self._last_fragments = {message.id: message for message in messages}
        for index in parse_indices(manifest.index_section):
            if counts(index.base_id is not None):
                self.indices.add(index.uuid)
        if in_own_root and manifest.transaction_file:
            self.transactions.add(manifest.transaction_file)

    def _add_fragment(self, message: table_pb2.DataFragment, counts: Callable[[bool], bool]) -> None:
        if message.overlays:
            raise UnsupportedFeatureError(f"fragment {message.id} has data overlay files", feature="data overlay files")
        for file in message.files:
            if counts(file.HasField("base_id")):
                self.data.add(file.path)
        if message.HasField("deletion_file") and counts(message.deletion_file.HasField("base_id")):
            self.deletions.add(_deletion_path(message))

    def has(self, path: str) -> bool:
        """True if `path`, below a root, is one of the files, or belongs to one."""
        folder, _, name = path.partition("/")
        if folder == DATA:
            # Blobs of a data file lie in a folder that is called like it.
            return name in self.data or f"{name.rpartition('/')[0]}.lance" in self.data
        if folder == INDICES:
            return name.partition("/")[0] in self.indices
        return (name in self.transactions) if folder == TRANSACTIONS else folder == DELETIONS and path in self.deletions


def _deletion_path(message: table_pb2.DataFragment) -> str:
    file = message.deletion_file
    if file.file_type not in _EXTENSIONS:
        raise UnsupportedFeatureError(f"deletion files of type {file.file_type} are unknown", feature="deletion file")
    return deletion_path(message.id, file.read_version, file.id, _EXTENSIONS[file.file_type])


class FileKind(Enum):
    """Kind of a file of a table."""

    DATA = "data files"
    DELETION = "deletion files"
    INDEX = "index files"
    TRANSACTION = "transaction files"
    STAGED = "files that were never published"


@dataclass(frozen=True, slots=True)
class OrphanFile:
    """A file that may go."""

    kind: FileKind
    path: str
    size: int


@runtime_checkable
class RemovesStaging(Protocol):
    """A store whose unpublished objects no listing shows."""

    def remove_stale_staging(self, prefix: str, older_than_seconds: float) -> int:
        """Removes them in a folder; how many there were."""
        ...


def find_orphan_files(
    store: ObjectStore, kept: NamedFiles, deleted: NamedFiles, unnamed_before: datetime | None
) -> Iterator[OrphanFile]:
    """The files below `store` that may be removed.

    Args:
        kept: what versions name.
        deleted: what removed versions named.
        unnamed_before: other files may be removed if they were written before this; None: whenever that was.
    """

    def may_go(entry: ObjectInfo) -> bool:
        if kept.has(entry.path):
            return False
        if deleted.has(entry.path) or unnamed_before is None:
            return True
        return entry.modified is not None and entry.modified < unnamed_before

    for folder in (DATA, DELETIONS, INDICES, TRANSACTIONS, VERSIONS):
        for entry in store.list(folder, recursive=folder in (DATA, INDICES)):
            kind = kind_of(entry.path)
            if kind is not None and may_go(entry):
                yield OrphanFile(kind, entry.path, entry.size)


def kind_of(path: str) -> FileKind | None:
    """Kind of the file at `path`; None for files that no writer of the format leaves there."""
    folder, _, name = path.partition("/")
    if folder == DATA:
        return FileKind.DATA if name.endswith(".lance") or _BLOB.fullmatch(name) else None
    if folder == DELETIONS:
        return FileKind.DELETION if name.endswith((".arrow", ".bin")) else None
    if folder == INDICES:
        return FileKind.INDEX if "/" in name else None
    if folder == TRANSACTIONS:
        return FileKind.TRANSACTION if name.endswith(".txn") else None
    # What an external manifest store has staged may be the newest version; it ends otherwise.
    return FileKind.STAGED if folder == VERSIONS and _STAGED_MANIFEST.fullmatch(name) else None


def remove_orphan_files(
    store: ObjectStore, orphans: Sequence[OrphanFile], kept: NamedFiles, look_again: Callable[[], None]
) -> list[OrphanFile]:
    """Removes files; those that went.

    Args:
        kept: what versions name.
        look_again: adds to `kept` what has come since; called before each batch.

    Raises:
        StorageError: the store failed; some files were removed.
    """
    removed: list[OrphanFile] = []
    with progress("Removing", len(orphans), "files") as bar:
        for start in range(0, len(orphans), _BATCH):
            look_again()
            batch = [orphan for orphan in orphans[start : start + _BATCH] if not kept.has(orphan.path)]
            overlapped(lambda orphan: store.delete(orphan.path), batch, _THREADS)
            removed += batch
            bar.advance(min(_BATCH, len(orphans) - start))
    return removed


def remove_staging(store: ObjectStore, older_than_seconds: float) -> int:
    """Removes what killed writers of this library have never published; how many files that were."""
    if not isinstance(store, RemovesStaging):
        return 0
    folders = [DATA, DELETIONS, TRANSACTIONS, VERSIONS, TAGS, BRANCHES]
    folders += [folder for parent in (DATA, INDICES) for folder in store.list_folders(parent)]
    return sum(store.remove_stale_staging(folder, older_than_seconds) for folder in folders)
