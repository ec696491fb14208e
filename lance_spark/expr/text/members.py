"""Text searches in members of structs in lists: `notes.text` is the texts of all items of `notes`.

Only text searches name such columns. Items have no name in the path.
"""

from __future__ import annotations

import pyarrow as pa

from lance_spark.errors import LanceError
from lance_spark.expr.columns import field_at
from lance_spark.expr.evaluate import check_filter
from lance_spark.expr.functions.lists import is_list
from lance_spark.expr.literals import literal
from lance_spark.expr.nodes import And, Expr, Not, Or
from lance_spark.expr.text.nodes import TextMatch


def without_members(expr: Expr, schema: pa.Schema) -> Expr:
    """A filter without its searches in members of lists, which other conditions cannot name and which are checked here.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: a member is no text.
    """
    if isinstance(expr, (And, Or)):
        return type(expr)(tuple(without_members(term, schema) for term in expr.terms))
    if isinstance(expr, Not):
        return Not(without_members(expr.value, schema))
    if not isinstance(expr, TextMatch) or all(to_list(schema, column.path) == column.path for column in expr.columns):
        return expr
    check_filter(expr, searchable(schema))
    return literal(True)


def searchable(schema: pa.Schema) -> pa.Schema:
    """A schema in which lists of structs are structs, for paths leave out the names of items."""
    return pa.schema([field.with_type(_unlisted(field.type)) for field in schema])


def _unlisted(dtype: pa.DataType) -> pa.DataType:
    inner = dtype
    while is_list(inner):
        inner = inner.value_type
    if not pa.types.is_struct(inner):
        return dtype
    return pa.struct([field.with_type(_unlisted(field.type)) for field in inner])


def to_list(schema: pa.Schema, path: tuple[str, ...]) -> tuple[str, ...]:
    """A path up to its first list; the path itself if it ends there, or has none."""
    for length in range(1, len(path)):
        try:
            field = field_at(schema, path[:length])
        except LanceError:
            return path  # The check of the filter says what is wrong with it.
        if is_list(field.type):
            return path[:length]
    return path
