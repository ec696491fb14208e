"""Pages built by hand: a message, its buffers, and what `read_field` makes of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_spark._proto import encodings_v2_0_pb2 as pb
from lance_spark.layouts.base import EncodedBuffer, EncodedColumn, EncodedPage, RowRanges
from lance_spark.schema.field import Field, FieldId, LanceSchema
from tests.layouts.v2_0.files import COLUMN_URL, PAGE_URL, OpenFile


def flat(bits: int, buffer: int = 0, scheme: str = "", kind: int = 0) -> pb.ArrayEncoding:
    message = pb.Flat(bits_per_value=bits, buffer=pb.Buffer(buffer_index=buffer, buffer_type=kind))
    if scheme:
        message.compression.scheme = scheme
    return pb.ArrayEncoding(flat=message)


def no_nulls(values: pb.ArrayEncoding) -> pb.ArrayEncoding:
    return pb.ArrayEncoding(nullable=pb.Nullable(no_nulls=pb.Nullable.NoNull(values=values)))


def some_nulls(validity: pb.ArrayEncoding, values: pb.ArrayEncoding) -> pb.ArrayEncoding:
    return pb.ArrayEncoding(nullable=pb.Nullable(some_nulls=pb.Nullable.SomeNull(validity=validity, values=values)))


def all_nulls() -> pb.ArrayEncoding:
    return pb.ArrayEncoding(nullable=pb.Nullable(all_nulls=pb.Nullable.AllNull()))


def binary(adjustment: int, first: int = 0, scheme: str = "") -> pb.ArrayEncoding:
    message = pb.Binary(indices=no_nulls(flat(64, first)), bytes=flat(8, first + 1, scheme), null_adjustment=adjustment)
    return pb.ArrayEncoding(binary=message)


class Builder:
    """A file in memory with columns of hand-made pages; field k of the schema owns column k, depth-first."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.columns: list[list[EncodedPage]] = []

    def place(self, buffer: bytes) -> EncodedBuffer:
        self.data += b"H" * (-len(self.data) % 64)
        placed = EncodedBuffer(len(self.data), len(buffer))
        self.data += buffer
        return placed

    def page(self, message: pb.ArrayEncoding, buffers: Sequence[bytes], num_rows: int) -> EncodedPage:
        placed = tuple(self.place(buffer) for buffer in buffers)
        return EncodedPage(placed, num_rows, 0, PAGE_URL, message.SerializeToString())

    def column(self, *pages: tuple[pb.ArrayEncoding, Sequence[bytes], int]) -> Builder:
        self.columns.append([self.page(*page) for page in pages])
        return self

    def file(
        self, field: Field, *, column_buffers: Sequence[bytes] = (), file_buffers: Sequence[bytes] = ()
    ) -> OpenFile:
        extra = [tuple(self.place(buffer) for buffer in buffers) for buffers in (column_buffers, file_buffers)]
        num_rows = sum(page.num_rows for page in self.columns[0])
        columns = {
            FieldId(index): EncodedColumn(index, tuple(pages), num_rows, COLUMN_URL, b"", *extra)
            for index, pages in enumerate(self.columns)
        }
        return OpenFile(pa.py_buffer(bytes(self.data)), LanceSchema((field,)), columns, num_rows)


def leaf(logical_type: str, name: str = "x", field_id: int = 0) -> Field:
    return Field(name, FieldId(field_id), logical_type)


def read(
    message: pb.ArrayEncoding,
    buffers: Sequence[bytes],
    num_rows: int,
    logical_type: str,
    ranges: RowRanges | None = None,
) -> pa.Array:
    """The values of one page of a leaf."""
    file = Builder().column((message, buffers, num_rows)).file(leaf(logical_type))
    values = file.read_field("x", RowRanges.of(0, num_rows) if ranges is None else ranges)
    return values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)


def u64(*values: int) -> bytes:
    return np.array(values, np.uint64).tobytes()
