"""Single rows of any field of a file in memory, by the kind that takes the fewest calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.layouts.base import EncodedColumn
from lance_spark.layouts.in_memory.dictionary_rows import DictionaryRows
from lance_spark.layouts.in_memory.field_rows import FieldRows
from lance_spark.layouts.in_memory.single_rows import SingleRows
from lance_spark.layouts.in_memory.string_rows import StringRows
from lance_spark.layouts.in_memory.zipped_lists import ZippedLists
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.field import Field, FieldId


@dataclass(frozen=True)
class NullRows:
    """A column of the type whose only value is null, whatever its pages have.

    Attributes:
        num_rows: of the column.
    """

    num_rows: int

    num_bytes = value_bits = 0

    def of_rows(self, _data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        """The values of `rows` (int64[n], in any order); None if there is no such row."""
        is_inside = len(rows) > 0 and int(rows.min()) >= 0 and int(rows.max()) < self.num_rows
        return pa.nulls(len(rows)) if is_inside else None


RowsOfField: TypeAlias = SingleRows | StringRows | DictionaryRows | FieldRows | ZippedLists | NullRows


def rows_of_field(field: Field, columns: Mapping[FieldId, EncodedColumn], data: pa.Buffer) -> RowsOfField | None:
    """A top-level field of the file `data`, of version 2.1 or later; None if the general way has to read it.

    Args:
        columns: of each of its leaves.
    """
    if not field.children:
        if pa.types.is_null(to_arrow_type(field)):
            return NullRows(sum([page.num_rows for page in columns[field.id].pages]))
        of_column = columns[field.id], to_arrow_type(field), data
        found = SingleRows.of(*of_column) or StringRows.of(*of_column) or DictionaryRows.of(*of_column)
        if found is not None:
            return found
    return FieldRows.of(field, columns, data) or ZippedLists.of(field, columns, data)
