"""``search``: the rows that contain words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.nodes import quote_name
from lance_spark.expr.text.nodes import TEXT_OPTIONS, TextOptions
from lance_spark.index.text.queries import MatchQuery, PhraseQuery, query_with, written_query
from lance_spark.spark.connector.search.arguments import VERSION_ARGUMENTS, Arguments, SearchCall, column_tops
from lance_spark.table.reading.system_columns import ROW_ID, flagged
from lance_spark.table.search.divided import FoundInPiece, knowing
from lance_spark.table.search.result_columns import ADDED_BY_TEXT_SEARCH, arranged, read_columns
from lance_spark.table.search.search_verbs import SearchVerbs
from lance_spark.table.search.text_search import SearchRequest
from lance_spark.table.vector_search.hybrid_verbs import HybridVerbs

NAMES = ("search", "lance_search")
OF_WORDS = (*TEXT_OPTIONS, "phrase", "slop")
"""The arguments that say how words match."""
DEFAULT_LIMIT = 10
_POSITIONAL = ("table", "query", "limit")
_KNOWN = (
    *_POSITIONAL,
    *VERSION_ARGUMENTS,
    "search_columns",
    "columns",
    "offset",
    "filter",
    "with_row_id",
    "fast_search",
    "prefilter",
    *OF_WORDS,
)


@dataclass(frozen=True)
class TextSearch:
    """A call of ``search``; `columns` are those of the result, None for all."""

    dataset: SearchVerbs
    request: SearchRequest
    columns: Sequence[str] | None
    filter: str | None
    with_row_id: bool

    def schema(self) -> pa.Schema:
        """The columns of the result."""
        found = self.dataset.search_schema(self.request, self._read(), with_row_id=self.with_row_id)
        return self._arranged(found.empty_table()).schema

    def rows(self, columns: Sequence[str]) -> pa.Table:
        """The result, with these of its columns. Raises as `SearchVerbs.search`."""
        own = self.dataset.stored_schema.names
        # A path into a struct stays as it is: the column then has only these fields.
        read = self.columns or [quote_name(name) for name in columns if name in own]
        return replace(self, columns=read).found().select(columns)

    def found(self) -> pa.Table:
        """The result with all of its columns. Raises as `rows`."""
        return self._arranged(
            self.dataset.searched_texts(self.request, self._read(), self.filter, with_row_id=self.with_row_id)
        )

    def _read(self) -> list[str] | None:
        """The columns that are read."""
        last = flagged(self.with_row_id, False)
        return read_columns(self.columns, self.dataset.stored_schema, ADDED_BY_TEXT_SEARCH, last)

    def _arranged(self, found: pa.Table) -> pa.Table:
        """The result with its columns in their order."""
        last = flagged(self.with_row_id, False)
        return arranged(found, column_tops(self.columns), ADDED_BY_TEXT_SEARCH, last)

    def knowing(self, found: Iterable[FoundInPiece]) -> TextSearch:
        """The search whose tasks have analyzed the rows that no index covers."""
        return replace(self, request=knowing(self.request, found))

    def explained(self) -> str:
        """Nothing."""
        return ""

    def metrics(self) -> dict[str, int]:
        """Nothing: its work is not counted."""
        return {}

    def ordering(self, columns: Sequence[str]) -> tuple[str, ...]:
        """None: the order is descending."""
        return ()

    def most_rows(self) -> int:
        """The largest number of rows of the result."""
        return DEFAULT_LIMIT if self.request.limit is None else self.request.limit


def plan_text_search(dataset: HybridVerbs, call: SearchCall) -> TextSearch:
    """The search of a call.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: an argument is unknown, missing, or of another type.
    """
    arguments, schema = Arguments(call, _POSITIONAL, _KNOWN), dataset.stored_schema
    arguments.required("query")
    limit = arguments.whole("limit")
    request = SearchRequest(
        text_query(arguments, arguments.text("query") or ""),
        arguments.columns("search_columns", schema, in_lists=True),
        DEFAULT_LIMIT if limit is None else limit,
        arguments.whole("offset"),
        fast_search=arguments.flag("fast_search", False),
        prefilter=arguments.flag("prefilter", True),
    )
    columns = arguments.columns("columns", schema, (*ADDED_BY_TEXT_SEARCH, ROW_ID))
    with_row_id = arguments.flag("with_row_id", False)
    return TextSearch(dataset, request, columns, arguments.text("filter"), with_row_id)


def text_query(arguments: Arguments, words: str) -> MatchQuery | PhraseQuery:
    """The query of `words`, with the arguments `OF_WORDS`; without those for words a text in double quotes is a phrase.

    Raises:
        InvalidInputError: one is invalid, or a phrase has one that is for words.
    """
    function = arguments.function
    given = {name: str(value) for name in TEXT_OPTIONS if (value := arguments.any_of(name)) is not None}
    slop = arguments.whole("slop")
    written = written_query(words)
    if isinstance(written, PhraseQuery) and not given and arguments.any_of("phrase") is None:
        return replace(written, slop=slop or 0)
    if not arguments.flag("phrase", slop is not None):
        if slop is not None:
            raise InvalidInputError(f"{function} has a slop, which is for phrases; leave out phrase => false")
        return query_with(words, TextOptions.of(function, given))
    if given:
        raise InvalidInputError(f"{function} takes no {next(iter(given))} for a phrase; leave it out")
    return query_with(words, TextOptions(slop=slop or 0))
