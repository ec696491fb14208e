"""Conditions on string columns: LIKE, startswith, endswith, contains, and whole words (`contains_tokens`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.analysis.analyzer import Analyzer, is_text
from lance_spark.analysis.parameters import AS_WRITTEN
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


def contains_tokens(value: Operand, words: str) -> Operand:
    """Whether each value has all tokens of `words`; NULL for null.

    Raises:
        InvalidInputError: the value is no string.
    """
    family = required_family(value, "contains_tokens")
    if family is Family.NULL:
        return null_like(value, pa.bool_())
    if family is not Family.STRING:
        raise InvalidInputError(f"contains_tokens is not defined for {value.type}")
    texts = pa.array([value.as_py()], pa.large_string()) if isinstance(value, pa.Scalar) else value
    analyzer = Analyzer(AS_WRITTEN)
    terms = np.unique(analyzer.analyze(pa.array([words], pa.large_string())).terms)
    analyzed = analyzer.analyze(texts.cast(pa.large_string()))
    owners = np.repeat(np.arange(len(texts)), np.diff(analyzed.offsets))
    has_all = np.ones(len(texts), np.bool_)
    for term in terms.tolist():
        has_term = np.zeros(len(texts), np.bool_)
        has_term[owners[analyzed.terms == term]] = True
        has_all &= has_term
    truth = pa.array(has_all, mask=texts.is_null().to_numpy(zero_copy_only=False))
    return truth[0] if isinstance(value, pa.Scalar) else truth


def check_searchable(values: Sequence[Operand], num_rows: int) -> Operand:
    """The value of a text search for no rows.

    Raises:
        InvalidInputError: a column is neither text nor JSON, or there are rows: the search needs the table's text
            index and is not done row by row.
    """
    for value in values:
        # The search itself, which knows the fields, tells JSON documents from other binaries.
        if not (is_text(value.type) or pa.types.is_large_binary(value.type)):
            raise InvalidInputError(f"text search needs strings, lists of strings or JSON, not {value.type}")
    if num_rows:
        raise InvalidInputError(
            "text search works in filters of reads: scan, to_table, count_rows and search; elsewhere, select the keys "
            "of the rows first"
        )
    return pa.array([], pa.bool_())
