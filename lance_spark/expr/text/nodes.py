"""Conditions of full-text search, and `contains_tokens`."""

from __future__ import annotations

from dataclasses import dataclass, field

from lance_spark.expr.nodes import Column, Expr, quote_string
from lance_spark.expr.text.options import TextOptions
from lance_spark.text import check_text


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
