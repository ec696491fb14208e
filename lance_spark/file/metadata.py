"""Column metadata: the pages of a column and the positions of their buffers (`lance.file.v2.ColumnMetadata`).

An encoding is either in the message (`direct`) or elsewhere in the file (`indirect`). Either way it is a
`google.protobuf.Any`, whose type URL names the message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import pyarrow as pa
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError, Message

from lance_spark._proto import file2_pb2, file_pb2
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.file_version import FileVersion
from lance_spark.layouts.base import EncodedBuffer, EncodedColumn, EncodedPage
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.wire import schema_from_proto

MAX_ROWS = 1 << 40
"""Maximum plausible rows of a file; a larger number means corruption."""

MIN_ALIGNMENT = 8
"""Alignment of page buffers since version 2.1. All known writers align to 64 bytes."""

_CACHED_BYTES = 1 << 16
"""Descriptors up to this size are parsed once for all files with the same bytes."""

_MAX_COLUMNS = 4096
_columns: dict[tuple[bytes, int, int], tuple[EncodedColumn, int]] = {}
"""Parsed columns since version 2.1, with the end of their last buffer; files that were written together often have
equal ones."""

MessageT = TypeVar("MessageT", bound=Message)


def parse_message(kind: type[MessageT], data: pa.Buffer | bytes, what: str) -> MessageT:
    """A message of type `kind`.

    Raises:
        CorruptFileError: the bytes cannot be parsed.
    """
    message = kind()
    try:
        message.ParseFromString(data if isinstance(data, bytes) else data.to_pybytes())
    except DecodeError as error:
        raise CorruptFileError(f"{what} does not parse: {error}") from error
    return message


def parse_file_descriptor(data: pa.Buffer) -> tuple[LanceSchema, int]:
    """(schema, number of rows) of a file, from its global buffer 0 (`lance.file.FileDescriptor`).

    Raises:
        CorruptFileError: it cannot be parsed, or the schema is inconsistent.
    """
    return _file_descriptor(data.to_pybytes()) if data.size <= _CACHED_BYTES else _parsed(data.to_pybytes())


def _parsed(data: bytes) -> tuple[LanceSchema, int]:
    descriptor = parse_message(file_pb2.FileDescriptor, data, "the file's schema")
    if descriptor.length > MAX_ROWS:
        raise CorruptFileError(f"the file claims {descriptor.length} rows")
    return schema_from_proto(descriptor.schema), descriptor.length


_file_descriptor = lru_cache(maxsize=64)(_parsed)
"""Files that were written together mostly have the same bytes here, and schemas never change."""


def parse_column(
    data: pa.Buffer,
    index: int,
    num_rows: int,
    file_size: int,
    file_buffers: tuple[EncodedBuffer, ...],
    read: Callable[[EncodedBuffer], pa.Buffer],
    version: FileVersion,
) -> EncodedColumn:
    """A column of a file of `num_rows` rows and `file_size` bytes.

    Args:
        data: the `ColumnMetadata` message.
        index: index of the column.
        file_buffers: the file's global buffers.
        read: fetches an indirect encoding.
        version: the file's version; from 2.1 on the buffers of pages are aligned.

    Raises:
        CorruptFileError: the message cannot be parsed, or a buffer is outside of the file or not aligned.
        UnsupportedFeatureError: an experimental file without encodings.
    """
    if data.size > _CACHED_BYTES or version is FileVersion.V2_0:
        return _parsed_column(data.to_pybytes(), index, num_rows, file_size, file_buffers, read, version)[0]
    key = (data.to_pybytes(), index, num_rows)
    cached = _columns.get(key)
    if cached is not None and cached[1] <= file_size:
        return cached[0]
    column, end, is_complete = _parsed_column(key[0], index, num_rows, file_size, file_buffers, read, version)
    if is_complete:
        if len(_columns) >= _MAX_COLUMNS:
            _columns.clear()
        _columns[key] = (column, end)
    return column


def _parsed_column(
    data: bytes,
    index: int,
    num_rows: int,
    file_size: int,
    file_buffers: tuple[EncodedBuffer, ...],
    read: Callable[[EncodedBuffer], pa.Buffer],
    version: FileVersion,
) -> tuple[EncodedColumn, int, bool]:
    """(the column, the end of its last buffer in the file, whether `data` is all that it was parsed from)."""
    indirect: list[EncodedBuffer] = []

    def counted(buffer: EncodedBuffer) -> pa.Buffer:
        indirect.append(buffer)
        return read(buffer)

    try:
        message = parse_message(file2_pb2.ColumnMetadata, data, "column metadata")
        type_url, value = _encoding(message.encoding, file_size, counted)
        alignment = 1 if version is FileVersion.V2_0 else MIN_ALIGNMENT
        pages = tuple([_page(page, number, file_size, counted, alignment) for number, page in enumerate(message.pages)])
        buffers = _buffers(message.buffer_offsets, message.buffer_sizes, file_size)
    except CorruptFileError as error:
        error.at(column=index)
        raise
    places = [buffer for page in pages for buffer in page.buffers]
    end = max((position + size for position, size in (*places, *buffers)), default=0)
    return EncodedColumn(index, pages, num_rows, type_url, value, buffers, file_buffers), end, not indirect


def _page(
    page: file2_pb2.ColumnMetadata.Page,
    number: int,
    file_size: int,
    read: Callable[[EncodedBuffer], pa.Buffer],
    alignment: int,
) -> EncodedPage:
    try:
        if page.length > MAX_ROWS:
            raise CorruptFileError(f"a page claims {page.length} rows")
        buffers = _buffers(page.buffer_offsets, page.buffer_sizes, file_size)
        for position, size in buffers:
            if size and position % alignment:
                raise CorruptFileError(
                    f"a buffer of a page is not aligned to {alignment} bytes", start=position, length=size
                )
        type_url, value = _encoding(page.encoding, file_size, read)
    except CorruptFileError as error:
        error.at(page=number)
        raise
    return EncodedPage(buffers, page.length, page.priority, type_url, value)


def _buffers(positions: Sequence[int], sizes: Sequence[int], file_size: int) -> tuple[EncodedBuffer, ...]:
    if len(positions) != len(sizes):
        raise CorruptFileError(f"{len(positions)} buffer positions with {len(sizes)} sizes")
    buffers = tuple(map(EncodedBuffer, positions, sizes))
    for position, size in buffers:
        if position + size > file_size:
            raise CorruptFileError(
                f"a buffer leaves the file of {file_size} bytes", start=position, length=size
            )  # fmt: skip
    return buffers


def _encoding(message: Any, file_size: int, read: Callable[[EncodedBuffer], pa.Buffer]) -> tuple[str, bytes]:
    """(type URL, message) of a page's or column's encoding."""
    location = message.WhichOneof("location")
    if location == "direct":
        data = message.direct.encoding
    elif location == "indirect":
        place = (message.indirect.buffer_location, message.indirect.buffer_length)
        data = read(_buffers([place[0]], [place[1]], file_size)[0])
    else:
        raise UnsupportedFeatureError(
            "a column without an encoding: the file comes from an experimental release", feature="column encoding"
        )
    return _described(data if isinstance(data, bytes) else data.to_pybytes())


def _described(data: bytes) -> tuple[str, bytes]:
    described = parse_message(AnyMessage, data, "an encoding")
    return described.type_url, described.value
