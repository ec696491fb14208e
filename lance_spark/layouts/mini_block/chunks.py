"""Maps values and rows of mini-block pages to chunks.

Everything here covers a run of consecutive pages, whose chunks are numbered consecutively. Nothing here decodes
values; `lance_spark.layouts.mini_block.layout` does, for the chunks selected here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Chunks, Int64Array
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts import mini_block as kernels
from lance_spark.layouts.base import Located, RowRanges
from lance_spark.layouts.read_spans import spanned


class BufferOfPages(NamedTuple):
    """A buffer of each page of a run.

    Attributes:
        addresses, sizes: of the buffer of each page.
        held: the buffers, or one around all of them.
    """

    addresses: list[int]
    sizes: list[int]
    held: pa.Buffer | list[pa.Buffer]

    @classmethod
    def of(cls, buffers: list[pa.Buffer]) -> BufferOfPages:
        return cls([buffer.address for buffer in buffers], [buffer.size for buffer in buffers], buffers)

    def located(self) -> Located:
        """One buffer around all of them, and where each begins in it."""
        if isinstance(self.held, list):
            return spanned(self.held)
        return Located(self.held, np.array(self.addresses, np.int64) - self.held.address)


@dataclass(frozen=True, slots=True)
class ChunkTable:
    """The chunks of a run of pages (int64[n] each).

    Attributes:
        pages: index of the chunk's page in the run.
        starts: offset of the chunk in the chunk data of its page.
        sizes: bytes of the chunk.
        num_values: values in the chunk.
        ends: values of the run up to the end of the chunk.
    """

    pages: Int64Array
    starts: Int64Array
    sizes: Int64Array
    num_values: Int64Array
    ends: Int64Array

    @classmethod
    def parse(
        cls, words: BufferOfPages, data_sizes: Sequence[int], num_items: Sequence[int], *, large_chunks: bool
    ) -> ChunkTable:
        """Parses the chunk words of pages whose chunks have `data_sizes` bytes and `num_items` values.

        Raises:
            CorruptFileError: the sizes or values of a page's chunks do not match its data or items.
        """
        width = 4 if large_chunks else 2
        if any(size % width for size in words.sizes):
            raise CorruptFileError(f"mini-block: chunk words of {width} bytes are cut off")
        if len(words.sizes) > 1 and 0 in words.sizes:
            raise CorruptFileError("mini-block: a page without chunks")
        widths, starts = [width] * len(num_items), [0] * len(num_items)
        pages = np.array([widths, words.addresses, words.sizes, starts, data_sizes, num_items], np.int64)
        return cls.of_pages(pages, sum(words.sizes) // width)

    @classmethod
    def of_pages(cls, pages: Int64Array, num_chunks: int) -> ChunkTable:
        """The chunks of pages as `kernels.list_chunks` takes them.

        Raises:
            CorruptFileError: the sizes or values of a page's chunks do not match its data or items.
        """
        table = np.empty((5, num_chunks), np.int64)
        if kernels.list_chunks(address_of(pages), pages.shape[1], address_of(table), num_chunks) < 0:
            raise CorruptFileError(
                f"mini-block: {num_chunks} chunks contradict {int(pages[5].sum())} values or their bytes"
            )
        return cls(*table)

    def at(self, starts: Int64Array) -> ChunkTable:
        """A copy with other starts (int64[n])."""
        return ChunkTable(*np.array([self.pages, starts, self.sizes, self.num_values, self.ends], np.int64))

    @property
    def address(self) -> int:
        """Address of the tables, which lie one behind the other, as `of_pages` makes them."""
        return address_of(self.pages)

    @property
    def first_values(self) -> Int64Array:
        """int64[n], the values of the run before each chunk."""
        return self.ends - self.num_values

    def __len__(self) -> int:
        return len(self.starts)


class ChunksOfRows(NamedTuple):
    """Chunks of some ranges of rows, and the bounds of the ranges in them.

    Attributes:
        chosen: int64[m], the chunks with any slot of them, ascending.
        bound_chunks, ordinals: int64[2 * n], see `kernels.chunks_of_rows`.
        num_rows: how many rows they are.
    """

    chosen: Int64Array
    bound_chunks: Int64Array
    ordinals: Int64Array
    num_rows: int


@dataclass(frozen=True, slots=True)
class RowIndex:
    """The rows of each chunk of pages with lists, from their repetition indices.

    Attributes:
        begun: int64[n], the number of rows that begin up to the end of the chunk.
        finished: int64[n], the number of rows that end up to the end of the chunk.
    """

    begun: Int64Array
    finished: Int64Array

    @classmethod
    def parse(cls, indices: BufferOfPages, table: ChunkTable, num_rows: Sequence[int]) -> RowIndex:
        """Parses pairs of u64 for each chunk: rows that end in it, and slots of its unfinished last row.

        Raises:
            CorruptFileError: the pairs do not match these chunks or numbers of rows.
        """
        pages = np.array([indices.addresses, indices.sizes, num_rows], np.int64)
        owners, (begun, finished) = np.ascontiguousarray(table.pages), np.empty((2, len(table)), np.int64)
        places = address_of(owners), len(table), address_of(begun), address_of(finished)
        if kernels.parse_row_index(address_of(pages), len(num_rows), *places) < 0:
            raise CorruptFileError("mini-block: the repetition index contradicts the chunks or the rows of its page")
        return cls(begun, finished)

    def chunks_of(self, rows: RowRanges) -> ChunksOfRows:
        """The chunks with any slot of `rows`, none of whose ranges is empty.

        Raises:
            CorruptFileError: the chunks do not hold all of them.
        """
        num_chunks, num_ranges = len(self.begun), len(rows.starts)
        chosen, bounds = np.empty(num_chunks, np.int64), np.empty((2, 2 * num_ranges), np.int64)
        tables = [np.ascontiguousarray(table) for table in (self.begun, self.finished, rows.starts, rows.stops)]
        begun, finished, *ranges = map(address_of, tables)
        places = address_of(chosen), *map(address_of, bounds)
        num_chosen = kernels.chunks_of_rows(begun, finished, num_chunks, *ranges, num_ranges, *places)
        if num_chosen < 0:
            raise CorruptFileError("mini-block: the chunks do not hold all rows of their page")
        return ChunksOfRows(chosen[:num_chosen], bounds[0], bounds[1], rows.num_rows)


def touched_by_values(ends: Int64Array, rows: RowRanges) -> Int64Array:
    """Indices of the chunks with the values `rows` of pages without lists, ascending; `ends` as in `ChunkTable`."""
    tables = [np.ascontiguousarray(table) for table in (ends, rows.starts, rows.stops)]
    ends_at, starts_at, stops_at = map(address_of, tables)
    chosen = np.empty(len(ends), np.int64)
    ranges = starts_at, stops_at, len(rows.starts)
    return chosen[: kernels.chunks_of_values(ends_at, len(ends), *ranges, address_of(chosen))]


def moved_ranges(rows: RowRanges, firsts: Int64Array, moves: Int64Array) -> RowRanges:
    """`rows`, each range moved by `moves` of the chunk in which it begins; `firsts` are the chunks' first values."""
    tables = [np.ascontiguousarray(table) for table in (firsts, moves, rows.starts, rows.stops)]
    firsts_at, moves_at, *ranges = map(address_of, tables)
    moved = np.empty((2, len(rows.starts)), np.int64)
    kernels.move_ranges(firsts_at, moves_at, len(firsts), *ranges, len(rows.starts), address_of(moved))
    return RowRanges(*moved)


