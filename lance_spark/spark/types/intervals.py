"""Intervals: durations for those of days and seconds, whole months for those of years and months.

The units that a column was declared with are in the metadata of its field; other readers see a duration or an INT.
Neither Arrow's Python library nor the format has intervals of months, so Spark and its workers exchange INT.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.types as pt
from pyspark.sql import types as st

from lance_spark.errors import UnsupportedFeatureError

INTERVAL = b"lance-spark:interval"
"""Field metadata: the units in Spark, such as ``hour to minute``. A duration without it has days to seconds."""

ANY_INTERVAL = st.DayTimeIntervalType()
_DAY_TIME = r"interval (?:day|hour|minute|second)(?: to (?:hour|minute|second))?"

Interval = st.DayTimeIntervalType | st.YearMonthIntervalType


def _name(interval: Interval) -> bytes:
    return interval.simpleString().removeprefix("interval ").encode()


_DAY_TIMES: dict[bytes, st.DayTimeIntervalType] = {
    _name(interval): interval
    for interval in (st.DayTimeIntervalType(first, last) for first in range(4) for last in range(first, 4))
}
_YEAR_MONTHS: dict[bytes, st.YearMonthIntervalType] = {
    _name(interval): interval
    for interval in (st.YearMonthIntervalType(first, last) for first in range(2) for last in range(first, 2))
}


def interval_of(field: pa.Field) -> st.DayTimeIntervalType:
    """The units of a duration in Spark: those of its metadata, or days to seconds."""
    kept = (field.metadata or {}).get(INTERVAL)
    return _DAY_TIMES.get(kept, ANY_INTERVAL) if kept is not None else ANY_INTERVAL


def year_month_of(field: pa.Field) -> st.YearMonthIntervalType | None:
    """The type of a column of months; None for other columns."""
    kept = (field.metadata or {}).get(INTERVAL)
    return _YEAR_MONTHS.get(kept) if kept is not None and pt.is_int32(field.type) else None


def interval_metadata(dtype: st.DataType) -> dict[bytes, bytes]:
    """The metadata of a field for values of `dtype`; empty if its Arrow type says it all."""
    if isinstance(dtype, st.YearMonthIntervalType) or (
        isinstance(dtype, st.DayTimeIntervalType) and dtype != ANY_INTERVAL
    ):
        return {INTERVAL: _name(dtype)}
    return {}


def with_months(columns: st.StructType) -> st.StructType:
    """`columns` with INT for intervals of years and months, at every level."""
    return st.StructType(
        [st.StructField(part.name, type_with_months(part.dataType), part.nullable, part.metadata) for part in columns]
    )


def type_with_months(dtype: st.DataType) -> st.DataType:
    """`dtype` with INT for intervals of years and months, at every level."""
    if isinstance(dtype, st.YearMonthIntervalType):
        return st.IntegerType()
    if isinstance(dtype, st.StructType):
        return with_months(dtype)
    if isinstance(dtype, st.ArrayType):
        return st.ArrayType(type_with_months(dtype.elementType), dtype.containsNull)
    if isinstance(dtype, st.MapType):
        return st.MapType(type_with_months(dtype.keyType), type_with_months(dtype.valueType), dtype.valueContainsNull)
    return dtype


def refuse_months(columns: st.StructType) -> None:
    """Passes if Spark's Python data sources can have all columns.

    Raises:
        UnsupportedFeatureError: one is an interval of years and months, or has such intervals inside.
    """
    for field in columns.fields:
        if type_with_months(field.dataType) != field.dataType:
            raise UnsupportedFeatureError(
                f"column {field.name} is {field.dataType.simpleString().upper()}, and Spark has no intervals of years "
                "and months in Python data sources; set the session up with lance_spark.configure, cast the column, or "
                "choose others by option 'columns'",
                feature="INTERVAL YEAR TO MONTH without the connector",
            )


def without_months(columns: pa.Schema) -> pa.Schema:
    """The columns that are not months: Spark reads numbers of months as another type than INT."""
    return pa.schema([field for field in columns if year_month_of(field) is None], metadata=columns.metadata)


def with_any_units(spark: st.DataType) -> str:
    """The name of a type in which all intervals of days and seconds are equal."""
    return re.sub(_DAY_TIME, ANY_INTERVAL.simpleString(), spark.simpleString())
