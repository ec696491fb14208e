"""Publishing a version (Lance transaction specification, "Commit protocol").

1. The transaction goes to `_transactions/`.
2. The version that was read has to be there still, unless a clean-up has removed it: otherwise the table was removed
   and created again. Every version that came after it is checked for a conflict.
3. The next manifest follows from the newest version, and is published under a name that must be free.
4. If the name is taken, or the store does not answer, what is there is read: with our transaction's UUID it is our own
   commit whose reply was lost; with another one, back to 2.

A name is never abandoned for the next one before it is known to belong to somebody else: otherwise a request that
arrives late could publish one transaction twice.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from lance_spark.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    IncompatibleConflictError,
    LanceError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
)
from lance_spark.file_version import FileVersion
from lance_spark.schema.constraints import check_key_stays, check_primary_key
from lance_spark.storage.base import ObjectStore, PutResult
from lance_spark.storage.deletion import delete_quietly
from lance_spark.table.manifests.features import FeatureFlag, check_writable
from lance_spark.table.manifests.history import History
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.manifest_file import ManifestFile
from lance_spark.table.manifests.manifest_store import ManifestLocation
from lance_spark.table.manifests.marks import CommitMark
from lance_spark.table.manifests.mem_wal import check_mem_wal_stays
from lance_spark.table.manifests.transaction import Transaction
from lance_spark.table.operations.base import CommittableOperation, OperationKind, OtherOperation, Settings
from lance_spark.table.operations.manifest_builder import keeps_places
from lance_spark.table.paths import TRANSACTIONS, ManifestNaming, is_detached

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limits and delays of a commit's retries, on conflicts and on a store that does not answer.

    Attributes:
        max_attempts: versions to try for, without waits: whoever waits has to follow the versions that others commit
            meanwhile, and falls behind again.
        max_requests: requests for one version whose owner the store does not show.
        first_delay, max_delay: seconds between two attempts or requests for the same version, and between two runs of
            an operation; a wait is random between 0 and a bound that doubles from one to the other.
        sleep: for tests.
    """

    max_attempts: int = 100
    max_requests: int = 20
    first_delay: float = 0.02
    max_delay: float = 2.0
    sleep: Callable[[float], None] = time.sleep

    def wait(self, attempt: int) -> None:
        """Waits after failed attempt number `attempt`, 0 for the first."""
        self.sleep(random.uniform(0, min(self.max_delay, self.first_delay * 2**attempt)))


@dataclass(frozen=True, slots=True)
class NewTable:
    """Settings that apply if a commit creates the table.

    Attributes:
        file_version: `data_format` of the table; also of one that is overwritten.
        stable_row_ids: whether rows have stable ids.
    """

    file_version: FileVersion
    stable_row_ids: bool = False


Rebase = Callable[[Manifest], CommittableOperation]
"""The operation as it is on a version newer than the one that was read. Raises a `CommitConflictError`."""