class ChunkStarts(NamedTuple):
    """Starts of chunks in `data`: chunk i begins `offsets[i]` bytes after `bases[owners[i]]`.

    Attributes:
        data: a buffer around all chunks.
        bases: int64[m], where pieces of memory begin in it.
        owners: int64[n], the piece of each chunk.
        offsets: int64[n].
    """

    data: pa.Buffer
    bases: Int64Array
    owners: Int64Array
    offsets: Int64Array


class ChunkParts(NamedTuple):
    """The parts of selected chunks.

    Attributes:
        num_levels: int64[n], slots with levels in each chunk.
        levels: the parts with levels, as chunks of `num_levels` values.
        values: the value buffers, as chunks of values.
    """

    num_levels: Int64Array
    levels: list[Chunks]
    values: list[Chunks]

    @classmethod
    def locate(
        cls,
        starts: ChunkStarts,
        sizes: Int64Array,
        num_values: Int64Array,
        *,
        num_level_parts: int,
        num_value_parts: int,
        large_chunks: bool,
    ) -> ChunkParts:
        """Parses the headers of chunks.

        Raises:
            CorruptFileError: a chunk is shorter than its parts.
        """
        num_parts = num_level_parts + num_value_parts
        data = starts.data
        parts = np.empty((1 + 2 * num_parts, len(sizes)), np.int64)
        tables = [np.ascontiguousarray(table) for table in (*starts[1:], sizes)]
        status = kernels.locate_parts(
            data.address,
            data.size,
            *map(address_of, tables),
            len(sizes),
            num_level_parts,
            num_value_parts,
            4 if large_chunks else 2,
            address_of(parts),
        )
        if status < 0:
            raise CorruptFileError(f"mini-block: chunk {~status} is shorter than its parts")
        counts = [parts[0]] * num_level_parts + [num_values] * num_value_parts
        chunks = [
            Chunks.located(data, parts[1 + 2 * part], parts[2 + 2 * part], counts[part]) for part in range(num_parts)
        ]  # fmt: skip
        return cls(parts[0], chunks[:num_level_parts], chunks[num_level_parts:])
