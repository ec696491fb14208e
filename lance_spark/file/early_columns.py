"""Columns of files that the first releases of version 2.0 wrote (until 0.14).

Texts were lists of bytes, whose bytes have a column of their own, and no struct was packed, whatever its metadata say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lance_spark.layouts.base import EncodedColumn
from lance_spark.layouts.v2_0.list_ import holds_lists
from lance_spark.layouts.v2_0.simple_struct import holds_structs
from lance_spark.schema.columns import has_bytes, is_array_leaf
from lance_spark.schema.field import Field, FieldId


def early_columns(fields: Iterable[Field], columns: Sequence[EncodedColumn]) -> tuple[dict[FieldId, int], int]:
    """(the column of each field that owns one, how many columns the fields have).

    Args:
        columns: all columns of the file.

    Raises:
        CorruptFileError: the encoding of a page is corrupt.
    """
    found: dict[FieldId, int] = {}
    count = 0

    def visit(field: Field) -> None:
        nonlocal count
        column = columns[count] if count < len(columns) else None
        found[field.id] = count
        count += 1
        if column is not None and has_bytes(field) and holds_lists(column):
            count += 1
        if not is_array_leaf(field) or (column is not None and field.children and holds_structs(column)):
            for child in field.children:
                visit(child)

    for field in fields:
        visit(field)
    return found, count
