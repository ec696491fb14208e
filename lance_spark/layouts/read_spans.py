"""Ranges of a buffer that are read together because they are near each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.layouts.base import BufferSlice, PageRequest

MAX_GAP_BYTES = 16 * 1024
"""Bytes that are rather read along than skipped."""


@dataclass(frozen=True, slots=True)
class ReadSpans:
    """Stretches of a buffer that hold the ranges that are wanted.

    Attributes:
        starts: int64[m], first byte of each stretch.
        lengths: int64[m], bytes of each stretch.
        places: int64[n], where each wanted range begins once the stretches are joined.
    """

    starts: Int64Array
    lengths: Int64Array
    places: Int64Array

    @classmethod
    def plan(cls, starts: Int64Array, stops: Int64Array, max_gap_bytes: int = MAX_GAP_BYTES) -> ReadSpans:
        """The stretches for the ranges [starts[i], stops[i]): at least one, ascending, and none inside another."""
        opens = np.ones(len(starts), np.bool_)
        opens[1:] = starts[1:] - stops[:-1] > max_gap_bytes
        first = np.flatnonzero(opens)
        last = np.append(first[1:], len(starts)) - 1
        span_starts = starts[first]
        lengths = stops[last] - span_starts
        joined_starts = np.cumsum(lengths) - lengths
        span_of = np.cumsum(opens) - 1
        return cls(span_starts, lengths, starts - span_starts[span_of] + joined_starts[span_of])

    def slices(self, buffer: int) -> list[PageRequest]:
        """The stretches as slices of a page's buffer."""
        pairs = zip(self.starts.tolist(), self.lengths.tolist(), strict=True)
        return [BufferSlice(buffer, start, length) for start, length in pairs]


def joined(pieces: list[pa.Buffer]) -> pa.Buffer:
    """The pieces in one buffer; a single one as it is."""
    return pieces[0] if len(pieces) == 1 else pa.py_buffer(b"".join(pieces))


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
