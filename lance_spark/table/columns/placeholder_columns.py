"""Columns that files need after a change of the schema: placeholders, and whole maps.

The nulls of a struct or list, and the length of a list, are stored in the columns of its members. If the remaining
members have no column in a fragment, because they were added as null, the last column with this information must be
replaced. Also, other readers reject a fragment without a column of the table. In both cases a column of nulls is
written.

Other readers need all parts of a map in one file, so a map with a part that no file holds is written again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import pyarrow as pa

from lance_spark._proto import table_pb2
from lance_spark.schema.arrow import to_arrow_field
from lance_spark.schema.columns import is_leaf
from lance_spark.schema.field import Field, FieldId, LanceSchema
from lance_spark.schema.projection import prune
from lance_spark.table.bases import Bases
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.writing.column_files import NewColumns, PlacedBatch, physical_batches
from lance_spark.table.writing.conform import converted
from lance_spark.table.writing.schema_merge import held_fields, incomplete_maps


class PlaceholderColumns:
    """Placeholder columns that fragments need after columns were dropped, or parts of maps were added.

    Args:
        before, after: the schemas.
    """

    def __init__(self, before: LanceSchema, after: LanceSchema) -> None:
        self._known = {node.id: node for node in before.walk()}
        self._tops = {field.id: field for field in before.fields}
        self._fields = after.fields

    def columns_of(self, message: table_pb2.DataFragment) -> tuple[Field, ...]:
        """The columns that a fragment needs a file for, each inside its parent fields."""
        held = held_fields(message)
        needed = {leaf.id for field in self._fields for leaf in _lost(field, self._known, held)}
        needed.update(leaf for field in self._fields for leaf in incomplete_maps(field, held))
        if not needed and not any(_holds(field, held) for field in self._fields):
            top = next(field for field in self._fields if field.id in self._tops)
            needed = {_first_leaf(top).id}
        return prune(self._fields, needed) if needed else ()

    def __call__(self, fragment: DataFragment, bases: Bases) -> NewColumns | None:
        """The file that a fragment needs, None if it needs none."""
        columns = self.columns_of(fragment.to_proto())
        if not columns:
            return None
        return NewColumns(LanceSchema(columns, {}), self._batches(columns, FragmentReader(fragment, bases)))

    def _batches(self, columns: tuple[Field, ...], reader: FragmentReader) -> Iterator[PlacedBatch]:
        schema = pa.schema([to_arrow_field(field) for field in columns])
        for placed in physical_batches(reader, [self._tops[field.id] for field in columns]):
            arrays = [converted(array, field.type) for array, field in zip(placed.batch.columns, schema, strict=True)]
            yield PlacedBatch(placed.offsets, pa.RecordBatch.from_arrays(arrays, schema=schema))


def _lost(field: Field, before: Mapping[FieldId, Field], held: Collection[int]) -> Iterator[Field]:
    """One leaf of each nested field whose nulls and lengths are no longer stored in any column."""
    if is_leaf(field) or field.id not in before:
        return
    if _holds(before[field.id], held) and not _holds(field, held):
        yield _first_leaf(field)
        return
    for child in field.children:
        yield from _lost(child, before, held)


def _holds(field: Field, held: Collection[int]) -> bool:
    # In files of 2.0 nested fields own columns too, which store their own nulls and lengths.
    return any(node.id in held for node in field.walk())


def _first_leaf(field: Field) -> Field:
    while not is_leaf(field):
        field = field.children[0]
    return field
