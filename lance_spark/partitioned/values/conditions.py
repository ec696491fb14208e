"""Conditions on one partition column, combined so that conditions that are always true disappear.

A condition of None is always true: it restricts nothing. NULL is equivalent to false here, as at the top level of any
filter; conditions are combined by AND and OR only, which preserve this equivalence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from lance_spark.expr.literals import FALSE, Literal, literal
from lance_spark.expr.nodes import And, Comparison, ComparisonOp, Expr, In, IsNull, Not, Or


def all_of(conditions: Iterable[Expr | None]) -> Expr | None:
    """True where all conditions hold."""
    terms = [condition for condition in conditions if condition is not None]
    if FALSE in terms:
        return FALSE
    return None if not terms else terms[0] if len(terms) == 1 else And(tuple(terms))


def any_of(conditions: Iterable[Expr | None]) -> Expr | None:
    """True where any condition holds; FALSE for no conditions."""
    terms: list[Expr] = []
    for condition in conditions:
        if condition is None:
            return None
        if condition != FALSE:
            terms.append(condition)
    return FALSE if not terms else terms[0] if len(terms) == 1 else Or(tuple(terms))


def compared(column: Expr, op: ComparisonOp, value: int | Literal) -> Expr:
    """`column op value`."""
    return Comparison(op, column, value if isinstance(value, Literal) else literal(value))


def is_in(column: Expr, values: Sequence[object]) -> Expr:
    """`column IN (values)`, the values not null; FALSE for none."""
    if not values:
        return FALSE
    if len(values) == 1:
        return Comparison(ComparisonOp.EQ, column, literal(values[0]))
    return In(column, tuple(map(literal, values)))


def is_in_array(column: Expr, values: pa.Array) -> Expr | None:
    """`column` is one of the distinct values of an array, where NULL equals NULL."""
    distinct = values.unique()
    present = [value for value in distinct if value.is_valid]
    return any_of([is_in(column, present), IsNull(column) if distinct.null_count else FALSE])


def with_null(condition: Expr | None, has_null: bool, column: Expr) -> Expr | None:
    """Extends a condition for non-NULL values to include or exclude NULL."""
    if condition is None:
        return None if has_null else Not(IsNull(column))
    return any_of([condition, IsNull(column)]) if has_null else condition
