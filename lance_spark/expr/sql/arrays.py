"""The functions of filter text that look into lists; all are made of `ArrayContains`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lance_spark.errors import InvalidInputError
from lance_spark.expr.literals import Literal
from lance_spark.expr.nodes import And, ArrayContains, Expr, Or


@dataclass(frozen=True, slots=True)
class ArrayOf(Expr):
    """`array(items)`: the second argument of other functions, or a value that an update assigns."""

    items: tuple[Expr, ...]

    def children(self) -> tuple[Expr, ...]:
        return self.items

    def is_term(self) -> bool:
        return True

    def to_sql(self) -> str:
        return f"array({', '.join(item.to_sql() for item in self.items)})"


def _contains(name: str, values: tuple[Expr, ...]) -> Expr:
    column, item = values
    if not isinstance(item, Literal) or item.value is None:
        raise InvalidInputError(f"what {name} looks for must be a constant that is not NULL, got {item}")
    return ArrayContains(column, item)


def _contains_several(name: str, values: tuple[Expr, ...]) -> Expr:
    column, items = values
    if not isinstance(items, ArrayOf) or not items.items:
        raise InvalidInputError(f"{name} takes a column and array(...) of one constant or more, got {items}")
    terms = tuple(_contains(name, (column, item)) for item in items.items)
    if len(terms) == 1:
        return terms[0]
    return And(terms) if name in _ALL else Or(terms)


_CONTAINS = ("array_contains", "array_has", "list_contains", "list_has")
_ANY = ("arrays_overlap", "array_has_any", "list_has_any")
_ALL = ("array_has_all", "list_has_all")
ARRAY_CALLS: dict[str, tuple[int | None, Callable[[str, tuple[Expr, ...]], Expr]]] = {
    **dict.fromkeys(_CONTAINS, (2, _contains)),
    **dict.fromkeys((*_ANY, *_ALL), (2, _contains_several)),
    **dict.fromkeys(("array", "make_array"), (None, lambda _, values: ArrayOf(values))),
}
"""The number of arguments, None for any, and what makes the node of name and arguments. With the names that the
reference library has for them."""
