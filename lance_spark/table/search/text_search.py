"""Full-text search in a version: the best rows with their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.index.text.queries import MatchQuery, TextQuery
from lance_spark.index.text.search import RowScores, search
from lance_spark.layouts.arrow_take import take_chunked
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.system_columns import ROW_ADDRESS
from lance_spark.table.search.text_columns import TextColumns

SCORE = "_score"
SCORE_FIELD = pa.field(SCORE, pa.float32())

_HIGH = np.uint64(32)
_LOW = np.uint64((1 << 32) - 1)


@dataclass(frozen=True)
class SearchRequest:
    """A full-text search.

    Attributes:
        query: words, or a query.
        search_columns: where words and queries without a column are searched; None: all columns with a text index,
            or all columns of text if there is none.
        limit: at most this many rows; None for all.
        offset: after leaving out this many of the best rows.
        with_score: whether the result has `_score`.
        use_index: False reads all rows.
    """

    query: str | TextQuery
    search_columns: tuple[str, ...] | None = None
    limit: int | None = None
    offset: int | None = None
    with_score: bool = True
    use_index: bool = True

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


def found_rows(request: SearchRequest, manifest: Manifest, scan: Scan) -> RowScores:
    """All rows that match, ascending by address.

    Args:
        scan: the result's plan, with the filter of the request.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: a column is not text, or the filter fails on a value.
    """
    columns = TextColumns(manifest, scan.bases, use_index=request.use_index)
    query = MatchQuery(request.query) if isinstance(request.query, str) else request.query
    where = request.search_columns or columns.searched_by_default()
    found = search(query.on(where), columns)
    return found if scan.filter is None else _filtered(found, manifest, scan)


def _filtered(found: RowScores, manifest: Manifest, scan: Scan) -> RowScores:
    kept = np.zeros(len(found.addresses), np.bool_)
    fragments = {int(fragment.id): fragment for fragment in manifest.fragments}
    for fragment_id, start, stop in _by_fragment(found.addresses):
        offsets = (found.addresses[start:stop] & _LOW).astype(np.int64)
        kept[start:stop] = scan.matches(fragments[fragment_id], offsets)
    return found.keep(kept)


def best(found: RowScores, limit: int | None, offset: int | None) -> RowScores:
    """Rows in the order of descending scores, those of equal scores by address."""
    skip = offset or 0
    stop = len(found.scores) if limit is None else min(len(found.scores), skip + limit)
    places = np.arange(len(found.scores))
    if stop < len(places):
        # Only rows that can be among the first `stop` are sorted.
        worst = np.partition(found.scores, len(places) - stop)[len(places) - stop] if stop else np.float32(np.inf)
        places = np.flatnonzero(found.scores >= worst)
    order = places[np.argsort(-found.scores[places], kind="stable")][skip:stop]
    return RowScores(found.addresses[order], found.scores[order])


def read_found(request: SearchRequest, manifest: Manifest, scan: Scan, rows: RowScores) -> pa.Table:
    """The columns of some rows, in their order, with their scores."""
    reader = replace(scan, output=tuple(dict.fromkeys((*scan.output, ROW_ADDRESS))), filter=None, uncut=True)
    order = np.argsort(rows.addresses)
    ascending = rows.addresses[order]
    parts: list[pa.RecordBatch] = []
    fragments = {int(fragment.id): fragment for fragment in manifest.fragments}
    for fragment_id, start, stop in _by_fragment(ascending):
        offsets = (ascending[start:stop] & _LOW).astype(np.int64)
        parts += reader.read_fragment(fragments[fragment_id], offsets=offsets)
    table = pa.Table.from_batches(parts, schema=reader.arrow_schema)
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    chosen = [take_chunked(table.column(name), places) for name in scan.output]
    result = pa.Table.from_arrays(chosen, schema=scan.arrow_schema)
    return result.append_column(SCORE_FIELD, pa.array(rows.scores)) if request.with_score else result


def _by_fragment(addresses: npt.NDArray[np.uint64]) -> Sequence[tuple[int, int, int]]:
    """(fragment id, start, stop) of each fragment in ascending addresses."""
    owners = (addresses >> _HIGH).astype(np.int64)
    ids, starts = np.unique(owners, return_index=True)
    stops = [*starts.tolist(), len(owners)][1:]
    return list(zip(ids.tolist(), starts.tolist(), stops, strict=True))
