"""Removing old versions of a partitioned table, and what only they need.

What is read of a partition is what versions of `__manifest` name, which need not be its newest version, so one order
holds for the table:

1. Old versions of `__manifest` are removed, as in the clean-up of any table; tagged ones stay. What they name is
   noted before.
2. What the versions of `__manifest` name that are there now is kept, and all versions that tags or branches of a
   partition's table need.
3. In each partition the versions that nobody names are removed: those that a version of step 1 named, and those older
   than the safety window, which killed writers have left. Then the files that no version names any more are removed.
4. Directories of partitions that nobody names are removed: those that a version of step 1 named, and those that nobody
   has touched for longer than the safety window. One stays as a whole while it has a tag for a shallow clone.

If it is interrupted, each version of `__manifest` that is left has all that it names. What is not known any
more to have been named counts as a leftover, and goes when it is old. The highest version of a partition stays always,
because a number must not come again for other content while a writer may hold it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone

from lance_spark.errors import InvalidInputError, LanceError, NotFoundError
from lance_spark.namespace.directory.catalog_table import CatalogTable
from lance_spark.namespace.locations import is_external, location_uri
from lance_spark.partitioned.manifest_index import Partition, partitions_of
from lance_spark.partitioned.spec import is_partitioned, specs_from_metadata
from lance_spark.partitioned.table import NUM_THREADS, PartitionedTable
from lance_spark.storage import open_store
from lance_spark.storage.base import ObjectInfo, ObjectStore
from lance_spark.storage.overlap import overlapped
from lance_spark.table.cleanup.auto_cleanup import policy_after
from lance_spark.table.cleanup.cleanup import CleanupRun, CleanupStats, check_keep_from, cleanup
from lance_spark.table.cleanup.orphan_files import FileKind, OrphanFile
from lance_spark.table.cleanup.policy import SAFETY_WINDOW, CleanupPolicy, ago
from lance_spark.table.cleanup.references import GUARD_PREFIX, other_branches, remove_old_guards
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.features import check_writable
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.manifest_store import ManifestLocation
from lance_spark.table.paths import DATA, DELETIONS, INDICES, TRANSACTIONS, VERSIONS
from lance_spark.table.refs.clone_tags import root_of_clone_tag

_DIRECTORY = re.compile(r"[0-9a-f]{8}_v[1-9][0-9]*\$(.*\$)?dataset")
_KINDS = {
    DATA: FileKind.DATA,
    DELETIONS: FileKind.DELETION,
    INDICES: FileKind.INDEX,
    TRANSACTIONS: FileKind.TRANSACTION,
}
_Named = dict[str, set[int | None]]
"""Named versions of the main branch by location; None for the newest one at the time."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class VacuumStats:
    """Statistics of removed files, or in a dry run of files that would be removed.

    Attributes:
        versions: of the table.
        catalog: files of `__manifest`.
        partitions: files of remaining partitions by location, where there are any.
        directories: locations of partitions that were removed.
        of_directories: the files in them.
    """

    versions: tuple[int, ...] = ()
    catalog: CleanupStats = field(default_factory=CleanupStats)
    partitions: Mapping[str, CleanupStats] = field(default_factory=dict)
    directories: tuple[str, ...] = ()
    of_directories: CleanupStats = field(default_factory=CleanupStats)

    @property
    def total(self) -> CleanupStats:
        """Sums of all parts; `versions` are the table's."""
        parts = [self.catalog, *self.partitions.values(), self.of_directories]
        return CleanupStats(
            self.versions,
            data_files=sum(part.data_files for part in parts),
            deletion_files=sum(part.deletion_files for part in parts),
            index_files=sum(part.index_files for part in parts),
            transaction_files=sum(part.transaction_files for part in parts),
            staged_files=sum(part.staged_files for part in parts),
            bytes_removed=sum(part.bytes_removed for part in parts),
        )


def vacuum(table: PartitionedTable, policy: CleanupPolicy, keep_from: int | None = None) -> VacuumStats:
    """Removes old versions of the table and what only they need; what was removed.

    The newest version, the version of `table`, later versions and tagged versions stay.

    Args:
        keep_from: this version stays too, and those after it.

    Raises:
        InvalidInputError: tagged versions would be removed, or `keep_from` is newer than the newest version; nothing
            was removed.
        UnsupportedFeatureError: a version needs something that this release does not know.
        CorruptFileError: a manifest cannot be read. Nothing that it may name was removed.
        StorageError: the store failed. Each version that is left has its files.
    """
    run = _Vacuum(table, policy, None if policy.delete_unverified else SAFETY_WINDOW)
    if keep_from is None:
        return run.run(table.version)
    check_keep_from(table.root, keep_from, table.versions_location.history.load_latest().manifest.version)
    return run.run(min(table.version, keep_from))


