"""Full-text queries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lance_spark.errors import InvalidInputError
from lance_spark.expr.text.nodes import MAX_FUZZINESS, TextOptions
from lance_spark.index.text.items import Granularity


@dataclass(frozen=True)
class TextQuery:
    """A full-text query: one of the classes below."""

    def named_columns(self) -> tuple[str, ...]:
        """The columns that the query names."""
        raise NotImplementedError

    def leaves(self) -> Iterator[MatchQuery | PhraseQuery]:
        """The queries of single columns in it, none for one that names no columns yet."""
        return iter(())

    def on(self, columns: Sequence[str]) -> TextQuery:
        """The query with `columns` wherever it names none.

        Raises:
            InvalidInputError: a query for one column got several.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class MatchQuery(TextQuery):
    """Rows that contain words.

    Attributes:
        query: the words, analyzed like the column.
        column: where to search; None: the columns of the search.
        boost: multiplies the scores; >= 0.
        fuzziness: terms within this edit distance match too; None: 0, 1 or 2, by the length of each word.
        max_expansions: how many terms all fuzzy words together stand for at most, in alphabetic order.
        operator: OR: any word; AND: all words.
        prefix_length: how many characters at the start of a word must match exactly.
        document_granularity: ROW or LIST_ELEMENT, whether a row or an item of a list has to match; None: as the index
            of the column has it, ROW without one.
    """

    query: str
    column: str | None = None
    boost: float = 1.0
    fuzziness: int | None = 0
    max_expansions: int = 50
    operator: str = "OR"
    prefix_length: int = 0
    document_granularity: str | None = None

    def __post_init__(self) -> None:
        _check_text(self.query)
        if self.document_granularity is not None:
            object.__setattr__(self, "document_granularity", Granularity.of(self.document_granularity))
        _check_boost("boost", self.boost)
        object.__setattr__(self, "operator", _operator(self.operator))
        if self.fuzziness is not None:
            _check_whole("fuzziness", self.fuzziness, 0, MAX_FUZZINESS)
        _check_whole("max_expansions", self.max_expansions, 1, 1 << 31)
        _check_whole("prefix_length", self.prefix_length, 0, 1 << 31)

    def named_columns(self) -> tuple[str, ...]:
        return () if self.column is None else (self.column,)

    def leaves(self) -> Iterator[MatchQuery | PhraseQuery]:
        yield self

    def on(self, columns: Sequence[str]) -> TextQuery:
        if self.column is not None:
            return self
        matches = tuple(replace(self, column=name) for name in columns)
        return matches[0] if len(matches) == 1 else BestQuery(matches)


@dataclass(frozen=True)
class PhraseQuery(TextQuery):
    """Rows that contain words in this order.

    Attributes:
        query: the words.
        column: where to search; None: the column of the search.
        slop: how many other words may stand between two of them.
        document_granularity: as that of `MatchQuery`.
    """

    query: str
    column: str | None = None
    slop: int = 0
    document_granularity: str | None = None

    def __post_init__(self) -> None:
        _check_text(self.query)
        if self.document_granularity is not None:
            object.__setattr__(self, "document_granularity", Granularity.of(self.document_granularity))
        _check_whole("slop", self.slop, 0, 1 << 31)

    def named_columns(self) -> tuple[str, ...]:
        return () if self.column is None else (self.column,)

    def leaves(self) -> Iterator[MatchQuery | PhraseQuery]:
        yield self

    def on(self, columns: Sequence[str]) -> TextQuery:
        if self.column is not None:
            return self
        phrases = tuple(replace(self, column=name) for name in columns)
        return phrases[0] if len(phrases) == 1 else BestQuery(phrases)


@dataclass(frozen=True)
class BestQuery(TextQuery):
    """Rows of any of `queries`, with the highest of their scores."""

    queries: tuple[TextQuery, ...]

    def __post_init__(self) -> None:
        if not self.queries:
            raise InvalidInputError("a text query needs at least one column; name it in the query or in columns")

    def named_columns(self) -> tuple[str, ...]:
        return _columns(self.queries)

    def leaves(self) -> Iterator[MatchQuery | PhraseQuery]:
        for query in self.queries:
            yield from query.leaves()

    def on(self, columns: Sequence[str]) -> TextQuery:
        return BestQuery(tuple(query.on(columns) for query in self.queries))


