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
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import BlockEncoding, MiniBlockEncoding
from lance_spark.encodings.blocks import Block, Int64Array
from lance_spark.encodings.registry import parse
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.kernels.layouts.pick import CHUNKS
from lance_spark.kernels.layouts.pick_levels import NO_LEVELS
from lance_spark.layouts.arrow_take import take
from lance_spark.layouts.base import (
    BufferSlices,
    EncodedPage,
    JoinablePageLayout,
    Page,
    PageLayout,
    Reads,
    RowRanges,
)
from lance_spark.layouts.leaf.arrays import Leaf, PageDictionary, block_leaf
from lance_spark.layouts.mini_block.chunks import (
    BufferOfPages,
    ChunkParts,
    ChunksOfRows,
    ChunkStarts,
    ChunkTable,
    RowIndex,
    moved_ranges,
    touched_by_values,
)
from lance_spark.layouts.page_form import PageForm, PickableLayout
from lance_spark.layouts.path import LeafPath
from lance_spark.layouts.prepared.pick import Picker
from lance_spark.layouts.read_spans import ReadSpans
from lance_spark.layouts.registry import bounded_count, optional_block, register, set_optional_block
from lance_spark.layouts.repdef import LevelScheme, RepDefLayer, layers_from_wire, layers_to_wire
from lance_spark.layouts.row_selection import (
    FoundRows,
    pick_rows,
    take_ranges,
)
from lance_spark.layouts.unravel import SlotLevels, decode_levels, unravel, visible_validity

SMALL_BYTES = 64 * 1024
"""Pages up to this size are read completely: selecting chunks would cost a round of requests."""

_SMALL_PAGE_ITEMS = 4096
"""Up to this many values, and dictionary items, pages with dictionaries are read together."""

FEW_VALUES = 8
"""Rows are picked one by one if at most about one row in this many is wanted from the chunks."""

_KEPT_BYTES = 16384
"""Chunk words and the like up to this size are kept with their page: later selections of rows take one round."""

_WORDS, _DATA = 0, 1


@register
@dataclass(frozen=True, slots=True)
class MiniBlockLayout(JoinablePageLayout, PickableLayout):
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

    def __post_init__(self) -> None:
        has_lists = any(layer.is_list for layer in self.layers)
        object.__setattr__(self, "has_lists", has_lists)

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

    def form(self, page: EncodedPage) -> PageForm | None:
        if self.has_lists and self.repetition_index_depth == 0:
            return None
        num_buffers = 2 + (self.dictionary is not None) + self.has_lists
        if len(page.buffers) != num_buffers or (not self.has_lists and self.num_items != page.num_rows):
            return None
        words, data, *others = page.buffers
        form = self.chunk_form._replace(words=words, data=data, side_data=others.pop() if self.has_lists else None)
        if self.dictionary is None:
            return form
        count = self.num_dictionary_items
        return form._replace(dictionary=self.dictionary, num_dictionary_items=count, dictionary_data=others[0])

    @property
    def chunk_form(self) -> PageForm:
        """`form` without places in the file; the dictionary is left aside."""
        values, size_bytes = self.value_compression.value_form, 4 if self.has_large_chunk else 2
        rep_bits, def_bits = (
            NO_LEVELS if each is None else each.level_bits for each in (self.rep_compression, self.def_compression)
        )
        is_odd = self.has_lists != (rep_bits != NO_LEVELS) or (
            def_bits != NO_LEVELS and self.layers == (RepDefLayer.ALL_VALID_ITEM,)
        )
        if is_odd or values is None or values.compressed_by is not None or rep_bits is None or def_bits is None:
            return PageForm(CHUNKS, self.layers, values, self.num_items, size_bytes=size_bytes, decoded_by=self)
        return PageForm(
            CHUNKS, self.layers, values, self.num_items, size_bytes=size_bytes, rep_bits=rep_bits, def_bits=def_bits
        )  # fmt: skip

    def run(
        self,
        path: LeafPath,
        num_rows: int,
        table: ChunkTable,
        index: RowIndex | None,
        dictionary: PageDictionary | None,
    ) -> DecodedRun:
        return DecodedRun(Decoder(self, path, num_rows, table, dictionary, index))

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
    table = ChunkTable.parse(*chunk_words, large_chunks=layout.has_large_chunk)
    if every_chunk:
        assert data is not None
        decoder = Decoder(layout, path, num_rows, table, dictionary)
        decoded = decoder.decode(None, ChunkStarts(*data.located(), table.pages, table.starts))
        return decoded.whole() if is_whole else decoded.pick(rows)
    index = RowIndex.parse(others[-1], table, [page.num_rows for page in pages]) if has_lists else None
    decoder = Decoder(layout, path, num_rows, table, dictionary, index)
    touched = decoder.touched(rows)
    chosen = touched.chosen
    first_bytes, of_pages = table.starts[chosen], table.pages[chosen]
    if data is None:
        spans = ReadSpans.plan(first_bytes, first_bytes + table.sizes[chosen], of_pages)
        [pieces] = yield spans.slices(_DATA)
        starts = ChunkStarts(pieces.data, pieces.starts, spans.span_of, spans.offsets)
    else:
        starts = ChunkStarts(*data.located(), of_pages, first_bytes)
    picker = _picker(layouts, decoder) if decoder.are_few(rows, chosen) else None
    if picker is not None:
        places = np.full(len(table), -1, np.int64)
        places[chosen] = starts.bases[starts.owners] + starts.offsets
        try:
            array = picker.at(places).pick(starts.data, rows.indices())
        except CorruptFileError:
            # Decoding reads lists of too many slots, and says what is wrong with damaged chunks.
            array = None
        if array is not None:
            return array
    return decoder.rows(rows, touched, starts)


