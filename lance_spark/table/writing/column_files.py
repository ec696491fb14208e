"""Data files with new columns for existing fragments (Lance table format specification, "Data Evolution").

The files of a fragment are aligned by row offset, so a new file has a row for each row of the fragment, including
deleted ones. The values of deleted rows do not matter: null, or the value of a nearby row if null is not allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark._proto import table_pb2
from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import InvalidInputError, LanceError
from lance_spark.expr.values import no_rows
from lance_spark.file.writer import FileWriter
from lance_spark.file_version import FileVersion
from lance_spark.layouts.arrow_take import take_chunked
from lance_spark.layouts.base import RowRanges
from lance_spark.schema.arrow import to_arrow_field, to_arrow_schema
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.deletion import delete_quietly
from lance_spark.table.bases import Bases
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.base import without_columns
from lance_spark.table.paths import DATA, new_data_file_name
from lance_spark.table.reading.fragment_columns import SelectedFields
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.scan import DEFAULT_BATCH_ROWS, DEFAULT_WINDOW_BYTES
from lance_spark.table.reading.window import Window
from lance_spark.table.rows.fragment import DataFile, DataFragment, FragmentId, FragmentList

_PIECE_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class PlacedBatch:
    """Values of some rows of a fragment.

    Attributes:
        offsets: int64[n], ascending: their row offsets.
        batch: n rows.
    """

    offsets: Int64Array
    batch: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class NewColumns:
    """New columns of a fragment.

    Attributes:
        schema: the columns, inside their parent fields.
        batches: values for rows of the fragment, in row order.
    """

    schema: LanceSchema
    batches: Iterator[PlacedBatch]


Values = Callable[[DataFragment, Bases], NewColumns | None]
"""The columns of a new file of a fragment; None for no file."""


@dataclass(frozen=True, slots=True)
class _Source:
    """The parts of a fragment that determine values: deleted rows are ignored."""

    id: FragmentId
    files: tuple[DataFile, ...]


class ColumnFiles:
    """Files with columns for the fragments of a version, which a commit makes for each version that it is based on.

    A fragment with unchanged data files keeps the file that was written for it.

    Args:
        file_version: of a file with these columns.
    """

    def __init__(
        self, table: TableLocation, values: Values, file_version: Callable[[LanceSchema], FileVersion]
    ) -> None:
        self._table = table
        self._values = values
        self._file_version = file_version
        self._files: dict[_Source, DataFile | None] = {}

    @property
    def paths(self) -> frozenset[str]:
        """The files that were written."""
        return frozenset(file.path for file in self._files.values() if file is not None)

    def added_to(self, manifest: Manifest) -> FragmentList:
        """The fragments of a version with their files; columns that these hold count no more in other files."""
        bases = self._table.bases(manifest)
        return FragmentList(
            self._with_file(message, manifest.fragments[place], bases)
            for place, message in enumerate(manifest.fragments.messages)
        )

    def _with_file(
        self, message: table_pb2.DataFragment, fragment: DataFragment, bases: Bases
    ) -> table_pb2.DataFragment:
        source = _Source(fragment.id, fragment.files)
        if source not in self._files:
            new = self._values(fragment, bases)
            self._files[source] = None if new is None else self._written(fragment, bases, new)
        file = self._files[source]
        if file is None:
            return message
        copy = without_columns(message, frozenset(file.columns()))
        copy.files.append(file.to_proto())
        return copy

    def _written(self, fragment: DataFragment, bases: Bases, new: NewColumns) -> DataFile:
        num_rows = FragmentReader(fragment, bases).num_rows
        version = self._file_version(new.schema)
        return write_column_file(self._table.store, new.schema, new.batches, num_rows, file_version=version)

    def remove(self, but_those_of: Manifest | None = None) -> None:
        """Removes the files that were written, except those of a version."""
        messages = () if but_those_of is None else but_those_of.fragments.messages
        kept = {file.path for message in messages for file in message.files}
        for path in self.paths - kept:
            delete_quietly(self._table.store, f"{DATA}/{path}")


def physical_batches(reader: FragmentReader, fields: Sequence[Field]) -> Iterator[PlacedBatch]:
    """All rows of a fragment, including deleted ones, with the given columns, nested ones pruned."""
    columns = reader.columns(SelectedFields(tuple(fields)))
    window = Window(DEFAULT_WINDOW_BYTES, DEFAULT_BATCH_ROWS, list(zip(fields, columns.encoded_widths, strict=True)))
    schema = pa.schema([to_arrow_field(field) for field in fields])
    start = 0
    while start < reader.num_rows:
        stop = min(start + window.num_rows, reader.num_rows)
        table = pa.Table.from_arrays(columns.read(RowRanges.of(start, stop)), schema=schema)
        window.adapt(stop - start, table.nbytes)
        for batch in table.combine_chunks().to_batches():
            yield PlacedBatch(np.arange(start, start + batch.num_rows), batch)
            start += batch.num_rows


def write_column_file(
    store: ObjectStore,
    schema: LanceSchema,
    batches: Iterable[PlacedBatch],
    num_rows: int,
    *,
    file_version: FileVersion,
    job: str | None = None,
) -> DataFile:
    """A new data file of `num_rows` rows with the values of `batches` at their offsets. On an error no file is left.

    Args:
        store: the table's root.
        schema: the columns, with the table's field ids; the batches have its Arrow types.
        batches: in row order.
        job: the write job of this file (`paths.new_job`).

    Raises:
        InvalidInputError: a batch does not match the schema, or an offset is outside of the fragment.
        UnsupportedFeatureError: files of this version do not support the schema.
        StorageError: the store failed.
    """
    path = f"{DATA}/{new_data_file_name(job)}"
    try:
        with FileWriter(store, path, schema, version=file_version) as writer:
            for batch in _aligned(batches, to_arrow_schema(schema), num_rows):
                writer.write(batch)
            written = writer.close()
    except LanceError:
        # Publishing may have reported a failure after it succeeded.
        delete_quietly(store, path)
        raise
    return DataFile(
        path=written.path.removeprefix(f"{DATA}/"),
        fields=written.field_ids,
        column_indices=written.column_indices,
        version=written.version,
        size_bytes=written.size_bytes,
    )


def _aligned(batches: Iterable[PlacedBatch], schema: pa.Schema, num_rows: int) -> Iterator[pa.RecordBatch]:
    """Batches with a row for every offset, in order."""
    start = 0
    last: pa.Table | None = None
    for placed in batches:
        if len(placed.offsets) != placed.batch.num_rows:
            raise InvalidInputError(f"{placed.batch.num_rows} rows of new columns for {len(placed.offsets)} rows")
        if not len(placed.offsets):
            continue
        stop = int(placed.offsets[-1]) + 1
        if int(placed.offsets[0]) < start or stop > num_rows or not bool((np.diff(placed.offsets) > 0).all()):
            raise InvalidInputError(f"rows to write are not in order, or beyond the {num_rows} rows of the fragment")
        table = pa.Table.from_batches([placed.batch])
        yield from _spread(table, placed.offsets - start, stop - start)
        start, last = stop, table.slice(table.num_rows - 1)
    if start < num_rows:
        filler = pa.Table.from_batches([no_rows(schema)]) if last is None else last
        yield from _spread(filler, np.zeros(filler.num_rows, np.int64) - 1, num_rows - start)


def _spread(table: pa.Table, places: Int64Array, num_rows: int) -> Iterator[pa.RecordBatch]:
    """`num_rows` rows, those of `table` at `places` (-1: omitted); null or a value of `table` between them."""
    if table.num_rows == num_rows and (num_rows == 0 or places[0] == 0):
        yield from table.to_batches()
        return
    sources = np.full(num_rows, -1, np.int64)
    inside = places >= 0
    sources[places[inside]] = np.flatnonzero(inside)
    for begin in range(0, num_rows, _PIECE_ROWS):
        part = sources[begin : begin + _PIECE_ROWS]
        columns = [_take(table.column(number), part, table.schema.field(number)) for number in range(table.num_columns)]
        yield from pa.Table.from_arrays(columns, schema=table.schema).combine_chunks().to_batches()


def _take(column: pa.ChunkedArray, sources: Int64Array, field: pa.Field) -> pa.ChunkedArray:
    if field.nullable:
        chunks = [*column.chunks, pa.nulls(1, column.type)]
        return take_chunked(pa.chunked_array(chunks, column.type), np.where(sources < 0, len(column), sources))
    if len(column) == 0:
        raise InvalidInputError(f"column {field.name!r} must not be null, but no row of a fragment has a value for it")
    before = np.maximum.accumulate(sources)
    return take_chunked(column, np.maximum(before, 0))
