"""Evaluates a filter for every row of a batch, in SQL's three-valued logic.

The semantics are Spark's in ANSI mode (docs/design/014-filter-semantics.md). Terms of AND and OR that can raise an
error (arithmetic, CAST) are evaluated only for the rows that the preceding terms leave undecided, so
`x <> 0 AND 10 / x > 1` never divides by zero.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError
from lance_spark.expr import arithmetic, casts
from lance_spark.expr.columns import column_values, field_at
from lance_spark.expr.comparison import compare, same_type
from lance_spark.expr.datetime_text import check_time_zone
from lance_spark.expr.function_names import FunctionName
from lance_spark.expr.functions import registry
from lance_spark.expr.functions.lists import array_contains
from lance_spark.expr.geo.geos import relating
from lance_spark.expr.geo.nodes import Related
from lance_spark.expr.json_path.nodes import JsonTest, JsonValue
from lance_spark.expr.json_path.values import json_values
from lance_spark.expr.literals import Literal, literal
from lance_spark.expr.membership import constant_options, is_member, options_of
from lance_spark.expr.nodes import (
    And,
    Arithmetic,
    ArrayContains,
    Cast,
    Column,
    Comparison,
    Expr,
    Function,
    In,
    InArray,
    IsNan,
    IsNull,
    Like,
    Negate,
    Not,
    Or,
    StringMatch,
)
from lance_spark.expr.text.match import check_searchable, contains_tokens, like, match_text
from lance_spark.expr.text.nodes import ContainsTokens, TextMatch
from lance_spark.expr.values import (
    NUMBERS,
    Family,
    Operand,
    as_array,
    as_boolean,
    family_of,
    no_rows,
    null_like,
    plain,
    required_family,
)

_FALSE = pa.nulls(1).is_valid()[0]
"""The Arrow scalar; pyarrow imports pandas, where that is installed, to make one of Python's."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows that an expression is evaluated on."""

    batch: pa.RecordBatch
    time_zone: str

    def where(self, condition: pa.Array) -> Rows:
        """The rows for which the condition is true."""
        return Rows(self.batch.filter(condition), self.time_zone)


def evaluate(expr: Expr, batch: pa.RecordBatch, *, time_zone: str = "UTC") -> pa.Array:
    """The value of `expr` for each row.

    Args:
        expr: the expression.
        batch: rows; only the referenced columns are needed.
        time_zone: the session's zone, for timestamps without one.

    Raises:
        NotFoundError: a column is not in the batch.
        InvalidInputError: incompatible types, or a value on which arithmetic or CAST fails.
    """
    check_time_zone(time_zone)
    return as_array(_evaluate(expr, Rows(batch, time_zone)), batch.num_rows)


def evaluate_column(expr: Expr, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Field]:
    """The value of `expr` for each row, and its field without a meaningful name. A column has the type and the metadata
    that it is stored with. Raises as `evaluate`.
    """
    if isinstance(expr, Column):
        return column_values(batch, expr.path), field_at(batch.schema, expr.path)
    values = evaluate(expr, batch)
    return values, pa.field("", values.type)


def evaluate_filter(expr: Expr, batch: pa.RecordBatch, *, time_zone: str = "UTC") -> pa.BooleanArray:
    """Whether the filter is TRUE for each row, without nulls. Arguments and errors as `evaluate`."""
    value = evaluate(expr, batch, time_zone=time_zone)
    with _Named(expr):
        truth = as_boolean(value, "the filter")
    return truth.fill_null(_FALSE) if truth.null_count else truth


def check_filter(expr: Expr, schema: pa.Schema, *, time_zone: str = "UTC") -> None:
    """Validates the filter against the schema; raises the error that its evaluation would raise."""
    if _fits_by_types(expr, schema):
        return
    names = {node.path[0].lower() for node in expr.walk() if isinstance(node, Column)}
    used = [field for field in schema if field.name.lower() in names]
    # The other columns are needed only for the error about an unknown name.
    fits = names == {field.name.lower() for field in used}
    batch = no_rows(pa.schema(used) if fits else schema)
    evaluate_filter(expr, batch, time_zone=time_zone)


def _fits_by_types(expr: Expr, schema: pa.Schema) -> bool:
    """Whether a filter only compares columns of whole numbers and texts with their like: it fails for no
    values. The evaluation that finds this out for other filters takes longer than an index.
    """
    if isinstance(expr, (And, Or)):
        return all(_fits_by_types(term, schema) for term in expr.terms)
    constants: tuple[Expr, ...]
    if isinstance(expr, Comparison):
        column, constants = expr.left, (expr.right,)
    elif isinstance(expr, In) and expr.has_constants:
        column, constants = expr.value, expr.options
    elif isinstance(expr, (StringMatch, Like)):
        column, constants = expr.value, (_SOME_TEXT,)
    else:
        return False
    if not isinstance(column, Column) or not constants[0].is_constant:
        return False
    place = schema.get_field_index(column.path[0]) if len(column.path) == 1 else -1
    family = family_of(schema.field(place).type) if place >= 0 else None
    types = {id(constant.type): constant.type for constant in cast("tuple[Literal, ...]", constants)}
    return family in (Family.INTEGER, Family.STRING) and all(family_of(item) is family for item in types.values())


