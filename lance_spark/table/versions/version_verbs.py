"""The methods of a `Dataset` for its history: versions, their changes, tags, branches, clones, base paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.storage.paths import UriOrPath
from lance_spark.table.bases import BasePath
from lance_spark.table.location import TableLocation, checked_version
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.versions.tag_verbs import TagVerbs

if TYPE_CHECKING:
    from typing_extensions import Self

    from lance_spark.table.change_feed.change_feed import ChangeFeed, FeedColumns
    from lance_spark.table.change_feed.version_range import VersionRange
    from lance_spark.table.publishing.compare import BranchChange
    from lance_spark.table.versions.version_summary import TableVersion


class VersionVerbs(TagVerbs):
    """Operations on versions, and on their names."""

    location: TableLocation
    manifest: Manifest

    def __init__(self, location: TableLocation, manifest: Manifest) -> None:
        self.location = location
        self.manifest = manifest

    @property
    def versions_location(self) -> TableLocation:
        """`location`, under the name that partitioned tables have for where their versions are."""
        return self.location

    @property
    def versions_manifest(self) -> Manifest:
        """`manifest`, under the name that partitioned tables have for the manifest of their version."""
        return self.manifest

    def versions(self, limit: int | None = None, *, contents: bool = True) -> list[TableVersion]:
        """The versions of the branch, oldest first, with a summary of each.

        Args:
            limit: only this many of the newest ones; no more manifests are read than necessary.
            contents: False leaves out counts of rows, fragments and bytes, which need the manifests of all partitions
                of a partitioned table.

        Raises:
            CorruptFileError: a manifest violates the format.
            UnsupportedFeatureError: a version needs a feature that this release does not read.
        """
        from lance_spark.table.versions.version_summary import version_summaries

        summaries = version_summaries(self.location.history, limit)
        return summaries if contents else [replace(item, content=None, difference=None) for item in summaries]

    def plan_range(
        self, versions: VersionRange, columns: Sequence[str] | None = None, fields: FeedColumns | None = None
    ) -> ChangeFeed:
        from lance_spark.table.change_feed.change_feed import plan_changes

        return plan_changes(self.location, versions, columns, fields)

    def on_branch(self, branch: str | None) -> Self:
        location = self.location.on_branch(branch)
        newest = location.latest()
        if newest is None:
            raise NotFoundError(f"{self.location.uri} has no branch {branch!r}")
        return type(self)(location, newest)

    def create_branch(self, name: str, version: int | None = None, *, tag: str | None = None) -> Self:
        """Creates a branch from `version` of this branch, the version of `tag`, or this one; returns its first version.

        The branch shares the files of the version it starts from. To write to it, open the table with its name.

        Raises:
            NotFoundError: there is no such version or tag.
            InvalidInputError: the branch exists or is partially created, the name is not valid for a branch, or both
                version and tag are given.
            StorageError: the store failed, or it is unknown whether the branch was created.
            UnsupportedFeatureError: the version needs a feature that this release does not write.
        """
        from lance_spark.table.refs.branching import create_branch

        if version is not None and tag is not None:
            raise InvalidInputError("give a version or a tag")
        origin, number = self.location, self._or_own_version(version)
        if tag is not None:
            named = self.location.refs.tag(tag)
            origin, number = self.location.on_branch(named.branch), named.version
        return type(self)(*create_branch(origin, name, number))

    def delete_branch(self, name: str, *, force: bool = False) -> None:
        from lance_spark.table.refs.branching import delete_branch

        delete_branch(self.location, name, force=force)

    def fast_forward(self, branch: str, to: str) -> Self:
        """The new newest version of `branch`, with the content of the newest version of the branch `to`.

        To fast-forward "main", the main branch, publishes a branch. Rows, row ids, columns, indexes and properties are
        those of `to`; only indexes are copied, so `to` cannot be deleted while versions of `branch` have its files. If
        `branch` has that content already, no version is made.

        Raises:
            InvalidInputError: `to` does not contain the newest version of `branch`, because it was committed since; or
                the branches have different base paths with one id.
            NotFoundError: there is no such branch.
            CommitConflictError: other writers were always first. Nothing was changed.
            CommitStateUnknownError: it is unknown whether the version was committed.
            UnsupportedFeatureError: the table is partitioned, or needs something that this release does not write.
        """
        from lance_spark.table.publishing.fast_forward import fast_forward

        target = self.location.on_branch(branch)
        return type(self)(target, fast_forward(target, self.location.on_branch(to)))

    def cherrypick(self, version: int, branch: str | None = None, onto: str | None = None) -> Self:
        """The new newest version of the branch `onto`, with the change of one version of `branch`. None is this branch.

        The version must have added, deleted, updated or merged rows. New rows are added with the files that they have;
        rows that it deleted or updated must be on `onto` as they were. A version is picked once.

        Raises:
            InvalidInputError: the version does something else; the branch has its change already; rows that it deleted
                or updated are not there as they were; or the columns differ.
            NotFoundError: there is no such branch or version, or the one before it was cleaned up.
            CommitConflictError: other writers were always first. Nothing was changed.
            CommitStateUnknownError: it is unknown whether the version was committed.
            UnsupportedFeatureError: the version has changed values in place, or adds rows of a table with identity
                columns; the table is partitioned, or needs something that this release does not write.
        """
        from lance_spark.table.publishing.cherrypick import cherrypick

        source = self.location if branch is None else self.location.on_branch(branch)
        target = self.location if onto is None else self.location.on_branch(onto)
        return type(self)(target, cherrypick(source, checked_version(version), target))

    def publish_changes(self, wap_id: str) -> Self:
        """The new newest version of the main branch, with the changes that Spark has staged with an id (spark.wap.id).

        Their branch ``wap-<id>`` is removed where the table has no files of it.

        Raises:
            NotFoundError: nothing was staged with this id.
            InvalidInputError: the changes were published already; or rows that they delete or update are not in the
                newest version as they were.
            CommitConflictError: other writers were always first. Nothing was changed.
            CommitStateUnknownError: it is unknown whether the version was committed.
            UnsupportedFeatureError: the table is partitioned, or needs something that this release does not write.
        """
        from lance_spark.table.publishing.publish import publish_changes

        return type(self)(self.location.on_branch(None), publish_changes(self.location, wap_id).version)

    def compare_branches(self, left: str, right: str) -> list[BranchChange]:
        """Counts what the newest version of branch `right` has beside that of `left`: rows "added", "deleted"
        and "updated". "main" is the main branch.

        A row is the same one in both if it is at the same place of a shared file, or if it has a stable row id that was
        given before the branches parted; without stable row ids an updated row is deleted and added.

        Raises:
            NotFoundError: there is no such branch.
            InvalidInputError: the branches have different base paths with one id.
            UnsupportedFeatureError: the table is partitioned, and has no branches.
        """
        from lance_spark.table.publishing.compare import compare_branches

        return compare_branches(self.location.on_branch(left), self.location.on_branch(right))

    def shallow_clone(
        self, uri: UriOrPath, version: int | None = None, *, storage_options: Mapping[str, str] | None = None
    ) -> Self:
        """Creates a table at `uri` that shares the files of `version` of this branch; returns its first version.

        The version of this table gets a tag ``lance-clone-...``, so that clean-ups keep the files; remove the tag when
        the clone no longer exists. Removing this table removes them.

        Args:
            storage_options: for the new table; None for those of this one.

        Raises:
            NotFoundError: there is no such version.
            InvalidInputError: there is a table at `uri`.
            CommitConflictError: another writer created a table there at the same time.
            CommitStateUnknownError: it is unknown whether the clone was created.
            UnsupportedFeatureError: the version needs a feature that this release does not write.
        """
        from lance_spark.table.maintenance.after_commit import maintain_after
        from lance_spark.table.refs.clone_tags import tagged_clone

        options = self.location.storage_options if storage_options is None else storage_options
        target = TableLocation(uri, options, after_commit=maintain_after)
        return type(self)(target, tagged_clone(self.location, self._or_own_version(version), target))

    def add_bases(self, bases: Sequence[BasePath]) -> Self:
        """Adds base paths for files of the table; one with id 0 is assigned a free id.

        Raises:
            InvalidInputError: two base paths have the same id, name or path, or a path is not absolute.
            CommitConflictError: it conflicts with a concurrent transaction. Nothing was changed.
            CommitStateUnknownError: it is unknown whether the version was committed.
            UnsupportedFeatureError: the table needs a feature that this release does not write.
        """
        from lance_spark.table.versions.changes import add_bases

        return type(self)(self.location, add_bases(self.location, self.manifest, bases))

    def _at_manifest(self, manifest: Manifest) -> Self:
        return type(self)(self.location, manifest)
