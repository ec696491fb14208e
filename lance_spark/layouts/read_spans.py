"""Ranges of a buffer that are read together because they are near each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.kernels.addresses import address_of
from lance_spark.kernels.slices import concatenate
from lance_spark.layouts.base import BufferSlice, PageRequest

MAX_GAP_BYTES = 128 * 1024
"""Bytes that are rather read along than skipped: they take an object store less time than one more request."""


@dataclass(frozen=True, slots=True)
class ReadSpans:
    """Stretches of the same buffer of some pages, which hold the ranges that are wanted.

    Attributes:
        pages: int64[m], number of the page of each stretch.
        starts: int64[m], first byte of the stretch in its page's buffer.
        lengths: int64[m], bytes of the stretch.
        span_of: int64[n], the stretch of each wanted range.
        offsets: int64[n], where in it the range begins.
    """

    pages: Int64Array
    starts: Int64Array
    lengths: Int64Array
    span_of: Int64Array
    offsets: Int64Array

    @classmethod
    def plan(cls, starts: Int64Array, stops: Int64Array, pages: Int64Array | None = None) -> ReadSpans:
        """The stretches for the ranges [starts[i], stops[i]) of page `pages[i]`.

        There is at least one range; they ascend by page and place, and none lies inside of another.
        """
        pages = np.zeros(len(starts), np.int64) if pages is None else pages
        opens = np.ones(len(starts), np.bool_)
        opens[1:] = (starts[1:] - stops[:-1] > MAX_GAP_BYTES) | (pages[1:] != pages[:-1])
        first = np.flatnonzero(opens)
        last = np.append(first[1:], len(starts)) - 1
        span_of = np.cumsum(opens) - 1
        span_starts = starts[first]
        return cls(pages[first], span_starts, stops[last] - span_starts, span_of, starts - span_starts[span_of])

    def slices(self, buffer: int) -> list[PageRequest]:
        """The requests, for a buffer of the pages."""
        places = zip(self.starts.tolist(), self.lengths.tolist(), self.pages.tolist(), strict=True)
        return [BufferSlice(buffer, start, length, page) for start, length, page in places]

    def located(self, pieces: list[pa.Buffer]) -> tuple[pa.Buffer, Int64Array]:
        """(a buffer around all `pieces`, which were read for `slices`; where in it each wanted range begins)."""
        data, bases = spanned(pieces)
        return data, bases[self.span_of] + self.offsets


def spanned(pieces: list[pa.Buffer]) -> tuple[pa.Buffer, Int64Array]:
    """(a buffer from the first to the last byte of the pieces, where each piece begins in it). Nothing is copied.

    What lies between the pieces is not theirs and must not be touched; a `Chunks` whose slices lie inside of the pieces
    sees to that.
    """
    addresses = [piece.address for piece in pieces]
    if len(pieces) == 1:
        return pieces[0], np.zeros(1, np.int64)
    filled = [(address, address + piece.size) for address, piece in zip(addresses, pieces, strict=True) if piece.size]
    if not filled:
        return pa.py_buffer(b""), np.zeros(len(pieces), np.int64)
    low = min(start for start, _ in filled)
    high = max(stop for _, stop in filled)
    return pa.foreign_buffer(low, high - low, pieces), np.array(addresses, np.int64) - low


def gathered(data: pa.Buffer, starts: Int64Array, lengths: Int64Array) -> pa.Buffer:
    """The ranges of `data` back to back: a view of a single one, else a copy. The caller knows that they lie inside."""
    if len(starts) == 1:
        return data.slice(int(starts[0]), int(lengths[0]))
    target = pa.allocate_buffer(int(lengths.sum()))
    starts, lengths = np.ascontiguousarray(starts), np.ascontiguousarray(lengths)
    concatenate(data.address, address_of(starts), address_of(lengths), len(starts), target.address)
    return target
