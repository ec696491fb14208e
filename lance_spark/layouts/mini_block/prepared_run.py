"""Mini-block pages of a leaf in memory, whose tables are parsed once: reads of few rows go straight to their chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError
from lance_spark.layouts.base import EncodedColumn, EncodedPage, RowRanges
from lance_spark.layouts.in_memory.columns import MAX_PAGES
from lance_spark.layouts.in_memory.dictionary_rows import dictionary_of_pages
from lance_spark.layouts.in_memory.listed_values import ListedValues
from lance_spark.layouts.in_memory.page_tables import are_inside
from lance_spark.layouts.mini_block.chunks import (
    BufferOfPages,
    ChunkStarts,
    ChunkTable,
    RowIndex,
    ValuesInChunks,
    touched_by_values,
)
from lance_spark.layouts.mini_block.layout import FEW_VALUES, Decoder, MiniBlockLayout, taken_values
from lance_spark.layouts.mini_block.row_picker import RowPicker
from lance_spark.layouts.path import LeafPath
from lance_spark.layouts.registry import parse_page

_WORDS, _DATA, _NEXT = 0, 1, 2
"""The buffers of a page; a dictionary and the repetition index follow, if there are any."""

_UNSORTED = 64
"""Rows are sorted if they are more, and more than half as many as the chunks: then many share their chunk."""

_MAX_RUNS = 8
"""Of a leaf: each run that is touched is decoded by itself."""


@dataclass(frozen=True)
class PreparedRun:
    """Pages of a leaf, one behind the other.

    Attributes:
        decoder: knows the chunks of all pages, and their dictionaries.
        index: the rows of each chunk, if there are lists.
        bases: int64[pages], where the chunks of each page begin in the file.
        picker: picks rows by one call of a kernel; None if its encodings are others.
    """

    decoder: Decoder
    index: RowIndex | None
    bases: Int64Array
    picker: RowPicker | None

    @classmethod
    def of(
        cls, path: LeafPath, pages: Sequence[EncodedPage], layouts: Sequence[MiniBlockLayout], data: pa.Buffer
    ) -> PreparedRun | None:
        """Pages of the file `data` that can be decoded together; None if their rows are not found by their tables.

        Raises:
            CorruptFileError: a page contradicts the format.
        """
        layout = layouts[0]
        if layout.has_lists and layout.repetition_index_depth == 0:
            return None
        has_dictionary = layout.dictionary is not None
        num_buffers = _NEXT + has_dictionary + layout.has_lists
        if any(len(page.buffers) != num_buffers for page in pages) or not are_inside(pages, data.size):
            return None
        counts, rows_of_pages = [each.num_items for each in layouts], [page.num_rows for page in pages]
        if not layout.has_lists and counts != rows_of_pages:
            return None
        data_sizes = [page.buffers[_DATA].size for page in pages]
        table = ChunkTable.parse(
            _of_pages(pages, _WORDS, data), data_sizes, counts, large_chunks=layout.has_large_chunk
        )
        dictionary = None
        if has_dictionary:
            dictionary = dictionary_of_pages(pages, layouts, path.nodes[0].data_type, data)
            if dictionary is None:
                return None
        index = None
        if layout.has_lists:
            index = RowIndex.parse(_of_pages(pages, num_buffers - 1, data), table, rows_of_pages)
        bases = np.array([page.buffers[_DATA].position for page in pages], np.int64)
        decoder = Decoder(layout, path, sum(rows_of_pages), table, dictionary)
        return cls(decoder, index, bases, RowPicker.of(decoder, index, bases))

    @property
    def num_bytes(self) -> int:
        """Memory of the tables and dictionaries, in bytes."""
        num_tables = 5 if self.index is None else 7
        dictionary = self.decoder.dictionary
        return num_tables * 8 * len(self.decoder.table) + (0 if dictionary is None else int(dictionary.values.nbytes))

    def read(self, data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        """See `PreparedLeaf.read`; the rows are those of the run."""
        if self.picker is not None:
            return self.picker.read(data, rows)
        if rows[0] < 0 or rows[-1] >= self.decoder.num_rows:
            raise CorruptFileError(f"rows {rows[0]} to {rows[-1]} of {self.decoder.num_rows}")
        return self._decoded(data, RowRanges.of_numbers(rows))

    def _decoded(self, data: pa.Buffer, rows: RowRanges) -> pa.Array:
        decoder, table = self.decoder, self.decoder.table
        found = None if self.index is None else self.index.chunks_of(rows)
        chosen = touched_by_values(table.ends, rows) if found is None else found.chosen
        if len(chosen) == 0 or int(chosen[-1]) >= len(table):
            raise CorruptFileError(f"mini-block: the chunks do not hold all of {decoder.num_rows} rows")
        pages, num_values = table.pages[chosen], table.num_values[chosen]
        starts = ChunkStarts(data, self.bases, pages, table.starts[chosen])
        if found is not None:
            return decoder.list_rows(found, starts)
        if not decoder.layout.can_take or rows.num_rows * FEW_VALUES >= int(num_values.sum()):
            return decoder.decode(chosen, starts).pick_values(rows)
        numbers, ends = rows.indices(), table.ends[chosen]
        chunks = ends.searchsorted(numbers, side="right")
        places = numbers - (ends - num_values)[chunks]
        values = ValuesInChunks(chunks, places, pages, table.sizes[chosen], num_values)
        return taken_values(decoder.layout, decoder.path, values, decoder.dictionary, starts)


@dataclass(frozen=True)
class PreparedLeaf:
    """All pages of a leaf.

    Attributes:
        runs: pages side by side that can be decoded together.
        ends: the rows up to the end of each run.
    """

    runs: Sequence[PreparedRun]
    ends: Sequence[int]

    @classmethod
    def of(cls, path: LeafPath, column: EncodedColumn, data: pa.Buffer) -> PreparedLeaf | None:
        """The pages of a column of the file `data`; None if they are of other kinds.

        Raises:
            CorruptFileError: a page contradicts the format.
            UnsupportedFeatureError: a page has an encoding that this release does not know.
        """
        pages = [page for page in column.pages if page.num_rows]
        if not 0 < len(pages) <= MAX_PAGES or path.slots_per_row > 1:
            return None
        parsed = [parse_page(page.type_url, page.message) for page in pages]
        layouts = [layout for layout in parsed if isinstance(layout, MiniBlockLayout)]
        bounds = _bounds_of_runs(path, layouts)
        ends = list(accumulate([page.num_rows for page in pages]))
        if len(layouts) < len(pages) or bounds is None or ends[-1] != column.num_rows:
            return None
        runs = []
        for start, stop in pairwise(bounds):
            run = PreparedRun.of(path, pages[start:stop], layouts[start:stop], data)
            if run is None:
                return None
            runs.append(run)
        return cls(runs, [ends[stop - 1] for stop in bounds[1:]])

    @property
    def num_bytes(self) -> int:
        """Memory of the tables and dictionaries, in bytes."""
        return sum([run.num_bytes for run in self.runs])

    @property
    def encoded_bytes(self) -> int:
        """The bytes of all chunks."""
        return sum([int(run.decoder.table.sizes.sum()) for run in self.runs])

    @property
    def path(self) -> LeafPath:
        return self.runs[0].decoder.path

    def read(self, data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        """The path array of `rows` (int64[n], at least one), which are distinct and ascend unless it reads any order.

        None if they have so large strings that the general way is to read them.

        Args:
            data: the file, as of `of`.

        Raises:
            CorruptFileError: there are no such rows, or the bytes are inconsistent with the layout.
        """
        if self._is_in_one_run(rows):
            return self.runs[0].read(data, rows)
        if rows[0] < 0 or rows[-1] >= self.ends[-1]:
            raise CorruptFileError(f"rows {rows[0]} to {rows[-1]} of a column of {self.ends[-1]}")
        bounds = [0, *rows.searchsorted(self.ends).tolist()]
        arrays = [
            run.read(data, rows[start:stop] - before)
            for run, before, (start, stop) in zip(self.runs, (0, *self.ends), pairwise(bounds), strict=False)
            if stop > start
        ]
        known = [array for array in arrays if array is not None]
        return pa.concat_arrays(known) if len(known) == len(arrays) else None

    def listed(self, data: pa.Buffer, rows: Int64Array) -> ListedValues | None:
        """See `RowPicker.listed`; None also for rows of several runs."""
        picker = self.runs[0].picker
        return picker.listed(data, rows) if picker is not None and self._is_in_one_run(rows) else None

    def reads_any_order(self, rows: Int64Array) -> bool:
        """Whether these rows (int64[n]) may be read in any order, each as often as it is there."""
        picker = self.runs[0].picker
        is_few = picker is not None and len(rows) <= _UNSORTED + picker.num_chunks // 2
        return is_few and self._is_in_one_run(rows)

    def _is_in_one_run(self, rows: Int64Array) -> bool:
        """Whether all rows are in the first run; those of the last page often are another one."""
        return len(self.runs) == 1 or int(rows.max()) < self.ends[0]


def _bounds_of_runs(path: LeafPath, layouts: Sequence[MiniBlockLayout]) -> list[int] | None:
    """Starts of the runs of pages that can be decoded together, and the end of the last; None if they are many."""
    if len(layouts) == 1:
        return [0, 1]
    keys = [layout.join_key(0, 1) for layout in layouts]
    if path.shape is None or None in keys:
        return None
    bounds = [0, *[place for place in range(1, len(keys)) if keys[place] != keys[place - 1]], len(keys)]
    return bounds if len(bounds) <= _MAX_RUNS + 1 else None


def _of_pages(pages: Sequence[EncodedPage], number: int, data: pa.Buffer) -> BufferOfPages:
    buffers = [page.buffers[number] for page in pages]
    return BufferOfPages([data.address + start for start, _ in buffers], [size for _, size in buffers], data)
