"""What a `Dataset` says about its history: versions, their changes, tags, branches, clones, bases."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.storage.paths import UriOrPath
from lance_spark.table.bases import BasePath
from lance_spark.table.change_feed.change_feed import ChangeFeed, plan_changes
from lance_spark.table.change_feed.version_range import VersionRange
from lance_spark.table.cleanup.auto_cleanup import clean_up_after
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.refs.branching import create_branch, delete_branch
from lance_spark.table.refs.clone import shallow_clone
from lance_spark.table.refs.refs import Branch, Tag
from lance_spark.table.refs.tagging import create_tag, delete_tag, update_tag
from lance_spark.table.versions.changes import add_bases
from lance_spark.table.versions.version_summary import TableVersion, version_summaries

if TYPE_CHECKING:
    from typing_extensions import Self


class VersionVerbs:
    """The verbs on versions, and on what names them."""

    location: TableLocation
    manifest: Manifest

    def __init__(self, location: TableLocation, manifest: Manifest) -> None:
        self.location = location
        self.manifest = manifest

    def versions(self, limit: int | None = None) -> list[TableVersion]:
        """The versions of the branch, oldest first, with what made each of them.

        Args:
            limit: only so many of the newest ones; no more manifests are read than that takes.

        Raises:
            CorruptFileError: a manifest contradicts the format.
            UnsupportedFeatureError: a version needs something that this release does not read.
        """
        return version_summaries(self.location.history, limit)

    def changes(
        self,
        from_version: int | datetime,
        to_version: int | datetime | None = None,
        columns: Sequence[str] | None = None,
        *,
        from_inclusive: bool = True,
        to_inclusive: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        """The rows that versions of this branch have changed, as batches, version after version.

        They have the columns as the last version of the range has them, then ``_change_type`` (insert, delete,
        update_preimage, update_postimage), ``_commit_version`` and ``_commit_timestamp``. Arguments and errors as
        `plan_changes`; the batches are read as they are asked for.
        """
        feed = self.plan_changes(
            from_version, to_version, columns, from_inclusive=from_inclusive, to_inclusive=to_inclusive
        )
        return feed.batches()

    def plan_changes(
        self,
        from_version: int | datetime,
        to_version: int | datetime | None = None,
        columns: Sequence[str] | None = None,
        *,
        from_inclusive: bool = True,
        to_inclusive: bool = True,
    ) -> ChangeFeed:
        """`changes` as tasks that can be pickled and run anywhere.

        Args:
            from_version: the first version whose changes are reported, by its number, or by a time: the first one that
                was committed then or later. It is compared with the version before it.
            to_version: the last one, by its number or by a time: the last one that was committed then or before; None
                is this dataset's version.
            columns: names and dotted paths, ``_rowid`` and ``_rowaddr``; None for all columns.
            from_inclusive, to_inclusive: False leaves out the changes of the first or the last version.

        Raises:
            NotFoundError: there is no such column; or a version that is needed was cleaned up, is of another branch or
                does not exist yet.
            InvalidInputError: there is no such range, or a column has the name of one of those that tell the change.
            UnsupportedFeatureError: a version needs something that this release does not read.
        """
        versions = VersionRange.of(
            self.location,
            from_version,
            self.manifest.version if to_version is None else to_version,
            from_inclusive=from_inclusive,
            to_inclusive=to_inclusive,
        )
        return plan_changes(self.location, versions, columns)

    def tags(self) -> dict[str, Tag]:
        """The table's tags by name."""
        return self.location.refs.tags()

    def branches(self) -> dict[str, Branch]:
        """The table's branches but the main one, by name."""
        return self.location.refs.branches()

    def create_tag(self, name: str, version: int | None = None) -> Self:
        """The version that a new tag names: `version` of this branch, this dataset's own version if None.

        Raises:
            NotFoundError: there is no such version.
            InvalidInputError: the tag exists, or no tag can have this name.
            StorageError: the store failed; the tag may exist.
        """
        return type(self)(self.location, create_tag(self.location, name, self._or_own_version(version)))

    def update_tag(self, name: str, version: int | None = None) -> Self:
        """The version that a tag names from now on; which, as in `create_tag`. The last of two writers counts.

        Raises:
            NotFoundError: there is no such tag or version.
        """
        return type(self)(self.location, update_tag(self.location, name, self._or_own_version(version)))

    def delete_tag(self, name: str) -> None:
        """Removes a tag, not the version.

        Raises:
            NotFoundError: there is no such tag.
        """
        delete_tag(self.location, name)

    def create_branch(self, name: str, version: int | None = None, *, tag: str | None = None) -> Self:
        """The first version of a new branch: `version` of this branch, the version that `tag` names, or this one.

        The branch shares the files of what it begins with. To write to it, open the table with its name.

        Raises:
            NotFoundError: there is no such version or tag.
            InvalidInputError: the branch exists or is half made, no branch can have this name, or version and tag are
                both given.
            StorageError: the store failed, or never said whether the branch was made.
            UnsupportedFeatureError: the version needs something that this release does not write.
        """
        if version is not None and tag is not None:
            raise InvalidInputError("give a version or a tag")
        origin, number = self.location, self._or_own_version(version)
        if tag is not None:
            named = self.location.refs.tag(tag)
            origin, number = self.location.on_branch(named.branch), named.version
        return type(self)(*create_branch(origin, name, number))

    def delete_branch(self, name: str, *, force: bool = False) -> None:
        """Removes a branch with its versions and files.

        Args:
            force: removes what is left of a branch that was half made or half removed, too.

        Raises:
            NotFoundError: there is no such branch.
            InvalidInputError: another branch was made from it, or a tag names a version of it.
        """
        delete_branch(self.location, name, force=force)

    def shallow_clone(
        self, uri: UriOrPath, version: int | None = None, *, storage_options: Mapping[str, str] | None = None
    ) -> Self:
        """The first version of a new table at `uri`, which shares the files of `version` of this branch.

        Clean-ups and removal of this table do not know of the clone; they can take its files away.

        Args:
            storage_options: for the new table; None takes those of this one.

        Raises:
            NotFoundError: there is no such version.
            InvalidInputError: there is a table at `uri`.
            CommitConflictError: another writer made a table there at the same time.
            CommitStateUnknownError: the store never said whether the clone was made.
            UnsupportedFeatureError: the version needs something that this release does not write.
        """
        options = self.location.storage_options if storage_options is None else storage_options
        target = TableLocation(uri, options, after_commit=clean_up_after)
        return type(self)(target, shallow_clone(self.location, self._or_own_version(version), target))

    def add_bases(self, bases: Sequence[BasePath]) -> Self:
        """The version in which files of the table may lie under more base paths too; one of id 0 gets a free id.

        Raises:
            InvalidInputError: a base has the id, name or path of another one, or its path is not absolute.
            CommitConflictError: another writer committed something that this cannot follow. Nothing was changed.
            CommitStateUnknownError: the store never said whether the version was committed.
            UnsupportedFeatureError: the table needs something that this release does not write.
        """
        return type(self)(self.location, add_bases(self.location, self.manifest, bases))

    def _or_own_version(self, version: int | None) -> int:
        return self.manifest.version if version is None else version
