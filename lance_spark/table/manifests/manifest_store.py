"""Which versions there are, and how the next one is published: one protocol, and the way of object stores.

`history` and `commit` know nothing else of where manifests are. `ObjectManifests` needs a store that can create an
object only if it is absent; `external_manifests.ExternalManifests` asks another service.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Protocol

import pyarrow as pa

from lance_spark.errors import NotFoundError, UnsupportedFeatureError
from lance_spark.storage.base import ObjectStore, PutResult
from lance_spark.storage.cache import free_etag
from lance_spark.storage.exclusive_create import check_commits
from lance_spark.table.paths import VERSIONS, ManifestNaming, parse_manifest_name

# V2 names sort newest first. One page of a listing is enough to see that a table has no others.
_ENOUGH_NAMES = 1000


@dataclass(frozen=True, slots=True)
class ManifestLocation:
    """A version that is there.

    Attributes:
        modified: when its manifest was written, if a listing told.
        size: bytes of the manifest, if a listing or the store told.
        stamp: what tells the manifest from others of its name (`storage.cache`), if a listing told.
    """

    version: int
    naming: ManifestNaming
    modified: datetime | None = None
    size: int | None = None
    etag: Hashable | None = field(default=None, compare=False)

    @property
    def path(self) -> str:
        """Of the manifest, relative to the root."""
        return self.naming.path(self.version)


class ManifestStore(Protocol):
    """The manifests below one root. Thread safe.

    Raises:
        StorageError: the store, or the service beside it, failed.
    """

    def newest(self) -> ManifestLocation | None:
        """The newest version, None if there is no table."""
        ...

    def newest_to_follow(self) -> ManifestLocation | None:
        """The newest version, for a writer; None if there is no table.

        Raises:
            UnsupportedFeatureError: manifests are named both ways, which a crashed migration leaves.
        """
        ...

    def locations(self) -> Iterator[ManifestLocation]:
        """All versions, in the order of the listing."""
        ...

    def newest_locations(self, count: int) -> list[ManifestLocation]:
        """The `count` newest versions, newest first; fewer if there are no more."""
        ...

    def locate(self, version: int) -> ManifestLocation:
        """Where the manifest of a version is, and its size.

        Raises:
            NotFoundError: there is no such version.
        """
        ...

    def read(self, location: ManifestLocation) -> pa.Buffer:
        """The manifest file of a version.

        Raises:
            NotFoundError: there is no such version.
        """
        ...

    def read_version(self, version: int) -> tuple[pa.Buffer, ManifestLocation]:
        """The same where only the number is known, and where it was.

        Raises:
            NotFoundError: there is no such version.
        """
        ...

    def publish(self, location: ManifestLocation, payload: bytes) -> PutResult:
        """Makes a version that must not be there. An exception means that it was not made, for certain.

        EXISTS and UNKNOWN leave open whose version is there: `read` it and compare.
        """
        ...

    def check_commits(self) -> None:
        """Passes if `publish` can be trusted; asked before the files of a version are written.

        Raises:
            StorageError: two writers could both publish the same version here, or the store does not answer.
        """
        ...

    def withdraw(self, location: ManifestLocation) -> None:
        """Removes a version that its own writer has found to be no part of the history."""
        ...

    def forget(self) -> None:
        """Removes what is known about the versions outside the root: for a table or branch that is dropped."""
        ...


class ObjectManifests:
    """Manifests in a store that can create an object only if it is absent: what is listed is committed."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def newest(self) -> ManifestLocation | None:
        return max(self._first(), key=lambda location: location.version, default=None)

    def newest_locations(self, count: int) -> list[ManifestLocation]:
        found = self._first(max(count, _ENOUGH_NAMES))
        return sorted(found, key=lambda location: location.version, reverse=True)[:count]

    def newest_to_follow(self) -> ManifestLocation | None:
        found = self._first()
        if len({location.naming for location in found}) > 1:
            raise UnsupportedFeatureError(
                f"{self._store.uri} has manifests of both naming schemes; finish the migration before writing to it",
                feature="mixed manifest names",
            )
        return max(found, key=lambda location: location.version, default=None)

    def locations(self) -> Iterator[ManifestLocation]:
        for entry in self._store.list(VERSIONS):
            parsed = parse_manifest_name(entry.path.rpartition("/")[2])
            if parsed is not None:
                naming, version = parsed
                yield ManifestLocation(version, naming, entry.modified, entry.size, entry.etag)

    def locate(self, version: int) -> ManifestLocation:
        for naming in (ManifestNaming.V2, ManifestNaming.V1):
            path = naming.path(version)
            try:
                etag = free_etag(self._store, path)
                size = self._store.size(path)
            except NotFoundError:
                continue
            return ManifestLocation(version, naming, size=size, etag=etag)
        raise self._not_found(version)

    def read(self, location: ManifestLocation) -> pa.Buffer:
        return self._store.read(location.path)

    def read_version(self, version: int) -> tuple[pa.Buffer, ManifestLocation]:
        for naming in (ManifestNaming.V2, ManifestNaming.V1):
            try:
                return self._store.read(naming.path(version)), ManifestLocation(version, naming)
            except NotFoundError:
                continue
        raise self._not_found(version)

    def publish(self, location: ManifestLocation, payload: bytes) -> PutResult:
        return self._store.put_if_absent(location.path, payload)

    def check_commits(self) -> None:
        check_commits(self._store)

    def withdraw(self, location: ManifestLocation) -> None:
        self._store.delete(location.path)

    def forget(self) -> None:
        """Does nothing: everything that is known is in the root."""

    def _first(self, count: int = _ENOUGH_NAMES) -> list[ManifestLocation]:
        """All versions, or at least the `count` newest ones if their names come first in a long listing."""
        listing = self.locations()
        first = list(islice(listing, count))
        if len(first) == count and all(location.naming is ManifestNaming.V2 for location in first):
            return first
        return [*first, *listing]

    def _not_found(self, version: int) -> NotFoundError:
        return NotFoundError(f"{self._store.uri} has no version {version}")
