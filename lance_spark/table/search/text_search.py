"""Full-text search in a version: the best rows with their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.errors import InvalidInputError
from lance_spark.expr.values import no_rows
from lance_spark.index.text.items import Granularity, UInt32Array
from lance_spark.index.text.queries import MatchQuery, PhraseQuery, TextQuery, written_query
from lance_spark.index.text.search import RowScores, search
from lance_spark.layouts.arrow_take import take_chunked
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.decoding.rows import no_columns
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.selection import FragmentRows
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.rows.fragment_runs import by_fragment, fragment_runs
from lance_spark.table.rows.row_address import offsets_of
from lance_spark.table.search.result_columns import ITEM, SCORE, check_added_columns
from lance_spark.table.search.text_columns import JoinedColumns, KnownRows, SharedAnalyses, TextColumns, without_damage

SCORE_FIELD = pa.field(SCORE, pa.float32())

ITEM_FIELD = pa.field(ITEM, pa.list_(pa.field("item", pa.uint32(), nullable=False)), nullable=False)
"""Of results that are items of lists: their numbers in the lists, from 0, outer lists first."""


@dataclass(frozen=True)
class SearchRequest:
    """A full-text search.

    Attributes:
        query: words, in double quotes a phrase, or a query.
        search_columns: where words and queries without a column are searched; None: all columns with a text index,
            or all columns of text if there is none.
        limit: at most this many rows; None for all.
        offset: after leaving out this many of the best rows.
        with_score: whether the result has `_score`.
        use_index: False reads all rows.
        fast_search: leaves out rows that the index does not cover, if there is one.
        known: by the key of a part and by column, what is found in the rows that no index covers.
        prefilter: whether the filter chooses the rows that are searched. False: it is applied to the best rows, as many
            as `limit` and `offset` together, so fewer than `limit` can be left.
    """

    query: str | TextQuery
    search_columns: Sequence[str] | None = None
    limit: int | None = None
    offset: int | None = None
    with_score: bool = True
    use_index: bool = True
    fast_search: bool = False
    known: Mapping[str | None, Mapping[str, KnownRows]] = field(default_factory=dict)
    prefilter: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.search_columns, str):
            raise InvalidInputError("search_columns must be a list of names")
        if self.search_columns is not None:
            object.__setattr__(self, "search_columns", tuple(self.search_columns))
        for name in ("limit", "offset"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
                raise InvalidInputError(f"{name} {value!r} is not a whole number >= 0")
        if not isinstance(self.query, (str, TextQuery)):
            raise InvalidInputError(f"{self.query!r} is neither words nor a text query")


@dataclass(frozen=True)
class SearchedPart:
    """A table, or a partition of one.

    Attributes:
        manifest: its version.
        scan: reads the columns of the result; its filter restricts the rows.
        key: of the partition; None for a table without partitions.
        may_match: whether the filter can keep a row of it. Statistics of words are those of all parts.
    """

    manifest: Manifest
    scan: Scan
    key: str | None = None
    may_match: bool = True

    @cached_property
    def fragments(self) -> dict[int, DataFragment]:
        """The fragments by id."""
        return {int(fragment.id): fragment for fragment in self.manifest.fragments}

    def filtered(self, found: RowScores) -> RowScores:
        """The rows that the filter keeps."""
        if self.scan.filter is None:
            return found
        addresses, places = _distinct(found.addresses)
        kept = np.zeros(len(addresses), np.bool_)
        for fragment_id, start, stop in fragment_runs(addresses):
            offsets = offsets_of(addresses[start:stop])
            kept[start:stop] = self.scan.matches(self.fragments[fragment_id], offsets)
        return found.keep(kept[places])

    def read(self, addresses: npt.NDArray[np.uint64]) -> pa.Table:
        """The columns of the rows at `addresses` (uint64[n]), in this order."""
        if not self.scan.output:
            return pa.Table.from_batches([no_columns(len(addresses))])
        if not len(addresses):
            return pa.Table.from_batches([no_rows(self.scan.arrow_schema)])
        reader = self.scan.as_decoded.without_filter
        ascending, places = _distinct(addresses)
        rows = [FragmentRows(self.fragments[fragment_id], offsets) for fragment_id, offsets in by_fragment(ascending)]
        return _taken(reader.read_table(rows), places, self.scan.arrow_schema)


def search_parts(request: SearchRequest, parts: Sequence[SearchedPart], schema: pa.Schema) -> pa.Table:
    """The best rows of all parts, with their scores.

    Args:
        schema: of the result, without the score.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: a column is not text or has the name of the score, or the filter fails on a value.
    """
    if request.with_score:
        scored_schema(schema)
    found = found_rows(request, parts)
    if not request.prefilter:
        found = _filtered_best(request, parts, found)
    if len(parts) == 1:
        best = found[0].keep(best_places(found[0].scores, request.limit, request.offset))
        return _scored(parts[0].read(best.addresses), best.scores, best.items, request)
    owners = np.repeat(np.arange(len(found)), [len(rows.scores) for rows in found])
    addresses = np.concatenate([np.empty(0, np.uint64), *(rows.addresses for rows in found)])
    scores = np.concatenate([np.empty(0, np.float32), *(rows.scores for rows in found)])
    chosen = best_places(scores, request.limit, request.offset)
    owners, addresses, scores = owners[chosen], addresses[chosen], scores[chosen]
    tables = [part.read(addresses[owners == number]) for number, part in enumerate(parts)]
    table = pa.concat_tables([pa.Table.from_batches([no_rows(schema)]), *tables])
    result = _taken(table, np.argsort(np.argsort(owners, kind="stable"), kind="stable"), schema)
    items = [rows.items for rows in found if rows.items is not None]
    return _scored(result, scores, np.concatenate(items)[chosen] if items else None, request)


def result_schema(request: SearchRequest, parts: Sequence[SearchedPart], schema: pa.Schema) -> pa.Schema:
    """The schema of the result of `search_parts`, without a search. Arguments and errors as there."""
    if has_items(request, parts):
        check_added_columns(schema, (ITEM,))
        schema = schema.append(ITEM_FIELD)
    return scored_schema(schema) if request.with_score else schema


def has_items(request: SearchRequest, parts: Sequence[SearchedPart]) -> bool:
    """Whether the documents of a search are items of lists, not rows.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: a column has indexes of both kinds of documents, and the query names none.
    """
    columns, query = searched(request, parts)
    return any(
        column.granularity(leaf.column or "", leaf.document_granularity) is Granularity.LIST_ELEMENT
        for column in columns
        for leaf in query.leaves()
    )


def scored_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of a result with these columns, which gets ``_score``.

    Raises:
        InvalidInputError: one of the columns has that name.
    """
    check_added_columns(schema, (SCORE,))
    return schema.append(SCORE_FIELD)


