"""Deletion files: which rows of a fragment are deleted (`lance.table.DeletionFile`).

Two formats, each for any size: an Arrow IPC file with one batch of one non-null uint32 column ``row_id``, values in
any order; and a portable 32-bit Roaring bitmap. Values are offsets in the fragment, counting deleted rows.

The declared sizes of a compressed Arrow record batch are read before decompression: Arrow allocates the size in the
eight bytes before each compressed buffer (Arrow columnar format, "Buffer compression"). The positions of the buffers
are in the message's flatbuffer: the tables `Message` and `RecordBatch` of Message.fbs. The position of the message is
in the `Footer` of File.fbs.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyroaring

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.slices import live_rows
from lance_spark.layouts.base import RowRanges
from lance_spark.schema.number_types import elements
from lance_spark.table.rows.row_address import MAX_ROWS_PER_FRAGMENT

_COLUMN = "row_id"
_SCHEMA = pa.schema([pa.field(_COLUMN, pa.uint32(), nullable=False)])

_PADDING_BYTES = 64

_HEADER_TYPE, _HEADER = 1, 2
_RECORD_BATCH = 3
_LENGTH, _BUFFERS, _COMPRESSION = 0, 2, 3
_BUFFER = struct.Struct("<qq")
_BATCHES = 3
_BLOCK = struct.Struct("<qiiq")
_TAIL = struct.Struct("<i6s")


class DeletionFileType(Enum):
    """`DeletionFile.DeletionFileType` of the wire."""

    ARROW_ARRAY = 0
    BITMAP = 1

    @property
    def extension(self) -> str:
        """Extension of the file's name."""
        return "arrow" if self is DeletionFileType.ARROW_ARRAY else "bin"


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """The deleted rows of one fragment.

    Attributes:
        offsets: int64[n], ascending, distinct.
    """

    offsets: Int64Array

    @classmethod
    def empty(cls) -> DeletionVector:
        """No row deleted."""
        return _EMPTY

    @classmethod
    def decode(
        cls,
        file_type: DeletionFileType,
        data: pa.Buffer | bytes,
        *,
        physical_rows: int | None,
        num_deleted_rows: int | None,
    ) -> DeletionVector:
        """Decodes a deletion file. The counts are those of the manifest, None where it has none.

        Raises:
            CorruptFileError: not such a file, it does not match the counts, or it deletes a row twice.
        """
        limit = min(
            MAX_ROWS_PER_FRAGMENT if physical_rows is None else physical_rows,
            MAX_ROWS_PER_FRAGMENT if num_deleted_rows is None else num_deleted_rows,
        )
        values = (
            _decode_arrow(data, limit) if file_type is DeletionFileType.ARROW_ARRAY else _decode_bitmap(data, limit)
        )
        offsets = np.sort(values.astype(np.int64))
        if len(offsets) and physical_rows is not None and int(offsets[-1]) >= physical_rows:
            raise CorruptFileError(f"row {int(offsets[-1])} is deleted in a fragment of {physical_rows} rows")
        if len(offsets) > 1 and not bool((offsets[1:] > offsets[:-1]).all()):
            raise CorruptFileError("a row is deleted twice in one deletion file")
        if num_deleted_rows is not None and len(offsets) != num_deleted_rows:
            raise CorruptFileError(f"{len(offsets)} rows are deleted, the manifest says {num_deleted_rows}")
        return cls(offsets)

    def encode(self, file_type: DeletionFileType) -> bytes:
        """The deletion file of this vector."""
        values = self.offsets.astype(np.uint32)
        if file_type is DeletionFileType.BITMAP:
            bitmap = pyroaring.BitMap(values)
            bitmap.run_optimize()
            return bytes(bitmap.serialize())
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, _SCHEMA, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            writer.write_batch(pa.record_batch([pa.array(values)], schema=_SCHEMA))
        return bytes(sink.getvalue())

    def __len__(self) -> int:
        return len(self.offsets)

    def live_rows(self, start: int, stop: int) -> RowRanges:
        """The rows of [start, stop) that are not deleted, numbered as in the fragment."""
        if len(self.offsets) == 0 and start < stop:
            return RowRanges.of(start, stop)
        first, last = np.searchsorted(self.offsets, [start, stop])
        deleted = self.offsets[first:last]
        starts = np.concatenate([np.array([start], np.int64), deleted + 1])
        stops = np.concatenate([deleted, np.array([stop], np.int64)])
        keep = starts < stops
        return RowRanges(starts[keep], stops[keep])

    def offsets_of_live(self, positions: Int64Array) -> Int64Array:
        """int64[n]: offsets in the fragment of the live rows with the ordinals `positions` (int64[n], in any order).

        >>> DeletionVector(np.array([0, 2])).offsets_of_live(np.array([0, 1, 2])).tolist()
        [1, 3, 4]
        """
        if len(self.offsets) == 0:
            return positions
        positions, offsets = np.ascontiguousarray(positions), np.empty(len(positions), np.int64)
        live_rows(
            address_of(self.offsets), len(self.offsets), address_of(positions), len(positions), address_of(offsets)
        )
        return offsets


