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

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import BlockEncoding, MiniBlockEncoding
from lance_spark.encodings.blocks import Block, Int64Array
from lance_spark.encodings.registry import parse
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.base import BufferSlices, JoinablePageLayout, Located, Page, PageLayout, Reads, RowRanges
from lance_spark.layouts.leaf.arrays import Leaf, PageDictionary, block_leaf
from lance_spark.layouts.mini_block.chunks import (
    BufferOfPages,
    ChunkParts,
    ChunksOfRows,
    ChunkStarts,
    ChunkTable,
    Places,
    RowIndex,
    ValuesInChunks,
    moved_ranges,
    touched_by_values,
)
from lance_spark.layouts.path import LeafPath
from lance_spark.layouts.read_spans import ReadSpans
from lance_spark.layouts.registry import bounded_count, optional_block, register, set_optional_block
from lance_spark.layouts.repdef import LevelScheme, RepDefLayer, layers_from_wire, layers_to_wire
from lance_spark.layouts.row_selection import (
    LONG_RANGE,
    FoundRows,
    PickedRows,
    pick_rows,
    places_of_values,
    take_ranges,
)
from lance_spark.layouts.unravel import SlotLevels, decode_levels, take_levels, unravel, visible_validity

SMALL_BYTES = 64 * 1024
"""Pages up to this size are read completely: selecting chunks would cost a round of requests."""

_SMALL_PAGE_ITEMS = 4096
"""Up to this many values, and dictionary items, pages with dictionaries are read together."""

FEW_VALUES = 8
"""Values are taken one by one if at most one value in this many is wanted from the chunks."""

_KEPT_BYTES = 16384
"""Chunk words and the like up to this size are kept with their page: later selections of rows take one round."""

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
    _key: str = field(default="", init=False, repr=False, compare=False)
    has_lists: bool = field(init=False, repr=False, compare=False)
    can_take: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        has_lists = any(layer.is_list for layer in self.layers)
        object.__setattr__(self, "has_lists", has_lists)
        can_take = not has_lists and self.rep_compression is None and self.value_compression.can_take
        object.__setattr__(self, "can_take", can_take)

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

    def join_key(self, wanted: int, num_rows: int) -> Hashable:
        """Equal if the layouts are, except for their numbers of items; with dictionaries only of few items."""
        if self.dictionary is not None:
            # Moving the indices of many costs more than a read of the page alone.
            items = self.num_items * wanted // max(num_rows, 1)
            if items > _SMALL_PAGE_ITEMS or self.num_dictionary_items > _SMALL_PAGE_ITEMS:
                return None
        if not self._key:
            # A text, because its hash is computed once.
            object.__setattr__(self, "_key", repr(_ALL_BUT_ITEMS(self)))
        return self._key

    def read_run(self, layouts: Sequence[PageLayout], pages: Sequence[Page], rows: RowRanges) -> Reads[pa.Array]:
        return read_mini_blocks([each for each in layouts if isinstance(each, MiniBlockLayout)], pages, rows)


_COUNTS = ("num_items", "num_dictionary_items")
_ALL_BUT_ITEMS = attrgetter(*(item.name for item in fields(MiniBlockLayout) if item.init and item.name not in _COUNTS))


