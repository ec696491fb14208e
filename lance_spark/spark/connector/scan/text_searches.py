"""Text searches among the filters that Spark pushes into a scan.

The session extension notes in each search the table and the columns that it was written for. Spark's optimizer also
makes conditions of its own on columns that are equal to these. They are implied by the query's other conditions, and
wrong for text searches, because each column has its own analysis; so they are taken for TRUE.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.literals import TRUE
from lance_spark.expr.nodes import Expr
from lance_spark.spark.connector.channel.handles import TableHandle
from lance_spark.spark.predicates import FUNCTION_PREFIX, SparkExpression, has_text_search, to_filter

_BOUND = FUNCTION_PREFIX + "bound."
"""Starts the name of a search with its table and columns, in JSON, as its last argument. Of a member of structs in
lists the column is the list, and the names below it are in the JSON."""


def pushed_filter(expression: SparkExpression, schema: pa.Schema, handle: TableHandle) -> Expr | None:
    """Translates a condition on the table of `handle`, with its text searches; None if a scan cannot check it.

    Raises:
        InvalidInputError: a text search that this scan cannot answer, which Spark cannot answer either.
    """
    if has_text_search(expression):
        raise InvalidInputError(
            "lance_match, lance_match_phrase and lance_multi_match need the session extension; set "
            "spark.sql.extensions, or use CALL <catalog>.system.search(...)"
        )
    calls = list(_bound_calls(expression))
    if not calls:
        return to_filter(expression, schema)
    if not all(_is_meant_for(call, handle) for call in calls):
        return TRUE
    found = to_filter(_unbound(expression), schema)
    if found is None:
        raise InvalidInputError(
            f"{_function(calls[0])} takes constants and columns of text, and is combined by AND, OR and NOT with "
            "conditions that a scan can check; split the query, or use the table function search"
        )
    return found


def _bound_calls(expression: SparkExpression) -> Iterator[SparkExpression]:
    if expression.name is not None and expression.name.startswith(_BOUND):
        yield expression
    for child in expression.children:
        yield from _bound_calls(child)


def _function(call: SparkExpression) -> str:
    assert call.name is not None
    return call.name.removeprefix(_BOUND)


def _is_meant_for(call: SparkExpression, handle: TableHandle) -> bool:
    target = json.loads(call.children[-1].literal or "")
    columns = [child.column[0] for child in call.children if child.column is not None]
    if len(columns) != len(target["columns"]):
        raise InvalidInputError(f"{_function(call)} searches columns, and no values that are computed from them")
    return (target["uri"], target["branch"], target["columns"]) == (handle.uri, handle.branch, columns)


def _unbound(expression: SparkExpression) -> SparkExpression:
    """`expression` with searches as in SQL."""
    if expression.name is not None and expression.name.startswith(_BOUND):
        *arguments, target = expression.children
        below = iter(json.loads(target.literal or "")["below"])
        children = [
            argument if argument.column is None else replace(argument, column=(*argument.column, *next(below)))
            for argument in arguments
        ]
        return replace(expression, name=FUNCTION_PREFIX + _function(expression), children=tuple(children))
    return replace(expression, children=tuple(map(_unbound, expression.children)))
