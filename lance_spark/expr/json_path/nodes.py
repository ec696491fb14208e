"""The functions of filter text on JSON documents: `json_get_*`, `json_exists`, `json_array_length` and others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import InvalidInputError
from lance_spark.expr.json_path.documents import json_part
from lance_spark.expr.json_path.jsonb import Scalar, Step, exists_at, length_at, scalars_at
from lance_spark.expr.json_path.values import JsonKind, json_steps
from lance_spark.expr.literals import Literal
from lance_spark.expr.nodes import Expr, quote_string
from lance_spark.expr.values import Operand

EXISTS, LENGTH, CONTAINS = "json_exists", "json_array_length", "json_array_contains"
EXTRACT = "json_extract"


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


@dataclass(frozen=True, slots=True)
class JsonTest(Expr):
    """One of the functions on the part of a document at a path; NULL without a document.

    Attributes:
        item: what `json_array_contains` looks for, as text.
    """

    name: str
    value: Expr
    path: str
    item: str | None = None

    def __post_init__(self) -> None:
        if not self.path.startswith("$"):
            raise InvalidInputError(f"the path of {self.name} begins with $, such as $.key[0], got {self.path!r}")
        json_steps(self.path)

    def children(self) -> tuple[Expr, ...]:
        return (self.value,)

    def is_term(self) -> bool:
        return True

    def to_sql(self) -> str:
        item = "" if self.item is None else f", {quote_string(self.item)}"
        return f"{self.name}({self.value.to_sql()}, {quote_string(self.path)}{item})"

    def evaluated(self, documents: Operand) -> pa.Array:
        """The values for some documents.

        Raises:
            InvalidInputError: they are no binary JSON.
        """
        if isinstance(documents, pa.Scalar) or not (pt.is_binary(documents.type) or pt.is_large_binary(documents.type)):
            raise InvalidInputError(f"{self.name} takes a JSON column, got {documents.type}")
        steps = json_steps(self.path)
        dtype = {LENGTH: pa.int64(), EXTRACT: pa.string()}.get(self.name, pa.bool_())
        read: dict[str, Callable[[bytes], int | bool | str | None]] = {
            EXISTS: lambda data: exists_at(data, steps),
            LENGTH: lambda data: length_at(data, steps),
            CONTAINS: lambda data: any(_is_item(value, self.item or "") for value in scalars_at(data, steps)),
            EXTRACT: lambda data: json_part(data, steps),
        }
        values = (None if data is None else read[self.name](data) for data in documents.to_pylist())
        return pa.array(values, dtype)


def _is_item(value: Scalar, item: str) -> bool:
    """Whether a scalar is what a text stands for: the same text, plain or in double quotes, or the word or number."""
    if isinstance(value, str):
        return item in (value, f'"{value}"')
    if value is None or isinstance(value, bool):
        return item == {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return item == str(value)
    try:
        return float(item) == value
    except ValueError:
        return False


def _json_test(name: str, values: tuple[Expr, ...]) -> Expr:
    column, *constants = values
    texts = [
        str(value.value) for value in constants if isinstance(value, Literal) and isinstance(value.value, (str, int))
    ]
    if len(texts) < len(constants) or not isinstance(getattr(constants[0], "value", None), str):
        raise InvalidInputError(f"{name} takes a column and constant texts, got {', '.join(map(str, values))}")
    return JsonTest(name, column, *texts)


JSON_TESTS: dict[str, tuple[int | None, Callable[[str, tuple[Expr, ...]], Expr]]] = {
    EXISTS: (2, _json_test),
    LENGTH: (2, _json_test),
    CONTAINS: (3, _json_test),
    EXTRACT: (2, _json_test),
}
"""The number of arguments, and what makes the node of name and arguments."""