def read_mini_blocks(layouts: Sequence[MiniBlockLayout], pages: Sequence[Page], rows: RowRanges) -> Reads[pa.Array]:
    """The path array of `rows` of the run.

    Complete and small pages are read in one round. A selection of rows of others takes two, the first time: the chunk
    words and the repetition indices, then the chunks with the rows.

    Args:
        layouts: equal except for their numbers of items.
        pages: the pages, one behind the other.
        rows: numbered from the first row of the first page.

    Raises:
        CorruptFileError: the bytes are inconsistent with the layout.
    """
    layout, path = layouts[0], pages[0].path
    num_rows = sum([page.num_rows for page in pages])
    has_lists = layout.has_lists
    is_whole = rows.is_all(num_rows)
    every_chunk = is_whole or path.slots_per_row > 1 or (has_lists and layout.repetition_index_depth == 0)
    at_once = every_chunk or sum([page.num_bytes for page in pages]) <= SMALL_BYTES * len(pages)
    wanted = [_WORDS] if layout.dictionary is None else [_WORDS, 2]
    if has_lists and not every_chunk:
        wanted.append(2 if layout.dictionary is None else 3)
    words, *others = yield from _buffers(pages, [*wanted, _DATA] if at_once else wanted, keep=not at_once)
    data = others.pop() if at_once else None
    dictionary = None
    if layout.dictionary is not None:
        leaf_type = path.nodes[0].data_type
        sizes = np.array([each.num_dictionary_items for each in layouts], np.int64)
        dictionary = PageDictionary.decode(layout.dictionary, sizes, others[0].located(), others[0].sizes, leaf_type)
    chunk_words = words, [page.size_of(_DATA) for page in pages], [each.num_items for each in layouts]
    is_scattered = rows.num_rows < LONG_RANGE * len(rows.starts)
    if layout.can_take and not every_chunk and is_scattered and rows.num_rows * FEW_VALUES < num_rows:
        found = Places.find(*chunk_words, rows.indices(), large_chunks=layout.has_large_chunk)
        if rows.num_rows * FEW_VALUES < found.total_values:
            [pieces] = (yield found.slices(_DATA)) if data is None else [_pieces(data, found)]
            starts = ChunkStarts(pieces.data, pieces.starts, found.spans, found.starts)
            return taken_values(layout, path, found.values_in_chunks, dictionary, starts)
    table = ChunkTable.parse(*chunk_words, large_chunks=layout.has_large_chunk)
    decoder = Decoder(layout, path, num_rows, table, dictionary)
    if every_chunk:
        assert data is not None
        decoded = decoder.decode(None, ChunkStarts(*data.located(), table.pages, table.starts))
        return decoded.whole() if is_whole else decoded.pick(rows)
    index = RowIndex.parse(others[-1], table, [page.num_rows for page in pages]) if has_lists else None
    found_rows = None if index is None else index.chunks_of(rows)
    chosen = touched_by_values(table.ends, rows) if found_rows is None else found_rows.chosen
    if len(chosen) == 0 or int(chosen[-1]) >= len(table):
        raise CorruptFileError(f"mini-block: the chunks do not hold all of {num_rows} rows")
    first_bytes, of_pages = table.starts[chosen], table.pages[chosen]
    if data is None:
        spans = ReadSpans.plan(first_bytes, first_bytes + table.sizes[chosen], of_pages)
        [pieces] = yield spans.slices(_DATA)
        starts = ChunkStarts(pieces.data, pieces.starts, spans.span_of, spans.offsets)
    else:
        starts = ChunkStarts(*data.located(), of_pages, first_bytes)
    if found_rows is None:
        return decoder.decode(chosen, starts).pick_values(rows)
    return decoder.list_rows(found_rows, starts)


def _pieces(data: BufferOfPages, found: Places) -> Located:
    """The spans in the chunks of the pages."""
    around, bases = data.located()
    return Located(around, bases[found.span_pages] + found.span_starts)


def taken_values(
    layout: MiniBlockLayout,
    path: LeafPath,
    found: ValuesInChunks,
    dictionary: PageDictionary | None,
    starts: ChunkStarts,
) -> pa.Array:
    """Few values of pages without lists, without decoding their chunks, which begin at `starts`.

    Raises:
        CorruptFileError: the bytes are inconsistent with the layout.
    """
    parts = _parts(layout, starts, found.sizes, found.num_values)
    values = layout.value_compression.take_mini_blocks(parts.values, found.chunks, found.places)
    if dictionary is not None and dictionary.is_joined:
        values = dictionary.joined_indices(values, found.pages[found.chunks])
    definition = None
    if layout.def_compression is not None:
        # As bytes, which numpy's comparison takes several times as long for.
        if parts.num_levels.tobytes() != found.num_values.tobytes():
            raise CorruptFileError("mini-block: a chunk without lists has other levels than values")
        definition = take_levels(layout.def_compression, parts.levels[0], found.chunks, found.places)
    leaf = block_leaf(values, path.nodes[0].data_type) if dictionary is None else dictionary.leaf(values)
    return unravel(path, LevelScheme.of(layout.layers), SlotLevels(None, definition, len(found.places)), leaf)


