"""Conditions on values that lie in order: which of them a condition keeps is found by halving, without comparing all.

Whole numbers, dates, timestamps and texts have one order, in indexes and in filters. What a constant means on a column
comes from the evaluation of filters (`expr.grid`), so the answer is that of the evaluation.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.expr.grid import Threshold, grid_of, threshold
from lance_spark.expr.literals import Literal
from lance_spark.expr.nodes import And, Column, Comparison, ComparisonOp, Expr
from lance_spark.expr.values import family_of

Keys: TypeAlias = "npt.NDArray[np.int64] | pa.Array"
"""Values without nulls: whole numbers, dates and timestamps as their numbers, texts as they are."""

_OPS = (ComparisonOp.EQ, ComparisonOp.LT, ComparisonOp.LE, ComparisonOp.GT, ComparisonOp.GE)


@dataclass(frozen=True, slots=True)
class Span:
    """The keys from `low` to `high`, None for no bound.

    Attributes:
        low, high: of one type.
        without_low, without_high: whether the bound itself is outside.
    """

    low: int | str | None = None
    high: int | str | None = None
    without_low: bool = False
    without_high: bool = False

    @property
    def is_open(self) -> bool:
        """Whether a bound is outside."""
        return self.without_low or self.without_high

    @property
    def only(self) -> int | str | None:
        """The only key, if the bounds are the same and inside; None if not."""
        return self.low if self.low == self.high and not self.is_open else None

    def first(self, keys: Keys) -> int:
        """How many of some ascending keys are before the span."""
        if self.low is None:
            return 0
        return _place(keys, self.low, after_equal=self.without_low)

    def last(self, keys: Keys) -> int:
        """How many of some ascending keys are not after the span."""
        if self.high is None:
            return len(keys)
        return _place(keys, self.high, after_equal=not self.without_high)

    def intersection(self, other: Span) -> Span:
        """The keys in both."""
        low, high = self, self
        if other.low is not None and (
            self.low is None or (other.low, other.without_low) > (self.low, self.without_low)
        ):
            low = other
        if other.high is not None and (
            self.high is None or (other.high, not other.without_high) < (self.high, not self.without_high)
        ):
            high = other
        return Span(low.low, high.high, low.without_low, high.without_high)


def _place(keys: Keys, key: int | str, *, after_equal: bool) -> int:
    if isinstance(keys, np.ndarray):
        return int(keys.searchsorted(key, "right" if after_equal else "left"))
    # Texts are in the order of their bytes, which for UTF-8 is that of their code points, as in Python.
    bisect = bisect_right if after_equal else bisect_left
    return bisect(range(len(keys)), key, key=lambda place: keys[place].as_py())


def has_keys(dtype: pa.DataType) -> bool:
    """Whether values of a type have keys."""
    return is_numbered(dtype) or bool(pt.is_string(dtype) or pt.is_large_string(dtype))


def is_numbered(dtype: pa.DataType) -> bool:
    """Whether the keys of a type are numbers."""
    return bool(pt.is_signed_integer(dtype) or pt.is_date32(dtype) or pt.is_timestamp(dtype))


def keys_of(values: pa.Array) -> Keys:
    """The keys of values without nulls, whose type has keys."""
    return numbers_of(values) if is_numbered(values.type) else values


def numbers_of(values: pa.Array) -> npt.NDArray[np.int64]:
    """int64[n]: whole numbers, days since 1970, or the units of a timestamp since then; 0 for nulls."""
    as_numbers = values.cast(pa.int32()) if pt.is_date32(values.type) else values
    numbers: npt.NDArray[np.int64] = as_numbers.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def span_of(expr: Expr, dtype: pa.DataType) -> Span | None:
    """The keys for which a condition on a column of a type is TRUE; None for conditions that are no single span, or
    whose constants are of another kind than the column.
    """
    if isinstance(expr, And):
        spans = [span_of(term, dtype) for term in expr.terms]
        known = [span for span in spans if span is not None]
        return reduce(Span.intersection, known) if len(known) == len(spans) else None
    if not isinstance(expr, Comparison) or expr.op not in _OPS or not has_keys(dtype):
        return None
    column, constant, op = expr.left, expr.right, expr.op
    if isinstance(constant, Column):
        column, constant, op = constant, column, op.mirrored
    if not isinstance(column, Column) or not isinstance(constant, Literal) or constant.value is None:
        return None
    if family_of(constant.type) is not family_of(dtype):
        return None
    return _of_number(op, constant, dtype) if is_numbered(dtype) else _of_text(op, str(constant.value))


def _of_number(op: ComparisonOp, constant: Literal, dtype: pa.DataType) -> Span:
    value, grid = constant.value, grid_of(dtype)
    if isinstance(value, int) and pt.is_integer(dtype):
        # A scalar and its threshold take as long as the search for it.
        limits = Threshold(value - 1, value)
    else:
        limits = threshold(dtype, constant.scalar())
    low, high = grid.lowest, grid.highest
    if op in (ComparisonOp.EQ, ComparisonOp.GE):
        low = limits.below + 1
    if op is ComparisonOp.GT:
        low = limits.upto + 1
    if op in (ComparisonOp.EQ, ComparisonOp.LE):
        high = limits.upto
    if op is ComparisonOp.LT:
        high = limits.below
    if low > grid.highest or high < grid.lowest or low > high:
        return Span(grid.lowest, grid.lowest, without_low=True, without_high=True)
    return Span(max(low, grid.lowest), min(high, grid.highest))


def _of_text(op: ComparisonOp, text: str) -> Span:
    if op is ComparisonOp.EQ:
        return Span(text, text)
    if op in (ComparisonOp.LT, ComparisonOp.LE):
        return Span(high=text, without_high=op is ComparisonOp.LT)
    return Span(low=text, without_low=op is ComparisonOp.GT)
