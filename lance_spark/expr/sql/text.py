"""The functions of filter text for full-text search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lance_spark.errors import InvalidInputError
from lance_spark.expr.literals import Literal
from lance_spark.expr.nodes import Column, Expr
from lance_spark.expr.text.nodes import ContainsTokens, TextMatch
from lance_spark.expr.text.options import TextOptions


def _match(name: str, values: tuple[Expr, ...]) -> Expr:
    if not 2 <= len(values) <= 3:
        raise InvalidInputError(f"{name} takes a column, words and options, got {len(values)} arguments")
    options = _options(name, _text(name, "the options", values[2])) if len(values) == 3 else TextOptions()
    return TextMatch(_columns(name, values[:1]), _text(name, "the words", values[1]), options)


def _phrase(name: str, values: tuple[Expr, ...]) -> Expr:
    if not 2 <= len(values) <= 3:
        raise InvalidInputError(f"{name} takes a column, words and a slop, got {len(values)} arguments")
    slop = values[2].value if len(values) == 3 and isinstance(values[2], Literal) else 0 if len(values) == 2 else None
    if isinstance(slop, bool) or not isinstance(slop, int) or slop < 0:
        raise InvalidInputError(f"the slop of {name} must be a whole number >= 0, got {values[2]}")
    return TextMatch(_columns(name, values[:1]), _text(name, "the words", values[1]), TextOptions("AND", slop=slop))


def _multi_match(name: str, values: tuple[Expr, ...]) -> Expr:
    if len(values) < 3:
        raise InvalidInputError(f"{name} takes words, options if wanted, and two columns or more")
    has_options = isinstance(values[1], Literal)
    options = _options(name, _text(name, "the options", values[1])) if has_options else TextOptions()
    columns = values[2:] if has_options else values[1:]
    if len(columns) < 2:
        raise InvalidInputError(f"{name} takes two columns or more; use lance_match for one")
    return TextMatch(_columns(name, columns), _text(name, "the words", values[0]), options)


def _contains_tokens(name: str, values: tuple[Expr, ...]) -> Expr:
    return ContainsTokens(values[0], _text(name, "the words", values[1]))


def _columns(name: str, values: tuple[Expr, ...]) -> tuple[Column, ...]:
    columns = tuple(value for value in values if isinstance(value, Column))
    if len(columns) < len(values):
        other = next(value for value in values if not isinstance(value, Column))
        raise InvalidInputError(f"{name} searches columns, got {other}")
    return columns


def _text(name: str, what: str, value: Expr) -> str:
    if not (isinstance(value, Literal) and isinstance(value.value, str)):
        raise InvalidInputError(f"{what} of {name} must be a string constant, got {value}")
    return value.value


def _options(name: str, text: str) -> TextOptions:
    """The options of a text such as ``fuzziness=1,operator=AND``.

    Raises:
        InvalidInputError: an unknown option, or an invalid value.
    """
    found: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        key, separator, value = (part.strip() for part in item.partition("="))
        if not separator or key.lower() in found:
            raise InvalidInputError(f"option {item!r} of {name} is given twice or is not of the form name=value")
        found[key.lower()] = value
    # The boost multiplies scores, and a condition has none.
    return replace(TextOptions.of(name, found), boost=1.0)


TEXT_CALLS: dict[str, tuple[int | None, Callable[[str, tuple[Expr, ...]], Expr]]] = {
    "lance_match": (None, _match),
    "lance_match_phrase": (None, _phrase),
    "lance_multi_match": (None, _multi_match),
    "contains_tokens": (2, _contains_tokens),
}
"""The number of arguments, None for any, and what makes the node of name and arguments."""
