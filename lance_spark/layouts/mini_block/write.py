"""Mini-block pages from levels and encoded values (`lance.encodings21.MiniBlockLayout`; see `layouts.mini_block`)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from lance_spark.encodings.base import EncodedBlock, EncodedBlocks, EncodedMiniBlocks
from lance_spark.encodings.blocks import Chunks, FixedWidthBlock, Int64Array, total_of
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

_layout = lru_cache(maxsize=1024)(MiniBlockLayout)
"""Equal layouts of the pages of a wide table are one object."""


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
    written = _written(level_chunks.num_levels, level_buffers, values, large_chunks=large)
    if written is None:
        return None
    index = level_chunks.repetition_index(levels)
    layout = _layout(
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
    buffers = written if dictionary is None else (*written, dictionary.data)
    return PageBytes(levels.num_rows, layout, buffers if index is None else (*buffers, index))


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


def _written(
    num_levels: Int64Array, level_buffers: list[Chunks], values: EncodedMiniBlocks[Any], *, large_chunks: bool
) -> tuple[pa.Buffer, pa.Buffer] | None:
    """The chunk words, and the chunks back to back; None if a chunk is too large."""
    buffers = [*level_buffers, *values.buffers]
    # Copies have to live until the kernel has run.
    tables = [(np.ascontiguousarray(chunks.starts), np.ascontiguousarray(chunks.sizes)) for chunks in buffers]
    sources: list[int] = []
    for chunks, (starts, sizes) in zip(buffers, tables, strict=True):
        sources += (chunks.data.address, address_of(starts), address_of(sizes))
    table = np.array(sources, np.int64)
    num_chunks = len(values.num_values)
    most = sum(total_of(chunks.sizes) for chunks in buffers)
    most += num_chunks * (kernels.MAX_HEADER_BYTES + len(buffers) * kernels.MAX_BUFFER_BYTES)
    words = pa.allocate_buffer((4 if large_chunks else 2) * num_chunks)
    target = pa.allocate_buffer(most)
    size = kernels.write_chunks(
        address_of(num_levels) if level_buffers else 0,
        len(level_buffers),
        address_of(table),
        len(buffers),
        address_of(values.num_values),
        num_chunks,
        large_chunks,
        words.address,
        target.address,
    )
    return None if size < 0 else (words, target.slice(0, size))
