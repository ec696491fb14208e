"""Rows from any Python object with Arrow data, as a schema and a stream of batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import InvalidInputError
from lance_spark.schema.extension import is_json_text, storage
from lance_spark.table.writing.conform import converted

_PANDAS_METADATA = b"pandas"


@dataclass(frozen=True, slots=True)
class RowSource:
    """Rows to write; `batches` can be iterated once."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]

    @classmethod
    def of(cls, data: Any, schema: pa.Schema | None = None) -> RowSource:
        """The rows of `data`; JSON text (`arrow.json`) in the form of JSON columns.

        Args:
            data: a Table, RecordBatch or RecordBatchReader of pyarrow, a pandas DataFrame, anything that exports an
                Arrow stream (``__arrow_c_stream__``), or an iterable of RecordBatches.
            schema: required for an iterable that may be empty; otherwise the expected schema of the batches.

        Raises:
            InvalidInputError: an unsupported object, or the schema is missing.
        """
        if isinstance(data, RowSource):
            return data
        return cls._given(data, schema)._with_json_documents()

    def _with_json_documents(self) -> RowSource:
        given = list(self.schema)
        fields = [_stored_field(field) for field in given]
        if all(field is kept for field, kept in zip(given, fields, strict=True)):
            return self
        stored = pa.schema(fields, metadata=self.schema.metadata)
        return RowSource(stored, (self._stored(batch, stored) for batch in self.batches))

    def _stored(self, batch: pa.RecordBatch, stored: pa.Schema) -> pa.RecordBatch:
        if not batch.schema.equals(self.schema):
            raise InvalidInputError("the batches to write differ in their schemas")
        columns = [
            array if field == kept else converted(array, kept.type)
            for array, field, kept in zip(batch.columns, self.schema, stored, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=stored)

    @classmethod
    def _given(cls, data: Any, schema: pa.Schema | None) -> RowSource:
        if isinstance(data, pa.RecordBatch):
            return cls._checked(data.schema, iter([data]), schema)
        if isinstance(data, pa.Table):
            return cls._checked(data.schema, iter(data.to_batches()), schema)
        if type(data).__module__.partition(".")[0] == "pandas":
            return cls._given(_from_pandas(data, schema), schema)
        if isinstance(data, pa.RecordBatchReader):
            return cls._checked(data.schema, iter(data), schema)
        if hasattr(data, "__arrow_c_stream__"):
            reader = pa.RecordBatchReader.from_stream(data)
            return cls._checked(reader.schema, iter(reader), schema)
        if isinstance(data, Iterable) and not isinstance(data, (str, bytes, dict)):
            return cls._from_iterable(data, schema)
        raise InvalidInputError(
            f"cannot write a {type(data).__name__}; give a pyarrow Table, RecordBatch or RecordBatchReader, a pandas "
            "DataFrame, or an iterable of RecordBatches"
        )

    @classmethod
    def _from_iterable(cls, data: Iterable[Any], schema: pa.Schema | None) -> RowSource:
        batches = _only_batches(data)
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


def _stored_field(field: pa.Field) -> pa.Field:
    """`field` with JSON text as binary documents, at every level of nesting."""
    dtype = field.type
    if is_json_text(field):
        dtype, metadata = storage(field)
        return pa.field(field.name, dtype, field.nullable, metadata=metadata)
    if not dtype.num_fields:
        return field
    if pt.is_struct(dtype):
        dtype = pa.struct([_stored_field(child) for child in dtype])
    elif pt.is_list(dtype) or pt.is_large_list(dtype):
        flavour = pa.list_ if pt.is_list(dtype) else pa.large_list
        dtype = flavour(_stored_field(dtype.value_field))
    elif pt.is_fixed_size_list(dtype):
        dtype = pa.list_(_stored_field(dtype.value_field), dtype.list_size)
    elif pt.is_map(dtype):
        dtype = pa.map_(dtype.key_field, _stored_field(dtype.item_field))
    return field if dtype == field.type else field.with_type(dtype)


def _from_pandas(frame: Any, schema: pa.Schema | None) -> pa.Table:
    try:
        table = pa.Table.from_pandas(frame, schema=schema, preserve_index=False)
    except (pa.ArrowException, TypeError) as error:
        raise InvalidInputError(f"the DataFrame has no Arrow form: {error}") from error
    metadata = {key: value for key, value in (table.schema.metadata or {}).items() if key != _PANDAS_METADATA}
    return table.replace_schema_metadata(metadata or None)


def _only_batches(data: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    for item in data:
        if isinstance(item, pa.Table):
            yield from item.to_batches()
        elif isinstance(item, pa.RecordBatch):
            yield item
        else:
            raise InvalidInputError(f"an iterable of batches has a {type(item).__name__} in it")
