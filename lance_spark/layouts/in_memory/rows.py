"""Single rows of any field of a file in memory, by the kind that takes the fewest calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_spark.layouts.base import EncodedColumn, EncodedPage
from lance_spark.layouts.constant.layout import ConstantLayout
from lance_spark.layouts.constant.values import buffer_scalar, repeated_leaf
from lance_spark.layouts.in_memory.dictionary_rows import DictionaryRows
from lance_spark.layouts.in_memory.field_rows import FieldRows
from lance_spark.layouts.in_memory.single_rows import SingleRows
from lance_spark.layouts.in_memory.string_rows import StringRows
from lance_spark.layouts.in_memory.zipped_lists import ZippedLists
from lance_spark.layouts.leaf.values import is_variable
from lance_spark.layouts.registry import parse_page
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


@dataclass(frozen=True)
class ConstantRows:
    """A column of one page, which holds one value for all rows in its buffer, such as the dictionary of a text index.

    Attributes:
        data_type: of the value.
        page: the page.
    """

    data_type: pa.DataType
    page: EncodedPage

    num_bytes = value_bits = 0

    @classmethod
    def of(cls, column: EncodedColumn, data_type: pa.DataType) -> ConstantRows | None:
        """A column, which is a top-level field; None if it is of another kind."""
        pages = [page for page in column.pages if page.num_rows]
        if len(pages) != 1 or len(pages[0].buffers) != 1 or pages[0].num_rows != column.num_rows:
            return None
        try:
            layout = parse_page(pages[0].type_url, pages[0].message)
        except (CorruptFileError, UnsupportedFeatureError):
            return None
        if not isinstance(layout, ConstantLayout) or layout.inline_value is not None or len(layout.layers) != 1:
            return None
        return cls(data_type, pages[0])

    def of_rows(self, data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        """The values of `rows` (int64[n], in any order); one is a view of the file `data`.

        None if there is no such row, or the buffer contradicts itself.
        """
        start, size = self.page.buffers[0]
        is_inside = len(rows) > 0 and int(rows.min()) >= 0 and int(rows.max()) < self.page.num_rows
        if not is_inside or start < 0 or size < 0 or start + size > data.size:
            return None
        try:
            return repeated_leaf(buffer_scalar(data.slice(start, size), self.data_type))(None, len(rows))
        except (CorruptFileError, InvalidInputError):
            return None


RowsOfField: TypeAlias = SingleRows | StringRows | DictionaryRows | FieldRows | ZippedLists | ConstantRows | NullRows


def rows_of_field(field: Field, columns: Mapping[FieldId, EncodedColumn], data: pa.Buffer) -> RowsOfField | None:
    """A top-level field of the file `data`, of version 2.1 or later; None if the general way has to read it.

    Args:
        columns: of each of its leaves.
    """
    if not field.children:
        column, data_type = columns[field.id], to_arrow_type(field)
        if data_type == pa.null():
            return NullRows(sum([page.num_rows for page in column.pages]))
        found = (
            (StringRows if is_variable(data_type) else SingleRows).of(column, data_type, data)
            or ConstantRows.of(column, data_type)
            or DictionaryRows.of(column, data_type, data)
        )
        if found is not None:
            return found
    return FieldRows.of(field, columns, data) or ZippedLists.of(field, columns, data)
