"""The tables of pages and chunks that kernels for single rows read: see `kernels.layouts.single_rows.copy_values`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from lance_spark.encodings.base import BlockEncoding, MiniBlockEncoding
from lance_spark.encodings.blocks import Int64Array
from lance_spark.encodings.inline_bitpacking import InlineBitpacking
from lance_spark.encodings.out_of_line_bitpacking import OutOfLineBitpacking
from lance_spark.encodings.rle import Rle
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.mini_block import list_chunks
from lance_spark.kernels.layouts.picked_levels import LEVEL_BITS, RUN_LEVELS
from lance_spark.kernels.layouts.single_rows import CONSTANT, NO_LEVELS, NULLS, PACKED_LEVELS, ZIPPED
from lance_spark.layouts.base import EncodedPage, PageLayout
from lance_spark.layouts.mini_block.layout import MiniBlockLayout
from lance_spark.layouts.repdef import RepDefLayer

Form = tuple[int, ...]
"""The column of a page in the table of pages."""

_NUM_BUFFERS = 2
"""Of a mini-block page: chunk words, and chunks."""

_WITHOUT_CHUNKS = (NULLS, CONSTANT, ZIPPED)
"""Kinds of pages that are one chunk with all of their rows."""

SMALL_SIZES, LARGE_SIZES = 2, 4
"""Bytes of the sizes in a chunk, which in both cases are as many as those of its word."""


def form_of_page(
    page: EncodedPage, layout: PageLayout, kind_of: Callable[[MiniBlockEncoding], int | None]
) -> tuple[int, int, int] | None:
    """The kind of a mini-block page of leaves, the bytes of sizes in its chunks, and the bits of a level.

    None for pages with lists, structs and dictionaries, of other layouts, and those for which `kind_of` returns None.
    """
    if not isinstance(layout, MiniBlockLayout) or layout.rep_compression or layout.dictionary:
        return None
    if len(layout.layers) != 1 or layout.layers[0].is_list or len(page.buffers) != _NUM_BUFFERS:
        return None
    kind, bits = kind_of(layout.value_compression), level_bits(layout.def_compression)
    may_be_null = layout.layers[0] is RepDefLayer.NULLABLE_ITEM
    if kind is None or bits is None or (bits != NO_LEVELS and not may_be_null) or layout.num_items != page.num_rows:
        return None
    return kind, LARGE_SIZES if layout.has_large_chunk else SMALL_SIZES, bits


def table_of_forms(forms: Sequence[Form | None]) -> Int64Array | None:
    """The table of pages; None if a page has no form, or those of chunks have sizes of several widths."""
    known = [form for form in forms if form is not None]
    if len(known) < len(forms) or len({form[1] for form in known if form[0] not in _WITHOUT_CHUNKS}) > 1:
        return None
    return np.ascontiguousarray(np.array(known, np.int64).T)


def chunks_of_pages(pages: Sequence[EncodedPage], table: Int64Array, data: pa.Buffer) -> Int64Array | None:
    """The table of chunks of mini-block pages, and others; None if one is not inside of the file `data`.

    Raises:
        CorruptFileError: a page contradicts the format.
    """
    if not are_inside(pages, data.size):
        return None
    of_pages, num_chunks = [], 0
    for kind, word_bytes, page in zip(table[0].tolist(), table[1].tolist(), pages, strict=True):
        if kind in _WITHOUT_CHUNKS:
            of_pages.append((0, 0, 0, *(page.buffers[0] if page.buffers else (0, 0)), page.num_rows))
            num_chunks += 1
            continue
        words, values = page.buffers
        of_pages.append((word_bytes, *words, *values, page.num_rows))
        num_chunks += words[1] // word_bytes
    listed = np.ascontiguousarray(np.array(of_pages, np.int64).T)
    chunks: Int64Array = np.empty((4, num_chunks), np.int64)
    if list_chunks(data.address, data.size, address_of(listed), len(pages), address_of(chunks), num_chunks) < 0:
        raise CorruptFileError(f"mini-block: {num_chunks} chunks contradict the values of their pages or their bytes")
    return chunks


def are_inside(pages: Sequence[EncodedPage], size: int) -> bool:
    """Whether a file of `size` bytes has all buffers."""
    for page in pages:
        for start, length in page.buffers:
            if start < 0 or length < 0 or start + length > size:
                return False
    return True


def level_bits(encoding: BlockEncoding | None) -> int | None:
    """How the kernels find levels, see `kernels.layouts.single_rows.copy_values`; None if they do not."""
    if encoding is None:
        return NO_LEVELS
    if isinstance(encoding, OutOfLineBitpacking) and encoding.uncompressed_bits_per_value == LEVEL_BITS:
        return encoding.bit_width
    if isinstance(encoding, InlineBitpacking) and encoding.uncompressed_bits_per_value == LEVEL_BITS:
        return PACKED_LEVELS
    return RUN_LEVELS if isinstance(encoding, Rle) and encoding.bits_per_value == LEVEL_BITS else None
