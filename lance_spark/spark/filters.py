"""Spark's filters as our expressions.

Only what has exactly Spark's meaning is translated: Spark does not look again at rows that a pushed filter let pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import datasource as spark

from lance_spark.errors import LanceError
from lance_spark.expr.evaluate import check_filter
from lance_spark.expr.literals import literal
from lance_spark.expr.nodes import (
    Column,
    Comparison,
    ComparisonOp,
    Expr,
    In,
    IsNull,
    Not,
    StringMatch,
    StringMatchOp,
    referenced_columns,
)
from lance_spark.spark.types import is_lossless

_COMPARISONS: dict[type[spark.Filter], ComparisonOp] = {
    spark.EqualTo: ComparisonOp.EQ,
    spark.EqualNullSafe: ComparisonOp.NULL_SAFE_EQ,
    spark.GreaterThan: ComparisonOp.GT,
    spark.GreaterThanOrEqual: ComparisonOp.GE,
    spark.LessThan: ComparisonOp.LT,
    spark.LessThanOrEqual: ComparisonOp.LE,
}
_MATCHES: dict[type[spark.Filter], StringMatchOp] = {
    spark.StringStartsWith: StringMatchOp.STARTS_WITH,
    spark.StringEndsWith: StringMatchOp.ENDS_WITH,
    spark.StringContains: StringMatchOp.CONTAINS,
}


def split_filters(filters: Iterable[spark.Filter], schema: pa.Schema) -> tuple[list[Expr], list[spark.Filter]]:
    """(expressions that mean exactly what Spark's filters mean, the filters for which there is none).

    Args:
        schema: the columns of the table, in its types.
    """
    pushed: list[Expr] = []
    left: list[spark.Filter] = []
    for spark_filter in filters:
        expression = _exact(spark_filter, schema)
        if expression is None:
            left.append(spark_filter)
        else:
            pushed.append(expression)
    return pushed, left


def _exact(spark_filter: spark.Filter, schema: pa.Schema) -> Expr | None:
    expression = to_expr(spark_filter)
    if expression is None or not all(_seen_as_is(schema, path) for path in referenced_columns(expression)):
        return None
    try:
        check_filter(expression, schema)
    except LanceError:
        return None  # Spark knows how to compare these types, or complains better.
    return expression


def _seen_as_is(schema: pa.Schema, path: Sequence[str]) -> bool:
    index = schema.get_field_index(path[0])
    if index < 0:
        return False
    dtype = schema.field(index).type
    for name in path[1:]:
        index = dtype.get_field_index(name) if pa.types.is_struct(dtype) else -1
        if index < 0:
            return False
        dtype = dtype.field(index).type
    return is_lossless(dtype)


def to_expr(spark_filter: Any) -> Expr | None:
    """The expression for one of Spark's filters, None for a kind or a value that has none."""
    kind = type(spark_filter)
    if isinstance(spark_filter, spark.Not):
        child = to_expr(spark_filter.child)
        return None if child is None else Not(child)
    if not hasattr(spark_filter, "attribute"):
        return None
    column = Column(tuple(spark_filter.attribute))
    if isinstance(spark_filter, spark.IsNull):
        return IsNull(column)
    if isinstance(spark_filter, spark.IsNotNull):
        return Not(IsNull(column))
    try:
        if kind in _COMPARISONS:
            return Comparison(_COMPARISONS[kind], column, literal(spark_filter.value))
        if kind in _MATCHES:
            return StringMatch(_MATCHES[kind], column, spark_filter.value)
        if isinstance(spark_filter, spark.In):
            return In(column, tuple(literal(value) for value in spark_filter.value))
    except LanceError:
        return None
    return None