def _parts(layout: MiniBlockLayout, starts: ChunkStarts, sizes: Int64Array, num_values: Int64Array) -> ChunkParts:
    return ChunkParts.locate(
        starts,
        sizes,
        num_values,
        num_level_parts=int(layout.rep_compression is not None) + int(layout.def_compression is not None),
        num_value_parts=layout.value_compression.num_buffers,
        large_chunks=layout.has_large_chunk,
    )


def _buffers(pages: Sequence[Page], numbers: Sequence[int], *, keep: bool) -> Reads[list[BufferOfPages]]:
    """For each of these numbers, that buffer of every page. Small ones besides the chunks can be kept for later."""
    missing = [number for page in pages for number in numbers if number not in page.kept]
    if not missing:
        return [BufferOfPages.of([page.kept[number] for page in pages]) for number in numbers]
    if len(pages) > 1 and not keep:
        return (yield from _together(pages, numbers))
    answers = yield [page.whole(number, place) for number in numbers for place, page in enumerate(pages)]
    buffers = [answers[start : start + len(pages)] for start in range(0, len(answers), len(pages))]
    if keep:
        for number, found in zip(numbers, buffers, strict=True):
            for page, buffer in zip(pages, found, strict=True):
                if number != _DATA and buffer.size <= _KEPT_BYTES:
                    # Not a view, which could keep a longer stretch of the file.
                    page.kept[number] = pa.py_buffer(buffer.to_pybytes())
    return [BufferOfPages.of(found) for found in buffers]


