"""A key-value store that says which manifest is which version (Lance format specification, "External Manifest Store").

Object stores without a conditional put cannot commit by themselves. Beside such a store stands a table with one entry
for each version of each root, and the one strong operation is to create an entry that must not be there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from lance_spark.storage.base import PutResult


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One version.

    Attributes:
        path: of the manifest, relative to the root; its final name, or the staging name of a commit that is not
            finished yet.
        size: bytes of the manifest; None in entries of old writers.
    """

    version: int
    path: str
    size: int | None = None


@runtime_checkable
class ManifestTable(Protocol):
    """The entries of one root. Thread safe; reads see every write that was acknowledged before.

    Raises:
        StorageError: the service failed, or the table has not the keys that it needs.
        CorruptFileError: an entry contradicts the protocol.
    """

    @property
    def description(self) -> str:
        """For messages: which table of which service."""
        ...

    def latest(self) -> ManifestEntry | None:
        """The entry with the largest version, None without entries."""
        ...

    def get(self, version: int) -> ManifestEntry | None:
        """The entry of a version."""
        ...

    def create(self, entry: ManifestEntry) -> PutResult:
        """Adds the entry of a version that must have none. EXISTS may be our own entry, as with a store."""
        ...

    def replace(self, entry: ManifestEntry) -> bool:
        """Overwrites the entry of a version; False if there is none (any more)."""
        ...

    def clear(self) -> None:
        """Removes all entries of the root, newest first: for a table that was dropped."""
        ...
