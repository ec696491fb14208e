"""The sets of values of one column for which a condition is TRUE, and for which it is FALSE.

The sets are supersets: a condition that cannot be analysed exactly (`name LIKE '%x'`) gives too large sets.
Three-valued logic needs no special treatment here: where a condition is NULL the value is in neither set.

>>> from lance_spark.expr.sql.parse import parse
>>> domain = truth_of(parse("x BETWEEN 3 AND 5").terms[0], {("x",): pa.int8()}, "UTC")
>>> domain.path, domain.true.intervals, domain.false.intervals, domain.is_exact
(('x',), ((3, None),), ((None, 3),), True)
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.comparison import align, scalar_as_double
from lance_spark.expr.datetime_text import is_utc
from lance_spark.expr.evaluate import constant_value
from lance_spark.expr.function_names import FunctionName
from lance_spark.expr.grid import grid_of
from lance_spark.expr.literals import Literal, literal
from lance_spark.expr.nodes import (
    Cast,
    Column,
    Comparison,
    ComparisonOp,
    Expr,
    Function,
    In,
    IsNan,
    IsNull,
    Like,
    StringMatch,
    StringMatchOp,
    like_tokens,
)
from lance_spark.expr.values import NUMBERS, Family, family_of
from lance_spark.partitioned.transforms.calendar import start_of, ticks_per_day
from lance_spark.partitioned.values.key_space import KeySpace, prefix_interval, space_of
from lance_spark.partitioned.values.value_set import (
    ALL_VALUES,
    EVERYTHING,
    NOTHING,
    ONLY_NULL,
    ValueSet,
    between,
    complement,
    mapped,
    of_intervals,
    without_null,
)

ColumnTypes = Mapping[tuple[str, ...], pa.DataType]
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PredicateDomain:
    """The values of the column at `path` for which a condition is TRUE, and for which it is FALSE.

    `is_exact` is false if the sets may be larger.
    """

    path: Path
    true: ValueSet
    false: ValueSet
    is_exact: bool


@dataclass(frozen=True, slots=True)
class _Scope:
    types: ColumnTypes
    time_zone: str


@dataclass(frozen=True, slots=True)
class _ComparedColumn:
    """A column in a comparison, possibly inside a monotonic function.

    Args:
        path: the column.
        own: the keys of the column.
        space: the keys of the compared values.
        preimage: maps compared values to values of the column.
        slack: the maximum error of the preimage, in ticks of the column.
    """

    path: Path
    own: KeySpace
    space: KeySpace
    preimage: Callable[[ValueSet], ValueSet] = lambda values: values
    slack: int = 0

    def truth(self, true: ValueSet, false: ValueSet, *, slack: int = 0, is_exact: bool = True) -> PredicateDomain:
        slack += self.slack
        sides = [self.own.normalized(_widened(self.preimage(values), slack)) for values in (true, false)]
        return PredicateDomain(self.path, sides[0], sides[1], is_exact and slack == 0)

    def truth_where(self, true: ValueSet, *, slack: int = 0) -> PredicateDomain:
        """TRUE for these values, NULL for NULL, FALSE for the others."""
        return self.truth(without_null(true), without_null(complement(true)), slack=slack)

    def unknown(self) -> PredicateDomain:
        return PredicateDomain(self.path, ALL_VALUES, ALL_VALUES, False)


def truth_of(expr: Expr, types: ColumnTypes, time_zone: str) -> PredicateDomain | None:
    """The TRUE and FALSE values of a condition (not AND, OR or NOT) on one column; None if they are unknown.

    Args:
        expr: the condition, columns spelled as in `types`.
        types: the relevant columns.
        time_zone: the session's zone.
    """
    return _truth(expr, _Scope(types, time_zone))


@functools.singledispatch
def _truth(expr: Expr, scope: _Scope) -> PredicateDomain | None:
    return None


@_truth.register
def _(expr: Column, scope: _Scope) -> PredicateDomain | None:
    column = _compared_column(expr, scope)
    return None if column is None else _compared(column, ComparisonOp.EQ, pa.scalar(True), scope)


@_truth.register
def _(expr: Comparison, scope: _Scope) -> PredicateDomain | None:
    for value, other, op in ((expr.left, expr.right, expr.op), (expr.right, expr.left, expr.op.mirrored)):
        column, constant = _compared_column(value, scope), _constant(other, scope)
        if column is not None and constant is not None:
            return _compared(column, op, constant, scope)
    return None


@_truth.register
def _(expr: In, scope: _Scope) -> PredicateDomain | None:
    column = _compared_column(expr.value, scope)
    options = [_constant(option, scope) for option in expr.options]
    known = [option for option in options if option is not None]
    if column is None or len(known) < len(options):
        return None
    if any(family_of(option.type) is Family.FLOAT for option in known) and family_of(column.space.type) in NUMBERS:
        # One floating-point option makes the whole list floating-point (docs/design/014-filter-semantics.md).
        known = [_as_double(option) for option in known]
    cuts = [_cuts(column, option, scope) for option in known if option.is_valid]
    certain = [cut for cut in cuts if cut is not None]
    if len(certain) < len(cuts):
        return column.unknown()
    true = of_intervals((cut.low, cut.high) for cut in certain)
    # Never FALSE if an option is NULL.
    false = without_null(complement(true)) if len(cuts) == len(known) else NOTHING
    return column.truth(true, false, slack=max((cut.slack for cut in certain), default=0))


def _as_double(constant: pa.Scalar) -> pa.Scalar:
    if family_of(constant.type) not in NUMBERS:
        return constant
    return pa.scalar(scalar_as_double(constant), pa.float64())


@_truth.register
def _(expr: IsNull, scope: _Scope) -> PredicateDomain | None:
    if isinstance(expr.value, Column) and expr.value.path in scope.types:
        return PredicateDomain(expr.value.path, ONLY_NULL, ALL_VALUES, True)
    column = _compared_column(expr.value, scope)
    return None if column is None else PredicateDomain(column.path, ONLY_NULL, ALL_VALUES, True)


@_truth.register
def _(expr: IsNan, scope: _Scope) -> PredicateDomain | None:
    column = _compared_column(expr.value, scope)
    if column is None or family_of(column.space.type) not in NUMBERS:
        return None
    if family_of(column.space.type) is not Family.FLOAT:
        return PredicateDomain(column.path, NOTHING, EVERYTHING, True)
    # FALSE, not NULL, for NULL.
    is_nan = between(column.space.highest, None)
    return column.truth(is_nan, complement(is_nan))


@_truth.register
def _(expr: StringMatch, scope: _Scope) -> PredicateDomain | None:
    column = _compared_text(expr.value, scope)
    if column is None:
        return None
    if expr.op is StringMatchOp.STARTS_WITH or not expr.text:
        return column.truth_where(between(*prefix_interval(expr.text)))
    return column.unknown()


@_truth.register
def _(expr: Like, scope: _Scope) -> PredicateDomain | None:
    column = _compared_text(expr.value, scope)
    if column is None:
        return None
    tokens = like_tokens(expr.pattern, expr.escape)
    prefix = tokens[0][1] if tokens and not tokens[0][0] else ""
    rest = tokens[1:] if prefix else tokens
    if not rest:
        return column.truth_where(between(prefix, prefix + "\0"))
    starts = between(*prefix_interval(prefix))
    if all(text == "%" for _, text in rest):
        return column.truth_where(starts)
    return column.truth(starts, ALL_VALUES, is_exact=False)


def _compared_text(expr: Expr, scope: _Scope) -> _ComparedColumn | None:
    column = _compared_column(expr, scope)
    return column if column is not None and family_of(column.space.type) is Family.STRING else None


def _constant(expr: Expr, scope: _Scope) -> pa.Scalar | None:
    if isinstance(expr, Literal):
        return expr.scalar()
    try:
        value = constant_value(expr, time_zone=scope.time_zone)
        return None if value is None else literal(value).scalar()
    except InvalidInputError:
        # Its evaluation raises an error; whether it is reported depends on the rows that are evaluated.
        return None


def _compared(column: _ComparedColumn, op: ComparisonOp, constant: pa.Scalar, scope: _Scope) -> PredicateDomain:
    if op is ComparisonOp.NULL_SAFE_EQ:
        return _null_safe(column, constant, scope)
    if not constant.is_valid:
        return PredicateDomain(column.path, NOTHING, NOTHING, True)
    cut = _cuts(column, constant, scope)
    if cut is None:
        return column.unknown()
    return column.truth_where(_COMPARED[op](cut.low, cut.high), slack=cut.slack)


@dataclass(frozen=True, slots=True)
class _Cut:
    """The compared values equal to a constant, [low, high), with the maximum error in ticks of the column."""

    low: Any
    high: Any
    slack: int


def _cuts(column: _ComparedColumn, constant: pa.Scalar, scope: _Scope) -> _Cut | None:
    """The position of a constant among the compared values; None if they are not comparable, or not ordered."""
    sample = _null_of(column.space.type)
    try:
        values, aligned = align(sample, constant, scope.time_zone)
    except (InvalidInputError, OverflowError):
        # Text that is not a date, or an instant beyond 64 bits: evaluating the rows raises the error.
        return None
    families = family_of(values.type), family_of(aligned.type)
    if not aligned.is_valid:
        return None
    slack = 0
    if values is not sample:
        # The comparison converts the column to another time zone, which keeps the order except for clock changes.
        if families[0] is not families[1]:
            return None
        if families[0] is Family.TIMESTAMP and not is_utc(scope.time_zone):
            slack = _day(column.own)
    elif not column.space.accepts(families[1]):
        return None
    low, high = column.space.cuts(aligned)
    return _Cut(low, high, slack)


def _null_of(type_: pa.DataType) -> pa.Array:
    return pa.nulls(1, type_)


_COMPARED: dict[ComparisonOp, Callable[[Any, Any], ValueSet]] = {
    ComparisonOp.EQ: between,
    ComparisonOp.NE: lambda low, high: complement(between(low, high)),
    ComparisonOp.LT: lambda low, _high: between(None, low),
    ComparisonOp.LE: lambda _low, high: between(None, high),
    ComparisonOp.GT: lambda _low, high: between(high, None),
    ComparisonOp.GE: lambda low, _high: between(low, None),
}


def _null_safe(column: _ComparedColumn, constant: pa.Scalar, scope: _Scope) -> PredicateDomain:
    """Never NULL: FALSE where `=` is NULL."""
    if not constant.is_valid:
        return PredicateDomain(column.path, ONLY_NULL, ALL_VALUES, True)
    equal = _compared(column, ComparisonOp.EQ, constant, scope)
    return PredicateDomain(column.path, equal.true, ValueSet(equal.false.intervals, True), equal.is_exact)


def _compared_column(expr: Expr, scope: _Scope) -> _ComparedColumn | None:
    """The column inside `expr`, if the functions around it are monotonic."""
    if isinstance(expr, Column):
        space = space_of(scope.types[expr.path]) if expr.path in scope.types else None
        return None if space is None else _ComparedColumn(expr.path, space, space)
    if isinstance(expr, Cast):
        inner = _compared_column(expr.value, scope)
        return None if inner is None else _cast(inner, expr.type, scope)
    if isinstance(expr, Function) and expr.name is FunctionName.YEAR:
        inner = _compared_column(expr.arguments[0], scope)
        return None if inner is None else _year(inner, scope)
    return None


_STAMPS = (Family.TIMESTAMP, Family.TIMESTAMP_NTZ)


def _cast(inner: _ComparedColumn, type_: pa.DataType, scope: _Scope) -> _ComparedColumn | None:
    """A lossless cast, or a cast from a timestamp to its date."""
    source, target = family_of(inner.space.type), family_of(type_)
    space = space_of(type_)
    if space is None or inner.space is not inner.own:
        return None
    if source is target is Family.INTEGER:
        own, wide = grid_of(inner.own.type), grid_of(type_)
        if wide.lowest <= own.lowest and own.highest <= wide.highest:
            return _ComparedColumn(inner.path, inner.own, space)
    if source is target is Family.FLOAT and type_ == pa.float64():
        return _ComparedColumn(inner.path, inner.own, space)
    if inner.space.type == type_:
        return inner
    if source in _STAMPS and target is Family.DATE:
        day = _day(inner.own)
        slack = day if source is Family.TIMESTAMP and not is_utc(scope.time_zone) else 0
        return _ComparedColumn(
            inner.path, inner.own, space, lambda values: mapped(values, day.__mul__, day.__mul__), slack
        )
    return None


def _year(inner: _ComparedColumn, scope: _Scope) -> _ComparedColumn | None:
    """The calendar year of a date or timestamp column."""
    family = family_of(inner.space.type)
    space = space_of(pa.int64())
    if inner.space is not inner.own or family not in (Family.DATE, *_STAMPS) or space is None:
        return None
    day = _day(inner.own)
    slack = day if family is Family.TIMESTAMP and not is_utc(scope.time_zone) else 0

    def start(year: int) -> int:
        return start_of(year) // 24 * day

    return _ComparedColumn(inner.path, inner.own, space, lambda values: mapped(values, start, start), slack)


def _day(space: KeySpace) -> int:
    """Ticks of a day: more than the UTC offset of any zone."""
    return ticks_per_day(space.type)


def _widened(values: ValueSet, slack: int) -> ValueSet:
    if not slack:
        return values
    return mapped(values, lambda low: low - slack, lambda high: high + slack)
