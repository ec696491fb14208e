"""Rows with new columns, committed as one version.

The format has no operation for both at once. A Merge lists all fragments and the new schema, so it can list new
fragments too, and existing ones with new deletion files; existing rows are null in the new columns, as none of their
files holds these.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.types as pt

from lance_spark._proto import table_pb2
from lance_spark.file_version import FileVersion
from lance_spark.schema.arrow import to_arrow_field
from lance_spark.schema.columns import paths
from lance_spark.schema.evolution import with_added
from lance_spark.schema.field import Field, FieldId, LanceSchema
from lance_spark.schema.projection import prune
from lance_spark.table.bases import Bases
from lance_spark.table.commits.field_ids import next_field_id
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.history import History
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.delete import with_deletions
from lance_spark.table.operations.manifest_builder import (
    assign_fragment_ids,
    checked_row_id,
    data_format,
    largest_fragment_id,
    with_row_ids,
)
from lance_spark.table.operations.merge import Merge, Recomputed
from lance_spark.table.operations.update import Update, completed_lineage
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.rows.fragment import DataFragment, FragmentId, FragmentList
from lance_spark.table.writing.column_files import ColumnFiles, NewColumns, physical_batches


def evolved_schema(history: History, base: Manifest, source: pa.Schema) -> LanceSchema | None:
    """The columns of `base` followed by those that only `source` has, including struct members; None if there are none.

    New columns are nullable, whatever `source` says.

    Raises:
        InvalidInputError: Lance does not support a type.
    """
    lacking = columns_lacking(base.schema, source)
    return with_added(base.schema, lacking, next_field_id(history, base)).schema if len(lacking) else None


class MapFiles:
    """The files of the maps to which the columns of `schema` give new parts.

    Maps are in files of version 2.2 or later, which is that of `base`.
    """

    def __init__(self, table: TableLocation, base: Manifest, schema: LanceSchema) -> None:
        version = data_format(base) or FileVersion.V2_2
        has_maps = any(field.logical_type == "map" for field in schema.walk())
        self._files = ColumnFiles(table, WholeMaps(schema), lambda _columns: version) if has_maps else None

    @property
    def paths(self) -> frozenset[str]:
        """The files that were written."""
        return frozenset() if self._files is None else self._files.paths

    def added_to(self, manifest: Manifest) -> FragmentList:
        """The fragments of a version with their files."""
        return manifest.fragments if self._files is None else self._files.added_to(manifest)

    def remove(self, but_those_of: Manifest | None = None) -> None:
        """Removes the files that were written, except those of a version."""
        if self._files is not None:
            self._files.remove(but_those_of)


def columns_lacking(schema: LanceSchema, source: pa.Schema) -> pa.Schema:
    """The columns and struct members that only `source` has, as nullable ones."""
    fields = {field.name: field for field in schema.fields}
    return pa.schema([part for column in source if (part := _lacking(fields.get(column.name), column)) is not None])


def append_evolving(
    manifest: Manifest, fragments: Sequence[DataFragment], schema: LanceSchema, maps: MapFiles
) -> Merge:
    """The operation that adds `fragments` and the columns of `schema` to `manifest`, whose columns `schema` extends.

    Args:
        maps: the files of maps that get new parts.

    Raises:
        CorruptFileError: the table has stable row ids, but the free ids are unknown.
    """
    new = assign_fragment_ids(fragments, largest_fragment_id(manifest))
    if manifest.has_stable_row_ids:
        new, _ = with_row_ids(new, checked_row_id(manifest), manifest.version + 1)
    return Merge(
        maps.added_to(manifest).appended(new),
        LanceSchema(schema.fields, manifest.schema.metadata),
        preserves_nullability=True,
        recomputed=Recomputed.ALWAYS,
        new_files=maps.paths.union(file.path for fragment in fragments for file in fragment.files),
    )


def merge_operation(manifest: Manifest, update: Update, schema: LanceSchema, maps: MapFiles) -> Merge:
    """The operation that combines `update`, which rewrites rows, with adding the columns of `schema`.

    Args:
        maps: the files of maps that get new parts.

    Raises:
        CorruptFileError: the table has stable row ids, but the free ids are unknown.
    """
    updated = {fragment.id: fragment for fragment in update.updated_fragments}
    removed = frozenset(update.removed_fragment_ids)
    new = assign_fragment_ids(update.new_fragments, largest_fragment_id(manifest))
    if manifest.has_stable_row_ids:
        new, _ = completed_lineage(new, checked_row_id(manifest), manifest.version + 1)
    fragments = FragmentList(
        with_deletions(message, updated.get(FragmentId(message.id)))
        for message in maps.added_to(manifest).messages
        if message.id not in removed
    )
    return Merge(
        fragments.appended(new),
        LanceSchema(schema.fields, manifest.schema.metadata),
        preserves_nullability=True,
        recomputed=Recomputed.ALWAYS,
        new_files=maps.paths.union(update.data_file_paths()),
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
    if pt.is_map(column.type) and field.logical_type == "map":
        known_parts = field.children[0].children
        given = (column.type.key_field, column.type.item_field)
        lacking = [_lacking(known, part) for known, part in zip(known_parts, given, strict=True)]
        if any(part is not None for part in lacking):
            pair = zip(known_parts, lacking, strict=True)
            key, value = (to_arrow_field(known) if part is None else part for known, part in pair)
            return column.with_type(pa.map_(key.with_nullable(False), value))
    return None


def incomplete_maps(field: Field, held: Collection[int]) -> Iterator[FieldId]:
    """The leaves of the outermost maps of which some leaves are in files, but not all.

    Args:
        held: the fields that files hold.
    """
    if field.logical_type != "map":
        for child in field.children:
            yield from incomplete_maps(child, held)
        return
    leaves = [path[-1].id for path in paths(field)]
    if any(leaf in held for leaf in leaves) and not all(leaf in held for leaf in leaves):
        yield from leaves


def held_fields(message: table_pb2.DataFragment) -> set[int]:
    """The fields that the files of a fragment hold."""
    return {field_id for file in message.files for field_id in file.fields if field_id >= 0}


class WholeMaps:
    """The maps that a fragment needs a file for, each inside its parent fields; new parts are null."""

    def __init__(self, schema: LanceSchema) -> None:
        self._fields = schema.fields

    def __call__(self, fragment: DataFragment, bases: Bases) -> NewColumns | None:
        held = held_fields(fragment.to_proto())
        needed = {leaf for field in self._fields for leaf in incomplete_maps(field, held)}
        columns = prune(self._fields, needed)
        if not columns:
            return None
        return NewColumns(LanceSchema(columns, {}), physical_batches(FragmentReader(fragment, bases), columns))
