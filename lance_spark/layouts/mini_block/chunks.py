"""Maps values and rows of mini-block pages to chunks.

Everything here covers a run of consecutive pages, whose chunks are numbered consecutively. Nothing here decodes
values; `lance_spark.layouts.mini_block.layout` does, for the chunks selected here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Chunks, Int64Array
from lance_spark.errors import CorruptFileError
from lance_spark.kernels import mini_block as kernels
from lance_spark.kernels.jit import address_of
from lance_spark.layouts.base import RowRanges


@dataclass(frozen=True, slots=True)
class ChunkTable:
    """The chunks of a run of pages (int64[n] each).

    Attributes:
        pages: index of the chunk's page in the run.
        starts: offset of the chunk in the chunk data of its page.
        sizes: bytes of the chunk.
        num_values: values in the chunk.
    """

    pages: Int64Array
    starts: Int64Array
    sizes: Int64Array
    num_values: Int64Array

    @classmethod
    def parse(
        cls, words: Sequence[pa.Buffer], data_sizes: Sequence[int], num_items: Sequence[int], *, large_chunks: bool
    ) -> ChunkTable:
        """Parses the chunk words of pages whose chunks have `data_sizes` bytes and `num_items` values.

        Raises:
            CorruptFileError: the sizes or values of a page's chunks do not match its data or items.
        """
        width = 4 if large_chunks else 2
        if any(buffer.size % width for buffer in words):
            raise CorruptFileError(f"mini-block: chunk words of {width} bytes are cut off")
        parts = [np.frombuffer(buffer, "<u4" if large_chunks else "<u2") for buffer in words]
        word = (parts[0] if len(parts) == 1 else np.concatenate(parts)).astype(np.int64)
        sizes = ((word >> 4) + 1) << 3
        num_values = np.int64(1) << (word & 15)
        starts = np.cumsum(sizes) - sizes
        counts = np.array([len(part) for part in parts], np.int64)
        if len(parts) == 1:
            pages = np.zeros(len(word), np.int64)
            fits = num_items[0] == 0
            if len(word):
                num_values[-1] = num_items[0] - int(num_values[:-1].sum())
                fits = int(num_values[-1]) >= 0 and int(starts[-1] + sizes[-1]) <= data_sizes[0]
        elif bool((counts == 0).any()):
            pages, fits = counts, False
        else:
            last = np.cumsum(counts) - 1
            first = last + 1 - counts
            pages = np.repeat(np.arange(len(parts)), counts)
            starts -= starts[first][pages]
            num_values[last] += np.array(num_items, np.int64) - np.add.reduceat(num_values, first)
            fits = bool((num_values[last] >= 0).all() and (starts[last] + sizes[last] <= np.array(data_sizes)).all())
        if not fits:
            raise CorruptFileError(f"mini-block: {len(word)} chunks contradict {sum(num_items)} values or their bytes")
        return cls(pages, starts, sizes, num_values)

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(frozen=True, slots=True)
class RowIndex:
    """The rows of each chunk of pages with lists, from their repetition indices.

    Attributes:
        first_begun: int64[n], the first row that begins in the chunk or after it.
        begun: int64[n], the number of rows that begin up to the end of the chunk.
        finished: int64[n], the number of rows that end up to the end of the chunk.
    """

    first_begun: Int64Array
    begun: Int64Array
    finished: Int64Array

    @classmethod
    def parse(cls, indices: Sequence[pa.Buffer], table: ChunkTable, num_rows: Sequence[int]) -> RowIndex:
        """Parses pairs of u64 for each chunk: rows that end in it, and slots of its unfinished last row.

        Raises:
            CorruptFileError: the pairs do not match these chunks or numbers of rows.
        """
        counts = np.bincount(table.pages, minlength=len(indices))
        if any(index.size != count * 16 for index, count in zip(indices, counts.tolist(), strict=True)):
            raise CorruptFileError("mini-block: the repetition index does not have an entry for each chunk")
        parts = [np.frombuffer(index, "<u8").reshape(-1, 2) for index in indices]
        pairs = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if len(pairs) == 0 or int(pairs[:, 0].max()) > max(num_rows):
            raise CorruptFileError("mini-block: the repetition index contradicts the rows of the page")
        finished = np.cumsum(pairs[:, 0].astype(np.int64))
        begun = finished + (pairs[:, 1] > 0)
        last = np.cumsum(counts) - 1
        ends = np.cumsum(np.array(num_rows, np.int64))
        if bool((finished[last] != ends).any() or (begun[last] != ends).any()):
            raise CorruptFileError("mini-block: the repetition index contradicts the rows of the page")
        return cls(np.concatenate([np.zeros(1, np.int64), begun[:-1]]), begun, finished)

    def touched(self, rows: RowRanges) -> Int64Array:
        """Indices of the chunks with any slot of `rows`, ascending."""
        first = np.searchsorted(self.begun, rows.starts, "right")
        last = np.searchsorted(self.finished, rows.stops - 1, "right")
        return _union(first, last, len(self.begun))


def touched_by_values(num_values: Int64Array, rows: RowRanges) -> Int64Array:
    """Indices of the chunks with the values `rows` of pages without lists, ascending."""
    ends = np.cumsum(num_values)
    first = np.searchsorted(ends, rows.starts, "right")
    last = np.searchsorted(ends, rows.stops - 1, "right")
    return _union(first, last, len(num_values))


def _union(first: Int64Array, last: Int64Array, num_chunks: int) -> Int64Array:
    change = np.bincount(first, minlength=num_chunks + 1)[: num_chunks + 1]
    change -= np.bincount(last + 1, minlength=num_chunks + 1)[: num_chunks + 1]
    return np.flatnonzero(np.cumsum(change[:num_chunks]) > 0)


@dataclass(frozen=True, slots=True)
class ChunkParts:
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
        data: pa.Buffer,
        starts: Int64Array,
        sizes: Int64Array,
        num_values: Int64Array,
        *,
        num_level_parts: int,
        num_value_parts: int,
        large_chunks: bool,
    ) -> ChunkParts:
        """Parses the headers of chunks that begin at `starts` in `data`.

        Raises:
            CorruptFileError: a chunk is shorter than its parts.
        """
        num_parts = num_level_parts + num_value_parts
        parts = np.empty((1 + 2 * num_parts, len(starts)), np.int64)
        starts, sizes = np.ascontiguousarray(starts), np.ascontiguousarray(sizes)
        status = kernels.locate_parts(
            data.address,
            data.size,
            address_of(starts),
            address_of(sizes),
            len(starts),
            num_level_parts,
            num_value_parts,
            4 if large_chunks else 2,
            address_of(parts),
        )
        if status < 0:
            raise CorruptFileError(f"mini-block: chunk {~status} is shorter than its parts")
        counts = [parts[0]] * num_level_parts + [num_values] * num_value_parts
        chunks = [
            Chunks(data, parts[1 + 2 * part], parts[2 + 2 * part], counts[part]) for part in range(num_parts)
        ]  # fmt: skip
        return cls(parts[0], chunks[:num_level_parts], chunks[num_level_parts:])
