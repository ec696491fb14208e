"""Few rows of some columns, picked from mapped files by a call of a kernel for each column of a fragment.

What is prepared for a column stays with its open file and fragment. To read ten numbers by the page reader takes some
200 calls, most of which find out again what the last ones have found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.file.reader import FileReader
from lance_spark.layouts.arrow_take import take
from lance_spark.layouts.leaf.values import EMPTY
from lance_spark.layouts.prepared.field import Nulls, PreparedField
from lance_spark.layouts.prepared.leaf import in_order
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.columns import is_blob, paths
from lance_spark.schema.field import Field
from lance_spark.storage.meter import READS
from lance_spark.table.reading.decoding.columns import ReadColumns
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.opened_version import OpenedVersion
from lance_spark.table.reading.system_columns import SYSTEM_FIELDS, RowLineage
from lance_spark.table.rows.fragment import DataFragment

MOST_ROWS = 16384
_MOST_COLUMNS = 16
_MOST_FRAGMENTS = 16
"""Limits of a pick; beyond them the page reader is as fast, which decodes columns and fragments together."""

_KEPT_BYTES = 1 << 10
"""Size of a column of an open fragment, beside what its file has prepared."""


@dataclass(frozen=True)
class SystemColumn(PreparedField):
    """A system column of a fragment.

    Attributes:
        name: which one.
        lineage: of the fragment.
    """

    name: str
    lineage: RowLineage

    num_bytes = most_rows = 0
    value_bits = 64

    def _pick(self, data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        wanted, order = np.unique(rows, return_inverse=True)
        return take(self.lineage.column(self.name, wanted), order)


_Column = tuple[PreparedField, pa.Buffer]
"""A column, and its file in memory."""


class RowsOfFragment(NamedTuple):
    """Rows of a fragment that are read.

    Attributes:
        offsets: int64[n], in any order.
        places: int64[n]: where each goes in the result; None for the order of `offsets`, if there is one fragment.
    """

    fragment: DataFragment
    offsets: Int64Array
    places: Int64Array | None = None


@dataclass(frozen=True)
class SingleRowColumns:
    """Reads a few rows of some columns.

    Attributes:
        fields: the columns, in order, system columns by name; None if they cannot be picked.
        version: its open fragments.
        stable_row_ids: whether row ids are not addresses.
    """

    fields: tuple[Field | str, ...] | None
    version: OpenedVersion
    stable_row_ids: bool

    @classmethod
    def of(cls, columns: ReadColumns, version: OpenedVersion, *, stable_row_ids: bool) -> SingleRowColumns:
        """Reader of the columns of a scan."""
        fields = {field.name: field for field in columns.returned.projection.fields}
        wanted = [fields.get(name, name) for name in columns.returned.names]
        return cls.of_fields(wanted, version, stable_row_ids=stable_row_ids)

    @classmethod
    def of_fields(
        cls, fields: Sequence[Field | str], version: OpenedVersion, *, stable_row_ids: bool
    ) -> SingleRowColumns:
        """Reader of some columns, system columns by name."""
        are_all = 0 < len(fields) <= _MOST_COLUMNS and all(map(_can_be_picked, fields))
        return cls(tuple(fields) if are_all else None, version, stable_row_ids)

    def can_read(self, num_rows: int, num_fragments: int) -> bool:
        """Whether as many rows of as many fragments may be read here, as far as columns and numbers tell."""
        return self.fields is not None and 0 < num_rows <= MOST_ROWS and num_fragments <= _MOST_FRAGMENTS

    def live_rows(self, fragment: DataFragment, positions: Int64Array, places: Int64Array | None) -> RowsOfFragment:
        """The rows number `positions` (int64[n], in any order) of those that are not deleted.

        Raises:
            LanceError: the deletion file is missing or contradicts the format.
        """
        if fragment.deletion_file is not None:
            with self.version.bases.reading():
                positions = self.version.reader(fragment).deletions.offsets_of_live(positions)
        return RowsOfFragment(fragment, positions, places)

    def batch(self, wanted: Sequence[tuple[DataFragment, Int64Array]], schema: pa.Schema) -> pa.RecordBatch | None:
        """The rows at offsets (int64[n]) of fragments, one fragment behind the other; None and errors as in `read`.

        Args:
            schema: of the columns.
        """
        columns = self.columns(wanted)
        return None if columns is None else pa.RecordBatch.from_arrays(columns, schema=schema)

    def columns(self, wanted: Sequence[tuple[DataFragment, Int64Array]]) -> list[pa.Array] | None:
        """Columns of the rows that `batch` returns, without a schema."""
        parts, start = [], 0
        for fragment, offsets in wanted:
            places = np.arange(start, start + len(offsets)) if len(wanted) > 1 else None
            parts.append(RowsOfFragment(fragment, offsets, places))
            start += len(offsets)
        return self.read(parts, start)

    def read(self, wanted: Sequence[RowsOfFragment], num_rows: int) -> list[pa.Array] | None:
        """The columns of `num_rows` rows; None if the page reader has to read some.

        Raises:
            LanceError: a file is missing or contradicts the format.
        """
        if not self.can_read(num_rows, len(wanted)):
            return None
        arrays: list[pa.Array] = []
        row_bits = 0
        for field in self.fields or ():
            parts = []
            for part in wanted:
                column = self._column(part.fragment, field)
                array = None if column is None else column[0].pick(column[1], part.offsets)
                if column is None or array is None or (len(wanted) > 1 and _has_dictionary(array.type)):
                    # The page reader says which page is damaged.
                    return None
                row_bits += column[0].value_bits if part is wanted[0] else 0
                parts.append(array)
            arrays.append(_joined(parts, wanted))
        # Mapped reads have no I/O wait.
        READS.add(num_rows * len(arrays), num_rows * row_bits // 8, 0.0)
        return arrays

    def _column(self, fragment: DataFragment, field: Field | str) -> _Column | None:
        """A column in a fragment; None if the page reader has to read it."""
        reader = self.version.reader(fragment)
        if isinstance(field, str):
            return reader.kept((field, self.stable_row_ids), lambda: self._system(fragment, reader, field))
        return reader.kept(field.array_key, lambda: self._prepared(fragment, reader, field))

    def _system(self, fragment: DataFragment, reader: FragmentReader, name: str) -> tuple[_Column, int]:
        lineage = RowLineage(fragment, reader, self.stable_row_ids)
        num_bytes = 8 * (fragment.physical_rows or 0) if self.stable_row_ids else 0
        return (SystemColumn(name, lineage), EMPTY), num_bytes + _KEPT_BYTES

    def _prepared(self, fragment: DataFragment, reader: FragmentReader, field: Field) -> tuple[_Column | None, int]:
        """A column in the one file that has it, nulls if there is none; None if the page reader has to read it."""
        leaves = {path[-1].id for path in paths(field)}
        files = [file for file in fragment.files if not leaves.isdisjoint(file.fields)]
        if not files and field.nullable and fragment.physical_rows and not field.children:
            return (Nulls(to_arrow_type(field), fragment.physical_rows), EMPTY), _KEPT_BYTES
        if len(files) != 1:
            return None, _KEPT_BYTES
        with self.version.bases.reading():
            file, data = reader.open_in_memory(files[0]) or (None, EMPTY)
            prepared = file.prepared_field(field, files[0].columns()) if isinstance(file, FileReader) else None
        return None if prepared is None else (prepared, data), _KEPT_BYTES


def _joined(parts: Sequence[pa.Array], wanted: Sequence[RowsOfFragment]) -> pa.Array:
    """A column of rows of some fragments, each at its place."""
    places = [part.places for part in wanted if part.places is not None]
    return in_order(parts, np.concatenate(places)) if places else parts[0]


def _can_be_picked(field: Field | str) -> bool:
    if isinstance(field, str):
        return field in SYSTEM_FIELDS
    return not is_blob(field) and not (field.children and any(is_blob(node) for node in field.walk()))


def _has_dictionary(data_type: pa.DataType) -> bool:
    if pa.types.is_dictionary(data_type):
        return True
    return any(_has_dictionary(data_type.field(number).type) for number in range(data_type.num_fields))