def remove_orphans(
    table: PartitionedTable, older_than: timedelta = SAFETY_WINDOW, *, dry_run: bool = False
) -> VacuumStats:
    """Removes what no version of the table ever named and is older than `older_than`; what was removed.

    A version of a partition that only removed versions named counts as never named. Raises as `vacuum`.
    """
    if older_than < timedelta(0):
        raise InvalidInputError(f"an age of {older_than} lies in the future")
    return _Vacuum(table, CleanupPolicy(dry_run=dry_run), older_than).run(None)


class _Vacuum:
    """One clean-up.

    Args:
        window: files that no version ever named are removed if they are older; None: at any age.
    """

    def __init__(self, table: PartitionedTable, policy: CleanupPolicy, window: timedelta | None) -> None:
        self._table = table
        self._catalog: CatalogTable = table.catalog
        self._policy = policy
        self._now = datetime.now(timezone.utc)
        self._window = window
        self._store: ObjectStore = open_store(table.root, table.storage_options)

    def run(self, keep_from: int | None) -> VacuumStats:
        """Removes files, or counts them in a dry run. Versions before `keep_from` are removed; None: none are."""
        catalog, deleted = self._orphans_of_catalog() if keep_from is None else self._remove_versions(keep_from)
        named = self._kept(catalog.versions if self._policy.dry_run else ())
        inside = [location for location in sorted(named) if not is_external(location)]
        results = overlapped(lambda location: self._clean(location, named, deleted), inside, NUM_THREADS)
        cleaned = {place: stats for place, stats in zip(inside, results, strict=True) if stats != CleanupStats()}
        dropped = [location for location in sorted(self._directories(deleted)) if location not in named]
        removed = overlapped(lambda location: self._drop(location, location in deleted), dropped, NUM_THREADS)
        directories = {location: files for location, files in zip(dropped, removed, strict=True) if files}
        files = [file for of_directory in directories.values() for file in of_directory]
        return VacuumStats(catalog.versions, catalog, cleaned, tuple(directories), _counted(files))

    def _orphans_of_catalog(self) -> tuple[CleanupStats, _Named]:
        location = self._catalog.table
        check_writable(location.history.load_latest().manifest.writer_flags, location.uri)
        return CleanupRun(location, self._policy, self._now).remove_files(self._window), {}

    def _remove_versions(self, keep_from: int) -> tuple[CleanupStats, _Named]:
        """Step 1; what the versions named that went."""
        location = self._catalog.table
        policy = replace(self._policy, error_if_tagged_old_versions=self._refuses_tags())
        old = cleanup(location, replace(policy, dry_run=True), keep_from=keep_from)
        named: dict[int, _Named] = {}
        for version in old.versions:
            try:
                named[version] = self._named_by(location.at(version).manifest)
            except NotFoundError:
                continue  # Another clean-up was faster; what it named goes when it is old.
        if not self._policy.dry_run:
            old = cleanup(location, policy, keep_from=keep_from)
        deleted: _Named = {}
        for version in old.versions:
            _add(deleted, named.get(version, {}))
        return old, deleted

    def _refuses_tags(self) -> bool:
        """Whether tags are protected; old tags of restores that were killed are removed."""
        refs = self._catalog.table.refs
        if not self._policy.dry_run:
            remove_old_guards(refs, None if self._window is None else ago(self._now, self._window))
        names = [name for name in refs.tags() if not name.startswith(GUARD_PREFIX)]
        return self._policy.error_if_tagged_old_versions and bool(names)

    def _kept(self, without: Sequence[int]) -> _Named:
        """Step 2, as far as `__manifest` says."""
        location = self._catalog.table
        named: _Named = {}
        for branch in (location, *other_branches(location)):
            for number in [entry.version for entry in branch.history.locations()]:
                if branch is location and number in without:
                    continue
                try:
                    manifest = branch.history.load(number).manifest
                except NotFoundError:
                    continue  # Another clean-up has removed it.
                _add(named, self._named_by(manifest))
        return named

    def _named_by(self, manifest: Manifest) -> _Named:
        """Versions of partitions that a version of `__manifest` names, by location."""
        version = self._catalog.at(manifest)
        if not is_partitioned(version.properties):
            return {}
        named: _Named = {}
        for partition in partitions_of(version.rows(), specs_from_metadata(version.properties)):
            named.setdefault(partition.location, set()).update(_main_versions(partition))
        return named

    def _clean(self, location: str, kept: _Named, deleted: _Named) -> CleanupStats:
        """Step 3 for one partition."""
        table = TableLocation(location_uri(self._table.root, location), self._table.storage_options)
        newest = table.latest()
        if newest is None:
            return CleanupStats()
        check_writable(newest.writer_flags, table.uri)
        before = None if self._window is None else ago(self._now, self._window)
        run = _PartitionRun(table, self._policy, self._now, before, kept[location], deleted.get(location, set()))
        run.remove_versions(newest, None)
        return run.remove_files(self._window)

    def _directories(self, deleted: _Named) -> set[str]:
        """The places of partitions below the root, and those that versions named which went."""
        directories = {path.rstrip("/").rpartition("/")[2] for path in self._store.list_folders("")}
        listed = {name for name in directories if _DIRECTORY.fullmatch(name)}
        return listed | {location for location in deleted if not is_external(location)}

    def _drop(self, location: str, was_named: bool) -> list[ObjectInfo]:
        """Step 4 for one directory; what goes."""
        entries = list(self._store.list(location, recursive=True))
        if any(root_of_clone_tag(entry.path) is not None for entry in entries):
            return []
        if not was_named and self._window is not None:
            before = ago(self._now, self._window)
            if any(entry.modified is None or entry.modified >= before for entry in entries):
                return []
        if not self._policy.dry_run:
            # Manifests first, so that what is left after a crash is no table.
            manifests = [entry.path for entry in entries if f"/{VERSIONS}/" in f"/{entry.path}"]
            others = [entry.path for entry in entries if f"/{VERSIONS}/" not in f"/{entry.path}"]
            for paths in (manifests, others):
                overlapped(self._store.delete, paths, NUM_THREADS)
        return entries


