"""Vectors at computable places of a file, which need no page to be decoded.

Pages of large fixed-size lists have such places (`FullZipLayout` without lists): row `i` of a page is at
``start + i * stride``, behind a control word where the page has nulls. Other pages (vectors of a few bytes, constants,
compressed values) do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.encodings.blocks import Int64Array
from lance_spark.index.vector.metrics import Vectors
from lance_spark.layouts.base import EncodedPage
from lance_spark.layouts.prepared.forms import control_bytes
from lance_spark.layouts.read_spans import ReadSpans, gathered, spanned
from lance_spark.storage.base import ByteRange, ObjectStore, whole_file
from lance_spark.storage.meter import READS


@dataclass(frozen=True)
class VectorPlaces:
    """Locations of the vectors of a column in a data file.

    Attributes:
        ends: int64[p]: rows up to the end of each page.
        starts: int64[p]: the first byte of each page in the file.
        control: int64[p]: bytes of the control word before each vector.
        width: bytes of a vector.
        mapped: the file from `starts[0]` on, if the store has it in memory; else it is read.
    """

    store: ObjectStore
    path: str
    ends: Int64Array
    starts: Int64Array
    control: Int64Array
    width: int
    mapped: pa.Buffer | None

    @classmethod
    def of(
        cls, pages: Sequence[EncodedPage], num_rows: int, store: ObjectStore, path: str, dimension: int, width: int
    ) -> VectorPlaces | None:
        """The places in a file of a store; None if a page is of another kind.

        Args:
            pages: those of the column, in a file since 2.1.
            num_rows: rows of the file.
            dimension: values of a vector.
            width: bytes of a vector.

        Raises:
            CorruptFileError: a page cannot be parsed.
        """
        controls = [control_bytes(page, dimension, width) for page in pages]
        known = [control for control in controls if control is not None]
        ends = np.cumsum([page.num_rows for page in pages], dtype=np.int64)
        if not known or len(known) < len(controls) or int(ends[-1]) != num_rows:
            return None
        starts = np.array([page.buffers[0].position for page in pages], np.int64)
        stops = starts + np.array([page.buffers[0].size for page in pages], np.int64)
        if bool((starts[1:] < stops[:-1]).any()):
            return None
        mapped = _mapped(store, path, int(starts[0]), int(stops[-1]))
        return cls(store, path, ends, starts, np.array(known, np.int64), width, mapped)

    @cached_property
    def _first_rows(self) -> Int64Array:
        """int64[p]: the first row of each page."""
        return np.concatenate([np.zeros(1, np.int64), self.ends[:-1]])

    def read(self, rows: Int64Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
        """(uint8[n, width]: the vectors of `rows`; bool[n]: which of them are null).

        Args:
            rows: int64[n], ascending, distinct, below ``ends[-1]``.

        Raises:
            StorageError: the store failed.
        """
        pages = self.ends.searchsorted(rows, side="right")
        control = self.control[pages]
        offsets = (rows - self._first_rows[pages]) * (control + self.width)
        data, places = self._located(self.starts[pages] + offsets, control)
        values = gathered(data, places + control, np.full(len(rows), self.width, np.int64))
        is_null = np.zeros(len(rows), np.bool_)
        (words,) = control.nonzero()
        if len(words):
            # Any level other than 0 says that the vector, or a struct around it, is null.
            sizes = control[words]
            levels = np.frombuffer(gathered(data, places[words], sizes), np.uint8)
            is_null[words] = np.bitwise_or.reduceat(levels, np.cumsum(sizes) - sizes) != 0
        return np.frombuffer(values, np.uint8).reshape(len(rows), self.width), is_null

    def is_array(self, dtype: np.dtype[Any]) -> bool:
        """Whether the file is in memory, and the vectors of each page are an array of values of `dtype`."""
        return self._alignment > 0 and not self._alignment % dtype.itemsize

    def addresses(self, rows: Int64Array, dtype: np.dtype[Any]) -> Int64Array | None:
        """int64[n]: where the vectors of `rows` are in memory; None if they are no arrays there.

        Args:
            rows: int64[n], n > 0, in any order, none of them negative.
        """
        if not self.is_array(dtype) or int(rows.max()) >= self._num_rows:
            return None
        # Nobody waits for memory.
        READS.add(len(rows), len(rows) * self.width, 0.0)
        pages = self.ends.searchsorted(rows, side="right")
        found: Int64Array = rows * self.width + self._origins[pages]
        return found

    @cached_property
    def _num_rows(self) -> int:
        return int(self.ends[-1])

    @cached_property
    def _origins(self) -> Int64Array:
        """int64[p]: where row 0 of the file would be in memory, if all rows were as far apart as those of the page."""
        assert self.mapped is not None
        origins: Int64Array = self.mapped.address + self.starts - self.starts[0] - self._first_rows * self.width
        return origins

    @cached_property
    def _alignment(self) -> int:
        """Greatest common divisor of the addresses of all vectors; 0 if they are no arrays in memory."""
        if self.mapped is None or self.control.any():
            return 0
        return int(np.gcd.reduce(self._origins, initial=self.width))

    def array(self, start: int, stop: int, dtype: np.dtype[Any]) -> tuple[Vectors, bool]:
        """([n, d]: the vectors of rows [start, stop), which the file has; whether they are a part of the mapped file,
        not a copy). Only if `is_array(dtype)`.
        """
        assert self.mapped is not None
        if start == stop:
            return np.empty((0, self.width // dtype.itemsize), dtype), False
        first, last = int(self.ends.searchsorted(start, "right")), int(self.ends.searchsorted(stop))
        # Pages that follow each other without a gap are one array.
        cuts = np.flatnonzero(np.diff(self._origins[first : last + 1])) + first
        pieces: list[Vectors] = []
        for page, end in zip([first, *(cuts + 1)], [*self.ends[cuts], stop], strict=True):
            low = max(start, int(self._first_rows[page]))
            place = int(self._origins[page]) - self.mapped.address + low * self.width
            pieces.append(np.frombuffer(self.mapped, dtype, (int(end) - low) * self.width // dtype.itemsize, place))
        values = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        return values.reshape(stop - start, self.width // dtype.itemsize), len(pieces) == 1

    def _located(self, starts: Int64Array, control: Int64Array) -> tuple[pa.Buffer, Int64Array]:
        """(a buffer that has the slots at bytes `starts` of the file; where each begins in it)."""
        if self.mapped is not None:
            # Nobody waits for memory.
            READS.add(len(starts), len(starts) * self.width, 0.0)
            return self.mapped, starts - self.starts[0]
        spans = ReadSpans.plan(starts, starts + control + self.width)
        wanted = [ByteRange(*span) for span in zip(spans.starts.tolist(), spans.lengths.tolist(), strict=True)]
        return spans.located(spanned(self.store.read_ranges(self.path, wanted)))


def _mapped(store: ObjectStore, path: str, start: int, stop: int) -> pa.Buffer | None:
    """Bytes [start, stop) of a file, if the store maps files."""
    found = whole_file(store, path)
    return None if found is None or found.size < stop else found.slice(start, stop - start)
