"""Conditions of full-text search, and `contains_tokens`."""

from __future__ import annotations

from dataclasses import dataclass

from lance_spark.expr.nodes import Column, Expr, quote_string
from lance_spark.text import check_text


@dataclass(frozen=True, slots=True)
class TextOptions:
    """How the words of a `TextMatch` match.

    Attributes:
        operator: OR: any word; AND: all words.
        fuzziness: the edit distance; None: by the length of each word.
        prefix_length: how many characters at the start must match exactly.
        max_expansions: how many terms fuzzy words stand for at most.
        slop: None, or how many other words may stand between the words, which then form a phrase.
    """

    operator: str = "OR"
    fuzziness: int | None = 0
    prefix_length: int = 0
    max_expansions: int = 50
    slop: int | None = None

    def to_sql(self) -> str:
        """The options as text."""
        fuzziness = "auto" if self.fuzziness is None else self.fuzziness
        return (
            f"operator={self.operator},fuzziness={fuzziness},prefix_length={self.prefix_length},"
            f"max_expansions={self.max_expansions}"
        )


@dataclass(frozen=True, slots=True)
class TextMatch(Expr):
    """`lance_match(column, words)`, `lance_match_phrase` and `lance_multi_match`; NULL if all columns are NULL.

    Which rows match depends on the analysis of the column's text index, so the condition is replaced by its rows
    before a scan evaluates its filter (`table.search.text_filters`).
    """

    columns: tuple[Column, ...]
    words: str
    options: TextOptions = TextOptions()

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
