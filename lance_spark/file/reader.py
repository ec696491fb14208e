"""Reads one data file of version 2.0 to 2.2.

Opening takes one read of the end of the file, which mostly holds all metadata. After that each read sends its
requests in rounds: the coroutines of all fields and pages run side by side, and what they ask for at the same time is
one call of the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property

import pyarrow as pa

from lance_spark.errors import CorruptFileError, InvalidInputError
from lance_spark.file.footer import Footer, parse_offsets
from lance_spark.file.metadata import parse_column, parse_file_descriptor
from lance_spark.file.plan import described_blobs, merged_ranges
from lance_spark.layouts.base import EncodedBuffer, EncodedColumn, FieldReads, RowRanges, side_by_side
from lance_spark.layouts.field_readers import field_reader
from lance_spark.schema.columns import column_fields
from lance_spark.schema.field import Field, FieldId
from lance_spark.schema.projection import project
from lance_spark.storage.base import ByteRange, ObjectStore
from lance_spark.storage.cache import has_free_stamps, kept_by_name

TAIL_BYTES = 64 * 1024
"""How much of the end of a file is read at first."""


class FileReader:
    """One open data file. Safe to use from several threads at the same time; holds no file descriptor.

    Attributes:
        path: of the file in its store.
        version: the file's version.
        num_rows: rows in the file.
        schema: the file's own schema. The ids of its fields are those of the table it was written for.
    """

    def __init__(self, store: ObjectStore, path: str, footer: Footer, tail: pa.Buffer) -> None:
        self._store = store
        self._footer = footer
        self._tail = tail
        self._columns: dict[int, EncodedColumn] = {}
        self.path = path
        self.version = footer.version
        tables = self._read_ranges([footer.column_offsets, footer.buffer_offsets])
        self._column_places = parse_offsets(tables[0], footer.file_size, "column metadata")
        self._global_buffers = parse_offsets(tables[1], footer.file_size, "a global buffer")
        self.schema, self.num_rows = parse_file_descriptor(self.read_global_buffer(0))

    @classmethod
    def open(cls, store: ObjectStore, path: str, *, size: int | None = None) -> FileReader:
        """The file at `path`.

        Args:
            store: where it lies.
            path: relative to the store's root.
            size: its size in bytes if that is known; saves a request.

        Raises:
            NotFoundError: no such object.
            CorruptFileError: it is no complete Lance file.
            UnsupportedFeatureError: a version of the format that is not read.
        """
        with _located(store, path):
            file_size = store.size(path) if size is None else size
            length = min(file_size, TAIL_BYTES)

            def read() -> tuple[pa.Buffer, int]:
                return store.read_range(path, ByteRange(file_size - length, length)), length

            # Where the file system keeps pages in memory already, keeping them twice gains nothing.
            tail = read()[0] if has_free_stamps(store) else kept_by_name(store, "end of file", path, file_size, read)
            footer = Footer.parse(tail, file_size)
            field_reader(footer.version)
            return cls(store, path, footer, tail)

    @property
    def num_columns(self) -> int:
        return self._footer.num_columns

    @property
    def size_bytes(self) -> int:
        return self._footer.file_size

    @property
    def num_global_buffers(self) -> int:
        return len(self._global_buffers)

    @cached_property
    def columns(self) -> Mapping[FieldId, int]:
        """The column of each field of the file's own schema that owns one.

        Raises:
            CorruptFileError: the schema asks for another number of columns than there are.
        """
        owners = column_fields(self.schema.fields, self.version)
        if len(owners) != self.num_columns:
            raise CorruptFileError(
                f"the schema has {len(owners)} columns, the file {self.num_columns}", path=self.path
            )  # fmt: skip
        return {owner.id: index for index, owner in enumerate(owners)}

    @cached_property
    def _fields_by_id(self) -> Mapping[FieldId, Field]:
        """The fields of the file's own schema; of two with one id (parts of blobs have none) the first."""
        return {node.id: node for node in reversed(list(self.schema.walk()))}

    def read_global_buffer(self, number: int) -> pa.Buffer:
        """The bytes of a global buffer; buffer 0 is the schema.

        Raises:
            CorruptFileError: there is no such buffer.
        """
        if not 0 <= number < len(self._global_buffers):
            raise CorruptFileError(f"global buffer {number} of {len(self._global_buffers)} is missing", path=self.path)
        position, size = self._global_buffers[number]
        return self._read_ranges([ByteRange(position, size)])[0]

    def read(
        self, fields: Sequence[Field], column_indices: Mapping[FieldId, int], rows: RowRanges | None = None
    ) -> list[pa.ChunkedArray]:
        """The values of top-level fields at some rows, one array a field, ``rows.num_rows`` long.

        Args:
            fields: trees of the table's fields, pruned to what is wanted. A field without a column is null.
            column_indices: the columns of this file by the id of the field that owns them; -1 is no column.
            rows: which rows, None for all.

        Raises:
            CorruptFileError: the file contradicts the format or the arguments.
            UnsupportedFeatureError: it uses something that is not read.
            InvalidInputError: rows that the file does not have.
        """
        wanted = merged_ranges(RowRanges.of(0, self.num_rows) if rows is None else rows)
        if len(wanted.starts) and (int(wanted.starts[0]) < 0 or int(wanted.stops[-1]) > self.num_rows):
            raise InvalidInputError(f"rows up to {int(wanted.stops[-1])} of a file of {self.num_rows} rows")
        with _located(self._store, self.path):
            trees = [described_blobs(field, self._fields_by_id) for field in fields]
            columns = self._load(trees, column_indices)
            read_field = field_reader(self.version)
            arrays = self._run([read_field(tree, columns, wanted) for tree in trees])
        return arrays

    def read_table(self, columns: Sequence[str] | None = None, rows: RowRanges | None = None) -> pa.Table:
        """The file as a table by its own schema; `columns` may be dotted paths, None for all.

        Raises:
            NotFoundError: there is no such column.
            CorruptFileError: as `read`.
        """
        schema = self.schema if columns is None else project(self.schema, columns)
        arrays = self.read(schema.fields, self.columns, rows)
        described = [
            pa.field(field.name, array.type, field.nullable, metadata=dict(field.metadata) or None)
            for field, array in zip(schema.fields, arrays, strict=True)
        ]
        if described:
            return pa.table(arrays, schema=pa.schema(described, metadata=dict(schema.metadata) or None))
        num_rows = self.num_rows if rows is None else rows.num_rows
        return pa.table([pa.nulls(num_rows)], names=["0"]).select([])

    def estimated_bytes(self, fields: Sequence[Field], column_indices: Mapping[FieldId, int]) -> int:
        """Encoded bytes of the pages that a read of all rows of `fields` would fetch."""
        with _located(self._store, self.path):
            columns = self._load(fields, column_indices)
            return sum(size for column in columns.values() for page in column.pages for _, size in page.buffers)

    def _load(self, fields: Sequence[Field], column_indices: Mapping[FieldId, int]) -> dict[FieldId, EncodedColumn]:
        """The columns of `fields` that the file has, their metadata fetched together."""
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

    def _read_ranges(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """From the end of the file that is already here, or from the store."""
        tail_start = self._footer.file_size - self._tail.size
        outside = [wanted for wanted in ranges if wanted.start < tail_start and wanted.length]
        fetched = iter(self._store.read_ranges(self.path, outside) if outside else ())
        return [
            next(fetched)
            if wanted.start < tail_start and wanted.length
            else self._tail.slice(max(wanted.start - tail_start, 0), wanted.length)
            for wanted in ranges
        ]

    def _run(self, reads: Sequence[FieldReads]) -> list[pa.ChunkedArray]:
        """Runs the coroutines of fields to their end."""
        together = side_by_side(reads)
        size = self._footer.file_size
        try:
            requests = next(together)
            while True:
                for start, length in requests:
                    if start < 0 or length < 0 or start + length > size:
                        raise CorruptFileError(f"a value leaves the file of {size} bytes", start=start, length=length)
                ranges = [ByteRange(start, length) for start, length in requests]
                requests = together.send(self._store.read_ranges(self.path, ranges))
        except StopIteration as stop:
            arrays: list[pa.ChunkedArray] = stop.value
            return arrays


@contextmanager
def _located(store: ObjectStore, path: str) -> Iterator[None]:
    """Errors about a file learn which file it is."""
    try:
        yield
    except CorruptFileError as error:
        error.at(path=path, root=store.uri)
        raise
