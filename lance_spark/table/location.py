"""Location of a table: its main root, the root of the branch in question, and the versions there."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.storage import open_manifest_table, open_store
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.manifest_table import MANAGED_VERSIONS
from lance_spark.storage.paths import UriOrPath, below, uri_text
from lance_spark.table.base_places import options_of
from lance_spark.table.bases import Bases
from lance_spark.table.manifests.history import History, PinnedHistory
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.manifest_file import ManifestFile
from lance_spark.table.operations.base import OperationKind
from lance_spark.table.paths import branch_root
from lance_spark.table.refs.refs import MAIN, Refs

if TYPE_CHECKING:
    from lance_spark.storage.served_versions import ServedTable
    from lance_spark.table.moments import Moment

AfterCommit = Callable[["TableLocation", Manifest, OperationKind], None]
"""Called after a commit of an operation of some kind. It must not raise: the version is there."""


class TableLocation:
    """A branch of a table.

    Args:
        uri: the root of the main branch, as text or as a `pathlib.Path`.
        branch: None or "main" is the main branch.
        must_exist: False for a branch that is about to be made or whose rests are to be removed.
        after_commit: called with this location, each version that is committed to it and the kind of the operation,
            such as `cleanup.auto_cleanup.clean_up_after`; None for a location that nothing is committed to.

    Raises:
        NotFoundError: there is no such branch, though there must be.
        InvalidInputError: the URI is invalid, or no branch can have this name.
    """

    def __init__(
        self,
        uri: UriOrPath,
        storage_options: Mapping[str, str] | None = None,
        *,
        branch: str | None = None,
        must_exist: bool = True,
        after_commit: AfterCommit | None = None,
    ) -> None:
        uri = uri_text(uri)
        self._storage_options = dict(storage_options) if storage_options else None
        options = options_of(self._storage_options)
        main_root = open_store(uri, options)
        manifests = open_manifest_table(uri, options)
        served = None if options is None or MANAGED_VERSIONS not in options else _served(main_root.uri, options)
        self.uri = main_root.uri if manifests is None else uri.rstrip("/")
        self.refs = Refs(main_root)
        self.branch = None if branch in (None, MAIN) else branch
        self.store: ObjectStore = main_root
        if self.branch is not None:
            if must_exist:
                self.refs.branch(self.branch)
            root = below(self.uri, branch_root(self.branch))
            self.store = open_store(root, options)
            manifests = open_manifest_table(root, options)
        if served is not None:
            from lance_spark.storage.served_versions import ServedVersions
            from lance_spark.table.manifests.served_manifests import ServedManifests

            versions = ServedVersions(served, self.branch, self.store.uri)
            self.history = History(self.store, ServedManifests(self.store, versions))
        elif manifests is None:
            self.history = History(self.store)
        else:
            from lance_spark.table.manifests.external_manifests import ExternalManifests

            self.history = History(self.store, ExternalManifests(self.store, manifests))
        self._after_commit = after_commit
        if after_commit is not None:
            self.history.after_commit = partial(after_commit, self)

    @property
    def storage_options(self) -> dict[str, str] | None:
        """The options that the table was opened with."""
        return self._storage_options

    def on_branch(self, branch: str | None, *, must_exist: bool = True) -> TableLocation:
        """Another branch of the same table; same arguments and errors as the class."""
        return TableLocation(
            self.uri, self._storage_options, branch=branch, must_exist=must_exist, after_commit=self._after_commit
        )

    def followed_by(self, after_commit: AfterCommit) -> TableLocation:
        """The same branch with another hook."""
        return TableLocation(
            self.uri, self._storage_options, branch=self.branch, must_exist=False, after_commit=after_commit
        )

    def pinned_at(self, version: int) -> TableLocation:
        """The same table, as if `version` were its newest one (0: as if there were none)."""
        pinned = copy.copy(self)
        pinned.history = PinnedHistory(self.history, version)
        return pinned

    def bases(self, manifest: Manifest, *, display_name: str | None = None, split_key: str | None = None) -> Bases:
        """The stores that hold the files of a version.

        Args:
            display_name: what errors call the version if files are missing; by default its number and the table's root.
        """
        return Bases(
            self.store,
            manifest.base_paths,
            self._storage_options,
            version=manifest.version,
            display_name=display_name,
            split_key=split_key,
        )

    def latest(self) -> Manifest | None:
        """The newest version, None if there is no table."""
        newest = self.history.find_latest()
        return None if newest is None else newest.manifest

    def newest(self) -> Manifest:
        """The newest version.

        Raises:
            NotFoundError: there is no table.
        """
        return self.history.load_latest().manifest

    def at(self, version: int) -> ManifestFile:
        """The version with this number.

        Raises:
            NotFoundError: there is no such version.
            InvalidInputError: it is not the number of one.
        """
        return self.history.load(checked_version(version))

    def as_of(self, moment: Moment) -> ManifestFile:
        """The newest version that was committed at `moment` or before; a time without a zone is local time.

        Raises:
            NotFoundError: the table began later.
            InvalidInputError: it is not a time.
        """
        from lance_spark.table.moments import in_utc

        instant = in_utc(moment)
        for location in sorted(self.history.locations(), key=lambda item: item.version, reverse=True):
            try:
                file = self.history.load_at(location)
            except NotFoundError:
                continue  # Cleaned up since the listing.
            if file.manifest.timestamp <= instant:
                return file
        raise NotFoundError(f"{self.uri} has no version from {instant.isoformat()} or before")


def _served(uri: str, options: Mapping[str, str]) -> ServedTable | None:
    """The table at `uri`, if a server keeps its versions."""
    from lance_spark.storage.served_versions import ServedTable

    return ServedTable.of_options(uri, options)


def checked_version(version: object) -> int:
    """`version`, if it can be the number of a version.

    Raises:
        InvalidInputError: it cannot.
    """
    if isinstance(version, bool) or not isinstance(version, int) or version < 1 or version >= 1 << 64:
        raise InvalidInputError(f"{version!r} is not a version; versions are counted from 1")
    return version
