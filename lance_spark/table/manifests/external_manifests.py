"""Manifests whose commits an external service decides (Lance format specification, "External Manifest Store").

::

    writer                                           entry of version 7              objects in _versions/
    1. puts the manifest under a staging name        -                               7.manifest-<uuid>
    2. creates the entry: this is the commit         7 -> 7.manifest-<uuid>          7.manifest-<uuid>
    3. copies it to its final name                   7 -> 7.manifest-<uuid>          7.manifest-<uuid>, 7.manifest
    4. points the entry there                        7 -> 7.manifest                 7.manifest-<uuid>, 7.manifest
    5. removes the staged one                        7 -> 7.manifest                 7.manifest

(the same for both naming schemes). A writer that dies after step 2 has committed; whoever next asks for the newest
version performs steps 3 to 5. So only the newest version can be unfinished, and a copy of the table's files lacks at
most this version. A root without entries was only written without the service so far; its versions are those of a
listing.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from lance_spark.errors import CorruptFileError, LanceError, NotFoundError
from lance_spark.storage.base import ObjectStore, PutResult
from lance_spark.storage.deletion import delete_quietly
from lance_spark.storage.manifest_table import ManifestEntry, ManifestTable
from lance_spark.table.manifests.manifest_store import ManifestLocation, ObjectManifests
from lance_spark.table.paths import VERSIONS, parse_manifest_name

_log = logging.getLogger(__name__)

_STAGED = re.compile(rf"{VERSIONS}/([0-9]+\.manifest)-[0-9A-Za-z-]+")
_TRIES = 10


class ExternalManifests:
    """The `ManifestStore` of an object store and the external table of its entries."""

    def __init__(self, store: ObjectStore, table: ManifestTable) -> None:
        self._store = store
        self._table = table
        self._objects = ObjectManifests(store)

    def newest(self) -> ManifestLocation | None:
        entry = self._table.latest()
        return self._objects.newest() if entry is None else self._finished(entry)

    def newest_to_follow(self) -> ManifestLocation | None:
        entry = self._table.latest()
        return self._objects.newest_to_follow() if entry is None else self._finished(entry)

    def locations(self) -> Iterator[ManifestLocation]:
        """All versions in the order of a listing, after finishing the newest one."""
        self.newest()
        return self._objects.locations()

    def newest_locations(self, count: int) -> list[ManifestLocation]:
        self.newest()
        return self._objects.newest_locations(count)

    def locate(self, version: int) -> ManifestLocation:
        entry = self._table.get(version)
        if entry is None:
            return self._objects.locate(version)
        location = self._finished(entry)
        return replace(location, size=self._store.size(location.path))

    def read(self, location: ManifestLocation) -> pa.Buffer:
        """The manifest file of a version; one request if the manifest has its final name."""
        try:
            return self._store.read(location.path)
        except NotFoundError:
            return self.read_version(location.version)[0]

    def read_version(self, version: int) -> tuple[pa.Buffer, ManifestLocation]:
        entry = self._table.get(version)
        if entry is None:
            return self._objects.read_version(version)
        return self._read(entry), self._location(entry)[0]

    def publish(self, location: ManifestLocation, payload: bytes) -> PutResult:
        if self._is_taken_without_entry(location):
            return PutResult.EXISTS
        staged = ManifestEntry(location.version, f"{location.path}-{uuid.uuid4()}", len(payload))
        try:
            self._store.put(staged.path, payload)
            result = self._table.create(staged)
        except LanceError:
            # The entry was not created and will not be.
            delete_quietly(self._store, staged.path)
            raise
        if result is not PutResult.CREATED:
            result = self._whose(staged, payload, result)
        if result is PutResult.CREATED:
            self._finish_or_leave(staged, location, payload)
        return result

    def check_commits(self) -> None:
        """Does nothing: the external service guarantees that commits are safe."""

    def withdraw(self, location: ManifestLocation) -> None:
        """Deletes the manifest. Its entry remains and keeps the version number from being used again."""
        self._store.delete(location.path)

    def forget(self) -> None:
        self._table.clear()

    def _is_taken_without_entry(self, location: ManifestLocation) -> bool:
        """Whether a writer that does not use the service has created this version. Creates its entry if so."""
        try:
            size = self._store.size(location.path)
        except NotFoundError:
            return False
        self._table.create(ManifestEntry(location.version, location.path, size))
        return True

    def _whose(self, staged: ManifestEntry, payload: bytes, result: PutResult) -> PutResult:
        """CREATED if the stored version is that of `payload`, from this request or an earlier one."""
        try:
            entry = self._table.get(staged.version)
            if entry is None:
                # Our request may still arrive, and then its entry needs the staged manifest.
                return PutResult.UNKNOWN
            if entry.path == staged.path:
                return PutResult.CREATED
            own = self._holds(entry, payload)
        except LanceError as error:
            _log.warning("cannot tell whose version %d of %s is: %s", staged.version, self._store.uri, error)
            return PutResult.UNKNOWN
        delete_quietly(self._store, staged.path)
        return PutResult.CREATED if own else result

    def _holds(self, entry: ManifestEntry, payload: bytes) -> bool:
        """Whether the manifest of an entry equals `payload`; False if it was cleaned up."""
        try:
            return bytes(self._read(entry)) == payload
        except NotFoundError:
            return False

    def _finish_or_leave(self, entry: ManifestEntry, location: ManifestLocation, payload: bytes) -> None:
        """Steps 3 to 5 for a version of our own. It is already committed, so errors are left to the next reader."""
        try:
            self._finish(entry, location, payload)
        except LanceError as error:
            _log.warning(
                "version %d of %s is committed; its manifest gets its final name when it is next read: %s",
                entry.version,
                self._store.uri,
                error,
            )

    def _finished(self, entry: ManifestEntry) -> ManifestLocation:
        """The final location of a version, after performing steps 3 to 5 if necessary."""
        for _ in range(_TRIES):
            location, is_final = self._location(entry)
            if is_final:
                return location
            try:
                payload = bytes(self._store.read(entry.path))
            except NotFoundError:
                # Another client has just finished it.
                entry = self._again(entry)
                continue
            self._finish(entry, location, payload)
            return location
        raise NotFoundError(f"the staged manifest {entry.path!r} in {self._store.uri} no longer exists")

    def _finish(self, entry: ManifestEntry, location: ManifestLocation, payload: bytes) -> None:
        self._store.put(location.path, payload)
        if not self._table.replace(ManifestEntry(entry.version, location.path, len(payload))):
            # The entries were removed, so the table was dropped: the manifest just written would be its only version.
            self._store.delete(location.path)
            delete_quietly(self._store, entry.path)
            raise NotFoundError(
                f"version {entry.version} of {self._store.uri} was removed from {self._table.description}"
            )
        delete_quietly(self._store, entry.path)

    def _read(self, entry: ManifestEntry) -> pa.Buffer:
        for _ in range(_TRIES):
            try:
                return self._store.read(entry.path)
            except NotFoundError:
                if self._location(entry)[1]:
                    raise NotFoundError(
                        f"{self._store.uri} has no version {entry.version}, though {self._table.description} names "
                        f"its manifest {entry.path!r}: it was cleaned up, or the table was removed without its entries"
                    ) from None
                entry = self._again(entry)
        raise NotFoundError(f"the staged manifest {entry.path!r} in {self._store.uri} no longer exists")

    def _again(self, entry: ManifestEntry) -> ManifestEntry:
        """The changed entry, read again.

        Raises:
            NotFoundError: the entry no longer exists, or it is unchanged and its manifest is missing.
        """
        now = self._table.get(entry.version)
        if now is None:
            raise NotFoundError(f"{self._store.uri} has no version {entry.version} any more")
        if now.path == entry.path:
            raise NotFoundError(
                f"version {entry.version} of {self._store.uri} is missing: {self._table.description} names "
                f"the manifest {entry.path!r}, which is not there"
            )
        return now

    def _location(self, entry: ManifestEntry) -> tuple[ManifestLocation, bool]:
        """(final location of a version, whether the entry already points there)."""
        staged = _STAGED.fullmatch(entry.path)
        folder, _, name = entry.path.rpartition("/")
        parsed = parse_manifest_name(staged[1] if staged else name)
        if parsed is None or folder != VERSIONS or parsed[1] != entry.version:
            raise CorruptFileError(
                f"{self._table.description} names {entry.path!r} as the manifest of version {entry.version}"
            )
        return ManifestLocation(entry.version, parsed[0]), staged is None
