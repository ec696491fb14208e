"""Which conditions bounds of a column can decide, by their shape alone."""

from __future__ import annotations

from typing import cast

import pyarrow as pa

from lance_spark.expr.literals import Literal
from lance_spark.expr.membership import constant_options
from lance_spark.expr.nodes import (
    And,
    Column,
    Comparison,
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
from lance_spark.expr.values import plain

_LONG_LIST = 8


def is_range_condition(expr: Expr, *, negated: bool = False) -> bool:
    """Whether a lower and an upper bound of the column can rule the condition (or its negation) out.

    The condition reads a single column.
    """
    if isinstance(expr, Not):
        return is_range_condition(expr.value, negated=not negated)
    if isinstance(expr, (And, Or)):
        parts = (is_range_condition(term, negated=negated) for term in expr.terms)
        return any(parts) if isinstance(expr, And) is not negated else all(parts)
    if isinstance(expr, Comparison):
        left, right = expr.left, expr.right
        return (isinstance(left, Column) and not has_column(right)) or (
            isinstance(right, Column) and not has_column(left)
        )
    if isinstance(expr, In):
        return isinstance(expr.value, Column) and expr.has_constants
    if isinstance(expr, (InArray, IsNull, IsNan)):
        return isinstance(expr.value, Column)
    if isinstance(expr, (StringMatch, Like)):
        return not negated and isinstance(expr.value, Column) and bool(_prefix(expr))
    return isinstance(expr, Column)


def with_arrays(expr: Expr, dtype: pa.DataType, time_zone: str) -> Expr:
    """A condition with long lists of constants as arrays, which bounds are compared with at once.

    It is TRUE for the same values; where the given one is NULL it can be FALSE.
    """
    if isinstance(expr, (And, Or)):
        return type(expr)(tuple(with_arrays(term, dtype, time_zone) for term in expr.terms))
    if not isinstance(expr, In) or len(expr.options) < _LONG_LIST:
        return expr
    if not expr.has_constants:
        return expr
    # The very tuple of the filter, by which the evaluation remembers it.
    options = cast("tuple[Literal, ...]", expr.options)
    known = constant_options(plain(pa.array([], dtype)).type, options, time_zone).known
    return InArray(expr.value, known) if known is not None and known.type == dtype else expr


def null_test(expr: Expr) -> bool | None:
    """True for `column IS NULL`, False for `column IS NOT NULL`, None for every other condition."""
    if isinstance(expr, Not):
        inner = null_test(expr.value)
        return None if inner is None else not inner
    return True if isinstance(expr, IsNull) and isinstance(expr.value, Column) else None


def has_column(expr: Expr) -> bool:
    """Whether a condition reads any column."""
    return not expr.is_constant and any(isinstance(node, Column) for node in expr.walk())


def _prefix(expr: StringMatch | Like) -> str:
    if isinstance(expr, StringMatch):
        return expr.text if expr.op is StringMatchOp.STARTS_WITH else ""
    tokens = like_tokens(expr.pattern, expr.escape)
    return tokens[0][1] if tokens and not tokens[0][0] else ""
