"""`year`, `month`, `day` and `hour`: one calendar field of a date or timestamp.

Fields of one column are projected together: `ts >= '2025-03-10'` implies `year > 2025 OR year = 2025 AND month >= 3`
for partitions by year and month, which neither field implies alone. Any fields of the hierarchy may be missing.

For joins the fields are one ordered number: the number of days since 1970-01-01 orders partitions by year, month and
day as the column does, and is reduced to months or years, so that tables of different granularity join without a
shuffle (specification, Storage Partitioned Join: time hierarchy).

>>> days = ordinals([pa.array([2024, None]), pa.array([2, None]), pa.array([29, None])])
>>> days.to_pylist(), CoarserTime(Level.DAY, Level.MONTH).apply(days).to_pylist()
([19782, None], [649, None])
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.datetime_text import is_utc
from lance_spark.expr.function_names import FunctionName
from lance_spark.expr.literals import FALSE, literal
from lance_spark.expr.nodes import Arithmetic, ArithmeticOp, Column, ComparisonOp, Expr, Function
from lance_spark.expr.values import Family, family_of, plain
from lance_spark.partitioned.transforms.base import Keep, Reducer, SourceColumn, Transform
from lance_spark.partitioned.transforms.calendar import (
    FIRST,
    Fields,
    Level,
    end_of,
    field_values,
    fields_of,
    last_of,
    start_of,
    ticks_per_day,
)
from lance_spark.partitioned.values.conditions import all_of, any_of, compared, is_in, with_null
from lance_spark.partitioned.values.key_space import KeySpace, plain_type_of
from lance_spark.partitioned.values.value_set import ALL_VALUES, ValueSet, between, coarsened

_MAX_RANGES = 32
_WEIGHT_BITS = (14, 10, 5, 0)
"""The bit shifts that combine fields into one number: month (4 bits), day and hour (5 bits each)."""

_UNITS = ("Y", "M", "D", "h")


class DatePart(Transform):
    """One calendar field, as DataFusion's `date_part` computes it: in UTC for a timestamp with a zone."""

    __slots__ = ()
    level: ClassVar[Level]

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> DatePart:
        return cls()

    def check_sources(self, sources: Sequence[pa.DataType]) -> None:
        super().check_sources(sources)
        family = family_of(plain_type_of(sources[0]))
        if family not in self._families() and family is not Family.NULL:
            kinds = "a timestamp" if self.level is Level.HOUR else "a date or timestamp"
            raise InvalidInputError(f"transform {self.name} takes {kinds}, got {sources[0]}")

    def _families(self) -> tuple[Family, ...]:
        stamps = (Family.TIMESTAMP, Family.TIMESTAMP_NTZ)
        return stamps if self.level is Level.HOUR else (Family.DATE, *stamps)

    def result_type(self, sources: Sequence[pa.DataType]) -> pa.DataType:
        self.check_sources(sources)
        return pa.int32()

    def apply(self, *columns: pa.Array) -> pa.Array:
        (column,) = columns
        self.check_sources([column.type])
        values = plain(column)
        if pa.types.is_null(values.type):
            return pa.nulls(len(values), pa.int32())
        return field_values(self.level, values)

    def derived_expression(self, sources: Sequence[pa.DataType]) -> str:
        return f"date_part('{self.name}', col0)"

    def filter_expression(
        self, columns: Sequence[Column], sources: Sequence[pa.DataType], time_zone: str
    ) -> Expr | None:
        if family_of(plain_type_of(sources[0])) is Family.TIMESTAMP and not is_utc(time_zone):
            # A filter computes the field in the session's zone.
            return None
        return Function(FunctionName(self.name), (columns[0],))

    def _project_values(self, source: SourceColumn, partition: Column) -> Expr | None:
        return _condition({self.level: partition}, source.values, source.space)

    def domain(self, value: pa.Scalar, source: pa.DataType) -> ValueSet:
        if self.level is not Level.YEAR or not value.is_valid:
            return super().domain(value, source)
        return fields_domain([value.as_py()], source)