class _PartitionRun(CleanupRun):
    """The clean-up of one partition. Here a higher version need not be younger.

    Args:
        before: versions that were never named are removed if they are older than this; None: at any age.
        kept: the versions that `__manifest` names.
        deleted: the versions that removed versions of `__manifest` named.
    """

    ages_ascend = False

    def __init__(
        self,
        table: TableLocation,
        policy: CleanupPolicy,
        now: datetime,
        before: datetime | None,
        kept: set[int | None],
        deleted: set[int | None],
    ) -> None:
        super().__init__(table, policy, now)
        self._kept_versions = kept
        self._deleted_versions = deleted
        self._before = before

    def _candidates(self, newest: Manifest, keep_from: int | None) -> list[ManifestLocation]:
        locations = sorted(self._history.locations(), key=lambda location: location.version)
        return [location for location in locations[:-1] if self._may_go(location)]

    def _may_go(self, location: ManifestLocation) -> bool:
        if location.version in self._kept_versions:
            return False
        if location.version in self._deleted_versions or self._before is None:
            return True
        return location.modified is None or location.modified < self._before

    def _is_old(self, manifest: Manifest) -> bool:
        if manifest.version in self._deleted_versions or self._before is None:
            return True
        return manifest.timestamp < self._before


def _counted(entries: Sequence[ObjectInfo]) -> CleanupStats:
    """Statistics of files in directories of partitions."""
    files = [
        OrphanFile(_KINDS[folder], entry.path, entry.size)
        for entry in entries
        if (folder := entry.path.split("/")[1]) in _KINDS
    ]
    return replace(CleanupStats().with_files(files), bytes_removed=sum(entry.size for entry in entries))


def _main_versions(partition: Partition) -> set[int | None]:
    """The named version on the main branch; empty for a branch or tag, whose versions the clean-up does not touch."""
    return set() if partition.tag is not None or partition.branch is not None else {partition.version}


def _add(named: _Named, more: _Named) -> None:
    for location, versions in more.items():
        named.setdefault(location, set()).update(versions)


def clean_up_after(made: PartitionedTable) -> None:
    """Cleans up if the version `made` is one after which the properties ask for it. Failures are only logged."""
    try:
        policy = policy_after(made.version, made.properties)
        if policy is None:
            return
        stats = vacuum(made, replace(policy, error_if_tagged_old_versions=False))
    except LanceError as error:
        _log.warning("version %d of %s is committed; cleaning up after it failed: %s", made.version, made.root, error)
        return
    _log.info("cleaned up after version %d of %s: %s", made.version, made.root, stats.total)
