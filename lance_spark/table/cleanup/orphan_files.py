"""Files below a root that no version names, and which of them may go (Lance table format specification, "Cleanup").

What a version once named, and no version names now, nobody will ever need again. Any other file may belong to a writer
that is still at work, so it has to be old first. Files that are not known to be parts of a table are never touched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Protocol, runtime_checkable

from lance_spark.progress import progress
from lance_spark.storage.base import ObjectInfo, ObjectStore
from lance_spark.storage.overlap import overlapped
from lance_spark.table.cleanup.named_files import NamedFiles
from lance_spark.table.paths import BRANCHES, DATA, DELETIONS, INDICES, TAGS, TRANSACTIONS, VERSIONS

_BATCH = 1000
_THREADS = 16
_BLOB = re.compile(r"[^/]+/[01]{32}\.blob")
_STAGED_MANIFEST = re.compile(r"\.tmp.*|.*\.manifest#[0-9]+")


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
