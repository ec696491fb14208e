"""Coalescing of close ranges of a buffer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.slices import concatenate, plan_spans
from lance_spark.layouts.base import BufferSlices, Located, PageRequest

MAX_GAP_BYTES = 128 * 1024
"""The largest gap that is read rather than skipped: it takes an object store less time than another request."""


@dataclass(frozen=True, slots=True)
class ReadSpans:
    """Stretches of the same buffer of some pages that contain the wanted ranges.

    Attributes:
        pages: int64[m], index of the page of each stretch.
        starts: int64[m], first byte of the stretch in its page's buffer.
        lengths: int64[m], bytes of the stretch.
        span_of: int64[n], the stretch of each wanted range.
        offsets: int64[n], start of the range within its stretch.
    """

    pages: Int64Array
    starts: Int64Array
    lengths: Int64Array
    span_of: Int64Array
    offsets: Int64Array

    @classmethod
    def plan(cls, starts: Int64Array, stops: Int64Array, pages: Int64Array | None = None) -> ReadSpans:
        """The stretches for the ranges [starts[i], stops[i]) of page `pages[i]`.

        There is at least one range; they ascend by page and position, and none contains another.
        """
        count = len(starts)
        pages = np.zeros(count, np.int64) if pages is None else pages
        starts, stops, pages = (np.ascontiguousarray(table, np.int64) for table in (starts, stops, pages))
        table = np.empty((5, count), np.int64)
        addresses = [address_of(starts), address_of(stops), address_of(pages)]
        num_spans = plan_spans(*addresses, count, MAX_GAP_BYTES, address_of(table))
        return cls(table[0, :num_spans], table[1, :num_spans], table[2, :num_spans], table[3], table[4])

    def slices(self, buffer: int) -> list[PageRequest]:
        """The request, for a buffer of the pages."""
        return [BufferSlices(buffer, self.starts, self.lengths, self.pages)]

    def located(self, pieces: Located) -> tuple[pa.Buffer, Int64Array]:
        """(a buffer around all `pieces`, which were read for `slices`; the start of each wanted range in it)."""
        data, bases = pieces
        return data, bases[self.span_of] + self.offsets


def spanned(pieces: list[pa.Buffer]) -> Located:
    """The pieces in a buffer from the first to the last byte of them. Nothing is copied.

    Memory between the pieces must not be accessed; a `Chunks` whose slices are within the pieces ensures that.
    """
    addresses = [piece.address for piece in pieces]
    if len(pieces) == 1:
        return Located(pieces[0], np.zeros(1, np.int64))
    filled = [(address, address + piece.size) for address, piece in zip(addresses, pieces, strict=True) if piece.size]
    if not filled:
        return Located(pa.py_buffer(b""), np.zeros(len(pieces), np.int64))
    low = min(start for start, _ in filled)
    high = max(stop for _, stop in filled)
    return Located(pa.foreign_buffer(low, high - low, pieces), np.array(addresses, np.int64) - low)


def gathered(data: pa.Buffer, starts: Int64Array, lengths: Int64Array) -> pa.Buffer:
    """The ranges of `data` back to back: a view for a single one, else a copy. The caller guarantees the bounds."""
    if len(starts) == 1:
        return data.slice(int(starts[0]), int(lengths[0]))
    target = pa.allocate_buffer(int(lengths.sum()))
    starts, lengths = np.ascontiguousarray(starts), np.ascontiguousarray(lengths)
    concatenate(data.address, address_of(starts), address_of(lengths), len(starts), target.address)
    return target
