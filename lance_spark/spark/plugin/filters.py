"""Filters of Spark's Python data source interface, as the expressions that the connector gets for the same predicates.

PySpark rounds decimals of pushed filters to 28 digits (the default context of Python's `decimal`), so a decimal with
that many digits may differ from the one in the query, and the filter stays with Spark.
"""

from __future__ import annotations

import base64
import datetime
import decimal
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as st

from lance_spark.expr.nodes import Expr
from lance_spark.spark.predicates import SparkExpression, to_filter

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_NAMES = {
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "In": "IN",
    "IsNull": "IS_NULL",
    "IsNotNull": "IS_NOT_NULL",
    "StringStartsWith": "STARTS_WITH",
    "StringEndsWith": "ENDS_WITH",
    "StringContains": "CONTAINS",
}
"""The connector's names of Spark's filters, by the names of the classes: Spark 4.0 has no filters to import."""

_UNKNOWN = SparkExpression(name="?")


def split_filters(filters: Iterable[Filter], schema: pa.Schema) -> tuple[list[Expr], list[Filter]]:
    """(expressions that mean exactly what Spark's filters mean, the filters for which there is none).

    Args:
        filters: what Spark offers.
        schema: the columns of the table, in its types.
    """
    pushed: list[Expr] = []
    left: list[Filter] = []
    for spark_filter in filters:
        expression = to_expr(spark_filter, schema)
        if expression is None:
            left.append(spark_filter)
        else:
            pushed.append(expression)
    return pushed, left


def to_expr(spark_filter: Filter, schema: pa.Schema) -> Expr | None:
    """The expression that keeps exactly the rows that Spark's filter keeps; None if there is none.

    Args:
        spark_filter: one of Spark's filters; its attribute is the path of a column.
        schema: the columns of the table, in its types.
    """
    return to_filter(to_spark_expression(spark_filter), schema)


def to_spark_expression(spark_filter: Filter) -> SparkExpression:
    """The predicate as the connector would get it; named "?" if there is no such form."""
    kind = type(spark_filter).__name__
    parts: Any = spark_filter  # All but NOT have an attribute; only the null checks have no value.
    if kind == "Not":
        return SparkExpression("NOT", (to_spark_expression(parts.child),))
    name = _NAMES.get(kind)
    if name is None:
        return _UNKNOWN
    values = () if name in ("IS_NULL", "IS_NOT_NULL") else parts.value if name == "IN" else (parts.value,)
    return SparkExpression(name, (SparkExpression(column=tuple(parts.attribute)), *map(_constant, values)))


def _constant(value: object) -> SparkExpression:
    """The constant; named "?" if PySpark may have rounded it, or if filters hold no such values."""
    if isinstance(value, decimal.Decimal) and len(value.as_tuple().digits) >= decimal.DefaultContext.prec:
        return _UNKNOWN
    if value is None:
        return SparkExpression(type=st.NullType())
    if isinstance(value, datetime.datetime):
        has_zone = value.tzinfo is not None
        return SparkExpression(
            type=st.TimestampType() if has_zone else st.TimestampNTZType(), literal=_timestamp(value)
        )
    for kind, dtype, text in _CONSTANTS:
        if isinstance(value, kind):
            return SparkExpression(type=dtype, literal=text(value))
    return _UNKNOWN


def _micros(value: datetime.timedelta) -> str:
    return str(value // datetime.timedelta(microseconds=1))


def _timestamp(value: datetime.datetime) -> str:
    return _micros(value - datetime.datetime(1970, 1, 1, tzinfo=value.tzinfo))


_CONSTANTS: tuple[tuple[type, st.DataType, Callable[[Any], str]], ...] = (
    (bool, st.BooleanType(), lambda value: "true" if value else "false"),
    (int, st.LongType(), str),
    (float, st.DoubleType(), repr),
    (decimal.Decimal, st.DecimalType(), str),
    (str, st.StringType(), str),
    (bytes, st.BinaryType(), lambda value: base64.b64encode(value).decode()),
    (datetime.timedelta, st.DayTimeIntervalType(), _micros),
    (datetime.date, st.DateType(), lambda value: str((value - datetime.date(1970, 1, 1)).days)),
)
"""Kinds of values, a subclass before its base; how the connector spells them."""
