"""Removing old versions of a partitioned table, and what only they need.

What is read of a partition is what versions of `__manifest` name, which need not be its newest version, so one order
holds for the whole:

1. Old versions of `__manifest` go, as in the clean-up of any table; tagged ones stay. What they name is noted before.
2. What the versions of `__manifest` name that are there now is kept, and all versions that tags or branches of a
   partition's table need.
3. In each partition versions go that nobody names: those that a version of step 1 named, and those that are older than
   the safety window, as writers leave them that were killed. Then the files that no version names any more.
4. Directories of partitions go that nobody names: those that a version of step 1 named, and those that nobody has
   touched for longer than the safety window.

Whatever stops it in between, each version of `__manifest` that is there has all that it names. What is not known any
more to have been named counts as a leftover, and goes when it is old. The highest version of a partition stays always,
because a number must not come again for other content while a writer may hold it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone

from lance_spark.errors import NotFoundError
from lance_spark.namespace.catalog_table import CatalogTable
from lance_spark.namespace.locations import is_external, location_uri
from lance_spark.namespace.partition_history import RESTORE_GUARD
from lance_spark.namespace.partition_index import Partition, partitions_of
from lance_spark.namespace.partition_spec import is_partitioned, specs_from_metadata
from lance_spark.namespace.partitioned_table import NUM_THREADS, PartitionedTable
from lance_spark.storage import open_store
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.overlap import overlapped
from lance_spark.table.cleanup import SAFETY_WINDOW, CleanupPolicy, CleanupRun, CleanupStats, cleanup
from lance_spark.table.features import check_writable
from lance_spark.table.location import TableLocation
from lance_spark.table.manifest import Manifest
from lance_spark.table.manifest_store import ManifestLocation
from lance_spark.table.other_roots import other_branches
from lance_spark.table.paths import TAGS, VERSIONS

_DIRECTORY = re.compile(r"[0-9a-f]{8}_v[1-9][0-9]*\$(.*\$)?dataset")
_Named = dict[str, set[int | None]]
"""By location the versions of the main branch that are named; None for whatever is the newest one."""


@dataclass(frozen=True, slots=True)
class VacuumStats:
    """What was removed, or would be.

    Attributes:
        versions: of the whole.
        catalog: what went of `__manifest`.
        partitions: by location what went of partitions that are left, where anything did.
        directories: locations of partitions that went as a whole.
    """

    versions: tuple[int, ...] = ()
    catalog: CleanupStats = field(default_factory=CleanupStats)
    partitions: Mapping[str, CleanupStats] = field(default_factory=dict)
    directories: tuple[str, ...] = ()


def vacuum(
    table: PartitionedTable,
    older_than: timedelta | datetime | None = None,
    keep_versions: int | None = None,
    *,
    delete_unverified: bool = False,
    error_if_tagged_old_versions: bool = True,
    dry_run: bool = False,
) -> VacuumStats:
    """Removes old versions of the whole and what only they need; what was removed.

    The newest version, that of `table` and those after it stay, and those that have a tag. What no version ever named
    may belong to a writer that is still at work: it goes when it is seven days old.

    Args:
        older_than: removes versions from before this age or moment; two weeks if neither this nor `keep_versions` is
            given. If both are, versions go that both let go.
        keep_versions: so many of the newest versions stay.
        delete_unverified: removes what no version ever named whatever its age; nobody may be writing then.
        error_if_tagged_old_versions: refuses if tagged versions would have to go; they stay anyway.
        dry_run: only tells what would go.

    Raises:
        InvalidInputError: tagged versions would have to go; nothing was removed.
        UnsupportedFeatureError: a version needs something that this release does not know.
        CorruptFileError: a manifest cannot be read. Nothing that it may name was removed.
        StorageError: the store failed. Each version that is left has its files.
    """
    policy = CleanupPolicy(older_than, keep_versions, delete_unverified, error_if_tagged_old_versions, dry_run)
    return _Vacuum(table, policy).run()


class _Vacuum:
    def __init__(self, table: PartitionedTable, policy: CleanupPolicy) -> None:
        self._table = table
        self._catalog: CatalogTable = table.catalog
        self._policy = policy
        self._now = datetime.now(timezone.utc)
        self._window = None if policy.delete_unverified else SAFETY_WINDOW
        self._store: ObjectStore = open_store(table.root, table.storage_options)

    def run(self) -> VacuumStats:
        catalog, gone = self._remove_versions()
        kept = self._kept(catalog.versions if self._policy.dry_run else ())
        inside = [location for location in sorted(kept) if not is_external(location)]
        found = overlapped(lambda location: self._clean(location, kept, gone), inside, NUM_THREADS)
        cleaned = {place: stats for place, stats in zip(inside, found, strict=True) if stats != CleanupStats()}
        dropped = [location for location in sorted(self._directories(gone)) if location not in kept]
        removed = overlapped(lambda location: self._drop(location, location in gone), dropped, NUM_THREADS)
        directories = tuple(location for location, went in zip(dropped, removed, strict=True) if went)
        return VacuumStats(catalog.versions, catalog, cleaned, directories)

    def _remove_versions(self) -> tuple[CleanupStats, _Named]:
        """Step 1; what the versions named that went."""
        location = self._catalog.table
        keep_from = self._table.version
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
        gone: _Named = {}
        for version in old.versions:
            _add(gone, named.get(version, {}))
        return old, gone

    def _refuses_tags(self) -> bool:
        """Whether tags are to be heeded; those of restores that were killed go when they are old."""
        refs = self._catalog.table.refs
        before = None if self._window is None else self._now - self._window
        for entry in list(refs.store.list(TAGS)):
            is_old = before is None or (entry.modified is not None and entry.modified < before)
            if is_old and entry.path.startswith(f"{TAGS}/{RESTORE_GUARD}") and not self._policy.dry_run:
                refs.store.delete(entry.path)
        names = [name for name in refs.tags() if not name.startswith(RESTORE_GUARD)]
        return self._policy.error_if_tagged_old_versions and bool(names)

    def _kept(self, without: Sequence[int]) -> _Named:
        """Step 2, as far as `__manifest` tells."""
        location = self._catalog.table
        kept: _Named = {}
        for branch in (location, *other_branches(location)):
            for number in [entry.version for entry in branch.history.locations()]:
                if branch is location and number in without:
                    continue
                try:
                    manifest = branch.history.load(number).manifest
                except NotFoundError:
                    continue  # Another clean-up has removed it.
                _add(kept, self._named_by(manifest))
        return kept

    def _named_by(self, manifest: Manifest) -> _Named:
        """What a version of `__manifest` names."""
        version = self._catalog.at(manifest)
        if not is_partitioned(version.properties):
            return {}
        named: _Named = {}
        for partition in partitions_of(version.rows(), specs_from_metadata(version.properties)):
            named.setdefault(partition.location, set()).update(_main_versions(partition))
        return named

    def _clean(self, location: str, kept: _Named, gone: _Named) -> CleanupStats:
        """Step 3 for one partition."""
        table = TableLocation(location_uri(self._table.root, location), self._table.storage_options)
        newest = table.latest()
        if newest is None:
            return CleanupStats()
        check_writable(newest.writer_flags, table.uri)
        run = _PartitionRun(table, self._policy, self._now, kept[location], gone.get(location, set()))
        run.remove_versions(newest, None)
        return run.remove_files(self._window)

    def _directories(self, gone: _Named) -> set[str]:
        """The places of partitions below the root, and those that versions named which went."""
        found = {path.rstrip("/").rpartition("/")[2] for path in self._store.list_folders("")}
        listed = {name for name in found if _DIRECTORY.fullmatch(name)}
        return listed | {location for location in gone if not is_external(location)}

    def _drop(self, location: str, was_named: bool) -> bool:
        """Step 4 for one directory; True if it goes."""
        entries = list(self._store.list(location, recursive=True))
        if not entries:
            return False
        if not was_named and self._window is not None:
            before = self._now - self._window
            if any(entry.modified is None or entry.modified >= before for entry in entries):
                return False
        if not self._policy.dry_run:
            # Manifests first, so that what is left after a crash is no table.
            manifests = [entry.path for entry in entries if f"/{VERSIONS}/" in f"/{entry.path}"]
            others = [entry.path for entry in entries if f"/{VERSIONS}/" not in f"/{entry.path}"]
            for paths in (manifests, others):
                overlapped(self._store.delete, paths, NUM_THREADS)
        return True


class _PartitionRun(CleanupRun):
    """The clean-up of one partition. Here a higher version need not be younger.

    Args:
        kept: the versions that `__manifest` names.
        gone: those that versions of it named which are no more.
    """

    ages_ascend = False

    def __init__(
        self,
        table: TableLocation,
        policy: CleanupPolicy,
        now: datetime,
        kept: set[int | None],
        gone: set[int | None],
    ) -> None:
        super().__init__(table, policy, now)
        self._kept_versions = kept
        self._gone_versions = gone
        self._before = None if policy.delete_unverified else now - SAFETY_WINDOW

    def _candidates(self, newest: Manifest, keep_from: int | None) -> list[ManifestLocation]:
        found = sorted(self._history.locations(), key=lambda location: location.version)
        return [location for location in found[:-1] if self._may_go(location)]

    def _may_go(self, location: ManifestLocation) -> bool:
        if location.version in self._kept_versions:
            return False
        if location.version in self._gone_versions or self._before is None:
            return True
        return location.modified is None or location.modified < self._before

    def _is_old(self, manifest: Manifest) -> bool:
        if manifest.version in self._gone_versions or self._before is None:
            return True
        return manifest.timestamp < self._before


def _main_versions(partition: Partition) -> set[int | None]:
    """What is named of the main branch; the clean-up does not touch what is on others or has a tag."""
    return set() if partition.tag is not None or partition.branch is not None else {partition.version}


def _add(named: _Named, more: _Named) -> None:
    for location, versions in more.items():
        named.setdefault(location, set()).update(versions)
