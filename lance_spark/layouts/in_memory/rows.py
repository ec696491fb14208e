"""Single rows of any field of a file in memory, by the kind that takes the fewest calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import pyarrow as pa

from lance_spark.layouts.base import EncodedColumn
from lance_spark.layouts.in_memory.dictionary_rows import DictionaryRows
from lance_spark.layouts.in_memory.field_rows import FieldRows
from lance_spark.layouts.in_memory.single_rows import SingleRows
from lance_spark.layouts.in_memory.string_rows import StringRows
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.field import Field, FieldId

RowsOfField: TypeAlias = SingleRows | StringRows | DictionaryRows | FieldRows


def rows_of_field(field: Field, columns: Mapping[FieldId, EncodedColumn], data: pa.Buffer) -> RowsOfField | None:
    """A top-level field of the file `data`, of version 2.1 or later; None if the general way has to read it.

    Args:
        columns: of each of its leaves.
    """
    if not field.children:
        of_column = columns[field.id], to_arrow_type(field), data
        found = SingleRows.of(*of_column) or StringRows.of(*of_column) or DictionaryRows.of(*of_column)
        if found is not None:
            return found
    return FieldRows.of(field, columns, data)
