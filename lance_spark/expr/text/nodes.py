"""Conditions of full-text search with their options, and `contains_tokens`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import Column, Expr, quote_string
from lance_spark.text import check_text

TEXT_OPTIONS = ("operator", "fuzziness", "prefix_length", "max_expansions", "boost")
"""The names of the options that a text can have; a phrase has none of them."""
MAX_FUZZINESS = 10


@dataclass(frozen=True, slots=True)
class TextOptions:
    """Match options of a full-text search.

    Attributes:
        operator: OR: any word; AND: all words.
        fuzziness: the edit distance; None: by the length of each word.
        prefix_length: how many characters at the start must match exactly.
        max_expansions: how many terms fuzzy words stand for at most.
        slop: None, or how many other words may stand between the words, which then form a phrase.
        boost: multiplies scores; a condition has none.
    """

    operator: str = "OR"
    fuzziness: int | None = 0
    prefix_length: int = 0
    max_expansions: int = 50
    slop: int | None = None
    boost: float = 1.0

    @classmethod
    def of(cls, function: str, given: Mapping[str, str]) -> TextOptions:
        """From values by the names of options, as texts.

        Args:
            function: whose options they are, for errors.

        Raises:
            InvalidInputError: an unknown option, or an invalid value.
        """
        unknown = sorted(given.keys() - set(TEXT_OPTIONS))
        if unknown:
            names = f"{', '.join(TEXT_OPTIONS[:-1])} and {TEXT_OPTIONS[-1]}"
            raise InvalidInputError(f"{function} has no option {unknown[0]!r}; the options are {names}")
        operator = given.get("operator", "OR").upper()
        if operator not in ("OR", "AND"):
            raise InvalidInputError(f"operator {operator!r} of {function} is not OR or AND")
        fuzziness = given.get("fuzziness", "0").lower()
        return cls(
            operator,
            None if fuzziness == "auto" else _whole(function, "fuzziness", fuzziness, 0, MAX_FUZZINESS),
            _whole(function, "prefix_length", given.get("prefix_length", "0"), 0),
            _whole(function, "max_expansions", given.get("max_expansions", "50"), 1),
            boost=_number(function, "boost", given.get("boost", "1")),
        )

    def to_sql(self) -> str:
        """The options of a condition as text."""
        fuzziness = "auto" if self.fuzziness is None else self.fuzziness
        return (
            f"operator={self.operator},fuzziness={fuzziness},prefix_length={self.prefix_length},"
            f"max_expansions={self.max_expansions}"
        )


def _whole(function: str, option: str, text: str, low: int, high: int = (1 << 31) - 1) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 11 and low <= int(text) <= high):
        raise InvalidInputError(f"{option} {text!r} of {function} is not a whole number from {low} to {high}")
    return int(text)


def _number(function: str, option: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise InvalidInputError(f"{option} {text!r} of {function} is not a number >= 0")
    return number


@dataclass(frozen=True, slots=True)
class TextMatch(Expr):
    """`lance_match(column, words)`, `lance_match_phrase` and `lance_multi_match`; NULL if all columns are NULL.

    Which rows match depends on the analysis of the column's text index, so the condition is replaced by its rows
    before a scan evaluates its filter (`table.search.text_filters`).
    """

    columns: tuple[Column, ...]
    words: str
    options: TextOptions = field(default_factory=TextOptions)

    def __post_init__(self) -> None:
        check_text(self.words, "the text to search for")

    def children(self) -> tuple[Expr, ...]:
        return self.columns

    def is_term(self) -> bool:
        return True

    def to_sql(self) -> str:
        words = quote_string(self.words)
        columns = ", ".join(column.to_sql() for column in self.columns)
        if self.options.slop is not None:
            return f"lance_match_phrase({columns}, {words}, {self.options.slop})"
        options = quote_string(self.options.to_sql())
        if len(self.columns) > 1:
            return f"lance_multi_match({words}, {options}, {columns})"
        return f"lance_match({columns}, {words}, {options})"


@dataclass(frozen=True, slots=True)
class ContainsTokens(Expr):
    """`contains_tokens(value, words)`: whether all runs of letters and digits of `words` are such runs of `value`.

    Letter case matters. A text without such runs is contained in every text that is not NULL.
    """

    value: Expr
    words: str

    def __post_init__(self) -> None:
        check_text(self.words, "what contains_tokens looks for")

    def children(self) -> tuple[Expr, ...]:
        return (self.value,)

    def is_term(self) -> bool:
        return True

    def to_sql(self) -> str:
        return f"contains_tokens({self.value.to_sql()}, {quote_string(self.words)})"
