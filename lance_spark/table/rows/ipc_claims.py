"""The declared sizes of a compressed Arrow record batch, read before decompression.

Arrow allocates the size in the eight bytes before each compressed buffer (Arrow columnar format, "Buffer
compression"). The positions of the buffers are in the message's flatbuffer: the tables `Message` and `RecordBatch` of
Message.fbs. The position of the message is in the `Footer` of File.fbs.
"""

from __future__ import annotations

import struct

from lance_spark.errors import CorruptFileError

_HEADER_TYPE, _HEADER = 1, 2
_RECORD_BATCH = 3
_LENGTH, _BUFFERS, _COMPRESSION = 0, 2, 3
_BUFFER = struct.Struct("<qq")
_BATCHES = 3
_BLOCK = struct.Struct("<qiiq")
_TAIL = struct.Struct("<i6s")


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
