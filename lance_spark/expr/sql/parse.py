"""Filters written in SQL: Spark's grammar of conditions, without subqueries, aggregates and user functions.

>>> str(parse("price BETWEEN 1 AND 2.50 and `a.b`.c like 'x%'"))
"price >= 1 AND price <= 2.50 AND `a.b`.c LIKE 'x%'"
"""

from __future__ import annotations

import re
from functools import lru_cache

import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError
from lance_spark.expr.arrow_filter import from_arrow
from lance_spark.expr.datetime_text import check_time_zone
from lance_spark.expr.nodes import MAX_TREE_DEPTH, Expr, depth
from lance_spark.text import check_text

_MAX_KEPT = 16 * 1024
"""The longest text whose tree, of some twenty times its size, is kept for the next call."""


_MOMENT = re.compile("now|current_|today", re.IGNORECASE)
"""Words of a text whose tree depends on when it is parsed."""


def has_moment(sql: str) -> bool:
    """Whether the tree of a text may depend on when it is parsed."""
    return _MOMENT.search(sql) is not None


def parse(sql: str, *, time_zone: str = "UTC") -> Expr:
    """Parses a filter.

    Args:
        sql: a condition, as after WHERE.
        time_zone: the session's zone, for TIMESTAMP literals without one.

    Raises:
        InvalidInputError: the text is not a supported condition; the message names construct and position.
    """
    if not isinstance(sql, str) or len(sql) > _MAX_KEPT:
        return _parsed(sql, time_zone)
    return _parsed_once(sql, time_zone) or _parsed(sql, time_zone)


def _parsed(sql: str, time_zone: str) -> Expr:
    check_text(sql, "the filter")
    check_time_zone(time_zone)
    # Imported here: most tables are read without SQL text.
    from lance_spark.expr.sql.grammar import Reader

    too_deep = f"the filter chains or nests more than {MAX_TREE_DEPTH} operators in one another"
    try:
        condition = Reader(sql, time_zone).read()
    except RecursionError as error:
        raise InvalidInputError(too_deep) from error
    if depth(condition) > MAX_TREE_DEPTH:
        raise InvalidInputError(too_deep)
    return condition


@lru_cache(maxsize=64)
def _parsed_once(sql: str, time_zone: str) -> Expr | None:
    """The tree, kept: parsing a long list of constants takes longer than to find its rows by an index. None if it is
    another one each time.
    """
    return None if has_moment(sql) else _parsed(sql, time_zone)


def condition_of(filter: object, *, to_match_all: str) -> Expr:
    """The condition that a caller gave as text or as an expression.

    Args:
        to_match_all: what the error says to do for a condition that all rows match.

    Raises:
        InvalidInputError: neither of the two, or as `parse`.
    """
    if not isinstance(filter, (str, Expr, pc.Expression)):
        raise InvalidInputError(f"a {type(filter).__name__} is not a filter; for all rows, {to_match_all}")
    return to_expr(filter)


def to_expr(filter: str | Expr, *, time_zone: str = "UTC") -> Expr:
    """The condition of a filter.

    Raises:
        InvalidInputError: neither text nor an expression of this library or of pyarrow, or as `parse` and `from_arrow`.
    """
    if isinstance(filter, Expr):
        return filter
    if isinstance(filter, pc.Expression):
        return from_arrow(filter)
    if not isinstance(filter, str):
        library = type(filter).__module__.partition(".")[0]
        raise InvalidInputError(
            f'the filter is a {library} {type(filter).__name__}; write the condition as SQL text, as in "id > 1"'
        )
    return parse(filter, time_zone=time_zone)