def _distinct(addresses: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """(uint64, the addresses once each, ascending, int64[n]: where each is among them)."""
    order = np.argsort(addresses, kind="stable")
    ascending = addresses[order]
    if (ascending[1:] == ascending[:-1]).any():
        distinct, places = np.unique(addresses, return_inverse=True)
        return distinct, places
    # As for most results; a third of the time of `unique`.
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return ascending, places


def _scored(
    rows: pa.Table, scores: npt.NDArray[np.float32], items: UInt32Array | None, request: SearchRequest
) -> pa.Table:
    if items is not None:
        check_added_columns(rows.schema, (ITEM,))
        offsets = items.shape[1] * np.arange(len(items) + 1, dtype=np.int32)
        numbers = pa.ListArray.from_arrays(pa.array(offsets), pa.array(items.ravel()))
        rows = rows.append_column(ITEM_FIELD, numbers.cast(ITEM_FIELD.type))
    return rows.append_column(SCORE_FIELD, pa.array(scores)) if request.with_score else rows


def found_rows(request: SearchRequest, parts: Sequence[SearchedPart]) -> list[RowScores]:
    """The rows of each part that match, ascending by address, without some that cannot be among the best.

    The filter is left aside if it is for the best rows alone.
    """
    of_parts, query = searched(request, parts)
    columns = JoinedColumns(of_parts)

    def ask() -> list[RowScores]:
        return [search(query, columns.of(number), _wanted(request, part)) for number, part in enumerate(parts)]

    matched = without_damage(of_parts, ask)
    return [part.filtered(rows) for part, rows in zip(parts, matched, strict=True)] if request.prefilter else matched


def _filtered_best(
    request: SearchRequest, parts: Sequence[SearchedPart], matched: Sequence[RowScores]
) -> list[RowScores]:
    """The best matching rows of all parts, filtered after they are chosen."""
    if not parts:
        return []
    scores = np.concatenate([np.empty(0, np.float32), *(rows.scores for rows in matched)])
    most = None if request.limit is None else request.limit + (request.offset or 0)
    is_best = np.zeros(len(scores), np.bool_)
    is_best[best_places(scores, most, None)] = True
    ends = np.cumsum([len(rows.scores) for rows in matched], dtype=np.int64)
    of_parts = np.split(is_best, ends[:-1])
    return [part.filtered(rows.keep(best)) for part, rows, best in zip(parts, matched, of_parts, strict=True)]


def searched(request: SearchRequest, parts: Sequence[SearchedPart]) -> tuple[list[TextColumns], TextQuery]:
    """The columns of each part, and the query with a column everywhere."""
    columns = [
        TextColumns(
            part.manifest,
            part.scan.schema,
            part.scan.bases,
            use_index=request.use_index,
            fast_search=request.fast_search,
            known=request.known.get(part.key),
            is_partition=part.key is not None,
        )
        for part in parts
    ]
    shared = SharedAnalyses(lambda: columns)
    for column in columns:
        column.shared = shared
    query = written_query(request.query) if isinstance(request.query, str) else request.query
    is_named = isinstance(query, (MatchQuery, PhraseQuery)) and query.column is not None
    if is_named or not parts:
        return columns, query
    return columns, query.on(request.search_columns or JoinedColumns(columns).searched_by_default())


def _wanted(request: SearchRequest, part: SearchedPart) -> int | None:
    """Number of the best rows of a part that suffice; None for all: without a limit, or if the filter can take some."""
    is_filtered = request.prefilter and part.scan.filter is not None
    return None if request.limit is None or is_filtered else request.limit + (request.offset or 0)


def best_places(scores: npt.NDArray[np.float32], limit: int | None, offset: int | None) -> npt.NDArray[np.int64]:
    """The places of the highest scores, descending, equal ones in their order."""
    skip = offset or 0
    stop = len(scores) if limit is None else min(len(scores), skip + limit)
    places = np.arange(len(scores))
    if 0 < stop < len(places):
        # Only rows that can be among the first `stop` are sorted.
        worst = np.partition(scores, len(places) - stop)[len(places) - stop]
        places = np.flatnonzero(scores >= worst)
    return places[np.argsort(-scores[places], kind="stable")][skip:stop]


def _taken(table: pa.Table, places: npt.NDArray[np.int64], schema: pa.Schema) -> pa.Table:
    columns = [take_chunked(table.column(field.name), places) for field in schema]
    if not columns:
        return pa.Table.from_batches([no_columns(len(places))])
    return pa.Table.from_arrays(columns, schema=schema)
