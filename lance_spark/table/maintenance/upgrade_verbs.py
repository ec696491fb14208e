"""`Dataset` methods that change the file version of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_spark.table.location import TableLocation
from lance_spark.table.maintenance.upgrade import Progress, commit_upgrade, upgrade_version
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.writing.save import CommitOptions

if TYPE_CHECKING:
    from typing_extensions import Self


class UpgradeVerbs:
    """The verb that rewrites a table in a newer file version."""

    location: TableLocation
    manifest: Manifest

    def __init__(self, location: TableLocation, manifest: Manifest) -> None:
        self.location = location
        self.manifest = manifest

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
        options = CommitOptions(message=commit_message)
        self.location.history.check_commits()
        newest = self.location.newest()
        made = commit_upgrade(self.location, newest, upgrade_version(version), (), options, progress)
        return type(self)(self.location, made)
