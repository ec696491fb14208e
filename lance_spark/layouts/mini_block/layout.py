"""Mini-block pages: values in chunks of a few KiB that are decoded at once (`lance.encodings21.MiniBlockLayout`).

Buffer 0 has a *chunk word* for each chunk, ``((bytes / 8 - 1) << 4) | log2(num_values)``, in 16 bits or, with large
chunks, in 32. Buffer 1 is the chunks back to back. The dictionary follows, if the values are indices into one, and the
repetition index, if there are lists. The last chunk has the rest of the `num_items` values, regardless of its word.
`num_items` counts the values, not the placeholders of null and empty lists.

The chunk of three int64 values 5, 6, 7 without levels is 32 bytes, so its word is ``((32 / 8 - 1) << 4) | 0`` = 0x30::

    0000        no levels
    18000000    24 bytes of values (u32, as in pages with large chunks)
    fefe        padding to 8 bytes
    0500000000000000 0600000000000000 0700000000000000

A run of pages is read completely, or only the chunks of some rows.

Pages of a column that differ only in their number of values are decoded as one: their chunks, levels and repetition
indices are simply concatenated. List columns need that, because the reference writer ends their pages after 64 Ki
items, and the overhead of a page exceeds the cost of its items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import BlockEncoding, MiniBlockEncoding
from lance_spark.encodings.blocks import Block, Int64Array
from lance_spark.encodings.registry import parse
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.base import JoinablePageLayout, Page, PageLayout, Reads, RowRanges
from lance_spark.layouts.leaf_arrays import Leaf, PageDictionary, block_leaf
from lance_spark.layouts.mini_block.chunks import ChunkParts, ChunkTable, RowIndex, touched_by_values
from lance_spark.layouts.path import LeafPath
from lance_spark.layouts.read_spans import ReadSpans, spanned
from lance_spark.layouts.registry import bounded_count, optional_block, register, set_optional_block
from lance_spark.layouts.repdef import LevelScheme, RepDefLayer, layers_from_wire, layers_to_wire
from lance_spark.layouts.row_selection import RowRuns, pick_rows, take_values
from lance_spark.layouts.unravel import SlotLevels, decode_levels, unravel

SMALL_BYTES = 64 * 1024
"""Pages up to this size are read completely: selecting chunks would cost a round of requests."""

_SMALL_PAGE_ITEMS = 4096
"""Up to this many values, and dictionary items, pages with dictionaries are read together."""

_FEW_VALUES = 8
"""Values are taken one by one if at most one value in this many is wanted from the chunks."""

_WORDS, _DATA = 0, 1


@register
@dataclass(frozen=True, slots=True)
class MiniBlockLayout(JoinablePageLayout):
    """The fields of the wire message."""

    wire_name: ClassVar[str] = "mini_block_layout"
    value_compression: MiniBlockEncoding
    layers: tuple[RepDefLayer, ...]
    num_items: int
    has_large_chunk: bool
    rep_compression: BlockEncoding | None = None
    def_compression: BlockEncoding | None = None
    dictionary: BlockEncoding | None = None
    num_dictionary_items: int = 0
    repetition_index_depth: int = 0

    @classmethod
    def from_proto(cls, message: Any) -> MiniBlockLayout:
        layout = cls(
            parse(message.value_compression, MiniBlockEncoding),
            layers_from_wire(message.layers),
            bounded_count(message.num_items),
            message.has_large_chunk,
            optional_block(message, "rep_compression"),
            optional_block(message, "def_compression"),
            optional_block(message, "dictionary"),
            bounded_count(message.num_dictionary_items),
            message.repetition_index_depth,
        )
        if message.num_buffers != layout.value_compression.num_buffers:
            raise CorruptFileError(
                f"mini-block: {message.num_buffers} value buffers for an encoding that has another number of them"
            )
        if layout.repetition_index_depth > 1:
            raise UnsupportedFeatureError("a repetition index of more than one level", feature="repetition index")
        return layout

    def to_proto(self) -> Any:
        message = pb.MiniBlockLayout(
            value_compression=self.value_compression.to_proto(),
            layers=layers_to_wire(self.layers),
            num_buffers=self.value_compression.num_buffers,
            num_items=self.num_items,
            has_large_chunk=self.has_large_chunk,
            num_dictionary_items=self.num_dictionary_items,
            repetition_index_depth=self.repetition_index_depth,
        )
        set_optional_block(message, "rep_compression", self.rep_compression)
        set_optional_block(message, "def_compression", self.def_compression)
        set_optional_block(message, "dictionary", self.dictionary)
        return pb.PageLayout(mini_block_layout=message)

    def read(self, page: Page, rows: RowRanges) -> Reads[pa.Array]:
        return read_mini_blocks([self], [page], rows)

    def joins(self, before: PageLayout) -> bool:
        """If the layouts are equal except for their numbers of items; with dictionaries only small pages."""
        if not isinstance(before, MiniBlockLayout):
            return False
        if self.dictionary is not None and not (self._is_small and before._is_small):
            return False
        return before is self or _ALL_BUT_ITEMS(self) == _ALL_BUT_ITEMS(before)

    @property
    def _is_small(self) -> bool:
        """Whether moving the indices costs less than a page read of its own."""
        return self.num_items <= _SMALL_PAGE_ITEMS and self.num_dictionary_items <= _SMALL_PAGE_ITEMS

    def read_run(self, layouts: Sequence[PageLayout], pages: Sequence[Page], rows: RowRanges) -> Reads[pa.Array]:
        return read_mini_blocks([each for each in layouts if isinstance(each, MiniBlockLayout)], pages, rows)


_COUNTS = ("num_items", "num_dictionary_items")
_ALL_BUT_ITEMS = attrgetter(*(item.name for item in fields(MiniBlockLayout) if item.name not in _COUNTS))


def read_mini_blocks(layouts: Sequence[MiniBlockLayout], pages: Sequence[Page], rows: RowRanges) -> Reads[pa.Array]:
    """The path array of `rows` of the run.

    Complete pages are read in one round. A selection of rows takes two: the chunk words and the repetition indices,
    then the chunks with the rows.

    Args:
        layouts: equal except for their numbers of items.
        pages: the pages, consecutive.
        rows: numbered from the first row of the first page.

    Raises:
        CorruptFileError: the bytes are inconsistent with the layout.
    """
    layout, path = layouts[0], pages[0].path
    num_rows = sum(page.num_rows for page in pages)
    whole = rows.is_all(num_rows)
    has_lists = any(layer.is_list for layer in layout.layers)
    at_once = whole or path.slots_per_row > 1 or sum(sum(page.buffer_sizes) for page in pages) <= SMALL_BYTES
    at_once = at_once or (has_lists and layout.repetition_index_depth == 0)
    dictionary_buffer = [2] if layout.dictionary is not None else []
    wanted = [_WORDS, *dictionary_buffer]
    if at_once:
        wanted.append(_DATA)
    elif has_lists:
        wanted.append(2 + len(dictionary_buffer))
    answers = yield [page.whole(buffer, number) for buffer in wanted for number, page in enumerate(pages)]
    buffers = [answers[start : start + len(pages)] for start in range(0, len(answers), len(pages))]
    table = ChunkTable.parse(
        buffers[0],
        [page.whole(_DATA).length for page in pages],
        [each.num_items for each in layouts],
        large_chunks=layout.has_large_chunk,
    )
    dictionary = None
    if layout.dictionary is not None:
        leaf_type = path.nodes[0].data_type
        sizes = np.array([each.num_dictionary_items for each in layouts], np.int64)
        dictionary = PageDictionary.decode(layout.dictionary, sizes, buffers[1], leaf_type)
    decoder = _Decoder(layout, path, num_rows, table, dictionary)
    if at_once:
        data, bases = spanned(buffers[-1])
        decoded = decoder.decode(None, data, table.starts + bases[table.pages])
        return decoded.whole() if whole else decoded.pick(rows, None)
    index = RowIndex.parse(buffers[-1], table, [page.num_rows for page in pages]) if has_lists else None
    chosen = touched_by_values(table.num_values, rows) if index is None else index.touched(rows)
    if len(chosen) == 0 or int(chosen[-1]) >= len(table):
        raise CorruptFileError(f"mini-block: the chunks do not hold all of {num_rows} rows")
    starts = table.starts[chosen]
    spans = ReadSpans.plan(starts, starts + table.sizes[chosen], table.pages[chosen])
    data, places = spans.located((yield spans.slices(_DATA)))
    if index is None and rows.num_rows * _FEW_VALUES < int(table.num_values[chosen].sum()):
        taken = decoder.take(chosen, data, places, rows)
        if taken is not None:
            return taken
    decoded = decoder.decode(chosen, data, places)
    return decoded.pick(rows, index) if has_lists else decoded.pick_values(rows)


@dataclass(frozen=True, slots=True)
class _Decoder:
    """Decodes the chunks of a run."""

    layout: MiniBlockLayout
    path: LeafPath
    num_rows: int
    table: ChunkTable
    dictionary: PageDictionary | None

    def decode(self, chosen: Int64Array | None, data: pa.Buffer, starts: Int64Array) -> _Decoded:
        """Decodes the chunks with the indices `chosen` (None: all), which begin at `starts` in `data`."""
        layout = self.layout
        parts, num_values = self._parts(chosen, data, starts)
        level_parts = iter(parts.levels)
        repetition, definition = (
            None if encoding is None else decode_levels(encoding, next(level_parts))
            for encoding in self._level_encodings
        )
        num_levels = parts.num_levels if parts.levels else num_values
        values = layout.value_compression.decode_mini_blocks(parts.values)
        if self.dictionary is not None and self.dictionary.is_joined:
            pages = self.table.pages if chosen is None else self.table.pages[chosen]
            values = self.dictionary.joined_indices(values, np.repeat(pages, num_values))
        levels = SlotLevels(repetition, definition, int(num_levels.sum()))
        return _Decoded(self, chosen, levels, num_levels, num_values, values)

    @property
    def _level_encodings(self) -> tuple[BlockEncoding | None, BlockEncoding | None]:
        return self.layout.rep_compression, self.layout.def_compression

    def _parts(self, chosen: Int64Array | None, data: pa.Buffer, starts: Int64Array) -> tuple[ChunkParts, Int64Array]:
        """(the parts of the chunks, the number of values of each)."""
        sizes, num_values = self.table.sizes, self.table.num_values
        if chosen is not None:
            sizes, num_values = sizes[chosen], num_values[chosen]
        parts = ChunkParts.locate(
            data,
            starts,
            sizes,
            num_values,
            num_level_parts=sum(encoding is not None for encoding in self._level_encodings),
            num_value_parts=self.layout.value_compression.num_buffers,
            large_chunks=self.layout.has_large_chunk,
        )
        return parts, num_values

    def take(self, chosen: Int64Array, data: pa.Buffer, starts: Int64Array, rows: RowRanges) -> pa.Array | None:
        """Few `rows` of pages without lists, without decoding their chunks; None if the encoding cannot do that."""
        layout = self.layout
        if layout.rep_compression is not None:
            return None
        parts, num_values = self._parts(chosen, data, starts)
        wanted = rows.indices()
        first_values = (np.cumsum(self.table.num_values) - self.table.num_values)[chosen]
        chunk = np.searchsorted(first_values, wanted, "right") - 1
        place = wanted - first_values[chunk]
        values = layout.value_compression.take_mini_blocks(parts.values, chunk, place)
        if values is None:
            return None
        if self.dictionary is not None and self.dictionary.is_joined:
            values = self.dictionary.joined_indices(values, self.table.pages[chosen][chunk])
        definition = None
        if layout.def_compression is not None:
            if bool((parts.num_levels != num_values).any()):
                raise CorruptFileError("mini-block: a chunk without lists has other levels than values")
            levels = decode_levels(layout.def_compression, parts.levels[0])
            definition = levels[(np.cumsum(num_values) - num_values)[chunk] + place]
        leaf_type = self.path.nodes[0].data_type
        leaf = block_leaf(values, leaf_type) if self.dictionary is None else self.dictionary.leaf(values)
        return unravel(self.path, LevelScheme.of(layout.layers), SlotLevels(None, definition, len(wanted)), leaf)


@dataclass(frozen=True, slots=True)
class _Decoded:
    """Decoded chunks: their levels and values, and the number of each per chunk (int64[n]).

    `values` are indices into the dictionary, if there is one.
    """

    decoder: _Decoder
    chosen: Int64Array | None
    levels: SlotLevels
    num_levels: Int64Array
    num_values: Int64Array
    values: Block

    @property
    def leaf(self) -> Leaf:
        dictionary = self.decoder.dictionary
        if dictionary is None:
            return block_leaf(self.values, self.decoder.path.nodes[0].data_type)
        return dictionary.leaf(self.values)

    @property
    def scheme(self) -> LevelScheme:
        return LevelScheme.of(self.decoder.layout.layers)

    def whole(self) -> pa.Array:
        """All rows of the chunks, which begin and end at row boundaries."""
        return unravel(self.decoder.path, self.scheme, self.levels, self.leaf)

    def pick(self, rows: RowRanges, index: RowIndex | None) -> pa.Array:
        """Selected rows, located by their levels if there are lists; `index` is None for all chunks of the run."""
        if self.scheme.max_rep == 0:
            return (
                self._span(int(rows.starts[0]), rows.num_rows) if len(rows.starts) == 1 else self._taken(rows.indices())
            )
        runs = RowRuns.page()
        if index is not None and self.chosen is not None:
            slot_starts = np.cumsum(self.num_levels) - self.num_levels
            opens = np.flatnonzero(np.diff(self.chosen, prepend=-2) != 1)
            runs = RowRuns(slot_starts[opens], index.first_begun[self.chosen[opens]])
        decoder = self.decoder
        return pick_rows(decoder.path, decoder.num_rows, self.scheme, self.levels, self.leaf, runs, rows)

    def pick_values(self, rows: RowRanges) -> pa.Array:
        """Selected rows of pages without lists."""
        ends = np.cumsum(self.decoder.table.num_values)
        first_values = (ends - self.decoder.table.num_values)[self.chosen]
        moved = np.cumsum(self.num_values) - self.num_values - first_values
        if len(rows.starts) == 1:
            # The chunks of one range are consecutive, too.
            return self._span(int(rows.starts[0] + moved[0]), rows.num_rows)
        wanted = rows.indices()
        chunk = np.searchsorted(first_values, wanted, "right") - 1
        return self._taken(wanted + moved[chunk])

    def _span(self, start: int, num_values: int) -> pa.Array:
        """Consecutive values; a view of the decoded ones if nothing wraps them."""
        if len(self.decoder.path.nodes) > 1 or self.decoder.dictionary is not None:
            return self._taken(np.arange(start, start + num_values))
        array = self.whole()
        if start < 0 or start + num_values > len(array):
            raise CorruptFileError(f"{len(array)} values where {start + num_values} are needed")
        # A short piece of a long array would keep all of it in memory.
        return (
            array.slice(start, num_values)
            if num_values * _FEW_VALUES >= len(array)
            else self._taken(np.arange(start, start + num_values))
        )

    def _taken(self, places: Int64Array) -> pa.Array:
        """Selected values; only these are looked up in a dictionary."""
        dictionary, path = self.decoder.dictionary, self.decoder.path
        if dictionary is None or len(path.nodes) > 1 or pa.types.is_dictionary(dictionary.data_type):
            return take_values(self.whole(), places)
        encoded = unravel(path, self.scheme, self.levels, dictionary.encoded_leaf(self.values))
        return take_values(encoded, places).dictionary_decode()
