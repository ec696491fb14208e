"""Manifests whose versions a server keeps (Lance REST namespace specification, "managed versioning").

::

    writer                                     server
    1. puts the manifest under a staged name
    2. asks to make it version 7               checks that 7 follows, and says where the manifest is from now on
    3. has committed with an answer of success

After any other answer the writer asks which manifest is version 7, and compares. The server may copy the manifest to
its final name, or keep the staged one: a manifest is read where the server says, and nothing in the folder counts.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from lance_spark.errors import CorruptFileError, LanceError, NotFoundError
from lance_spark.storage.base import ObjectStore, PutResult
from lance_spark.storage.deletion import delete_quietly
from lance_spark.storage.manifest_table import ManifestEntry
from lance_spark.storage.served_versions import ServedVersions
from lance_spark.table.manifests.manifest_store import ManifestLocation
from lance_spark.table.paths import ManifestNaming, parse_manifest_name

_log = logging.getLogger(__name__)

_LOOKS = 4
_FIRST_PAUSE_SECONDS = 0.1


class ServedManifests:
    """The `ManifestStore` of an object store and the server that keeps the versions."""

    def __init__(self, store: ObjectStore, versions: ServedVersions) -> None:
        self._store = store
        self._versions = versions

    def newest(self) -> ManifestLocation | None:
        entry = self._versions.latest()
        return None if entry is None else self._location(entry)

    def newest_to_follow(self) -> ManifestLocation | None:
        return self.newest()

    def locations(self) -> Iterator[ManifestLocation]:
        return map(self._location, self._versions.entries(page=1000))

    def newest_locations(self, count: int) -> list[ManifestLocation]:
        return [self._location(entry) for entry in self._versions.newest(count)]

    def locate(self, version: int) -> ManifestLocation:
        return self._location(self._required(version))

    def read(self, location: ManifestLocation) -> pa.Buffer:
        if location.named is None:  # The name that a version will have, or would have elsewhere.
            location = self.locate(location.version)
        return self._store.read(location.path)

    def read_version(self, version: int) -> tuple[pa.Buffer, ManifestLocation]:
        location = self.locate(version)
        return self._store.read(location.path), location

    def publish(self, location: ManifestLocation, payload: bytes) -> PutResult:
        staged = ManifestEntry(location.version, f"{location.path}-{uuid.uuid4()}", len(payload))
        try:
            self._store.put(staged.path, payload)
            result = self._versions.create(staged, location.naming.name)
        except LanceError:
            # The version was not created and will not be.
            delete_quietly(self._store, staged.path)
            raise
        return result if result is PutResult.CREATED else self._whose(staged, payload, result)

    def check_commits(self) -> None:
        """Does nothing: the server guarantees that commits are safe."""

    def withdraw(self, location: ManifestLocation) -> None:
        """Removes a version from the server, then its manifest."""
        located = location if location.named is not None else self._entry_or_none(location.version)
        self._versions.delete(location.version, location.version)
        if located is not None:
            delete_quietly(self._store, located.path)

    def forget(self) -> None:
        newest = self._versions.latest()
        if newest is not None:
            self._versions.delete(1, newest.version)

    def _whose(self, staged: ManifestEntry, payload: bytes, result: PutResult) -> PutResult:
        """CREATED if the server has the version of `payload`, from this request or an earlier one."""
        for look in range(_LOOKS):
            if look:
                time.sleep(_FIRST_PAUSE_SECONDS * 2**look)
            try:
                entry = self._versions.get(staged.version)
                if entry is None:
                    continue  # Our request may still arrive.
                own = entry.path == staged.path or bytes(self._store.read(entry.path)) == payload
            except LanceError as error:
                _log.warning("cannot tell whose version %d of %s is: %s", staged.version, self._store.uri, error)
                break  # Requests that read have been repeated.
            if entry.path != staged.path:
                delete_quietly(self._store, staged.path)
            return PutResult.CREATED if own else result
        return PutResult.UNKNOWN  # Then the version may need the staged manifest.

    def _required(self, version: int) -> ManifestEntry:
        entry = self._versions.get(version)
        if entry is None:
            raise NotFoundError(f"{self._store.uri} has no version {version}: {self._versions.description} has none")
        return entry

    def _entry_or_none(self, version: int) -> ManifestLocation | None:
        entry = self._versions.get(version)
        return None if entry is None else self._location(entry)

    def _location(self, entry: ManifestEntry) -> ManifestLocation:
        """The place of a version as the server says it.

        Raises:
            CorruptFileError: its name is that of another version.
        """
        name = entry.path.rpartition("/")[2]
        parsed = parse_manifest_name(name.partition(".manifest")[0] + ".manifest")
        if parsed is not None and parsed[1] != entry.version:
            raise CorruptFileError(f"{self._versions.description} says that version {entry.version} is {entry.path!r}")
        naming = ManifestNaming.V2 if parsed is None else parsed[0]
        return replace(ManifestLocation(entry.version, naming), size=entry.size, named=entry.path)
