"""A bare reader of 2.0 files for these tests: footer and metadata by hand, requests counted."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from google.protobuf import any_pb2

from lance_spark._proto import encodings_v2_0_pb2 as pb
from lance_spark._proto import file2_pb2, file_pb2
from lance_spark.errors import CorruptFileError
from lance_spark.file_version import FileVersion
from lance_spark.layouts.base import (
    EncodedBuffer,
    EncodedColumn,
    EncodedPage,
    FieldReads,
    FileRange,
    FileRequest,
    Located,
    RowRanges,
)
from lance_spark.layouts.read_spans import spanned
from lance_spark.layouts.v2_0.field_reader import read_field
from lance_spark.schema.arrow import to_arrow_schema
from lance_spark.schema.columns import column_fields
from lance_spark.schema.field import FieldId, LanceSchema
from lance_spark.schema.wire import schema_from_proto

PAGE_URL = "/lance.encodings.ArrayEncoding"
COLUMN_URL = "/lance.encodings.ColumnEncoding"


@dataclass
class OpenFile:
    """A file whose columns can be read; counts what is asked for."""

    data: pa.Buffer
    schema: LanceSchema
    columns: dict[FieldId, EncodedColumn]
    num_rows: int
    rounds: list[list[tuple[int, int]]] = field(default_factory=list)

    @classmethod
    def open(cls, path: Path | str) -> OpenFile:
        data = pa.memory_map(str(path)).read_buffer()
        raw = memoryview(data)
        _, tables, globals_at, num_globals, num_columns, major, minor = struct.unpack("<QQQIIHH", raw[-40:-4])
        assert (major, minor) == (0, 3)
        positions = [struct.unpack_from("<QQ", raw, globals_at + 16 * i) for i in range(num_globals)]
        descriptor = file_pb2.FileDescriptor.FromString(bytes(raw[positions[0][0] : sum(positions[0])]))
        schema = schema_from_proto(descriptor.schema)
        owners = column_fields(schema.fields, FileVersion.V2_0)
        assert len(owners) == num_columns
        columns = {}
        for index, owner in enumerate(owners):
            start, size = struct.unpack_from("<QQ", raw, tables + 16 * index)
            message = file2_pb2.ColumnMetadata.FromString(bytes(raw[start : start + size]))
            columns[owner.id] = _column(index, message, positions, descriptor.length)
        return cls(data, schema, columns, descriptor.length)

    def read(self, ranges: RowRanges | None = None) -> pa.Table:
        """The rows of `ranges`, of all columns."""
        rows = RowRanges.of(0, self.num_rows) if ranges is None else ranges
        arrays = [self.read_field(top.name, rows) for top in self.schema.fields]
        return pa.Table.from_arrays(arrays, schema=to_arrow_schema(self.schema))

    def read_field(self, name: str, rows: RowRanges) -> pa.ChunkedArray:
        """One column; `rounds` then holds its requests."""
        self.rounds = []
        [top] = [top for top in self.schema.fields if top.name == name]
        reads = read_field(top, self.columns, rows)
        values = self._run(reads)
        assert len(values) == rows.num_rows
        values.validate(full=True)
        return values

    def _run(self, reads: FieldReads) -> pa.ChunkedArray:
        answer = None
        while True:
            try:
                requests = reads.send(answer)
            except StopIteration as stop:
                return stop.value
            self.rounds.append([place for request in requests for place in _places(request)])
            answer = [self._answer(request) for request in requests]

    def _answer(self, request: FileRequest) -> pa.Buffer | Located:
        if isinstance(request, FileRange):
            return self._bytes(*request)
        assert request.num_bytes == request.lengths.sum()
        assert request.stop == (request.starts + request.lengths).max()
        return spanned([self._bytes(*place) for place in _places(request)])

    def _bytes(self, start: int, length: int) -> pa.Buffer:
        if not 0 <= start <= start + length <= self.data.size:
            raise CorruptFileError("outside of the file")
        return self.data.slice(start, length)

    @property
    def bytes_requested(self) -> int:
        return sum(length for requests in self.rounds for _, length in requests)


def _places(request: FileRequest) -> list[tuple[int, int]]:
    """The positions and lengths of a request."""
    if isinstance(request, FileRange):
        return [tuple(request)]
    return list(zip(request.starts.tolist(), request.lengths.tolist(), strict=True))


def _column(
    index: int, message: file2_pb2.ColumnMetadata, file_buffers: list[tuple[int, int]], num_rows: int
) -> EncodedColumn:
    pages = []
    for page in message.pages:
        encoding = any_pb2.Any.FromString(page.encoding.direct.encoding)
        buffers = tuple(map(EncodedBuffer, page.buffer_offsets, page.buffer_sizes))
        pages.append(EncodedPage(buffers, page.length, page.priority, encoding.type_url, encoding.value))
    encoding = any_pb2.Any.FromString(message.encoding.direct.encoding)
    return EncodedColumn(
        index,
        tuple(pages),
        num_rows,
        encoding.type_url,
        encoding.value,
        tuple(map(EncodedBuffer, message.buffer_offsets, message.buffer_sizes)),
        tuple(EncodedBuffer(*place) for place in file_buffers),
    )


def encodings_of(column: EncodedColumn) -> list[pb.ArrayEncoding]:
    """The messages of a column's pages."""
    return [pb.ArrayEncoding.FromString(page.message) for page in column.pages]


def ranges_of(rows: list[tuple[int, int]]) -> RowRanges:
    """Ranges from pairs."""
    return RowRanges(np.array([a for a, _ in rows], np.int64), np.array([b for _, b in rows], np.int64))


def single_rows(rows: list[int] | np.ndarray) -> RowRanges:
    """One range for every row."""
    starts = np.asarray(rows, np.int64)
    return RowRanges(starts, starts + 1)
