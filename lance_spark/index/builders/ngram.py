"""Builds NGRAM segments; `index.ngram` describes the file."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt
import pyroaring

from lance_spark.index.builders.base import IndexBuilder, IndexedRows, OldSegment, UInt64Array
from lance_spark.index.builders.output import SegmentOutput
from lance_spark.index.builders.trigrams import grouped_by_trigram
from lance_spark.index.files import IndexFiles
from lance_spark.index.ngram import POSTINGS_FILE, NGramIndex, read_postings
from lance_spark.index.row_set import RowSet, treemap

_NULL_TOKEN = 0
_MAPPED_ROWS = 1 << 20
"""The rows of an old segment that are mapped at a time."""


class NGramBuilder(IndexBuilder):
    """NGRAM. Rows are taken batch by batch, so memory holds about one batch and the compressed postings."""

    index_type = NGramIndex

    @classmethod
    def supports(cls, dtype: pa.DataType) -> bool:
        return bool(pt.is_string(dtype) or pt.is_large_string(dtype))

    @classmethod
    def statistics(cls, files: IndexFiles, dtype: pa.DataType) -> dict[str, object]:
        return {"num_ngrams": files.open(POSTINGS_FILE).num_rows}

    def train(self, rows: IndexedRows, output: SegmentOutput) -> None:
        self.merge_batches([], iter([rows]), output)

    def train_batches(self, batches: Iterator[IndexedRows], output: SegmentOutput) -> None:
        self.merge_batches([], batches, output)

    def merge(self, old: Sequence[OldSegment], rows: IndexedRows, output: SegmentOutput) -> None:
        self.merge_batches(old, iter([rows]), output)

    def merge_batches(self, old: Sequence[OldSegment], batches: Iterator[IndexedRows], output: SegmentOutput) -> None:
        postings = _Postings()
        for segment in old:
            postings.add_segment(segment)
        for rows in batches:
            postings.add_rows(rows)
        fields = [
            pa.field("tokens", pa.uint32()),
            pa.field("posting_list", pa.binary(), nullable=False, metadata={"lance-encoding:compression": "none"}),
        ]
        output.write(POSTINGS_FILE, pa.table(postings.columns(), schema=pa.schema(fields)), {})


class _Postings:
    """The rows of each token so far."""

    def __init__(self) -> None:
        self._rows: dict[int, dict[int, pyroaring.BitMap]] = {}

    def add_rows(self, rows: IndexedRows) -> None:
        for first, starts, places in grouped_by_trigram(rows.values):
            tokens = np.flatnonzero(np.diff(starts))
            self._add(tokens.tolist(), [*starts[tokens].tolist(), len(places)], rows.ids[first:][places])
        nulls = rows.ids[rows.values.is_null().to_numpy(zero_copy_only=False)]
        self._add([_NULL_TOKEN], [0, len(nulls)], nulls)

    def add_segment(self, segment: OldSegment) -> None:
        tokens, sets = read_postings(segment.files)
        sizes = np.cumsum([len(rows) for rows in sets])
        start = 0
        while start < len(sets):
            reached = int(sizes[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(sizes, reached + _MAPPED_ROWS, side="right")))
            self._add_mapped(tokens[start:stop].tolist(), sets[start:stop], segment)
            start = stop

    def _add_mapped(self, tokens: list[int], sets: list[RowSet], segment: OldSegment) -> None:
        numbers = [rows.numbers() for rows in sets]
        ends = np.cumsum([0, *(len(found) for found in numbers)])
        kept, ids = segment.mapping(np.concatenate(numbers))
        kept_before = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept)])
        self._add(tokens, kept_before[ends].tolist(), ids)

    def _add(self, tokens: list[int], bounds: list[int], ids: UInt64Array) -> None:
        """Adds to token number i the rows `ids[bounds[i]:bounds[i + 1]]`."""
        lows, highs = ids.astype("<u8", copy=False).view("<u4").reshape(-1, 2).T
        breaks = np.flatnonzero(highs[1:] != highs[:-1]) + 1
        for token, (start, stop) in zip(tokens, pairwise(bounds), strict=True):
            inside = breaks[np.searchsorted(breaks, start, side="right") : np.searchsorted(breaks, stop)].tolist()
            for first, last in pairwise([start, *inside, stop] if stop > start else []):
                self._add_lows(token, int(highs[first]), lows[first:last])

    def _add_lows(self, token: int, high: int, lows: npt.NDArray[np.uint32]) -> None:
        # As in the reference library, without run containers, which `update` makes none of.
        numbers = array("I")
        numbers.frombytes(lows.tobytes())
        self._rows.setdefault(token, {}).setdefault(high, pyroaring.BitMap()).update(numbers)

    def columns(self) -> list[pa.Array | pa.ChunkedArray]:
        """The tokens, ascending, and their treemaps. The postings are empty afterwards."""
        tokens = sorted(self._rows)
        lists = pa.array([treemap(self._rows.pop(token)) for token in tokens], pa.binary())
        return [pa.array(tokens, pa.uint32()), lists]
