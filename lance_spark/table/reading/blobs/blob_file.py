"""Values of blob columns as files and as bytes."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_spark.file.blob_writer import MAX_BLOB_BYTES, sidecar_path
from lance_spark.schema.blob import SOURCE, BlobKind
from lance_spark.storage.base import ByteRange, ObjectStore, read_copies
from lance_spark.storage.paths import split_object
from lance_spark.table.bases import Bases
from lance_spark.table.paths import checked_relative
from lance_spark.table.reading.blobs.blob_columns import BasesOf, bases_only, file_of
from lance_spark.table.reading.blobs.signed_sources import without_signature
from lance_spark.table.rows.fragment import BaseId

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

DEFAULT_BUFFER_BYTES = 512 << 10
T = TypeVar("T")
_Read: TypeAlias = Callable[[ObjectStore, str, Sequence[ByteRange]], "list[T]"]
"""Reads ranges of an object."""

_READ_BYTES = 64 << 20
"""Bytes of values that one call of a store is asked for."""

_MAX_FILES = 1024
"""Data files that a reader keeps."""


@dataclass(frozen=True, slots=True)
class BlobLocation:
    """Location of the bytes of one value."""

    store: ObjectStore
    path: str
    start: int
    size: int

    def range(self, offset: int, length: int) -> ByteRange:
        """The bytes [offset, offset + length) of the value; the part that it has.

        Raises:
            InvalidInputError: a negative number, or an offset behind the end.
        """
        if offset < 0 or length < 0 or offset > self.size:
            raise InvalidInputError(f"no bytes [{offset}, {offset + length}) in a blob of {self.size} bytes")
        return ByteRange(self.start + offset, min(length, self.size - offset))

    def part(self, wanted: ByteRange) -> BlobLocation:
        """Location of a part of the value, clipped at the end of the value."""
        offset = min(wanted.start, self.size)
        return replace(self, start=self.start + offset, size=min(wanted.length, self.size - offset))


class _RawBlob(io.RawIOBase):
    """The bytes of one value, one request per read."""

    def __init__(self, location: BlobLocation) -> None:
        self._location = location
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._location.size}[whence]
        if start + offset < 0:
            raise ValueError(f"cannot seek to {start + offset}")
        self._position = start + offset
        return self._position

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        length = min(len(view), max(0, self._location.size - self._position))
        if length:
            data = self._location.store.read_range(self._location.path, self._location.range(self._position, length))
            view[:length] = memoryview(data).cast("B")
            self._position += length
        return length


class BlobFile(io.BufferedReader):
    """One value of a blob column as a binary file that can be read and sought, as any library expects it.

    Attributes:
        size: of the value in bytes.
    """

    def __init__(self, location: BlobLocation, buffer_size: int = DEFAULT_BUFFER_BYTES) -> None:
        super().__init__(_RawBlob(location), buffer_size)
        self._location = location

    def __repr__(self) -> str:
        return f"BlobFile(size={self.size})"

    @property
    def size(self) -> int:
        return self._location.size

    def readall(self) -> bytes:
        """The bytes from the current position to the end."""
        return self.read()

    def read_range(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes from byte `offset` of the value; the position does not change."""
        return self.read_ranges([(offset, length)])[0]

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """`read_range` of several (offset, length), in as few requests as they need."""
        wanted = [self._location.range(offset, length) for offset, length in ranges]
        filled = [item for item in wanted if item.length]
        found = iter(self._location.store.read_ranges(self._location.path, filled) if filled else ())
        return [next(found).to_pybytes() if item.length else b"" for item in wanted]


