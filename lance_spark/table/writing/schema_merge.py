"""Rows with new columns, committed as one version.

The format has no operation for both at once. A Merge lists all fragments and the new schema, so it can list new
fragments too, and existing ones with new deletion files; existing rows are null in the new columns, as none of their
files holds these.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.schema.evolution import with_added
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.table.commits.field_ids import next_field_id
from lance_spark.table.manifests.history import History
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations import Merge, Recomputed, Update
from lance_spark.table.operations.delete import with_deletions
from lance_spark.table.operations.manifest_builder import (
    assign_fragment_ids,
    checked_row_id,
    largest_fragment_id,
    with_row_ids,
)
from lance_spark.table.operations.update import completed_lineage
from lance_spark.table.rows.fragment import DataFragment, FragmentId, FragmentList


def evolved_schema(history: History, base: Manifest, source: pa.Schema) -> LanceSchema | None:
    """The columns of `base` followed by those that only `source` has, including struct members; None if there are none.

    New columns are nullable, whatever `source` says.

    Raises:
        InvalidInputError: Lance does not support a type.
    """
    lacking = columns_lacking(base.schema, source)
    return with_added(base.schema, lacking, next_field_id(history, base)).schema if len(lacking) else None


def columns_lacking(schema: LanceSchema, source: pa.Schema) -> pa.Schema:
    """The columns and struct members that only `source` has, as nullable ones."""
    fields = {field.name: field for field in schema.fields}
    return pa.schema([part for column in source if (part := _lacking(fields.get(column.name), column)) is not None])


def append_evolving(manifest: Manifest, fragments: Sequence[DataFragment], schema: LanceSchema) -> Merge:
    """The operation that adds `fragments` and the columns of `schema` to `manifest`, whose columns `schema` extends.

    Raises:
        CorruptFileError: the table has stable row ids, but the free ids are unknown.
    """
    new = assign_fragment_ids(fragments, largest_fragment_id(manifest))
    if manifest.has_stable_row_ids:
        new, _ = with_row_ids(new, checked_row_id(manifest), manifest.version + 1)
    return Merge(
        manifest.fragments.appended(new),
        LanceSchema(schema.fields, manifest.schema.metadata),
        preserves_nullability=True,
        recomputed=Recomputed.ALWAYS,
        new_files=frozenset(file.path for fragment in fragments for file in fragment.files),
    )


def merge_operation(manifest: Manifest, update: Update, schema: LanceSchema) -> Merge:
    """The operation that combines `update`, which rewrites rows, with adding the columns of `schema`.

    Raises:
        CorruptFileError: the table has stable row ids, but the free ids are unknown.
    """
    updated = {fragment.id: fragment for fragment in update.updated_fragments}
    removed = frozenset(update.removed_fragment_ids)
    new = assign_fragment_ids(update.new_fragments, largest_fragment_id(manifest))
    if manifest.has_stable_row_ids:
        new, _ = completed_lineage(new, checked_row_id(manifest), manifest.version + 1)
    kept = FragmentList(
        with_deletions(message, updated.get(FragmentId(message.id)))
        for message in manifest.fragments.messages
        if message.id not in removed
    )
    return Merge(
        kept.appended(new),
        LanceSchema(schema.fields, manifest.schema.metadata),
        preserves_nullability=True,
        recomputed=Recomputed.ALWAYS,
        new_files=update.data_file_paths(),
        losing=update.touched_fragment_ids,
    )


def _lacking(field: Field | None, column: pa.Field) -> pa.Field | None:
    """The part of `column` that `field` lacks; None if nothing, or if the two are incompatible."""
    if field is None:
        return column.with_nullable(True)
    if pt.is_struct(column.type) and field.logical_type == "struct":
        known = {child.name: child for child in field.children}
        parts = [part for child in column.type if (part := _lacking(known.get(child.name), child)) is not None]
        return column.with_type(pa.struct(parts)) if parts else None
    large = pt.is_large_list(column.type)
    if (large or pt.is_list(column.type)) and field.logical_type.endswith("list.struct") and field.children:
        item = _lacking(field.children[0], column.type.value_field)
        is_large = field.logical_type.startswith("large")
        return None if item is None else column.with_type(pa.large_list(item) if is_large else pa.list_(item))
    return None
