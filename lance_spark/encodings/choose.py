"""Chooses the encodings of a page's values, levels and dictionary: those with the fewest bytes.

Keys of a field's metadata (`lance-encoding:...`) override that. File version 2.1 has fewer block encodings than 2.2:
neither run length encoding nor general compression.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from lance_spark.encodings.base import (
    EncodedBlock,
    EncodedBlocks,
    EncodedMiniBlocks,
    EncodedValues,
    MiniBlockEncoding,
)
from lance_spark.encodings.blocks import (
    Block,
    ChunkLimits,
    FixedSizeListBlock,
    FixedWidthBlock,
    Int64Array,
    PackedStructBlock,
    VariableWidthBlock,
    equal_chunks,
    total_of,
)
from lance_spark.encodings.buffer_compression import BufferCompression, CompressionScheme
from lance_spark.encodings.byte_stream_split import ByteStreamSplit
from lance_spark.encodings.fixed_size_list import FixedSizeList
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.fsst import Fsst
from lance_spark.encodings.fsst_symbols import Matcher, Sample
from lance_spark.encodings.general import General
from lance_spark.encodings.hints import EncodingHints, Metadata
from lance_spark.encodings.inline_bitpacking import WORD_BITS, InlineBitpacking, measure_widths
from lance_spark.encodings.out_of_line_bitpacking import OutOfLineBitpacking, packed_sizes
from lance_spark.encodings.packed_struct import PackedStruct
from lance_spark.encodings.rle import Rle, measure_runs
from lance_spark.encodings.variable import Variable
from lance_spark.encodings.variable_packed_struct import VariablePackedStruct
from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.file_version import FileVersion
from lance_spark.kernels.bitpack import BLOCK_VALUES

_NO_METADATA: Metadata = MappingProxyType({})
MIN_FSST_BYTES = 1 << 15
"""The symbol table takes 2312 bytes per page."""
_COMPRESSED_CHUNK_BYTES = 1 << 15
"""Compressed chunks are larger: fewer calls and a better ratio. 2.1 cannot address larger ones."""
_MIN_CHUNK_BYTES = 64
_MAX_CHUNK_BYTES = {FileVersion.V2_1: 1 << 13, FileVersion.V2_2: 1 << 15}
"""2.1 counts the bytes of a chunk, including levels, in 15 bits."""
_LARGE_BLOCK_BYTES = 1024
"""Minimum size of dictionaries to compress."""


def choose_mini_block(
    block: Block, version: FileVersion, metadata: Metadata = _NO_METADATA, limits: ChunkLimits | None = None
) -> EncodedMiniBlocks[Any]:
    """The values of a mini-block page, encoded into chunks."""
    limits = limits or ChunkLimits()
    hints = EncodingHints.of(metadata)
    if hints.minichunk_size is not None:
        limits = replace(limits, max_bytes=max(_MIN_CHUNK_BYTES, min(hints.minichunk_size, _MAX_CHUNK_BYTES[version])))
    elif hints.general is not None and version is not FileVersion.V2_1:
        limits = replace(limits, max_bytes=max(limits.max_bytes, _COMPRESSED_CHUNK_BYTES))
    encoded = _mini_block(block, hints, limits)
    if hints.general is None:
        return encoded
    compressed = General.encode_mini_blocks(encoded, hints.general)
    return compressed if _padded_bytes(compressed) < _padded_bytes(encoded) else encoded


def _mini_block(block: Block, hints: EncodingHints, limits: ChunkLimits) -> EncodedMiniBlocks[Any]:
    if isinstance(block, VariableWidthBlock):
        matcher = _matcher(block, hints)
        if matcher is None:
            return Variable.encode_mini_blocks(block, limits)
        return Fsst.encode_mini_blocks(block, limits, matcher)
    if isinstance(block, FixedSizeListBlock):
        return FixedSizeList.encode_mini_blocks(block, limits)
    if isinstance(block, FixedWidthBlock):
        return _fixed_width_mini_block(block, hints, limits)
    return PackedStruct.encode_mini_blocks(block, limits)


def _matcher(block: VariableWidthBlock, hints: EncodingHints) -> Matcher | None:
    """Symbols for FSST, if the metadata request it, or leave the hints open and it saves enough."""
    if block.num_values == 0 or hints.name not in ("", "fsst"):
        return None
    if hints.name == "fsst":
        return Matcher.train(Sample.of(block, 0.0))
    return Matcher.if_it_pays(block) if block.data.size >= MIN_FSST_BYTES else None


def _fixed_width_mini_block(
    block: FixedWidthBlock, hints: EncodingHints, limits: ChunkLimits
) -> EncodedMiniBlocks[Any]:
    if hints.name == "none" or block.bits_per_value not in WORD_BITS or block.num_values == 0:
        return Flat.encode_mini_blocks(block, limits)
    if hints.byte_stream_split == "on" and hints.general is not None and block.bits_per_value in (32, 64):
        return ByteStreamSplit.encode_mini_blocks(block, limits)
    word_bytes = block.bits_per_value // 8
    flat_bytes = block.num_values * word_bytes
    runs = total_of(measure_runs(block, equal_chunks(block.num_values, limits.max_values)))
    if hints.rle_threshold is not None and runs < hints.rle_threshold * block.num_values:
        return Rle.encode_mini_blocks(block, limits)
    widths = measure_widths(block)
    packed_bytes = total_of(widths) * BLOCK_VALUES // 8 + len(widths) * word_bytes
    if limits.max_values < BLOCK_VALUES:
        packed_bytes = flat_bytes
    if hints.rle_threshold is None and runs * (word_bytes + 1) < min(flat_bytes, packed_bytes):
        return Rle.encode_mini_blocks(block, limits)
    if packed_bytes < flat_bytes:
        return InlineBitpacking.encode_mini_blocks(block, widths)
    return Flat.encode_mini_blocks(block, limits)


def _padded_bytes(encoded: EncodedMiniBlocks[MiniBlockEncoding]) -> int:
    """Bytes in the page: every buffer of a chunk is padded to 8 bytes."""
    return sum(int(((chunks.sizes + 7) & ~7).sum()) for chunks in encoded.buffers)


def choose_blocks(levels: FixedWidthBlock, num_levels: Int64Array, version: FileVersion) -> EncodedBlocks[Any]:
    """The levels of all chunks of a page, `num_levels[i]` for chunk i, with the same encoding."""
    word_bytes = levels.bits_per_value // 8
    bit_width = int(measure_widths(levels).max(initial=1))
    flat_sizes = num_levels * word_bytes
    packed_bytes = int(packed_sizes(num_levels, levels.bits_per_value, bit_width).sum())
    least = min(packed_bytes, int(flat_sizes.sum()))
    if version is not FileVersion.V2_1:
        run_sizes = measure_runs(levels, num_levels) * (word_bytes + 1) + 8
        # The levels of no chunk may grow: their bytes are counted in 16 bits.
        if int(run_sizes.sum()) < least and not bool((run_sizes > np.maximum(flat_sizes, 64)).any()):
            return Rle.encode_blocks(levels, num_levels)
    if packed_bytes < int(flat_sizes.sum()):
        return OutOfLineBitpacking.encode_blocks(levels, num_levels, bit_width)
    return Flat.encode_blocks(levels, num_levels)


def choose_block(block: Block, version: FileVersion, metadata: Metadata = _NO_METADATA) -> EncodedBlock[Any]:
    """The items of a dictionary, or levels, as one buffer."""
    encoded = _block(block)
    compression = EncodingHints.of(metadata).dict_values
    if version is FileVersion.V2_1 or compression is None or encoded.data.size < _LARGE_BLOCK_BYTES:
        return encoded
    compressed = General.encode_block(encoded, compression)
    return compressed if compressed.data.size < encoded.data.size else encoded


def _block(block: Block) -> EncodedBlock[Any]:
    if isinstance(block, VariableWidthBlock):
        return Variable.encode_block(block)
    if not isinstance(block, FixedWidthBlock):
        raise InvalidInputError("a dictionary holds values of equal width or byte strings")
    flat_bytes = (block.num_values * block.bits_per_value + 7) // 8
    flat = EncodedBlock(Flat(block.bits_per_value), block.data.slice(0, flat_bytes), block.num_values)
    if block.bits_per_value not in WORD_BITS or block.num_values == 0:
        return flat
    bit_width = int(measure_widths(block).max(initial=1))
    counts = np.array([block.num_values], np.int64)
    if int(packed_sizes(counts, block.bits_per_value, bit_width)[0]) >= flat_bytes:
        return flat
    blocks = OutOfLineBitpacking.encode_blocks(block, counts, bit_width)
    return EncodedBlock(blocks.encoding, blocks.chunks.data, block.num_values)


def choose_values(block: Block, version: FileVersion, metadata: Metadata = _NO_METADATA) -> EncodedValues[Any]:
    """The values of a full-zip page, each encoded separately."""
    hints = EncodingHints.of(metadata)
    if isinstance(block, FixedWidthBlock):
        return Flat.encode_values(block)
    if isinstance(block, FixedSizeListBlock):
        return FixedSizeList.encode_values(block)
    if isinstance(block, PackedStructBlock):
        if version is FileVersion.V2_1:
            raise UnsupportedFeatureError(
                "file version 2.1 has no packed structs with fields of variable width; write 2.2",
                feature="variable_packed_struct",
                version="2.2",
            )
        return VariablePackedStruct.encode_values(block)
    encoded = Variable.encode_values(block)
    if hints.general is not None:
        # The reference library compresses single values with zstd only, and reads no null among values of lz4.
        is_zstd = hints.general.scheme is CompressionScheme.ZSTD
        compression = hints.general if is_zstd else BufferCompression(CompressionScheme.ZSTD)
        compressed = General.encode_values(encoded, compression)
        return compressed if compressed.block.data.size < block.data.size else encoded
    matcher = _matcher(block, hints)
    return encoded if matcher is None else Fsst.encode_values(block, matcher)
