"""Updates: columns, or fields of structs, get other values in the rows for which a filter is true.

Changed rows are written with all their columns into new fragments and deleted from their old ones, or stay in their
fragment, which gets a new file of the changed columns (`column_updates`). All values are computed from the row as it
was before. A field of a struct that is null makes it a struct whose other fields are null, as in Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.assign import assigned
from lance_spark.expr.literals import literal
from lance_spark.expr.nodes import Column, Expr
from lance_spark.expr.sql.parse import parse
from lance_spark.expr.values import no_rows
from lance_spark.layouts.arrow_take import take
from lance_spark.schema.arrow import to_arrow_field, to_arrow_type
from lance_spark.schema.blob import is_blob_v1
from lance_spark.schema.columns import is_blob
from lance_spark.schema.field import Field, FieldId, LanceSchema
from lance_spark.schema.projection import FieldFinder
from lance_spark.table.commits.retry import cleanup_on_failure
from lance_spark.table.reading.index_candidates import Candidates
from lance_spark.table.reading.selection import FragmentRows
from lance_spark.table.row_level.column_updates import ColumnUpdate, ColumnUpdater
from lance_spark.table.row_level.delete import split_scan
from lance_spark.table.row_level.row_writer import RowOrigins
from lance_spark.table.row_level.update_mode import RewriteMode
from lance_spark.table.row_level.write_target import Version, WriteTarget, own_blobs
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.rows.row_address import UInt64Array, split_addresses
from lance_spark.table.source import Split
from lance_spark.table.writing.python_values import check_value
from lance_spark.table.writing.row_pipeline import check_lengths
from lance_spark.table.writing.save import CommitOptions


def update_once(
    target: WriteTarget[Version],
    values: Mapping[str, object],
    filter: Expr | None,
    options: CommitOptions,
    mode: str | None = None,
) -> Version:
    """The version after `target` in which columns have other `values` where `filter` is true.

    Args:
        mode: a value of `RewriteMode`; None for that of the table.

    Raises:
        RetryableConflictError: another writer has touched one of the rows.
        Others as `RowVerbs.update`.
    """
    assignments = Assignments(target.lance_schema, values)
    target.identity.check_kept(assignments.columns())
    columns = target.read_schema
    # A value that does not fit its column is an error even if there is no row to change.
    assignments(no_rows(columns))
    target = target.taking(columns)
    chosen = RewriteMode.of(target.table_properties, mode)
    updater = ColumnUpdater(ColumnUpdate.of(target, assignments.columns(), chosen))
    deleted: dict[str | None, UInt64Array] = {}
    with target.writer(blobs=own_blobs) as writer, updater:
        for split in target.splits(filter):
            addresses = [np.empty(0, np.uint64)]
            for batch in _moving_rows(target.lance_schema, split, filter, columns.names, assignments, updater):
                rows = pa.RecordBatch.from_arrays(batch.columns[:-1], schema=columns)
                addresses.append(batch.column(batch.num_columns - 1).to_numpy())
                writer.write(assignments(rows), RowOrigins.of_split(split, addresses[-1]))
            deleted[split.key] = np.concatenate(addresses)
        written = writer.close()
    with cleanup_on_failure(writer.abort), cleanup_on_failure(updater.abort):
        changed = assignments.changed_fields()
        return target.change_rows(deleted, written, options, changed_fields=changed, columns=updater.written)


def _moving_rows(
    schema: LanceSchema,
    split: Split,
    filter: Expr | None,
    columns: Sequence[str],
    assignments: Assignments,
    updater: ColumnUpdater,
) -> Iterator[pa.RecordBatch]:
    """Updates what gets new files of the changed columns; the other rows that change, with `columns` and addresses."""
    fragments, matching = _updated_in_place(schema, split, filter, assignments, updater)
    if fragments:
        scan = split_scan(schema, split, filter, columns)
        yield from Candidates.of(scan, split.manifest, checks_exact=True).read(fragments)
    if matching:
        yield from split_scan(schema, split, None, columns).read(matching)


def _updated_in_place(
    schema: LanceSchema, split: Split, filter: Expr | None, assignments: Assignments, updater: ColumnUpdater
) -> tuple[Sequence[DataFragment], Sequence[FragmentRows]]:
    """Updates the fragments of a split that get new files of the changed columns.

    Returns:
        Fragments whose rows that match the filter are to move, and rows that match it and are to move.
    """
    update = updater.update
    if update is None:
        return split.manifest.fragments, ()
    others: list[DataFragment] = []
    matching: list[FragmentRows] = []
    names = assignments.read_columns(schema)
    candidates: Candidates | None = None
    for fragment in split.manifest.fragments:
        if not update.may_save(split, fragment):
            others.append(fragment)
            continue
        if candidates is None:
            candidates = Candidates.of(split_scan(schema, split, filter, names), split.manifest, checks_exact=True)
        addresses, rows = [np.empty(0, np.uint64)], []
        for batch in candidates.read([fragment]):
            addresses.append(batch.column(batch.num_columns - 1).to_numpy())
            rows.append(assignments(batch.select(names)).select(update.written.names()))
        places = np.concatenate(addresses)
        if len(places) and update.saves(split, fragment, len(places)):
            updater.write(split, fragment, places, pa.Table.from_batches(rows))
        elif len(places):
            matching.append(FragmentRows(fragment, np.sort(split_addresses(places)[1])))
    return others, matching


@dataclass(frozen=True, slots=True)
class _Assignment:
    """A value for the field at the end of `fields`, which begin with the top-level one; nested constants as arrays."""

    fields: tuple[Field, ...]
    value: Expr | pa.Array

    @property
    def path(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    def values(self, batch: pa.RecordBatch) -> pa.Array:
        if isinstance(self.value, pa.Array):
            return take(self.value, np.zeros(batch.num_rows, np.int64))
        return assigned(self.value, batch, to_arrow_type(self.fields[-1]))


class Assignments:
    """Values for some columns of a table.

    Args:
        schema: the table's schema.
        values: by column, or dotted path into structs: SQL text (``"'text'"`` for a text), an expression, or any other
            value of Python or Arrow, which stands for itself.

    Raises:
        NotFoundError: there is no such column.
        InvalidInputError: no column at all, one that is assigned twice or in part and as a whole, or a value that its
            type does not hold.
    """

    def __init__(self, schema: LanceSchema, values: Mapping[str, object]) -> None:
        if not isinstance(values, Mapping) or not values:
            raise InvalidInputError("an update says which columns get which values, as in {'price': 'price * 2'}")
        finder = FieldFinder(schema)
        self._assignments = [_assignment(finder, column, value) for column, value in values.items()]
        paths = sorted(assignment.path for assignment in self._assignments)
        for before, after in pairwise(paths):
            if after[: len(before)] == before:
                raise InvalidInputError(f"column {'.'.join(before)!r} is assigned twice, as a whole or in part")

    def columns(self) -> list[str]:
        """The columns that get other values, or in which fields of structs do."""
        return [assignment.path[0] for assignment in self._assignments]

    def read_columns(self, schema: LanceSchema) -> list[str]:
        """The columns of the table that the values are computed from, and those that get them.

        Raises:
            NotFoundError: an expression names a column that is not there.
        """
        finder = FieldFinder(schema)
        names = dict.fromkeys(self.columns())
        for assignment in self._assignments:
            nodes = assignment.value.walk() if isinstance(assignment.value, Expr) else ()
            names.update((finder.find(node.path)[0].name, None) for node in nodes if isinstance(node, Column))
        return list(names)

    def changed_fields(self) -> list[FieldId]:
        """Ids of the fields that may have other values afterwards: those assigned, all below them, and those around."""
        ids = {field.id: None for assignment in self._assignments for field in assignment.fields}
        ids.update((node.id, None) for assignment in self._assignments for node in assignment.fields[-1].walk())
        return list(ids)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """`batch`, which has all columns of the table, with the values assigned.

        Raises:
            InvalidInputError: an expression fails on a value, or its column cannot hold it.
            NotFoundError: an expression names a column that is not there.
        """
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        for assignment in self._assignments:
            top, *below = assignment.fields
            columns[top.name] = _replaced(columns[top.name], top, below, assignment.values(batch))
        # New blobs are values, where the old ones are descriptions.
        fields = [field.with_type(columns[field.name].type) for field in batch.schema]
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields))


def _assignment(finder: FieldFinder, column: str, value: object) -> _Assignment:
    if not isinstance(column, str):
        raise InvalidInputError(f"{column!r} is no name of a column")
    fields = finder.find(finder.names(column))
    for parent in fields[:-1]:
        if is_blob(parent):
            raise InvalidInputError(f"{column!r} is a part of the blob {parent.name!r}; assign its bytes")
        if parent.logical_type != "struct":
            raise InvalidInputError(
                f"{column!r} leads into {parent.name!r}, which is not a struct; assign it as a whole"
            )
    if is_blob(fields[-1]):
        return _Assignment(fields, _blob(value, fields[-1], column))
    if isinstance(value, str):
        return _Assignment(fields, parse(value))
    if isinstance(value, Expr):
        return _Assignment(fields, value)
    return _Assignment(fields, _constant(value, fields[-1], column))


def _blob(value: object, field: Field, column: str) -> pa.Array:
    """An array of one blob: bytes, None, or a mapping of `uri`, `position` and `size`."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        value = {"data": bytes(value)}
    if isinstance(value, str) and value.strip().upper() == "NULL":
        value = None
    if value is not None and not isinstance(value, Mapping):
        raise InvalidInputError(f"column {column!r} has blobs: assign bytes or None, not {value!r}")
    if is_blob_v1(field) and value is not None:
        value = value.get("data")
    return _nested(value, field, column)


