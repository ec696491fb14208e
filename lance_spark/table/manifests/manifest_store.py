"""The protocol that locates and publishes versions, and its implementation for object stores.

Only this module's implementations tell `history` and `commit` where manifests are. `ObjectManifests` needs a store
that can create an object only if absent; `external_manifests.ExternalManifests` uses another service.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from typing import Protocol, TypeGuard

import pyarrow as pa

from lance_spark.errors import NotFoundError, UnsupportedFeatureError
from lance_spark.storage.base import Named, ObjectInfo, ObjectStore, PutResult
from lance_spark.storage.cache import free_etag
from lance_spark.storage.conditional_put import check_commits
from lance_spark.storage.paths import with_absolute_path
from lance_spark.table.paths import VERSIONS, ManifestNaming, parse_manifest_name

# V2 names sort newest first. One page of a listing is enough to see that a table has only V2 names.
_ENOUGH_NAMES = 1000


@dataclass(frozen=True, slots=True)
class ManifestLocation:
    """An existing version.

    Attributes:
        modified: when its manifest was written, if known from a listing.
        size: bytes of the manifest, if known from a listing or the store.
        stamp: etag of the manifest (`storage.cache`), if known from a listing.
        named: path of the manifest where somebody else has named it; None: by the naming scheme.
    """

    version: int
    naming: ManifestNaming
    modified: datetime | None = None
    size: int | None = None
    etag: Hashable | None = field(default=None, compare=False)
    named: str | None = None

    @property
    def path(self) -> str:
        """Path of the manifest, relative to the root."""
        return self.named or self.naming.path(self.version)


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
            UnsupportedFeatureError: manifests of both naming schemes exist, as after a crashed migration.
        """
        ...

    def locations(self) -> Iterator[ManifestLocation]:
        """All versions, in the order of the listing."""
        ...

    def newest_locations(self, count: int) -> list[ManifestLocation]:
        """The `count` newest versions, newest first; fewer if there are fewer."""
        ...

    def locate(self, version: int) -> ManifestLocation:
        """The location of a version's manifest, and its size.

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
        """The manifest file of a version known by its number only, and its location.

        Raises:
            NotFoundError: there is no such version.
        """
        ...

    def publish(self, location: ManifestLocation, payload: bytes) -> PutResult:
        """Creates a version that must not exist. An exception guarantees that it was not created.

        After EXISTS and UNKNOWN the stored version may be anyone's: `read` it and compare.
        """
        ...

    def check_commits(self) -> None:
        """Checks that `publish` is safe; called before the files of a version are written.

        Raises:
            StorageError: two writers could both publish the same version here, or the store does not respond.
        """
        ...

    def withdraw(self, location: ManifestLocation) -> None:
        """Removes a version that its own writer has found not to be part of the history."""
        ...

    def forget(self) -> None:
        """Removes state about the versions outside the root: for a table or branch that is dropped."""
        ...


class ObjectManifests:
    """Manifests in a store that can create an object only if absent: listed versions are committed."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._place = with_absolute_path(store.uri)

    def newest(self) -> ManifestLocation | None:
        return self._newest(self._first_names())

    def newest_locations(self, count: int) -> list[ManifestLocation]:
        locations = self._first(max(count, _ENOUGH_NAMES))
        return sorted(locations, key=lambda location: location.version, reverse=True)[:count]

    def newest_to_follow(self) -> ManifestLocation | None:
        names = self._first_names()
        # Only a listing tells folders with such names from manifests.
        if _is_mixed(names) and _is_mixed(self._first()):
            raise UnsupportedFeatureError(
                f"{self._store.uri} has manifests of both naming schemes; finish the migration before writing to it",
                feature="mixed manifest names",
            )
        return self._newest(names)

    def locations(self) -> Iterator[ManifestLocation]:
        for entry in self._store.list(VERSIONS):
            named = _named(entry.path.rpartition("/")[2])
            if named is not None:
                yield _found(named, entry)

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
        """Does nothing: there is no state outside the root."""

    def _first(self, count: int = _ENOUGH_NAMES) -> list[ManifestLocation]:
        """At least the `count` newest versions if their names come first in a long listing; otherwise all."""
        return _enough(self.locations(), count)

    def _first_names(self) -> list[ManifestLocation]:
        """Same versions as `_first`, with number and naming only where the store lists names at lower cost."""
        if not _has_names(self._store):
            return self._first()
        return _enough(filter(None, map(_named, self._store.names(VERSIONS))), _ENOUGH_NAMES)

    def _newest(self, found: list[ManifestLocation]) -> ManifestLocation | None:
        newest = max(found, key=attrgetter("version"), default=None)
        if newest is None or not _has_names(self._store):
            return newest
        try:
            return _found(newest, self._store.info(newest.path))
        except NotFoundError:
            # A clean-up or a migration was faster, or it is a folder.
            return max(self._first(), key=attrgetter("version"), default=None)

    def _not_found(self, version: int) -> NotFoundError:
        return NotFoundError(f"{self._place} has no version {version}")


def _has_names(store: ObjectStore) -> TypeGuard[Named]:
    # isinstance with a protocol takes as long as to list the names.
    return hasattr(store, "names") and hasattr(store, "info")


def _is_mixed(found: Iterable[ManifestLocation]) -> bool:
    return len({location.naming for location in found}) > 1


@lru_cache(maxsize=4096)
def _named(name: str) -> ManifestLocation | None:
    parsed = parse_manifest_name(name)
    return None if parsed is None else ManifestLocation(parsed[1], parsed[0])


def _found(named: ManifestLocation, entry: ObjectInfo) -> ManifestLocation:
    return ManifestLocation(named.version, named.naming, entry.modified, entry.size, entry.etag)


def _enough(listing: Iterable[ManifestLocation], count: int) -> list[ManifestLocation]:
    rest = iter(listing)
    first = list(islice(rest, min(count, sys.maxsize)))
    if len(first) == count and all(location.naming is ManifestNaming.V2 for location in first):
        return first
    return [*first, *rest]
