"""A key-value store that maps versions to manifests (Lance format specification, "External Manifest Store").

Object stores without a conditional put cannot commit by themselves. They are paired with a table that has one entry
for each version of each root; its one strong operation is to create an entry that must not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from lance_spark.storage.base import PutResult

MANAGED_VERSIONS = "lance_spark.managed_versions"
"""The storage option that says which server keeps the versions of a table (`served_versions`); no store gets it."""


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """One version.

    Attributes:
        path: of the manifest, relative to the root; its final name, or the staging name of an unfinished commit.
        size: bytes of the manifest; None in entries of old writers.
    """

    version: int
    path: str
    size: int | None = None


@runtime_checkable
class ManifestTable(Protocol):
    """The entries of one root. Thread safe; reads see all previously acknowledged writes.

    Raises:
        StorageError: the service failed, or the table has the wrong key schema.
        CorruptFileError: an entry violates the protocol.
    """

    @property
    def description(self) -> str:
        """Table and service, for messages."""
        ...

    def latest(self) -> ManifestEntry | None:
        """The entry with the largest version, None without entries."""
        ...

    def get(self, version: int) -> ManifestEntry | None:
        """The entry of a version."""
        ...

    def create(self, entry: ManifestEntry) -> PutResult:
        """Adds the entry of a version that must have none. EXISTS may mean our own entry, as with a store."""
        ...

    def replace(self, entry: ManifestEntry) -> bool:
        """Overwrites the entry of a version; False if there is none."""
        ...

    def clear(self) -> None:
        """Removes all entries of the root, newest first; for dropped tables."""
        ...