_EMPTY = DeletionVector(np.empty(0, np.int64))


def _decode_arrow(data: pa.Buffer | bytes, limit: int) -> npt.NDArray[np.uint32]:
    try:
        reader = pa.ipc.open_file(pa.py_buffer(data))
        if reader.num_record_batches != 1:
            raise CorruptFileError(f"a deletion file has one batch, this one has {reader.num_record_batches}")
        schema = reader.schema
        if schema.names != [_COLUMN] or schema.field(0).type != pa.uint32():
            raise CorruptFileError(
                f"a deletion file has one uint32 column 'row_id', this one has {schema.to_string()!r}"
            )
        batch = _batch(pa.py_buffer(data), schema, limit)
        batch.validate(full=True)
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        raise CorruptFileError(f"not an Arrow deletion file: {error}") from error
    column = batch.column(0)
    if column.null_count:
        raise CorruptFileError("a deletion file has nulls")
    return elements(column, np.dtype(np.uint32))


def _batch(data: pa.Buffer, schema: pa.Schema, limit: int) -> pa.RecordBatch:
    """The first record batch of an Arrow file, which has at most `limit` rows.

    It is read through its message, so that exactly the checked bytes are decompressed.
    """
    message = pa.ipc.read_message(data.slice(batch_position(memoryview(data))))
    body = pa.py_buffer(b"") if message.body is None else message.body
    rows, sizes = claimed_sizes(message.metadata.to_pybytes(), memoryview(body))
    if rows > limit:
        raise CorruptFileError(f"{rows} rows are deleted, at most {limit} can be")
    if any(not 0 <= size <= rows * _SCHEMA.field(0).type.bit_width // 8 + _PADDING_BYTES for size in sizes):
        raise CorruptFileError(f"a deletion file of {rows} rows claims to decompress to {max(sizes)} bytes")
    return pa.ipc.read_record_batch(message, schema)


def _decode_bitmap(data: pa.Buffer | bytes, limit: int) -> npt.NDArray[np.uint32]:
    if len(data) == 0:
        raise CorruptFileError("the deletion file is empty")
    try:
        bitmap = pyroaring.BitMap.deserialize(bytes(data))
    except ValueError as error:
        raise CorruptFileError(f"not a Roaring deletion file: {error}") from error
    # A few bytes of runs can represent 2**32 values: count before expanding them.
    if len(bitmap) > limit:
        raise CorruptFileError(f"{len(bitmap)} rows are deleted, at most {limit} can be")
    return np.array(bitmap.to_array(), np.uint32)


def claimed_sizes(metadata: bytes, body: memoryview) -> tuple[int, list[int]]:
    """(rows of a record batch, declared size in bytes of each of its buffers after decompression).

    Args:
        metadata: the message's flatbuffer.
        body: the bytes that follow it.

    Raises:
        CorruptFileError: not a record batch, or a buffer lies outside of the body.
    """
    try:
        message = _Table(metadata, _int(metadata, "<I", 0))
        kind = message.place(_HEADER_TYPE)
        batch = message.table(_HEADER)
        if kind is None or metadata[kind] != _RECORD_BATCH or batch is None:
            raise CorruptFileError("an Arrow message is not a record batch")
        length = batch.place(_LENGTH)
        rows = 0 if length is None else _int(metadata, "<q", length)
        is_compressed = batch.place(_COMPRESSION) is not None
        sizes = [_size(body, *buffer, is_compressed) for buffer in _buffers(metadata, batch)]
    except (struct.error, IndexError) as error:
        raise CorruptFileError(f"an Arrow message is cut off: {error}") from error
    return rows, sizes


def batch_position(data: memoryview) -> int:
    """The position of the message of the first record batch of an Arrow file.

    Raises:
        CorruptFileError: the footer is truncated, or references no batch inside the file.
    """
    try:
        (size, _) = _TAIL.unpack(data[-_TAIL.size :])
        footer = bytes(data[len(data) - _TAIL.size - size : -_TAIL.size]) if 0 < size <= len(data) else b""
        place = _Table(footer, _int(footer, "<I", 0)).place(_BATCHES)
        if place is None:
            raise CorruptFileError("the footer of an Arrow file names no batch")
        start = place + _int(footer, "<I", place)
        if _int(footer, "<I", start) == 0:
            raise CorruptFileError("the footer of an Arrow file names no batch")
        position = int(_BLOCK.unpack_from(footer, start + 4)[0])
    except struct.error as error:
        raise CorruptFileError(f"the footer of an Arrow file is cut off: {error}") from error
    if not 0 <= position < len(data):
        raise CorruptFileError(f"the batch of an Arrow file begins at byte {position} of {len(data)}")
    return position


class _Table:
    """A flatbuffer table; its first word is the offset of the vtable with the positions of its fields."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._position = position
        self._fields = position - _int(data, "<i", position)

    def place(self, field: int) -> int | None:
        """The position of a field, None if it is absent."""
        if 4 + 2 * field >= _int(self._data, "<H", self._fields):
            return None
        offset = _int(self._data, "<H", self._fields + 4 + 2 * field)
        return self._position + offset if offset else None

    def table(self, field: int) -> _Table | None:
        """The table that a field refers to."""
        place = self.place(field)
        return None if place is None else _Table(self._data, place + _int(self._data, "<I", place))


def _buffers(data: bytes, batch: _Table) -> list[tuple[int, int]]:
    place = batch.place(_BUFFERS)
    if place is None:
        return []
    start = place + _int(data, "<I", place)
    count = _int(data, "<I", start)
    if count * _BUFFER.size > len(data):
        raise CorruptFileError(f"{count} buffers do not fit into an Arrow message of {len(data)} bytes")
    return [_pair(data, start + 4 + number * _BUFFER.size) for number in range(count)]


def _pair(data: bytes, position: int) -> tuple[int, int]:
    offset, size = _BUFFER.unpack_from(data, position)
    return offset, size


def _size(body: memoryview, offset: int, size: int, is_compressed: bool) -> int:
    if offset < 0 or size < 0 or offset + size > len(body):
        raise CorruptFileError(f"bytes {offset}..{offset + size} are outside of an Arrow message of {len(body)}")
    if not is_compressed or size == 0:
        return size
    claimed = _int(bytes(body[offset : offset + min(size, 8)]), "<q", 0)
    # -1: this buffer is not compressed.
    return size - 8 if claimed == -1 else claimed


def _int(data: bytes, kind: str, position: int) -> int:
    if position < 0:
        raise CorruptFileError("an Arrow message refers to bytes before its start")
    (value,) = struct.unpack_from(kind, data, position)
    return int(value)
