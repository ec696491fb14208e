"""The files of one index segment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import pyarrow as pa

from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.file.data_file_reader import TAIL_BYTES, DataFileReader
from lance_spark.file.open_file import opened_file
from lance_spark.file.reader import FileReader
from lance_spark.file_version import FileVersion
from lance_spark.layouts.base import EncodedPage, RowRanges
from lance_spark.layouts.checked_values import PLAIN
from lance_spark.layouts.leaf.values import is_variable
from lance_spark.layouts.prepared.field import PreparedField
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.storage.base import ByteRange, ObjectStore, mapped_file, whole_file
from lance_spark.storage.cache import cached_by_path, cached_part, cached_parts, cached_parts_by_path

Value = TypeVar("Value")


class IndexFiles:
    """The files in the folder of a segment. They never change, so what is made of them is kept for later queries.

    A file stays open as long as this object, which is that of the segment in the indexes of a version.

    Args:
        folder: of the store, without a slash at its end.
        sizes: bytes of the files that the table's metadata lists, by name.
    """

    def __init__(self, store: ObjectStore, folder: str, sizes: Mapping[str, int]) -> None:
        self._store = store
        self._folder = folder
        self._sizes = sizes
        self._opened: dict[str, IndexFile] = {}

    @property
    def is_empty(self) -> bool:
        """Whether the segment has no file, and only records what is to be indexed. Not all writers list their files."""
        return not self._sizes and next(iter(self._store.list(self._folder)), None) is None

    @property
    def are_complete(self) -> bool:
        """Whether the files that the table's metadata lists are there, each with its size."""
        found = {item.path.removeprefix(f"{self._folder}/"): item.size for item in self._store.list(self._folder)}
        return all(found.get(name) == size for name, size in self._sizes.items())

    def open(self, name: str) -> IndexFile:
        """The file called `name`.

        Raises:
            NotFoundError: no such file.
            CorruptFileError: it is no complete Lance file.
            UnsupportedFeatureError: a version of the format that is not read.
        """
        file = self._opened.get(name)
        if file is None:
            file = self._opened[name] = self._open(name)
        return file

    def _open(self, name: str) -> IndexFile:
        path, size = f"{self._folder}/{name}", self._sizes.get(name)

        def make() -> tuple[IndexFile, int]:
            # Mapped files are read without requests, from the first read on.
            whole = whole_file(self._store, path)
            return IndexFile(opened_file(self._store, path, size, whole), self._store), TAIL_BYTES

        return cached_by_path(self._store, "index file", path, size, make)

    def end(self, name: str, num_bytes: int) -> bytes:
        """The last bytes of a file, at most `num_bytes`.

        Raises:
            NotFoundError: no such file.
        """
        path = self.path(name)
        size = self._sizes.get(name)
        size = self._store.size(path) if size is None else size
        start = max(size - num_bytes, 0)
        return bytes(self._store.read_range(path, ByteRange(start, size - start)))

    def content(self, name: str) -> bytes:
        """All bytes of a file. Raises as `end`."""
        return bytes(self._store.read(self.path(name)))

    def path(self, name: str) -> str:
        """Path of a file in the store."""
        return f"{self._folder}/{name}"

    def kept(self, name: str, kind: str, make: Callable[[], tuple[Value, int]]) -> Value:
        """Cached value for a file; `make` returns it with its size in bytes if it is not cached."""
        return cached_by_path(self._store, f"index {kind}", f"{self._folder}/{name}", self._sizes.get(name), make)

    def kept_parts(
        self, name: str, kind: str, numbers: Sequence[int], make: Callable[[Sequence[int]], Sequence[tuple[Value, int]]]
    ) -> list[Value]:
        """Cached values for some numbered parts of a file; `make` returns those that are not cached."""
        path = f"{self._folder}/{name}"
        return cached_parts_by_path(self._store, f"index {kind}", path, self._sizes.get(name), numbers, make)


