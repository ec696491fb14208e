"""Writes data files of version 2.0 to 2.2 (Lance file format specification, container).

::

    page buffers                 each aligned to 64 bytes
    global buffer 0              lance.file.FileDescriptor: schema and number of rows
                                 (other global buffers are between the pages)
    column metadata 0..C-1       lance.file.v2.ColumnMetadata, back to back
    C x (u64 position, u64 size) of the column metadata
    G x (u64 position, u64 size) of the global buffers
    footer, 40 bytes
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import accumulate
from types import TracebackType
from typing import TYPE_CHECKING

import pyarrow as pa
from google.protobuf.any_pb2 import Any as AnyMessage

from lance_spark._proto import encodings_v2_0_pb2, file2_pb2, file_pb2
from lance_spark.errors import InvalidInputError
from lance_spark.file.batches import BatchChecker, leaf_steps, node_steps
from lance_spark.file.blob_writer import BlobColumns, BlobSource, Sidecars
from lance_spark.file.column_writer import ArrayColumnWriter, ColumnWriter
from lance_spark.file.writable import require_writable
from lance_spark.file_version import FileVersion
from lance_spark.layouts.page_bytes import PageBytes, PageDescription
from lance_spark.layouts.registry import PAGE_LAYOUT_URL
from lance_spark.layouts.v2_0.registry import ARRAY_ENCODING_URL
from lance_spark.schema.blob import blob_columns, stored
from lance_spark.schema.columns import is_blob
from lance_spark.schema.field import Field, FieldId, LanceSchema
from lance_spark.schema.wire import schema_to_proto
from lance_spark.storage.base import ObjectStore

if TYPE_CHECKING:
    from typing_extensions import Self

ALIGNMENT = 64
_PADDINGS = [b"H" * length for length in range(ALIGNMENT)]
_SMALL_PAGE_BYTES = 1 << 14

_COLUMN_TYPE_URL = "/lance.encodings.ColumnEncoding"
DEFAULT_PAGE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A complete data file: the contents of its `lance.table.DataFile`.

    Attributes:
        path: as passed to the writer.
        num_rows: rows in the file.
        size_bytes: size of the file.
        field_ids: ids of the fields that own a column, in the order of the columns.
        column_indices: the indices of these columns.
        version: file version.
    """

    path: str
    num_rows: int
    size_bytes: int
    field_ids: tuple[FieldId, ...]
    column_indices: tuple[int, ...]
    version: FileVersion


class _WriterState(Enum):
    OPEN = "open"
    BROKEN = "broken"
    CLOSED = "closed"


@dataclass(slots=True)
class _ColumnToWrite:
    """A column that is being written."""

    top: int
    writer: ColumnWriter | ArrayColumnWriter
    num_rows: int = 0
    pages: list[file2_pb2.ColumnMetadata.Page] = field(default_factory=list)


