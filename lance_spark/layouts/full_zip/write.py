"""Full-zip pages from levels and encoded values (`lance.encodings21.FullZipLayout`; see `layouts.full_zip`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lance_spark.encodings.base import EncodedValues
from lance_spark.encodings.blocks import FixedWidthBlock, Int64Array, VariableWidthBlock
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts import full_zip_write as kernels
from lance_spark.layouts.full_zip.layout import FullZipLayout
from lance_spark.layouts.page_bytes import PageBytes
from lance_spark.layouts.shred import Levels


def encode_full_zip(levels: Levels, values: EncodedValues[Any]) -> PageBytes:
    """A page of encoded values, one per visible slot (including nulls, which variable widths omit in the page)."""
    bits_rep = levels.scheme.max_rep.bit_length() if levels.reps is not None else 0
    bits_def = levels.scheme.max_def.bit_length() if levels.defs is not None else 0
    block = values.block
    is_fixed = isinstance(block, FixedWidthBlock)
    row_starts = np.empty(levels.num_rows + 1, np.int64) if levels.reps is not None or not is_fixed else None
    layout = FullZipLayout(
        values.encoding,
        levels.scheme.layers,
        levels.num_items,
        levels.num_visible_items,
        bits_rep,
        bits_def,
        block.bits_per_value if isinstance(block, FixedWidthBlock) else None,
        block.bits_per_offset if isinstance(block, VariableWidthBlock) else None,
    )
    if is_fixed and bits_rep + bits_def == 0:
        return PageBytes(levels.num_rows, layout, (block.data,))
    data = _zipped(levels, block, bits_def, _control_bytes(bits_rep + bits_def), row_starts)
    index = [] if row_starts is None else [_row_index(row_starts)]
    return PageBytes(levels.num_rows, layout, (data, *index))


def _control_bytes(bits: int) -> int:
    return next(num_bytes for num_bytes in (0, 1, 2, 4) if bits <= 8 * num_bytes)


def _zipped(
    levels: Levels,
    block: FixedWidthBlock | VariableWidthBlock,
    bits_def: int,
    control_bytes: int,
    row_starts: Int64Array | None,
) -> pa.Buffer:
    levels_and_words = (
        0 if levels.reps is None else address_of(levels.reps),
        0 if levels.defs is None else address_of(levels.defs),
        levels.num_items,
        levels.scheme.max_rep,
        levels.scheme.max_visible_def,
        bits_def,
        control_bytes,
    )
    starts = 0 if row_starts is None else address_of(row_starts)
    if isinstance(block, FixedWidthBlock):
        value_bytes = block.bits_per_value // 8
        data = pa.allocate_buffer(levels.num_items * control_bytes + block.num_values * value_bytes)
        written = kernels.zip_fixed(*levels_and_words, block.data.address, value_bytes, starts, data.address)
    else:
        length_bytes = block.bits_per_offset // 8
        size = levels.num_items * control_bytes + block.num_values * length_bytes + block.data.size
        data = pa.allocate_buffer(size)
        written = kernels.zip_variable(
            *levels_and_words, block.offsets.address, length_bytes, block.data.address, starts, data.address
        )
    return data.slice(0, written)


def _row_index(row_starts: Int64Array) -> pa.Buffer:
    """The starts of all rows, and the end, in the smallest sufficient width."""
    end = int(row_starts[-1])
    width = next(width for width in (1, 2, 4, 8) if end < 1 << (8 * width))
    return pa.py_buffer(row_starts.astype(f"<u{width}"))
