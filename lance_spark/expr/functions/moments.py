"""Functions of dates, timestamps and times of day."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError
from lance_spark.expr.datetime_text import NANOS_PER_UNIT
from lance_spark.expr.function_names import FunctionName
from lance_spark.expr.functions.base import FunctionBody, ScalarFunction, constant_text
from lance_spark.expr.temporal import date_to_timestamp, to_instants, to_local
from lance_spark.expr.values import Family, Operand, family_of, null_like, required_family

_DATES = (Family.DATE, Family.TIMESTAMP, Family.TIMESTAMP_NTZ)
_CLOCKS = (Family.TIMESTAMP, Family.TIMESTAMP_NTZ, Family.TIME)

_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond")
"""What `date_trunc` cuts to; a week begins on Monday."""


def _part(extract: Callable[[Operand], Operand]) -> FunctionBody:
    def body(arguments: tuple[Operand, ...], time_zone: str) -> Operand:
        return extract(_local(arguments[0], time_zone)).cast(pa.int64())

    return body


def _local(value: Operand, time_zone: str) -> Operand:
    return to_local(value, time_zone) if family_of(value.type) is Family.TIMESTAMP else value


def _day_of_week(value: Operand) -> Operand:
    return pc.day_of_week(value, count_from_zero=False, week_start=7)


def _iso_day_of_week(value: Operand) -> Operand:
    return pc.day_of_week(value, count_from_zero=False, week_start=1)


def _milliseconds(value: Operand) -> Operand:
    """Milliseconds within the minute: the second and its fraction, as the reference library counts."""
    return pc.add(pc.multiply(pc.second(value), 1000), pc.millisecond(value))


def _microseconds(value: Operand) -> Operand:
    return pc.add(pc.multiply(_milliseconds(value), 1000), pc.microsecond(value))


def _epoch(arguments: tuple[Operand, ...], time_zone: str) -> Operand:
    """Seconds since 1970 with their fraction, as doubles. A timestamp without a zone is in the session's zone."""
    value = arguments[0]
    if family_of(value.type) is Family.DATE:
        value = date_to_timestamp(value)
    if family_of(value.type) is Family.TIMESTAMP_NTZ:
        value = to_instants(value, time_zone)
    per_second = NANOS_PER_UNIT["s"] // NANOS_PER_UNIT[value.type.unit]
    return pc.divide(value.cast(pa.int64()).cast(pa.float64(), safe=False), float(per_second))


def _date_trunc(arguments: tuple[Operand, ...], time_zone: str) -> Operand:
    unit, value = constant_text("date_trunc", arguments[0]), arguments[1]
    family = required_family(value, "date_trunc")
    if family not in _DATES:
        raise InvalidInputError(f"date_trunc takes a date or timestamp, got {value.type}")
    if unit is None:
        return null_like(value, value.type)
    if unit.lower() not in _UNITS:
        raise InvalidInputError(f"date_trunc to {unit!r} is not supported; there are {', '.join(_UNITS)}")
    local = date_to_timestamp(value) if family is Family.DATE else _local(value, time_zone)
    if isinstance(local, pa.Scalar):
        local = pa.repeat(local, 1)
    cut = pc.floor_temporal(local, unit=unit.lower()).cast(local.type)
    instants = to_instants(cut, time_zone) if family is Family.TIMESTAMP else cut
    return instants[0] if isinstance(value, pa.Scalar) else instants


_OF_DATES: dict[FunctionName, Callable[[Operand], Operand]] = {
    FunctionName.YEAR: pc.year,
    FunctionName.QUARTER: pc.quarter,
    FunctionName.MONTH: pc.month,
    FunctionName.WEEKOFYEAR: pc.iso_week,
    FunctionName.DAY: pc.day,
    FunctionName.DAYOFYEAR: pc.day_of_year,
    FunctionName.DAYOFWEEK: _day_of_week,
    FunctionName.ISODOW: _iso_day_of_week,
}
_OF_CLOCKS: dict[FunctionName, Callable[[Operand], Operand]] = {
    FunctionName.HOUR: pc.hour,
    FunctionName.MINUTE: pc.minute,
    FunctionName.SECOND: pc.second,
    FunctionName.MILLISECOND: _milliseconds,
    FunctionName.MICROSECOND: _microseconds,
}

MOMENT_FUNCTIONS: dict[FunctionName, ScalarFunction] = {
    **{name: ScalarFunction(_DATES, _part(extract)) for name, extract in _OF_DATES.items()},
    **{name: ScalarFunction(_CLOCKS, _part(extract)) for name, extract in _OF_CLOCKS.items()},
    FunctionName.EPOCH: ScalarFunction(_DATES, _epoch),
    FunctionName.DATE_TRUNC: ScalarFunction((), _date_trunc),
}
