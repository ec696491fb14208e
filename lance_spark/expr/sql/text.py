"""The functions of filter text for full-text search."""

from __future__ import annotations

from collections.abc import Callable

from lance_spark.errors import InvalidInputError
from lance_spark.expr.literals import Literal
from lance_spark.expr.nodes import Column, Expr
from lance_spark.expr.text.nodes import ContainsTokens, TextMatch, TextOptions

_MAX_FUZZINESS = 10


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
    _number(name, "boost", found.pop("boost", "1"))
    unknown = sorted(found.keys() - {"operator", "fuzziness", "prefix_length", "max_expansions"})
    if unknown:
        raise InvalidInputError(
            f"{name} has no option {unknown[0]!r}; the options are operator, fuzziness, prefix_length, max_expansions "
            "and boost"
        )
    operator = found.get("operator", "OR").upper()
    if operator not in ("OR", "AND"):
        raise InvalidInputError(f"operator {operator!r} of {name} is not OR or AND")
    fuzziness = found.get("fuzziness", "0").lower()
    return TextOptions(
        operator,
        None if fuzziness == "auto" else _whole(name, "fuzziness", fuzziness, 0, _MAX_FUZZINESS),
        _whole(name, "prefix_length", found.get("prefix_length", "0"), 0),
        _whole(name, "max_expansions", found.get("max_expansions", "50"), 1),
    )


def _whole(name: str, option: str, text: str, low: int, high: int = (1 << 31) - 1) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 11 and low <= int(text) <= high):
        raise InvalidInputError(f"{option} {text!r} of {name} is not a whole number from {low} to {high}")
    return int(text)


def _number(name: str, option: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise InvalidInputError(f"{option} {text!r} of {name} is not a number >= 0")
    return number


TEXT_CALLS: dict[str, tuple[int | None, Callable[[str, tuple[Expr, ...]], Expr]]] = {
    "lance_match": (None, _match),
    "lance_match_phrase": (None, _phrase),
    "lance_multi_match": (None, _multi_match),
    "contains_tokens": (2, _contains_tokens),
}
"""The number of arguments, None for any, and what makes the node of name and arguments."""