def _picker(layouts: Sequence[MiniBlockLayout], decoder: Decoder) -> Picker | None:
    """Picks rows of pages whose dictionaries are decoded; None if single values of them cannot be found."""
    form = layouts[0].chunk_form
    if form.decoded_by is not None:
        return None
    if decoder.dictionary is not None:
        form = form._replace(dictionary=layouts[0].dictionary)
    data_type, tables = decoder.path.nodes[0].data_type, (decoder.table, decoder.num_rows)
    return Picker.of([form] * len(layouts), data_type, decoder.path, *tables, decoder.index, decoder.dictionary)


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
    """Decodes the chunks of a run; `index` has the rows of each chunk, if there are lists and not all are decoded."""

    layout: MiniBlockLayout
    path: LeafPath
    num_rows: int
    table: ChunkTable
    dictionary: PageDictionary | None
    index: RowIndex | None = None

    def touched(self, rows: RowRanges) -> TouchedChunks:
        """The chunks with any of `rows`, of which there is at least one.

        Raises:
            CorruptFileError: the chunks do not hold all of them.
        """
        found = None if self.index is None else self.index.chunks_of(rows)
        chosen = touched_by_values(self.table.ends, rows) if found is None else found.chosen
        if len(chosen) == 0 or int(chosen[-1]) >= len(self.table) or int(rows.stops[-1]) > self.num_rows:
            raise CorruptFileError(f"mini-block: the chunks do not hold all of {self.num_rows} rows")
        return TouchedChunks(chosen, found)

    def rows(self, rows: RowRanges, touched: TouchedChunks, starts: ChunkStarts) -> pa.Array:
        """The path array of `rows` from their chunks, which begin at `starts`."""
        if touched.lists is None:
            return self.decode(touched.chosen, starts).pick_values(rows)
        return self.list_rows(touched.lists, starts)

    def decode(self, chosen: Int64Array | None, starts: ChunkStarts) -> _Decoded:
        """Decodes the chunks with the indices `chosen` (None: all)."""
        sizes, num_values, pages = self.table.sizes, self.table.num_values, self.table.pages
        if chosen is not None:
            sizes, num_values, pages = sizes[chosen], num_values[chosen], pages[chosen]
        parts = _parts(self.layout, starts, sizes, num_values)
        return _Decoded(self, chosen, self._levels(parts, num_values), num_values, self._values(parts, pages))

    def list_rows(self, rows: ChunksOfRows, starts: ChunkStarts) -> pa.Array:
        """Rows of pages with lists, from all levels and values of their chunks."""
        layout, scheme = self.layout, LevelScheme.of(self.layout.layers)
        num_values, pages = self.table.num_values[rows.chosen], self.table.pages[rows.chosen]
        parts = _parts(layout, starts, self.table.sizes[rows.chosen], num_values)
        levels = self._levels(parts, num_values)
        found = FoundRows.find(
            scheme, levels, _before(parts.num_levels), _before(num_values), rows.bound_chunks, rows.ordinals
        )  # fmt: skip
        leaf = self.leaf(self._values(parts, pages))
        return found.array(self.path, scheme, levels, leaf(*visible_validity(scheme, levels)))

    def are_few(self, rows: RowRanges, chosen: Int64Array) -> bool:
        """Whether the chunks with the indices `chosen` have many more rows, as it seems."""
        return rows.num_rows * FEW_VALUES * len(self.table) < len(chosen) * self.num_rows

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


@dataclass(frozen=True)
class DecodedRun:
    """Pages of a file in memory, of which chunks have to be decoded for each row. See `Picker` for its members.

    Attributes:
        decoder: of the chunks, whose starts are places in the file.
    """

    decoder: Decoder

    @property
    def num_rows(self) -> int:
        return self.decoder.num_rows

    @property
    def table(self) -> ChunkTable:
        return self.decoder.table

    @property
    def num_bytes(self) -> int:
        dictionary = self.decoder.dictionary
        return 7 * 8 * len(self.table) + (0 if dictionary is None else int(dictionary.values.nbytes))

    @property
    def most_rows(self) -> int:
        return 0

    def pick(self, data: pa.Buffer, rows: Int64Array) -> pa.Array | None:
        distinct, order = np.unique(rows, return_inverse=True)
        if int(distinct[0]) < 0:
            raise CorruptFileError(f"row {distinct[0]}")
        ranges = RowRanges.of_numbers(distinct)
        touched = self.decoder.touched(ranges)
        first = np.zeros(1, np.int64), np.zeros(len(touched.chosen), np.int64)
        starts = ChunkStarts(data, *first, self.table.starts[touched.chosen])
        return take(self.decoder.rows(ranges, touched, starts), order)

    def listed(self, data: pa.Buffer, rows: Int64Array) -> None:
        return None


class TouchedChunks(NamedTuple):
    """Chunks with any of some rows: their indices (int64[n]), and the bounds of the rows in them if they are lists."""

    chosen: Int64Array
    lists: ChunksOfRows | None


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