def _constant(value: object, field: Field, column: str) -> Expr | pa.Array:
    """The value as a literal, or, of a nested type, as an array of length 1."""
    type_ = to_arrow_type(field)
    while isinstance(value, np.ndarray):
        value = value.tolist()
    if not pa.types.is_nested(type_):
        return literal(value)
    return _nested(value, field, column)


def _nested(value: object, field: Field, column: str) -> pa.Array:
    """The value of a nested type as an array of length 1."""
    type_ = to_arrow_type(field)
    try:
        if isinstance(value, pa.Scalar):
            # Arrow makes no array of a null list.
            return pa.array([value]).cast(type_) if value.is_valid else pa.nulls(1, type_)
        check_value(value, type_, column)
        array = pa.array([value], type_)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"column {column!r} of type {type_} cannot hold {value!r}: {error}") from error
    check_lengths(array, to_arrow_field(field), column)
    return array


def _replaced(values: pa.Array, field: Field, below: Sequence[Field], new: pa.Array) -> pa.Array:
    """`values` of `field` with `new` for the field at the end of `below`."""
    if not below:
        return new
    child, *deeper = below
    parts = values.flatten()  # Children with the nulls of the struct, so that it may lose its own.
    names = [values.type.field(number).name for number in range(values.type.num_fields)]
    place = names.index(child.name)
    parts[place] = _replaced(parts[place], child, deeper, new)
    return pa.StructArray.from_arrays(parts, fields=list(values.type))