_SOME_TEXT = literal("")


def constant_value(expr: Expr, *, time_zone: str = "UTC") -> pa.Scalar | None:
    """The value of an expression without columns; None if it has columns."""
    if any(isinstance(node, Column) for node in expr.walk()):
        return None
    value = _evaluate(expr, Rows(pa.RecordBatch.from_pylist([{}], schema=pa.schema([])), time_zone))
    return value if isinstance(value, pa.Scalar) else value[0]


@functools.singledispatch
def _evaluate(expr: Expr, rows: Rows) -> Operand:
    raise InvalidInputError(f"{expr} is not a condition or a plain value, so it cannot stand here")


class _Named:
    """Adds the expression to errors about the operands of `expr`. A generator would take twice as many calls."""

    __slots__ = ("_expr",)

    def __init__(self, expr: Expr) -> None:
        self._expr = expr

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, InvalidInputError):
            text = str(self._expr)
            raise InvalidInputError(f"{error} (in: {text if len(text) <= 200 else text[:197] + '...'})") from error


@_evaluate.register
def _(expr: Column, rows: Rows) -> Operand:
    return plain(column_values(rows.batch, expr.path))


@_evaluate.register
def _(expr: Literal, _rows: Rows) -> Operand:
    return expr.scalar()


@_evaluate.register
def _(expr: Comparison, rows: Rows) -> Operand:
    left, right = _evaluate(expr.left, rows), _evaluate(expr.right, rows)
    with _Named(expr):
        return compare(expr.op, left, right, rows.time_zone)


@_evaluate.register
def _(expr: In, rows: Rows) -> Operand:
    value = _evaluate(expr.value, rows)
    with _Named(expr):
        required_family(value, "IN")
        if expr.has_constants and isinstance(value, pa.Array):
            constants = cast("tuple[Literal, ...]", expr.options)
            return is_member(value, constant_options(value.type, constants, rows.time_zone), rows.time_zone)
    operands = [_evaluate(option, rows) for option in expr.options]
    with _Named(expr):
        return is_member(value, options_of(value.type, operands, rows.time_zone), rows.time_zone)


@_evaluate.register
def _(expr: InArray, rows: Rows) -> Operand:
    value = _evaluate(expr.value, rows)
    if value.type != expr.values.type:
        raise InvalidInputError(f"{expr.value} is {value.type}, the values to look up are {expr.values.type}")
    return pc.is_in(value, value_set=expr.values, skip_nulls=True)


@_evaluate.register
def _(expr: IsNull, rows: Rows) -> Operand:
    if isinstance(expr.value, Function) and expr.value.name is FunctionName.REGEXP_MATCH:
        # In the reference library it is NULL where nothing matches, and yet false as a condition.
        return pc.invert(_evaluate(expr.value, rows))
    return pc.is_null(_evaluate(expr.value, rows))


@_evaluate.register
def _(expr: IsNan, rows: Rows) -> Operand:
    value = _evaluate(expr.value, rows)
    with _Named(expr):
        family = required_family(value, "isnan")
        if family not in (*NUMBERS, Family.NULL):
            raise InvalidInputError(f"isnan is not defined for {value.type}")
    if family is not Family.FLOAT:
        return pa.scalar(False)
    return pc.fill_null(pc.is_nan(value), False)


@_evaluate.register
def _(expr: Not, rows: Rows) -> Operand:
    value = _evaluate(expr.value, rows)
    with _Named(expr):
        return pc.invert(as_boolean(value, "what NOT negates"))


@_evaluate.register
def _(expr: And, rows: Rows) -> Operand:
    return _connected(expr, rows, pc.and_kleene, decisive=False)


@_evaluate.register
def _(expr: Or, rows: Rows) -> Operand:
    return _connected(expr, rows, pc.or_kleene, decisive=True)


def _connected(expr: And | Or, rows: Rows, join: Callable[[Operand, Operand], Operand], *, decisive: bool) -> Operand:
    """The terms combined with `join`; the truth value `decisive` decides the result without the remaining terms."""
    truth: Operand | None = None
    for term in expr.terms:
        if truth is not None and can_fail(term):
            value = _where_open(term, rows, pc.fill_null(pc.equal(truth, decisive), False))
        else:
            value = _evaluate(term, rows)
        with _Named(term):
            value = as_boolean(value, "a term of AND or OR")
            truth = value if truth is None else join(truth, value)
    return pa.scalar(not decisive) if truth is None else truth


def can_fail(expr: Expr) -> bool:
    """Whether evaluation may fail on a value, not just on a type."""
    for node in expr.walk():
        if isinstance(node, (Arithmetic, Negate, TextMatch, Cast, Function)) and _can_fail(node):
            return True
    return False


