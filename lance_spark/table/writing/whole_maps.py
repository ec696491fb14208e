"""Maps that are written again because they got new parts: other readers need all parts of a map in one file."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from lance_spark._proto import table_pb2
from lance_spark.schema.columns import paths
from lance_spark.schema.field import Field, FieldId, LanceSchema
from lance_spark.schema.projection import prune
from lance_spark.table.bases import Bases
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.writing.column_files import NewColumns, physical_batches


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
