"""Procedures for partitioned tables: versions are those of the table, tasks process single partitions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.partitioned.columns import edit_columns
from lance_spark.partitioned.maintenance.vacuum import remove_orphans, vacuum
from lance_spark.partitioned.table import PartitionedTable
from lance_spark.schema import evolution
from lance_spark.schema.arrow import PRIMARY_KEY, PRIMARY_KEY_POSITION, with_metadata
from lance_spark.schema.field import FieldId, LanceSchema
from lance_spark.table.cleanup.cleanup import SAFETY_WINDOW, CleanupPolicy, CleanupStats

MAIN = "main"


def cleaned(table: PartitionedTable, policy: CleanupPolicy, before: int | None) -> CleanupStats:
    """The result of a clean-up, or of its dry run."""
    return vacuum(
        table,
        policy.older_than,
        policy.keep_versions,
        keep_from=before,
        delete_unverified=policy.delete_unverified,
        error_if_tagged_old_versions=policy.error_if_tagged_old_versions,
        dry_run=policy.dry_run,
    ).total


def orphans(table: PartitionedTable, age: timedelta | None, *, dry_run: bool) -> CleanupStats:
    """The orphan files that were removed, or would be in a dry run."""
    return remove_orphans(table, SAFETY_WINDOW if age is None else age, dry_run=dry_run).total


def without_branches(table: PartitionedTable) -> UnsupportedFeatureError:
    """The error that partitioned tables have no branches."""
    return UnsupportedFeatureError(
        f"{table.root} is a partitioned table, which has no branches: its versions are those of __manifest, in one "
        "line. Use a tag",
        feature="branches of partitioned tables",
    )


def with_primary_key(table: PartitionedTable, columns: Sequence[str]) -> PartitionedTable:
    """The version with `columns` as the primary key."""
    entries = {
        name: {PRIMARY_KEY: b"true", PRIMARY_KEY_POSITION: str(place).encode()}
        for place, name in enumerate(columns, start=1)
    }

    def edit(schema: LanceSchema, _first_id: FieldId) -> LanceSchema:
        for name, metadata in entries.items():
            schema = evolution.replaced(
                schema,
                name,
                lambda old, new=metadata: with_metadata(old, {**old.metadata, **new}),  # type: ignore[misc]
            )
        return schema

    return edit_columns(table, edit)
