"""Reads mini-block pages, whole or the chunks that hold some rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError
from lance_spark.layouts.base import Page, Reads, RowRanges
from lance_spark.layouts.leaf_arrays import Leaf, PageDictionary, block_leaf
from lance_spark.layouts.mini_block_chunks import ChunkParts, ChunkTable, RowIndex, touched_by_values
from lance_spark.layouts.read_spans import ReadSpans, joined
from lance_spark.layouts.repdef import LevelScheme
from lance_spark.layouts.row_selection import RowRuns, pick_rows, take_values
from lance_spark.layouts.unravel import SlotLevels, decode_levels, unravel

if TYPE_CHECKING:
    from lance_spark.layouts.mini_block import MiniBlockLayout

SMALL_PAGE_BYTES = 64 * 1024
"""A page up to this size is read at once: choosing its chunks would cost a round of requests."""


def read_mini_blocks(layout: MiniBlockLayout, page: Page, rows: RowRanges) -> Reads[pa.Array]:
    """See `PageLayout.read`.

    The whole page is read in one round. Some rows of it take two: the chunk words and the repetition index, then the
    chunks that hold the rows.
    """
    scheme = LevelScheme.of(layout.layers)
    whole = rows.is_all(page.num_rows)
    has_lists = scheme.max_rep > 0
    has_index = has_lists and layout.repetition_index_depth > 0
    at_once = whole or page.path.slots_per_row > 1 or sum(page.buffer_sizes) <= SMALL_PAGE_BYTES
    at_once = at_once or (has_lists and not has_index)
    wanted = [page.whole(0)] + ([page.whole(2)] if layout.dictionary is not None else [])
    if at_once:
        buffers = yield [*wanted, page.whole(1)]
    else:
        buffers = yield [*wanted, *([page.whole(len(wanted) + 1)] if has_index else [])]
    table = ChunkTable.parse(
        buffers[0], page.whole(1).length, layout.num_items, large_chunks=layout.has_large_chunk
    )  # fmt: skip
    dictionary = None
    if layout.dictionary is not None:
        leaf_type = page.path.nodes[0].data_type
        dictionary = PageDictionary.decode(layout.dictionary, layout.num_dictionary_items, buffers[1], leaf_type)
    decoder = _Decoder(layout, page, scheme, dictionary)
    if at_once:
        decoded = decoder.decode(table, np.arange(len(table)), buffers[-1])
        return decoded.whole() if whole else decoded.pick(rows, None)
    index = RowIndex.parse(buffers[-1], len(table), page.num_rows) if has_index else None
    chosen = touched_by_values(table.num_values, rows) if index is None else index.touched(rows)
    if len(chosen) == 0 or int(chosen[-1]) >= len(table):
        raise CorruptFileError(f"mini-block: the chunks do not hold all of {page.num_rows} rows")
    starts = table.starts[chosen]
    spans = ReadSpans.plan(starts, starts + table.sizes[chosen])
    pieces = yield spans.slices(1)
    moved = ChunkTable(spans.places, table.sizes[chosen], table.num_values[chosen])
    decoded = decoder.decode(moved, chosen, joined(pieces))
    if index is not None:
        return decoded.pick(rows, index)
    first_values = np.cumsum(table.num_values) - table.num_values
    return decoded.pick_values(rows, first_values[chosen])


@dataclass(frozen=True, slots=True)
class _Decoder:
    """What the chunks of a page share."""

    layout: MiniBlockLayout
    page: Page
    scheme: LevelScheme
    dictionary: PageDictionary | None

    def decode(self, table: ChunkTable, chosen: Int64Array, data: pa.Buffer) -> _Decoded:
        """Decodes the chunks of `table`, which lie in `data` and are the chunks number `chosen` of the page."""
        layout = self.layout
        encodings = [layout.rep_compression, layout.def_compression]
        parts = ChunkParts.locate(
            data,
            table,
            num_level_parts=sum(encoding is not None for encoding in encodings),
            num_value_parts=layout.value_compression.num_buffers,
            large_chunks=layout.has_large_chunk,
        )
        level_parts = iter(parts.levels)
        repetition, definition = (
            None if encoding is None else decode_levels(encoding, next(level_parts)) for encoding in encodings
        )
        if layout.rep_compression is None and layout.def_compression is None:
            num_levels = table.num_values
        else:
            num_levels = parts.num_levels
        values = layout.value_compression.decode_mini_blocks(parts.values)
        leaf_type = self.page.path.nodes[0].data_type
        leaf = block_leaf(values, leaf_type) if self.dictionary is None else self.dictionary.leaf(values)
        levels = SlotLevels(repetition, definition, int(num_levels.sum()))
        return _Decoded(self.page, self.scheme, levels, leaf, table, chosen, num_levels)


@dataclass(frozen=True, slots=True)
class _Decoded:
    """Some chunks of a page, decoded."""

    page: Page
    scheme: LevelScheme
    levels: SlotLevels
    leaf: Leaf
    table: ChunkTable
    chosen: Int64Array
    num_levels: Int64Array

    def whole(self) -> pa.Array:
        """All rows; the chunks are all of the page."""
        return unravel(self.page.path, self.scheme, self.levels, self.leaf)

    def pick(self, rows: RowRanges, index: RowIndex | None) -> pa.Array:
        """Some rows, found by their levels if there are lists; `index` is None if the chunks are all of the page."""
        if self.scheme.max_rep == 0:
            return take_values(self.whole(), rows.indices())
        slot_starts = np.cumsum(self.num_levels) - self.num_levels
        if index is None:
            runs = RowRuns.page()
        else:
            opens = np.flatnonzero(np.diff(self.chosen, prepend=-2) != 1)
            runs = RowRuns(slot_starts[opens], index.first_begun[self.chosen[opens]])
        return pick_rows(self.page, self.scheme, self.levels, self.leaf, runs, rows)

    def pick_values(self, rows: RowRanges, first_values: Int64Array) -> pa.Array:
        """Some rows of a page without lists; chunk i begins with the page's value `first_values[i]`."""
        wanted = rows.indices()
        ends = np.cumsum(self.table.num_values)
        moved = (ends - self.table.num_values) - first_values
        chunk = np.searchsorted(first_values, wanted, "right") - 1
        return take_values(self.whole(), wanted + moved[chunk])
