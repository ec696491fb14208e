"""`st_intersects(column, geometry)`, `st_within` and the like in filter text, with a constant geometry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from lance_spark.errors import InvalidInputError
from lance_spark.expr.geo.geos import parse_wkt
from lance_spark.expr.geo.shape import Shape, parse_wkb
from lance_spark.expr.literals import Literal
from lance_spark.expr.nodes import Expr, Not, quote_string

INTERSECTS = "st_intersects"
"""Holds between two geometries that have a point in common."""

RELATIONS = frozenset(
    {INTERSECTS}
    | {f"st_{name}" for name in ("contains", "within", "covers", "coveredby")}
    | {f"st_{name}" for name in ("touches", "crosses", "overlaps", "equals")}
)
"""The relations that hold only between geometries that have a point in common; `st_disjoint` is the opposite of one."""

TURNED = {
    "st_contains": "st_within",
    "st_within": "st_contains",
    "st_covers": "st_coveredby",
    "st_coveredby": "st_covers",
}
"""The names of relations whose arguments are exchanged; others are symmetric."""


@dataclass(frozen=True, slots=True)
class GeometryConstant(Expr):
    """`st_geomfromtext('POINT(1 2)')` or `st_geomfromwkb(X'...')`, an argument of other functions."""

    source: str | bytes

    def __post_init__(self) -> None:
        _parsed(self.source)

    @property
    def shape(self) -> Shape:
        """The geometry."""
        return _parsed(self.source)

    def is_term(self) -> bool:
        return True

    def to_sql(self) -> str:
        if isinstance(self.source, bytes):
            return f"st_geomfromwkb(X'{self.source.hex()}')"
        return f"st_geomfromtext({quote_string(self.source)})"


@lru_cache(maxsize=64)
def _parsed(source: str | bytes) -> Shape:
    return parse_wkb(source) if isinstance(source, bytes) else parse_wkt(source)


def _constant(name: str, values: tuple[Expr, ...]) -> Expr:
    (value,) = values
    kind = str if name == "st_geomfromtext" else bytes
    if not isinstance(value, Literal) or not isinstance(value.value, kind):
        raise InvalidInputError(f"{name} takes a constant {'text' if kind is str else 'binary'}, got {value}")
    return GeometryConstant(value.value)


@dataclass(frozen=True, slots=True)
class Related(Expr):
    """Whether a relation holds between a geometry and a constant one; NULL for NULL.

    Attributes:
        name: of `RELATIONS`.
    """

    name: str
    value: Expr
    geometry: GeometryConstant

    def children(self) -> tuple[Expr, ...]:
        return (self.value,)

    def is_term(self) -> bool:
        return True

    def to_sql(self) -> str:
        return f"{self.name}({self.value.to_sql()}, {self.geometry.to_sql()})"


def related_call(name: str, values: tuple[Expr, ...]) -> Related:
    """The node for a column and a constant geometry, in any order; raises InvalidInputError for other arguments."""
    value, geometry, is_turned = _column_first(name, values)
    return Related(TURNED.get(name, name) if is_turned else name, value, geometry)


def _column_first(name: str, values: tuple[Expr, ...]) -> tuple[Expr, GeometryConstant, bool]:
    """(the column, the constant, whether the constant was first)."""
    one, other = values
    is_turned = isinstance(one, GeometryConstant)
    if is_turned:
        one, other = other, one
    if not isinstance(other, GeometryConstant) or isinstance(one, GeometryConstant):
        raise InvalidInputError(
            f"{name} takes a column and a constant geometry, such as st_geomfromtext('POINT(1 2)'), got {one}, {other}"
        )
    return one, other, is_turned


GEO_CALLS: dict[str, tuple[int | None, Callable[[str, tuple[Expr, ...]], Expr]]] = {
    "st_geomfromtext": (1, _constant),
    "st_geomfromwkb": (1, _constant),
    "st_disjoint": (2, lambda _name, values: Not(related_call(INTERSECTS, values))),
    **dict.fromkeys(RELATIONS, (2, related_call)),
}
"""The number of arguments, and what makes the node of name and arguments."""