def project_fields(fields: Mapping[Level, Column], source: SourceColumn) -> Expr | None:
    """A condition on several partition fields of one source column, like `Transform.project`; None: no restriction."""
    values = source.values
    if values.is_all:
        return None
    if not values.intervals:
        condition: Expr | None = FALSE
    else:
        condition = None if values.has_all_values else _condition(fields, values, source.space)
    return with_null(condition, values.has_null, fields[min(fields)])


def fields_domain(fields: Sequence[int], source: pa.DataType) -> ValueSet:
    """The dates or timestamps with these fields: year, then month and so on."""
    try:
        first, end = start_of(*fields), end_of(*fields)
    except (ValueError, TypeError):
        return ALL_VALUES
    per_day = ticks_per_day(plain_type_of(source))
    return between(first * per_day // 24, end * per_day // 24)


def _condition(columns: Mapping[Level, Column], values: ValueSet, space: KeySpace) -> Expr | None:
    per_day = ticks_per_day(space.type)
    bounds = [
        (
            None if low is None else fields_of(low, per_day),
            None if high is None else fields_of(high - 1, per_day),
        )
        for low, high in values.intervals
    ]
    if len(bounds) > _MAX_RANGES:
        return _one_of(columns, bounds) or _condition(columns, coarsened(values, _MAX_RANGES), space)
    ranges = _Ranges(columns)
    return any_of(dict.fromkeys(ranges.condition(Level.YEAR, low, high) for low, high in bounds))


def _one_of(columns: Mapping[Level, Column], bounds: Sequence[tuple[Fields | None, Fields | None]]) -> Expr | None:
    """Many single times as one IN condition; None if an interval spans several combinations of fields."""
    numbers: dict[int, None] = {}
    for low, high in bounds:
        if low is None or high is None or low[: max(columns) + 1] != high[: max(columns) + 1]:
            return None
        numbers[sum(low[level] << _WEIGHT_BITS[level] for level in columns)] = None
    if len(columns) == 1:
        ((level, column),) = columns.items()
        return is_in(column, [number >> _WEIGHT_BITS[level] for number in numbers])
    terms: list[Expr] = [
        Arithmetic(ArithmeticOp.MULTIPLY, column, literal(1 << _WEIGHT_BITS[level]))
        for level, column in columns.items()
    ]
    total = functools.reduce(lambda sum_, term: Arithmetic(ArithmeticOp.ADD, sum_, term), terms)
    return is_in(total, list(numbers))


class _Ranges:
    """Conditions on fields for times between two others (both included; None for no bound)."""

    def __init__(self, columns: Mapping[Level, Column]) -> None:
        self._columns = columns
        self._deepest = max(columns)

    def condition(self, level: int, low: Fields | None, high: Fields | None) -> Expr | None:
        """For times that have the coarser fields of the bounds."""
        if level > self._deepest or (low is None and high is None):
            return None
        if low is None or high is None:
            return self._from(level, low) if low is not None else self._until(level, high or (0, 1, 1, 0))
        first, last = low[level], high[level]
        if first == last:
            return all_of([self._is(level, first), self.condition(level + 1, low, high)])
        after_first, before_last = self._from(level + 1, low), self._until(level + 1, high)
        if (after_first, before_last) == (None, None) and first == FIRST[level] and last == last_of(Level(level), high):
            return None
        cases = [
            self._within(level, first + (after_first is not None), last - (before_last is not None)),
            all_of([self._is(level, first), after_first]) if after_first is not None else FALSE,
            all_of([self._is(level, last), before_last]) if before_last is not None else FALSE,
        ]
        return any_of(cases)

    def _from(self, level: int, low: Fields) -> Expr | None:
        if level > self._deepest:
            return None
        at, last = low[level], last_of(Level(level), low)
        rest = self._from(level + 1, low)
        return self._one_sided(level, ComparisonOp.GT, at, rest, is_end=at == last, is_start=at == FIRST[level])

    def _until(self, level: int, high: Fields) -> Expr | None:
        if level > self._deepest:
            return None
        at, last = high[level], last_of(Level(level), high)
        rest = self._until(level + 1, high)
        return self._one_sided(level, ComparisonOp.LT, at, rest, is_end=at == FIRST[level], is_start=at == last)

    def _one_sided(
        self, level: int, op: ComparisonOp, at: int, rest: Expr | None, *, is_end: bool, is_start: bool
    ) -> Expr | None:
        """The field is beyond `at` (unless `at` is the end), or equal to `at` and `rest` holds."""
        column = self._columns.get(Level(level))
        if column is None:
            return rest if is_end else None
        if rest is None:
            return None if is_start else compared(column, ComparisonOp.EQ if is_end else _INCLUSIVE[op], at)
        beyond = FALSE if is_end else compared(column, op, at)
        return any_of([beyond, all_of([self._is(level, at), rest])])

    def _is(self, level: int, value: int) -> Expr | None:
        column = self._columns.get(Level(level))
        return None if column is None else compared(column, ComparisonOp.EQ, value)

    def _within(self, level: int, first: int, last: int) -> Expr | None:
        """The field is in first..last: FALSE if this range is empty."""
        column = self._columns.get(Level(level))
        if first > last:
            return FALSE
        if column is None:
            return None
        if first == last:
            return compared(column, ComparisonOp.EQ, first)
        return all_of([compared(column, ComparisonOp.GE, first), compared(column, ComparisonOp.LE, last)])


_INCLUSIVE: dict[ComparisonOp, ComparisonOp] = {ComparisonOp.GT: ComparisonOp.GE, ComparisonOp.LT: ComparisonOp.LE}


@dataclass(frozen=True, slots=True)
class Year(DatePart):
    """The calendar year (2025)."""

    name = "year"
    level = Level.YEAR


@dataclass(frozen=True, slots=True)
class Month(DatePart):
    """The month of the year (1-12)."""

    name = "month"
    level = Level.MONTH


@dataclass(frozen=True, slots=True)
class Day(DatePart):
    """The day of the month (1-31)."""

    name = "day"
    level = Level.DAY


@dataclass(frozen=True, slots=True)
class Hour(DatePart):
    """The hour of the day (0-23)."""

    name = "hour"
    level = Level.HOUR


def ordinals(fields: Sequence[pa.Array]) -> pa.Int64Array:
    """Years, months, days or hours since 1970, from one to four columns of fields: year, month, day, hour.

    Null where the year is null: int64[num_rows].
    """
    if not 1 <= len(fields) <= len(Level):
        raise InvalidInputError(f"a time hierarchy has one to four fields, got {len(fields)}")
    first = (1970, 1, 1, 0)
    parts = [
        column.cast(pa.int64()).fill_null(start).to_numpy(zero_copy_only=False) - start
        for column, start in zip(fields, first, strict=False)
    ]
    total = parts[0].view("datetime64[Y]")
    for unit, part in zip(_UNITS[1:], parts[1:], strict=False):
        total = total.astype(f"datetime64[{unit}]") + part
    nulls = fields[0].is_null().to_numpy(zero_copy_only=False) if fields[0].null_count else None
    return pa.array(total.astype(np.int64), mask=nulls)


@dataclass(frozen=True, slots=True)
class CoarserTime(Reducer):
    """Reduces ordinals of `source` granularity to those of a coarser `target`."""

    source: Level
    target: Level

    def apply(self, values: pa.Array) -> pa.Array:
        nulls = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
        numbers = np.ascontiguousarray(values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False))
        moments = numbers.view(f"datetime64[{_UNITS[self.source]}]")
        return pa.array(moments.astype(f"datetime64[{_UNITS[self.target]}]").astype(np.int64), mask=nulls)


def time_reducer(source: Level, other: Level) -> Reducer:
    """The reducer that makes ordinals of one granularity comparable with those of another."""
    return Keep() if source <= other else CoarserTime(source, other)
