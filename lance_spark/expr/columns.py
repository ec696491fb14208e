"""Resolution of the columns of a filter in a schema, and their values in a batch.

An exact match of a name wins; otherwise the match is case-insensitive, as by default in Spark, and an ambiguous one
is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.expr.literals import Literal
from lance_spark.expr.nodes import Column, Comparison, Expr, In, InArray, IsNull, Not, quote_name


def resolve_path(schema: pa.Schema, path: Sequence[str]) -> tuple[int, ...]:
    """The field index at each level of `path`.

    Raises:
        NotFoundError: no such column or field; the message suggests similar names.
        InvalidInputError: the name is ambiguous, or its parent is not a struct.
    """
    exact = _exact_positions(schema, path)
    if exact is not None:
        return exact
    positions: list[int] = []
    names, fields = list(schema.names), list(schema)
    for depth, name in enumerate(path):
        position = _position(names, name, path[:depth])
        positions.append(position)
        if depth + 1 < len(path):
            type_ = fields[position].type
            if not pa.types.is_struct(type_):
                raise InvalidInputError(
                    f"{_text(path)}: {_text(path[: depth + 1])} is {type_}, only a struct has fields; "
                    "a dot that belongs to a column's name stands between backticks"
                )
            fields = [type_.field(index) for index in range(type_.num_fields)]
            names = [field.name for field in fields]
    return tuple(positions)


def _exact_positions(schema: pa.Schema, path: Sequence[str]) -> tuple[int, ...] | None:
    """A fast path of `resolve_path` for exact matches."""
    level: pa.Schema | pa.StructType = schema
    positions = []
    for name in path:
        if not isinstance(level, pa.Schema) and not pa.types.is_struct(level):
            return None
        position = level.get_field_index(name)
        if position < 0:
            return None
        positions.append(position)
        level = level.field(position).type
    return tuple(positions)


def resolve_names(schema: pa.Schema, path: Sequence[str]) -> tuple[str, ...]:
    """`path` as the schema spells it. Raises as `resolve_path`."""
    names: list[str] = []
    level: pa.Schema | pa.StructType = schema
    for position in resolve_path(schema, path):
        field = level.field(position)
        names.append(field.name)
        level = field.type
    return tuple(names)


def compared_columns(term: Expr) -> list[Column]:
    """The columns of a condition that compares nothing but columns and constants, with NOT around it or without; none
    for every other condition.
    """
    while isinstance(term, Not):
        term = term.value
    if not isinstance(term, (Comparison, In, InArray, IsNull)):
        return []
    operands = term.children()
    return (
        []
        if any(not isinstance(operand, (Column, Literal)) for operand in operands)
        else [operand for operand in operands if isinstance(operand, Column)]
    )


def field_at(schema: pa.Schema, path: Sequence[str]) -> pa.Field:
    """The field at `path`; nullable if a struct above it is. Raises as `resolve_path`."""
    top, *below = resolve_path(schema, path)
    field = schema.field(top)
    for place in below:
        inner = field.type.field(place)
        field = inner.with_nullable(inner.nullable or field.nullable)
    return field


def column_values(batch: pa.RecordBatch, path: Sequence[str]) -> pa.Array:
    """The values at `path`: null where the field or any struct above it is null. Raises as `resolve_path`."""
    import pyarrow.compute as pc

    top, *below = resolve_path(batch.schema, path)
    values = batch.column(top)
    return pc.struct_field(values, below) if below else values


def _position(names: list[str], name: str, parents: Sequence[str]) -> int:
    import difflib

    exact = [position for position, candidate in enumerate(names) if candidate == name]
    positions = exact or [position for position, candidate in enumerate(names) if candidate.lower() == name.lower()]
    if len(positions) == 1:
        return positions[0]
    where = f" of struct {_text(parents)}" if parents else ""
    kind = "field" if parents else "column"
    if positions:
        raise InvalidInputError(
            f"{kind} {quote_name(name)}{where} is ambiguous: {_list(names[at] for at in positions)}"
        )
    near = difflib.get_close_matches(name.lower(), [candidate.lower() for candidate in names], n=3)
    likely = [candidate for candidate in names if candidate.lower() in near]
    hint = f"did you mean {_list(likely)}?" if likely else f"there are: {_list(names[:20])}"
    raise NotFoundError(f"no {kind} {quote_name(name)}{where}; {hint}")


def _text(path: Sequence[str]) -> str:
    return ".".join(quote_name(name) for name in path)


def _list(names: Iterable[str]) -> str:
    return ", ".join(quote_name(name) for name in names) or "none"
