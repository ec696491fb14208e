"""Detects pages whose values are bitwise equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Block, FixedWidthBlock, VariableWidthBlock
from lance_spark.layouts.leaf.values import leaf_block

_FIRST_LOOK = 16


def single_value(values: pa.Array, block: Block) -> Block | None:
    """The single value of `values` as a block, if all non-null values are equal; no nested or dictionary types.

    Args:
        block: `leaf_block` of the values.
    """
    valid = values
    if values.null_count:
        if not _all_equal(leaf_block(values.slice(0, _FIRST_LOOK).drop_null())):
            return None
        valid = values.drop_null()
        block = leaf_block(valid)
    return leaf_block(valid.slice(0, 1)) if _all_equal(block) else None


def _all_equal(block: Block) -> bool:
    if block.num_values < 2:
        return True
    if isinstance(block, VariableWidthBlock):
        offsets = np.frombuffer(block.offsets, np.int32 if block.bits_per_offset == 32 else np.int64)
        width = int(offsets[1])
        if offsets[2] != 2 * width or not _starts_equal(block.data, width) or bool((np.diff(offsets) != width).any()):
            return False
        return _rows_equal(np.frombuffer(block.data, np.uint8), width)
    if not isinstance(block, FixedWidthBlock):
        raise TypeError(f"a constant {type(block).__name__}")
    if block.bits_per_value == 1:
        return _bits_equal(np.frombuffer(block.data, np.uint8), block.num_values)
    width = block.bits_per_value // 8
    return _starts_equal(block.data, width) and _rows_equal(np.frombuffer(block.data, np.uint8), width)


def _bits_equal(data: np.ndarray[Any, np.dtype[np.uint8]], num_bits: int) -> bool:
    every = 0xFF if data[0] & 1 else 0
    whole, rest = divmod(num_bits, 8)
    if rest and (int(data[whole]) ^ every) & ((1 << rest) - 1):
        return False
    return bool((data[:whole] == every).all())


def _starts_equal(data: pa.Buffer, width: int) -> bool:
    """Whether the first two rows of `width` bytes are equal, which few pages have; much faster than all of them."""
    return bool(data.slice(0, width).equals(data.slice(width, width)))


def _rows_equal(data: np.ndarray[Any, np.dtype[np.uint8]], width: int) -> bool:
    """Whether all rows of `width` bytes are equal."""
    return width == 0 or bool((data[width:] == data[:-width]).all())