class Commit:
    """One transaction on its way into a table. Use it once.

    Args:
        history: the versions of the branch to commit to.
        base: the version that the transaction has read; None if there was no table.
        transaction: what to commit; `read_version` is that of `base`, or 0.
        rebase: for an operation whose message depends on the version that it follows.
        marks: entries of the config that are committed with the version. Each is asked whether the version may follow.
    """

    def __init__(
        self,
        history: History,
        base: Manifest | None,
        transaction: Transaction,
        new_table: NewTable,
        policy: RetryPolicy | None = None,
        rebase: Rebase | None = None,
        marks: Sequence[CommitMark] = (),
    ) -> None:
        if not isinstance(transaction.operation, CommittableOperation):
            raise TypeError(f"an operation of kind {transaction.operation.kind.value} is not for committing")
        self._history = history
        self._store: ObjectStore = history.store
        self._base = base
        self._transaction = transaction
        self._operation: CommittableOperation = transaction.operation
        self._new_table = new_table
        self._policy = policy or RetryPolicy()
        self._rebase = rebase
        self._marks = marks
        self._current = base
        self._serialized: tuple[Transaction, bytes] | None = None
        self._in_doubt: int | None = None
        """A version that we asked the store to create, as long as nothing shows whose it is."""

    def run(self) -> Manifest:
        """Commits; the version that was made.

        Raises:
            CommitConflictError: another writer was first. Nothing of ours is visible.
            CommitStateUnknownError: the store never said; the version may be there.
            EpochCommittedError: a version has the epoch of a mark.
            StreamBehindError: a version has a newer one.
            UnsupportedFeatureError: the table uses features that this release cannot write.
            StorageError: the store failed. Nothing of ours is visible.
        """
        if self._base is not None:
            check_writable(self._base.writer_flags, self._store.uri)
        with_file = self._base is None or not self._base.writer_flags & FeatureFlag.DISABLE_TRANSACTION_FILE
        path = f"{TRANSACTIONS}/{self._transaction.file_name}"
        if with_file:
            self._store.put(path, self._transaction_bytes())
        try:
            committed = self._commit(self._transaction.file_name if with_file else "")
        except CommitStateUnknownError:
            raise
        except LanceError as error:
            if self._in_doubt is not None:
                raise self._unknown(self._in_doubt) from error
            if with_file:
                delete_quietly(self._store, path)
            if isinstance(error, CommitConflictError):
                error.table = self._store.uri
            raise
        if self._history.after_commit is not None:
            self._history.after_commit(committed, self._operation.kind)
        return committed

    def _transaction_bytes(self) -> bytes:
        """The serialized transaction, which is written twice: as a file, and into the manifest."""
        if self._serialized is None or self._serialized[0] is not self._transaction:
            self._serialized = self._transaction, self._transaction.to_bytes()
        return self._serialized[1]

    def _commit(self, transaction_file: str) -> Manifest:
        lost = 0
        for attempt in range(self._policy.max_attempts):
            newest = self._history.latest_to_follow()
            if attempt == 0:
                self._check_base(newest)
            committed = self._catch_up(newest)
            if committed is not None:
                return committed
            self._check_marks()
            self._move_on(transaction_file)
            naming = ManifestNaming.V2 if newest is None else newest.naming
            followed = 0 if self._current is None else self._current.version
            self._transaction = self._history.following(self._transaction, followed)
            manifest = self._next_manifest(transaction_file)
            payload = ManifestFile(manifest, self._transaction_bytes()).encode()
            location = ManifestLocation(manifest.version, naming)
            if self._publish(location, payload):
                self._history.moved_to(manifest.version)
                if not self._is_resurrected(location):
                    return manifest
                self._withdraw(location)
            if location.version == lost:
                # The listing does not show yet that another writer has it.
                self._policy.wait(attempt)
            lost = location.version
        raise RetryableConflictError(
            f"other writers were first {self._policy.max_attempts} times in a row on {self._store.uri}; try later",
            own=self._operation.kind.value,
            table_version=None if self._current is None else self._current.version,
        )

    def _check_base(self, newest: ManifestLocation | None) -> None:
        """Refuses to follow a version of a table that was removed: its files would replace those of a new table."""
        base = self._base
        if newest is None or base is None or is_detached(base.version):
            return
        if self._history.is_replaced(base, newest):
            raise NotFoundError(
                f"version {base.version} of {self._store.uri}, which was read, no longer exists: the table was "
                "removed and created again. Open it, and run the operation again"
            )

    def _catch_up(self, newest: ManifestLocation | None) -> Manifest | None:
        """Moves on to the newest version, checking conflicts; our own version, if it is among the new ones."""
        if newest is None:
            if self._current is not None:
                raise NotFoundError(f"the table {self._store.uri} no longer exists")
            return None
        known = 0 if self._current is None else self._current.version
        for version in self._history.versions_after(known, newest.version):
            try:
                file = self._history.load(version)
            except NotFoundError:
                return self._after_clean_up(version, newest.version)
            transaction = self._history.transaction(file)
            if transaction is not None and transaction.uuid == self._transaction.uuid:
                return file.manifest
            self._check_conflict(file.manifest, transaction)
            self._current = file.manifest
        return None

    def _check_marks(self) -> None:
        if self._current is not None:
            for mark in self._marks:
                mark.check(self._current.config, self._store.uri)

    def _move_on(self, transaction_file: str) -> None:
        """Makes the transaction what it is on the newest version."""
        if self._rebase is None or self._current is None or self._current is self._base:
            return
        operation = self._rebase(self._current)
        if operation == self._operation:
            return
        self._operation = operation
        self._transaction = replace(self._transaction, operation=operation)
        if transaction_file:
            self._store.put(f"{TRANSACTIONS}/{transaction_file}", self._transaction.to_bytes())

    def _check_conflict(self, committed: Manifest, transaction: Transaction | None) -> None:
        from lance_spark.table.commits.conflict_rules import ConflictContext
        from lance_spark.table.commits.conflicts import check_conflict

        operation = OtherOperation(OperationKind.UNKNOWN) if transaction is None else transaction.operation
        if self._base is None:
            raise IncompatibleConflictError(
                f"another writer has created the table {self._store.uri}",
                own=self._operation.kind.value,
                committed=operation.kind.value,
                table_version=committed.version,
            )
        base = self._base
        check_conflict(
            ConflictContext(
                self._operation,
                operation,
                base.schema,
                committed.schema,
                committed.version,
                base.fragments,
                committed.fragments,
                keeps_places(base, committed),
            )
        )

    def _after_clean_up(self, missing: int, newest: int) -> Manifest:
        """A version that contains our data files, although version `missing` was cleaned up.

        Raises:
            CommitStateUnknownError: none does, but `missing` may have been ours: a later compaction removes our files
                from the newest version.
            RetryableConflictError: none does, and `missing` was not ours; its changes are not known.
        """
        ours = self._operation.data_file_paths()
        if ours:
            # Only after a request without a clear answer can versions in between name our files.
            first = newest if self._in_doubt is None else missing + 1
            for version in reversed(range(first, newest + 1)):
                manifest = self._load_if_present(version)
                if manifest is not None and ours <= _files(manifest):
                    return manifest
        if self._in_doubt is not None:
            raise self._unknown(self._in_doubt)
        raise RetryableConflictError(
            f"version {missing} of {self._store.uri} was cleaned up before it could be checked for a conflict. "
            "Read the newest version and run the operation again",
            own=self._operation.kind.value,
            table_version=missing,
        )

    def _load_if_present(self, version: int) -> Manifest | None:
        try:
            return self._history.load(version).manifest
        except NotFoundError:
            return None

    def _next_manifest(self, transaction_file: str) -> Manifest:
        current = self._current
        if current is not None:
            check_writable(current.writer_flags, self._store.uri)
        settings = Settings(
            version=self._history.next_version(0 if current is None else current.version),
            timestamp_nanos=time.time_ns(),
            file_version=self._new_table.file_version,
            stable_row_ids=self._new_table.stable_row_ids,
        )
        manifest = replace(self._operation.next_manifest(current, settings), transaction_file=transaction_file)
        self._check_key(manifest)
        if current is not None:
            check_mem_wal_stays(current, manifest)
        for mark in self._marks:
            manifest = mark.applied(manifest)
        return manifest

    def _check_key(self, manifest: Manifest) -> None:
        kind = self._operation.kind
        if kind in (OperationKind.RESTORE, OperationKind.CLONE):
            return  # The version is there already, whatever its key.
        if self._current is None:
            check_primary_key(manifest.schema)
            return
        check_primary_key(manifest.schema, self._current.schema)
        if kind is not OperationKind.OVERWRITE:
            check_key_stays(manifest.schema, self._current.schema)

    def _publish(self, location: ManifestLocation, payload: bytes) -> bool:
        """True if the version is ours, False if it is another writer's."""
        in_doubt = was_lost = False
        trouble: LanceError | None = None
        for attempt in range(self._policy.max_requests):
            try:
                result = self._history.manifests.publish(location, payload)
                if result is PutResult.CREATED:
                    return True
                was_lost = was_lost or result is PutResult.UNKNOWN
            except LanceError as error:
                if in_doubt:
                    raise self._unknown(location.version) from error
                if self._has_landed(location):
                    return True
                raise
            # "Exists" too may be our own request, repeated by the client after a lost reply.
            in_doubt = True
            self._in_doubt = location.version
            try:
                owner = self._owner(location)
            except StorageError as error:
                owner, trouble = None, error
            except LanceError as error:
                raise self._unknown(location.version) from error
            if owner is not None:
                self._in_doubt = None
                return owner == self._transaction.uuid
            if not was_lost and self._is_passed(location):
                return False
            self._policy.wait(attempt)
        raise self._unknown(location.version) from trouble

    def _is_passed(self, location: ManifestLocation) -> bool:
        """Whether newer versions exist: then one that is taken and cannot be read was cleaned up."""
        try:
            newest = self._history.manifests.newest()
        except LanceError:
            return False
        return newest is not None and newest.version > location.version

    def _has_landed(self, location: ManifestLocation) -> bool:
        """Whether a version is ours although the store has refused it, which it must not have done then.

        Our files are about to be removed: where a store breaks its word, a look costs less than a table without them.
        """
        try:
            return self._owner(location) == self._transaction.uuid
        except LanceError:
            return False

    def _owner(self, location: ManifestLocation) -> str | None:
        """UUID of the transaction that made a version, "" if it does not say, None if nothing is there."""
        try:
            data = self._history.manifests.read(location)
        except NotFoundError:
            return None
        transaction = self._history.transaction(ManifestFile.decode(data, location.path))
        return "" if transaction is None else transaction.uuid

    def _withdraw(self, location: ManifestLocation) -> None:
        """Removes a version of ours that is not part of the history.

        Raises:
            RetryableConflictError: the store did not remove it. Another attempt would find it and count as committed.
        """
        try:
            self._history.manifests.withdraw(location)
        except LanceError as error:
            self._in_doubt = None
            _log.warning(
                "version %d of %s is not part of the table's history and could not be removed (%s): others do not "
                "build on it, and reading it by its number may fail. VACUUM (`cleanup` in Python) removes it",
                location.version,
                self._store.uri,
                error,
            )
            raise RetryableConflictError(
                f"others have committed to {self._store.uri} and cleaned up since, so that version {location.version} "
                "is not part of its history. Read the newest version and run the operation again",
                own=self._operation.kind.value,
                table_version=location.version,
            ) from error

    def _unknown(self, version: int) -> CommitStateUnknownError:
        return CommitStateUnknownError(
            f"the store did not say whether version {version} of {self._store.uri} was committed. Look for the "
            f"transaction {self._transaction.uuid} in the newest versions before you write again",
            table_version=version,
            transaction=self._transaction.uuid,
        )

    def _is_resurrected(self, ours: ManifestLocation) -> bool:
        """True if `ours` has taken a name that a clean-up had freed: newer versions exist that do not build on it.

        A writer that sleeps between its listing and its request can wake up after others have committed and cleaned up.

        Raises:
            CommitStateUnknownError: it may have, because the version before it, or after it, was cleaned up: by a fast
                clean-up, or before ours took the name.
        """
        try:
            newest = self._history.latest_location()
            if newest is None or newest.version <= ours.version:
                return False
            listing = {location.version: location.modified for location in self._history.locations()}
            own = listing.get(ours.version)
            followers = [modified for version, modified in listing.items() if version > ours.version and modified]
            # An external store, which commits manifests before they get their names, tells no time of the newest one.
            has_times = newest.modified is not None and bool(followers)
            is_older = own is not None and has_times and min(followers) < own
            # Clean-ups begin with the oldest version that has no tag. Times of stores are coarse.
            around = {ours.version, ours.version + 1} | (set() if self._current is None else {self._current.version})
            is_in_doubt = not around <= listing.keys()
            if not is_older and not is_in_doubt:
                return False
            paths = self._operation.data_file_paths()
            if paths and paths & _files(self._history.load(newest.version).manifest):
                return False
        except LanceError:
            # The version is there; trouble with looking around must not read as a failed commit.
            return False
        if not is_older:
            raise self._unknown(ours.version)
        return True


def _files(manifest: Manifest) -> frozenset[str]:
    """Paths of data files and deletion files as `CommittableOperation.data_file_paths` has them."""
    paths = {file.path for message in manifest.fragments.messages for file in message.files}
    for place, message in enumerate(manifest.fragments.messages):
        # Few have one, and a fragment takes ten times as long to parse as to ask.
        if message.HasField("deletion_file"):
            fragment = manifest.fragments[place]
            assert fragment.deletion_file is not None
            paths.add(fragment.deletion_file.path(fragment.id))
    return frozenset(paths)
