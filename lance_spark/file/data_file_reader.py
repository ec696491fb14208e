"""The common base of readers of all file versions: location and tail of the file, and rounds of requests.

A read sends its requests in rounds: the coroutines of all fields and pages run concurrently, and their simultaneous
requests are one call of the store.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError, InvalidInputError
from lance_spark.file_version import FileVersion
from lance_spark.layouts.arrow_errors import DECODING_ERRORS, raise_corrupt
from lance_spark.layouts.base import (
    Answer,
    FieldsReader,
    FieldsReads,
    FileRange,
    FileRanges,
    FileRequest,
    Located,
    RowRanges,
)
from lance_spark.layouts.prepared.field import PreparedField
from lance_spark.layouts.read_spans import spanned
from lance_spark.schema.blob import is_blob_v1, stored
from lance_spark.schema.columns import is_blob
from lance_spark.schema.field import Field, FieldId, LanceSchema
from lance_spark.schema.projection import project
from lance_spark.storage.base import ByteRange, ObjectStore, mapped_file
from lance_spark.storage.cache import cached_by_path, has_free_etags

TAIL_BYTES = 64 * 1024
"""About how many bytes at the end of a file are read first."""

_KEPT_READERS = 4
"""How many selections of fields a file keeps prepared."""

_ALIGNMENT = 64
"""Bytes that Arrow aligns buffers to, and writers the buffers of pages."""


@dataclass(slots=True)
class SelectedColumns:
    """Some fields of a file, prepared for reads.

    Attributes:
        fields, column_indices: as for `DataFileReader.read`.
        reader: reads all of them.
        was_read: whether `reader` has read rows.
        prepared: the fields of which few rows can be picked, by their places; None if nobody has looked.
    """

    fields: Sequence[Field]
    column_indices: Mapping[FieldId, int]
    reader: FieldsReader
    was_read: bool = False
    prepared: Mapping[int, PreparedField] | None = None


class DataFileReader(ABC):
    """One open data file. Thread safe; holds no file descriptor.

    Attributes:
        path: of the file in its store.
        version: the file's version.
        num_rows: rows in the file.
        schema: the file's own schema. It has the field ids of the table it was written for.
    """

    num_rows: int
    schema: LanceSchema

    def __init__(self, store: ObjectStore, path: str, version: FileVersion, file_size: int, tail: pa.Buffer) -> None:
        self._store = store
        self._tail = tail
        self.path = path
        self.version = version
        self.size_bytes = file_size
        self._errors = FileErrors(store, path)
        self._kept: tuple[SelectedColumns, ...] = ()

    @property
    def tail(self) -> pa.Buffer:
        """The end of the file, which is kept in memory."""
        return self._tail

    @property
    def cached_bytes(self) -> int:
        """About how much memory the reader takes, with its end of the file and parsed metadata."""
        return 4096 + 4 * int(self._tail.size)

    @property
    def held_bytes(self) -> int:
        """`cached_bytes`, with what reads have added since."""
        return self.cached_bytes

    @property
    @abstractmethod
    def columns(self) -> Mapping[FieldId, int]:
        """The column of each field of the file's own schema that owns one.

        Raises:
            CorruptFileError: the number of columns does not match the schema.
        """

    @abstractmethod
    def estimated_bytes(self, fields: Sequence[Field], column_indices: Mapping[FieldId, int]) -> list[int]:
        """For each of `fields` the encoded bytes of the pages that a read of all its rows would fetch."""

    @abstractmethod
    def _prepare(self, fields: Sequence[Field], column_indices: Mapping[FieldId, int]) -> FieldsReader:
        """Reads `fields`."""

    @property
    def is_in_memory(self) -> bool:
        """Whether the end of the file that is kept is all of it."""
        return bool(self._tail.size == self.size_bytes)

    def prepared(self, fields: Sequence[Field], column_indices: Mapping[FieldId, int]) -> FieldsReader:
        """Reads `fields`: what was made for the same ones before, if it is still kept.

        Raises:
            CorruptFileError: the metadata of the columns contradicts the format.
        """
        return self._selected(fields, column_indices).reader

    def _selected(self, fields: Sequence[Field], column_indices: Mapping[FieldId, int]) -> SelectedColumns:
        for kept in self._kept:
            if kept.column_indices is column_indices and kept.fields == fields:
                return kept
        selected = SelectedColumns(fields, column_indices, self._prepare(fields, column_indices))
        if isinstance(fields, tuple):
            self._kept = (*self._kept[1 - _KEPT_READERS :], selected)
        return selected

    def read_named(self, names: Sequence[str], rows: RowRanges | None = None) -> list[pa.ChunkedArray]:
        """`read` of top-level fields of the file's own schema, which has all of them."""
        by_name = {field.name: field for field in self.schema.fields}
        return self.read(tuple([by_name[name] for name in names]), self.columns, rows)

    def read(
        self, fields: Sequence[Field], column_indices: Mapping[FieldId, int], rows: RowRanges | None = None
    ) -> list[pa.ChunkedArray]:
        """The values of top-level fields at some rows, one array per field, of length ``rows.num_rows``.

        Args:
            fields: trees of the table's fields, pruned to the selected ones. A field without a column is null.
            column_indices: the columns of this file by the id of the field that owns them; -1 means no column.
            rows: the rows, None for all.

        Raises:
            CorruptFileError: the file contradicts the format or the arguments.
            UnsupportedFeatureError: it uses an unsupported feature.
            InvalidInputError: rows that the file does not have.
        """
        ranges = merged_ranges(RowRanges.of(0, self.num_rows) if rows is None else rows)
        if len(ranges.starts) and (int(ranges.starts[0]) < 0 or int(ranges.stops[-1]) > self.num_rows):
            raise InvalidInputError(f"rows up to {int(ranges.stops[-1])} of a file of {self.num_rows} rows")
        with self._errors:
            selected = self._selected(fields, column_indices)
            # To prepare columns takes longer than to read them once.
            picked = self._picked(selected, ranges) if selected.was_read else {}
            selected.was_read = True
            if not picked:
                return self._run(selected.reader(ranges))
            rest = tuple([field for place, field in enumerate(fields) if place not in picked])
            decoded = iter(self._run(self.prepared(rest, column_indices)(ranges)) if rest else ())
            return [picked[place] if place in picked else next(decoded) for place in range(len(fields))]

    def _picked(self, selected: SelectedColumns, rows: RowRanges) -> Mapping[int, pa.ChunkedArray]:
        """The fields, by their places, whose `rows` are picked from a file in memory, which takes less time."""
        return {}

    def in_memory(self) -> pa.Buffer | None:
        """All of the file; None if it is not in memory."""
        if self.is_in_memory:
            return self._tail
        return mapped_file(self._store, self.path, self.size_bytes, 0, 0)

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

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """The bytes of some ranges of the file, which must be within it."""
        return self._read_ranges(ranges)

    def _read_ranges(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Reads from the cached end of the file, or from the store."""
        tail, tail_start = self._tail, self.size_bytes - self._tail.size
        buffers = [tail.slice(start - tail_start, length) for start, length in ranges if start >= tail_start]
        if len(buffers) == len(ranges):
            return buffers
        outside = [piece for piece in ranges if piece.start < tail_start and piece.length]
        fetched = iter(self._store.read_ranges(self.path, outside) if outside else ())
        return [
            next(fetched)
            if piece.start < tail_start and piece.length
            else self._tail.slice(max(piece.start - tail_start, 0), piece.length)
            for piece in ranges
        ]

    def _answers(self, requests: Sequence[FileRequest]) -> list[Answer]:
        """The bytes of one round of requests, which are within the file."""
        memory = self._in_memory(requests)
        if memory is not None:
            return [
                Located(memory, request.starts) if isinstance(request, FileRanges) else memory.slice(*request)
                for request in requests
            ]
        ranges: list[ByteRange] = []
        for request in requests:
            if isinstance(request, FileRanges):
                ranges += map(ByteRange, request.starts.tolist(), request.lengths.tolist())
            else:
                ranges.append(ByteRange(*request))
        pieces = iter(self._read_ranges(ranges))
        return [
            spanned(list(islice(pieces, len(request.starts)))) if isinstance(request, FileRanges) else next(pieces)
            for request in requests
        ]

    def _in_memory(self, requests: Sequence[FileRequest]) -> pa.Buffer | None:
        """All of the file, if these ranges of it need not be read."""
        if self.is_in_memory:
            return self._tail
        return mapped_file(self._store, self.path, self.size_bytes, *_num_ranges(requests))

    def _run(self, reads: FieldsReads) -> list[pa.ChunkedArray]:
        """Runs the coroutine of fields to completion."""
        try:
            requests = next(reads)
            while True:
                for request in requests:
                    _require_inside(request, self.size_bytes)
                requests = reads.send(self._answers(requests))
        except StopIteration as stop:
            arrays: list[pa.ChunkedArray] = stop.value
            return arrays


def _require_inside(request: FileRequest, size: int) -> None:
    start, length = request if isinstance(request, FileRange) else (0, request.stop)
    if start < 0 or length < 0 or start + length > size:
        raise CorruptFileError(f"a value leaves the file of {size} bytes", start=start, length=length)


def _num_ranges(requests: Sequence[FileRequest]) -> tuple[int, int]:
    """(number of ranges, their bytes)."""
    count = num_bytes = 0
    for request in requests:
        if isinstance(request, FileRange):
            count, num_bytes = count + 1, num_bytes + request.length
        else:
            count, num_bytes = count + len(request.starts), num_bytes + request.num_bytes
    return count, num_bytes


def read_tail(store: ObjectStore, path: str, size: int | None, whole: pa.Buffer | None = None) -> tuple[pa.Buffer, int]:
    """(the end of a file, its size in bytes).

    Args:
        size: its size if known.
        whole: the mapped file, if it is.

    Raises:
        NotFoundError: no such object.
    """
    if size is None:
        size = store.size(path) if whole is None else whole.size
    file_size = size
    # Buffers of pages in the tail keep the alignment that they have in the file.
    length = file_size - max(0, file_size - TAIL_BYTES) // _ALIGNMENT * _ALIGNMENT

    def read() -> tuple[pa.Buffer, int]:
        return store.read_range(path, ByteRange(file_size - length, length)), length

    if whole is not None and whole.size == file_size:
        return whole.slice(file_size - length), file_size
    if not has_free_etags(store):
        return cached_by_path(store, "end of file", path, file_size, read), file_size
    # Local files are in the page cache already; caching them again gains nothing.
    whole = mapped_file(store, path, file_size, 1, length)
    return (read()[0] if whole is None else whole.slice(file_size - length)), file_size


class FileErrors:
    """A context that adds a file's path to errors, and makes a `CorruptFileError` of those that pyarrow raises."""

    # A generator as context takes three times as long, which is much of a small read.
    def __init__(self, store: ObjectStore, path: str) -> None:
        self._store = store
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, CorruptFileError):
            error.at(path=self._path, root=self._store.uri)
        elif isinstance(error, DECODING_ERRORS):
            raise_corrupt(error, path=self._path, root=self._store.uri)


