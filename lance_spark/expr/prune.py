"""What statistics tell about a filter: whether any row of a fragment, page or zone can match.

Every part of a filter is one of TRUE, FALSE or NULL for a row; from bounds and counts follows which of the three are
possible at all (`Outcomes`). Whatever is not known is possible, so a filter is pruned only where no row can match:

    price in [10, 20], no nulls:   price > 30  can only be FALSE             -> prune
                                   price > 15  can be TRUE or FALSE          -> read
                                   NOT (price > 5)  can only be FALSE        -> prune

Bounds are compared by the very comparison that rows are filtered with. Floating point bounds say nothing about NaN,
which is greater than every bound; bounds of strings and binaries may be cut short.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

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
    IsNan,
    IsNull,
    Like,
    Not,
    Or,
    StringMatch,
    StringMatchOp,
    like_tokens,
)
from lance_spark.expr.values import Family, family_of


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What is known about the values of one column in a set of rows; None for what is not.

    Args:
        min: a lower bound of all values that are neither null nor NaN.
        max: an upper bound of them.
        null_count: number of nulls, rows whose struct above the column is null included.
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
    """Which values a condition can have for some row."""

    true: bool = True
    false: bool = True
    null: bool = True


_ANY = Outcomes()
_NULL_ONLY = Outcomes(true=False, false=False)


@dataclass(frozen=True, slots=True)
class _Known:
    columns: Mapping[tuple[str, ...], ColumnStatistics]
    time_zone: str

    def about(self, expr: Expr) -> ColumnStatistics | None:
        return self.columns.get(expr.path) if isinstance(expr, Column) else None


def may_match(expr: Expr, statistics: Mapping[tuple[str, ...], ColumnStatistics], *, time_zone: str = "UTC") -> bool:
    """False if the filter is certainly TRUE for no row; True otherwise.

    Args:
        expr: the filter.
        statistics: by column path, spelled as in the filter (`columns.resolve_names` gives the schema's spelling).
        time_zone: the session's zone.
    """
    if any(known.num_rows == 0 for known in statistics.values()):
        return False
    return _outcomes(expr, _Known(statistics, time_zone)).true


@functools.singledispatch
def _outcomes(expr: Expr, known: _Known) -> Outcomes:
    return _ANY


@_outcomes.register
def _(expr: Literal, known: _Known) -> Outcomes:
    if expr.value is None:
        return _NULL_ONLY
    return Outcomes(true=expr.value is True, false=expr.value is False, null=False)


@_outcomes.register
def _(expr: Column, known: _Known) -> Outcomes:
    """A boolean column as a condition: `c` is `c = TRUE`, apart from types that do not fit."""
    return _compared(ComparisonOp.EQ, expr, literal(True), known)


@_outcomes.register
def _(expr: Not, known: _Known) -> Outcomes:
    inner = _outcomes(expr.value, known)
    return Outcomes(true=inner.false, false=inner.true, null=inner.null)


@_outcomes.register
def _(expr: And, known: _Known) -> Outcomes:
    terms = [_outcomes(term, known) for term in expr.terms]
    return Outcomes(
        true=all(term.true for term in terms),
        false=any(term.false for term in terms),
        null=any(term.null for term in terms) and all(term.true or term.null for term in terms),
    )


@_outcomes.register
def _(expr: Or, known: _Known) -> Outcomes:
    terms = [_outcomes(term, known) for term in expr.terms]
    return Outcomes(
        true=any(term.true for term in terms),
        false=all(term.false for term in terms),
        null=any(term.null for term in terms) and all(term.false or term.null for term in terms),
    )


@_outcomes.register
def _(expr: IsNull, known: _Known) -> Outcomes:
    about = known.about(expr.value)
    if about is None or about.null_count is None:
        return Outcomes(null=False)
    return Outcomes(true=about.null_count > 0, false=not _is_all_null(about), null=False)


@_outcomes.register
def _(expr: IsNan, known: _Known) -> Outcomes:
    about = known.about(expr.value)
    if about is None or about.nan_count is None:
        return Outcomes(null=False)
    return Outcomes(true=about.nan_count > 0, false=about.nan_count != about.num_rows, null=False)


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
        # The list compares as doubles, its single options would not.
        return _ANY
    equal = [_outcomes(Comparison(ComparisonOp.EQ, expr.value, option), known) for option in expr.options]
    return Outcomes(
        true=any(term.true for term in equal),
        false=all(term.false for term in equal),
        null=any(term.null for term in equal),
    )


@_outcomes.register
def _(expr: StringMatch, known: _Known) -> Outcomes:
    if expr.op is not StringMatchOp.STARTS_WITH:
        return _some_text(expr.value, known)
    return _prefixed(expr.value, expr.text, known)


@_outcomes.register
def _(expr: Like, known: _Known) -> Outcomes:
    tokens = like_tokens(expr.pattern, expr.escape)
    prefix = tokens[0][1] if tokens and not tokens[0][0] else ""
    return _prefixed(expr.value, prefix, known)


def _some_text(value: Expr, known: _Known) -> Outcomes:
    about = known.about(value)
    return Outcomes(null=_can_be_null(about)) if about is None or not _is_all_null(about) else _NULL_ONLY


def _prefixed(value: Expr, prefix: str, known: _Known) -> Outcomes:
    """A condition that is TRUE only for values that start with `prefix`."""
    about, some = known.about(value), _some_text(value, known)
    if about is None or not some.true:
        return some
    low, high = _text_bytes(about.min), _text_bytes(about.max)
    wanted = prefix.encode()
    too_low = high is not None and high < wanted and not (about.is_truncated and wanted.startswith(high))
    too_high = low is not None and low[: len(wanted)] > wanted
    return Outcomes(true=not (too_low or too_high), null=some.null)


def _text_bytes(bound: pa.Scalar | None) -> bytes | None:
    value = None if bound is None else bound.as_py()
    return value.encode() if isinstance(value, str) else None


def _is_all_null(about: ColumnStatistics) -> bool:
    return about.num_rows is not None and about.null_count == about.num_rows


def _can_be_null(about: ColumnStatistics | None) -> bool:
    return about is None or about.null_count != 0


def _compared(op: ComparisonOp, column: Column, other: Expr, known: _Known) -> Outcomes:
    about = known.about(column)
    constant = _constant(other, known)
    if about is None or constant is None:
        return _ANY
    if op is ComparisonOp.NULL_SAFE_EQ:
        return _null_safe_compared(about, constant, column, known)
    if not constant.is_valid or _is_all_null(about):
        return _NULL_ONLY
    return _with_bounds(op, _Bounds(about, known.time_zone), constant)


def _constant(expr: Expr, known: _Known) -> pa.Scalar | None:
    if isinstance(expr, Literal):
        return expr.scalar()
    try:
        return constant_value(expr, time_zone=known.time_zone)
    except InvalidInputError:
        # It fails on its value; whether that is an error depends on the rows that get there.
        return None


def _null_safe_compared(about: ColumnStatistics, constant: pa.Scalar, column: Column, known: _Known) -> Outcomes:
    if not constant.is_valid:
        return _outcomes(IsNull(column), known)
    if _is_all_null(about):
        return Outcomes(true=False, null=False)
    equal = _with_bounds(ComparisonOp.EQ, _Bounds(about, known.time_zone), constant)
    return Outcomes(true=equal.true, false=equal.false or equal.null, null=False)


class _Bounds:
    """The bounds of a column, ready to be compared with a constant; `None` answers mean that nothing is known."""

    def __init__(self, about: ColumnStatistics, time_zone: str) -> None:
        self.can_be_null = _can_be_null(about)
        self._time_zone = time_zone
        self._low, self._high = _plain_bound(about.min), _plain_bound(about.max)
        is_float = any(bound is not None and family_of(bound.type) is Family.FLOAT for bound in (self._low, self._high))
        # NaN is greater than every number, so where it may stand there is no upper bound.
        self.can_be_nan = is_float and about.nan_count != 0
        self._is_truncated = about.is_truncated

    def all_above(self, constant: pa.Scalar) -> bool:
        """Whether every value is certainly greater than the constant."""
        return self._holds(ComparisonOp.GT, self._low, constant)

    def all_from(self, constant: pa.Scalar) -> bool:
        """Whether every value is certainly the constant or greater."""
        return self._holds(ComparisonOp.GE, self._low, constant)

    def all_below(self, constant: pa.Scalar) -> bool:
        """Whether every value is certainly less than the constant."""
        return not self._high_is_open(constant) and self._holds(ComparisonOp.LT, self._high, constant)

    def all_upto(self, constant: pa.Scalar) -> bool:
        """Whether every value is certainly the constant or less."""
        return not self._high_is_open(constant) and self._holds(ComparisonOp.LE, self._high, constant)

    def _high_is_open(self, constant: pa.Scalar) -> bool:
        if self.can_be_nan:
            return True
        if not self._is_truncated or self._high is None:
            return False
        high, value = self._high.as_py(), constant.as_py()
        # Values that start with the cut bound may be on either side of a constant that starts with it too.
        return type(high) is not type(value) or value.startswith(high)

    def _holds(self, op: ComparisonOp, bound: pa.Scalar | None, constant: pa.Scalar) -> bool:
        if bound is None or not self._is_monotone(bound, constant):
            return False
        try:
            return compare(op, bound, constant, self._time_zone).as_py() is True
        except InvalidInputError:
            # Types that cannot be compared: evaluating the rows tells the user so.
            return False

    def _is_monotone(self, bound: pa.Scalar, constant: pa.Scalar) -> bool:
        """Clocks that are put back and forward do not keep the order of local times."""
        families = {family_of(bound.type), family_of(constant.type)}
        zoned = Family.TIMESTAMP in families and families != {Family.TIMESTAMP}
        return not zoned or is_utc(self._time_zone)


def _plain_bound(bound: pa.Scalar | None) -> pa.Scalar | None:
    if bound is None or not bound.is_valid:
        return None
    plain = literal(bound)
    # A NaN says that the writer knew no bound.
    return None if isinstance(plain.value, float) and math.isnan(plain.value) else plain.scalar()


def _with_bounds(op: ComparisonOp, bounds: _Bounds, constant: pa.Scalar) -> Outcomes:
    above, below = bounds.all_above(constant), bounds.all_below(constant)
    from_, upto = bounds.all_from(constant), bounds.all_upto(constant)
    never, always = {
        ComparisonOp.EQ: (above or below, from_ and upto),
        ComparisonOp.NE: (from_ and upto, above or below),
        ComparisonOp.LT: (from_, below),
        ComparisonOp.LE: (above, upto),
        ComparisonOp.GT: (upto, above),
        ComparisonOp.GE: (below, from_),
    }[op]
    return Outcomes(true=not never, false=not always, null=bounds.can_be_null)
