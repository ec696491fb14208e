"""LIKE, startswith, endswith and contains on string columns."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import StringMatchOp, like_tokens
from lance_spark.expr.values import Family, Operand, null_like, required_family

_MATCHERS: dict[StringMatchOp, Callable[..., Operand]] = {
    StringMatchOp.STARTS_WITH: pc.starts_with,
    StringMatchOp.ENDS_WITH: pc.ends_with,
    StringMatchOp.CONTAINS: pc.match_substring,
}


def match_text(op: StringMatchOp, value: Operand, text: str) -> Operand:
    """Whether each value starts with, ends with or contains `text`.

    Raises:
        InvalidInputError: the value is no string.
    """
    if _is_null(value, op.value):
        return null_like(value, pa.bool_())
    return _MATCHERS[op](value, pattern=text)


def like(value: Operand, pattern: str, escape: str) -> Operand:
    """Whether each complete value matches the pattern. Raises as `match_text`."""
    if _is_null(value, "LIKE"):
        return null_like(value, pa.bool_())
    tokens = like_tokens(pattern, escape)
    shape = [text if is_wildcard else "" for is_wildcard, text in tokens]
    texts = [text for is_wildcard, text in tokens if not is_wildcard]
    if shape in ([], [""]):
        return pc.equal(value, pa.scalar("".join(texts), value.type))
    op = _SIMPLE_SHAPES.get(tuple(shape))
    if op is not None:
        return match_text(op, value, texts[0])
    try:
        return pc.match_substring_regex(value, pattern=_regex(tokens))
    except pa.ArrowInvalid as error:
        raise InvalidInputError(f"LIKE pattern of {len(pattern)} characters cannot be matched: {error}") from error


_SIMPLE_SHAPES = {
    ("", "%"): StringMatchOp.STARTS_WITH,
    ("%", ""): StringMatchOp.ENDS_WITH,
    ("%", "", "%"): StringMatchOp.CONTAINS,
}


def _is_null(value: Operand, what: str) -> bool:
    family = required_family(value, what)
    if family not in (Family.STRING, Family.NULL):
        raise InvalidInputError(f"{what} is not defined for {value.type}")
    return family is Family.NULL


def _regex(tokens: list[tuple[bool, str]]) -> str:
    """The pattern in RE2's syntax; the wildcards match line ends too."""
    wildcards = {"%": ".*", "_": "."}
    return "(?s)^" + "".join(wildcards[text] if is_wildcard else _quoted(text) for is_wildcard, text in tokens) + "$"


def _quoted(text: str) -> str:
    return "".join("\\" + character if character in r"\.+*?()|[]{}^$" else character for character in text).replace(
        "\0", r"\x00"
    )
