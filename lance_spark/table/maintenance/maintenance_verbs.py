"""`Dataset` methods for the maintenance of a table: compaction, clean-up and newer file versions. No row changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from lance_spark.table.cleanup.policy import SAFETY_WINDOW
from lance_spark.table.indexes.index_verbs import DatasetIndexVerbs

if TYPE_CHECKING:
    from typing_extensions import Self

    from lance_spark.expr.nodes import Expr
    from lance_spark.table.cleanup.cleanup import CleanupStats
    from lance_spark.table.cleanup.policy import CleanupPolicy
    from lance_spark.table.indexes.optimizer import Optimizer
    from lance_spark.table.maintenance.compaction import RewriteResult
    from lance_spark.table.maintenance.compaction_estimate import CompactionEstimate
    from lance_spark.table.maintenance.compaction_options import CompactionOptions
    from lance_spark.table.maintenance.compaction_plan import CompactionPlan, CompactionTask
    from lance_spark.table.maintenance.compaction_setting import AutoCompaction
    from lance_spark.table.maintenance.upgrade import Progress
    from lance_spark.table.moments import Moment


class CleanupVerbs(ABC):
    """The verbs that remove old versions and files that nobody needs, for tables of both kinds."""

    @property
    @abstractmethod
    def version(self) -> int:
        """The number of this version."""

    @abstractmethod
    def compact_small_fragments(self, policy: AutoCompaction) -> Self:
        """The version after one bounded compaction; this one if too few fragments would be rewritten.

        Raises: as `compact`.
        """

    @abstractmethod
    def clean_up(self, policy: CleanupPolicy, keep_from: int | None = None) -> CleanupStats:
        """Removes old versions and unreferenced files, as `cleanup`.

        Args:
            keep_from: this version and those after it stay; None: the newest one.

        Raises:
            InvalidInputError: there is no version `keep_from`, and as `cleanup`.
        """

    def cleanup(
        self,
        older_than: timedelta | Moment | None = None,
        keep_versions: int | None = None,
        *,
        delete_unverified: bool = False,
        error_if_tagged_old_versions: bool = True,
        dry_run: bool = False,
    ) -> CleanupStats:
        """Removes old versions of this branch and the files that no version names any more; returns what was removed.

        The newest version, this one and those after it stay, and so do versions that have a tag or that branches began
        at. Files that no version ever named may belong to a writer that is still at work: they are removed when
        they are seven days old. Clones that other libraries made are not known here; tag the version that one has.

        Of a partitioned table versions are those of `__manifest`; files are counted of that and of all partitions.

        Args:
            older_than: removes versions from before this age or moment; two weeks if neither this nor `keep_versions`
                is set. If both are, a version is removed if both allow it.
            keep_versions: keeps this many of the newest versions.
            delete_unverified: removes files that no version ever named whatever their age; nobody may be writing then.
            error_if_tagged_old_versions: refuses if tagged versions would be removed; they stay anyway.
            dry_run: only reports what would be removed.

        Raises:
            InvalidInputError: tagged versions would be removed; nothing was removed.
            UnsupportedFeatureError: a version needs something that this release does not know.
            CorruptFileError: a manifest cannot be read.
            StorageError: the store failed. Each version that is left has its files.
        """
        from lance_spark.table.cleanup.policy import CleanupPolicy

        policy = CleanupPolicy(older_than, keep_versions, delete_unverified, error_if_tagged_old_versions, dry_run)
        return self.clean_up(policy, self.version)

    @abstractmethod
    def remove_orphans(self, older_than: timedelta = SAFETY_WINDOW, *, dry_run: bool = False) -> CleanupStats:
        """Removes old files that no version names, which killed writers have left; returns what was removed.

        Args:
            older_than: how old, 7 days by default; a writer that has been at work for longer would lose its files.
            dry_run: only reports what would be removed.

        Raises: as `cleanup`.
        """


class MaintenanceVerbs(CleanupVerbs, DatasetIndexVerbs):
    """The verbs that change files and versions, but no rows."""

    @property
    def optimize(self) -> Optimizer[Self]:
        """`optimize_indices`, `cluster`, and `compact_files`, with the arguments of the reference library."""
        from lance_spark.table.indexes.optimizer import Optimizer

        return Optimizer(self)

    def compact_small_fragments(self, policy: AutoCompaction) -> Self:
        from lance_spark.table.maintenance.auto_compaction import compact_small_fragments

        compacted = compact_small_fragments(self.location, self.manifest, policy)
        return self if compacted is self.manifest else type(self)(self.location, compacted)

    def compact(
        self,
        *,
        target_rows_per_fragment: int | None = None,
        max_bytes_per_file: int | None = None,
        materialize_deletions: bool | None = None,
        materialize_deletions_threshold: float | None = None,
        batch_size: int | None = None,
        defer_index_remap: bool | None = None,
        commit_message: str | None = None,
    ) -> Self:
        """The newest version of the branch with fewer and larger fragments; it itself if there is nothing to gain.

        Rows and their stable ids stay. Rows that are rewritten keep their order, and come after those that are not, as
        in the reference library. Indexes follow the rows. Fragments that the same indexes cover are joined, others are
        not. Fragments that other writers change meanwhile are left as they are, and so are, with a warning in the log,
        those that an index of a kind covers that this release does not know: it would lose their rows. They are
        rewritten with `defer_index_remap`.

        What is None is as ``lance.compaction.<name>`` in the table's config says, else the default.

        Args:
            target_rows_per_fragment: fragments with fewer rows are joined with their neighbours; new ones have as many
                or more, up to the double. 1,048,576 by default.
            max_bytes_per_file: begins a new fragment earlier.
            materialize_deletions: rewrites fragments with many deleted rows even if they are large; the default.
            materialize_deletions_threshold: many are more than this part of the rows, 0.1 by default.
            batch_size: rows that are read at a time.
            defer_index_remap: writes no index file now. A fragment reuse index records where rows moved, and
                `optimize_indices` brings indexes up to date. A table that has such a record is always compacted this
                way; one with stable row ids never is.
            commit_message: kept with the version.

        Raises:
            CommitConflictError: other writers were always first. Nothing was changed.
            CommitStateUnknownError: the store never said whether the version was committed.
            StorageError: the store failed. Nothing was changed.
            UnsupportedFeatureError: this release cannot rewrite the rows.
        """
        from lance_spark.table.maintenance.compaction import compact
        from lance_spark.table.maintenance.compaction_options import CompactionOptions
        from lance_spark.table.writing.save import CommitOptions

        options = CompactionOptions.of(
            self.manifest.config,
            target_rows_per_fragment=target_rows_per_fragment,
            max_bytes_per_file=max_bytes_per_file,
            materialize_deletions=materialize_deletions,
            materialize_deletions_threshold=materialize_deletions_threshold,
            batch_size=batch_size,
            defer_index_remap=defer_index_remap,
        )
        return type(self)(self.location, compact(self.location, options, CommitOptions(message=commit_message)))

    def cluster(
        self,
        columns: Sequence[str] | str | None = None,
        curve: str = "hilbert",
        where: str | Expr | None = None,
        *,
        commit_message: str | None = None,
    ) -> Self:
        """The newest version of the branch with its rows in the order of a curve through the values of some columns; it
        itself if all of it is clustered so.

        Filters over these columns then skip most of the table, by the zone maps that are built with it. Rows, their
        stable ids and versions stay, and indexes follow them, as in `compact`, whose settings ``lance.compaction.*``
        count too. The order is not kept by itself: rows that are written later are sorted by the next run,
        which leaves alone what an earlier one over the same columns has written.

        Args:
            columns: paths of columns, 1 to 16; None is what the property ``lance.clustering.columns`` says. Nulls come
                first, NaN last. With "sort" a path may end with ` DESC`; then nulls come last, and NaN first.
            curve: "hilbert" and "zorder" let filters over each of the columns skip rows; "sort" favours the first one.
            where: only fragments with a row for which this is true, of partitioned tables partitions that may have one.
            commit_message: kept with the version.

        Raises:
            InvalidInputError: no columns, a column without an order, an unknown curve or an invalid filter.
            NotFoundError: no such column.
            CommitConflictError: other writers were always first. Nothing was changed.
            CommitStateUnknownError: the store never said whether the version was committed.
            StorageError: the store failed. Nothing was changed.
            UnsupportedFeatureError: this release cannot rewrite the rows, or indexes wait for a deferred compaction.
        """
        from lance_spark.table.maintenance.clustering.cluster import cluster
        from lance_spark.table.writing.save import CommitOptions

        made = cluster(self.location, columns, curve, where, CommitOptions(message=commit_message))
        return type(self)(self.location, made)

    def clean_up(self, policy: CleanupPolicy, keep_from: int | None = None) -> CleanupStats:
        from lance_spark.table.cleanup.cleanup import cleanup
        from lance_spark.table.indexes.optimize import trim_fragment_reuse

        if not policy.dry_run:
            trim_fragment_reuse(self.location)
        return cleanup(self.location, policy, keep_from=keep_from)

    def remove_orphans(self, older_than: timedelta = SAFETY_WINDOW, *, dry_run: bool = False) -> CleanupStats:
        from lance_spark.table.cleanup.cleanup import remove_orphans

        return remove_orphans(self.location, older_than, dry_run=dry_run)

    def plan_compaction(self, options: CompactionOptions | None = None) -> CompactionPlan:
        """The tasks that compact this version, for those who run them on several machines. Raises as `compact`.

        Args:
            options: None is what the table's config says, else the defaults.
        """
        from lance_spark.table.maintenance.compaction_options import CompactionOptions
        from lance_spark.table.maintenance.compaction_plan import plan_compaction

        return plan_compaction(self.location, self.manifest, options or CompactionOptions.of(self.manifest.config))

    def estimate_compaction(self, options: CompactionOptions | None = None) -> CompactionEstimate:
        """Estimates what `compact` would do to this version: the number of small fragments, what it would rewrite, and
        the number of fragments that would be left of that. Reads no rows, changes nothing. Raises as `plan_compaction`.

        Args:
            options: None: those of the table's config, else the defaults.
        """
        from lance_spark.table.maintenance.compaction_estimate import estimate_compaction
        from lance_spark.table.maintenance.compaction_options import CompactionOptions

        options = options or CompactionOptions.of(self.manifest.config)
        return estimate_compaction(self.location, self.manifest, options)

    def run_compaction_task(self, task: CompactionTask) -> RewriteResult:
        """Runs a task of a plan for this version; no version has its result before `commit_compaction`.

        Raises:
            InvalidInputError: the task is for another version.
            StorageError: the store failed. Nothing is left behind.
        """
        from lance_spark.table.maintenance.compaction import run_task

        return run_task(self.location, self.manifest, task)

    def commit_compaction(self, results: Sequence[RewriteResult], *, commit_message: str | None = None) -> Self:
        """The version with what tasks wrote from this one, but for fragments that other writers have changed since.

        After a store that did not answer it may be called again with the same results.

        Raises:
            CommitConflictError: nothing can be committed any more. What was written is removed.
            CommitStateUnknownError: the store never said whether the version was committed.
        """
        from lance_spark.table.maintenance.compaction import commit_compaction
        from lance_spark.table.writing.save import CommitOptions

        options = CommitOptions(message=commit_message)
        return type(self)(self.location, commit_compaction(self.location, self.manifest, results, options))

    def upgrade_files(
        self, version: str = "2.2", *, commit_message: str | None = None, progress: Progress | None = None
    ) -> Self:
        """The newest version of the branch with all its files rewritten in a newer file version; itself if they are.

        Every fragment with an older file is rewritten on its own and loses its deleted rows; all of it is one
        version. Rows and their stable ids stay, row addresses change. Indices no longer cover what was rewritten, as
        after a compaction. Fragments that other writers append or change meanwhile are rewritten too.

        Args:
            version: "2.0", "2.1" or "2.2"; later appends use it too.
            commit_message: kept with the version.
            progress: called after each fragment with the number of those that are done and of all.

        Raises:
            InvalidInputError: the table is of a newer version, or files of `version` are not written.
            UnsupportedFeatureError: `version` cannot hold a column or a value of the table.
            CommitConflictError: other writers were always first. Nothing was changed.
            CommitStateUnknownError: it is unknown whether the version was committed.
            StorageError: the store failed. Nothing was changed.
        """
        from lance_spark.table.maintenance.upgrade import commit_upgrade, upgrade_version
        from lance_spark.table.writing.save import CommitOptions

        options = CommitOptions(message=commit_message)
        self.location.history.check_commits()
        newest = self.location.newest()
        upgraded = commit_upgrade(self.location, newest, upgrade_version(version), (), options, progress)
        return type(self)(self.location, upgraded)
