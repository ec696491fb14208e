"""How large an optimized plan is: what bounds the time of planning without a clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Shape:
    """Counts of one optimized plan.

    Attributes:
        nodes: of the plan and of all queries inside its expressions.
        queries: inside expressions; filters by the keys of a join are such.
        depth: of queries inside queries; 1 where no query has another one inside.
    """

    nodes: int
    queries: int
    depth: int


def shape(frame: DataFrame) -> Shape:
    """The shape of the optimized plan of `frame`."""
    return _shape(frame._jdf.queryExecution().optimizedPlan())


def _shape(tree: Any) -> Shape:
    children = [_shape(child) for child in _items(tree.children())]
    inside = [_shape(query) for query in _items(tree.subqueries())]
    return Shape(
        1 + sum(item.nodes for item in children + inside),
        len(inside) + sum(item.queries for item in children + inside),
        max([1 + item.depth for item in inside] + [item.depth for item in children], default=0),
    )


def _items(sequence: Any) -> Iterator[Any]:
    for place in range(sequence.size()):
        yield sequence.apply(place)
