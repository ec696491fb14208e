"""Several changes of columns as one version."""

from __future__ import annotations

from collections.abc import Callable

from lance_spark.schema.field import LanceSchema
from lance_spark.table.columns.column_commit import Evolution, commit_evolution
from lance_spark.table.columns.placeholder_columns import PlaceholderColumns
from lance_spark.table.columns.schema_changes import check_followable, check_nulls, forbids_more_nulls, project_once
from lance_spark.table.commits.field_ids import next_field_id
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.writing.save import CommitOptions

Edit = Callable[[LanceSchema, int], LanceSchema]
"""The new schema, from the old one and the first free id for new fields."""


def edit_schema(table: TableLocation, base: Manifest, edit: Edit, options: CommitOptions | None = None) -> Manifest:
    """The version with `edit` applied to the schema of `base`; of the newest version, if others changed the schema.

    Values are unchanged; fields that `edit` adds are null in all rows. An edit without effect creates no version.

    Raises:
        InvalidInputError: a field that becomes required contains a null.
        CommitConflictError: it conflicts with a concurrent transaction. Nothing was changed.
        CommitStateUnknownError: it is unknown whether the version was committed.
        UnsupportedFeatureError: this release cannot write to the table, or does not support these columns.
    """
    options = options or CommitOptions()

    def attempt(version: Manifest) -> Manifest:
        check_followable(version)
        schema = edit(version.schema, next_field_id(table.history, version))
        if schema == version.schema:
            return version
        check_nulls(table, version, schema)
        known = {field.id for field in version.schema.walk()}
        placeholders = PlaceholderColumns(version.schema, schema)
        needs_files = any(placeholders.columns_of(message) for message in version.fragments.messages)
        if not needs_files and all(field.id in known for field in schema.walk()):
            return project_once(table, version, schema, options)
        preserves = not forbids_more_nulls(version.schema, schema)
        evolution = Evolution(schema, placeholders if needs_files else None, preserves_nullability=preserves)
        return commit_evolution(table, version, evolution, options)

    return retry_on_conflict(attempt, base, table.newest, options.policy)
