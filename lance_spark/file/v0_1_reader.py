"""Reads one data file of version 0.1, whose footer says 0.0, 0.1 or 0.2 (Lance file format specification).

::

    pages and dictionary values
    page table
    u32 length, `lance.table.Manifest`: the file's own schema, with the positions of its dictionaries
    u32 length, `lance.file.Metadata`: positions of manifest and page table, and the first row of each row group
    u64 position of the metadata, u16 major, u16 minor, "LANC"
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lance_spark._proto import file_pb2, table_pb2
from lance_spark.cached import cached_property
from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError
from lance_spark.file.data_file_reader import DataFileReader
from lance_spark.file.metadata import parse_message
from lance_spark.file_version import FileVersion
from lance_spark.layouts.base import FieldsReader, FieldsReads, RowRanges, side_by_side
from lance_spark.layouts.v0_1.row_groups import RowGroups
from lance_spark.layouts.v0_1.values import read_field
from lance_spark.schema.field import Field, FieldId
from lance_spark.schema.wire import fields_from_proto, schema_from_messages
from lance_spark.storage.base import ByteRange, ObjectStore

_TRAILER_BYTES = 16
_LENGTH_BYTES = 4


class RowGroupBounds(NamedTuple):
    """Bounds of one field: `min[i]` and `max[i]` of the values in row group i; null where not recorded."""

    min: pa.Array
    max: pa.Array


class V01FileReader(DataFileReader):
    """One open data file of version 0.1."""

    def __init__(self, store: ObjectStore, path: str, file_size: int, tail: pa.Buffer) -> None:
        super().__init__(store, path, FileVersion.V0_1, file_size, tail)
        if tail.size < _TRAILER_BYTES:
            raise CorruptFileError(f"a Lance file of {file_size} bytes is shorter than its footer")
        (position,) = struct.unpack("<Q", tail.slice(tail.size - _TRAILER_BYTES, 8))
        metadata = parse_message(file_pb2.Metadata, self._section(position), "the file's metadata")
        manifest = parse_message(table_pb2.Manifest, self._section(metadata.manifest_position), "the file's schema")
        self.schema = schema_from_messages(manifest.fields, manifest.schema_metadata)
        self._known = {node.id: node for node in self.schema.walk()}
        offsets = list(metadata.batch_offsets) or [0]
        if offsets[0] != 0 or any(later < earlier for earlier, later in pairwise(offsets)):
            raise CorruptFileError("the row groups of the file do not follow each other from row 0")
        self.num_rows = offsets[-1]
        if self.num_rows > 8 * file_size:
            # Every row takes at least one bit, for a boolean.
            raise CorruptFileError(f"a file of {file_size} bytes claims {self.num_rows} rows")
        self._groups = self._row_groups(np.array(offsets, np.int64), self._known, metadata.page_table_position)
        self._statistics_schema = fields_from_proto(metadata.statistics.schema)
        self._statistics_position = metadata.statistics.page_table_position

    @cached_property
    def columns(self) -> Mapping[FieldId, int]:
        return {field_id: index for index, field_id in enumerate(self._known)}

    def estimated_bytes(self, fields: Sequence[Field], column_indices: Mapping[FieldId, int]) -> list[int]:
        held = [sum(column_indices.get(node.id, -1) >= 0 for node in field.walk()) for field in fields]
        return [self.size_bytes * count // max(len(self._known), 1) for count in held]

    @property
    def row_group_offsets(self) -> Int64Array:
        """int64[num_groups + 1], the first row of each row group, followed by the number of rows."""
        return self._groups.offsets

    def bounds(self, field_ids: Sequence[FieldId]) -> dict[FieldId, RowGroupBounds]:
        """The bounds of some fields in each row group, as recorded by the writer.

        Fields without statistics are omitted, and those with a null in the file: nulls were written as 0, which the
        bounds do not include.

        Raises:
            CorruptFileError: the statistics contradict the format.
        """
        described = {field.name: field for field in self._statistics_schema}
        columns = {field_id: described[str(field_id)] for field_id in field_ids if str(field_id) in described}
        with self._errors:
            num_groups = len(self._groups.offsets) - 1
            if not columns or num_groups == 0:
                return {}
            ids = {node.id: node for field in self._statistics_schema for node in field.walk()}
            groups = self._row_groups(np.array([0, num_groups], np.int64), ids, self._statistics_position)
            every = RowRanges.of(0, num_groups)
            arrays = self._run(side_by_side([read_field(field, ids, groups, every) for field in columns.values()]))
        return _without_nulls(dict(zip(columns, arrays, strict=True)))

    def _prepare(self, fields: Sequence[Field], column_indices: Mapping[FieldId, int]) -> FieldsReader:
        nodes = {field_id: node for field_id, node in self._known.items() if column_indices.get(field_id, -1) >= 0}

        def reads(rows: RowRanges) -> FieldsReads:
            return side_by_side([read_field(field, nodes, self._groups, rows) for field in fields])

        return reads

    def _section(self, position: int) -> pa.Buffer:
        """The length-prefixed message at `position`."""
        (length,) = struct.unpack("<I", self._checked_range(position, _LENGTH_BYTES))
        return self._checked_range(position + _LENGTH_BYTES, length)

    def _checked_range(self, position: int, length: int) -> pa.Buffer:
        if position < 0 or position + length > self.size_bytes:
            raise CorruptFileError(
                f"{length} bytes of metadata at {position} leave the file of {self.size_bytes} bytes"
            )
        return self._read_ranges([ByteRange(position, length)])[0]

    def _row_groups(self, offsets: Int64Array, fields: Mapping[FieldId, Field], position: int) -> RowGroups:
        """The row groups whose page table, for the ids of `fields`, is at `position`."""
        num_groups = len(offsets) - 1
        first, last = min(fields, default=0), max(fields, default=-1)
        num_ids = last - first + 1
        data = self._checked_range(position, num_ids * num_groups * 16)
        table = np.frombuffer(data, "<i8").reshape(num_ids, num_groups, 2)
        return RowGroups(offsets, first, table, max_items=8 * self.size_bytes)


def _without_nulls(statistics: Mapping[FieldId, pa.ChunkedArray]) -> dict[FieldId, RowGroupBounds]:
    result = {}
    for field_id, column in statistics.items():
        table = pa.Table.from_struct_array(column)
        names = table.column_names
        if not {"null_count", "min_value", "max_value"}.issubset(names):
            raise CorruptFileError(f"the statistics of field {field_id} have the columns {names}")
        if not any(table["null_count"].to_pylist()):
            result[field_id] = RowGroupBounds(table["min_value"].combine_chunks(), table["max_value"].combine_chunks())
    return result
