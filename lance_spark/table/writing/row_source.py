"""Rows from any Python object with tabular data, as a schema and a stream of batches."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.table.reading.exchange_verbs import ExchangeVerbs, Scanner
from lance_spark.table.writing.conform import converted, stored_field
from lance_spark.table.writing.python_values import table_of_columns, table_of_rows

_PANDAS_METADATA = b"pandas"
_PIECE_BYTES = 512 << 20
_PIECE_ROWS = 1 << 20
_TAKEN = (
    "a Table, RecordBatch, RecordBatchReader, Dataset or Scanner of pyarrow, a pandas DataFrame, anything that exports "
    "Arrow data, a list of dicts, a dict of columns, or an iterable of batches"
)


@dataclass(frozen=True, slots=True)
class RowSource:
    """Rows to write; `batches` can be iterated once."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]

    @classmethod
    def of(cls, data: Any, schema: pa.Schema | None = None) -> RowSource:
        """The rows of `data`, in types that Lance has where there is one with the same values.

        Args:
            data: a Table, RecordBatch, RecordBatchReader, Dataset or Scanner of pyarrow; a pandas DataFrame, whose
                index is a column unless it is a range; anything that exports an Arrow stream or array
                (``__arrow_c_stream__``, ``__arrow_c_array__``); a list of dicts, a dict of columns; or an iterable of
                RecordBatches or of other tables in one schema. Streams are read as they are written. Of a table of this
                library, and of a scanner that does not say otherwise, blobs are their bytes.
            schema: the types of Python values; required for an iterable that may be empty; otherwise the expected
                schema of the batches.

        Raises:
            InvalidInputError: an unsupported object, or the schema is missing.
        """
        if isinstance(data, RowSource):
            return data
        return cls._given(data, schema)._in_stored_types()

    def _in_stored_types(self) -> RowSource:
        given = list(self.schema)
        fields = [stored_field(field) for field in given]
        if all(field is kept for field, kept in zip(given, fields, strict=True)):
            return self
        stored = pa.schema(fields, metadata=self.schema.metadata)
        return RowSource(stored, (self._stored(piece, stored) for batch in self.batches for piece in _pieces(batch)))

    def _stored(self, batch: pa.RecordBatch, stored: pa.Schema) -> pa.RecordBatch:
        if not batch.schema.equals(self.schema):
            raise InvalidInputError("the batches to write differ in their schemas")
        columns = [
            array if field == kept else _converted(array, kept)
            for array, field, kept in zip(batch.columns, self.schema, stored, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=stored)

    @classmethod
    def _given(cls, data: Any, schema: pa.Schema | None) -> RowSource:
        if isinstance(data, pa.RecordBatch):
            return cls._checked(data.schema, iter([data]), schema)
        if isinstance(data, pa.Table):
            return cls._checked(data.schema, iter(data.to_batches()), schema)
        if _is_pandas(data):
            return cls._given(_from_pandas(data, schema), schema)
        if isinstance(data, Mapping):
            return cls._given(table_of_columns(data, schema), schema)
        if isinstance(data, (list, tuple)) and data and all(isinstance(row, Mapping) for row in data):
            return cls._given(table_of_rows(data, schema), schema)
        reader = _reader(data)
        if reader is not None:
            return cls._checked(reader.schema, iter(reader), schema)
        if isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
            return cls._from_iterable(data, schema)
        raise InvalidInputError(f"cannot write a {type(data).__name__}; give {_TAKEN}")

    @classmethod
    def _from_iterable(cls, data: Iterable[Any], schema: pa.Schema | None) -> RowSource:
        batches = _batches(data)
        if schema is None:
            first = next(batches, None)
            if first is None:
                raise InvalidInputError("an iterable without batches has no schema; give one")
            batches = chain([first], batches)
            schema = first.schema
        return cls(schema, batches)

    @classmethod
    def _checked(cls, own: pa.Schema, batches: Iterator[pa.RecordBatch], schema: pa.Schema | None) -> RowSource:
        if schema is not None and not own.equals(schema):
            raise InvalidInputError("the data has another schema than the one given; cast it first")
        return cls(own, batches)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in parts whose texts fit into one array once they are converted."""
    rows = min(_PIECE_ROWS, max(1, batch.num_rows * _PIECE_BYTES // max(batch.nbytes, 1)))
    for start in range(0, max(batch.num_rows, 1), rows):
        yield batch.slice(start, rows)


def _converted(array: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return converted(array, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(
            f"column {field.name!r} of type {array.type} cannot be written as {field.type}: {error}"
        ) from error


def _is_pandas(data: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(data, pandas.DataFrame)


def _from_pandas(frame: Any, schema: pa.Schema | None) -> pa.Table:
    if schema is not None:
        unknown = [name for name in map(str, frame.columns) if name not in schema.names]
        if unknown:
            raise InvalidInputError(f"the DataFrame has a column {unknown[0]!r}, which the schema given does not have")
    try:
        table = pa.Table.from_pandas(frame, schema=schema)
    except (pa.ArrowException, TypeError, ValueError, KeyError) as error:
        raise InvalidInputError(f"the DataFrame has no Arrow form: {error}") from error
    metadata = {key: value for key, value in (table.schema.metadata or {}).items() if key != _PANDAS_METADATA}
    return table.replace_schema_metadata(metadata or None)


def _reader(data: Any) -> pa.RecordBatchReader | None:
    """The batches of an object with Arrow data; None for other objects."""
    if isinstance(data, pa.RecordBatchReader):
        return data
    if isinstance(data, ExchangeVerbs):
        data = data.scanner()
    if isinstance(data, Scanner):
        return data.with_values.to_reader()
    _refuse_pointers(data)
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data)
        if hasattr(data, "__arrow_c_array__"):
            batch = pa.record_batch(data)
            return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(f"the Arrow data of a {type(data).__name__} is no table: {error}") from error
    # Datasets and scanners of pyarrow. Their module is not imported for its classes: that takes long.
    if hasattr(data, "scanner"):
        return _reader(data.scanner())
    return data.to_reader() if hasattr(data, "to_reader") else None


def _refuse_pointers(data: Any) -> None:
    """Refuses the Python objects of a polars DataFrame, which it exports as the bytes of their addresses."""
    if type(data).__module__.partition(".")[0] == "polars":
        objects = [name for name, dtype in getattr(data, "schema", {}).items() if str(dtype) == "Object"]
        if objects:
            raise InvalidInputError(f"column {objects[0]!r} has Python objects, which have no Arrow form")


def _batches(data: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    for item in data:
        if isinstance(item, (str, bytes, Mapping)):
            raise InvalidInputError(f"an iterable of batches has a {type(item).__name__} in it; give {_TAKEN}")
        try:
            rows = RowSource._given(item, None)
        except InvalidInputError as error:
            raise InvalidInputError(f"in an iterable of batches: {error}") from error
        yield from rows.batches
