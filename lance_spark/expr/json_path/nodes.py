"""The functions of filter text that read a value of a JSON document."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from lance_spark.errors import InvalidInputError
from lance_spark.expr.json_path.jsonb import Step
from lance_spark.expr.json_path.values import JsonKind, json_steps
from lance_spark.expr.literals import Literal
from lance_spark.expr.nodes import Expr, quote_string


@dataclass(frozen=True, slots=True)
class JsonValue(Expr):
    """`json_get_int(value, path)` and the like; NULL where the document has no such value."""

    value: Expr
    path: str
    kind: JsonKind

    def __post_init__(self) -> None:
        json_steps(self.path)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The keys and positions of the path."""
        return json_steps(self.path)

    def children(self) -> tuple[Expr, ...]:
        return (self.value,)

    def is_term(self) -> bool:
        return True

    def to_sql(self) -> str:
        return f"json_get_{self.kind.value}({self.value.to_sql()}, {quote_string(self.path)})"


def _json_value(name: str, values: tuple[Expr, ...], kind: JsonKind) -> Expr:
    column, path = values
    if not isinstance(path, Literal) or not isinstance(path.value, str):
        raise InvalidInputError(f"the path of {name} must be a constant text, got {path}")
    return JsonValue(column, path.value, kind)


JSON_CALLS: dict[str, tuple[int | None, Callable[[str, tuple[Expr, ...]], Expr]]] = {
    f"json_get_{kind.value}": (2, partial(_json_value, kind=kind)) for kind in JsonKind
}
"""The number of arguments, and what makes the node of name and arguments."""