def _can_fail(node: Expr) -> bool:
    if isinstance(node, Cast):
        return not node.is_try
    return not isinstance(node, Function) or node.name in registry.FALLIBLE


def _where_open(expr: Expr, rows: Rows, decided: Operand) -> Operand:
    """`expr` for the undecided rows, null for the others."""
    if isinstance(decided, pa.Scalar):
        return null_like(decided, pa.null()) if decided.as_py() else _evaluate(expr, rows)
    open_rows = pc.invert(decided)
    if open_rows.true_count == len(open_rows):
        return _evaluate(expr, rows)
    part = rows.where(open_rows)
    values = as_array(_evaluate(expr, part), part.batch.num_rows)
    # The k-th undecided row takes the value at k, the others null.
    places = pc.subtract(pc.cumulative_sum(open_rows.cast(pa.int64())), 1)
    return values.take(pc.if_else(open_rows, places, pa.scalar(None, pa.int64())))


@_evaluate.register
def _(expr: StringMatch, rows: Rows) -> Operand:
    value = _evaluate(expr.value, rows)
    with _Named(expr):
        return match_text(expr.op, value, expr.text)


@_evaluate.register
def _(expr: Like, rows: Rows) -> Operand:
    value = _evaluate(expr.value, rows)
    with _Named(expr):
        return like(value, expr.pattern, expr.escape)


@_evaluate.register
def _(expr: ArrayContains, rows: Rows) -> Operand:
    lists, item = _evaluate(expr.value, rows), _evaluate(expr.item, rows)
    with _Named(expr):
        return array_contains(lists, item, rows.time_zone)


@_evaluate.register
def _(expr: JsonValue, rows: Rows) -> Operand:
    documents = _evaluate(expr.value, rows)
    with _Named(expr):
        return json_values(documents, expr.steps, expr.kind)


@_evaluate.register
def _(expr: JsonTest, rows: Rows) -> Operand:
    documents = _evaluate(expr.value, rows)
    with _Named(expr):
        return expr.evaluated(documents)


@_evaluate.register
def _(expr: Related, rows: Rows) -> Operand:
    values = _evaluate(expr.value, rows)
    with _Named(expr):
        return relating(expr.name, as_array(values, rows.batch.num_rows), expr.geometry.shape)


@_evaluate.register
def _(expr: ContainsTokens, rows: Rows) -> Operand:
    value = _evaluate(expr.value, rows)
    with _Named(expr):
        return contains_tokens(value, expr.words)


@_evaluate.register
def _(expr: TextMatch, rows: Rows) -> Operand:
    values = [_evaluate(column, rows) for column in expr.columns]
    with _Named(expr):
        return check_searchable(values, rows.batch.num_rows)


@_evaluate.register
def _(expr: Arithmetic, rows: Rows) -> Operand:
    left, right = _evaluate(expr.left, rows), _evaluate(expr.right, rows)
    with _Named(expr):
        return arithmetic.combine(expr.op, left, right)


@_evaluate.register
def _(expr: Negate, rows: Rows) -> Operand:
    value = _evaluate(expr.value, rows)
    with _Named(expr):
        return arithmetic.negate(value)


@_evaluate.register
def _(expr: Cast, rows: Rows) -> Operand:
    value = _evaluate(expr.value, rows)
    with _Named(expr):
        return casts.cast(value, expr.type, is_try=expr.is_try, time_zone=rows.time_zone)


@_evaluate.register
def _(expr: Function, rows: Rows) -> Operand:
    if expr.name is FunctionName.COALESCE:
        return _coalesce(expr, rows)
    if expr.name is FunctionName.IF:
        return _if(expr, rows)
    arguments = tuple(_evaluate(argument, rows) for argument in expr.arguments)
    with _Named(expr):
        return registry.call(expr.name, arguments, rows.time_zone)


def _coalesce(expr: Function, rows: Rows) -> Operand:
    """The first argument that is not null; one that can fail is evaluated only where all preceding ones are null."""
    value = _evaluate(expr.arguments[0], rows)
    for argument in expr.arguments[1:]:
        other = _where_open(argument, rows, pc.is_valid(value)) if can_fail(argument) else _evaluate(argument, rows)
        with _Named(expr):
            value = pc.coalesce(*same_type(value, other))
    return value


def _if(expr: Function, rows: Rows) -> Operand:
    """`if(condition, value, other)`; a value that can fail is evaluated only for its own rows."""
    condition, *values = expr.arguments
    truth = _evaluate(condition, rows)
    with _Named(condition):
        truth = pc.fill_null(as_boolean(truth, "the condition of IF and CASE"), False)
    value, other = (
        _where_open(each, rows, unused) if can_fail(each) else _evaluate(each, rows)
        for each, unused in zip(values, (pc.invert(truth), truth), strict=True)
    )
    with _Named(expr):
        return pc.if_else(truth, *same_type(value, other))
