"""System columns, which are computed rather than stored in data files (Lance specification, "Row ID & Lineage").

========================================  =============================================================
``_rowid``                                stable row id; the row's address in a table without those
``_rowaddr``                              fragment id in the high 32 bits, offset in the low 32
``_fragid``                               fragment id
``_row_created_at_version``               version that added the row; 1 in a table without stable row ids
``_row_last_updated_at_version``          version that last changed it; 1 in a table without stable row ids
========================================  =============================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError
from lance_spark.expr.literals import Literal
from lance_spark.expr.nodes import And, Column, Comparison, ComparisonOp, Expr, In
from lance_spark.layouts.base import RowRanges
from lance_spark.schema.field import (
    CREATED_AT_FIELD,
    LAST_UPDATED_AT_FIELD,
    ROW_ID_FIELD,
    Field,
    FieldId,
    LanceSchema,
)
from lance_spark.table.reading.fragment_columns import SelectedFields
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.rows.row_address import UInt64Array, row_addresses
from lance_spark.table.rows.row_ids import RowIdSequence
from lance_spark.table.rows.row_versions import RowDatasetVersionSequence

ROW_ID = "_rowid"
ROW_ADDRESS = "_rowaddr"
FRAGMENT_ID = "_fragid"
CREATED_AT = "_row_created_at_version"
LAST_UPDATED_AT = "_row_last_updated_at_version"


def flagged(with_row_id: bool, with_row_address: bool) -> tuple[str, ...]:
    """The columns that the flags of a read add at the end of its result."""
    return tuple(name for name, is_on in ((ROW_ID, with_row_id), (ROW_ADDRESS, with_row_address)) if is_on)


# Rows without lineage: no stable row ids, or a writer without row versions. The reference library returns the same.
_UNKNOWN_VERSION = 1


@dataclass(frozen=True, slots=True)
class NamedRows:
    """The rows that a filter can keep because a term of it names them.

    Attributes:
        column: `ROW_ID` or `ROW_ADDRESS`.
        values: uint64[n], ascending: what it is in these rows.
        are_all: whether the filter says nothing else.
    """

    column: str
    values: UInt64Array
    are_all: bool


def named_rows(filter: Expr, schema: LanceSchema) -> NamedRows | None:
    """The rows that a filter names; None if it names none.

    Args:
        schema: of the data columns, which can hide system columns.
    """
    terms = filter.terms if isinstance(filter, And) else (filter,)
    for term in terms:
        options: tuple[Expr, ...]
        if isinstance(term, Comparison) and term.op is ComparisonOp.EQ:
            column, options = term.left, (term.right,)
        elif isinstance(term, In):
            column, options = term.value, term.options
        else:
            continue
        if not isinstance(column, Column) or column.path not in ((ROW_ADDRESS,), (ROW_ID,)):
            continue
        values = [
            option.value for option in options if isinstance(option, Literal) and pa.types.is_integer(option.type)
        ]
        if len(values) == len(options) and not any(field.name == column.path[0] for field in schema.fields):
            named = np.array(sorted({value for value in values if isinstance(value, int) and value >= 0}), np.uint64)
            return NamedRows(column.path[0], named, are_all=len(terms) == 1)
    return None


class SystemColumns(Protocol):
    """Computes the system columns of some rows."""

    def column(self, name: str, rows: Int64Array) -> pa.Array:
        """The system column `name` for `rows` (int64[n], ascending offsets).

        Raises:
            CorruptFileError: there is no lineage, or it does not match the rows.
        """
        ...


class RowLineage:
    """The system columns of one fragment, parsed once.

    Args:
        fragment: the fragment.
        reader: the fragment, open for reading.
        stable_row_ids: whether the table has stable row ids.
    """

    def __init__(self, fragment: DataFragment, reader: FragmentReader, stable_row_ids: bool) -> None:
        self._fragment = fragment
        self._reader = reader
        self._stable_row_ids = stable_row_ids
        self._row_ids: RowIdSequence | None = None
        self._versions: dict[str, RowDatasetVersionSequence] = {}

    def column(self, name: str, rows: Int64Array) -> pa.Array:
        """The system column `name` for `rows` (int64[n], ascending offsets in the fragment).

        Raises:
            CorruptFileError: the fragment has no lineage, or it does not match its rows.
        """
        return pa.array(_VALUES[name](self, rows))

    def row_ids(self, rows: Int64Array) -> UInt64Array:
        """uint64[n]: the stable ids of `rows`, or their addresses in a table without those."""
        if not self._stable_row_ids:
            return self.row_addresses(rows)
        if self._row_ids is None:
            if self._fragment.row_ids is None:
                return self._stored(ROW_ID, ROW_ID_FIELD, rows)
            self._row_ids = RowIdSequence.from_bytes(self._fragment.row_ids, self._reader.num_rows)
        return self._row_ids.at(rows)

    def row_addresses(self, rows: Int64Array) -> UInt64Array:
        return row_addresses(self._fragment.id, rows)

    def fragment_ids(self, rows: Int64Array) -> UInt64Array:
        return np.full(len(rows), self._fragment.id, np.uint64)

    def created_at(self, rows: Int64Array) -> UInt64Array:
        """uint64[n]: the versions that added `rows`."""
        return self._version(CREATED_AT, CREATED_AT_FIELD, self._fragment.created_at_versions, rows)

    def last_updated_at(self, rows: Int64Array) -> UInt64Array:
        """uint64[n]: the versions that last changed `rows`."""
        return self._version(LAST_UPDATED_AT, LAST_UPDATED_AT_FIELD, self._fragment.last_updated_at_versions, rows)

    def _version(self, name: str, field_id: FieldId, data: bytes | None, rows: Int64Array) -> UInt64Array:
        if self._stable_row_ids and data is None and field_id in self._fragment.lineage_fields:
            return self._stored(name, field_id, rows)
        if not self._stable_row_ids or data is None:
            return np.full(len(rows), _UNKNOWN_VERSION, np.uint64)
        if name not in self._versions:
            self._versions[name] = RowDatasetVersionSequence.from_bytes(data, self._reader.num_rows)
        return self._versions[name].at(rows)

    def _stored(self, name: str, field_id: FieldId, rows: Int64Array) -> UInt64Array:
        """The values of a system column stored in a data file."""
        if field_id not in self._fragment.lineage_fields:
            raise CorruptFileError(f"the table has stable row ids, fragment {self._fragment.id} has none")
        field = Field(name, field_id, "uint64", nullable=False)
        # The reader finds what it has prepared by this object.
        selected = self._reader.kept(("stored", name), lambda: (SelectedFields((field,)), 0))
        (column,) = self._reader.columns(selected).read(RowRanges.of_numbers(rows))
        if column.null_count:
            raise CorruptFileError(f"the files of fragment {self._fragment.id} do not tell {name} of all rows")
        values: UInt64Array = column.to_numpy()
        return values


_VALUES: dict[str, Callable[[RowLineage, Int64Array], UInt64Array]] = {
    ROW_ID: RowLineage.row_ids,
    ROW_ADDRESS: RowLineage.row_addresses,
    FRAGMENT_ID: RowLineage.fragment_ids,
    CREATED_AT: RowLineage.created_at,
    LAST_UPDATED_AT: RowLineage.last_updated_at,
}

SYSTEM_FIELDS = MappingProxyType({name: pa.field(name, pa.uint64()) for name in _VALUES})
"""The Arrow field of each system column."""


def filterable(columns: pa.Schema) -> pa.Schema:
    """Schema of the columns that a filter may name: the data columns, and system columns that they do not hide."""
    names = set(columns.names)
    return pa.schema([*columns, *[field for name, field in SYSTEM_FIELDS.items() if name not in names]])