def _together(pages: Sequence[Page], numbers: Sequence[int]) -> Reads[list[BufferOfPages]]:
    """For each of these numbers, that buffer of every page, see `_buffers`, with one request for each number.

    For small pages, one object for each would be most of the work.
    """
    owners, starts = np.arange(len(pages)), np.zeros(len(pages), np.int64)
    sizes = [[page.size_of(number) for page in pages] for number in numbers]
    answers = yield [
        BufferSlices(number, starts, np.array(of_pages, np.int64), owners)
        for number, of_pages in zip(numbers, sizes, strict=True)
    ]
    return [
        BufferOfPages((places + data.address).tolist(), of_pages, data)
        for (data, places), of_pages in zip(answers, sizes, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Decoder:
    """Decodes the chunks of a run."""

    layout: MiniBlockLayout
    path: LeafPath
    num_rows: int
    table: ChunkTable
    dictionary: PageDictionary | None

    def decode(self, chosen: Int64Array | None, starts: ChunkStarts) -> _Decoded:
        """Decodes the chunks with the indices `chosen` (None: all)."""
        sizes, num_values, pages = self.table.sizes, self.table.num_values, self.table.pages
        if chosen is not None:
            sizes, num_values, pages = sizes[chosen], num_values[chosen], pages[chosen]
        parts = _parts(self.layout, starts, sizes, num_values)
        return _Decoded(self, chosen, self._levels(parts, num_values), num_values, self._values(parts, pages))

    def list_rows(self, rows: ChunksOfRows, starts: ChunkStarts) -> pa.Array:
        """Rows of pages with lists; of few, only their values are decoded."""
        layout, scheme = self.layout, LevelScheme.of(self.layout.layers)
        num_values, pages = self.table.num_values[rows.chosen], self.table.pages[rows.chosen]
        parts = _parts(layout, starts, self.table.sizes[rows.chosen], num_values)
        first_values = _before(num_values)
        if layout.value_compression.can_take and layout.rep_compression is not None and self._are_few(rows):
            encodings = [each for each in (layout.rep_compression, layout.def_compression) if each is not None]
            bounds = first_values, rows.bound_chunks, rows.ordinals
            picked = PickedRows.unpacked(scheme, encodings, parts.levels, *bounds)
            if picked is not None and picked.values.num_rows * FEW_VALUES < first_values[-1]:
                return self._taken(picked, parts, first_values, pages)
        levels = self._levels(parts, num_values)
        found = FoundRows.find(
            scheme, levels, _before(parts.num_levels), first_values, rows.bound_chunks, rows.ordinals
        )
        if not layout.value_compression.can_take or found.values.num_rows * FEW_VALUES >= first_values[-1]:
            leaf = self.leaf(self._values(parts, pages))
            return found.array(self.path, scheme, levels, leaf(*visible_validity(scheme, levels)))
        return self._taken(PickedRows(found.picked(levels), found.values), parts, first_values, pages)

    def _are_few(self, rows: ChunksOfRows) -> bool:
        """Whether the chunks have many more rows, as it seems."""
        return rows.num_rows * FEW_VALUES * len(self.table) < len(rows.chosen) * self.num_rows

    def _taken(self, rows: PickedRows, parts: ChunkParts, first_values: Int64Array, pages: Int64Array) -> pa.Array:
        """Rows whose values are taken one by one out of their chunks, which are of `pages`."""
        chunks, places = places_of_values(rows.values, first_values)
        values = self.layout.value_compression.take_mini_blocks(parts.values, chunks, places)
        if self.dictionary is not None and self.dictionary.is_joined:
            values = self.dictionary.joined_indices(values, pages[chunks])
        return unravel(self.path, LevelScheme.of(self.layout.layers), rows.levels, self.leaf(values))

    def leaf(self, values: Block) -> Leaf:
        """The leaf of `values`, which are indices into the dictionary, if there is one."""
        if self.dictionary is None:
            return block_leaf(values, self.path.nodes[0].data_type)
        return self.dictionary.leaf(values)

    def _levels(self, parts: ChunkParts, num_values: Int64Array) -> SlotLevels:
        level_parts = iter(parts.levels)
        repetition, definition = (
            None if encoding is None else decode_levels(encoding, next(level_parts))
            for encoding in (self.layout.rep_compression, self.layout.def_compression)
        )
        num_levels = parts.num_levels if parts.levels else num_values
        return SlotLevels(repetition, definition, int(num_levels.sum()))

    def _values(self, parts: ChunkParts, pages: Int64Array) -> Block:
        """All values of the chunks, which are of `pages`."""
        values = self.layout.value_compression.decode_mini_blocks(parts.values)
        if self.dictionary is not None and self.dictionary.is_joined:
            values = self.dictionary.joined_indices(values, np.repeat(pages, parts.values[0].num_values))
        return values


def _before(counts: Int64Array) -> Int64Array:
    """int64[n + 1], the sum of the counts before each, and of all."""
    sums = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=sums[1:])
    return sums


@dataclass(frozen=True, slots=True)
class _Decoded:
    """Decoded chunks: their levels and values, and the number of values of each (int64[n]).

    `values` are indices into the dictionary, if there is one.
    """

    decoder: Decoder
    chosen: Int64Array | None
    levels: SlotLevels
    num_values: Int64Array
    values: Block

    @property
    def leaf(self) -> Leaf:
        return self.decoder.leaf(self.values)

    @property
    def scheme(self) -> LevelScheme:
        return LevelScheme.of(self.decoder.layout.layers)

    def whole(self) -> pa.Array:
        """All rows of the chunks, which begin and end at row boundaries."""
        return unravel(self.decoder.path, self.scheme, self.levels, self.leaf)

    def pick(self, rows: RowRanges) -> pa.Array:
        """Selected rows of all chunks of the run, located by their levels if there are lists."""
        if self.scheme.max_rep == 0:
            return self._taken(rows)
        decoder = self.decoder
        return pick_rows(decoder.path, decoder.num_rows, self.scheme, self.levels, self.leaf, rows)

    def pick_values(self, rows: RowRanges) -> pa.Array:
        """Selected rows of pages without lists."""
        first_values = self.decoder.table.first_values[self.chosen]
        moved = np.cumsum(self.num_values) - self.num_values - first_values
        # The chunks of a range are consecutive, too.
        return self._taken(moved_ranges(rows, first_values, moved))

    def _taken(self, ranges: RowRanges) -> pa.Array:
        """Selected values, a view if they are consecutive; only these are looked up in a dictionary."""
        dictionary, path = self.decoder.dictionary, self.decoder.path
        if dictionary is None or len(path.nodes) > 1 or pa.types.is_dictionary(dictionary.data_type):
            return take_ranges(self.whole(), ranges)
        encoded = unravel(path, self.scheme, self.levels, dictionary.encoded_leaf(self.values))
        return take_ranges(encoded, ranges).dictionary_decode()
