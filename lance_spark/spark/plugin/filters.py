"""Spark's filters as our expressions.

Only what has exactly Spark's meaning is translated: Spark does not look again at rows that a pushed filter let pass.
Two traps are on the way:

- PySpark rounds decimals of pushed filters to 28 digits (the default context of Python's `decimal`), so a decimal with
  that many digits may not be the one of the query.
- Spark sees microseconds. Where the table holds nanoseconds, `ts = 5 us` means the thousand values from 5000 ns on.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterable
from functools import partial

import pyarrow as pa
from pyspark.sql import datasource as spark

from lance_spark.errors import LanceError
from lance_spark.expr.columns import resolve_path
from lance_spark.expr.evaluate import check_filter
from lance_spark.expr.literals import TRUE, Literal, duration_literal, literal, timestamp_literal
from lance_spark.expr.nodes import (
    And,
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
)
from lance_spark.spark.types import has_nanoseconds, is_lossless

_NANOS_PER_MICRO = 1000


def split_filters(filters: Iterable[spark.Filter], schema: pa.Schema) -> tuple[list[Expr], list[spark.Filter]]:
    """(expressions that mean exactly what Spark's filters mean, the filters for which there is none).

    Args:
        filters: what Spark offers.
        schema: the columns of the table, in its types.
    """
    pushed: list[Expr] = []
    left: list[spark.Filter] = []
    for spark_filter in filters:
        expression = to_expr(spark_filter, schema)
        if expression is None:
            left.append(spark_filter)
        else:
            pushed.append(expression)
    return pushed, left


def to_expr(spark_filter: spark.Filter, schema: pa.Schema) -> Expr | None:
    """The expression that keeps exactly the rows that Spark's filter keeps; None if there is none.

    Args:
        spark_filter: one of Spark's filters; its attribute is the path of a column.
        schema: the columns of the table, in its types.
    """
    try:
        expression = _translated(spark_filter, schema)
        if expression is not None:
            check_filter(expression, schema)
    except LanceError:
        return None  # Spark knows how to compare these types, or complains better.
    return expression


def _translated(spark_filter: spark.Filter, schema: pa.Schema) -> Expr | None:
    if isinstance(spark_filter, spark.Not):
        child = _translated(spark_filter.child, schema)
        return None if child is None else Not(child)
    translate = _RULES.get(type(spark_filter))
    return None if translate is None else translate(spark_filter, schema)


def _is_null(spark_filter: spark.IsNull, _schema: pa.Schema) -> Expr:
    return IsNull(Column(tuple(spark_filter.attribute)))


def _is_not_null(spark_filter: spark.IsNotNull, _schema: pa.Schema) -> Expr:
    return Not(IsNull(Column(tuple(spark_filter.attribute))))


def _comparison(op: ComparisonOp, spark_filter: spark.EqualTo, schema: pa.Schema) -> Expr | None:
    value = _literal(spark_filter.value)
    return None if value is None else compared(op, tuple(spark_filter.attribute), value, schema)


def _in(spark_filter: spark.In, schema: pa.Schema) -> Expr | None:
    path = tuple(spark_filter.attribute)
    values = [_literal(value) for value in spark_filter.value]
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    dtype = type_at(schema, path)
    if is_lossless(dtype):
        return In(Column(path), tuple(known))
    options = [compared(ComparisonOp.EQ, path, value, schema) for value in known]
    terms = tuple(option for option in options if option is not None)
    if len(terms) < len(options):
        return None
    return terms[0] if len(terms) == 1 else Or(terms)


def _match(op: StringMatchOp, spark_filter: spark.StringStartsWith, schema: pa.Schema) -> Expr | None:
    if not isinstance(spark_filter.value, str):
        return None
    return StringMatch(op, Column(tuple(spark_filter.attribute)), spark_filter.value)


_RULES: dict[type[spark.Filter], Callable[..., Expr | None]] = {
    spark.IsNull: _is_null,
    spark.IsNotNull: _is_not_null,
    spark.EqualTo: partial(_comparison, ComparisonOp.EQ),
    spark.EqualNullSafe: partial(_comparison, ComparisonOp.NULL_SAFE_EQ),
    spark.GreaterThan: partial(_comparison, ComparisonOp.GT),
    spark.GreaterThanOrEqual: partial(_comparison, ComparisonOp.GE),
    spark.LessThan: partial(_comparison, ComparisonOp.LT),
    spark.LessThanOrEqual: partial(_comparison, ComparisonOp.LE),
    spark.In: _in,
    spark.StringStartsWith: partial(_match, StringMatchOp.STARTS_WITH),
    spark.StringEndsWith: partial(_match, StringMatchOp.ENDS_WITH),
    spark.StringContains: partial(_match, StringMatchOp.CONTAINS),
}


def _literal(value: object) -> Literal | None:
    """The literal for a filter's value; None if PySpark may have rounded it.

    Raises:
        InvalidInputError: no filter can hold such a value.
    """
    if isinstance(value, decimal.Decimal) and len(value.as_tuple().digits) >= decimal.DefaultContext.prec:
        return None
    return literal(value)


def type_at(schema: pa.Schema, path: tuple[str, ...]) -> pa.DataType:
    """The type of the field at `path`.

    Raises:
        NotFoundError, InvalidInputError: there is none, or more than one.
    """
    top, *below = resolve_path(schema, path)
    dtype = schema.field(top).type
    for position in below:
        dtype = dtype.field(position).type
    return dtype


def compared(op: ComparisonOp, path: tuple[str, ...], value: Literal, schema: pa.Schema) -> Expr | None:
    """The column at `path` compared with `value` as Spark does, which sees no nanoseconds; None if that has no form."""
    dtype = type_at(schema, path)
    if is_lossless(dtype):
        return Comparison(op, Column(path), value)
    if has_nanoseconds(dtype) and isinstance(value.value, int):
        return _compared_in_nanoseconds(op, Column(path), value, value.value)
    return None


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
    nanos = micros * _NANOS_PER_MICRO
    if pa.types.is_timestamp(value.type):
        return timestamp_literal(nanos, has_zone=value.type.tz is not None)
    return duration_literal(nanos)
