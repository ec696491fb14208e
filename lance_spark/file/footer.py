"""The footer of a file, and the two offset tables before it (Lance file format specification, container).

::

    A  column metadata, one message per column
    B  column metadata offsets: u64 position, u64 size for each column
    C  global buffer offsets:   u64 position, u64 size for each global buffer
       footer: u64 A, u64 B, u64 C, u32 global buffers, u32 columns, u16 major, u16 minor, "LANC"
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.file_version import FileVersion
from lance_spark.layouts.base import EncodedBuffer
from lance_spark.storage.base import ByteRange

MAGIC = b"LANC"
FOOTER_BYTES = 40
_FOOTER = struct.Struct("<QQQIIHH4s")
_END = struct.Struct("<HH4s")
_ENTRY = struct.Struct("<QQ")

_ENTRY_BYTES = 16


class Footer(NamedTuple):
    """The footer of a file of `file_size` bytes; positions are validated to be within the file."""

    column_metadata_position: int
    column_offsets_position: int
    buffer_offsets_position: int
    num_global_buffers: int
    num_columns: int
    version: FileVersion
    file_size: int

    @classmethod
    def parse(cls, tail: pa.Buffer, file_size: int) -> Footer:
        """Parses the footer; `tail` is the end of the file.

        Raises:
            CorruptFileError: these are not the last bytes of a Lance file.
        """
        start = tail.size - FOOTER_BYTES
        if start >= 0:
            first, offsets, buffers, num_buffers, num_columns, *numbers, magic = _FOOTER.unpack_from(tail, start)
        else:
            first = offsets = buffers = num_buffers = num_columns = 0
            *numbers, magic = _END.unpack_from(tail, tail.size - _END.size) if tail.size >= _END.size else (b"",)
        if magic != MAGIC:
            raise CorruptFileError(
                f"this is no Lance file, or one that was not finished: it does not end with {MAGIC.decode()}"
            )
        version = FileVersion.from_numbers(*numbers)
        if version is FileVersion.V0_1:
            return cls(0, 0, 0, 0, 0, version, file_size)
        if start < 0:
            raise CorruptFileError(f"a Lance file of {file_size} bytes is shorter than its footer")
        footer = cls(first, offsets, buffers, num_buffers, num_columns, version, file_size)
        end = file_size - FOOTER_BYTES
        if offsets + num_columns * _ENTRY_BYTES > end or buffers + num_buffers * _ENTRY_BYTES > end:
            table = footer.column_offsets if footer.column_offsets.stop > end else footer.buffer_offsets
            raise CorruptFileError(
                f"the footer puts a table at bytes {table.start}..{table.stop} of a file of {file_size} bytes"
            )
        if num_buffers == 0:
            raise CorruptFileError("the file has no global buffer, and so no schema")
        return footer

    @property
    def column_offsets(self) -> ByteRange:
        """The byte range of the column metadata offset table."""
        return ByteRange(self.column_offsets_position, self.num_columns * _ENTRY_BYTES)

    @property
    def buffer_offsets(self) -> ByteRange:
        """The byte range of the global buffer offset table."""
        return ByteRange(self.buffer_offsets_position, self.num_global_buffers * _ENTRY_BYTES)


class OffsetTable:
    """The ranges of one of the two tables, each parsed when it is asked for.

    Args:
        data: the bytes of the table from `start` on, which may have others before and behind it.
        num_entries: the pairs.
        what: what the table is of, for errors.
    """

    __slots__ = ("_data", "_file_size", "_num_entries", "_start", "_what")

    def __init__(self, data: pa.Buffer, start: int, num_entries: int, file_size: int, what: str) -> None:
        self._data = data
        self._start = start
        self._num_entries = num_entries
        self._file_size = file_size
        self._what = what

    def __len__(self) -> int:
        return self._num_entries

    def __getitem__(self, number: int) -> ByteRange:
        """The range of an entry that must exist.

        Raises:
            CorruptFileError: the range is outside of the file.
        """
        position, size = _ENTRY.unpack_from(self._data, self._start + number * _ENTRY_BYTES)
        if position > self._file_size or size > self._file_size - position:
            raise CorruptFileError(
                f"{self._what} at {position} with {size} bytes leaves the file of {self._file_size} bytes"
            )
        return ByteRange(position, size)

    def all(self) -> tuple[EncodedBuffer, ...]:
        """Every entry; raises as a single one."""
        return tuple([EncodedBuffer(*self[number]) for number in range(len(self))])
