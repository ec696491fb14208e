"""Properties of a partitioned table: what its users keep with it, in the metadata of `__manifest`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from lance_spark.errors import InvalidInputError
from lance_spark.partitioned.change import Step
from lance_spark.partitioned.columns import follower
from lance_spark.partitioned.commit import commit_specs, with_operation_name
from lance_spark.partitioned.names import check_properties
from lance_spark.partitioned.table import FILE_VERSION, STABLE_ROW_IDS, PartitionedTable
from lance_spark.partitioned.writer import partition_schema
from lance_spark.schema.field import LanceSchema
from lance_spark.table.columns.column_commit import Evolution, commit_evolution
from lance_spark.table.commits.retry import retry_on_conflict
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.versions.changes import update_metadata
from lance_spark.table.writing.conform import same_columns
from lance_spark.table.writing.save import CommitOptions

_AT_CREATION = (FILE_VERSION, STABLE_ROW_IDS)


def set_properties(
    table: PartitionedTable,
    entries: Mapping[str, str | None],
    edit: Callable[[LanceSchema], LanceSchema] | None = None,
    options: CommitOptions | None = None,
) -> PartitionedTable:
    """The version with other properties, None removes one; `table` if nothing changes.

    Args:
        edit: what becomes of the metadata of columns in the same version.

    Raises:
        InvalidInputError: a property is not one of the users'.
        CommitConflictError: other writers were always first. Nothing was changed.
        CommitStateUnknownError: the store never said whether the version was committed.
        StorageError: the store failed. Nothing was changed.
    """
    check_properties(entries)
    refused = [name for name in entries if name in _AT_CREATION]
    if refused:
        raise InvalidInputError(f"property {refused[0]} of a partitioned table cannot be set later")

    options = with_operation_name(options, "update_config")

    def attempt(current: PartitionedTable) -> PartitionedTable:
        changed = {name: value for name, value in entries.items() if current.properties.get(name) != value}
        schema = current.lance_schema if edit is None else edit(current.lance_schema)
        if schema != current.lance_schema:
            specs = replace(current.specs, schema=schema)
            return commit_specs(current, specs, options, step=_follower(schema, options), properties=changed)
        dataset = current.catalog_version.dataset
        assert dataset is not None  # A namespace without `__manifest` has no specs.
        if not changed:
            return current
        manifest = update_metadata(current.catalog.table, dataset.manifest, changed, options.policy)
        return PartitionedTable(current.root, current.storage_options, current.catalog, current.catalog.at(manifest))

    return retry_on_conflict(attempt, table, table.newest, options.policy)


def _follower(schema: LanceSchema, options: CommitOptions) -> Step:
    """Returns a step that gives a partition's table the column metadata by which its files are written."""
    target, others = partition_schema(schema), follower(schema, options)

    def step(table: TableLocation, manifest: Manifest) -> Manifest:
        if not same_columns(manifest.schema, target):
            return others(table, manifest)
        if manifest.schema == target:
            return manifest
        return commit_evolution(table, manifest, Evolution(target, None, preserves_nullability=True), options)

    return step
