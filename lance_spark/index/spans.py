"""Conditions on values that lie in order: which of them a condition keeps is found by halving, without comparing all.

Whole numbers, dates, timestamps and texts have one order, in indexes and in filters. What a constant means on a column
comes from the evaluation of filters (`expr.grid`), so the answer is that of the evaluation.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.expr.grid import Grid, grid_of, threshold
from lance_spark.expr.literals import Literal
from lance_spark.expr.nodes import And, Column, Comparison, ComparisonOp, Expr
from lance_spark.expr.values import Family, family_of
from lance_spark.schema.number_types import elements, numpy_type

Keys: TypeAlias = "npt.NDArray[np.int64] | pa.Array"
"""Values without nulls: whole numbers, dates and timestamps as their numbers, texts as they are."""

_STORED: dict[int, np.dtype[Any]] = {
    dtype.id: numpy_type(dtype)
    for dtype in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
}
"""What the bytes of whole numbers are; those of dates and times are whole numbers, too."""

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
        """Number of keys, which ascend, before the span."""
        if self.low is None:
            return 0
        return _place(keys, self.low, after_equal=self.without_low)

    def last(self, keys: Keys, start: int = 0) -> int:
        """Number of keys, which ascend, that are not after the span.

        Args:
            start: a lower bound of that number.
        """
        if self.high is None:
            return len(keys)
        if isinstance(keys, np.ndarray):
            return _place(keys, self.high, after_equal=not self.without_high)
        # Each text that is looked at is a call, and mostly few are in the span: halving begins near its start.
        step = 1
        while start + step <= len(keys) and not self._is_after(keys[start + step - 1].as_py()):
            step *= 2
        bounds = start + step // 2, min(start + step - 1, len(keys))
        return _place(keys, self.high, after_equal=not self.without_high, bounds=bounds)

    def _is_after(self, key: int | str) -> bool:
        return self.high is not None and (key > self.high or (key == self.high and self.without_high))  # type: ignore[operator]

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


def _place(keys: Keys, key: int | str, *, after_equal: bool, bounds: tuple[int, int] | None = None) -> int:
    if isinstance(keys, np.ndarray):
        return int(keys.searchsorted(key, "right" if after_equal else "left"))
    # Texts are in the order of their bytes, which for UTF-8 is that of their code points, as in Python.
    bisect = bisect_right if after_equal else bisect_left
    return bisect(range(len(keys)), key, *(bounds or ()), key=lambda place: keys[place].as_py())


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
    numbers = stored_numbers(values).astype(np.int64, copy=False)
    if values.null_count:
        numbers = np.where(values.is_valid().to_numpy(zero_copy_only=False), numbers, 0)
    return numbers


def stored_numbers(values: pa.Array) -> npt.NDArray[np.integer[Any]]:
    """The numbers of values of such a type, or of whole numbers without a sign, as they are in memory; those of nulls
    are any.
    """
    dtype = _STORED.get(values.type.id)
    if dtype is None:
        dtype = np.dtype(f"i{values.type.bit_width // 8}")
    # Casts of Arrow take longer than all else of a search.
    return elements(values, dtype)


@dataclass(frozen=True, slots=True)
class _KeyKind:
    """Properties of the type of keys that decide how constants are compared.

    Attributes:
        family: of the type.
        grid: of its numbers; None for texts.
        is_integer: whether the keys are the values themselves, which are whole numbers.
    """

    family: Family | None
    grid: Grid | None
    is_integer: bool


def _kind_of(dtype: pa.DataType) -> _KeyKind | None:
    if not has_keys(dtype):
        return None
    return _KeyKind(family_of(dtype), grid_of(dtype) if is_numbered(dtype) else None, bool(pt.is_integer(dtype)))


def span_of(expr: Expr, dtype: pa.DataType) -> Span | None:
    """The keys for which a condition on a column of a type is TRUE; None for conditions that are no single span, or
    whose constants are of another kind than the column.
    """
    kind = _kind_of(dtype)
    return None if kind is None else _span(expr, kind)


def _span(expr: Expr, kind: _KeyKind) -> Span | None:
    if isinstance(expr, And):
        spans = [_span(term, kind) for term in expr.terms]
        known = [span for span in spans if span is not None]
        return reduce(Span.intersection, known) if len(known) == len(spans) else None
    if not isinstance(expr, Comparison) or expr.op not in _OPS:
        return None
    column, constant, op = expr.left, expr.right, expr.op
    if isinstance(constant, Column):
        column, constant, op = constant, column, op.mirrored
    if not isinstance(column, Column) or not isinstance(constant, Literal) or constant.value is None:
        return None
    if family_of(constant.type) is not kind.family:
        return None
    return _of_text(op, str(constant.value)) if kind.grid is None else _of_number(op, constant, kind, kind.grid)


def _of_number(op: ComparisonOp, constant: Literal, kind: _KeyKind, grid: Grid) -> Span:
    value = constant.value
    if isinstance(value, int) and kind.is_integer:
        # A scalar and its threshold take as long as the search for it.
        below, upto = value - 1, value
    else:
        limits = threshold(grid.type, constant.scalar())
        below, upto = limits.below, limits.upto
    low, high = grid.lowest, grid.highest
    if op in (ComparisonOp.EQ, ComparisonOp.GE):
        low = below + 1
    if op is ComparisonOp.GT:
        low = upto + 1
    if op in (ComparisonOp.EQ, ComparisonOp.LE):
        high = upto
    if op is ComparisonOp.LT:
        high = below
    if low > grid.highest or high < grid.lowest or low > high:
        return Span(grid.lowest, grid.lowest, without_low=True, without_high=True)
    return Span(max(low, grid.lowest), min(high, grid.highest))


def _of_text(op: ComparisonOp, text: str) -> Span:
    if op is ComparisonOp.EQ:
        return Span(text, text)
    if op in (ComparisonOp.LT, ComparisonOp.LE):
        return Span(high=text, without_high=op is ComparisonOp.LT)
    return Span(low=text, without_low=op is ComparisonOp.GT)
