"""Rows on their way into a table: identity values, types, text lengths, generated columns, then CHECK constraints.

The driver builds one `RowPipeline` for the rows of a write, an UPDATE or a MERGE. Each task starts a `TaskRows` of it.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import Column
from lance_spark.schema.arrow import to_arrow_field
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.generated import generated_of
from lance_spark.schema.text_type import TEXT_TYPE, text_type
from lance_spark.table.writing.checks import RowChecks, nullable_rows, parsed_generation
from lance_spark.table.writing.conform import Conformer
from lance_spark.table.writing.identity import IdentityColumns, IdentityValues, UsedByTask

_MAX_RECENT = 8
_recent: tuple[RowPipeline, ...] = ()
"""Pipelines of the last appends, the newest last: building one is a tenth of an append to a wide table."""


class RowPipeline:
    """Completes and checks rows of one schema for a table. Travels to the tasks.

    Args:
        table: all columns of the table.
        columns: the columns of the rows.
        identity: the identity columns, whose values new rows get.

    Attributes:
        schema: the columns of complete rows, with their field ids: those of the rows, identity and generated ones.

    Raises:
        InvalidInputError: an unknown column, a column of another type, or a missing column that is not nullable.
        UnsupportedFeatureError: a CHECK constraint or a generated column of the table cannot be enforced.
    """

    def __init__(self, table: LanceSchema, columns: pa.Schema, identity: IdentityColumns | None = None) -> None:
        self._table = table
        self._given = columns
        self._identity = identity or IdentityColumns()
        columns = self._identity.with_columns(columns)
        self._generated = GeneratedValues(table, set(columns.names))
        self._conform = Conformer(table, columns, self._generated.names)
        written = {*columns.names, *self._generated.names}
        self.schema = LanceSchema(tuple(field for field in table.fields if field.name in written), dict(table.metadata))
        self._limited = [target for target in self._conform.targets if has_length(target)]
        self._checks = RowChecks(table)

    @classmethod
    def of(cls, table: LanceSchema, columns: pa.Schema, identity: IdentityColumns | None = None) -> RowPipeline:
        """A pipeline for these schemas: a recent one, if the columns and the metadata of both are equal to its own."""
        global _recent
        if identity:
            return cls(table, columns, identity)
        for recent in _recent:
            if recent._is_for(table, columns):
                return recent
        new = cls(table, columns)
        if not new._checks.has_moment:
            # Threads may lose a pipeline of each other, which is then built again.
            _recent = (*_recent[1 - _MAX_RECENT :], new)
        return new

    def _is_for(self, table: LanceSchema, columns: pa.Schema) -> bool:
        # Versions with equal columns have the same tuple of them.
        is_same_table = self._table.fields is table.fields and self._table.metadata == table.metadata
        return is_same_table and bool(self._given.equals(columns, check_metadata=True))

    def start(self, task: int = 0, num_tasks: int = 1) -> TaskRows:
        """The pipeline for the rows of one task."""
        return TaskRows(self, self._identity.values(task, num_tasks) if self._identity else None)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Complete rows in the table's types and order; they have their identity values already.

        Raises:
            InvalidInputError: the schema of the batch differs from the first one's, a string is longer than its
                column's CHAR(n) or VARCHAR(n), or a row violates a CHECK constraint or the expression of a generated
                column.
        """
        rows = self._conform(batch)
        for target in self._limited:
            check_lengths(rows.column(target.name), target, target.name)
        rows = self._generated(rows)
        self._checks(rows)
        return rows


class TaskRows:
    """The pipeline of one task, which numbers its identity values."""

    def __init__(self, pipeline: RowPipeline, values: IdentityValues | None) -> None:
        self._pipeline = pipeline
        self._values = values

    def __call__(self, batch: pa.RecordBatch, is_new: npt.NDArray[np.bool_] | None = None) -> pa.RecordBatch:
        """Complete rows in the table's types and order. Raises as `RowPipeline` and `IdentityValues`.

        Args:
            is_new: bool[n]: rows that get identity values; None for all.
        """
        return self._pipeline(batch if self._values is None else self._values(batch, is_new))

    def used(self) -> UsedByTask | None:
        """The identity values taken so far; None if there are no identity columns."""
        return None if self._values is None else self._values.used()


class GeneratedValues:
    """Adds the generated columns that rows lack.

    Args:
        schema: all columns of the table.
        present: the columns that the rows have.

    Raises:
        UnsupportedFeatureError: an expression is not supported.
    """

    def __init__(self, schema: LanceSchema, present: Collection[str]) -> None:
        missing = {name: text for name, text in generated_of(schema).items() if name not in present}
        self._expressions = {name: parsed_generation(name, text) for name, text in missing.items()}
        nodes = [node for expression in self._expressions.values() for node in expression.walk()]
        used = {node.path[0].lower() for node in nodes if isinstance(node, Column)}
        fields = {field.name: to_arrow_field(field) for field in schema.fields} if missing else {}
        self._used = [field for name, field in fields.items() if name.lower() in used]
        self._targets = [fields[name] for name in missing]
        self._order = [name for name in fields if name in present or name in missing]

    @property
    def names(self) -> Collection[str]:
        """The columns that are added."""
        return self._expressions.keys()

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the columns, in the table's order.

        Raises:
            InvalidInputError: an expression fails on a row, or its value does not fit the column.
        """
        if not self._targets:
            return rows
        from lance_spark.expr.evaluate import evaluate

        read = nullable_rows(rows, self._used)
        for target in self._targets:
            try:
                values = evaluate(self._expressions[target.name], read).cast(target.type)
            except pa.ArrowInvalid as error:
                raise InvalidInputError(
                    f"a value of the generated column {target.name!r} does not fit into {target.type}: {error}"
                ) from error
            rows = rows.append_column(target, values)
        return rows.select(self._order)


def has_length(field: pa.Field) -> bool:
    """True if `field` or a field inside of it is CHAR(n) or VARCHAR(n)."""
    if text_type((field.metadata or {}).get(TEXT_TYPE)) is not None:
        return True
    return any(has_length(field.type.field(number)) for number in range(field.type.num_fields))


def check_lengths(array: pa.Array, field: pa.Field, path: str) -> None:
    """Passes if no value is longer, in characters, than `field` allows; `array` has its type.

    Raises:
        InvalidInputError: a value is too long; the message has the column, `path`, and both lengths.
    """
    if not has_length(field):
        return
    dtype = field.type
    if pt.is_struct(dtype):
        for child, values in zip(dtype, array.flatten(), strict=True):
            check_lengths(values, child, f"{path}.{child.name}")
    elif pt.is_map(dtype):
        start, stop = array.offsets[0].as_py(), array.offsets[-1].as_py()
        check_lengths(array.keys.slice(start, stop - start), dtype.key_field, f"{path}.key")
        check_lengths(array.items.slice(start, stop - start), dtype.item_field, f"{path}.value")
    elif dtype.num_fields:
        check_lengths(array.flatten(), dtype.value_field, f"{path}.{dtype.value_field.name}")
    else:
        _check_strings(array, field, path)


def _check_strings(array: pa.Array, field: pa.Field, path: str) -> None:
    import pyarrow.compute as pc

    declared = text_type((field.metadata or {}).get(TEXT_TYPE))
    strings = array.dictionary_decode() if pt.is_dictionary(array.type) else array
    longest = pc.max(pc.utf8_length(strings)).as_py() if len(strings) else None
    if declared is not None and longest is not None and longest > declared.length:
        raise InvalidInputError(
            f"column {path!r} is {declared}, and a value has {longest} characters; shorten it, or make the "
            "column a longer VARCHAR"
        )
