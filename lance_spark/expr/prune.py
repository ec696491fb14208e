"""Pruning by statistics: whether any row of a fragment, page or zone can match a filter.

Every part of a filter is TRUE, FALSE or NULL for a row; bounds and counts determine whether TRUE and FALSE are
possible at all (`Outcomes`). Anything unknown counts as possible, so rows are pruned only if none can match:

    price in [10, 20], no nulls:   price > 30  can only be FALSE             -> prune
                                   price > 15  can be TRUE or FALSE          -> read
                                   NOT (price > 5)  can only be FALSE        -> prune

Bounds are compared by the same comparison that filters rows. Floating point bounds exclude NaN, which is greater
than every bound; bounds of strings and binaries may be truncated.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError
from lance_spark.expr.comparison import compare
from lance_spark.expr.datetime_text import is_utc
from lance_spark.expr.evaluate import constant_value
from lance_spark.expr.literals import Literal, literal
from lance_spark.expr.nodes import (
    And,
    Column,
    Comparison,
    ComparisonOp,
    Expr,
    In,
    InArray,
    IsNan,
    IsNull,
    Like,
    Not,
    Or,
    StringMatch,
    StringMatchOp,
    like_tokens,
)
from lance_spark.expr.values import Family, family_of, plain


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Statistics of one column in a set of rows; None where unknown.

    Args:
        min: a lower bound of all values that are neither null nor NaN.
        max: an upper bound of them.
        null_count: number of nulls, including rows where a parent struct is null.
        nan_count: number of NaN values; None means that there may be some.
        num_rows: number of rows.
        is_truncated: `min` and `max` are prefixes of the bounds, so a value may start with `max` and be longer.
    """

    min: pa.Scalar | None = None
    max: pa.Scalar | None = None
    null_count: int | None = None
    nan_count: int | None = None
    num_rows: int | None = None
    is_truncated: bool = False


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The possible values of a condition over the rows. NULL is always possible: a filter treats it as FALSE."""

    true: bool = True
    false: bool = True


_MANY_VALUES = 4096
"""With more values than this, pruning rarely succeeds."""

_ANY = Outcomes()
_ONLY_NULL = Outcomes(true=False, false=False)


@dataclass(frozen=True, slots=True)
class _Known:
    columns: Mapping[tuple[str, ...], ColumnStatistics]
    time_zone: str

    def about(self, expr: Expr) -> ColumnStatistics | None:
        return self.columns.get(expr.path) if isinstance(expr, Column) else None


def may_match(expr: Expr, statistics: Mapping[tuple[str, ...], ColumnStatistics], *, time_zone: str = "UTC") -> bool:
    """False if the filter is certainly not TRUE for any row; True otherwise.

    Args:
        expr: the filter.
        statistics: by column path, spelled as in the filter (`columns.resolve_names` gives the schema's spelling).
        time_zone: the session's zone.
    """
    if any(column.num_rows == 0 for column in statistics.values()):
        return False
    return _outcomes(expr, _Known(statistics, time_zone)).true


@functools.singledispatch
def _outcomes(expr: Expr, known: _Known) -> Outcomes:
    return _ANY


@_outcomes.register
def _(expr: Literal, known: _Known) -> Outcomes:
    if expr.value is None:
        return _ONLY_NULL
    return Outcomes(true=expr.value is True, false=expr.value is False)


@_outcomes.register
def _(expr: Column, known: _Known) -> Outcomes:
    """A boolean column as a condition: `c` is `c = TRUE`, except for other types."""
    return _compared(ComparisonOp.EQ, expr, literal(True), known)


@_outcomes.register
def _(expr: Not, known: _Known) -> Outcomes:
    inner = _outcomes(expr.value, known)
    return Outcomes(true=inner.false, false=inner.true)


@_outcomes.register
def _(expr: And, known: _Known) -> Outcomes:
    terms = [_outcomes(term, known) for term in expr.terms]
    return Outcomes(true=all(term.true for term in terms), false=any(term.false for term in terms))


@_outcomes.register
def _(expr: Or, known: _Known) -> Outcomes:
    terms = [_outcomes(term, known) for term in expr.terms]
    return Outcomes(true=any(term.true for term in terms), false=all(term.false for term in terms))


@_outcomes.register
def _(expr: IsNull, known: _Known) -> Outcomes:
    about = known.about(expr.value)
    if about is None or about.null_count is None:
        return _ANY
    return Outcomes(true=about.null_count > 0, false=not _is_all_null(about))


@_outcomes.register
def _(expr: IsNan, known: _Known) -> Outcomes:
    about = known.about(expr.value)
    if about is None or about.nan_count is None:
        return _ANY
    return Outcomes(true=about.nan_count > 0, false=about.nan_count != about.num_rows)


@_outcomes.register
def _(expr: Comparison, known: _Known) -> Outcomes:
    for column, other, op in ((expr.left, expr.right, expr.op), (expr.right, expr.left, expr.op.mirrored)):
        if isinstance(column, Column):
            return _compared(op, column, other, known)
    return _ANY


@_outcomes.register
def _(expr: In, known: _Known) -> Outcomes:
    if not all(isinstance(option, Literal) for option in expr.options):
        return _ANY
    families = {family_of(option.type) for option in expr.options if isinstance(option, Literal)}
    if Family.FLOAT in families and len(families) > 1:
        # The list compares as doubles, its options one by one would not.
        return _ANY
    about = known.about(expr.value)
    bounds = None if about is None else _integer_bounds(about)
    if families == {Family.INTEGER} and bounds is not None:
        # Same result as below, but fast for many options.
        low, high = bounds
        values = [
            option.value for option in expr.options if isinstance(option, Literal) and isinstance(option.value, int)
        ]
        return Outcomes(true=any(low <= value <= high for value in values), false=low < high or low not in values)
    equal = [_outcomes(Comparison(ComparisonOp.EQ, expr.value, option), known) for option in expr.options]
    return Outcomes(true=any(term.true for term in equal), false=all(term.false for term in equal))


def _integer_bounds(about: ColumnStatistics) -> tuple[int, int] | None:
    if about.min is None or about.max is None or not (about.min.is_valid and about.max.is_valid):
        return None
    if not family_of(about.min.type) is family_of(about.max.type) is Family.INTEGER:
        return None
    return about.min.as_py(), about.max.as_py()


@_outcomes.register
def _(expr: InArray, known: _Known) -> Outcomes:
    about = known.about(expr.value)
    if about is None or len(expr.values) > _MANY_VALUES:
        return _ANY
    if _is_all_null(about):
        return Outcomes(true=False)
    low, high, values = about.min, about.max, expr.values
    if low is None or high is None or about.is_truncated or not low.type == high.type == values.type:
        return _ANY
    if family_of(values.type) is Family.FLOAT:
        return _ANY
    inside = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
    return Outcomes(true=pc.any(inside).as_py() is True)


@_outcomes.register
def _(expr: StringMatch, known: _Known) -> Outcomes:
    return _prefixed(expr.value, expr.text if expr.op is StringMatchOp.STARTS_WITH else "", known)


@_outcomes.register
def _(expr: Like, known: _Known) -> Outcomes:
    tokens = like_tokens(expr.pattern, expr.escape)
    prefix = tokens[0][1] if tokens and not tokens[0][0] else ""
    return _prefixed(expr.value, prefix, known)


def _prefixed(value: Expr, prefix: str, known: _Known) -> Outcomes:
    """A condition that is TRUE only for values that start with `prefix`."""
    about = known.about(value)
    if about is None:
        return _ANY
    if _is_all_null(about):
        return _ONLY_NULL
    low, high = _text_bytes(about.min), _text_bytes(about.max)
    first = prefix.encode()
    too_low = high is not None and high < first and not (about.is_truncated and first.startswith(high))
    too_high = low is not None and low[: len(first)] > first
    return Outcomes(true=not (too_low or too_high))


def _text_bytes(bound: pa.Scalar | None) -> bytes | None:
    value = None if bound is None else bound.as_py()
    return value.encode() if isinstance(value, str) else None


def _is_all_null(about: ColumnStatistics) -> bool:
    return about.num_rows is not None and about.null_count == about.num_rows


def _compared(op: ComparisonOp, column: Column, other: Expr, known: _Known) -> Outcomes:
    about = known.about(column)
    constant = _constant(other, known)
    if about is None or constant is None:
        return _ANY
    if op is ComparisonOp.NULL_SAFE_EQ:
        return _null_safe_compared(about, constant, column, known)
    if not constant.is_valid or _is_all_null(about):
        return _ONLY_NULL
    return _with_bounds(op, _Bounds(about, known.time_zone), constant)


def _constant(expr: Expr, known: _Known) -> pa.Scalar | None:
    if isinstance(expr, Literal):
        return expr.scalar()
    try:
        return constant_value(expr, time_zone=known.time_zone)
    except InvalidInputError:
        # It fails on its value; whether that is an error depends on which rows are evaluated.
        return None


def _null_safe_compared(about: ColumnStatistics, constant: pa.Scalar, column: Column, known: _Known) -> Outcomes:
    if not constant.is_valid:
        return _outcomes(IsNull(column), known)
    if _is_all_null(about):
        return Outcomes(true=False)
    equal = _with_bounds(ComparisonOp.EQ, _Bounds(about, known.time_zone), constant)
    # Where = is NULL, <=> is FALSE.
    return Outcomes(true=equal.true, false=equal.false or about.null_count != 0)


class _Bounds:
    """The bounds of a column, compared with a constant."""

    def __init__(self, about: ColumnStatistics, time_zone: str) -> None:
        self._about = about
        self._time_zone = time_zone

    def low_order(self, constant: pa.Scalar) -> int | None:
        """Sign of the lower bound minus the constant; None if unknown."""
        return self._order(_plain_bound(self._about.min), constant)

    def high_order(self, constant: pa.Scalar) -> int | None:
        """Sign of the upper bound minus the constant; None if unknown."""
        high = _plain_bound(self._about.max)
        if high is None or self._is_open(high, constant):
            return None
        return self._order(high, constant)

    def _is_open(self, high: pa.Scalar, constant: pa.Scalar) -> bool:
        """Whether values beyond the upper bound may be on the constant's other side."""
        if family_of(high.type) is Family.FLOAT:
            return self._about.nan_count != 0
        if not self._about.is_truncated:
            return False
        # Values that start with the truncated bound may be on either side of a constant that starts with it too.
        prefix, value = high.as_py(), constant.as_py()
        return type(prefix) is not type(value) or value.startswith(prefix)

    def _order(self, bound: pa.Scalar | None, constant: pa.Scalar) -> int | None:
        if bound is None or not self._is_monotone(bound, constant):
            return None
        if family_of(bound.type) is family_of(constant.type) in _ORDERED_AS_PYTHON:
            left, right = bound.as_py(), constant.as_py()
            if right == right:
                return int(left > right) - int(left < right)
        try:
            less = compare(ComparisonOp.LT, bound, constant, self._time_zone).as_py()
            return -1 if less else int(not compare(ComparisonOp.EQ, bound, constant, self._time_zone).as_py())
        except InvalidInputError:
            # Types that cannot be compared: the evaluation of the rows raises the error.
            return None

    def _is_monotone(self, bound: pa.Scalar, constant: pa.Scalar) -> bool:
        """Whether the comparison keeps the order of bounds: offset changes of a zone break the order of local times."""
        families = {family_of(bound.type), family_of(constant.type)}
        zoned = Family.TIMESTAMP in families and families != {Family.TIMESTAMP}
        return not zoned or is_utc(self._time_zone)


_ORDERED_AS_PYTHON = (Family.INTEGER, Family.FLOAT, Family.DECIMAL, Family.STRING, Family.BINARY)
"""Python's order of these equals the order of rows (strings by code point, the order of UTF-8), except for NaN."""


def _plain_bound(bound: pa.Scalar | None) -> pa.Scalar | None:
    if bound is None or not bound.is_valid:
        return None
    value = bound if family_of(bound.type) in _PLAIN_BOUNDS else plain(pa.repeat(bound, 1))[0]
    # A NaN means that the writer knew no bound.
    return None if family_of(value.type) is Family.FLOAT and math.isnan(value.as_py()) else value


_PLAIN_BOUNDS = (Family.INTEGER, Family.FLOAT, Family.STRING)


def _with_bounds(op: ComparisonOp, bounds: _Bounds, constant: pa.Scalar) -> Outcomes:
    low, high = bounds.low_order(constant), bounds.high_order(constant)
    above, from_ = low == 1, low in (0, 1)
    below, upto = high == -1, high in (-1, 0)
    never, always = {
        ComparisonOp.EQ: (above or below, from_ and upto),
        ComparisonOp.NE: (from_ and upto, above or below),
        ComparisonOp.LT: (from_, below),
        ComparisonOp.LE: (above, upto),
        ComparisonOp.GT: (upto, above),
        ComparisonOp.GE: (below, from_),
    }[op]
    return Outcomes(true=not never, false=not always)
