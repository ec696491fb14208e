"""Which chunks of a mini-block page hold which values and rows.

Nothing here decodes values; `lance_spark.layouts.mini_block` does, for the chunks chosen here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Chunks, Int64Array
from lance_spark.errors import CorruptFileError
from lance_spark.kernels import mini_block as kernels
from lance_spark.kernels.addresses import address_of
from lance_spark.layouts.base import RowRanges


@dataclass(frozen=True, slots=True)
class ChunkTable:
    """The chunks of a page: offset in the chunk data, bytes and number of values of each (int64)."""

    starts: Int64Array
    sizes: Int64Array
    num_values: Int64Array

    @classmethod
    def parse(cls, words: pa.Buffer, data_size: int, num_items: int, *, large_chunks: bool) -> ChunkTable:
        """From the chunk words of a page whose chunks take `data_size` bytes.

        Raises:
            CorruptFileError: the chunks do not fit into the data, or their values not into `num_items`.
        """
        width = 4 if large_chunks else 2
        if words.size % width:
            raise CorruptFileError(f"mini-block: {words.size} bytes of chunk words of {width} bytes")
        word = np.frombuffer(words, "<u4" if large_chunks else "<u2").astype(np.int64)
        sizes = ((word >> 4) + 1) << 3
        num_values = np.int64(1) << (word & 15)
        if len(word):
            num_values[-1] = num_items - int(num_values[:-1].sum())
        if (num_items > 0 if len(word) == 0 else int(num_values[-1]) < 0) or int(sizes.sum()) > data_size:
            raise CorruptFileError(f"mini-block: {len(word)} chunks contradict {num_items} values, {data_size} bytes")
        return cls(np.cumsum(sizes) - sizes, sizes, num_values)

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(frozen=True, slots=True)
class RowIndex:
    """Rows of each chunk of a page with lists, from its repetition index.

    Attributes:
        first_begun: int64[n], the number of the first row that begins in the chunk or after it.
        begun: int64[n], rows of the page that begin up to the end of the chunk.
        finished: int64[n], rows of the page that end up to the end of the chunk.
    """

    first_begun: Int64Array
    begun: Int64Array
    finished: Int64Array

    @classmethod
    def parse(cls, index: pa.Buffer, num_chunks: int, num_rows: int) -> RowIndex:
        """From pairs of u64 for each chunk: rows that end in it, and slots of the row that it leaves open.

        Raises:
            CorruptFileError: the pairs do not belong to `num_chunks` chunks or `num_rows` rows.
        """
        if index.size != num_chunks * 16:
            raise CorruptFileError(f"mini-block: a repetition index of {index.size} bytes for {num_chunks} chunks")
        pairs = np.frombuffer(index, "<u8").reshape(num_chunks, 2)
        if num_chunks and int(pairs[:, 0].max()) > num_rows:
            raise CorruptFileError("mini-block: the repetition index has more rows than the page")
        finished = np.cumsum(pairs[:, 0].astype(np.int64))
        left_open = (pairs[:, 1] > 0).astype(np.int64)
        begun = finished + left_open
        if num_chunks == 0 or int(finished[-1]) != num_rows or int(begun[-1]) != num_rows:
            raise CorruptFileError(f"mini-block: the repetition index contradicts {num_rows} rows")
        return cls(np.concatenate([np.zeros(1, np.int64), begun[:-1]]), begun, finished)

    def touched(self, rows: RowRanges) -> Int64Array:
        """Numbers of the chunks that hold any slot of `rows`, ascending."""
        first = np.searchsorted(self.begun, rows.starts, "right")
        last = np.searchsorted(self.finished, rows.stops - 1, "right")
        return _union(first, last, len(self.begun))


def touched_by_values(num_values: Int64Array, rows: RowRanges) -> Int64Array:
    """Numbers of the chunks that hold the values `rows` of a page without lists, ascending."""
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
    """The parts of some chunks of a page.

    Attributes:
        num_levels: int64[n], slots that have levels in each chunk.
        levels: the parts that hold levels, as chunks of `num_levels` values.
        values: the value buffers, as chunks of the values of the page.
    """

    num_levels: Int64Array
    levels: list[Chunks]
    values: list[Chunks]

    @classmethod
    def locate(
        cls,
        data: pa.Buffer,
        table: ChunkTable,
        *,
        num_level_parts: int,
        num_value_parts: int,
        large_chunks: bool,
    ) -> ChunkParts:
        """From the headers of the chunks in `table`, which lie in `data`.

        Raises:
            CorruptFileError: a chunk is shorter than its parts.
        """
        num_parts = num_level_parts + num_value_parts
        parts = np.empty((1 + 2 * num_parts, len(table)), np.int64)
        starts, sizes = np.ascontiguousarray(table.starts), np.ascontiguousarray(table.sizes)
        status = kernels.locate_parts(
            data.address,
            data.size,
            address_of(starts),
            address_of(sizes),
            len(table),
            num_level_parts,
            num_value_parts,
            4 if large_chunks else 2,
            address_of(parts),
        )
        if status < 0:
            raise CorruptFileError(f"mini-block: chunk {~status} is shorter than its parts")
        counts = [parts[0]] * num_level_parts + [table.num_values] * num_value_parts
        chunks = [
            Chunks(data, parts[1 + 2 * part], parts[2 + 2 * part], counts[part]) for part in range(num_parts)
        ]  # fmt: skip
        return cls(parts[0], chunks[:num_level_parts], chunks[num_level_parts:])
