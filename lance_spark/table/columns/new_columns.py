"""Values of new columns from user input: SQL text, a function, or rows with keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import InvalidInputError
from lance_spark.expr.columns import resolve_names
from lance_spark.expr.evaluate import evaluate_column
from lance_spark.expr.nodes import Expr, quote_name, referenced_columns
from lance_spark.expr.values import no_rows
from lance_spark.file.batches import has_view
from lance_spark.layouts.arrow_take import take_chunked
from lance_spark.schema.arrow import from_arrow_field, to_arrow_field, to_arrow_schema, to_arrow_type
from lance_spark.schema.blob import BLOB_KEY
from lance_spark.schema.evolution import as_nested
from lance_spark.schema.extension import EXTENSION_KEYS
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.schema.projection import dotted, parse_path
from lance_spark.table.reading.scan import DEFAULT_BATCH_ROWS
from lance_spark.table.reading.shown_types import shown_batches
from lance_spark.table.row_level.key_index import KeyIndex
from lance_spark.table.writing.conform import is_blob_type
from lance_spark.table.writing.row_source import RowSource
from lance_spark.text import check_text, shown_values

# Keys are looked up for many rows at a time, because of the overhead per call.
_MANY_ROWS = 1 << 20

BatchFunction = Callable[[pa.RecordBatch], pa.RecordBatch]


class ColumnSource(Protocol):
    """The source of the values of new columns.

    Attributes:
        fields: the new fields, by path.
        read_columns: the required input columns; None for all.
    """

    @property
    def fields(self) -> Mapping[str, pa.Field]: ...

    @property
    def read_columns(self) -> Sequence[str] | None: ...

    @property
    def batch_rows(self) -> int | None:
        """The number of input rows per call; None for the user's choice."""

    def pieces(self, batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, Mapping[str, pa.Array]]]:
        """Slices of `batch`, which has the input columns, each with the values of each new field for its rows."""


@dataclass(frozen=True, slots=True)
class SqlColumns:
    """Columns computed by expressions."""

    fields: Mapping[str, pa.Field]
    read_columns: Sequence[str]
    expressions: Mapping[str, Expr]

    @classmethod
    def of(cls, expressions: Mapping[str, Expr], known: pa.Schema) -> SqlColumns:
        """The columns of these expressions over columns of `known`.

        Raises:
            NotFoundError: a column does not exist.
            InvalidInputError: types are incompatible, or an expression has no type.
        """
        empty = no_rows(known)
        fields: dict[str, pa.Field] = {}
        read: dict[str, None] = {}
        for path, expression in expressions.items():
            check_text(path, "the name of a column")
            fields[path] = _computed_field(path, evaluate_column(expression, empty)[1])
            for names in referenced_columns(expression):
                read[".".join(quote_name(name) for name in resolve_names(known, names))] = None
        return cls(fields, list(read), expressions)

    @property
    def batch_rows(self) -> None:
        return None

    def pieces(self, batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, Mapping[str, pa.Array]]]:
        yield batch, {path: evaluate_column(expression, batch)[0] for path, expression in self.expressions.items()}


def _computed_field(path: str, value: pa.Field) -> pa.Field:
    """The new field for values of this one."""
    if pt.is_null(value.type):
        raise InvalidInputError(f"{path!r} has no type; write CAST(NULL AS ...), or add a field without values")
    metadata = {key: text for key, text in (value.metadata or {}).items() if key in EXTENSION_KEYS}
    field = pa.field(path, value.type, metadata=metadata or None)
    if BLOB_KEY.encode() in (value.metadata or {}) or is_blob_type(field):
        raise InvalidInputError(
            f"{path!r} would copy the descriptions of blobs; give a function that returns the bytes"
        )
    return field


@dataclass(frozen=True, slots=True)
class FunctionColumns:
    """Columns computed by a function over batches."""

    fields: Mapping[str, pa.Field]
    read_columns: Sequence[str] | None
    function: BatchFunction
    given: tuple[str, ...]

    @property
    def batch_rows(self) -> None:
        return None

    def pieces(self, batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, Mapping[str, pa.Array]]]:
        result = called(self.function, batch.select(list(self.given)))
        if set(result.schema.names) != set(self.fields):
            raise InvalidInputError(
                f"the function gave the columns {result.schema.names}, and {list(self.fields)} are to be added"
            )
        yield batch, dict(zip(result.schema.names, result.columns, strict=True))


