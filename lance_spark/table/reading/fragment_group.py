"""Consecutive fragments read as one: small ones, or few rows of any.

Reading a fragment of a hundred rows costs about as much as reading one of ten thousand: schemas are resolved, kernels
called and filters evaluated for each. So fragments with the same columns in the same kind of files are read together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.file.data_file_reader import DataFileReader
from lance_spark.file.joined_reader import JoinedReader
from lance_spark.file.reader import FileReader
from lance_spark.file_version import FileVersion
from lance_spark.layouts.base import RowRanges
from lance_spark.schema.blob import is_described
from lance_spark.schema.columns import is_blob
from lance_spark.schema.field import Field
from lance_spark.storage.overlap import overlapped
from lance_spark.table.bases import Bases
from lance_spark.table.reading.blobs.blob_columns import source_of
from lance_spark.table.reading.fragment_columns import FragmentColumns, SelectedFields
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.selection import FragmentRows
from lance_spark.table.reading.system_columns import FRAGMENT_ID, ROW_ADDRESS, ROW_ID, RowLineage
from lance_spark.table.reading.window import fixed_width, window_bytes_of
from lance_spark.table.rows.deletion_vector import DeletionVector
from lance_spark.table.rows.fragment import DataFile, DataFragment
from lance_spark.table.rows.row_address import UInt64Array

FIRST_GROUP = 16
"""Fragments of the first group. Groups grow, so that who stops early has not read much for nothing."""

LARGEST_GROUP = 1024
_GROWTH = 4
_SMALL_FILE_BYTES = 1 << 20
_ROWS = 1 << 17
"""Rows of a group, unless all columns have a fixed width: a page of equal texts can be tiny in the file."""

_JOINABLE = (FileVersion.V2_0, FileVersion.V2_1, FileVersion.V2_2)


class FragmentGroup:
    """Fragments of the same shape (`grouped`), as `FragmentReader` has one; rows are numbered through.

    Args:
        fragments: at least one.
        stable_row_ids: whether the table has stable row ids.
        is_selective: few of the rows will be read.
    """

    def __init__(
        self, fragments: Sequence[DataFragment], bases: Bases, stable_row_ids: bool, *, is_selective: bool
    ) -> None:
        self.fragments = fragments
        self._readers = [FragmentReader(fragment, bases) for fragment in fragments]
        self._stable_row_ids = stable_row_ids
        self._is_selective = is_selective
        self._at_once = bases.reads_at_once
        self._split_key = bases.split_key
        *starts, self.num_rows = accumulate((reader.num_rows for reader in self._readers), initial=0)
        self.starts: Int64Array = np.array(starts, np.int64)
        self._files: dict[int, DataFileReader] = {}
        self._deletions: DeletionVector | None = None

    @property
    def deletions(self) -> DeletionVector:
        """The deleted rows of all fragments."""
        if self._deletions is None:
            starts = zip(self._readers, self.starts.tolist(), strict=True)
            harmed = [(reader, start) for reader, start in starts if reader.fragment.deletion_file is not None]
            parts = overlapped(lambda item: item[0].deletions.offsets + item[1], harmed, self._at_once)
            self._deletions = DeletionVector(np.concatenate(parts)) if parts else DeletionVector.empty()
        return self._deletions

    def rows_at(self, offsets: Sequence[Int64Array]) -> Int64Array:
        """int64[n]: the rows of the group for the offsets (int64, ascending) in each fragment, deleted or not."""
        return np.concatenate(offsets) + np.repeat(self.starts, [len(part) for part in offsets])

    def columns(self, selected: SelectedFields) -> FragmentColumns:
        """Fields of the table, read of all fragments at once.

        Raises:
            CorruptFileError: a file's row count differs from its fragment's, or it is not a Lance file.
            UnsupportedFeatureError: the files cannot be read as one.
        """
        return FragmentColumns(selected, self.fragments[0].files, self._joined, self._sources)

    def _sources(self, place: int, rows: RowRanges) -> pa.Array:
        sources = [source_of(fragment.files[place], self._split_key) for fragment in self.fragments]
        return pa.array(sources, pa.string()).take(pa.array(self._owners(rows.indices())))

    def _owners(self, rows: Int64Array) -> Int64Array:
        """int64[n]: the places of the fragments that have these rows of the group."""
        return np.searchsorted(self.starts, rows, "right") - 1

    def _joined(self, file: DataFile) -> DataFileReader:
        place = self.fragments[0].files.index(file)
        if place not in self._files:

            def open_one(pair: tuple[FragmentReader, DataFragment]) -> DataFileReader:
                reader, fragment = pair
                return reader.open_file(fragment.files[place])

            opened = overlapped(open_one, list(zip(self._readers, self.fragments, strict=True)), self._at_once)
            files = [file for file in opened if isinstance(file, FileReader)]
            if len(files) < len(opened):
                raise UnsupportedFeatureError("files of 0.1 cannot be joined", feature="joined files")
            self._files[place] = JoinedReader(files, self._at_once, is_selective=self._is_selective)
        return self._files[place]

    def column(self, name: str, rows: Int64Array) -> pa.Array:
        """The system column `name` for `rows` (int64[n], ascending rows of the group), as `RowLineage.column`.

        Raises:
            CorruptFileError: a fragment has no lineage, or it does not match its rows.
        """
        owners = self._owners(rows)
        if name in (FRAGMENT_ID, ROW_ADDRESS) or (name == ROW_ID and not self._stable_row_ids):
            ids = np.array([fragment.id for fragment in self.fragments], np.uint64)[owners]
            if name == FRAGMENT_ID:
                return pa.array(ids)
            addresses: UInt64Array = (ids << np.uint64(32)) | (rows - self.starts[owners]).astype(np.uint64)
            return pa.array(addresses)
        borders = np.searchsorted(owners, np.arange(len(self.fragments) + 1)).tolist()
        parts = [
            RowLineage(fragment, reader, self._stable_row_ids).column(name, rows[first:last] - start)
            for fragment, reader, start, first, last in zip(
                self.fragments, self._readers, self.starts.tolist(), borders, borders[1:], strict=False
            )
            if first < last
        ]
        return pa.concat_arrays(parts) if parts else pa.array([], pa.uint64())


def grouped(
    selection: Iterable[FragmentRows], fields: Sequence[Field], window_bytes: int, first: int = FIRST_GROUP
) -> Iterator[list[FragmentRows]]:
    """Consecutive rows in groups that `FragmentGroup` can read and that decode to about `window_bytes` at most.

    A group has all rows of its fragments, or those at some offsets of each; a part of a fragment is alone.

    Args:
        fields: the top-level fields that are read.
        first: fragments of the first group at most; later groups are larger.
    """
    versions, widths = _joinable(fields)
    is_fixed = None not in widths
    group: list[FragmentRows] = []
    num_rows, num_bytes = 0, 0.0
    for item in selection:
        rows = item.num_rows
        size = None if item.is_range else _small_bytes(item.fragment, rows, versions)
        decoded = window_bytes if size is None else window_bytes_of(widths, rows, size)
        if group and (
            size is None
            or len(group) >= first
            or num_bytes + decoded > window_bytes
            or (num_rows + rows > _ROWS and not is_fixed)
            or (item.offsets is None) is not (group[0].offsets is None)
            or not _same_shape(item.fragment, group[0].fragment)
        ):
            if len(group) >= first:
                first = min(first * _GROWTH, LARGEST_GROUP)
            yield group
            group, num_rows, num_bytes = [], 0, 0.0
        if size is None:
            yield [item]
            continue
        group.append(item)
        num_rows, num_bytes = num_rows + rows, num_bytes + decoded
    if group:
        yield group


def _joinable(fields: Sequence[Field]) -> tuple[Collection[FileVersion], list[float | None]]:
    """The versions of files that can be read as one, and the bytes of a row of each field, None if they vary.

    A page of values of blobs has positions in one file.
    """
    widths = [fixed_width(field) for field in fields]
    blobs = [node for field in fields for node in field.walk() if is_blob(node)]
    if not blobs:
        return _JOINABLE, widths
    return ((FileVersion.V2_2,) if all(map(is_described, blobs)) else ()), widths


def _small_bytes(fragment: DataFragment, num_rows: int, versions: Collection[FileVersion]) -> int | None:
    """About the bytes of some rows in the files; None if these are many, not known, or not of these versions."""
    if fragment.physical_rows is None or not fragment.files:
        return None
    num_bytes = 0
    for file in fragment.files:
        if file.size_bytes is None or file.version not in versions:
            return None
        share = file.size_bytes * num_rows // max(fragment.physical_rows, 1)
        if share > _SMALL_FILE_BYTES:
            return None
        num_bytes += share
    return num_bytes


def _same_shape(one: DataFragment, other: DataFragment) -> bool:
    """Whether the files of two fragments have the same columns in the same places."""
    return len(one.files) == len(other.files) and all(
        file.version is like.version and file.fields == like.fields and file.column_indices == like.column_indices
        for file, like in zip(one.files, other.files, strict=True)
    )
