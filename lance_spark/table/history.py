"""The versions of a table: which there are, which is the newest, and what made each of them.

The newest version is found by listing `_versions/`; hint files can be stale and are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from lance_spark.errors import CorruptFileError, NotFoundError, UnsupportedFeatureError
from lance_spark.storage.base import ObjectStore
from lance_spark.table.features import check_readable
from lance_spark.table.manifest_file import ManifestFile
from lance_spark.table.paths import (
    TRANSACTIONS,
    VERSIONS,
    ManifestNaming,
    checked_relative,
    detached_manifest_path,
    is_detached,
    parse_manifest_name,
)
from lance_spark.table.transaction import Transaction

# V2 names sort newest first. One page of a listing is enough to see that a table has no others.
_ENOUGH_NAMES = 1000


@dataclass(frozen=True, slots=True)
class ManifestLocation:
    """A version that a listing shows."""

    version: int
    naming: ManifestNaming
    modified: datetime | None = None

    @property
    def path(self) -> str:
        return self.naming.path(self.version)


class History:
    """The versions below one root (of the main branch or of another)."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store

    def locations(self) -> Iterator[ManifestLocation]:
        """All versions, in the order of the listing."""
        for entry in self.store.list(VERSIONS):
            parsed = parse_manifest_name(entry.path.rpartition("/")[2])
            if parsed is not None:
                naming, version = parsed
                yield ManifestLocation(version, naming, entry.modified)

    def latest_location(self) -> ManifestLocation | None:
        """The newest version, None if there is no table."""
        return max(self._newest(), key=lambda location: location.version, default=None)

    def latest_to_follow(self) -> ManifestLocation | None:
        """The newest version, for a writer; None if there is no table.

        Raises:
            UnsupportedFeatureError: manifests are named both ways, which a crashed migration leaves.
        """
        found = self._newest()
        if len({location.naming for location in found}) > 1:
            raise UnsupportedFeatureError(
                f"{self.store.uri} has manifests of both naming schemes; finish the migration before writing to it",
                feature="mixed manifest names",
            )
        return max(found, key=lambda location: location.version, default=None)

    def _newest(self) -> list[ManifestLocation]:
        """All versions, or the newest ones if their names come first in a long listing."""
        listing = self.locations()
        first = list(islice(listing, _ENOUGH_NAMES))
        if len(first) == _ENOUGH_NAMES and all(location.naming is ManifestNaming.V2 for location in first):
            return first
        return [*first, *listing]

    def load_latest(self) -> ManifestFile:
        """The newest version.

        Raises:
            NotFoundError: there is no table.
        """
        for last_try in (False, True):
            location = self.latest_location()
            if location is None:
                break
            try:
                return self._read(location.path, location.version)
            except NotFoundError:
                if last_try:  # The first time a clean-up or a migration may have come in between.
                    raise
        raise NotFoundError(f"there is no table at {self.store.uri}")

    def load(self, version: int) -> ManifestFile:
        """The version `version`, a detached one too.

        Raises:
            NotFoundError: there is no such version.
        """
        if is_detached(version):
            return self._read(detached_manifest_path(version), version)
        for naming in (ManifestNaming.V2, ManifestNaming.V1):
            try:
                return self._read(naming.path(version), version)
            except NotFoundError:
                continue
        raise NotFoundError(f"{self.store.uri} has no version {version}")

    def manifest_size(self, version: int) -> int:
        """Bytes of the manifest file of a version that is no detached one.

        Raises:
            NotFoundError: there is no such version.
        """
        for naming in (ManifestNaming.V2, ManifestNaming.V1):
            try:
                return self.store.size(naming.path(version))
            except NotFoundError:
                continue
        raise NotFoundError(f"{self.store.uri} has no version {version}")

    def transaction(self, file: ManifestFile) -> Transaction | None:
        """What made a version: from its manifest, or from the file that the manifest names; None if neither tells."""
        if file.transaction is not None:
            return Transaction.from_bytes(file.transaction)
        name = file.manifest.transaction_file
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

    def _read(self, path: str, version: int) -> ManifestFile:
        file = ManifestFile.decode(self.store.read(path), f"{self.store.uri}/{path}")
        manifest = file.manifest
        if manifest.version != version:
            raise CorruptFileError(f"the manifest of version {version} says {manifest.version}", path=path)
        check_readable(manifest.reader_flags, manifest.writer_flags, f"{self.store.uri}, version {version},")
        return file
