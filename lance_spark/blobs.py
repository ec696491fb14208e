"""Values of blob columns, read and written as files and as bytes in functions that Spark runs in its tasks.

A value can be written before there is a row for it. Its bytes go to an object that lies where a sidecar would lie whose
data file does not exist. No version ever names it, so clean-ups remove it when it is old, whether a row got a copy of
it or not.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.file.blob_writer import sidecar_path
from lance_spark.partitioned.access import open_table
from lance_spark.storage.base import ByteRange, ObjectStore
from lance_spark.storage.paths import absolute_uri, below
from lance_spark.table.dataset import Dataset
from lance_spark.table.paths import DATA, new_data_file_name
from lance_spark.table.reading.blobs.binary_scan import BATCH_BYTES, blob_sizes
from lance_spark.table.reading.blobs.blob_file import DEFAULT_BUFFER_BYTES, BlobFile, BlobReader, batches_by_bytes

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from pyspark.sql import DataFrame

__all__ = ["BlobWriter", "open_blob", "read_all", "writer"]

Result = TypeVar("Result")

_PARTS = ("kind", "position", "size", "blob_id", "blob_uri", "source")

_PIECE_BYTES = 1 << 20


def open_blob(
    description: Any,
    table: str,
    *,
    storage_options: Mapping[str, str] | None = None,
    buffer_size: int = DEFAULT_BUFFER_BYTES,
    allow_external_blobs: bool = False,
) -> BlobFile | None:
    """The value that a description stands for, as a binary file that can be read and sought; None for a null.

    Nothing is read before the file is asked, so a crop of a large picture or the head of a film costs what it reads.
    The value can have any size. The table is opened once in each process.

    Args:
        description: the value of a blob column as Spark shows it: a Row, a dict, or a row of the DataFrame that a
            function of pandas gets for it.
        table: the URI of the table that the description is of, or of its branch.
        storage_options: of the table.
        buffer_size: bytes that the file reads ahead.
        allow_external_blobs: whether references to objects outside of the table are followed.

    Raises:
        InvalidInputError: this is no description, or it is a reference that is not allowed.
        NotFoundError: there is no such table, or the file was deleted by a clean-up.
        CorruptFileError: the description is invalid.
    """
    parts = _parts(description)
    if parts is None:
        return None
    described = [parts[name] for name in _PARTS]
    reader = _ReaderArguments(table, tuple(sorted((storage_options or {}).items())), allow_external_blobs)
    location = reader.result_of(lambda opened: opened.location(*described))
    return BlobFile(location, buffer_size)


def writer(table: str, *, storage_options: Mapping[str, str] | None = None) -> BlobWriter:
    """A binary file for one value that a task computes, of any size.

    When it is closed, its `uri` is what ``blob_ingest(uri)`` takes in INSERT: tasks then copy the bytes from store to
    store, and they never pass the JVM. What a failed or repeated task has written is in no row; `remove_orphans` and
    VACUUM remove it, and the values that were copied, when they are older than their safety window.

    Args:
        table: the URI of the table that gets the value, or of its branch.
        storage_options: of the table.

    Raises:
        NotFoundError: there is no such table.
        StorageError: the store failed.
    """
    return BlobWriter(_store_of(table, tuple(sorted((storage_options or {}).items()))))


@lru_cache(maxsize=16)
def _store_of(table: str, storage_options: tuple[tuple[str, str], ...]) -> ObjectStore:
    dataset = open_table(table, storage_options=dict(storage_options))
    # Files that no version names are removed in the table that has no rows too.
    location = dataset.location if isinstance(dataset, Dataset) else dataset.catalog.table
    return location.store


def read_all(
    frame: DataFrame,
    column: str,
    table: str,
    *,
    offset: str | None = None,
    length: str | None = None,
    max_bytes_in_flight: int = BATCH_BYTES,
    storage_options: Mapping[str, str] | None = None,
    allow_external_blobs: bool = False,
) -> DataFrame:
    """The rows of a DataFrame with the bytes of a blob column, as BINARY, in place of its descriptions.

    Tasks read the values, many in one request, wherever the descriptions come from: a join or a sort moves these and
    not the bytes. Batches are cut by bytes, so memory does not grow with the number of rows.

    Args:
        frame: has the descriptions.
        column: a blob column of it, not inside of a struct.
        table: the URI of the table that the descriptions are of, or of its branch.
        offset, length: columns of whole numbers: where the part that is read of each value begins, and how many bytes
            of it are read at most. Nothing else is read. A null in one of them makes the part null.
        max_bytes_in_flight: bytes of values in a batch at most, unless a single value has more.
        storage_options: of the table.
        allow_external_blobs: whether references to objects outside of the table are followed.

    Raises:
        InvalidInputError: the column has no descriptions, only one of `offset` and `length` is given or is no column
            of whole numbers, or `max_bytes_in_flight` is less than 1. In the tasks: a reference that is not allowed, or
            a negative offset or length.
    """
    from pyspark.sql.types import BinaryType, IntegralType, StructField, StructType

    if max_bytes_in_flight < 1:
        raise InvalidInputError(f"max_bytes_in_flight is {max_bytes_in_flight}; it must be at least 1")
    column_types = [field.dataType for field in frame.schema.fields if field.name == column]
    if (
        len(column_types) != 1
        or not isinstance(column_types[0], StructType)
        or not set(column_types[0].fieldNames()) >= set(_PARTS)
    ):
        raise InvalidInputError(f"the DataFrame has no column {column!r} with descriptions of blobs, or two")
    part = _part_columns(offset, length)
    types = {field.name: field.dataType for field in frame.schema.fields}
    for name in part:
        if not isinstance(types.get(name), IntegralType):
            raise InvalidInputError(f"the DataFrame has no column {name!r} of whole numbers")
    fields = [StructField(column, BinaryType()) if field.name == column else field for field in frame.schema.fields]
    reader = _ReaderArguments(table, tuple(sorted((storage_options or {}).items())), allow_external_blobs)
    task = _ReadAll(column, part, reader, max_bytes_in_flight)
    return frame.mapInArrow(task, StructType(fields))


@dataclass(frozen=True)
class _ReadAll:
    """Replaces descriptions in the batches of a task."""

    column: str
    part: tuple[str, ...]
    reader: _ReaderArguments
    max_bytes: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            place = batch.schema.get_field_index(self.column)
            ranges = _ranges(batch, self.part)
            sizes = blob_sizes(batch.column(place))
            if ranges is not None:
                sizes = np.minimum(sizes, [0 if item is None else item.length for item in ranges])
            for start, stop in batches_by_bytes(sizes, self.max_bytes):
                part = batch.slice(start, stop - start)
                batch_ranges = None if ranges is None else ranges[start:stop]
                read = partial(BlobReader.to_binary, array=part.column(place), part=batch_ranges)
                values = self.reader.result_of(read)
                yield part.set_column(place, pa.field(self.column, pa.binary()), values.cast(pa.binary()))


def _part_columns(offset: str | None, length: str | None) -> tuple[str, ...]:
    if (offset is None) is not (length is None):
        raise InvalidInputError("a part of each value needs both an offset and a length")
    return () if offset is None or length is None else (offset, length)


def _ranges(batch: pa.RecordBatch, part: tuple[str, ...]) -> list[ByteRange | None] | None:
    """The parts that columns of a batch ask for; None for complete values."""
    if not part:
        return None
    result: list[ByteRange | None] = []
    for start, count in zip(*(batch.column(name).to_pylist() for name in part), strict=True):
        if min(start or 0, count or 0) < 0:
            raise InvalidInputError(f"no bytes [{start}, {start} + {count}) of a blob: neither may be negative")
        result.append(None if start is None or count is None else ByteRange(start, count))
    return result


@dataclass(frozen=True, slots=True)
class _ReaderArguments:
    """Reads the blobs of a table, which is opened once in each process."""

    table: str
    storage_options: tuple[tuple[str, str], ...]
    allow_external: bool

    def result_of(self, read: Callable[[BlobReader], Result]) -> Result:
        """Result of `read`. The table is opened again if it does not have a partition, which can be younger."""
        try:
            return read(_opened(self))
        except NotFoundError:
            _opened.cache_clear()
            return read(_opened(self))


@lru_cache(maxsize=16)
def _opened(reader: _ReaderArguments) -> BlobReader:
    dataset = open_table(reader.table, storage_options=dict(reader.storage_options))
    return dataset.blob_reader(allow_external_blobs=reader.allow_external)


def _parts(description: Any) -> dict[str, Any] | None:
    if description is None:
        return None
    for method in ("asDict", "to_dict"):
        if hasattr(description, method):
            description = getattr(description, method)()
    if not isinstance(description, Mapping) or not description.keys() >= set(_PARTS):
        shown = ", ".join(_PARTS)
        raise InvalidInputError(f"this is no description of a blob, which has {shown}: {str(description)[:80]}")
    parts = dict(description)
    # A null struct comes to functions of pandas as a row of nulls.
    if parts["source"] is None or parts["kind"] is None or parts["kind"] != parts["kind"]:
        return None
    return {name: int(parts[name]) if name in _PARTS[:4] else parts[name] for name in _PARTS}


class BlobWriter(io.RawIOBase):
    """A binary file that is written from front to back. It exists once it is closed, or not at all.

    Use it as a context manager: an error inside discards what was written.

    Args:
        store: the root of a table.
    """

    def __init__(self, store: ObjectStore) -> None:
        super().__init__()
        path = sidecar_path(f"{DATA}/{new_data_file_name()}", 1)
        self._uri = below(absolute_uri(store.uri), path)
        self._output = store.open_output(path)
        self._pending = bytearray()
        self._is_published = False

    @property
    def uri(self) -> str:
        """URI of the value, for ``blob_ingest``.

        Raises:
            InvalidInputError: the file is not closed, or it was discarded.
        """
        if not self._is_published:
            raise InvalidInputError("a blob has a URI once its file was closed without an error")
        return self._uri

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        """Bytes written so far."""
        return self._output.tell() + len(self._pending)

    def write(self, data: ReadableBuffer) -> int:
        """Appends all of `data`; the number of its bytes."""
        if self.closed:
            raise ValueError("the file is closed")
        view = memoryview(data).cast("B")
        if len(self._pending) + len(view) > _PIECE_BYTES:
            self._flush_pending()
        if len(view) > _PIECE_BYTES:
            self._output.write(view)
        else:
            self._pending += view
        return len(view)

    def close(self) -> None:
        """Publishes the value durably; a no-op for a file that is closed already."""
        if self.closed:
            return
        try:
            self._flush_pending()
            self._output.close()
            self._is_published = True
        finally:
            self.discard()

    def discard(self) -> None:
        """Closes the file without the value."""
        if not self.closed:
            self._output.abort()
            super().close()

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        if kind is not None:
            self.discard()
        self.close()

    def __del__(self) -> None:
        # What nobody has closed is not complete.
        if hasattr(self, "_output"):
            self.discard()

    def _flush_pending(self) -> None:
        if self._pending:
            self._output.write(bytes(self._pending))
            self._pending = bytearray()
