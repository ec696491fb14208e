"""Spark's V2 expressions, and the filters of ours that mean exactly the same.

What has no exact counterpart stays with Spark, which does not evaluate a pushed filter again. Spark sees microseconds:
where the table holds nanoseconds, `ts = 5 us` means the thousand values from 5000 ns on. What compares strings by a
collation has no form at all: the engine compares bytes.
"""

from __future__ import annotations

import base64
import decimal
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import types as st

from lance_spark.errors import LanceError
from lance_spark.expr.columns import field_at, resolve_path
from lance_spark.expr.evaluate import check_filter
from lance_spark.expr.functions.lists import is_list
from lance_spark.expr.geo.geos import has_geos
from lance_spark.expr.geo.nodes import GEO_CALLS, INTERSECTS, RELATIONS, GeometryConstant, related_call
from lance_spark.expr.json_path.nodes import CONTAINS, EXISTS, JSON_CALLS, JSON_TESTS, JsonValue
from lance_spark.expr.json_path.values import JsonKind
from lance_spark.expr.literals import FALSE, NULL, TRUE, Literal, duration_literal, literal, timestamp_literal
from lance_spark.expr.nodes import (
    And,
    ArrayContains,
    Column,
    Comparison,
    ComparisonOp,
    Expr,
    In,
    IsNull,
    Not,
    Or,
    StringMatch,
    StringMatchOp,
    conjunction,
)
from lance_spark.expr.sql.calls import TEXT_CALLS
from lance_spark.expr.text.members import without_members
from lance_spark.schema.extension import is_json_field
from lance_spark.spark.types.collations import has_collation, is_collated
from lance_spark.spark.types.geometry import is_geo_type
from lance_spark.spark.types.schemas import has_nanoseconds, is_lossless
from lance_spark.spark.types.uuids import STORED_UUID, canonical_bytes

FUNCTION_PREFIX = "io.lancespark."
"""Starts the canonical name of each function of the connector."""

_CONTAINS_TOKENS = "contains_tokens"
TEXT_SEARCHES = frozenset(FUNCTION_PREFIX + name for name in TEXT_CALLS if name != _CONTAINS_TOKENS)
"""The functions that only a scan can answer."""

_JSON_CALLS = JSON_CALLS | JSON_TESTS
_JSON_PREDICATES = tuple(FUNCTION_PREFIX + name for name in ("json_get_bool", EXISTS, CONTAINS))

_GEO_TEXT = FUNCTION_PREFIX + "st_geomfromtext"
_GEO_PREDICATES = tuple(FUNCTION_PREFIX + name for name in (INTERSECTS, "st_disjoint"))
_MEETING = frozenset(FUNCTION_PREFIX + name for name in RELATIONS - {INTERSECTS})
"""The functions that only geometries with a common point fulfil, and that Spark alone evaluates."""

_VARIANT_GET = "VARIANT_GET"
"""Its arguments are the column and, as texts, the path."""

_KEY = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_LIKE_OTHER_JSON = re.compile(
    r"[-+.0-9eE]*[0-9][-+.0-9eE]*|[\[{].*|[-+]?(?:inf|infinity|nan)", re.IGNORECASE | re.DOTALL
)
"""Texts as which a VARIANT that is a number, an object or an array may be written."""

LANCE_DISTANCE = FUNCTION_PREFIX + "lance_distance"


@dataclass(frozen=True, slots=True)
class SparkExpression:
    """One node of `org.apache.spark.sql.connector.expressions`.

    Attributes:
        name: of a call, for functions of the connector their canonical name; "?" is a node that the JVM could not
            describe.
        children: the arguments of a call.
        column: the path of a column.
        literal: the text of a constant, None for NULL; `type` is set for every constant. Of an array of numbers the
            values as doubles (little-endian, in base64), 0 for null.
        type: of a constant or a cast.
        cast: what is cast.
        transform: name of a partition transform, with its arguments as `children`.
    """

    name: str | None = None
    children: tuple[SparkExpression, ...] = ()
    column: tuple[str, ...] | None = None
    literal: str | None = None
    type: st.DataType | None = None
    cast: SparkExpression | None = None
    transform: str | None = None


