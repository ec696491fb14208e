"""The tables of pages and chunks that kernels for single rows read: see `kernels.layouts.single_rows.copy_values`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lance_spark.encodings.base import BlockEncoding
from lance_spark.encodings.blocks import Int64Array
from lance_spark.encodings.inline_bitpacking import InlineBitpacking
from lance_spark.encodings.out_of_line_bitpacking import OutOfLineBitpacking
from lance_spark.encodings.rle import Rle
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.mini_block import list_chunks
from lance_spark.kernels.layouts.picked_levels import LEVEL_BITS, RUN_LEVELS
from lance_spark.kernels.layouts.single_rows import CONSTANT, NO_LEVELS, NULLS, PACKED_LEVELS, ZIPPED
from lance_spark.layouts.base import EncodedPage
from lance_spark.layouts.mini_block.layout import MiniBlockLayout
from lance_spark.layouts.repdef import RepDefLayer

Form = tuple[int, ...]
"""The column of a page in the table of pages."""

_NUM_BUFFERS = 2
"""Of a mini-block page: chunk words, and chunks. A dictionary is one more."""

_WITHOUT_CHUNKS = (NULLS, CONSTANT, ZIPPED)
"""Kinds of pages that are one chunk with all of their rows."""

SMALL_SIZES, LARGE_SIZES = 2, 4
"""Bytes of the sizes in a chunk, which in both cases are as many as those of its word."""


class Tables(NamedTuple):
    """Tables of a column for the kernels: int64[n, pages] and int64[4, chunks]."""

    pages: Int64Array
    chunks: Int64Array


def form_of_page(
    page: EncodedPage, layout: MiniBlockLayout, kind: int | None, *, with_dictionary: bool = False
) -> Form | None:
    """The kind of a mini-block page of leaves, the bytes of sizes in its chunks, and the bits of a level.

    None for pages with lists and structs, for pages with dictionaries, or without them if they are asked for, and if
    the kind is None.
    """
    num_buffers = _NUM_BUFFERS + 1 if with_dictionary else _NUM_BUFFERS
    if kind is None or layout.rep_compression or len(page.buffers) != num_buffers:
        return None
    if (layout.dictionary is not None) is not with_dictionary:
        return None
    layers = layout.layers
    if len(layers) != 1 or layers[0].is_list or layout.num_items != page.num_rows:
        return None
    bits = NO_LEVELS if layout.def_compression is None else level_bits(layout.def_compression)
    if bits is None or (bits != NO_LEVELS and layers[0] is not RepDefLayer.NULLABLE_ITEM):
        return None
    return kind, LARGE_SIZES if layout.has_large_chunk else SMALL_SIZES, bits


def known_forms(forms: Sequence[Form | None]) -> Sequence[Form] | None:
    """The same; None if a page has no form, or those of chunks have sizes of several widths."""
    known = [form for form in forms if form is not None]
    if len(known) < len(forms) or len({form[1] for form in known if form[0] not in _WITHOUT_CHUNKS}) > 1:
        return None
    return known


def tables_of(pages: Sequence[EncodedPage], forms: Sequence[Form], data: pa.Buffer) -> Tables | None:
    """The tables of mini-block pages, and others, by their forms; None if one is not inside of the file `data`.

    Raises:
        CorruptFileError: a page contradicts the format.
    """
    if not are_inside(pages, data.size):
        return None
    # Each page is one row of both tables, so that they are made by one call.
    rows, num_chunks = [], 0
    for page, form in zip(pages, forms, strict=True):
        if form[0] in _WITHOUT_CHUNKS:
            rows.append((*form, 0, 0, 0, *(page.buffers[0] if page.buffers else (0, 0)), page.num_rows))
            num_chunks += 1
            continue
        words, values = page.buffers[:_NUM_BUFFERS]
        rows.append((*form, form[1], *words, *values, page.num_rows))
        num_chunks += words[1] // form[1]
    table: Int64Array = np.array(rows, np.int64).T.copy()
    width, num_pages = len(forms[0]), len(rows)
    chunks: Int64Array = np.empty((4, num_chunks), np.int64)
    listed = address_of(table) + width * num_pages * table.itemsize
    if list_chunks(data.address, data.size, listed, num_pages, address_of(chunks), num_chunks) < 0:
        raise CorruptFileError(f"mini-block: {num_chunks} chunks contradict the values of their pages or their bytes")
    return Tables(table[:width], chunks)


def are_inside(pages: Sequence[EncodedPage], size: int) -> bool:
    """Whether a file of `size` bytes has all buffers."""
    for page in pages:
        for start, length in page.buffers:
            if start < 0 or length < 0 or start + length > size:
                return False
    return True


def level_bits(encoding: BlockEncoding | None) -> int | None:
    """Level bits in the table of pages, see `kernels.layouts.single_rows.copy_values`; None for other encodings."""
    if encoding is None:
        return NO_LEVELS
    if isinstance(encoding, OutOfLineBitpacking) and encoding.uncompressed_bits_per_value == LEVEL_BITS:
        return encoding.bit_width
    if isinstance(encoding, InlineBitpacking) and encoding.uncompressed_bits_per_value == LEVEL_BITS:
        return PACKED_LEVELS
    return RUN_LEVELS if isinstance(encoding, Rle) and encoding.bits_per_value == LEVEL_BITS else None
