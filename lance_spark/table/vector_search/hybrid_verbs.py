"""Hybrid search, by vectors and words, as verbs of tables of both kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.table.reading.named_columns import named_paths
from lance_spark.table.reading.read_verbs import BlobOptions
from lance_spark.table.reading.shown_types import shown_table
from lance_spark.table.reading.system_columns import flagged
from lance_spark.table.search.search_verbs import SearchVerbs
from lance_spark.table.vector_search.defaults import DEFAULT_K, DEFAULT_RRF_K
from lance_spark.table.vector_search.vector_verbs import VectorVerbs

if TYPE_CHECKING:
    from lance_spark.expr.nodes import Expr
    from lance_spark.index.text.queries import TextQuery
    from lance_spark.table.search.text_search import SearchedPart
    from lance_spark.table.vector_search.hybrid import Fusion, HybridSearch
    from lance_spark.table.vector_search.request import NearestRequest


class HybridVerbs(SearchVerbs, VectorVerbs):
    """Vector search, full-text search and both together, for tables of any kind."""

    def _table_of_search(
        self,
        nearest: Mapping[str, Any] | None,
        full_text_query: str | TextQuery | Mapping[str, Any] | None,
        arguments: dict[str, Any],
        flags: tuple[bool, bool, bool],
        blobs: BlobOptions,
    ) -> pa.Table:
        from lance_spark.table.search.text_search import SearchRequest

        with_row_id, with_row_address, use_scalar_index = flags
        if nearest is not None:
            return self.to_table_of_nearest(
                nearest,
                with_row_address=with_row_address,
                with_row_id=with_row_id,
                use_scalar_index=use_scalar_index,
                blob_handling=blobs[0],
                allow_external_blobs=blobs[1],
                **arguments,
            )
        assert full_text_query is not None  # the only case left
        query, search_columns = _text_query(full_text_query)
        request = SearchRequest(
            query,
            search_columns,
            arguments["limit"],
            arguments["offset"],
            fast_search=bool(arguments.get("fast_search")),
            prefilter=bool(arguments.get("prefilter")),
        )
        flags_of_rows = (with_row_id, with_row_address)
        return self._shown_search(request, arguments["columns"], arguments["filter"], flags_of_rows, blobs)

    def hybrid_search(
        self,
        column: str,
        query_vector: Any,
        query: str | TextQuery,
        k: int = DEFAULT_K,
        *,
        metric: str | None = None,
        filter: Expr | str | None = None,
        columns: Sequence[str] | None = None,
        search_columns: Sequence[str] | None = None,
        candidates: int | None = None,
        fusion: str = "rrf",
        rrf_k: float = DEFAULT_RRF_K,
        vector_weight: float = 0.5,
        offset: int | None = None,
        with_row_id: bool = False,
        use_index: bool = True,
        **options: Any,
    ) -> pa.Table:
        """The rows that are nearest to a vector or match words, most relevant first.

        The result has ``_distance`` and ``_score`` (float32), null where that side did not find the row,
        and ``_relevance_score`` (float32), which orders the rows.

        Args:
            column: the column of vectors.
            query_vector: the values of one vector.
            query: words, in double quotes a phrase, or a text query.
            k: rows of the result at most.
            metric: as in `nearest`.
            filter: a condition as after WHERE; only rows for which it is true are searched.
            columns: of the result, as in `search`; None for all.
            search_columns: where words are searched; None: all columns with a text index, or all columns of text.
            candidates: rows that each side finds; at least, and without it, `k` and `offset` together.
            fusion: ``rrf``: each side adds 1 / (rank + `rrf_k`), ranks counted from 0. ``linear``: distances and scores
                of the candidates are scaled to 1 for the best and 0 for the worst, and added with weights.
            rrf_k: see `fusion`.
            vector_weight: of the vector side in a linear fusion, 0 to 1; the text side has the rest.
            offset: leaves out this many of the most relevant rows; `k` rows are returned nevertheless.
            with_row_id: adds ``_rowid`` at the end.
            use_index: False reads all rows, for both sides.
            options: `nprobes`, `minimum_nprobes`, `maximum_nprobes`, `refine_factor`, `ef`, `fast_search` and
                `distance_range` of the vector side, as in `nearest`.

        Raises:
            NotFoundError: no such column.
            InvalidInputError: the column has no vectors, a column is not text, or an argument is invalid.
        """
        from lance_spark.table.search.result_columns import arranged, read_columns
        from lance_spark.table.vector_search.hybrid import ADDED_BY_HYBRID_SEARCH, Fusion
        from lance_spark.table.vector_search.request import NearestRequest

        schema, last = self.stored_schema, flagged(with_row_id, False)
        nearest = NearestRequest(
            column,
            query_vector,
            k,
            metric,
            filter,
            columns=read_columns(columns, schema, ADDED_BY_HYBRID_SEARCH, last),
            offset=offset,
            with_row_id=with_row_id,
            use_index=use_index,
            **options,
        )
        joined = Fusion(fusion, rrf_k, vector_weight)
        hybrid = self.plan_hybrid_search(nearest, query, search_columns, candidates, joined)
        parts, found_schema = self.hybrid_parts(hybrid)
        parts, found_schema, form = self._searched_as_form(parts, found_schema, (None, False))
        found = hybrid.run(parts, found_schema)
        found = found if form is None else form.table(found)
        paths = None if columns is None else named_paths(columns, schema)
        return shown_table(arranged(found, paths, ADDED_BY_HYBRID_SEARCH, last))

    def plan_hybrid_search(
        self,
        nearest: NearestRequest,
        query: str | TextQuery,
        search_columns: Sequence[str] | None,
        candidates: int | None,
        fusion: Fusion,
    ) -> HybridSearch:
        """The search that `hybrid_search` does, checked. Raises as it does.

        Args:
            nearest: the vector side; its `k` and `offset` are those of the result.
        """
        from lance_spark.table.vector_search.hybrid import HybridSearch

        skipped = nearest.offset or 0
        if skipped < 0:
            raise InvalidInputError(f"offset is {skipped}; it must not be negative")
        search = self.plan_nearest(replace(nearest, offset=0))
        if search.query.is_batch:
            raise InvalidInputError("a hybrid search has one query vector")
        # Its schema is asked for so that unknown columns, also of the filter, are found.
        self.unread(search)
        k = search.query.k
        return HybridSearch(
            search.with_candidates(max(candidates or 0, k + skipped)), query, search_columns, fusion, k, skipped
        )

    def hybrid_parts(self, hybrid: HybridSearch) -> tuple[list[SearchedPart], pa.Schema]:
        """The tables that a hybrid search has to look into, and the columns that it reads of them."""
        wanted = hybrid.vector
        return self._searched_parts(wanted.columns, wanted.filter, wanted.with_row_id, False)

    def found_by_both(self, hybrid: HybridSearch) -> pa.Table:
        """The result of `hybrid_search` in the form in which columns are stored. Raises as it does."""
        parts, schema = self.hybrid_parts(hybrid)
        return hybrid.run(parts, schema)

    def hybrid_schema(self, columns: Sequence[str] | None = None, *, with_row_id: bool = False) -> pa.Schema:
        """The columns of the result of `found_by_both`. Raises as `hybrid_search`."""
        from lance_spark.table.vector_search.hybrid import hybrid_schema

        _, schema = self._searched_parts(columns, None, with_row_id, False)
        return hybrid_schema(schema)


def _text_query(given: str | TextQuery | Mapping[str, Any]) -> tuple[str | TextQuery, Sequence[str] | None]:
    """The query of a `full_text_query`, and the columns to search."""
    if not isinstance(given, Mapping):
        return given, None
    unknown = given.keys() - {"query", "columns"}
    if unknown or "query" not in given:
        problem = f"does not know the key {min(unknown)!r}" if unknown else "needs the key 'query'"
        raise InvalidInputError(f"full_text_query {problem}; its keys are query and columns")
    return given["query"], given.get("columns")