def to_filter(expression: SparkExpression, schema: pa.Schema) -> Expr | None:
    """The filter that keeps exactly the rows for which Spark's expression is true; None if there is none.

    Args:
        schema: what the filter may name, in the table's types.

    Raises:
        InvalidInputError: a text search with wrong arguments, which Spark cannot evaluate either.
    """
    try:
        if any(_is_collated(part, schema) for part in _compared(expression)):
            return None
        translated = _predicate(expression, schema)
        if translated is not None:
            check_filter(without_members(translated, schema), schema)
    except LanceError:
        if has_text_search(expression):
            raise
        return None  # Spark knows how to compare these types, or complains better.
    return translated


def _compared(expression: SparkExpression) -> Iterator[SparkExpression]:
    """The parts of an expression without the arguments of text searches, which know terms and no order of strings."""
    yield expression
    if (expression.name or "").removeprefix(FUNCTION_PREFIX) not in TEXT_CALLS:
        for part in (*expression.children, *(() if expression.cast is None else (expression.cast,))):
            yield from _compared(part)


def _is_collated(part: SparkExpression, schema: pa.Schema) -> bool:
    """Whether a column, a constant or a cast is a string that Spark compares by other rules than its bytes."""
    if part.column is not None:
        return has_collation(schema.field(resolve_path(schema, part.column)[0]))
    return is_collated(part.type)


def implied_filter(expression: SparkExpression, schema: pa.Schema) -> Expr | None:
    """A filter that keeps all rows for which Spark's expression is true, and others; None if none is known.

    For a geometry within a constant one the filter is that both have a point in common.
    """
    exact = to_filter(expression, schema)
    if exact is not None:
        return exact
    terms = [implied_filter(child, schema) for child in expression.children]
    known = tuple(term for term in terms if term is not None)
    if expression.name in ("AND", "BOOLEAN_EXPRESSION"):
        return conjunction(known)
    if expression.name == "OR":
        return Or(known) if len(known) == len(terms) > 0 else None
    if expression.name not in _MEETING:
        return None
    try:
        return _meeting(expression.children, schema)
    except LanceError:
        return None  # Spark complains.


def _meeting(children: tuple[SparkExpression, ...], schema: pa.Schema) -> Expr | None:
    arguments = _geometries(children)
    if arguments is None:
        return None
    met = related_call(INTERSECTS, arguments)
    check_filter(met, schema)
    return met


def _predicate(expression: SparkExpression, schema: pa.Schema) -> Expr | None:
    if expression.column is not None:
        return Column(expression.column) if type_at(schema, expression.column) == pa.bool_() else None
    if expression.type is not None and expression.cast is None:
        value = to_literal(expression)
        return value if value is not None and value.value is not None and value.type == pa.bool_() else None
    translate = _RULES.get(expression.name or "")
    return None if translate is None else translate(expression.children, schema)


def _many(build: type[And] | type[Or], children: tuple[SparkExpression, ...], schema: pa.Schema) -> Expr | None:
    terms = [_predicate(child, schema) for child in children]
    known = tuple(term for term in terms if term is not None)
    if len(known) < max(1, len(terms)):
        return None
    return known[0] if len(known) == 1 else build(known)


def _not(children: tuple[SparkExpression, ...], schema: pa.Schema) -> Expr | None:
    if _has_variant_get(children[0]):
        return None  # What is NULL to the scan may be FALSE to Spark.
    inner = _predicate(children[0], schema)
    return None if inner is None else Not(inner)


def _is_null(children: tuple[SparkExpression, ...], _schema: pa.Schema) -> Expr | None:
    value = _operand(children[0])
    return None if value is None else IsNull(value)


def _operand(expression: SparkExpression) -> Expr | None:
    """A column, or the value at a path of a JSON column; None if `expression` is neither."""
    if expression.column is not None:
        return Column(expression.column)
    return _json_call(expression.name or "", expression.children)


def _json_call(canonical_name: str, children: tuple[SparkExpression, ...]) -> Expr | None:
    name = canonical_name.removeprefix(FUNCTION_PREFIX)
    if name == canonical_name or name not in _JSON_CALLS:
        return None
    arguments = _arguments(children)
    return None if arguments is None else _JSON_CALLS[name][1](name, arguments)


def _arguments(children: tuple[SparkExpression, ...]) -> tuple[Expr, ...] | None:
    """The arguments of a function; None if one is neither a column nor a constant."""
    arguments = [to_literal(child) if child.column is None else Column(child.column) for child in children]
    known = tuple(argument for argument in arguments if argument is not None)
    return known if len(known) == len(arguments) else None


def _json_predicate(name: str, children: tuple[SparkExpression, ...], _schema: pa.Schema) -> Expr | None:
    return _json_call(name, children)


