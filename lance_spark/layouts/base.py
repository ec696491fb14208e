"""Pages without I/O.

A page knows its buffers only by size. Reading one is a coroutine (`Reads`): it yields the slices of the page's
buffers that it needs next, is sent the bytes, and returns an Arrow array. The file layer runs the coroutines of all
columns and pages of a request side by side, so each round of requests is one batch of coalesced, overlapped reads,
and a full scan needs a single round.

A leaf column decodes to a *path array*: an Arrow array whose type holds the one path of the schema from the
top-level field down to this leaf. For ``s: struct<a: int32, l: list<string>>`` column 0 gives ``struct<a: int32>``
and column 1 gives ``struct<l: list<string>>``; `merge` zips them together once they cover the same rows.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.schema.field import Field

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class BufferSlice:
    """`length` bytes from `start` of the page's buffer `index`. The file layer checks it against the buffer's size."""

    index: int
    start: int
    length: int


Reads: TypeAlias = Generator[list[BufferSlice], list[pa.Buffer], ResultT]
"""Yields what it needs, is sent one buffer a slice, returns its result."""


@dataclass(frozen=True, slots=True)
class Page:
    """What a layout knows of the page it decodes.

    Attributes:
        buffer_sizes: bytes of each of the page's buffers.
        num_rows: `Page.length` of the wire.
        path: the fields from the top-level field to the leaf of this column, the leaf last.
    """

    buffer_sizes: tuple[int, ...]
    num_rows: int
    path: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class RowRanges:
    """Rows of a page or file: ascending, disjoint ranges [starts[i], stops[i])."""

    starts: Int64Array
    stops: Int64Array

    @classmethod
    def of(cls, start: int, stop: int) -> RowRanges:
        """One range."""
        return cls(np.array([start], np.int64), np.array([stop], np.int64))

    @property
    def num_rows(self) -> int:
        return int((self.stops - self.starts).sum())

    def is_all(self, num_rows: int) -> bool:
        """True if these are exactly the rows 0..num_rows."""
        return len(self.starts) == 1 and int(self.starts[0]) == 0 and int(self.stops[0]) == num_rows

    def within(self, start: int, stop: int) -> RowRanges:
        """The part inside [start, stop), relative to `start`; empty ranges dropped."""
        starts = np.maximum(self.starts, start) - start
        stops = np.minimum(self.stops, stop) - start
        keep = starts < stops
        return RowRanges(starts[keep], stops[keep])
