"""A history that treats a given version as the newest: for versions that take effect only once they are referenced.

A partitioned namespace references, in `__manifest`, the version of each partition that readers see. Newer versions of
the partition's table may belong to another writer that has not committed yet, or never will. A writer must neither
build on them nor wait for them: it creates its version from the referenced one, under the next free number.

For example, if `__manifest` references version 5 and a killed writer has left version 6, the newest version here is 5,
and the next commit creates version 7 from the content of 5 and its own changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lance_spark.errors import NotFoundError, RetryableConflictError
from lance_spark.table.manifests.history import History
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.manifest_file import ManifestFile
from lance_spark.table.manifests.manifest_store import ManifestLocation
from lance_spark.table.manifests.transaction import Transaction


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
