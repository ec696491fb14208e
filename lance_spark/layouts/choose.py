"""Chooses the layout of a page (`lance.encodings21.PageLayout`), and encodes it.

The first matching rule wins: only nulls, or (from 2.2 on) a single distinct value, give a constant page; a dictionary
column, or values that repeat enough, mini-blocks of indices with a dictionary; values of 256 bytes and more a full-zip
page, so that single values can be read; all others mini-blocks.

A chunk of a mini-block page counts its levels in 16 bits. A page with runs of null and empty lists too long for that
is split at the boundaries of the runs, or becomes a full-zip page if they are within one row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from lance_spark.encodings.blocks import (
    Block,
    ChunkLimits,
    FixedSizeListBlock,
    FixedWidthBlock,
    PackedStructBlock,
    VariableWidthBlock,
    total_of,
)
from lance_spark.encodings.choose import choose_block, choose_mini_block, choose_values
from lance_spark.encodings.hints import EncodingHints
from lance_spark.errors import UnsupportedFeatureError
from lance_spark.file_version import FileVersion
from lance_spark.layouts.blob import blob_places, in_blob_layout
from lance_spark.layouts.constant.write import encode_constant, encode_empty_structs, encode_nulls
from lance_spark.layouts.dictionary_pages import DictionaryValues, repeating_values, requested_dictionary
from lance_spark.layouts.full_zip.write import encode_full_zip
from lance_spark.layouts.leaf.values import leaf_block
from lance_spark.layouts.level_chunks import MAX_CHUNK_VALUES, max_values
from lance_spark.layouts.mini_block.write import encode_mini_blocks
from lance_spark.layouts.page_bytes import PageBytes
from lance_spark.layouts.shred import Levels, Shredded
from lance_spark.layouts.single_value import single_value
from lance_spark.layouts.sparse_rows import cut_at_long_runs

_BLOB = "lance-encoding:blob"
_FULL_ZIP_BITS = 8 * 256
_MAX_BOOLEANS = 32_768
"""Maximum values of a chunk of booleans, 4 KiB: the limit of the format."""
_MAX_RAW_LEVELS = 4096
"""Constant pages store raw levels, so for many slots mini-blocks are smaller."""


@dataclass(frozen=True, slots=True)
class PageSettings:
    """Settings shared by all pages of a column.

    Attributes:
        version: file version, 2.1 or 2.2.
        metadata: of the leaf's field; its ``lance-encoding:`` keys control the encoding.
        lasting_codes: codes that get a level in every page (`shred.lasting_codes`).
    """

    version: FileVersion
    metadata: Mapping[str, bytes]
    lasting_codes: int = 0

    @property
    def holds_places(self) -> bool:
        """Whether the column has the positions and sizes of values in the same file (blobs of 2.1)."""
        return self.version is FileVersion.V2_1 and _BLOB in self.metadata


def encode_pages(rows: Shredded, settings: PageSettings) -> list[PageBytes]:
    """Encodes the rows as one page, or as several if one is not possible.

    Raises:
        UnsupportedFeatureError: a row that no layout supports: booleans after 32,000 empty lists within one list.
    """
    values = rows.values
    levels = rows.levels(settings.lasting_codes)
    if settings.holds_places:
        places, all_valid = blob_places(levels, values)
        return [
            in_blob_layout(
                levels, _page(all_valid, places, leaf_block(places), ChunkLimits(MAX_CHUNK_VALUES), settings)
            )
        ]
    if pa.types.is_struct(values.type) and values.type.num_fields == 0:
        return [encode_empty_structs(levels)]
    if values.null_count == len(values):
        return [encode_nulls(levels, settings.version)]
    block = None if pa.types.is_dictionary(values.type) else leaf_block(values)
    constant = _constant_page(levels, values, block, settings)
    if constant is not None:
        return [constant]
    most = _MAX_BOOLEANS if pa.types.is_boolean(values.type) else MAX_CHUNK_VALUES
    limits = ChunkLimits(max_values(levels, large_chunks=settings.version is not FileVersion.V2_1, most=most))
    if limits.max_values < 2:
        pieces = cut_at_long_runs(rows, levels)
        if len(pieces) > 1:
            return [page for piece in pieces for page in encode_pages(piece, settings)]
    return [_page(levels, values, block, limits, settings)]


def _page(
    levels: Levels, values: pa.Array, block: Block | None, limits: ChunkLimits, settings: PageSettings
) -> PageBytes:
    """A page of values; `block` is their `leaf_block`, None for a dictionary array."""
    if limits.max_values >= 2:
        if block is None:
            page = _dictionary_page(levels, requested_dictionary(values), limits, settings)
        else:
            page = _narrow_page(levels, values, block, limits, settings)
        if page is not None:
            return page
    if block is None or _smallest_bits(block) % 8:
        raise UnsupportedFeatureError(
            f"values of type {values.type} are too large for a chunk, or follow too many empty lists of one row; "
            "use another type",
            feature="page layout",
        )
    return encode_full_zip(levels, choose_values(block, settings.version, settings.metadata))


def _constant_page(levels: Levels, values: pa.Array, block: Block | None, settings: PageSettings) -> PageBytes | None:
    many_levels = levels.num_items > _MAX_RAW_LEVELS and (levels.reps is not None or levels.defs is not None)
    if settings.version is FileVersion.V2_1 or many_levels:
        return None
    if not isinstance(block, (FixedWidthBlock, VariableWidthBlock)):
        return None
    value = single_value(values, block)
    return None if value is None else encode_constant(levels, value)


def _narrow_page(
    levels: Levels, values: pa.Array, block: Block, limits: ChunkLimits, settings: PageSettings
) -> PageBytes | None:
    """A mini-block page, or None if the values are wide."""
    hints = EncodingHints.of(settings.metadata)
    if isinstance(block, VariableWidthBlock):
        plain_bytes = block.offsets.size + block.data.size
        repeating = repeating_values(values, block, settings.version, plain_bytes, hints)
        if repeating is not None and hints.structural != "fullzip":
            return _dictionary_page(levels, repeating, limits, settings)
        if _is_wide(block, len(values) - values.null_count, settings):
            return None
        encoded = choose_mini_block(block, settings.version, settings.metadata, limits)
    else:
        if _is_wide(block, len(values), settings):
            return None
        encoded = choose_mini_block(block, settings.version, settings.metadata, limits)
        plain_bytes = sum(total_of(chunks.sizes) for chunks in encoded.buffers)
        repeating = repeating_values(values, block, settings.version, plain_bytes, hints)
        if repeating is not None:
            return _dictionary_page(levels, repeating, limits, settings)
    return encode_mini_blocks(levels, encoded, settings.version)


def _dictionary_page(
    levels: Levels, values: DictionaryValues, limits: ChunkLimits, settings: PageSettings
) -> PageBytes | None:
    indices = choose_mini_block(values.indices, settings.version, limits=limits)
    items = choose_block(values.items, settings.version, settings.metadata)
    return encode_mini_blocks(levels, indices, settings.version, items)


def _is_wide(block: Block, num_values: int, settings: PageSettings) -> bool:
    if isinstance(block, PackedStructBlock):
        return any(not isinstance(child, FixedWidthBlock) for child in block.children)
    wanted = EncodingHints.of(settings.metadata).structural
    if _smallest_bits(block) % 8 or wanted == "miniblock":
        return False
    if wanted == "fullzip":
        return True
    if isinstance(block, VariableWidthBlock):
        return bool(block.data.size * 8 >= _FULL_ZIP_BITS * num_values)
    return _bits_per_value(block) >= _FULL_ZIP_BITS


def _smallest_bits(block: Block) -> int:
    """Bits of the innermost value: 1 for booleans, also in fixed-size lists."""
    while isinstance(block, FixedSizeListBlock):
        block = block.items
    return block.bits_per_value if isinstance(block, FixedWidthBlock) else 8


def _bits_per_value(block: Block) -> int:
    if isinstance(block, FixedSizeListBlock):
        return block.dimension * _bits_per_value(block.items)
    return block.bits_per_value if isinstance(block, FixedWidthBlock) else 0
