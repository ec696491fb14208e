"""Verbs for tags, branches and the change feed, for tables of both kinds.

`Dataset.tags` and `Dataset.branches` can be called, and have the methods of the reference library.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.table.location import TableLocation, checked_version
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.shown_types import shown_batches
from lance_spark.table.refs.refs import Branch, Tag

if TYPE_CHECKING:
    from typing_extensions import Self

    from lance_spark.table.change_feed.change_feed import ChangeFeed, FeedColumns
    from lance_spark.table.change_feed.version_range import VersionRange
    from lance_spark.table.moments import Moment

_Ref = TypeVar("_Ref")


class NamedRefs(Generic[_Ref]):
    """The tags or the branches of a table.

    Args:
        read: those that there are, by name.
        remove: removes one.
    """

    def __init__(self, read: Callable[[], dict[str, _Ref]], remove: Callable[[str], None]) -> None:
        self._read = read
        self._remove = remove

    def __call__(self) -> dict[str, _Ref]:
        """Tags or branches by name."""
        return self._read()

    def list(self) -> dict[str, _Ref]:
        """Tags or branches by name."""
        return self._read()

    def delete(self, name: str) -> None:
        """Removes one. Raises as `Dataset.delete_tag` or `Dataset.delete_branch`."""
        self._remove(name)


class Tags(NamedRefs[Tag]):
    """The tags of a table.

    Args:
        verbs: "create" and "update", which take a name and a version.
    """

    def __init__(
        self,
        read: Callable[[], dict[str, Tag]],
        remove: Callable[[str], None],
        verbs: Mapping[str, Callable[[str, int | None], Any]],
    ) -> None:
        super().__init__(read, remove)
        self._verbs = verbs

    def get_version(self, tag: str) -> int:
        """The number of the version that a tag names.

        Raises:
            NotFoundError: there is no such tag.
        """
        named = self._read().get(tag)
        if named is None:
            raise NotFoundError(f"there is no tag {tag!r}")
        return named.version

    def create(self, tag: str, reference: int | None = None) -> None:
        """Creates a tag for a version of this branch, None for this dataset's. Raises as `Dataset.create_tag`."""
        self._verbs["create"](tag, _number(reference))

    def update(self, tag: str, reference: int | None = None) -> None:
        """Updates a tag to a version, chosen as in `create`. Raises as `Dataset.update_tag`."""
        self._verbs["update"](tag, _number(reference))


def _number(reference: Any) -> int | None:
    if reference is not None and not isinstance(reference, int):
        raise InvalidInputError(
            f"the reference {reference!r} is no number of a version; open the tag or branch, and tag its version"
        )
    return reference


