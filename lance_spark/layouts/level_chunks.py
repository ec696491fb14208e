"""Assignment of the levels of a mini-block page to its chunks (`lance.encodings21.MiniBlockLayout`).

A chunk of n values has the levels up to its last value, so the placeholders of null and empty lists belong to the
next value, and those at the end of the page to the last chunk. A chunk counts its levels, and their encoded bytes, in
16 bits. Long runs of empty lists would not fit: `max_values` limits the chunks accordingly.

Example: the levels ``1 0 0 | 1 1 0`` of the lists ``[a, b, c], [], [d, e]`` in chunks of two values are ``1 0``,
``0 1 1`` and ``0``, where the second has the placeholder of the empty list.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts import mini_block_write as kernels
from lance_spark.layouts.shred import Levels

MAX_CHUNK_VALUES = 4096
"""Maximum values in a chunk, as in the reference library."""

_MAX_LEVELS = 32_000
"""Maximum levels of a chunk that fit into 16 bits in any encoding."""

_MAX_SMALL_CHUNK_BYTES = 20_000
"""Bytes of packed levels that leave enough room for values in a chunk of 32 KiB."""


def max_values(levels: Levels, *, large_chunks: bool, most: int = MAX_CHUNK_VALUES) -> int:
    """Maximum values of a chunk (a power of two, up to `most`) without too many levels; 0 if not possible."""
    max_levels = _max_levels(levels, large_chunks=large_chunks)
    if levels.reps is None and levels.defs is None:
        return most
    placeholders = levels.num_items - levels.num_visible_items
    while most > max_levels:
        most //= 2
    if levels.defs is None or placeholders + most <= max_levels:
        return most
    if 4 * most <= max_levels and 2 * _fewest_values(levels, most) >= most:
        # Two complete blocks of `most` levels contain the values of a chunk, which may extend into two more.
        return most
    window = most
    while window > 1:
        longest = kernels.longest_window(
            address_of(levels.defs), levels.num_items, levels.scheme.max_visible_def, window
        )
        # A chunk need not be aligned, so it overlaps two windows, and the last one also the rest after its last value.
        if 3 * longest <= max_levels:
            return window
        window //= 2
    return 0


def _fewest_values(levels: Levels, block: int) -> int:
    assert levels.defs is not None
    return int(kernels.fewest_values(address_of(levels.defs), levels.num_items, levels.scheme.max_visible_def, block))


def _max_levels(levels: Levels, *, large_chunks: bool) -> int:
    if large_chunks:
        return _MAX_LEVELS
    bits = levels.scheme.max_rep.bit_length() + levels.scheme.max_def.bit_length()
    return min(_MAX_LEVELS, _MAX_SMALL_CHUNK_BYTES * 8 // max(bits, 1))


@dataclass(frozen=True, slots=True)
class LevelChunks:
    """The levels of each chunk: `num_levels` is int64[num_chunks]."""

    num_levels: Int64Array

    @classmethod
    def of(cls, levels: Levels, num_values: Int64Array) -> LevelChunks:
        """The levels of chunks of `num_values` values."""
        if levels.num_items == levels.num_visible_items or levels.defs is None:
            return cls(num_values)
        num_levels = np.empty(len(num_values), np.int64)
        kernels.chunk_levels(
            address_of(levels.defs),
            levels.num_items,
            levels.scheme.max_visible_def,
            address_of(num_values),
            len(num_values),
            address_of(num_levels),
        )
        return cls(num_levels)

    def repetition_index(self, levels: Levels) -> pa.Buffer | None:
        """For every chunk two u64: rows that end in it, levels of its unfinished last row. None without lists."""
        if levels.reps is None:
            return None
        index = pa.allocate_buffer(16 * len(self.num_levels))
        kernels.repetition_index(
            address_of(levels.reps),
            address_of(self.num_levels),
            len(self.num_levels),
            levels.scheme.max_rep,
            index.address,
        )
        return index
