"""Lower and upper bounds of many sets of values, compared with a condition all at once.

Bounds of pages and zones are asked one by one by `Predicate.may_match`, which understands every condition; that takes
some microseconds for each. Here the common conditions are answered for all of them together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.cached import cached_property
from lance_spark.expr.grid import grid_of
from lance_spark.expr.literals import Literal
from lance_spark.expr.membership import constant_options
from lance_spark.expr.nodes import And, Column, Comparison, ComparisonOp, Expr, In, InArray, Or
from lance_spark.expr.values import family_of, plain
from lance_spark.index.base import Predicate
from lance_spark.index.spans import Span, is_numbered, numbers_of, span_of

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Bounds:
    """Bounds of sets of values, n each.

    Attributes:
        lows, highs: the bounds, null where there is none. Of floats with NaN, `highs` is NaN and `lows` is not.
        has_values: bool[n], False where all values are null.
    """

    lows: pa.Array
    highs: pa.Array
    has_values: BoolArray

    @cached_property
    def numbers(self) -> tuple[BoundNumbers, BoundNumbers]:
        """The numbers of `lows` and `highs`, whose type has such."""
        return BoundNumbers.of(self.lows), BoundNumbers.of(self.highs)


@dataclass(frozen=True, slots=True)
class BoundNumbers:
    """Bounds as `values`, int64[n], with anything where `is_known`, bool[n], is False."""

    values: npt.NDArray[np.int64]
    is_known: BoolArray

    @classmethod
    def of(cls, bounds: pa.Array) -> BoundNumbers:
        return cls(numbers_of(bounds), _known(bounds))


def matching_bounds(predicate: Predicate, bounds: Bounds) -> BoolArray | None:
    """bool[n]: for which bounds a predicate can be TRUE; None for conditions that are not answered here."""
    return _matching(predicate.expr, bounds, predicate)


def _matching(expr: Expr, bounds: Bounds, predicate: Predicate) -> BoolArray | None:
    if isinstance(expr, And) and is_numbered(predicate.dtype):
        span = span_of(expr, predicate.dtype)
        if span is not None:
            return bounds.has_values & _may_meet(span, *bounds.numbers)
    if isinstance(expr, (And, Or)):
        terms = [_matching(term, bounds, predicate) for term in expr.terms]
        known = [term for term in terms if term is not None]
        if len(known) < len(terms):
            return None
        joined: BoolArray = (np.logical_and if isinstance(expr, And) else np.logical_or).reduce(known)
        return joined
    if isinstance(expr, (In, InArray)):
        return _with_member(expr, bounds, predicate)
    return _compared(expr, bounds, predicate) if isinstance(expr, Comparison) and expr.op in _BOUND_OPS else None


def _compared(expr: Comparison, bounds: Bounds, predicate: Predicate) -> BoolArray | None:
    column, constant, op = expr.left, expr.right, expr.op
    if isinstance(constant, Column):
        column, constant, op = constant, column, op.mirrored
    # Values of two families can be ordered otherwise than their bounds: local times are, where clocks change.
    if not isinstance(column, Column) or not isinstance(constant, Literal) or not _is_one_family(constant, predicate):
        return None
    low_op, high_op = _BOUND_OPS[op]
    kept = bounds.has_values
    span = span_of(expr, predicate.dtype) if is_numbered(predicate.dtype) else None
    if span is not None:
        return kept & _may_meet(span, *bounds.numbers)
    for ends, bound_op in ((bounds.lows, low_op), (bounds.highs, high_op)):
        if bound_op is not None:
            test = replace(predicate, expr=Comparison(bound_op, column, constant))
            kept = kept & (test.keeps(ends) | ~_known(ends))
    return kept


def _may_meet(span: Span, lows: BoundNumbers, highs: BoundNumbers) -> BoolArray:
    """Which bounds have a number of a span between them."""
    if span.without_low or span.without_high:
        return np.zeros(len(lows.values), np.bool_)
    met: BoolArray = ~lows.is_known | (lows.values <= span.high)  # type: ignore[operator]
    met &= ~highs.is_known | (highs.values >= span.low)  # type: ignore[operator]
    return met


def _is_one_family(constant: Literal, predicate: Predicate) -> bool:
    return family_of(constant.type) is family_of(plain(pa.array([], predicate.dtype)).type)


def _with_member(expr: In | InArray, bounds: Bounds, predicate: Predicate) -> BoolArray | None:
    """Which bounds have one of the constants of a list between them; of whole numbers and days only."""
    members = _members(expr, predicate)
    if members is None:
        return None
    numbers = np.unique(numbers_of(members.drop_null()))
    lows, highs = bounds.numbers
    first = np.where(lows.is_known, np.searchsorted(numbers, lows.values, "left"), 0)
    last = np.where(highs.is_known, np.searchsorted(numbers, highs.values, "right"), len(numbers))
    kept: BoolArray = bounds.has_values & (first < last)
    return kept


def _members(expr: In | InArray, predicate: Predicate) -> pa.Array | None:
    """The constants of a list in the column's type; None if they are not of it, or not whole numbers or days."""
    is_number = pt.is_signed_integer(predicate.dtype) or pt.is_date32(predicate.dtype)
    if not isinstance(expr.value, Column) or not is_number:
        return None
    if isinstance(expr, InArray):
        return expr.values if expr.values.type == predicate.dtype else None
    if not expr.has_constants:
        return None
    # The very tuple of the filter, by which the evaluation remembers it.
    options = cast("tuple[Literal, ...]", expr.options)
    known = constant_options(plain(pa.array([], predicate.dtype)).type, options, predicate.time_zone).known
    return known if known is not None and known.type == predicate.dtype else None


def _known(values: pa.Array) -> BoolArray:
    if not values.null_count:
        return np.ones(len(values), np.bool_)
    valid: BoolArray = values.is_valid().to_numpy(zero_copy_only=False)
    return valid


_WHOLE_NUMBER = pa.int64()


def key_numbers(predicate: Predicate) -> npt.NDArray[np.int64] | None:
    """int64[n], ascending: the constants of a list of whole numbers or days; None for any other condition."""
    expr = predicate.expr
    if isinstance(expr, In) and isinstance(expr.value, Column) and pt.is_signed_integer(predicate.dtype):
        constants = [option for option in expr.options if isinstance(option, Literal) and option.type is _WHOLE_NUMBER]
        if len(constants) == len(expr.options):
            # For few keys, an array of them takes longer than the search.
            grid = grid_of(predicate.dtype)
            keys = {int(option.value) for option in constants if option.value is not None}
            return np.array(sorted(key for key in keys if grid.lowest <= key <= grid.highest), np.int64)
    members = _members(expr, predicate) if isinstance(expr, (In, InArray)) else None
    return None if members is None else np.unique(numbers_of(members.drop_null()))


_BOUND_OPS: dict[ComparisonOp, tuple[ComparisonOp | None, ComparisonOp | None]] = {
    ComparisonOp.EQ: (ComparisonOp.LE, ComparisonOp.GE),
    ComparisonOp.LT: (ComparisonOp.LT, None),
    ComparisonOp.LE: (ComparisonOp.LE, None),
    ComparisonOp.GT: (None, ComparisonOp.GT),
    ComparisonOp.GE: (None, ComparisonOp.GE),
}
"""What the lower and the upper bound of some values must satisfy for one of them to satisfy a comparison. NaN, as an
upper bound, is greater than every number, as the NaN is that it stands for.
"""
