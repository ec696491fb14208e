"""Changes of columns without changes of values: dropping, renaming, reordering, forbidding nulls.

`edit_schema` makes several of them one version.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import InvalidInputError
from lance_spark.file_version import FileVersion
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.schema.projection import dotted
from lance_spark.table.columns.column_commit import Evolution, commit_evolution
from lance_spark.table.columns.placeholder_columns import PlaceholderColumns
from lance_spark.table.commits.commit import Commit, NewTable
from lance_spark.table.commits.field_ids import next_field_id
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.transaction import Transaction
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.operations.project import Project
from lance_spark.table.paths import is_detached
from lance_spark.table.reading.blobs.blob_columns import with_blob_descriptors
from lance_spark.table.reading.scan import Scan
from lance_spark.table.writing.checks import require_columns_of_checks
from lance_spark.table.writing.save import CommitOptions

Change = Callable[[LanceSchema], LanceSchema]
"""The new schema from the old one. Raises if the change is invalid."""

Edit = Callable[[LanceSchema, int], LanceSchema]
"""The new schema, from the old one and the first free id for new fields."""


def project(table: TableLocation, base: Manifest, change: Change, options: CommitOptions | None = None) -> Manifest:
    """The version with `change` applied to the schema of `base`; of the newest version, if others changed the schema.

    A change without effect creates no version.

    Raises:
        InvalidInputError: a field that becomes required contains a null.
        CommitConflictError: it conflicts with a concurrent transaction. Nothing was changed.
        CommitStateUnknownError: it is unknown whether the version was committed.
        UnsupportedFeatureError: this release cannot write to the table.
    """
    options = options or CommitOptions()

    def attempt(version: Manifest) -> Manifest:
        check_followable(version)
        schema = change(version.schema)
        if schema == version.schema:
            return version
        check_nulls(table, version, schema)
        field_ids = {field.id for field in schema.walk()}
        if any(field.id not in field_ids for field in version.schema.walk()):
            placeholders = PlaceholderColumns(version.schema, schema)
            if any(placeholders.columns_of(message) for message in version.fragments.messages):
                return commit_evolution(table, version, Evolution(schema, placeholders), options)
        return project_once(table, version, schema, options)

    return retry_on_conflict(attempt, base, table.newest, options.policy)


def project_once(table: TableLocation, base: Manifest, schema: LanceSchema, options: CommitOptions) -> Manifest:
    """The version after `base` with `schema`, whose fields are among those of `base`. Raises as `Commit.run`."""
    require_columns_of_checks(LanceSchema(schema.fields, base.schema.metadata))
    operation = Project(schema.fields, not forbids_more_nulls(base.schema, schema))
    transaction = Transaction.new(base.version, operation, options.all_properties())
    new_table = NewTable(data_format(base) or FileVersion.V2_2)
    return Commit(table.history, base, transaction, new_table, options.policy).run()


def check_followable(base: Manifest) -> None:
    """Checks that another version can follow `base`.

    Raises:
        InvalidInputError: it is detached.
    """
    if is_detached(base.version):
        raise InvalidInputError(
            "a detached version is not part of the table's history, so no version can be committed after it"
        )


def forbids_more_nulls(before: LanceSchema, after: LanceSchema) -> bool:
    """True if a field of both schemas is no longer nullable."""
    return bool(_newly_required(before, after))


def _newly_required(before: LanceSchema, after: LanceSchema) -> set[int]:
    allowed = {field.id for field in before.walk() if field.nullable}
    return {field.id for field in after.walk() if not field.nullable and field.id in allowed}


def check_nulls(table: TableLocation, base: Manifest, after: LanceSchema) -> None:
    """Checks that no field that becomes required contains a null.

    Raises:
        InvalidInputError: one does.
    """
    required = _newly_required(base.schema, after)
    if not required:
        return
    schema = with_blob_descriptors(base.schema, data_format(base))
    tops = [field for field in schema.fields if any(node.id in required for node in field.walk())]
    scan = Scan.of(schema, table.bases(base), columns=[field.name for field in tops])
    for fragment in base.fragments:
        for batch in scan.read([fragment]):
            for field, array in zip(tops, batch.columns, strict=True):
                _refuse_nulls(field, array, required, dotted((field.name,)))


def _refuse_nulls(field: Field, array: pa.Array, required: set[int], path: str) -> None:
    if field.id in required and array.null_count:
        raise InvalidInputError(f"column {path!r} holds nulls, so it cannot forbid them; change them first")
    if not any(node.id in required for child in field.children for node in child.walk()):
        return
    # Below a null there are no values that could be null.
    live = array.drop_null() if array.null_count else array
    for child, values in zip(field.children, _below(live), strict=True):
        below = path if field.logical_type == "map" else f"{path}.{dotted((child.name,))}"
        _refuse_nulls(child, values, required, below)


def _below(array: pa.Array) -> list[pa.Array]:
    if pt.is_struct(array.type):
        return list(array.flatten())
    if pt.is_map(array.type):
        return [
            pa.StructArray.from_arrays([array.keys, array.items], fields=[array.type.key_field, array.type.item_field])
        ]
    return [array.flatten()]


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
        field_ids = {field.id for field in version.schema.walk()}
        placeholders = PlaceholderColumns(version.schema, schema)
        needs_files = any(placeholders.columns_of(message) for message in version.fragments.messages)
        if not needs_files and all(field.id in field_ids for field in schema.walk()):
            return project_once(table, version, schema, options)
        preserves = not forbids_more_nulls(version.schema, schema)
        evolution = Evolution(schema, placeholders if needs_files else None, preserves_nullability=preserves)
        return commit_evolution(table, version, evolution, options)

    return retry_on_conflict(attempt, base, table.newest, options.policy)