def called(function: BatchFunction, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The result of a function for a batch, in stored form; the function gets JSON columns as text.

    Raises:
        InvalidInputError: it is not a batch, or has another number of rows.
    """
    result = function(*shown_batches([batch]))
    if isinstance(result, pa.Table):
        batches = result.combine_chunks().to_batches()
        result = batches[0] if len(batches) == 1 else result
    if not isinstance(result, pa.RecordBatch):
        raise InvalidInputError(f"a function for new columns gives a RecordBatch, not a {type(result).__name__}")
    if result.num_rows != batch.num_rows:
        raise InvalidInputError(f"a function for new columns gave {result.num_rows} rows for {batch.num_rows}")
    return next(RowSource.of(result).batches)


@dataclass(frozen=True, slots=True)
class KeyedColumns:
    """Columns of rows joined by keys; null without a match."""

    fields: Mapping[str, pa.Field]
    read_columns: Sequence[str]
    keys: tuple[pa.Field, ...]
    index: KeyIndex
    places: Int64Array
    rows: pa.Table

    @classmethod
    def of(cls, rows: pa.Table, on: Sequence[str], known: pa.Schema) -> KeyedColumns:
        """The columns of `rows` except the keys `on`, which `known` has too.

        Raises:
            NotFoundError: the table does not have a key.
            InvalidInputError: a key that `rows` lack, with duplicate values, or of another type.
        """
        missing = [name for name in on if name not in rows.column_names]
        if missing or not on or len(set(rows.column_names)) != rows.num_columns:
            raise InvalidInputError(f"rows with the columns {rows.column_names} have no key {missing or list(on)}")
        for name in on:
            resolve_names(known, (name,))
        names = [name for name in rows.column_names if name not in on]
        keys = tuple(known.field(name) for name in on)
        columns = [_fitting(rows.column(key.name), key, key.name) for key in keys]
        index = KeyIndex(columns, list(on))
        twice = np.flatnonzero(index.counts() > 1)
        if len(twice):
            place = int(index.first_rows()[twice[0]])
            row = dict(zip(on, shown_values(column[place] for column in columns), strict=True))
            raise InvalidInputError(f"more than one row has the key {row}")
        fields = {name: rows.schema.field(name) for name in names}
        read = [quote_name(name) for name in on]
        values = pa.table({name: _takeable(rows.column(name), field) for name, field in fields.items()})
        return cls(fields, read, keys, index, index.first_rows(), values)

    @property
    def batch_rows(self) -> int:
        return _MANY_ROWS

    def pieces(self, batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, Mapping[str, pa.Array]]]:
        numbers = self.index.find([batch.column(key.name) for key in self.keys])
        places = np.full(len(numbers), self.rows.num_rows, np.int64)
        places[numbers >= 0] = self.places[numbers[numbers >= 0]]
        columns = {
            name: pa.chunked_array([*column.chunks, pa.nulls(1, column.type)], column.type)
            for name, column in zip(self.rows.column_names, self.rows.columns, strict=True)
        }
        # Values can be much wider than keys.
        for start in range(0, len(places), DEFAULT_BATCH_ROWS):
            part = places[start : start + DEFAULT_BATCH_ROWS]
            yield (
                batch.slice(start, len(part)),
                {name: _one(take_chunked(column, part)) for name, column in columns.items()},
            )


def _takeable(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """The column without views, of which Arrow takes no values."""
    return column.cast(to_arrow_type(from_arrow_field(field, first_id=0))) if has_view(field.type) else column


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays([*column.chunks, pa.nulls(0, column.type)])


def arrow_fields(schema: LanceSchema, fields: Mapping[str, pa.Field]) -> pa.Schema:
    """The new fields as nullable parts of top-level ones. Raises as `evolution.as_nested`."""
    return pa.schema([as_nested(schema, path, field.with_nullable(True)) for path, field in fields.items()])


def around(schema: LanceSchema, added: LanceSchema) -> list[str]:
    """Paths of columns from which the nulls of structs with new members are read.

    Raises:
        InvalidInputError: a new field is inside a list, where values cannot be assigned to rows.
    """
    by_id = {node.id: node for node in schema.walk()}
    paths = []

    def visit(field: Field, names: tuple[str, ...]) -> None:
        if field.id not in by_id:
            return
        if field.logical_type != "struct":
            raise InvalidInputError(
                f"{dotted(names)!r} is a {field.logical_type}: what is in it can be added as null only"
            )
        paths.append(_first_leaf(by_id[field.id], names))
        for child in field.children:
            visit(child, (*names, child.name))

    for top in added.fields:
        visit(top, (top.name,))
    return [".".join(quote_name(name) for name in path) for path in paths]


def _first_leaf(field: Field, names: tuple[str, ...]) -> tuple[str, ...]:
    while field.logical_type == "struct" and field.children:
        field = field.children[0]
        names = (*names, field.name)
    return names


class Assembler:
    """Assembles values of new fields into batches of the columns of new files.

    Args:
        schema: the table's old schema.
        added: the new fields, inside their parent fields.
    """

    def __init__(self, schema: LanceSchema, added: LanceSchema) -> None:
        self._known = {node.id for node in schema.walk()}
        self._added = added
        self._arrow_schema = to_arrow_schema(added)

    def __call__(self, batch: pa.RecordBatch, values: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """A batch of the new columns; existing structs are null where they are null in `batch`.

        Raises:
            InvalidInputError: a value does not match its column.
        """
        by_path = {parse_path(path): array for path, array in values.items()}
        arrays = []
        for field in self._added.fields:
            there = batch.column(field.name) if field.id in self._known else None
            arrays.append(self._array(field, (field.name,), there, by_path))
        return pa.RecordBatch.from_arrays(arrays, schema=self._arrow_schema)

    def _array(
        self, field: Field, names: tuple[str, ...], there: pa.Array | None, given: Mapping[tuple[str, ...], pa.Array]
    ) -> pa.Array:
        if there is None:
            return _fitting(given[names], to_arrow_field(field), dotted(names))
        children = []
        for child in field.children:
            below = there.field(child.name) if child.id in self._known else None
            children.append(self._array(child, (*names, child.name), below, given))
        mask = there.is_null() if there.null_count else None
        return pa.StructArray.from_arrays(
            children, fields=[to_arrow_field(child) for child in field.children], mask=mask
        )


def _fitting(array: pa.Array | pa.ChunkedArray, field: pa.Field, path: str) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        array = _one(array)
    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    if array.type == field.type:
        return array
    try:
        return array.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(f"a value does not fit into column {path!r} of type {field.type}: {error}") from error
