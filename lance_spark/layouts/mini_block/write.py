"""Mini-block pages from levels and encoded values (`lance.encodings21.MiniBlockLayout`; see `layouts.mini_block`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lance_spark.encodings.base import EncodedBlock, EncodedBlocks, EncodedMiniBlocks
from lance_spark.encodings.blocks import Chunks, FixedWidthBlock, Int64Array
from lance_spark.encodings.choose import choose_blocks
from lance_spark.encodings.flat import Flat
from lance_spark.file_version import FileVersion
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts import mini_block_write as kernels
from lance_spark.layouts.level_chunks import LevelChunks
from lance_spark.layouts.mini_block.layout import MiniBlockLayout
from lance_spark.layouts.page_bytes import PageBytes
from lance_spark.layouts.shred import Levels, Uint16Array

_MAX_SIZE = (1 << 16) - 1
_MAX_CHUNK_BYTES = {True: 1 << 31, False: 1 << 15}


def encode_mini_blocks(
    levels: Levels,
    values: EncodedMiniBlocks[Any],
    version: FileVersion,
    dictionary: EncodedBlock[Any] | None = None,
) -> PageBytes | None:
    """A page of encoded values, one per visible slot; indices if there is a `dictionary`.

    None if a chunk would exceed the limit of the file version: 32 KiB in 2.1.
    """
    large = version is not FileVersion.V2_1
    level_chunks = LevelChunks.of(levels, values.num_values)
    rep = _encoded_levels(levels.reps, level_chunks.num_levels, version)
    def_ = _encoded_levels(levels.defs, level_chunks.num_levels, version)
    level_buffers = [encoded.chunks for encoded in (rep, def_) if encoded is not None]
    sizes = _chunk_sizes(level_buffers, values.buffers, large_chunks=large)
    if int(sizes.max(initial=0)) > _MAX_CHUNK_BYTES[large]:
        return None
    chunks = _written(level_chunks.num_levels, level_buffers, values.buffers, sizes, large_chunks=large)
    index = level_chunks.repetition_index(levels)
    layout = MiniBlockLayout(
        values.encoding,
        levels.scheme.layers,
        levels.num_visible_items,
        large,
        None if rep is None else rep.encoding,
        None if def_ is None else def_.encoding,
        None if dictionary is None else dictionary.encoding,
        0 if dictionary is None else dictionary.num_values,
        0 if index is None else 1,
    )
    words = _chunk_words(sizes, values.num_values, large_chunks=large)
    buffers = (words, chunks, None if dictionary is None else dictionary.data, index)
    return PageBytes(levels.num_rows, layout, tuple(buffer for buffer in buffers if buffer is not None))


def _encoded_levels(
    levels: Uint16Array | None, num_levels: Int64Array, version: FileVersion
) -> EncodedBlocks[Any] | None:
    if levels is None:
        return None
    block = FixedWidthBlock(pa.py_buffer(levels), 16, len(levels))
    encoded = choose_blocks(block, num_levels, version)
    if int(encoded.chunks.sizes.max(initial=0)) > _MAX_SIZE:
        return Flat.encode_blocks(block, num_levels)
    return encoded


def _padded(sizes: Int64Array) -> Int64Array:
    return (sizes + 7) & ~7


def _chunk_sizes(level_buffers: list[Chunks], value_buffers: list[Chunks], *, large_chunks: bool) -> Int64Array:
    """Bytes of each chunk, a multiple of 8."""
    header = 2 + 2 * len(level_buffers) + (4 if large_chunks else 2) * len(value_buffers)
    total = np.full(len(value_buffers[0].sizes), (header + 7) & ~7, np.int64)
    for buffer in (*level_buffers, *value_buffers):
        total += _padded(buffer.sizes)
    return total


def _chunk_words(sizes: Int64Array, num_values: Int64Array, *, large_chunks: bool) -> pa.Buffer:
    """`((bytes / 8 - 1) << 4) | log2(values)` for every chunk; the values of the last one are implied by the page's."""
    logs = np.zeros(len(num_values), np.int64)
    logs[:-1] = np.log2(num_values[:-1]).astype(np.int64)
    words = ((sizes // 8 - 1) << 4) | logs
    return pa.py_buffer(words.astype("<u4" if large_chunks else "<u2"))


def _written(
    num_levels: Int64Array,
    level_buffers: list[Chunks],
    value_buffers: list[Chunks],
    sizes: Int64Array,
    *,
    large_chunks: bool,
) -> pa.Buffer:
    """The chunks, back to back."""
    buffers = [*level_buffers, *value_buffers]
    starts = [np.ascontiguousarray(buffer.starts) for buffer in buffers]
    lengths = [np.ascontiguousarray(buffer.sizes) for buffer in buffers]
    sources = np.array(
        [
            (buffer.data.address, address_of(start), address_of(length))
            for buffer, start, length in zip(buffers, starts, lengths, strict=True)
        ],
        np.int64,
    )
    target = pa.allocate_buffer(int(sizes.sum()))
    kernels.write_chunks(
        address_of(num_levels) if level_buffers else 0,
        len(level_buffers),
        address_of(sources),
        len(buffers),
        len(sizes),
        large_chunks,
        target.address,
    )
    return target