class BlobReader:
    """Finds and reads the values that descriptions with a source stand for.

    Args:
        bases: of the version that the descriptions are of; a function of the key where it has several splits.
        allow_external: whether references that lead out of the table may be followed.
    """

    def __init__(self, bases: Bases | BasesOf, *, allow_external: bool = False) -> None:
        self._bases_of = bases_only(bases) if isinstance(bases, Bases) else bases
        self._allow_external = allow_external
        self._stores: dict[str, ObjectStore] = {}
        self._files: dict[str, tuple[Bases, ObjectStore, str]] = {}

    def locations(self, array: pa.StructArray) -> list[BlobLocation | None]:
        """Locations of the values; None for a null.

        Raises:
            CorruptFileError: a description is invalid.
            InvalidInputError: a reference leads out of the table, and that is not allowed.
            NotFoundError: the object that a reference names is missing.
            UnsupportedFeatureError: a kind of blob that this release does not know.
        """
        columns = [array.field(name).to_pylist() for name in ("kind", "position", "size", "blob_id", "blob_uri")]
        rows = zip(array.is_valid().to_pylist(), *columns, array.field(SOURCE.name).to_pylist(), strict=True)
        return [self.location(*row) if valid else None for valid, *row in rows]

    def location(self, kind: int, position: int, size: int, blob_id: int, uri: str, source: str) -> BlobLocation:
        """Location of the value of a description. Raises as `locations`."""
        if size > MAX_BLOB_BYTES or position > MAX_BLOB_BYTES:
            raise CorruptFileError(f"a blob of {size} bytes at {position} lies behind the end of any file")
        if kind == BlobKind.EXTERNAL:
            return self._external(position, size, blob_id, uri, self._file_of(source)[0])
        if kind not in (BlobKind.INLINE, BlobKind.PACKED, BlobKind.DEDICATED):
            raise UnsupportedFeatureError(f"blobs of kind {kind} are not read", feature=f"blob kind {kind}")
        _, store, path = self._file_of(source)
        return BlobLocation(store, path if kind == BlobKind.INLINE else sidecar_path(path, blob_id), position, size)

    def _file_of(self, source: str) -> tuple[Bases, ObjectStore, str]:
        """Same as `file_of`, cached for the last sources."""
        known = self._files.get(source)
        if known is None:
            if len(self._files) >= _MAX_FILES:
                self._files.clear()
            known = self._files[source] = file_of(without_signature(source), self._bases_of)
        return known

    def _external(self, position: int, size: int, blob_id: int, uri: str, bases: Bases) -> BlobLocation:
        if blob_id:
            store, path = bases.folder(BaseId(blob_id)), checked_relative(uri, "blob")
        elif self._allow_external:
            folder, path = split_object(uri)
            if folder not in self._stores:
                self._stores[folder] = bases.other(folder)
            store = self._stores[folder]
        else:
            raise InvalidInputError(
                f"a blob is a reference to {uri}, outside of the table; it is read with allow_external_blobs=True"
            )
        return BlobLocation(store, path, position, size or store.size(path) - position)

    def to_binary(
        self, array: pa.StructArray, part: ByteRange | Sequence[ByteRange | None] | None = None
    ) -> pa.LargeBinaryArray:
        """The values as binary values, or a part of each, as far as it has it; nothing else is read then.

        Args:
            part: the same part of all, or one for each; None among these gives null.
        """
        locations = self.locations(array)
        if part is not None:
            parts = [part] * len(locations) if isinstance(part, ByteRange) else part
            locations = [
                None if location is None or wanted is None else location.part(wanted)
                for location, wanted in zip(locations, parts, strict=True)
            ]
        values = list(_buffers(locations))
        offsets = np.zeros(len(values) + 1, np.int64)
        np.cumsum([0 if value is None else value.size for value in values], out=offsets[1:])
        filled = [value for value in values if value is not None and value.size]
        data = filled[0] if len(filled) == 1 else pa.py_buffer(b"".join(filled))
        validity = pa.array([value is not None for value in values], pa.bool_()).buffers()[1]
        buffers = [validity, pa.py_buffer(offsets), data]
        return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)


_NO_BYTES = pa.py_buffer(b"")


def read_values(locations: Sequence[BlobLocation | None]) -> Iterator[bytes | None]:
    """The bytes at `locations`, in order; those of one request, or one value, are in memory at a time."""
    return _values(locations, read_copies, b"")


def _buffers(locations: Sequence[BlobLocation | None]) -> Iterator[pa.Buffer | None]:
    return _values(locations, lambda store, path, ranges: store.read_ranges(path, ranges), _NO_BYTES)


def _values(locations: Sequence[BlobLocation | None], read: _Read[T], empty: T) -> Iterator[T | None]:
    for group in _groups(locations):
        found = _read_together(group, read)
        for number, location in enumerate(group):
            yield None if location is None else found.pop(number, empty)


def _groups(locations: Iterable[BlobLocation | None]) -> Iterator[list[BlobLocation | None]]:
    group: list[BlobLocation | None] = []
    num_bytes = 0
    for location in locations:
        size = 0 if location is None else location.size
        if group and num_bytes + size > _READ_BYTES:
            yield group
            group, num_bytes = [], 0
        group.append(location)
        num_bytes += size
    yield group


def _read_together(group: Sequence[BlobLocation | None], read: _Read[T]) -> dict[int, T]:
    """The non-empty values by their numbers; those of one object in as few requests as they need."""
    by_object: dict[tuple[int, str], list[tuple[int, BlobLocation]]] = {}
    for number, location in enumerate(group):
        if location is not None and location.size:
            by_object.setdefault((id(location.store), location.path), []).append((number, location))
    found: dict[int, T] = {}
    for members in by_object.values():
        first = members[0][1]
        values = read(first.store, first.path, [ByteRange(location.start, location.size) for _, location in members])
        found.update((number, data) for (number, _), data in zip(members, values, strict=True))
    return found


def batches_by_bytes(sizes: np.ndarray[tuple[int], np.dtype[np.float64]], max_bytes: int) -> list[tuple[int, int]]:
    """Consecutive rows [start, stop) of `max_bytes` at most, or one row; all rows are in one of them.

    >>> batches_by_bytes(np.array([5.0, 5.0, 20.0, 1.0, 1.0]), 10)
    [(0, 2), (2, 3), (3, 5)]
    """
    ends = np.cumsum(sizes)
    found = []
    start = 0
    while start < len(sizes):
        before = ends[start - 1] if start else 0.0
        stop = max(start + 1, int(np.searchsorted(ends, before + max_bytes, side="right")))
        found.append((start, stop))
        start = stop
    return found
