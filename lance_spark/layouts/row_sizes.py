"""In-memory sizes of the rows of a leaf column, to choose page boundaries before encoding."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from lance_spark.layouts.leaf.values import is_variable
from lance_spark.layouts.shred import storage_of

_ITEM_BYTES = 4
"""Overhead of a list: its levels, as Arrow has an offset."""


class RowSizes:
    """The bytes of the first n rows of one leaf, for any n, without a pass over the rows.

    Args:
        array: values of a top-level field.
        steps: child indices from there to the leaf, as in `shred`.
        value_bytes: bytes per value at the end of that path; None for those of the leaf itself.
    """

    def __init__(self, array: pa.Array, steps: Sequence[int], value_bytes: int | None = None) -> None:
        self._num_rows = len(array)
        self._layers: list[Callable[[int], tuple[int, int]]] = []
        array = storage_of(array)
        for step in steps:
            array = storage_of(self._enter(array, step))
        self._leaf = _leaf_bytes(array) if value_bytes is None else _equal_bytes(value_bytes)
        self._first = self._bytes_to(0)

    def before(self, row: int) -> int:
        """Bytes of the rows before `row`."""
        return self._bytes_to(row) - self._first

    def rows_within(self, start: int, num_bytes: int) -> int:
        """The last row `stop` >= `start` for which the rows start..stop take at most `num_bytes`."""
        limit = self.before(start) + num_bytes
        low, high = start, self._num_rows
        if self.before(high) <= limit:
            return high
        while low < high:
            middle = (low + high + 1) // 2
            if self.before(middle) <= limit:
                low = middle
            else:
                high = middle - 1
        return low

    def _bytes_to(self, row: int) -> int:
        position, total = row, 0
        for layer in self._layers:
            position, own = layer(position)
            total += own
        return total + self._leaf(position)

    def _enter(self, array: pa.Array, step: int) -> pa.Array:
        if pa.types.is_struct(array.type):
            return array.field(step)
        if pa.types.is_fixed_size_list(array.type):
            dimension, offset = array.type.list_size, array.offset
            self._layers.append(lambda position: ((position + offset) * dimension, 0))
            return array.values
        if len(array) == 0:
            return array.values
        kind = np.dtype("<i8" if pa.types.is_large_list(array.type) else "<i4")
        offsets = np.frombuffer(array.buffers()[1], kind, len(array) + 1, array.offset * kind.itemsize)
        self._layers.append(lambda position: (int(offsets[position]), position * _ITEM_BYTES))
        return array.values


def word_bits(dtype: pa.DataType) -> int:
    """Bits of each value, 0 where values differ in size or have none."""
    return 0 if isinstance(dtype, pa.BaseExtensionType) else _value_bits(dtype)


def _equal_bytes(value_bytes: int) -> Callable[[int], int]:
    return lambda position: position * value_bytes


def _leaf_bytes(leaf: pa.Array) -> Callable[[int], int]:
    """Bytes of the first n values of a leaf array, plus a constant."""
    if is_variable(leaf.type) and len(leaf):
        wide = pa.types.is_large_string(leaf.type) or pa.types.is_large_binary(leaf.type)
        kind = np.dtype("<i8" if wide else "<i4")
        offsets = np.frombuffer(leaf.buffers()[1], kind, len(leaf) + 1, leaf.offset * kind.itemsize)
        return lambda position: int(offsets[position]) + position * kind.itemsize
    if pa.types.is_struct(leaf.type):
        children = [_leaf_bytes(leaf.field(number)) for number in range(leaf.type.num_fields)]
        return lambda position: sum(child(position) for child in children)
    bits = _value_bits(leaf.type)
    return lambda position: position * bits // 8


def _value_bits(dtype: pa.DataType) -> int:
    if pa.types.is_fixed_size_list(dtype):
        return int(dtype.list_size) * _value_bits(dtype.value_type)
    if pa.types.is_dictionary(dtype):
        return int(dtype.index_type.bit_width)
    if pa.types.is_nested(dtype) or pa.types.is_null(dtype) or is_variable(dtype):
        return 0
    return int(dtype.bit_width)