class TagVerbs(ABC):
    """Names of versions, and what versions have changed."""

    @property
    @abstractmethod
    def versions_location(self) -> TableLocation:
        """The table whose versions are those of this one."""

    @property
    @abstractmethod
    def version(self) -> int:
        """The number of this version."""

    @abstractmethod
    def _at_manifest(self, manifest: Manifest) -> Self:
        """The version of the table that `manifest`, of `versions_location`, stands for."""

    @abstractmethod
    def plan_range(
        self, versions: VersionRange, columns: Sequence[str] | None = None, fields: FeedColumns | None = None
    ) -> ChangeFeed:
        """The changes of some versions, as tasks; columns and errors as `plan_changes`.

        Args:
            fields: the columns of the feed; None for those of the last version. If descriptions of blobs name their
                data file there, they do so in the feed.
        """

    @abstractmethod
    def on_branch(self, branch: str | None) -> Self:
        """The newest version of a branch, None for the main one.

        Raises:
            NotFoundError: there is no such branch.
            UnsupportedFeatureError: the table is partitioned, and has none.
        """

    @abstractmethod
    def delete_branch(self, name: str, *, force: bool = False) -> None:
        """Removes a branch with its versions and files.

        Args:
            force: also removes a partially created or removed branch.

        Raises:
            NotFoundError: there is no such branch.
            InvalidInputError: another branch or a tag needs it, or another branch has files of it.
            UnsupportedFeatureError: the table is partitioned, and has none.
        """

    @abstractmethod
    def restore(self, version: int | None = None) -> Self:
        """The new newest version, with the content of `version`; with that of this dataset if it is None.

        Raises:
            NotFoundError: there is no such version.
        """

    def rollback_to_version(self, version: int) -> Self:
        """The branch's new newest version, with the content of `version`, which the newest one descends from.

        As `restore`, which also brings back versions that a restore has undone.

        Raises:
            InvalidInputError: the newest version does not descend from it.
            NotFoundError: there is no such version.
            CommitConflictError: another writer committed something that this cannot follow. Nothing was changed.
            CommitStateUnknownError: the store never said whether the version was committed.
            UnsupportedFeatureError: the table needs something that this release does not write.
        """
        from lance_spark.table.publishing.lineage import check_ancestor

        check_ancestor(self.versions_location, checked_version(version))
        return self.restore(version)

    @property
    def branches(self) -> NamedRefs[Branch]:
        """The table's branches except the main one: ``branches()`` has them by name. ``branches.list`` and ``delete``
        are those of the reference library. A partitioned table has none.
        """
        return NamedRefs(self.versions_location.refs.branches, self.delete_branch)

    def plan_changes(
        self,
        from_version: int | Moment,
        to_version: int | Moment | None = None,
        columns: Sequence[str] | None = None,
        *,
        from_inclusive: bool = True,
        to_inclusive: bool = True,
    ) -> ChangeFeed:
        """`changes` as tasks that can be pickled and run anywhere.

        Args:
            from_version: the first version to report, by number, or by time: the first one committed at or after it. It
                is compared with the previous version.
            to_version: the last version to report, by number, or by time: the last one committed at or before it; None
                is this dataset's version.
            columns: names and dotted paths as in the last version of the range, ``_rowid`` and ``_rowaddr``; None for
                all columns.
            from_inclusive, to_inclusive: False excludes the changes of the first or the last version.

        Raises:
            NotFoundError: there is no such column; or a required version was cleaned up, is on another branch or does
                not exist yet.
            InvalidInputError: the range is invalid, or a column has the name of one of the change columns.
            UnsupportedFeatureError: a version needs a feature that this release does not read.
        """
        from lance_spark.table.change_feed.version_range import VersionRange

        versions = VersionRange.of(
            self.versions_location,
            from_version,
            self.version if to_version is None else to_version,
            from_inclusive=from_inclusive,
            to_inclusive=to_inclusive,
        )
        return self.plan_range(versions, columns)

    def changes(
        self,
        from_version: int | Moment,
        to_version: int | Moment | None = None,
        columns: Sequence[str] | None = None,
        *,
        from_inclusive: bool = True,
        to_inclusive: bool = True,
    ) -> Iterator[pa.RecordBatch]:
        """The rows changed by versions of this branch, as batches in version order.

        They have the columns as in the last version of the range, then ``_change_type`` (insert, delete,
        update_preimage, update_postimage), ``_commit_version`` and ``_commit_timestamp``. A row that moves to another
        partition is a delete and an insert. Arguments and errors as `plan_changes`; the batches are read lazily.
        """
        feed = self.plan_changes(
            from_version, to_version, columns, from_inclusive=from_inclusive, to_inclusive=to_inclusive
        )
        return shown_batches(feed.batches())

    @property
    def tags(self) -> Tags:
        """The table's tags: ``tags()`` has them by name. ``tags.create``, ``update``, ``delete``, ``list`` and
        ``get_version`` are those of the reference library.
        """
        return Tags(self._tags_by_name, self.delete_tag, {"create": self.create_tag, "update": self.update_tag})

    def _tags_by_name(self) -> dict[str, Tag]:
        """Without those that keep a version while a restore runs."""
        from lance_spark.table.cleanup.references import GUARD_PREFIX

        tags = self.versions_location.refs.tags()
        return {name: tag for name, tag in tags.items() if not name.startswith(GUARD_PREFIX)}

    def create_tag(self, name: str, version: int | None = None) -> Self:
        """Creates a tag for `version` of this branch, None for this dataset's version; returns that version.

        A clean-up keeps a version with a tag, of a partitioned table with all of its partitions.

        Args:
            name: of the tag.
            version: the number of the version.

        Raises:
            NotFoundError: there is no such version.
            InvalidInputError: the tag exists, or the name is not valid for a tag, or reserved for restores.
            StorageError: the store failed; the tag may exist.
        """
        from lance_spark.table.refs.tagging import create_tag

        return self._at_manifest(create_tag(self.versions_location, _free_name(name), self._or_own_version(version)))

    def update_tag(self, name: str, version: int | None = None) -> Self:
        """Updates a tag to a version, chosen as in `create_tag`; returns that version. The last of two writers wins.

        Raises:
            NotFoundError: there is no such tag or version.
        """
        from lance_spark.table.refs.tagging import update_tag

        return self._at_manifest(update_tag(self.versions_location, _free_name(name), self._or_own_version(version)))

    def delete_tag(self, name: str) -> None:
        """Removes a tag, not the version.

        Raises:
            NotFoundError: there is no such tag.
        """
        from lance_spark.table.refs.tagging import delete_tag

        delete_tag(self.versions_location, name)

    def _or_own_version(self, version: int | None) -> int:
        return self.version if version is None else checked_version(version)


def _free_name(name: str) -> str:
    """Returns `name` if restores do not use it for tags of their own, which are not listed and do not last."""
    from lance_spark.table.cleanup.references import GUARD_PREFIX

    if name.startswith(GUARD_PREFIX):
        raise InvalidInputError(
            f"a tag cannot have the name {name!r}: names that begin with {GUARD_PREFIX!r} are for restores, and tags "
            "with them are removed when they are old"
        )
    return name