def _geo_predicate(name: str, children: tuple[SparkExpression, ...], _schema: pa.Schema) -> Expr | None:
    arguments, call = _geometries(children), name.removeprefix(FUNCTION_PREFIX)
    return None if arguments is None else GEO_CALLS[call][1](call, arguments)


def _geometries(children: tuple[SparkExpression, ...]) -> tuple[Expr, ...] | None:
    """Columns and constant geometries; None if an argument is neither, or where only Spark can compare them."""
    if not has_geos():
        return None
    arguments = [Column(child.column) if child.column is not None else _geometry(child) for child in children]
    known = tuple(argument for argument in arguments if argument is not None)
    return known if len(known) == len(arguments) else None


def _geometry(expression: SparkExpression) -> GeometryConstant | None:
    if expression.name == _GEO_TEXT:
        (text,) = expression.children
        return GeometryConstant(text.literal) if text.literal is not None and text.cast is None else None
    dtype = expression.type
    if dtype is None or not (is_geo_type(dtype) or isinstance(dtype, st.BinaryType)):
        return None
    if expression.cast is not None or expression.literal is None:
        return None
    return GeometryConstant(base64.b64decode(expression.literal))


def _is_not_null(children: tuple[SparkExpression, ...], schema: pa.Schema) -> Expr | None:
    inner = _is_null(children, schema)
    return None if inner is None else Not(inner)


def _constant(value: Expr, _children: tuple[SparkExpression, ...], _schema: pa.Schema) -> Expr:
    return value


def _comparison(op: ComparisonOp, children: tuple[SparkExpression, ...], schema: pa.Schema) -> Expr | None:
    left, right = children
    if op is ComparisonOp.EQ and left.name in _RULES and to_literal(right) == TRUE:
        return _predicate(left, schema)  # The form of a function where Spark has a predicate.
    if right.cast is not None or (_operand(left) is None and left.cast is None):
        left, right, op = right, left, op.mirrored
    if left.column is not None and right.column is not None:
        return _two_columns(op, left.column, right.column, schema)
    value = to_literal(right)
    if value is None or value.value is None:
        return None
    if op is ComparisonOp.EQ and (text := _json_text(left, (value,), schema)) is not None:
        return Comparison(op, text, value)
    if left.column is None:
        found = _operand(left)
        if found is None:
            return None
        return Not(Comparison(ComparisonOp.EQ, found, value)) if op is ComparisonOp.NE else Comparison(op, found, value)
    if op is ComparisonOp.NE:
        equal = compared(ComparisonOp.EQ, left.column, value, schema)
        return None if equal is None else Not(equal)
    return compared(op, left.column, value, schema)


def _has_variant_get(expression: SparkExpression) -> bool:
    below = (*expression.children, *(() if expression.cast is None else (expression.cast,)))
    return expression.name == _VARIANT_GET or any(map(_has_variant_get, below))


def _json_text(expression: SparkExpression, values: tuple[Literal, ...], schema: pa.Schema) -> JsonValue | None:
    """The text at a path of a JSON column, if Spark takes the same one where it is one of `values`; else None.

    A cast of a VARIANT to STRING writes what is there, whatever it is. `json_get_string` writes some numbers otherwise,
    and has no objects and arrays. Both agree on all other texts, and whether something is one of these.
    """
    call = expression.cast
    if call is None or call.name != _VARIANT_GET or expression.type != st.StringType():
        return None
    column, *steps = call.children
    texts = [value.value for value in values]
    if column.column is None or not is_json_field(field_at(schema, column.column)):
        return None
    if not all(isinstance(text, str) and not _LIKE_OTHER_JSON.fullmatch(text) for text in texts):
        return None
    path = [_json_step(step.literal or "") for step in steps]
    return None if None in path else JsonValue(Column(column.column), "$" + "".join(map(str, path)), JsonKind.STRING)


def _json_step(step: str) -> str | None:
    """A step of Spark's paths in ours; None if ours cannot have it."""
    if step.startswith("[") or _KEY.fullmatch(step[1:]):
        return step
    return None if '"' in step else f'."{step[1:]}"'


def _two_columns(op: ComparisonOp, left: tuple[str, ...], right: tuple[str, ...], schema: pa.Schema) -> Expr | None:
    kinds = type_at(schema, left), type_at(schema, right)
    # Spark casts the narrower of two types, which then is no plain column; equal types it compares as they are.
    if kinds[0] != kinds[1] or not is_lossless(kinds[0]) or pa.types.is_nested(kinds[0]):
        return None
    if is_json_field(field_at(schema, left)):
        return None  # Spark may see texts, which have another order.
    return Comparison(op, Column(left), Column(right))


