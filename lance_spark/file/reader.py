"""Reads one data file of version 2.0 to 2.2.

Opening takes one read of the end of the file, which usually contains all metadata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.file.data_file_reader import DataFileReader, located
from lance_spark.file.footer import Footer, parse_offsets
from lance_spark.file.metadata import parse_column, parse_file_descriptor
from lance_spark.file.plan import described_blobs
from lance_spark.layouts.base import EncodedBuffer, EncodedColumn, FieldReads, RowRanges
from lance_spark.layouts.field_readers import field_reader
from lance_spark.schema.columns import column_fields
from lance_spark.schema.field import Field, FieldId
from lance_spark.storage.base import ByteRange, ObjectStore


class FileReader(DataFileReader):
    """One open data file of version 2.0 to 2.2."""

    def __init__(self, store: ObjectStore, path: str, footer: Footer, tail: pa.Buffer) -> None:
        super().__init__(store, path, footer.version, footer.file_size, tail)
        self._footer = footer
        self._columns: dict[int, EncodedColumn] = {}
        tables = self._read_ranges([footer.column_offsets, footer.buffer_offsets])
        self._column_places = parse_offsets(tables[0], footer.file_size, "column metadata")
        self._global_buffers = parse_offsets(tables[1], footer.file_size, "a global buffer")
        self.schema, self.num_rows = parse_file_descriptor(self.read_global_buffer(0))

    @property
    def num_columns(self) -> int:
        return self._footer.num_columns

    @property
    def num_global_buffers(self) -> int:
        return len(self._global_buffers)

    @cached_property
    def columns(self) -> Mapping[FieldId, int]:
        owners = column_fields(self.schema.fields, self.version)
        if len(owners) != self.num_columns:
            raise CorruptFileError(
                f"the schema has {len(owners)} columns, the file {self.num_columns}", path=self.path
            )  # fmt: skip
        return {owner.id: index for index, owner in enumerate(owners)}

    @cached_property
    def _fields_by_id(self) -> Mapping[FieldId, Field]:
        """The fields of the file's own schema by id; the first wins among equal ids (parts of blobs have none)."""
        return {node.id: node for node in reversed(list(self.schema.walk()))}

    def encoded_columns(self) -> list[EncodedColumn]:
        """The metadata of all columns: their pages, buffers and encodings; no values are read.

        Raises:
            CorruptFileError: the metadata contradicts the format.
        """
        with located(self._store, self.path):
            owners = column_fields(self.schema.fields, self.version)
            found = self._load(self.schema.fields, self.columns)
            return [found[owner.id] for owner in owners]

    def read_global_buffer(self, number: int) -> pa.Buffer:
        """The bytes of a global buffer; buffer 0 is the schema.

        Raises:
            CorruptFileError: there is no such buffer.
        """
        if not 0 <= number < len(self._global_buffers):
            raise CorruptFileError(f"global buffer {number} of {len(self._global_buffers)} is missing", path=self.path)
        position, size = self._global_buffers[number]
        return self._read_ranges([ByteRange(position, size)])[0]

    def _field_reads(
        self, fields: Sequence[Field], column_indices: Mapping[FieldId, int], rows: RowRanges
    ) -> list[FieldReads]:
        trees = [described_blobs(field, self._fields_by_id) for field in fields]
        columns = self._load(trees, column_indices)
        read_field = field_reader(self.version)
        return [read_field(tree, columns, rows) for tree in trees]

    def estimated_bytes(self, fields: Sequence[Field], column_indices: Mapping[FieldId, int]) -> int:
        with located(self._store, self.path):
            columns = self._load(fields, column_indices)
            return sum(size for column in columns.values() for page in column.pages for _, size in page.buffers)

    def _load(self, fields: Sequence[Field], column_indices: Mapping[FieldId, int]) -> dict[FieldId, EncodedColumn]:
        """The columns of `fields` that exist in the file; their metadata is fetched together."""
        wanted = {
            owner.id: column_indices[owner.id]
            for owner in column_fields(fields, self.version)
            if column_indices.get(owner.id, -1) >= 0
        }
        missing = sorted({index for index in wanted.values() if index not in self._columns})
        if missing and missing[-1] >= self.num_columns:
            raise CorruptFileError(f"column {missing[-1]} of {self.num_columns} is missing")
        places = [self._column_places[index] for index in missing]
        data = self._read_ranges([ByteRange(*place) for place in places])
        for index, metadata in zip(missing, data, strict=True):
            self._columns[index] = parse_column(
                metadata, index, self.num_rows, self.size_bytes, self._global_buffers, self._read_buffer, self.version
            )
        return {field_id: self._columns[index] for field_id, index in wanted.items()}

    def _read_buffer(self, buffer: EncodedBuffer) -> pa.Buffer:
        return self._read_ranges([ByteRange(*buffer)])[0]