def merged_ranges(rows: RowRanges) -> RowRanges:
    """The same rows, without empty ranges and with adjacent ranges merged.

    Raises:
        InvalidInputError: the ranges are not ascending, or overlap.
    """
    if rows.are_apart:
        return rows
    keep = rows.stops > rows.starts
    starts, stops = rows.starts[keep], rows.stops[keep]
    if len(starts) < 2:
        return RowRanges(starts, stops)
    if bool((starts[1:] < stops[:-1]).any()):
        raise InvalidInputError("ranges of rows must be ascending and must not overlap")
    opens = np.ones(len(starts), np.bool_)
    opens[1:] = starts[1:] > stops[:-1]
    closes = np.append(opens[1:], True)
    return RowRanges(starts[opens], stops[closes])


def described_blobs(field: Field, held_fields: Mapping[FieldId, Field]) -> Field:
    """`field` with blob fields as they are stored in the file.

    Since 2.2 data files contain blob descriptors (a struct of kind, position, size, id, URI), while the table's
    schema has the type of the blob itself. Of files of older versions the values are read, or their positions and sizes
    if `field` is a description.

    Args:
        held_fields: the fields of the file's schema by their ids.
    """
    if is_blob(field):
        held = held_fields.get(field.id)
        if held is not None and is_blob_v1(held) and field.children:
            return stored(replace(held, name=field.name, nullable=field.nullable))
        if held is None or not held.children:
            return field
        return Field(field.name, field.id, "struct", field.nullable, held.children, held.metadata)
    children = tuple(described_blobs(child, held_fields) for child in field.children)
    return field if children == field.children else field.with_children(children)