class FileWriter:
    """Writes one file sequentially.

    Args:
        store: the target store.
        path: path of the new file below the store's root.
        schema: fields with their ids; batches must have its Arrow types.
        version: 2.0, 2.1 or 2.2.
        page_bytes: bytes of Arrow values in a page of a column.
        blob_source: finds the data files of blobs that are copied from other files.

    Raises:
        UnsupportedFeatureError: the schema holds a type that this version of the format, or this release, cannot write.
    """

    def __init__(
        self,
        store: ObjectStore,
        path: str,
        schema: LanceSchema,
        *,
        version: FileVersion = FileVersion.V2_2,
        page_bytes: int = DEFAULT_PAGE_BYTES,
        blob_source: BlobSource | None = None,
    ) -> None:
        require_writable(schema, version)
        self._path = path
        self._sidecars = Sidecars(store, path)
        self._blobs: BlobColumns | None = None
        self._schema = schema
        if blob_columns(schema.fields):
            self._blobs = BlobColumns(schema.fields, self._sidecars, self._write_blob, blob_source)
            schema = replace(schema, fields=tuple(stored(field) for field in schema.fields))
            if version is FileVersion.V2_2:
                self._schema = schema
        self._version = version
        self._page_url = ARRAY_ENCODING_URL if version is FileVersion.V2_0 else PAGE_LAYOUT_URL
        self._checker = BatchChecker(schema, version)
        self._columns = [
            _ColumnToWrite(top, writer)
            for top, field in enumerate(schema.fields)
            for writer in _column_writers(field, version, page_bytes)
        ]
        self._global_buffers: list[tuple[int, int]] = []
        self._num_rows = 0
        self._output = store.open_output(path)
        self._state = _WriterState.OPEN

    @property
    def num_rows(self) -> int:
        """Rows written so far."""
        return self._num_rows

    def tell(self) -> int:
        """Bytes written so far, those in sidecars of blobs too, without buffered rows."""
        return self._output.tell() + self._sidecars.tell()

    def write(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Appends rows. Columns are found by name and must have exactly the schema's types.

        Raises:
            InvalidInputError: a column is missing, unknown, of another type, or null where the schema forbids it.
        """
        self._require_usable()
        if self._blobs is not None:
            self._state = _WriterState.BROKEN
            batch = self._blobs(batch)
            self._state = _WriterState.OPEN
        arrays = self._checker.columns(batch)
        self._state = _WriterState.BROKEN
        for column in self._columns:
            for array in arrays[column.top]:
                for page in column.writer.append(array):
                    self._write_page(column, page)
        self._num_rows += batch.num_rows
        self._state = _WriterState.OPEN

    def add_global_buffer(self, data: pa.Buffer | bytes) -> int:
        """Writes a global buffer; returns its index (0 is the schema)."""
        self._require_usable()
        buffer = pa.py_buffer(data) if isinstance(data, bytes) else data
        self._global_buffers.append((self._write_aligned(buffer), buffer.size))
        return len(self._global_buffers)

    def add_schema_metadata(self, key: str, value: bytes) -> None:
        """Adds an entry to the metadata of the file's schema."""
        self._require_usable()
        self._schema = replace(self._schema, metadata={**self._schema.metadata, key: value})

    def close(self) -> WrittenFile:
        """Writes the buffered rows and publishes the file.

        Raises:
            InvalidInputError: the writer is closed, or an earlier write failed.
        """
        self._require_usable()
        self._state = _WriterState.BROKEN
        # The last page of the last column then follows its other pages: vectors, which often are last, are one array.
        for column in reversed(self._columns):
            for page in column.writer.flush():
                self._write_page(column, page)
        self._write_tail()
        size = self._output.tell()
        # A data file without its sidecars must never be visible.
        self._sidecars.close()
        self._output.close()
        self._state = _WriterState.CLOSED
        return WrittenFile(
            self._path,
            self._num_rows,
            size,
            tuple(column.writer.leaf.id for column in self._columns),
            tuple(range(len(self._columns))),
            self._version,
        )

    def abort(self) -> None:
        """Discards the file; a no-op after `close`."""
        if self._state is not _WriterState.CLOSED:
            self._state = _WriterState.CLOSED
            self._output.abort()
            self._sidecars.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._state is not _WriterState.CLOSED:
                self.close()
        finally:
            self.abort()

    def _require_usable(self) -> None:
        if self._state is not _WriterState.OPEN:
            raise InvalidInputError(
                f"{self._path}: the writer is closed"
                if self._state is _WriterState.CLOSED
                else f"{self._path}: an earlier write failed, so the file would be incomplete; abort it and start again"
            )

    def _write_page(self, column: _ColumnToWrite, page: PageBytes) -> None:
        sizes = [buffer.size for buffer in page.buffers]
        metadata = file2_pb2.ColumnMetadata.Page(
            length=page.num_rows,
            priority=column.num_rows,
            buffer_offsets=self._write_buffers(page.buffers, sizes),
            buffer_sizes=sizes,
            encoding=_page_encoding(self._page_url, page.layout),
        )
        column.pages.append(metadata)
        rows = page.file_rows
        column.num_rows += page.num_rows // column.writer.slots_per_row if rows is None else rows

    def _write_buffers(self, buffers: Sequence[pa.Buffer], sizes: Sequence[int]) -> list[int]:
        """Writes the buffers of a page, which have `sizes`; returns their positions."""
        if sum(sizes) > _SMALL_PAGE_BYTES:
            return [self._write_aligned(buffer) for buffer in buffers]
        # One call for a small page: the buffers of a wide table are thousands.
        end = self._output.tell()
        positions: list[int] = []
        parts: list[bytes | pa.Buffer] = []
        for buffer, size in zip(buffers, sizes, strict=True):
            missing = -end % ALIGNMENT
            parts += (_PADDINGS[missing], buffer)
            positions.append(end + missing)
            end += missing + size
        self._output.write(b"".join(parts))
        return positions

    def _write_aligned(self, buffer: pa.Buffer) -> int:
        position = self._output.tell()
        missing = -position % ALIGNMENT
        if missing:
            self._output.write(_PADDINGS[missing])
        self._output.write(buffer)
        return position + missing

    def _write_blob(self, pieces: Sequence[pa.Buffer]) -> int:
        """Writes a value of a blob column; returns its position."""
        position = self._write_aligned(pieces[0] if pieces else pa.py_buffer(b""))
        for piece in pieces[1:]:
            self._output.write(piece)
        return position

    def _column_metadata(self, column: _ColumnToWrite) -> bytes:
        encoding = _column_encoding(self._version is FileVersion.V2_0 and is_blob(column.writer.leaf))
        return file2_pb2.ColumnMetadata(encoding=encoding, pages=column.pages).SerializeToString()

    def _write_tail(self) -> None:
        message = file_pb2.FileDescriptor(schema=schema_to_proto(self._schema), length=self._num_rows)
        descriptor = pa.py_buffer(message.SerializeToString())
        global_buffers = [(self._write_aligned(descriptor), descriptor.size), *self._global_buffers]
        columns_start = self._output.tell()
        columns = [self._column_metadata(column) for column in self._columns]
        sizes = [len(metadata) for metadata in columns]
        places = list(zip(accumulate(sizes, initial=columns_start), sizes, strict=False))
        self._output.write(b"".join(columns))
        tables_start = self._output.tell()
        self._output.write(b"".join(struct.pack("<QQ", *place) for place in places))
        globals_start = self._output.tell()
        self._output.write(b"".join(struct.pack("<QQ", *place) for place in global_buffers))
        self._output.write(
            struct.pack(
                "<QQQIIHH4s",
                columns_start,
                tables_start,
                globals_start,
                len(global_buffers),
                len(places),
                *self._version.footer_numbers,
                b"LANC",
            )
        )


def _column_writers(field: Field, version: FileVersion, page_bytes: int) -> Iterator[ColumnWriter | ArrayColumnWriter]:
    """The writers of the columns of a top-level field."""
    if version is FileVersion.V2_0:
        yield from (ArrayColumnWriter(path, steps, page_bytes) for path, steps in node_steps(field))
    else:
        yield from (ColumnWriter(path, steps, version, page_bytes) for path, steps in leaf_steps(field))


def _direct(type_url: str, message: bytes) -> file2_pb2.Encoding:
    wrapped = AnyMessage(type_url=type_url, value=message).SerializeToString()
    return file2_pb2.Encoding(direct=file2_pb2.DirectEncoding(encoding=wrapped))


def _page_encoding(type_url: str, layout: PageDescription) -> file2_pb2.Encoding:
    return _direct(type_url, layout.to_proto().SerializeToString())


def _column_encoding(holds_blobs: bool) -> file2_pb2.Encoding:
    values = encodings_v2_0_pb2.ColumnEncoding()
    values.values.SetInParent()
    if holds_blobs:
        values = encodings_v2_0_pb2.ColumnEncoding(blob=encodings_v2_0_pb2.Blob(inner=values))
    return _direct(_COLUMN_TYPE_URL, values.SerializeToString())
