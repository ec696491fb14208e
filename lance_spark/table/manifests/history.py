"""The version history of a table: its versions, the newest one, and their transactions.

A `ManifestStore` locates the manifests; hint files can be stale and are ignored.

`PinnedHistory` treats a given version as the newest: for versions that take effect only once they are referenced. A
partitioned namespace references, in `__manifest`, the version of each partition that readers see. Newer versions of the
partition's table may belong to another writer that has not committed yet, or never will. A writer must neither build on
them nor wait for them: it creates its version from the referenced one, under the next free number. For example, if
`__manifest` references version 5 and a killed writer has left version 6, the newest version here is 5, and the next
commit creates version 7 from the content of 5 and its own changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_spark.errors import CorruptFileError, NotFoundError, RetryableConflictError
from lance_spark.storage.base import ByteRange, ObjectStore
from lance_spark.storage.cache import cached_by_etag, has_free_etags
from lance_spark.storage.paths import with_absolute_path
from lance_spark.table.manifests.features import check_readable
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.manifest_file import ManifestFile
from lance_spark.table.manifests.manifest_store import ManifestLocation, ManifestStore, ObjectManifests
from lance_spark.table.paths import TRANSACTIONS, checked_relative, detached_manifest_path, is_detached

if TYPE_CHECKING:
    from lance_spark.table.manifests.manifest_summary import ManifestSummary
    from lance_spark.table.manifests.transaction import Transaction
    from lance_spark.table.operations.base import OperationKind

_PARSED_FACTOR = 8
"""Bytes in memory of a manifest with parsed fragments per byte of its file: measured."""


_END_BYTES = 16 << 10


class History:
    """The versions below one root (of the main branch or of another).

    Attributes:
        store: the root.
        place: the root as messages name it.
        manifests: locates and publishes versions.
        after_commit: after-commit hook, called with each new version and the kind of its operation; it must not raise.
    """

    def __init__(self, store: ObjectStore, manifests: ManifestStore | None = None) -> None:
        self.store = store
        self.place = with_absolute_path(store.uri)
        self.manifests: ManifestStore = ObjectManifests(store) if manifests is None else manifests
        self.after_commit: Callable[[Manifest, OperationKind], None] | None = None

    def locations(self) -> Iterator[ManifestLocation]:
        """All versions, in the order of the listing."""
        return self.manifests.locations()

    def newest_locations(self, count: int) -> list[ManifestLocation]:
        """The `count` newest versions, newest first; reads only the beginning of a long listing if that is enough."""
        return self.manifests.newest_locations(count)

    def latest_location(self) -> ManifestLocation | None:
        """The newest version, None if there is no table."""
        return self.manifests.newest()

    def latest_to_follow(self) -> ManifestLocation | None:
        """The newest version, for a writer; None if there is no table.

        Raises:
            UnsupportedFeatureError: manifests of both naming schemes exist, as after a crashed migration.
        """
        return self.manifests.newest_to_follow()

    def next_version(self, current: int) -> int:
        """The number of the version that follows version `current` (0: there is no table)."""
        return current + 1

    def versions_after(self, known: int, newest: int) -> Sequence[int]:
        """The versions from version `known` (exclusive; 0: there is no table) to `newest`, in order."""
        return range(known + 1, newest + 1)

    def following(self, transaction: Transaction, current: int) -> Transaction:
        """The transaction as it is stored with a version that follows `current`."""
        return transaction

    def is_replaced(self, known: Manifest, newest: ManifestLocation) -> bool:
        """Whether the table of version `known` was removed and another one created, whose newest version is `newest`.

        One read, of the end of the manifest if `known` is the newest version. False if a clean-up has removed it.
        """
        if newest.version < known.version:
            return True
        try:
            if newest.version > known.version:
                summary = self.summary(known.version)
            elif known.transaction_file and self._names(known.transaction_file, newest):
                return False
            else:
                summary = self.summary_at(newest)
        except NotFoundError:
            return False
        return (summary.transaction_file, summary.timestamp_nanos) != (known.transaction_file, known.timestamp_nanos)

    def _names(self, transaction_file: str, location: ManifestLocation) -> bool:
        """Whether the end of a manifest, which is after its fragments, has the name, which no other version has."""
        if location.size is None:
            return False
        start = max(0, location.size - _END_BYTES)
        end = self.store.read_range(location.path, ByteRange(start, location.size - start))
        return transaction_file.encode() in bytes(end)

    def moved_to(self, version: int) -> None:
        """Records that a commit on this history has created `version`."""

    def find_latest(self) -> ManifestFile | None:
        """The newest version, None if there is no table.

        Raises:
            NotFoundError: the manifest store names a version that does not exist.
        """
        for last_try in (False, True):
            location = self.latest_location()
            if location is None:
                break
            try:
                return self.load_at(location)
            except NotFoundError:
                if last_try:  # The first failure may come from a concurrent clean-up or migration.
                    raise
        return None

    def load_latest(self) -> ManifestFile:
        """The newest version.

        Raises:
            NotFoundError: there is no table.
        """
        newest = self.find_latest()
        if newest is None:
            raise NotFoundError(f"there is no table at {self.place}")
        return newest

    def load(self, version: int) -> ManifestFile:
        """The version `version`, which may be detached.

        Raises:
            NotFoundError: there is no such version.
        """
        if is_detached(version):
            path = detached_manifest_path(version)
            return self._decoded(self.store.read(path), path, version)
        if has_free_etags(self.store):
            return self.load_at(self.manifests.locate(version))
        data, location = self.manifests.read_version(version)
        return self._decoded(data, location.path, version)

    def load_at(self, location: ManifestLocation) -> ManifestFile:
        """The version at `location`; without a request if this process has already read what a listing found there.

        Raises:
            NotFoundError: it no longer exists.
        """

        def read() -> tuple[ManifestFile, int]:
            data = self.manifests.read(location)
            return self._decoded(data, location.path, location.version), data.size * _PARSED_FACTOR

        return cached_by_etag(self.store, "manifest", location.path, location.etag, read)

    def summary_at(self, location: ManifestLocation) -> ManifestSummary:
        """The summary of the version at `location`; one read.

        Raises:
            NotFoundError: it no longer exists.
            CorruptFileError: the manifest is damaged.
            UnsupportedFeatureError: the version needs a feature that this release does not read.
        """
        return self._summary(self.manifests.read(location), location.path, location.version)

    def summary(self, version: int) -> ManifestSummary:
        """The summary of the version `version`. Raises as `summary_at`."""
        data, location = self.manifests.read_version(version)
        return self._summary(data, location.path, version)

    def _summary(self, data: pa.Buffer, path: str, version: int) -> ManifestSummary:
        from lance_spark.table.manifests.manifest_summary import ManifestSummary

        summary = ManifestSummary.decode(data, f"{self.store.uri}/{path}")
        self._check(summary.version, version, path, summary.reader_flags, summary.writer_flags)
        return summary

    def check_commits(self) -> None:
        """Checks that commits are safe here; for writers, before they write the files of a version.

        Raises:
            StorageError: two writers could both create the same version here, or the store does not respond.
        """
        self.manifests.check_commits()

    def manifest_size(self, version: int) -> int:
        """Size in bytes of the manifest file of a version that is not detached.

        Raises:
            NotFoundError: there is no such version.
        """
        location = self.manifests.locate(version)
        return self.store.size(location.path) if location.size is None else location.size

    def transaction(self, file: ManifestFile) -> Transaction | None:
        """The transaction of a version, from its manifest or the file that it references; None if it has neither."""
        return self._transaction(file.transaction, file.manifest.transaction_file)

    def transaction_of(self, summary: ManifestSummary) -> Transaction | None:
        """The transaction of the version that `summary` describes. As `transaction`."""
        return self._transaction(summary.transaction, summary.transaction_file)

    def _transaction(self, inline: bytes | None, name: str) -> Transaction | None:
        from lance_spark.table.manifests.transaction import Transaction

        if inline is not None:
            return Transaction.from_bytes(inline)
        if not name:
            return None
        path = f"{TRANSACTIONS}/{checked_relative(name, 'transaction file')}"
        try:
            data = self.store.read(path)
        except NotFoundError:
            return None
        try:
            return Transaction.from_bytes(data)
        except CorruptFileError as error:
            raise error.at(path=path) from None

    def decode(self, data: pa.Buffer | bytes, location: ManifestLocation) -> ManifestFile:
        """Decodes the bytes of the manifest file at `location`."""
        return self._decoded(data, location.path, location.version)

    def _decoded(self, data: pa.Buffer | bytes, path: str, version: int) -> ManifestFile:
        file = ManifestFile.decode(data, f"{self.store.uri}/{path}")
        manifest = file.manifest
        self._check(manifest.version, version, path, manifest.reader_flags, manifest.writer_flags)
        return file

    def _check(self, found: int, version: int, path: str, reader_flags: int, writer_flags: int) -> None:
        if found != version:
            raise CorruptFileError(f"the manifest of version {version} says {found}", path=path)
        check_readable(reader_flags, writer_flags, f"{self.store.uri}, version {version},")


class PinnedHistory(History):
    """The history whose newest version is `version`. For one writer: its own commits advance it.

    Args:
        whole: the history with all versions.
        version: the pinned one; 0 if the table is to be created.
    """

    def __init__(self, whole: History, version: int) -> None:
        super().__init__(whole.store, whole.manifests)
        self.version = version

    def latest_location(self) -> ManifestLocation | None:
        return None if self.version == 0 else self.manifests.locate(self.version)

    def latest_to_follow(self) -> ManifestLocation | None:
        return self.latest_location()

    def load_latest(self) -> ManifestFile:
        if self.version == 0:
            raise NotFoundError(f"there is no table at {self.place}")
        return self.load(self.version)

    def is_replaced(self, known: Manifest, newest: ManifestLocation) -> bool:
        """False: what references the versions is asked when it is committed."""
        return False

    def next_version(self, current: int) -> int:
        newest = self.manifests.newest_to_follow()
        return current + 1 if newest is None else max(current, newest.version) + 1

    def versions_after(self, known: int, newest: int) -> Sequence[int]:
        """Follows the read version of each transaction; other versions in between are not part of this history.

        Raises:
            RetryableConflictError: `newest` does not descend from `known`.
        """
        chain: list[int] = []
        version = newest
        while version > known:
            chain.append(version)
            try:
                transaction = self.transaction(self.load(version))
            except NotFoundError:
                break  # Cleaned up: whoever has read version `known` is too far behind.
            version = version if transaction is None else transaction.read_version
            if version >= chain[-1]:
                break
        if version != known:
            raise RetryableConflictError(
                f"version {newest} of {self.store.uri} does not follow version {known}. Read it and run the operation "
                "again",
                table_version=newest,
            )
        return chain[::-1]

    def following(self, transaction: Transaction, current: int) -> Transaction:
        return replace(transaction, read_version=current)

    def moved_to(self, version: int) -> None:
        self.version = version
