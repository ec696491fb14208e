"""Removing old versions and the files that only they name (Lance table format specification, "Cleanup").

Manifests go first, files second, so that whatever stops a clean-up in between, each version that can still be read has
all its files; what is left over is found when it is old. `docs/design/008-clean-up-safety.md` has the reasons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

from lance_spark.errors import InvalidInputError, LanceError, NotFoundError, StorageError
from lance_spark.storage.base import PutResult
from lance_spark.table.cleanup.orphan_files import (
    FileKind,
    NamedFiles,
    OrphanFile,
    find_orphan_files,
    remove_orphan_files,
    remove_staging,
)
from lance_spark.table.cleanup.policy import SAFETY_WINDOW, CleanupPolicy, ago
from lance_spark.table.cleanup.references import (
    CLONE_PREFIX,
    GUARD_PREFIX,
    SHARED_PREFIX,
    detached_versions,
    held_from,
    listed_versions,
    other_branches,
    protected_versions,
    remove_old_guards,
)
from lance_spark.table.commits.commit import RetryPolicy
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.features import check_writable
from lance_spark.table.manifests.history import History
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.manifest_store import ManifestLocation

_Removal = tuple[ManifestLocation, bytes, Manifest]

_BATCH_VERSIONS = 100
_BATCH_BYTES = 64 << 20
_PUT_BACK = RetryPolicy(max_requests=5)
"""For a store that does not say whether a version is there again."""


@dataclass(frozen=True, slots=True)
class CleanupStats:
    """Numbers of versions, files and bytes that a clean-up has removed, or would remove.

    Attributes:
        versions: the numbers of the versions.
        data_files, deletion_files, index_files, transaction_files: the numbers of files of these kinds.
        staged_files: files that killed writers never published.
        bytes_removed: of manifests and files together, as far as sizes are known.
    """

    versions: tuple[int, ...] = ()
    data_files: int = 0
    deletion_files: int = 0
    index_files: int = 0
    transaction_files: int = 0
    staged_files: int = 0
    bytes_removed: int = 0

    def with_files(self, removed: Sequence[OrphanFile]) -> CleanupStats:
        """These and some files more."""
        counts = Counter(orphan.kind for orphan in removed)
        return replace(
            self,
            data_files=self.data_files + counts[FileKind.DATA],
            deletion_files=self.deletion_files + counts[FileKind.DELETION],
            index_files=self.index_files + counts[FileKind.INDEX],
            transaction_files=self.transaction_files + counts[FileKind.TRANSACTION],
            staged_files=self.staged_files + counts[FileKind.STAGED],
            bytes_removed=self.bytes_removed + sum(orphan.size for orphan in removed),
        )


def cleanup(table: TableLocation, policy: CleanupPolicy | None = None, *, keep_from: int | None = None) -> CleanupStats:
    """Removes old versions of the branch `table`, and the files that no version names any more.

    Args:
        keep_from: this version and those after it stay; None: the newest one.

    Raises:
        InvalidInputError: tagged versions would be removed, or `keep_from` is newer than the newest version;
            nothing was removed.
        UnsupportedFeatureError: a version needs something that this release does not know; nothing was removed.
        CorruptFileError: a manifest cannot be read; nothing that it may name was removed.
        StorageError: the store failed. Each version that is left has its files.
    """
    policy = policy or CleanupPolicy()
    now = datetime.now(timezone.utc)
    newest = table.history.load_latest().manifest
    check_writable(newest.writer_flags, table.uri)
    if keep_from is not None:
        check_keep_from(table.uri, keep_from, newest.version)
    if not policy.dry_run:
        remove_old_guards(table.refs, None if policy.delete_unverified else now - SAFETY_WINDOW)
    run = CleanupRun(table, policy, now)
    run.check_tags(newest, keep_from)
    run.remove_versions(newest, keep_from)
    return run.remove_files(None if policy.delete_unverified else SAFETY_WINDOW)


def check_keep_from(uri: str, keep_from: int, newest: int) -> None:
    """Passes if the table at `uri`, whose newest version is `newest`, can have had a version `keep_from`.

    Raises:
        InvalidInputError: it cannot.
    """
    if not 1 <= keep_from <= newest:
        raise InvalidInputError(
            f"the versions of {uri} before {keep_from} cannot be removed, because the newest version is {newest}; "
            f"name a version from 1 to {newest}"
        )


def remove_orphans(
    table: TableLocation, older_than: timedelta = SAFETY_WINDOW, *, dry_run: bool = False
) -> CleanupStats:
    """Removes the files of the branch `table` that no version names and that were written before `older_than`.

    Raises: as `cleanup`.
    """
    if older_than < timedelta(0):
        raise InvalidInputError(f"an age of {older_than} lies in the future")
    check_writable(table.history.load_latest().manifest.writer_flags, table.uri)
    return CleanupRun(table, CleanupPolicy(dry_run=dry_run), datetime.now(timezone.utc)).remove_files(older_than)


class CleanupRun:
    """One clean-up: what it has seen and removed so far.

    Attributes:
        ages_ascend: whether no version is older than one with a lower number.
    """

    ages_ascend = True

    def __init__(self, table: TableLocation, policy: CleanupPolicy, now: datetime) -> None:
        self._table = table
        self._history: History = table.history
        self._policy = policy
        self._now = now
        self._horizon = policy.horizon(now)
        self._kept = NamedFiles()
        self._deleted = NamedFiles()
        self._known: set[int] = set()
        self._removed: dict[int, int] = {}

    def check_tags(self, newest: Manifest, keep_from: int | None) -> None:
        """Passes if no tagged version would be removed.

        Raises:
            InvalidInputError: one would, and the policy says so.
        """
        if not self._policy.error_if_tagged_old_versions:
            return
        candidates = {location.version for location in self._candidates(newest, keep_from)}
        # Tags of clones and branches keep what is in use, so nobody has to remove them.
        own = (GUARD_PREFIX, CLONE_PREFIX, SHARED_PREFIX)
        tags = [tag for tag in self._table.refs.tags().values() if not tag.name.startswith(own)]
        old = [tag for tag in tags if tag.branch == self._table.branch and tag.version in candidates]
        names = sorted(tag.name for tag in old if self._is_old(self._history.load(tag.version).manifest))
        if names:
            raise InvalidInputError(
                f"versions of {self._table.uri} that are to be cleaned up have tags: {', '.join(names)}. Remove the "
                "tags, or let tagged versions be left out with error_if_tagged_old_versions=False"
            )

    def remove_versions(self, newest: Manifest, keep_from: int | None) -> None:
        """Removes the manifests of old versions, oldest first."""
        batch: list[_Removal] = []
        protected = protected_versions(self._table.refs, self._table.branch)
        for location in self._candidates(newest, keep_from):
            if location.version in protected:
                continue
            try:
                data = bytes(self._history.manifests.read(location))
            except NotFoundError:
                continue  # Another clean-up was faster.
            manifest = self._history.decode(data, location).manifest
            if not self._is_old(manifest):
                if self.ages_ascend:
                    break
                continue
            batch.append((location, data, manifest))
            if len(batch) == _BATCH_VERSIONS or sum(len(data) for _, data, _ in batch) >= _BATCH_BYTES:
                self._remove_batch(batch)
                batch = []
        self._remove_batch(batch)

    def _candidates(self, newest: Manifest, keep_from: int | None) -> list[ManifestLocation]:
        """The versions that may go if they are old enough, oldest first."""
        locations = sorted(self._history.locations(), key=lambda location: location.version)
        limits = (newest.version, keep_from, held_from(self._table.refs, self._table.branch))
        last = min(number for number in limits if number is not None)
        if self._policy.keep_versions is not None:
            locations = locations[: -self._policy.keep_versions]
        return [location for location in locations if location.version < last]

    def _is_old(self, manifest: Manifest) -> bool:
        return self._horizon is None or manifest.timestamp < self._horizon

    def _remove_batch(self, batch: Sequence[_Removal]) -> None:
        """Removes manifests, and puts those back that somebody has named meanwhile.

        Whoever makes a tag or a branch looks for the version afterwards; one of the two sees the other. What another
        clean-up has removed is not put back: it may be about to remove the files.
        """
        if not batch:
            return
        own: list[_Removal] = []
        try:
            for entry in batch:
                if self._policy.dry_run:
                    own.append(entry)
                elif self._is_there(entry[0].path):
                    own.append(entry)
                    self._history.manifests.withdraw(entry[0])
            protected = protected_versions(self._table.refs, self._table.branch)
            held = held_from(self._table.refs, self._table.branch)
        except LanceError:
            self._put_back(own)
            raise
        if held is not None:
            protected |= {location.version for location, _, _ in own if location.version >= held}
        self._put_back([entry for entry in own if entry[0].version in protected])
        for location, data, manifest in own:
            if location.version not in protected:
                self._deleted.add(manifest, elsewhere=False)
                self._removed[location.version] = len(data)

    def _is_there(self, path: str) -> bool:
        try:
            self._history.store.size(path)
        except NotFoundError:
            return False
        return True

    def _put_back(self, entries: Sequence[_Removal]) -> None:
        """Writes manifests that were removed, and passes over those that are there.

        Raises:
            StorageError: the store did not say of some of them that they are there. All were tried.
        """
        if self._policy.dry_run:
            return
        missing = [location.path for location, data, _ in entries if not self._is_there_again(location.path, data)]
        if missing:
            raise StorageError(
                f"the store did not say whether {', '.join(missing)} of {self._table.uri} are there again, which were "
                "removed as versions that nobody needs, and which are needed"
            )

    def _is_there_again(self, path: str, data: bytes) -> bool:
        for attempt in range(_PUT_BACK.max_requests):
            try:
                if self._history.store.put_if_absent(path, data) is not PutResult.UNKNOWN:
                    return True
            except StorageError:
                pass  # As a reply that was lost: it is asked again.
            _PUT_BACK.wait(attempt)
        return False

    def remove_files(self, window: timedelta | None) -> CleanupStats:
        """Removes what no version names any more, and what none ever named if it is older than `window`."""
        for other in other_branches(self._table):
            for manifest in listed_versions(other.history):
                self._kept.add(manifest, in_own_root=False)
        self._keep_new_versions()
        before = None if window is None else ago(self._now, window)
        store = self._history.store
        orphans = list(find_orphan_files(store, self._kept, self._deleted, before))
        stats = CleanupStats(tuple(self._removed), bytes_removed=sum(self._removed.values()))
        if self._policy.dry_run:
            return stats.with_files(orphans)
        stats = stats.with_files(remove_orphan_files(store, orphans, self._kept, self._keep_new_versions))
        staged = remove_staging(store, 0 if window is None else window.total_seconds())
        return replace(stats, staged_files=stats.staged_files + staged)

    def _keep_new_versions(self) -> None:
        """Adds what the versions name that are there and have not been looked at."""
        numbers = {location.version for location in self._history.locations()} - self._known
        numbers.update(number for number in detached_versions(self._history.store) if number not in self._known)
        if self._policy.dry_run:
            numbers.difference_update(self._removed)
        for number in numbers:
            try:
                self._kept.add(self._history.load(number).manifest)
            except NotFoundError:
                continue  # Another clean-up has removed it.
            self._known.add(number)
