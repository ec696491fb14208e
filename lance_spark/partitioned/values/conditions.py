"""Conditions on one partition column, put together so that what is always true leaves nothing behind.

A condition of None is always true: it restricts nothing. NULL stands for false here, as at the end of any filter;
conditions are joined by AND and OR only, under which that makes no difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from lance_spark.expr.literals import FALSE, Literal, literal
from lance_spark.expr.nodes import And, Comparison, ComparisonOp, Expr, In, IsNull, Not, Or


def all_of(conditions: Iterable[Expr | None]) -> Expr | None:
    """Where all conditions hold."""
    terms = [condition for condition in conditions if condition is not None]
    if FALSE in terms:
        return FALSE
    return None if not terms else terms[0] if len(terms) == 1 else And(tuple(terms))


def any_of(conditions: Iterable[Expr | None]) -> Expr | None:
    """Where some condition holds; FALSE for no conditions."""
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
    """`column` is one of the distinct values of an array, NULL being a value like others."""
    distinct = values.unique()
    known = [value for value in distinct if value.is_valid]
    return any_of([is_in(column, known), IsNull(column) if distinct.null_count else FALSE])


def with_null(condition: Expr | None, has_null: bool, column: Expr) -> Expr | None:
    """A condition for values that are not NULL, widened to NULL or kept from it."""
    if condition is None:
        return None if has_null else Not(IsNull(column))
    return any_of([condition, IsNull(column)]) if has_null else condition
