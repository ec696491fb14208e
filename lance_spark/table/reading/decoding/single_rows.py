"""The columns of a few rows, each by one call of a kernel for each fragment, where files are mapped.

What is prepared for a column of a fragment is kept in the cache. To read ten numbers in the general way takes some 200
calls, most of which find out again what the last ones have found.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError
from lance_spark.file.reader import FileReader
from lance_spark.file_version import FileVersion
from lance_spark.index.spans import Span, is_numbered
from lance_spark.layouts.arrow_take import take
from lance_spark.layouts.in_memory.dictionary_rows import DictionaryRows
from lance_spark.layouts.in_memory.field_rows import ascending
from lance_spark.layouts.in_memory.fixed_width import FixedWidth
from lance_spark.layouts.in_memory.rows import RowsOfField, rows_of_field
from lance_spark.layouts.in_memory.single_rows import RowsOfColumn, SingleRows
from lance_spark.layouts.in_memory.string_rows import StringRows
from lance_spark.layouts.leaf.values import EMPTY
from lance_spark.layouts.v2_0.field_reader import NodeFields
from lance_spark.layouts.v2_0.in_memory import RowsOfNode
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.columns import column_fields, is_blob, paths
from lance_spark.schema.field import Field, FieldId
from lance_spark.schema.remembered import Remembered
from lance_spark.storage.cache import cached_part
from lance_spark.storage.meter import READS
from lance_spark.table.bases import Bases
from lance_spark.table.reading.decoding.columns import ReadColumns
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.system_columns import SYSTEM_FIELDS, RowLineage
from lance_spark.table.rows.fragment import DataFragment

MOST_ROWS = 16384
_MOST_COLUMNS = 16
_MOST_FRAGMENTS = 16
"""Beyond these the general way is as fast, which decodes columns and fragments together."""

_FEW_VALUES = 64
"""So few values are compared one by one where no kernel compares them."""

_KEPT_BYTES = 1 << 14
"""What a column counts in the cache beside its tables; it bounds the number of files that stay mapped."""


@dataclass(frozen=True)
class SystemRows:
    """A system column of a fragment.

    Attributes:
        name: which one.
        lineage: of the fragment.
        num_bytes: about what it takes in memory.
    """

    name: str
    lineage: RowLineage
    num_bytes: int

    value_bits = 64

    def of_rows(self, _data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        """The values of `rows` (int64[n], in any order); None if they are damaged, which decoding reports."""
        wanted, order = ascending(rows)
        try:
            values = self.lineage.column(self.name, wanted)
        except CorruptFileError:
            return None
        return values if order is None else take(values, order)


_Rows = RowsOfNode | RowsOfField | SystemRows
_Column = tuple[_Rows, pa.Buffer]
"""A column, and its file in memory."""

_KEPT_TABLES = 64 << 20
"""Bytes of the tables of columns that are found at once, without a look into the cache for each of them."""


def _size_of(columns: tuple[_Column, ...] | None) -> int:
    return sum([column.num_bytes for column, _ in columns or ()])


_prepared: Remembered[tuple[_Column, ...] | None] = Remembered(most_bytes=_KEPT_TABLES, size_of=_size_of)


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
        fields: the columns, in order, system columns by name; None if they cannot be copied.
        bases: where the files are.
        opened: a fragment, open for reading.
        stable_row_ids: whether row ids are not addresses.
    """

    fields: tuple[Field | str, ...] | None
    bases: Bases
    opened: Callable[[DataFragment], FragmentReader]
    stable_row_ids: bool

    @classmethod
    def of(
        cls,
        columns: ReadColumns,
        bases: Bases,
        opened: Callable[[DataFragment], FragmentReader],
        *,
        stable_row_ids: bool,
    ) -> SingleRowColumns:
        """Reader of the columns of a scan."""
        fields = {field.name: field for field in columns.returned.projection.fields}
        wanted = [fields.get(name, name) for name in columns.returned.names]
        return cls.of_fields(wanted, bases, opened, stable_row_ids=stable_row_ids)

    @classmethod
    def of_fields(
        cls,
        fields: Sequence[Field | str],
        bases: Bases,
        opened: Callable[[DataFragment], FragmentReader],
        *,
        stable_row_ids: bool,
    ) -> SingleRowColumns:
        """Reader of some columns, system columns by name."""
        are_all = 0 < len(fields) <= _MOST_COLUMNS and all(map(_can_be_copied, fields))
        return cls(tuple(fields) if are_all else None, bases, opened, stable_row_ids)

    def can_read(self, num_rows: int, num_fragments: int) -> bool:
        """Whether as many rows of as many fragments may be read here, as far as columns and numbers tell."""
        return self.fields is not None and 0 < num_rows <= MOST_ROWS and num_fragments <= _MOST_FRAGMENTS

    def live_rows(self, fragment: DataFragment, positions: Int64Array, places: Int64Array | None) -> RowsOfFragment:
        """The rows number `positions` (int64[n], in any order) of those that are not deleted.

        Raises:
            LanceError: the deletion file is missing or contradicts the format.
        """
        if fragment.deletion_file is not None:
            with self.bases.reading():
                positions = self.opened(fragment).deletions.offsets_of_live(positions)
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
        """The columns of `num_rows` rows; None if some cannot be copied.

        Raises:
            LanceError: a file is missing or contradicts the format.
        """
        if not self.can_read(num_rows, len(wanted)):
            return None
        found = [_prepared((self, part.fragment), None, partial(self._columns, part.fragment)) for part in wanted]
        known = [columns for columns in found if columns is not None]
        if len(known) < len(found):
            return None
        if len(wanted) == 1 and wanted[0].places is None:
            offsets = wanted[0].offsets
            values = [column.of_rows(data, offsets) for column, data in known[0]]
        else:
            values = [_values(columns, wanted, num_rows) for columns in zip(*known, strict=True)]
        arrays = [array for array in values if array is not None]
        if len(arrays) < len(values):
            # The general way says which page is broken.
            return None
        row_bits = sum([column.value_bits for column, _ in known[0]])
        # Nobody waits for memory.
        READS.add(num_rows * len(arrays), num_rows * row_bits // 8, 0.0)
        return arrays

    def offsets_in(self, fragment: DataFragment, offsets: Int64Array, place: int, span: Span) -> Int64Array | None:
        """The `offsets` (int64[n], ascending) of a fragment whose value of a column is in a span, without a copy of the
        texts; None if only decoded values can tell.

        Args:
            place: of the column among `fields`.

        Raises:
            LanceError: as `read`.
        """
        known = _prepared((self, fragment), None, partial(self._columns, fragment))
        if known is None or not len(offsets):
            return None if known is None else offsets
        column, data = known[place]
        found = None
        if isinstance(column, StringRows) and isinstance(span.only, str):
            found = column.places_of(data, offsets, span.only.encode())
        elif isinstance(column, DictionaryRows) and isinstance(span.only, str):
            found = column.places_of(data, offsets, span.only)
        elif isinstance(column, SingleRows) and is_numbered(column.values.data_type) and not span.is_open:
            found = column.places_between(data, offsets, cast("int | None", span.low), cast("int | None", span.high))
        if found is None and len(offsets) <= _FEW_VALUES:
            values = column.of_rows(data, offsets)
            found = None if values is None else span.places_in(values)
        READS.add(1, len(offsets) * column.value_bits // 8, 0.0)
        return None if found is None else offsets[found]

    def _columns(self, fragment: DataFragment) -> tuple[_Column, ...] | None:
        """All columns in a fragment; None if one of them cannot be copied."""
        fields = self.fields or ()
        columns: dict[int, _Column] = {}
        # First those that can be stored in ways that are not copied.
        for place in sorted(range(len(fields)), key=lambda place: _has_fixed_width(fields[place])):
            field = fields[place]
            column = self._system(fragment, field) if isinstance(field, str) else self._column(fragment, field)
            if column is None:
                return None
            columns[place] = column
        return tuple([columns[place] for place in range(len(fields))])

    def _system(self, fragment: DataFragment, name: str) -> _Column:
        lineage = RowLineage(fragment, self.opened(fragment), self.stable_row_ids)
        return SystemRows(name, lineage, 8 * (fragment.physical_rows or 0) if self.stable_row_ids else 0), EMPTY

    def _column(self, fragment: DataFragment, field: Field) -> _Column | None:
        def find() -> tuple[tuple[_Column | None], int]:
            with self.bases.reading():
                found = self._found(fragment, field)
            return (found,), _KEPT_BYTES + (0 if found is None else found[0].num_bytes)

        # Structs can have some of their members.
        part = "single rows", *[(below.id, below.logical_type) for below in field.walk()]
        return cached_part(fragment, part, find)[0]

    def _found(self, fragment: DataFragment, field: Field) -> _Column | None:
        """A column in the one file that has it, nulls if there is none; None if it is of another kind."""
        leaves = {path[-1].id for path in paths(field)}
        files = [file for file in fragment.files if not leaves.isdisjoint(file.fields)]
        if not files and field.nullable and fragment.physical_rows:
            missing = to_arrow_type(field), fragment.physical_rows
            nulls = SingleRows.of_nulls(*missing) or StringRows.of_nulls(*missing)
            return None if nulls is None else (nulls, EMPTY)
        if len(files) != 1 or files[0].version is FileVersion.V0_1:
            return None
        columns, owners = files[0].columns(), {owner.id for owner in column_fields((field,), files[0].version)}
        if not owners <= columns.keys():
            return None
        reader, data = self.opened(fragment).open_in_memory(files[0]) or (None, EMPTY)
        if not isinstance(reader, FileReader):
            return None
        found = _single_rows(reader, field, {owner: columns[owner] for owner in owners}, data)
        return None if found is None else (found, data)


def _values(columns: Sequence[_Column], wanted: Sequence[RowsOfFragment], num_rows: int) -> pa.Array | None:
    """A column of rows of some fragments; None as `SingleRows.taken`, and for several Arrow dictionaries."""
    parts = [
        RowsOfColumn(column, data, part.offsets, part.places)
        for (column, data), part in zip(columns, wanted, strict=True)
        if isinstance(column, SingleRows)
    ]
    if len(parts) == len(columns):
        return parts[0].column.taken(parts, num_rows)
    arrays: list[pa.Array] = []
    for (column, data), part in zip(columns, wanted, strict=True):
        array = column.of_rows(data, part.offsets)
        if array is None or (len(columns) > 1 and _has_dictionary(array.type)):
            return None
        arrays.append(array)
    places = [part.places for part in wanted if part.places is not None]
    if not places:
        return arrays[0]
    joined, targets = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays), np.concatenate(places)
    if bool((targets[1:] > targets[:-1]).all()):
        return joined
    order: Int64Array = np.empty(num_rows, np.int64)
    order[targets] = np.arange(num_rows)
    return take(joined, order)


def _single_rows(reader: FileReader, field: Field, numbers: Mapping[FieldId, int], data: pa.Buffer) -> _Rows | None:
    """The rows of a field, for which the file has the columns `numbers`."""
    if reader.version is FileVersion.V2_0:
        fields = reader.prepared([field], numbers)
        return fields.single_rows(data) if isinstance(fields, NodeFields) else None
    encoded = dict(zip(numbers, reader.encoded_columns_at([*numbers.values()]), strict=True))
    return rows_of_field(field, encoded, data)


def _has_fixed_width(field: Field | str) -> bool:
    return isinstance(field, str) or FixedWidth.of_type(to_arrow_type(field)) is not None


def _can_be_copied(field: Field | str) -> bool:
    if isinstance(field, str):
        return field in SYSTEM_FIELDS
    return not is_blob(field) and not (field.children and any(is_blob(below) for below in field.walk()))


def _has_dictionary(data_type: pa.DataType) -> bool:
    if pa.types.is_dictionary(data_type):
        return True
    return any(_has_dictionary(data_type.field(number).type) for number in range(data_type.num_fields))