def _in(children: tuple[SparkExpression, ...], schema: pa.Schema) -> Expr | None:
    path, operand = children[0].column, _operand(children[0])
    values = [to_literal(child) for child in children[1:]]
    known = tuple(value for value in values if value is not None)
    if known and len(known) == len(values) and (text := _json_text(children[0], known, schema)) is not None:
        return In(text, known)
    if operand is None or not known or len(known) < len(values):
        return None
    if path is None or is_lossless(type_at(schema, path)):
        stored = [value if path is None else _stored(value, type_at(schema, path)) for value in known]
        found = tuple(value for value in stored if value is not None)
        return In(operand, found) if len(found) == len(stored) else None
    if any(value.value is None for value in known):
        return None
    terms = [compared(ComparisonOp.EQ, path, value, schema) for value in known]
    exact = tuple(term for term in terms if term is not None)
    if len(exact) < len(terms):
        return None
    return exact[0] if len(exact) == 1 else Or(exact)


def _text_call(name: str, children: tuple[SparkExpression, ...], _schema: pa.Schema) -> Expr | None:
    """A text function of columns and constants; None if an argument is neither."""
    arguments = _arguments(children)
    return None if arguments is None else TEXT_CALLS[name][1](name, arguments)


def _array_call(children: tuple[SparkExpression, ...], schema: pa.Schema) -> Expr | None:
    """Whether a list has one of some constants; None if Spark sees other items than are stored."""
    column, *items = children
    if column.column is None:
        return None
    dtype = type_at(schema, column.column)
    known = [value for value in map(to_literal, items) if value is not None and value.value is not None]
    if len(known) < len(items) or not is_list(dtype) or not is_lossless(dtype) or dtype.value_type == STORED_UUID:
        return None
    terms = tuple(ArrayContains(Column(column.column), value) for value in known)
    return terms[0] if len(terms) == 1 else Or(terms)


def has_text_search(expression: SparkExpression) -> bool:
    """Whether a part of an expression is a function that only a scan can answer."""
    return expression.name in TEXT_SEARCHES or any(map(has_text_search, expression.children))


def _boolean(children: tuple[SparkExpression, ...], schema: pa.Schema) -> Expr | None:
    return _predicate(children[0], schema)


def _match(op: StringMatchOp, children: tuple[SparkExpression, ...], schema: pa.Schema) -> Expr | None:
    operand, text = _operand(children[0]), to_literal(children[1])
    if operand is None or text is None or not isinstance(text.value, str):
        return None
    return StringMatch(op, operand, text.value)


_RULES: dict[str, Callable[[tuple[SparkExpression, ...], pa.Schema], Expr | None]] = {
    "ALWAYS_TRUE": partial(_constant, TRUE),
    "ALWAYS_FALSE": partial(_constant, FALSE),
    "AND": partial(_many, And),
    "OR": partial(_many, Or),
    "NOT": _not,
    "IS_NULL": _is_null,
    "IS_NOT_NULL": _is_not_null,
    "=": partial(_comparison, ComparisonOp.EQ),
    "<>": partial(_comparison, ComparisonOp.NE),
    "<=>": partial(_comparison, ComparisonOp.NULL_SAFE_EQ),
    ">": partial(_comparison, ComparisonOp.GT),
    ">=": partial(_comparison, ComparisonOp.GE),
    "<": partial(_comparison, ComparisonOp.LT),
    "<=": partial(_comparison, ComparisonOp.LE),
    "IN": _in,
    "STARTS_WITH": partial(_match, StringMatchOp.STARTS_WITH),
    "ENDS_WITH": partial(_match, StringMatchOp.ENDS_WITH),
    "CONTAINS": partial(_match, StringMatchOp.CONTAINS),
    "BOOLEAN_EXPRESSION": _boolean,
    **{FUNCTION_PREFIX + name: _array_call for name in ("array_contains", "arrays_overlap")},
    **{FUNCTION_PREFIX + name: partial(_text_call, name) for name in TEXT_CALLS},
    **{name: partial(_geo_predicate, name) for name in _GEO_PREDICATES},
    **{name: partial(_json_predicate, name) for name in _JSON_PREDICATES},
}

_MICRO = 1000

