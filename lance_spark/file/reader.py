"""Reads one data file of version 2.0 to 2.2.

Opening takes one read of the end of the file, which usually contains all metadata.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.errors import CorruptFileError
from lance_spark.file.data_file_reader import DataFileReader, SelectedColumns, described_blobs
from lance_spark.file.footer import Footer, OffsetTable
from lance_spark.file.metadata import parse_column, parse_file_descriptor
from lance_spark.file_version import FileVersion
from lance_spark.layouts.base import EncodedBuffer, EncodedColumn, FieldsReader, RowRanges
from lance_spark.layouts.field_readers import field_reader, prepare_field
from lance_spark.layouts.prepared.field import PreparedField
from lance_spark.layouts.v2_0.list_ import holds_lists
from lance_spark.layouts.v2_0.simple_struct import holds_structs
from lance_spark.schema.columns import column_fields, has_bytes, is_array_leaf, is_blob
from lance_spark.schema.field import Field, FieldId
from lance_spark.storage.base import ByteRange, ObjectStore
from lance_spark.storage.meter import READS

_OBJECT_BYTES = 2560
"""About what an open file takes beside the bytes of the file."""

_PARSED_SIZE = 3
"""About how many times their size in the file parsed metadata take."""

_PAGE_BYTES = 1024
"""About what a parsed page takes."""

_KEPT_OF_PAGE = 512
"""For this number of bytes of a page, one is kept for later reads: mostly sizes of chunks."""

_MOST_ROWS = 1 << 13
_FEW_ROWS = 1 << 10
"""Maximum rows that are picked of up to `_FEW_FIELDS` fields, and of up to `_MOST_FIELDS`."""

_FEW_FIELDS = 8
_MOST_FIELDS = 16
"""Beyond them fields of one type, which are decoded together, take less time so."""


class FileReader(DataFileReader):
    """One open data file of version 2.0 to 2.2."""

    def __init__(self, store: ObjectStore, path: str, footer: Footer, tail: pa.Buffer) -> None:
        super().__init__(store, path, footer.version, footer.file_size, tail)
        self._footer = footer
        self._columns: dict[int, EncodedColumn] = {}
        self._bytes_of_columns = 0
        self._prepared_fields: dict[Hashable, PreparedField | None] = {}
        places, buffers = self._offset_tables()
        columns, size = footer.num_columns, footer.file_size
        self._column_places = OffsetTable(*places, columns, size, "column metadata")
        self._global_buffers = OffsetTable(*buffers, footer.num_global_buffers, size, "a global buffer")
        self.schema, self.num_rows = parse_file_descriptor(self.read_global_buffer(0))
        # The parsed metadata of all columns, once they are read, take some times their bytes; values stay as they are.
        metadata = max(0, min(size - footer.column_metadata_position, int(tail.size)))
        self._fixed_bytes = _OBJECT_BYTES + int(tail.size) + _PARSED_SIZE * metadata

    def _offset_tables(self) -> list[tuple[pa.Buffer, int]]:
        """The bytes of both tables, and where each begins in them."""
        footer = self._footer
        tail_start = footer.file_size - self._tail.size
        starts = footer.column_offsets_position - tail_start, footer.buffer_offsets_position - tail_start
        if min(starts) >= 0:
            # Not even slices: files of few rows are opened by the thousand.
            return [(self._tail, start) for start in starts]
        return [(table, 0) for table in self._read_ranges([footer.column_offsets, footer.buffer_offsets])]

    @property
    def cached_bytes(self) -> int:
        return self._fixed_bytes

    @property
    def held_bytes(self) -> int:
        # Asked for by each read that opens another file, of all files that are open.
        return self._fixed_bytes + self._bytes_of_columns

    @property
    def num_columns(self) -> int:
        return self._footer.num_columns

    @property
    def num_global_buffers(self) -> int:
        return self._footer.num_global_buffers

    @cached_property
    def columns(self) -> Mapping[FieldId, int]:
        owners = column_fields(self.schema.fields, self.version)
        columns, count = {owner.id: index for index, owner in enumerate(owners)}, len(owners)
        if count < self.num_columns and self.version is FileVersion.V2_0:
            columns, count = _early_columns(self.schema.fields, self.encoded_columns_at(range(self.num_columns)))
        if count != self.num_columns:
            raise CorruptFileError(f"the schema has {count} columns, the file {self.num_columns}", path=self.path)
        return columns

    @cached_property
    def _fields_by_id(self) -> Mapping[FieldId, Field]:
        """The fields of the file's own schema by id; the first wins among equal ids (parts of blobs have none)."""
        return {node.id: node for node in reversed(list(self.schema.walk()))}

    def encoded_columns(self) -> list[EncodedColumn]:
        """The metadata of all columns: their pages, buffers and encodings; no values are read.

        Raises:
            CorruptFileError: the metadata contradicts the format.
        """
        with self._errors:
            columns = self._load(self.schema.fields, self.columns)
            return [columns[field_id] for field_id in self.columns]

    def read_global_buffer(self, number: int) -> pa.Buffer:
        """The bytes of a global buffer; buffer 0 is the schema.

        Raises:
            CorruptFileError: there is no such buffer.
        """
        if not 0 <= number < self._footer.num_global_buffers:
            raise CorruptFileError(f"global buffer {number} of {self.num_global_buffers} is missing", path=self.path)
        return self._read_ranges([self._global_buffers[number]])[0]

    def _prepare(self, fields: Sequence[Field], column_indices: Mapping[FieldId, int]) -> FieldsReader:
        trees = self.stored_fields(fields)
        return field_reader(self.version)(trees, self._load(trees, column_indices))

    def _picked(self, selected: SelectedColumns, rows: RowRanges) -> Mapping[int, pa.ChunkedArray]:
        num_rows, num_fields = rows.num_rows, len(selected.fields)
        most_rows = _MOST_ROWS if num_fields <= _FEW_FIELDS else _FEW_ROWS
        if not 0 < num_rows <= most_rows or num_fields > _MOST_FIELDS:
            return {}
        prepared = selected.prepared
        if prepared is None:
            prepared = selected.prepared = self._pickable(selected)
        if not prepared:
            return {}
        few = [(place, column) for place, column in prepared.items() if num_rows <= column.most_rows]
        data = self.in_memory() if few else None
        if data is None:
            return {}
        numbers = rows.indices()
        arrays = {place: column.pick(data, numbers) for place, column in few}
        if not self.is_in_memory:
            # Mapped reads have no I/O wait.
            READS.add(len(few), num_rows * sum([column.value_bits for _, column in few]) // 8, 0.0)
        return {place: pa.chunked_array([array]) for place, array in arrays.items() if array is not None}

    def _pickable(self, selected: SelectedColumns) -> Mapping[int, PreparedField] | None:
        """The fields of which rows are picked, by their places; None if the file is not in memory."""
        if self.in_memory() is None:
            return None
        prepared = [self.prepared_field(field, selected.column_indices) for field in selected.fields]
        return {place: column for place, column in enumerate(prepared) if column is not None and column.most_rows}

    def prepared_field(self, field: Field, column_indices: Mapping[FieldId, int]) -> PreparedField | None:
        """A top-level field for reads of few rows, prepared once; None if `read` has to read it, or if the file is not
        in memory.

        Args:
            field, column_indices: as for `read`, of one field.

        Raises:
            CorruptFileError: the metadata of a column contradicts the format.
        """
        nodes = [*field.walk()]
        key = field.array_key, tuple([column_indices.get(node.id, -1) for node in nodes])
        if key not in self._prepared_fields:
            data = self.in_memory()
            if data is None:
                return None
            prepared = None
            if self._has_columns(field, column_indices) and not any(map(is_blob, nodes)):
                with self._errors:
                    columns = self._load([field], column_indices)
                prepared = prepare_field(self.version, field, columns, data)
            self._prepared_fields[key] = prepared
            self._bytes_of_columns += 0 if prepared is None else prepared.num_bytes
        return self._prepared_fields[key]

    def _has_columns(self, field: Field, column_indices: Mapping[FieldId, int]) -> bool:
        """Whether the file has all columns of a field: one of version 2.0 can have a list without having its items."""
        return all(column_indices.get(owner.id, -1) >= 0 for owner in column_fields((field,), self.version))

    def stored_fields(self, fields: Sequence[Field]) -> list[Field]:
        """Fields of the table as the file has them: blobs of 2.2 are descriptions."""
        return [described_blobs(field, self._fields_by_id) for field in fields]

    def estimated_bytes(self, fields: Sequence[Field], column_indices: Mapping[FieldId, int]) -> list[int]:
        with self._errors:
            columns = self._load(fields, column_indices)
        sizes = {
            field_id: sum([size for page in column.pages for _, size in page.buffers])
            for field_id, column in columns.items()
        }
        return [sum([sizes.get(owner.id, 0) for owner in column_fields((field,), self.version)]) for field in fields]

    def encoded_columns_at(self, indices: Sequence[int]) -> list[EncodedColumn]:
        """The metadata of the columns with these indices.

        Raises:
            CorruptFileError: the metadata contradicts the format, or there is no such column.
        """
        try:
            self._load_columns(indices)
            return [self._columns[index] for index in indices]
        except CorruptFileError as error:
            raise error.at(path=self.path, root=self._store.uri) from None

    def _load(self, fields: Sequence[Field], column_indices: Mapping[FieldId, int]) -> dict[FieldId, EncodedColumn]:
        """The columns of `fields` that exist in the file; their metadata is fetched together."""
        owners: Sequence[Field] = column_fields(fields, self.version)
        if self.version is FileVersion.V2_0:
            # The first releases did not pack structs, even if their metadata say so: the members have columns too.
            owners = [node for field in fields for node in field.walk()]
        places = {owner.id: column_indices[owner.id] for owner in owners if column_indices.get(owner.id, -1) >= 0}
        self._load_columns(places.values())
        if self.version is FileVersion.V2_0:
            self._load_listed_bytes([places[owner.id] for owner in owners if owner.id in places and has_bytes(owner)])
        return {field_id: self._columns[index] for field_id, index in places.items()}

    def _load_listed_bytes(self, indices: Sequence[int]) -> None:
        """Joins columns of texts with the columns of their bytes, where they are lists."""
        columns = [self._columns[index] for index in indices]
        listed = [column for column in columns if column.items is None and holds_lists(column)]
        self._load_columns(column.index + 1 for column in listed)
        for column in listed:
            self._columns[column.index] = replace(column, items=self._columns[column.index + 1])

    def _load_columns(self, indices: Iterable[int]) -> None:
        """Fetches and parses the metadata of columns, all at once."""
        missing = sorted({index for index in indices if index not in self._columns})
        if not missing:
            return
        if missing[-1] >= self.num_columns:
            raise CorruptFileError(f"column {missing[-1]} of {self.num_columns} is missing")
        data = self._read_ranges([self._column_places[index] for index in missing])
        # Only pages of 2.0 refer to buffers of the file.
        buffers = self._global_buffers.all() if self.version is FileVersion.V2_0 else ()
        for index, metadata in zip(missing, data, strict=True):
            column = self._columns[index] = parse_column(
                metadata, index, self.num_rows, self.size_bytes, buffers, self._read_buffer, self.version
            )
            for page in column.pages:
                self._bytes_of_columns += _PAGE_BYTES
                for _, size in page.buffers:
                    self._bytes_of_columns += size // _KEPT_OF_PAGE

    def _read_buffer(self, buffer: EncodedBuffer) -> pa.Buffer:
        return self._read_ranges([ByteRange(*buffer)])[0]


def _early_columns(fields: Iterable[Field], columns: Sequence[EncodedColumn]) -> tuple[dict[FieldId, int], int]:
    """(the column of each field that owns one, how many columns the fields have) in early files of version 2.0.

    Until 0.14 texts were lists of bytes, whose bytes have a column of their own, and no struct was packed: metadata
    that say otherwise are ignored.

    Args:
        columns: all columns of the file.

    Raises:
        CorruptFileError: the encoding of a page is corrupt.
    """
    places: dict[FieldId, int] = {}
    count = 0

    def visit(field: Field) -> None:
        nonlocal count
        column = columns[count] if count < len(columns) else None
        places[field.id] = count
        count += 1
        if column is not None and has_bytes(field) and holds_lists(column):
            count += 1
        if not is_array_leaf(field) or (column is not None and field.children and holds_structs(column)):
            for child in field.children:
                visit(child)

    for field in fields:
        visit(field)
    return places, count
