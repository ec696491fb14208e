"""Vector search as verbs of tables of both kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.table.reading.named_columns import check_distinct, may_name_fields, named_paths
from lance_spark.table.reading.read_verbs import BlobOptions, ReadVerbs
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.shown_types import shown_schema, shown_table
from lance_spark.table.reading.system_columns import ROW_ID, flagged

if TYPE_CHECKING:
    from lance_spark.expr.nodes import Expr
    from lance_spark.table.vector_search.request import NearestRequest
    from lance_spark.table.vector_search.search import MakeScan, Part, Search


class VectorVerbs(ReadVerbs, ABC):
    """The verbs that find rows by their vectors, for tables of any kind."""

    @abstractmethod
    def searched_parts(self, search: Search, keys: Collection[str | None] | None = None) -> list[Part]:
        """The tables that a search has to look into.

        Args:
            keys: those of the parts to return; None for all.
        """

    @abstractmethod
    def unread(self, search: Search) -> Scan:
        """Reads the data columns of the result of a search; asked for its schema only."""

    def nearest(
        self,
        column: str,
        query: Any,
        k: int | None = None,
        metric: str | None = None,
        filter: Expr | str | None = None,
        *,
        columns: Sequence[str] | None = None,
        prefilter: bool = True,
        distance_range: Sequence[float | None] | None = None,
        limit: int | None = None,
        offset: int | None = None,
        with_row_id: bool = False,
        use_index: bool = True,
        nprobes: int | None = None,
        minimum_nprobes: int | None = None,
        maximum_nprobes: int | None = None,
        refine_factor: int | None = None,
        fast_search: bool = False,
        use_scalar_index: bool = True,
        ef: int | None = None,
    ) -> pa.Table:
        """The rows whose vectors are nearest to a query, nearest first, with their distance in ``_distance`` (float32).

        Without an index the search is exact: it reads the vectors of all rows. With one it is approximate: some of the
        nearest rows can be missing, but the distances are exact, and rows that the index does not cover are read.
        Rows without a vector or with a distance that is not a number are left out. Of rows with the same distance the
        one with the least row id comes first.

        Args:
            column: a column of vectors (fixed_size_list of float16, float32, float64 or uint8), or of lists of vectors:
                then the distance of a row is the sum, over the vectors of the query, of the least distance to one of
                its vectors. Dotted for a field of a struct.
            query: the values of a vector. Several vectors (two dimensions) are as many queries, and the result begins
                with a column ``query_index``; for lists of vectors they are one query.
            k: rows of the result, of each query, at most; without it `limit`, and without both 10. `limit` and `offset`
                choose among these rows.
            metric: ``l2`` (squared; ``euclidean`` too), ``cosine``, ``dot`` (1 - a·b), or ``hamming``, the default and
                the only one for uint8. None is that of the column's index, without an index l2.
            filter: a condition as after WHERE; only rows for which it is true are returned.
            columns: of the result, as in `scan`; None for all. ``_distance`` is always there, behind the others unless
                it is named.
            prefilter: whether the filter chooses the rows that are searched. False filters the k nearest rows
                afterwards, so fewer than k can be left.
            distance_range: (lower, upper): only distances from `lower` on and below `upper` count; None for no bound.
            limit: the largest number of rows of the result.
            offset: the number of rows that are left out first.
            with_row_id: adds ``_rowid`` at the end.
            use_index: False compares all rows. So does a `distance_range` with a lower bound, or without a number of
                partitions to probe (`nprobes`, `minimum_nprobes`, `maximum_nprobes`).
            nprobes: the number of partitions of the index that are searched: sets both of the next two.
            minimum_nprobes: the least number of partitions; None for as many as the query suggests.
            maximum_nprobes: the largest number; above the minimum only while fewer than k rows are found. None: all.
            refine_factor: candidates of the index that are compared exactly for each row of the result. None is 4
                for indexes that keep codes in place of vectors, else 1.
            fast_search: leaves out rows that the index does not cover.
            use_scalar_index: whether the table's scalar indexes may answer the filter. The rows are the same.
            ef: nodes that a walk through the graph of an HNSW index keeps, at least `k`; None for what suits `k`.

        Raises:
            NotFoundError: no such column.
            InvalidInputError: the column has no vectors, the query does not fit them, or an argument is invalid.
        """
        from lance_spark.table.vector_search.request import NearestRequest

        request = NearestRequest(
            column,
            query,
            k,
            metric,
            filter,
            columns=columns,
            prefilter=prefilter,
            distance_range=distance_range,
            limit=limit,
            offset=offset,
            with_row_id=with_row_id,
            use_index=use_index,
            nprobes=nprobes,
            minimum_nprobes=minimum_nprobes,
            maximum_nprobes=maximum_nprobes,
            refine_factor=refine_factor,
            fast_search=fast_search,
            use_scalar_index=use_scalar_index,
            ef=ef,
        )
        return self._shown_result(request)

    def to_table_of_nearest(
        self,
        nearest: Mapping[str, Any],
        *,
        with_row_address: bool = False,
        blob_handling: str | None = None,
        allow_external_blobs: bool = False,
        **arguments: Any,
    ) -> pa.Table:
        """The result of the reference library's ``to_table(nearest={...})``.

        Args:
            nearest: ``column`` and ``q``, and any of ``k``, ``metric``, ``nprobes``, ``minimum_nprobes``,
                ``maximum_nprobes``, ``refine_factor``, ``use_index``, ``ef`` and ``distance_range``.
            with_row_address: adds ``_rowaddr`` at the end.
            blob_handling, allow_external_blobs: as in `scan`.
            arguments: more arguments of `nearest`; `prefilter` is False unless it is given.

        Raises:
            InvalidInputError: a key of `nearest` is unknown or missing; and as `nearest`.
        """
        from lance_spark.table.vector_search.request import NearestRequest

        blobs = (blob_handling, allow_external_blobs)
        return self._shown_result(NearestRequest.of_reference(nearest, **arguments), with_row_address, blobs)

    def _shown_result(
        self, request: NearestRequest, with_row_address: bool = False, blobs: BlobOptions = (None, False)
    ) -> pa.Table:
        check_distinct(request.columns)
        if with_row_address or may_name_fields(request.columns):
            rows = self._arranged_result(request, flagged(request.with_row_id, with_row_address), blobs)
        else:
            rows = self._searched_as(self.plan_nearest(request), blobs)
        return shown_table(rows) if self._shows_other_types else rows

    def _arranged_result(self, request: NearestRequest, last: Sequence[str], blobs: BlobOptions) -> pa.Table:
        """The result with fields of structs as columns, and the system columns `last` at its end."""
        from lance_spark.expr.nodes import quote_name
        from lance_spark.table.search.result_columns import arranged
        from lance_spark.table.vector_search.query import DISTANCE, QUERY_INDEX

        schema = self.stored_schema
        names = [quote_name(name) for name in schema.names] if request.columns is None else request.columns
        read = [name for name in names if name not in last] + [name for name in last if name != ROW_ID]
        search = self.plan_nearest(replace(request, columns=read))
        paths = {name: (name,) for name in schema.names} if request.columns is None else named_paths(names, schema)
        if search.query.is_batch:
            paths = {QUERY_INDEX: (QUERY_INDEX,), **paths}
        return arranged(self._searched_as(search, blobs), paths, (DISTANCE,), last)

    def _searched_as(self, search: Search, blobs: BlobOptions) -> pa.Table:
        """The result of a search in which blobs have the form that is asked for. Raises as `nearest`."""
        if not self.changes_blobs(blobs):
            return self.searched(search)

        def describing(scan: MakeScan) -> MakeScan:
            return lambda columns, condition: self._described(scan(columns, condition))

        parts = [replace(part, scan=describing(part.scan)) for part in self.searched_parts(search)]
        form = self.blob_form([(part.scan([], None), part.manifest) for part in parts], blobs)
        return form.table(search.run(parts, self._described(self.unread(search))))

    @cached_property
    def _shows_other_types(self) -> bool:
        schema = self.stored_schema
        return shown_schema(schema) is not schema

    def searched(self, search: Search) -> pa.Table:
        """The result of a search, in the form in which columns are stored. Raises as `nearest`."""
        found = search.found(self.searched_parts(search))
        return search.run([], self.unread(search)) if found is None else found

    def plan_nearest(self, request: NearestRequest) -> Search:
        """The search that `nearest` does, checked. Raises as there."""
        return request.search(self.stored_schema)