_CONSTANTS = {"ALWAYS_TRUE": TRUE, "ALWAYS_FALSE": FALSE}
"""Constants of BOOLEAN as Spark 4.0 describes them, also in comparisons."""

_LITERALS: dict[type[st.DataType], Callable[[str], Literal]] = {
    st.BooleanType: lambda text: literal(text == "true"),
    st.ByteType: lambda text: literal(int(text)),
    st.ShortType: lambda text: literal(int(text)),
    st.IntegerType: lambda text: literal(int(text)),
    st.LongType: lambda text: literal(int(text)),
    st.FloatType: lambda text: Literal(float(text), pa.float32()),
    st.DoubleType: lambda text: literal(float(text)),
    st.DecimalType: lambda text: literal(decimal.Decimal(text)),
    st.StringType: literal,
    st.BinaryType: lambda text: literal(base64.b64decode(text)),
    st.DateType: lambda text: Literal(int(text), pa.date32()),
    st.TimestampType: lambda text: timestamp_literal(int(text) * _MICRO, has_zone=True),
    st.TimestampNTZType: lambda text: timestamp_literal(int(text) * _MICRO, has_zone=False),
    st.YearMonthIntervalType: lambda text: literal(int(text)),
    st.DayTimeIntervalType: lambda text: duration_literal(int(text) * _MICRO),
}


def to_literal(expression: SparkExpression) -> Literal | None:
    """The constant that `expression` is; None if it is not one, or one of a type that filters do not have."""
    if expression.name in _CONSTANTS:
        return _CONSTANTS[expression.name]
    if expression.type is None or expression.cast is not None:
        return None
    if expression.literal is None:
        return NULL
    build = _LITERALS.get(type(expression.type))
    return None if build is None else build(expression.literal)


def to_numbers(expression: SparkExpression) -> tuple[float, ...] | None:
    """The values of a constant array of numbers; None if `expression` is none."""
    dtype = expression.type
    is_array = isinstance(dtype, st.ArrayType) and isinstance(dtype.elementType, st.NumericType)
    if not is_array or expression.cast is not None or expression.literal is None:
        return None
    return tuple(np.frombuffer(base64.b64decode(expression.literal), "<f8").tolist())


def type_at(schema: pa.Schema, path: tuple[str, ...]) -> pa.DataType:
    """The type of the field at `path`. Raises as `field_at`."""
    return field_at(schema, path).type


def compared(op: ComparisonOp, path: tuple[str, ...], value: Literal, schema: pa.Schema) -> Expr | None:
    """The column at `path` compared with `value` as Spark does, which sees no nanoseconds; None if that has no form."""
    dtype = type_at(schema, path)
    if is_lossless(dtype):
        stored = _stored(value, dtype)
        return None if stored is None else Comparison(op, Column(path), stored)
    if has_nanoseconds(dtype) and isinstance(value.value, int):
        return _compared_in_nanoseconds(op, Column(path), value, value.value)
    return None


def _stored(value: Literal, dtype: pa.DataType) -> Literal | None:
    """The constant in the form of a column; None if it has none."""
    if dtype != STORED_UUID or not isinstance(value.value, str):
        return value
    # Spark sees texts in canonical form, which have the order of the bytes.
    data = canonical_bytes(value.value)
    return None if data is None else literal(data)


def _compared_in_nanoseconds(op: ComparisonOp, column: Column, value: Literal, micros: int) -> Expr:
    """`column`, in nanoseconds, compared as Spark compares it after cutting it off to microseconds."""
    first, beyond = (_micros_like(value, micros + k) for k in (0, 1))
    if op is ComparisonOp.GT or op is ComparisonOp.LE:
        inverse = ComparisonOp.GE if op is ComparisonOp.GT else ComparisonOp.LT
        return Comparison(inverse, column, beyond)
    if op is ComparisonOp.GE or op is ComparisonOp.LT:
        return Comparison(op, column, first)
    within = And((Comparison(ComparisonOp.GE, column, first), Comparison(ComparisonOp.LT, column, beyond)))
    # A null is not within, which <=> calls FALSE.
    return within if op is ComparisonOp.EQ else Comparison(ComparisonOp.NULL_SAFE_EQ, within, TRUE)


def _micros_like(value: Literal, micros: int) -> Literal:
    nanos = micros * _MICRO
    if pa.types.is_timestamp(value.type):
        return timestamp_literal(nanos, has_zone=value.type.tz is not None)
    return duration_literal(nanos)
