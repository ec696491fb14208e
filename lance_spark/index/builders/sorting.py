"""The order of values in an index: nulls first, then ascending; floats in IEEE 754 total order, texts by bytes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.encodings.blocks import Int64Array


def is_sortable(dtype: pa.DataType) -> bool:
    """Whether values of a type have an order that `sort_order` knows."""
    tests = (pt.is_boolean, pt.is_integer, pt.is_floating, pt.is_decimal, pt.is_temporal, _has_bytes)
    return any(test(dtype) for test in tests) and not pt.is_interval(dtype)


def _has_bytes(dtype: pa.DataType) -> bool:
    tests = (pt.is_string, pt.is_large_string, pt.is_binary, pt.is_large_binary, pt.is_fixed_size_binary)
    return any(test(dtype) for test in tests)


def sort_order(values: pa.Array) -> Int64Array:
    """int64[n]: the places of the values in index order. Equal values keep their order.

    >>> sort_order(pa.array([1.0, None, float("nan"), -0.0, 0.0])).tolist()
    [1, 3, 4, 0, 2]
    """
    keys = _keys(values)
    if keys is None:
        order: Int64Array = pc.array_sort_indices(values, null_placement="at_start").to_numpy().astype(np.int64)
        return order
    if values.null_count == 0:
        return np.argsort(keys, kind="stable")
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    known = np.flatnonzero(~is_null)
    return np.concatenate([np.flatnonzero(is_null), known[np.argsort(keys[known], kind="stable")]])


def _keys(values: pa.Array) -> npt.NDArray[np.generic] | None:
    """Numbers that order like the values; None for values that are no numbers of a machine word."""
    dtype = values.type
    if pt.is_boolean(dtype) or pt.is_decimal(dtype) or _has_bytes(dtype):
        return None
    return total_order_keys(values)


def total_order_keys(values: pa.Array) -> npt.NDArray[np.generic]:
    """Integers that order like numbers, dates or times of a machine word; arbitrary ones for nulls."""
    dtype = values.type
    width = dtype.bit_width // 8
    data = values.buffers()[1]
    code = f"<{'u' if pt.is_unsigned_integer(dtype) else 'i'}{width}"
    raw = np.frombuffer(data, code)[values.offset : values.offset + len(values)] if data else np.empty(0, code)
    if not pt.is_floating(dtype):
        return raw
    # Negative numbers ascend when all bits but the sign are flipped.
    flipped: npt.NDArray[np.generic] = raw ^ ((raw >> (width * 8 - 1)) & np.array(np.iinfo(raw.dtype).max, raw.dtype))
    return flipped