@dataclass(frozen=True)
class MultiMatchQuery(TextQuery):
    """Rows that contain words in one of several columns; the score is that of the best column.

    Attributes:
        query: the words.
        columns: the columns.
        boosts: one for each column; None: 1.
        operator: OR: any word; AND: all words, in one column.
    """

    query: str
    columns: tuple[str, ...]
    boosts: tuple[float, ...] | None = None
    operator: str = "OR"

    def __post_init__(self) -> None:
        if isinstance(self.columns, str):
            raise InvalidInputError("columns must be a list of names")
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "operator", _operator(self.operator))
        if self.boosts is not None:
            object.__setattr__(self, "boosts", tuple(self.boosts))
            if len(self.boosts) != len(self.columns):
                raise InvalidInputError(f"{len(self.boosts)} boosts for {len(self.columns)} columns")
        self.best()

    def best(self) -> BestQuery:
        """The query as one match per column."""
        boosts = self.boosts or (1.0,) * len(self.columns)
        pairs = zip(self.columns, boosts, strict=True)
        return BestQuery(tuple(MatchQuery(self.query, name, boost, operator=self.operator) for name, boost in pairs))

    def named_columns(self) -> tuple[str, ...]:
        return self.columns

    def on(self, columns: Sequence[str]) -> TextQuery:
        return self.best()


@dataclass(frozen=True)
class BoostQuery(TextQuery):
    """Rows of `positive`; from their scores `negative_boost` times the score of `negative` is subtracted."""

    positive: TextQuery
    negative: TextQuery
    negative_boost: float = 0.5

    def __post_init__(self) -> None:
        _check_queries((self.positive, self.negative))
        _check_boost("negative_boost", self.negative_boost)

    def named_columns(self) -> tuple[str, ...]:
        return _columns((self.positive, self.negative))

    def leaves(self) -> Iterator[MatchQuery | PhraseQuery]:
        for query in (self.positive, self.negative):
            yield from query.leaves()

    def on(self, columns: Sequence[str]) -> TextQuery:
        return BoostQuery(self.positive.on(columns), self.negative.on(columns), self.negative_boost)


@dataclass(frozen=True)
class BooleanQuery(TextQuery):
    """Rows of all `must` queries, or of any `should` query if there are none, that match no `must_not` query.

    The scores of `must` and `should` are added.
    """

    must: tuple[TextQuery, ...] = ()
    should: tuple[TextQuery, ...] = ()
    must_not: tuple[TextQuery, ...] = ()

    def __post_init__(self) -> None:
        for name in ("must", "should", "must_not"):
            queries = getattr(self, name)
            object.__setattr__(self, name, (queries,) if isinstance(queries, TextQuery) else tuple(queries))
            _check_queries(getattr(self, name))
        if not self.must and not self.should:
            raise InvalidInputError("a boolean query needs a must or should query; it has only must_not")

    def named_columns(self) -> tuple[str, ...]:
        return _columns((*self.must, *self.should, *self.must_not))

    def leaves(self) -> Iterator[MatchQuery | PhraseQuery]:
        for query in (*self.must, *self.should, *self.must_not):
            yield from query.leaves()

    def on(self, columns: Sequence[str]) -> TextQuery:
        parts = (tuple(query.on(columns) for query in part) for part in (self.must, self.should, self.must_not))
        return BooleanQuery(*parts)


def written_query(text: str) -> MatchQuery | PhraseQuery:
    """The query of a text as users write it: words, or a phrase if the whole text stands in double quotes.

    >>> written_query('"quick fox"'), written_query('"quick" fox').query
    (PhraseQuery(query='quick fox', column=None, slop=0, document_granularity=None), '"quick" fox')
    """
    is_phrase = len(text) > 1 and text[0] == text[-1] == '"'
    return PhraseQuery(text[1:-1]) if is_phrase else MatchQuery(text)


def query_with(
    words: str, options: TextOptions, column: str | None = None, granularity: str | None = None
) -> MatchQuery | PhraseQuery:
    """The query that options of SQL make of words; `granularity` is the `document_granularity` of the query."""
    if options.slop is not None:
        return PhraseQuery(words, column, options.slop, granularity)
    return MatchQuery(
        words,
        column,
        options.boost,
        options.fuzziness,
        options.max_expansions,
        options.operator,
        options.prefix_length,
        granularity,
    )


def _columns(queries: Sequence[TextQuery]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for query in queries for name in query.named_columns()))


def _check_queries(queries: Sequence[object]) -> None:
    for query in queries:
        if not isinstance(query, TextQuery):
            raise InvalidInputError(f"{query!r} is not a text query; use MatchQuery, PhraseQuery or another of them")


def _check_text(query: object) -> None:
    if not isinstance(query, str):
        raise InvalidInputError(f"the words of a text query must be a string, not {query!r}")


def _operator(text: object) -> str:
    if not isinstance(text, str) or text.upper() not in ("OR", "AND"):
        raise InvalidInputError(f"operator {text!r} is not OR or AND")
    return text.upper()


def _check_boost(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not (math.isfinite(value) and value >= 0):
        raise InvalidInputError(f"{name} {value!r} is not a number >= 0")


def _check_whole(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidInputError(f"{name} {value!r} is not a whole number from {low} to {high}")
