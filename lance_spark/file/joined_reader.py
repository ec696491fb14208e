"""Several data files of one version and schema, read as one.

The files lie one behind the other in an address space of their own. Their pages are decoded together, which costs
little more than decoding one.

* All rows of many small files: each column has the pages of all files.
* Few rows of large files (`is_selective`), of version 2.1 on: what each file has prepared for its fields is used, and
  only pages with wanted rows are looked at.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.file.data_file_reader import DataFileReader
from lance_spark.file.reader import FileReader
from lance_spark.file_version import FileVersion
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.slices import find_in_memory
from lance_spark.layouts.base import (
    Answer,
    EncodedColumn,
    FieldsReader,
    FieldsReads,
    FileRanges,
    FileRequest,
    Located,
    RowRanges,
)
from lance_spark.layouts.field_readers import field_reader
from lance_spark.layouts.leaf.columns import LeafFields
from lance_spark.layouts.v2_0.list_ import holds_lists
from lance_spark.layouts.v2_0.registry import holds_blobs
from lance_spark.schema.columns import column_fields, has_bytes
from lance_spark.schema.field import Field, FieldId
from lance_spark.storage.base import ByteRange
from lance_spark.storage.overlap import overlapped

_ALIGNMENT = 64

_SMALL_FILE_BYTES = 1 << 20
"""The pages of files up to about this size are few: joining them costs less than preparing each file."""

_EMPTY = pa.py_buffer(b"")


class JoinedReader(DataFileReader):
    """Open data files as one; rows are numbered from the first row of the first file.

    Errors name the first file. Blob columns of files before 2.2 cannot be read: their pages point into a file.

    Args:
        files: at least one.
        at_once: how many of them are read at once.
        is_selective: few of the rows will be read.

    Raises:
        UnsupportedFeatureError: the files differ in version or schema.
    """

    def __init__(self, files: Sequence[FileReader], at_once: int = 1, *, is_selective: bool = False) -> None:
        first = files[0]
        sizes = [(file.size_bytes + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT for file in files]
        *self._starts, total = accumulate(sizes, initial=0)
        super().__init__(first._store, first.path, first.version, total, _EMPTY)
        if any(file.version is not first.version or file.schema != first.schema for file in files):
            raise UnsupportedFeatureError("files of several schemas cannot be read as one", feature="joined files")
        self.schema = first.schema
        self.num_rows = sum(file.num_rows for file in files)
        self._files = files
        self._at_once = at_once
        self._is_selective = is_selective and total > len(files) * _SMALL_FILE_BYTES
        self._joined: dict[int, EncodedColumn] = {}

    @property
    def columns(self) -> Mapping[FieldId, int]:
        return self._files[0].columns

    def estimated_bytes(self, fields: Sequence[Field], column_indices: Mapping[FieldId, int]) -> list[int]:
        of_files = [file.estimated_bytes(fields, column_indices) for file in self._files]
        return [sum(sizes) for sizes in zip(*of_files, strict=True)]

    def _prepare(self, fields: Sequence[Field], column_indices: Mapping[FieldId, int]) -> FieldsReader:
        if self._is_selective:
            prepared = overlapped(lambda file: file.prepared(fields, column_indices), self._files, self._at_once)
            of_leaves = [reader for reader in prepared if isinstance(reader, LeafFields)]
            if len(of_leaves) == len(prepared):
                return _Selected(of_leaves, self._files, self._starts)
        trees = self._files[0].stored_fields(fields)
        return field_reader(self.version)(trees, self._load(trees, column_indices))

    def _load(self, fields: Sequence[Field], column_indices: Mapping[FieldId, int]) -> dict[FieldId, EncodedColumn]:
        places = {
            owner.id: column_indices[owner.id]
            for owner in column_fields(fields, self.version)
            if column_indices.get(owner.id, -1) >= 0
        }
        missing = sorted({index for index in places.values() if index not in self._joined})
        if missing:
            parts = overlapped(lambda file: file.encoded_columns_at(missing), self._files, self._at_once)
            self._refuse_listed_bytes(fields, places, dict(zip(missing, parts[0], strict=True)))
            for place, index in enumerate(missing):
                self._joined[index] = self._join([columns[place] for columns in parts])
        return {field_id: self._joined[index] for field_id, index in places.items()}

    def _refuse_listed_bytes(
        self, fields: Sequence[Field], wanted: Mapping[FieldId, int], columns: Mapping[int, EncodedColumn]
    ) -> None:
        """Passes if no text is a list of bytes, in two columns."""
        if self.version is not FileVersion.V2_0:
            return
        texts = [wanted[node.id] for field in fields for node in field.walk() if node.id in wanted and has_bytes(node)]
        if any(holds_lists(columns[index]) for index in texts if index in columns):
            raise UnsupportedFeatureError("lists of bytes cannot be joined", feature="joined files")

    def _join(self, parts: Sequence[EncodedColumn]) -> EncodedColumn:
        first = parts[0]
        if any(part.buffers or part.message != first.message for part in parts):
            raise UnsupportedFeatureError("buffers of columns cannot be joined", feature="joined files")
        if self.version is FileVersion.V2_0 and holds_blobs(first.type_url, first.message):
            raise UnsupportedFeatureError("blobs cannot be joined", feature="joined files")
        pages = [page.moved(start) for start, part in zip(self._starts, parts, strict=True) for page in part.pages]
        return EncodedColumn(first.index, tuple(pages), self.num_rows, first.type_url, first.message)

    def _answers(self, requests: Sequence[FileRequest]) -> list[Answer]:
        pieces = [self._tails.find(request) if isinstance(request, FileRanges) else None for request in requests]
        missing = [request for request, answer in zip(requests, pieces, strict=True) if answer is None]
        answers = iter(super()._answers(missing) if missing else ())
        return [next(answers) if answer is None else answer for answer in pieces]

    @cached_property
    def _tails(self) -> _Tails:
        return _Tails([file.tail for file in self._files], [file.size_bytes for file in self._files], self._starts)

    def _in_memory(self, requests: Sequence[FileRequest]) -> None:
        # The files are in as many places.
        return None

    def _read_ranges(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        by_file: dict[int, list[int]] = {}
        for number, piece in enumerate(ranges):
            by_file.setdefault(bisect_right(self._starts, piece.start) - 1, []).append(number)
        buffers: list[pa.Buffer] = [_EMPTY] * len(ranges)

        def read(place: int) -> None:
            numbers, start, file = by_file[place], self._starts[place], self._files[place]
            moved = [ByteRange(ranges[number].start - start, ranges[number].length) for number in numbers]
            if any(piece.stop > file.size_bytes for piece in moved):
                raise CorruptFileError(f"a value leaves the file of {file.size_bytes} bytes", path=file.path)
            for number, data in zip(numbers, file.read_ranges(moved), strict=True):
                buffers[number] = data

        overlapped(read, list(by_file), self._at_once)
        return buffers


class _Tails:
    """The ends of files that lie one behind the other.

    Args:
        tails: the end of each file, which has `sizes` bytes and begins at `starts`.
    """

    def __init__(self, tails: Sequence[pa.Buffer], sizes: Sequence[int], starts: Sequence[int]) -> None:
        held = [size - tail.size for tail, size in zip(tails, sizes, strict=True)]
        self._tails = tails
        self._files = np.array([starts, sizes, held, [tail.address for tail in tails]], np.int64)

    def find(self, ranges: FileRanges) -> Located | None:
        """Locates the ranges in memory; None if one of them is not there."""
        count = len(ranges.starts)
        places: Int64Array = np.empty(count + 2, np.int64)
        files = address_of(self._files), len(self._tails)
        if (
            find_in_memory(address_of(ranges.starts), address_of(ranges.lengths), count, *files, address_of(places))
            < count
        ):
            return None
        low, high = places[count:].tolist()
        return Located(pa.foreign_buffer(low, high - low, self._tails) if high else _EMPTY, places[:count] - low)


class _Selected:
    """Fields of several files, prepared by each of them; see `lance_spark.layouts.base.FieldsReader`."""

    def __init__(self, prepared: Sequence[LeafFields], files: Sequence[FileReader], starts: Sequence[int]) -> None:
        self._parts = list(zip(prepared, files, starts, strict=True))

    def __call__(self, rows: RowRanges) -> FieldsReads:
        requests = []
        first_row = 0
        for prepared, file, start in self._parts:
            requests.append((prepared, rows.within(first_row, first_row + file.num_rows), start))
            first_row += file.num_rows
        return requests[0][0].of_files(requests)
