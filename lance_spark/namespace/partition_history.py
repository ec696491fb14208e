"""Versions of a partitioned table: those of its `__manifest`. What made them, restoring one, and tags on them."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from lance_spark.errors import LanceError
from lance_spark.namespace.partition_columns import MAX_FIELD_ID, next_field_id
from lance_spark.namespace.partition_commit import commit_rows
from lance_spark.namespace.partition_save import run_on_newest
from lance_spark.namespace.partition_spec import PartitionSpecs
from lance_spark.namespace.partitioned_table import PartitionedTable, open_partitioned
from lance_spark.table.refs import Tag
from lance_spark.table.save import CommitOptions
from lance_spark.table.tagging import create_tag as tag_version
from lance_spark.table.tagging import delete_tag as delete_version_tag
from lance_spark.table.tagging import update_tag as update_version_tag
from lance_spark.table.version_summary import TableVersion, version_summaries

RESTORE_GUARD = "lance-restore-"
"""How the names of tags begin that a restore makes for as long as it works."""


def versions(table: PartitionedTable) -> list[TableVersion]:
    """All versions of the whole, oldest first. What they tell of rows is about the rows of `__manifest`.

    Raises:
        CorruptFileError: a manifest contradicts the format.
    """
    return version_summaries(table.catalog.table.history)


def restore(table: PartitionedTable, version: int, options: CommitOptions | None = None) -> PartitionedTable:
    """The new version that has the rows and columns of `version`; specs that came since stay for rows to come.

    Raises:
        NotFoundError: there is no such version.
        RetryableConflictError: other writers were always first. Nothing was changed.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed. Nothing was changed.
    """
    location = table.catalog.table
    # A clean-up at the same time spares what has a tag, and with it all versions of partitions that it names.
    guard = f"{RESTORE_GUARD}{secrets.token_hex(8)}"
    tag_version(location, guard, version)
    try:
        old = open_partitioned(table.root, version=version, storage_options=table.storage_options)

        def once(whole: PartitionedTable) -> PartitionedTable:
            specs = PartitionSpecs(old.lance_schema, whole.specs.specs)
            used = max(next_field_id(whole), next_field_id(old)) - 1
            return commit_rows(whole, old.rows, specs, options, properties={MAX_FIELD_ID: str(used)})

        return run_on_newest(table.newest(), options, once)
    finally:
        _quietly(lambda: delete_version_tag(location, guard))


def tags(table: PartitionedTable) -> dict[str, Tag]:
    """The tags of the whole by name."""
    return table.catalog.table.refs.tags()


def create_tag(table: PartitionedTable, name: str, version: int | None = None) -> None:
    """Names a version of the whole, that of `table` if None; the clean-up spares it with all of its partitions.

    Raises:
        NotFoundError: there is no such version.
        InvalidInputError: the tag exists, or no tag can have this name.
        StorageError: the store failed; the tag may exist.
    """
    tag_version(table.catalog.table, name, table.version if version is None else version)


def update_tag(table: PartitionedTable, name: str, version: int | None = None) -> None:
    """Gives a tag another version. Raises as `create_tag`."""
    update_version_tag(table.catalog.table, name, table.version if version is None else version)


def delete_tag(table: PartitionedTable, name: str) -> None:
    """Removes a tag; the version stays.

    Raises:
        NotFoundError: there is no such tag.
        StorageError: the store failed.
    """
    delete_version_tag(table.catalog.table, name)


def _quietly(act: Callable[[], None]) -> None:
    try:
        act()
    except LanceError:
        return  # A tag that is left spares a version; it must not hide what has happened.
