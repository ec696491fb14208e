"""Lance data files taken apart and put together again: damage that a footer, offsets and lengths do not give away."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from google.protobuf.any_pb2 import Any as AnyMessage

from lance_spark._proto import encodings_v2_0_pb2 as encodings_v2_0
from lance_spark._proto import encodings_v2_1_pb2, file2_pb2, file_pb2

_FOOTER = struct.Struct("<QQQIIHH4s")
_PLACE = struct.Struct("<QQ")

ColumnEdit = Callable[[int, file2_pb2.ColumnMetadata], None]
LayoutEdit = Callable[[int, int, Any], None]


def columns_of(content: bytes) -> list[file2_pb2.ColumnMetadata]:
    """The metadata of every column of a file of version 2.0 or later."""
    _, table, _, _, count, *_ = _FOOTER.unpack(content[-_FOOTER.size :])
    places = [_PLACE.unpack_from(content, table + number * _PLACE.size) for number in range(count)]
    return [file2_pb2.ColumnMetadata.FromString(content[start : start + size]) for start, size in places]


def global_buffers_of(content: bytes) -> list[bytes]:
    """The global buffers of a file; buffer 0 is its `FileDescriptor`."""
    _, _, table, count, *_ = _FOOTER.unpack(content[-_FOOTER.size :])
    places = [_PLACE.unpack_from(content, table + number * _PLACE.size) for number in range(count)]
    return [content[start : start + size] for start, size in places]


def repacked(content: bytes, columns: list[file2_pb2.ColumnMetadata], descriptor: bytes | None = None) -> bytes:
    """The file with other column metadata, and another global buffer 0 if `descriptor` is given.

    Everything else stays at its place; what is new is appended, and the footer points to it.
    """
    *_, old_buffers, num_buffers, _, major, minor, magic = _FOOTER.unpack(content[-_FOOTER.size :])
    made = bytearray(content)
    buffer_places = list(struct.iter_unpack("<QQ", content[old_buffers : old_buffers + num_buffers * _PLACE.size]))
    if descriptor is not None:
        made += bytes(-len(made) % 64)
        buffer_places[0] = (len(made), len(descriptor))
        made += descriptor
    first_column = len(made)
    places = []
    for column in columns:
        data = column.SerializeToString()
        places.append((len(made), len(data)))
        made += data
    column_table = len(made)
    made += b"".join(_PLACE.pack(*place) for place in places)
    buffer_table = len(made)
    made += b"".join(_PLACE.pack(*place) for place in buffer_places)
    made += _FOOTER.pack(first_column, column_table, buffer_table, num_buffers, len(columns), major, minor, magic)
    return bytes(made)


def with_columns(content: bytes, edit: ColumnEdit) -> bytes:
    """The file after `edit(number, metadata)` has changed the metadata of its columns in place."""
    columns = columns_of(content)
    for number, column in enumerate(columns):
        edit(number, column)
    return repacked(content, columns)


def layout_of(page: file2_pb2.ColumnMetadata.Page) -> Any:
    """The `PageLayout` (since 2.1) or `ArrayEncoding` (2.0) of a page."""
    described = AnyMessage.FromString(page.encoding.direct.encoding)
    kind: Any = encodings_v2_1_pb2.PageLayout
    if described.type_url.endswith("lance.encodings.ArrayEncoding"):
        kind = encodings_v2_0.ArrayEncoding
    return kind.FromString(described.value)


def set_layout(page: file2_pb2.ColumnMetadata.Page, layout: Any) -> None:
    """Gives a page another layout."""
    described = AnyMessage.FromString(page.encoding.direct.encoding)
    described.value = layout.SerializeToString()
    page.encoding.direct.encoding = described.SerializeToString()


def with_layouts(content: bytes, edit: LayoutEdit) -> bytes:
    """The file after `edit(column, page, layout)` has changed the layouts of its pages in place."""

    def edit_column(number: int, column: file2_pb2.ColumnMetadata) -> None:
        for index, page in enumerate(column.pages):
            layout = layout_of(page)
            edit(number, index, layout)
            set_layout(page, layout)

    return with_columns(content, edit_column)


def with_buffer(content: bytes, column: int, page: int, buffer: int, data: bytes) -> bytes:
    """The file with other bytes in a buffer of a page; they are appended, aligned to 64 bytes."""
    columns = columns_of(content)
    pages = columns[column].pages[page]
    grown = content[: -_FOOTER.size] + bytes(-(len(content) - _FOOTER.size) % 64)
    pages.buffer_offsets[buffer], pages.buffer_sizes[buffer] = len(grown), len(data)
    return repacked(grown + data + content[-_FOOTER.size :], columns)


def descriptor_of(content: bytes) -> file_pb2.FileDescriptor:
    """The schema and number of rows of a file."""
    return file_pb2.FileDescriptor.FromString(global_buffers_of(content)[0])
