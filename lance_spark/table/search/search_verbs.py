"""The methods of a `Dataset` that search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.blobs.binary_scan import BlobForm
from lance_spark.table.reading.named_columns import named_paths
from lance_spark.table.reading.read_verbs import BlobOptions, ReadVerbs
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.shown_types import shown_table
from lance_spark.table.reading.system_columns import flagged

if TYPE_CHECKING:
    from typing_extensions import Self

    from lance_spark.expr.nodes import Expr
    from lance_spark.index.text.queries import TextQuery
    from lance_spark.table.search.divided import DividedTextSearch, FoundInPiece, TextPiece
    from lance_spark.table.search.text_search import SearchedPart, SearchRequest


class SearchVerbs(ReadVerbs, ABC):
    """Full-text search, for all kinds of tables."""

    @abstractmethod
    def _searched_parts(
        self, columns: Sequence[str] | None, filter: str | Expr | None, with_row_id: bool, with_row_address: bool
    ) -> tuple[list[SearchedPart], pa.Schema]:
        """The partitions to search, with plans for these arguments, and the schema of the plans."""

    def search(
        self,
        query: str | TextQuery,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        offset: int | None = None,
        filter: str | Expr | None = None,
        *,
        search_columns: Sequence[str] | None = None,
        with_score: bool = True,
        with_row_id: bool = False,
        with_row_address: bool = False,
        use_index: bool = True,
        fast_search: bool = False,
        prefilter: bool = True,
    ) -> pa.Table:
        """The rows that match a full-text query, best first, with their BM25 score in `_score` (float32).

        If items of lists are the documents, there is a row for each item, with its number in the list in `_doc_index`.

        Rows that a text index covers are looked up, the others are read; the analysis is that of the index, or the
        default one. Statistics of indexed rows are those of the index, deleted rows included.

        Args:
            query: words, any of which must occur; a phrase, if the whole text stands in double quotes; or a query such
                as `MatchQuery` or `PhraseQuery`.
            columns: the columns of the result, as in `scan`; None for all. ``_score`` and ``_doc_index`` are where they
                are named, else behind the others.
            limit: at most this many rows; None for all.
            offset: after leaving out this many of the best rows.
            filter: a condition as after WHERE. Scores do not depend on it.
            search_columns: where words and queries without a column are searched; None: all columns with a text
                index, or all columns of text if there is none.
            with_score: whether the result has `_score`.
            with_row_id: adds ``_rowid`` at the end.
            with_row_address: adds ``_rowaddr``, likewise.
            use_index: False reads all rows; scores then have the statistics of all rows of the version.
            fast_search: leaves out rows that the index does not cover; without an index, and where positions are
                needed that it does not have, all rows are read.
            prefilter: whether the filter is applied before the limit. False filters the best rows afterwards, as many
                as `limit` and `offset` together, so fewer than `limit` can be left.

        Raises:
            NotFoundError: no such column.
            InvalidInputError: an argument is invalid, a column is not text or is called ``_score`` (choose others, or
                `with_score` False), or the filter fails on a value.
            UnsupportedFeatureError: a package for the analysis is not installed.
        """
        from lance_spark.table.search.text_search import SearchRequest

        request = SearchRequest(
            query, search_columns, limit, offset, with_score, use_index, fast_search, prefilter=prefilter
        )
        return self._shown_search(request, columns, filter, (with_row_id, with_row_address), (None, False))

    def _shown_search(
        self,
        request: SearchRequest,
        columns: Sequence[str] | None,
        filter: str | Expr | None,
        flags: tuple[bool, bool],
        blobs: BlobOptions,
    ) -> pa.Table:
        """The result of a search. Arguments and errors as `search`.

        Args:
            flags: `with_row_id` and `with_row_address`.
        """
        from lance_spark.table.search.result_columns import ADDED_BY_TEXT_SEARCH, arranged, read_columns
        from lance_spark.table.search.text_search import search_parts

        schema, last = self.stored_schema, flagged(*flags)
        read = read_columns(columns, schema, ADDED_BY_TEXT_SEARCH, last)
        parts, read_schema, form = self._searched_as_form(*self._searched_parts(read, filter, *flags), blobs)
        found = search_parts(request, parts, read_schema)
        found = found if form is None else form.table(found)
        paths = None if columns is None else named_paths(columns, schema)
        return shown_table(arranged(found, paths, ADDED_BY_TEXT_SEARCH, last))

    def _searched_as_form(
        self, parts: list[SearchedPart], schema: pa.Schema, blobs: BlobOptions
    ) -> tuple[list[SearchedPart], pa.Schema, BlobForm | None]:
        """Parts, their schema, and the form of blobs in the result of a search of them; None for what parts read."""
        if not self.changes_blobs(blobs):
            return parts, schema, None
        form = self.blob_form([(part.scan, part.manifest) for part in parts], blobs)
        parts = [replace(part, scan=self._described(part.scan)) for part in parts]
        read = (parts[0].scan if parts else self._described(self._planned(None)[0])).arrow_schema
        fields = [read.field(field.name) if field.name in read.names else field for field in schema]
        return parts, pa.schema(fields, metadata=schema.metadata), form

    def searched_texts(
        self,
        request: SearchRequest,
        columns: Sequence[str] | None = None,
        filter: str | Expr | None = None,
        *,
        with_row_id: bool = False,
        with_row_address: bool = False,
    ) -> pa.Table:
        """The result of `search` in the form in which columns are stored. Raises as it does."""
        from lance_spark.table.search.text_search import search_parts

        parts, schema = self._searched_parts(columns, filter, with_row_id, with_row_address)
        return search_parts(request, parts, schema)

    def divided_search(self, request: SearchRequest, piece_bytes: int) -> DividedTextSearch:
        """The pieces of a search. Raises as `search`."""
        from lance_spark.table.search.divided import divided

        return divided(request, self._searched_parts([], None, False, False)[0], piece_bytes)

    def found_in(self, request: SearchRequest, piece: TextPiece) -> list[FoundInPiece]:
        """Results of a piece of a search. Raises as `search`."""
        from lance_spark.table.search.divided import found_in

        return list(found_in(piece, request, self._searched_parts([], None, False, False)[0]))

    def search_schema(
        self, request: SearchRequest, columns: Sequence[str] | None = None, *, with_row_id: bool = False
    ) -> pa.Schema:
        """The schema of the result of `searched_texts`, without a search. Raises as it does."""
        from lance_spark.table.search.text_search import result_schema

        parts, schema = self._searched_parts(columns, None, with_row_id, False)
        return result_schema(request, parts, schema)


class DatasetSearchVerbs(SearchVerbs):
    """Full-text search in a table without partitions."""

    location: TableLocation
    manifest: Manifest

    if TYPE_CHECKING:

        def _planned(
            self,
            columns: Sequence[str] | None,
            filter: str | Expr | None = None,
            *,
            batch_rows: int | None = None,
            with_row_id: bool = False,
            with_row_address: bool = False,
        ) -> tuple[Scan, list[tuple[Scan, Manifest]]]: ...

        def create_scalar_index(
            self,
            column: str | Sequence[str],
            kind: str = "BTREE",
            name: str | None = None,
            replace: bool = True,
            **parameters: Any,
        ) -> Self: ...

    def create_text_index(self, column: str, name: str | None = None, **options: Any) -> Self:
        """The version with an INVERTED index over the texts of a column, in place of an older one of its name.

        Args:
            column: of strings, lists of strings or JSON documents; a name or a dotted path into structs, also in lists.
            name: of the index; None for the column's path and ``_idx``, or ``_list_element_idx`` for items of lists.
            options: `with_position` (False) stores positions, which makes phrases fast. `document_granularity` (ROW) is
                LIST_ELEMENT if each item of a list is a text of its own. The others say how texts are
                analyzed: `base_tokenizer`, `language`, `max_token_length`, `lower_case`, `stem`, `remove_stop_words`,
                `custom_stop_words`, `ascii_folding`, `min_ngram_length`, `max_ngram_length`, `prefix_only`,
                `split_identifiers`, `split_on_numerics`, `preserve_original` and `index_operators`, with the defaults
                of the reference library.

        Raises:
            NotFoundError: no such column.
            InvalidInputError: a column that is no text, a wrong option, or the name of another index.
            RetryableConflictError: other writers have moved or changed indexed rows. Nothing was changed.
            CommitConflictError: another writer committed something that this cannot follow. Nothing was changed.
            CommitStateUnknownError: the store never said whether the version was committed.
            StorageError: the store failed. Nothing was changed.
            UnsupportedFeatureError: the table needs something that this release does not write, or a package for the
                analysis is not installed.
        """
        return self.create_scalar_index(column, "INVERTED", name, **options)

    def _searched_parts(
        self, columns: Sequence[str] | None, filter: str | Expr | None, with_row_id: bool, with_row_address: bool
    ) -> tuple[list[SearchedPart], pa.Schema]:
        from lance_spark.table.search.text_search import SearchedPart

        scan, _ = self._planned(columns, filter, with_row_id=with_row_id, with_row_address=with_row_address)
        return [SearchedPart(self.manifest, scan)], scan.arrow_schema
