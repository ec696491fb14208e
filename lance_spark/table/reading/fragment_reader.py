"""Reads one fragment: its rows, deletion vector and columns."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.file.data_file_reader import DataFileReader
from lance_spark.file.open_file import open_data_file
from lance_spark.file.v0_1_reader import V01FileReader
from lance_spark.file_version import FileVersion
from lance_spark.layouts.base import RowRanges
from lance_spark.storage.base import whole_file
from lance_spark.storage.cache import cached_by_path
from lance_spark.table.bases import Bases
from lance_spark.table.reading.blobs.blob_columns import source_of
from lance_spark.table.reading.fragment_columns import FragmentColumns, SelectedFields
from lance_spark.table.rows.deletion_vector import DeletionVector
from lance_spark.table.rows.fragment import DataFile, DataFragment
from lance_spark.table.rows.row_address import MAX_ROWS_PER_FRAGMENT

Value = TypeVar("Value")

MAX_UNCHECKED_ROWS = 1 << 24
"""The largest row count that is trusted from the manifest; a larger one is verified with the file first."""


_MAX_COLUMNS = 4
"""Selections of fields that an open fragment keeps."""


class FragmentReader:
    """One fragment, open for reading. Files are opened lazily, when one of their columns is first requested.

    Attributes:
        fragment: the fragment.
    """

    def __init__(self, fragment: DataFragment, bases: Bases) -> None:
        self.fragment = fragment
        self._bases = bases
        self._files: dict[DataFile, DataFileReader] = {}
        self._whole: dict[DataFile, pa.Buffer] = {}
        self._columns: dict[SelectedFields, FragmentColumns] = {}
        self._num_rows: int | None = None
        self._deletions: DeletionVector | None = None
        self._kept: dict[Hashable, Any] = {}
        self._kept_bytes = 0

    @property
    def num_rows(self) -> int:
        """Rows in the data files, including deleted ones; read from a file if not in the manifest.

        Raises:
            CorruptFileError: more rows than a fragment can have, or far more than in its data file.
        """
        if self._num_rows is None:
            rows = self.fragment.physical_rows
            if rows is None or rows > MAX_UNCHECKED_ROWS:
                rows = self._rows_of_file(rows)
            if rows > MAX_ROWS_PER_FRAGMENT:
                raise CorruptFileError(f"fragment {self.fragment.id} says that it has {rows} rows")
            self._num_rows = rows
        return self._num_rows

    def _rows_of_file(self, claimed: int | None) -> int:
        """The rows of the first data file, which must match the manifest's count."""
        files = self.fragment.files
        rows = self._open(files[0]).num_rows if files else 0
        if claimed is not None and rows != claimed:
            raise CorruptFileError(f"fragment {self.fragment.id} says that it has {claimed} rows, its file has {rows}")
        return rows

    @property
    def deletions(self) -> DeletionVector:
        """The deletion vector."""
        if self._deletions is None:
            self._deletions = self._load_deletions()
        return self._deletions

    def num_live_rows(self) -> int:
        """Rows that are not deleted."""
        return self.num_rows - len(self.deletions)

    def columns(self, selected: SelectedFields) -> FragmentColumns:
        """Fields of the table in the files of the fragment, which are opened.

        Raises:
            CorruptFileError: a file's row count differs from the fragment's, or it is not a Lance file.
            UnsupportedFeatureError: the version of a file is not supported.
        """
        columns = self._columns.get(selected)
        if columns is None:
            columns = FragmentColumns(selected, self.fragment.files, self.open_file, self._sources)
            if len(self._columns) >= _MAX_COLUMNS:
                self._columns.clear()
            self._columns[selected] = columns
        return columns

    def _sources(self, place: int, rows: RowRanges) -> pa.Array:
        source = source_of(self.fragment.files[place], self._bases.split_key)
        return pa.repeat(pa.scalar(source, pa.string()), rows.num_rows)

    def row_group_files(self) -> list[V01FileReader]:
        """The files of version 0.1, which have row groups with statistics."""
        old = [file for file in self.fragment.files if file.version is FileVersion.V0_1]
        readers = [self.open_file(file) for file in old]
        return [reader for reader in readers if isinstance(reader, V01FileReader)]

    def open_in_memory(self, file: DataFile) -> tuple[DataFileReader, pa.Buffer] | None:
        """`open_file`, and all bytes of the file, which its reader has too; None if its store does not map files."""
        whole = self._whole.get(file)
        if whole is None:
            whole = whole_file(*self._bases.data_file(file))
            if whole is None:
                return None
            self._whole[file] = whole
        return self.open_file(file, whole), whole

    def open_file(self, file: DataFile, whole: pa.Buffer | None = None) -> DataFileReader:
        """The reader of one of the fragment's data files.

        Args:
            whole: the mapped file, if it is.

        Raises:
            CorruptFileError: its row count differs from the fragment's, or it is not a Lance file.
            UnsupportedFeatureError: the version of the file is not supported.
        """
        reader = self._open(file, whole)
        if reader.num_rows != self.num_rows:
            raise CorruptFileError(
                f"the file has {reader.num_rows} rows, fragment {self.fragment.id} has {self.num_rows}",
                path=reader.path,
                root=self._bases.data_file(file)[0].uri,
            )
        return reader

    def _open(self, file: DataFile, whole: pa.Buffer | None = None) -> DataFileReader:
        reader = self._files.get(file)
        if reader is None:
            store, path = self._bases.data_file(file)
            reader = self._files[file] = open_data_file(store, path, size=file.size_bytes, whole=whole)
        return reader

    def kept(self, key: Hashable, make: Callable[[], tuple[Value, int]]) -> Value:
        """A value of this fragment that is kept while it is open; `make` returns it with its size in bytes."""
        if key not in self._kept:
            made, num_bytes = make()
            if self._kept.setdefault(key, made) is made:
                self._kept_bytes += num_bytes
        value: Value = self._kept[key]
        return value

    @property
    def held_bytes(self) -> int:
        """About how much memory its open files and its deleted rows take."""
        deleted = 0 if self._deletions is None else self._deletions.offsets.nbytes
        return deleted + self._kept_bytes + sum([file.held_bytes for file in list(self._files.values())])

    def _load_deletions(self) -> DeletionVector:
        described = self.fragment.deletion_file
        if described is None:
            return DeletionVector.empty()
        store, path = self._bases.deletion_file(self.fragment.id, described)
        num_rows = self.num_rows

        def load() -> tuple[DeletionVector, int]:
            deletions = DeletionVector.decode(
                described.file_type,
                store.read(path),
                physical_rows=num_rows,
                num_deleted_rows=described.num_deleted_rows,
            )
            return deletions, deletions.offsets.nbytes

        try:
            return cached_by_path(store, "deletions", path, (num_rows, described), load)
        except CorruptFileError as error:
            raise error.at(path=path, root=store.uri) from None
