"""Detects pages whose values are bitwise equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Block, FixedWidthBlock, VariableWidthBlock
from lance_spark.layouts.leaf.values import leaf_block

_FIRST_LOOK = 16


def single_value(values: pa.Array) -> Block | None:
    """The single value of `values` as a block, if all non-null values are equal; no nested or dictionary types."""
    if not _all_equal(leaf_block(values.slice(0, _FIRST_LOOK).drop_null())):
        return None
    valid = values.drop_null() if values.null_count else values
    if not _all_equal(leaf_block(valid.slice(0, _FIRST_LOOK))) or not _all_equal(leaf_block(valid)):
        return None
    return leaf_block(valid.slice(0, 1))


def _all_equal(block: Block) -> bool:
    if isinstance(block, VariableWidthBlock):
        offsets = np.frombuffer(block.offsets, np.int32 if block.bits_per_offset == 32 else np.int64)
        lengths = np.diff(offsets)
        if len(lengths) == 0 or bool((lengths != lengths[0]).any()):
            return len(lengths) == 0
        return _rows_equal(np.frombuffer(block.data, np.uint8), int(lengths[0]))
    if not isinstance(block, FixedWidthBlock):
        raise TypeError(f"a constant {type(block).__name__}")
    data = np.frombuffer(block.data, np.uint8)
    if block.bits_per_value == 1:
        return _rows_equal(np.unpackbits(data, count=block.num_values, bitorder="little"), 1)
    return _rows_equal(data, block.bits_per_value // 8)


def _rows_equal(data: np.ndarray[Any, np.dtype[np.uint8]], width: int) -> bool:
    """True if all rows of `width` bytes are equal."""
    return width == 0 or bool((data[width:] == data[:-width]).all())