class IndexFile:
    """One open file of a segment.

    Attributes:
        metadata: that of the file's schema.
        store: where it is.
    """

    def __init__(self, reader: DataFileReader, store: ObjectStore) -> None:
        self._reader = reader
        self.store = store
        self._fields = {field.name: field for field in reader.schema.fields}
        self.metadata = {key: value.decode(errors="replace") for key, value in reader.schema.metadata.items()}

    @property
    def path(self) -> str:
        """Path of the file in the store."""
        return self._reader.path

    @property
    def num_rows(self) -> int:
        """Rows in the file."""
        return self._reader.num_rows

    def has(self, column: str) -> bool:
        """Whether the file has a column of this name."""
        return column in self._fields

    def type_of(self, column: str) -> pa.DataType | None:
        """The type of a column; None if the file has no column of this name."""
        field = self._fields.get(column)
        return None if field is None else to_arrow_type(field)

    def encoded_pages(self, name: str) -> tuple[EncodedPage, ...]:
        """The pages of a top-level column without children; none in files before 2.1, or without this column.

        Raises:
            CorruptFileError: the metadata contradicts the format.
        """
        reader, field = self._reader, self._fields.get(name)
        if field is None or not isinstance(reader, FileReader) or reader.version is FileVersion.V2_0:
            return ()
        number = reader.columns.get(field.id)
        return () if number is None else reader.encoded_columns_at([number])[0].pages

    def in_memory(self, requests: int, num_bytes: int) -> pa.Buffer | None:
        """The file, if its store, which has free stamps, maps files.

        Args:
            requests, num_bytes: what of it will be read, for the meter.
        """
        reader = self._reader
        found = mapped_file(self.store, reader.path, reader.size_bytes, requests, num_bytes)
        if found is None and whole_file(self.store, reader.path) is not None:
            found = mapped_file(self.store, reader.path, reader.size_bytes, requests, num_bytes)
        return found

    def rows_in_memory(self, types: Mapping[str, pa.DataType]) -> RowsInMemory | None:
        """Some columns for reads of single rows; None if the file is not in memory, or one has another type."""
        reader = self._reader
        data = reader.in_memory() if isinstance(reader, FileReader) else None
        if data is None or any(self.type_of(name) != dtype for name, dtype in types.items()):
            return None
        return RowsInMemory([self._prepared(name) for name in types], data)

    def columns(self, types: Mapping[str, pa.DataType], rows: RowRanges | None = None) -> list[pa.Array]:
        """The values of columns, which must have these types, at `rows` (None: all).

        Raises:
            CorruptFileError: a column is missing or of another type, or its bytes contradict the format.
            UnsupportedFeatureError: texts take more than 2 GiB.
        """
        return [combined(column) for column in self.columns_in_chunks(types, rows)]

    def columns_in_chunks(
        self, types: Mapping[str, pa.DataType], rows: RowRanges | None = None
    ) -> list[pa.ChunkedArray]:
        """The values of columns, see `columns`, in the chunks that they were decoded in, without a copy."""
        missing = [name for name in types if name not in self._fields]
        if missing:
            raise CorruptFileError(f"an index file has no column {missing[0]!r}", path=self._reader.path)
        try:
            columns = self._reader.read_named([*types], rows)
        except UnsupportedFeatureError as error:
            # Damaged descriptions of pages look like encodings of other releases. Either way the file has no answer.
            raise CorruptFileError(str(error), path=self._reader.path) from error
        for (name, dtype), column in zip(types.items(), columns, strict=True):
            if column.type != dtype:
                raise CorruptFileError(f"column {name!r} is {column.type}, expected {dtype}", path=self._reader.path)
            if column.type.id not in PLAIN and not is_variable(column.type):
                # Numbers and texts were when they were decoded.
                _validated(column, self._reader.path)
        return columns

    def _prepared(self, name: str) -> PreparedField | None:
        """A column for reads of few rows; None if whole pages of it have to be decoded."""
        reader = self._reader
        return reader.prepared_field(self._fields[name], reader.columns) if isinstance(reader, FileReader) else None

    def kept(self, kind: str, make: Callable[[], tuple[Value, int]]) -> Value:
        """Cached value for this file, see `IndexFiles.kept`, while the file is kept open: without a store request."""
        return cached_part(self._reader, kind, make)

    def kept_rows(
        self, kind: str, numbers: Sequence[int], make: Callable[[Sequence[int]], Sequence[tuple[Value, int]]]
    ) -> list[Value]:
        """Cached values for some rows of this file; `make` returns those that are not cached."""
        return cached_parts(self._reader, kind, numbers, make)

    def positive_number(self, key: str, default: int) -> int:
        """A whole number > 0 of the schema metadata, `default` if it is absent.

        Raises:
            CorruptFileError: it is no such number.
        """
        text = self.metadata.get(key, str(default))
        if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text) > 0):
            raise CorruptFileError(f"{key} is {text!r}, not a positive number", path=self._reader.path)
        return int(text)

    def buffer_named_by(self, key: str) -> bytes | None:
        """The global buffer whose number is in the schema metadata; None if the metadata names none.

        Raises:
            CorruptFileError: there is no such buffer.
        """
        text = self.metadata.get(key)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise CorruptFileError(f"{key} is {text!r}, not a global buffer", path=self._reader.path)
        return self.global_buffer(int(text))

    def global_buffer(self, number: int) -> bytes:
        """The global buffer with this number.

        Raises:
            CorruptFileError: there is no such buffer.
        """
        if not isinstance(self._reader, FileReader) or number < 0:
            raise CorruptFileError(f"there is no global buffer {number}", path=self._reader.path)
        return bytes(self._reader.read_global_buffer(number))

    def damaged(self, message: str) -> CorruptFileError:
        """The error that says what is wrong with this file."""
        return CorruptFileError(message, path=self._reader.path)


class RowsInMemory(NamedTuple):
    """Columns of a file in memory.

    Attributes:
        columns: None for those of which whole pages have to be decoded.
        data: the file.
    """

    columns: Sequence[PreparedField | None]
    data: pa.Buffer


def combined(column: pa.ChunkedArray) -> pa.Array:
    """The values of a column as one array.

    Raises:
        UnsupportedFeatureError: texts take more than 2 GiB.
    """
    if column.num_chunks == 1:
        return column.chunk(0)  # Combining would copy it.
    try:
        combined = column.combine_chunks()
        return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined
    except pa.ArrowInvalid as error:
        raise UnsupportedFeatureError(
            f"more than 2 GiB of values of an index are needed at once: {error}", feature="large index values"
        ) from error


def _validated(array: pa.ChunkedArray, path: str) -> None:
    try:
        array.validate(full=True)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise CorruptFileError(f"an index file holds values that are none: {error}", path=path) from error


def require_no_nulls(file: IndexFile, columns: Sequence[pa.Array]) -> None:
    """Nothing, if no value is null.

    Raises:
        CorruptFileError: one is.
    """
    if any(column.null_count for column in columns):
        raise file.damaged("an index file has nulls where it must have values")
