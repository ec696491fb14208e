"""Which values of two columns are the same: nulls equal nulls, NaNs equal NaNs of the same bits, at any depth."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.layouts.arrow_take import take

BoolArray = npt.NDArray[np.bool_]

_BITS = {16: np.uint16, 32: np.uint32, 64: np.uint64}


def equal_values(left: pa.Array, right: pa.Array) -> BoolArray:
    """bool[n]: whether the values at each place are the same; both arrays have n values of one type.

    >>> nan = float("nan")
    >>> equal_values(pa.array([[1.0, nan], None, [], [None]]), pa.array([[1.0, nan], None, None, [0.0]])).tolist()
    [True, True, False, False]
    """
    valid_left, valid_right = _is_valid(left), _is_valid(right)
    both = valid_left & valid_right
    result: BoolArray = valid_left == valid_right
    if not both.any():
        return result
    if not both.all():
        left, right = (take(array, np.flatnonzero(both)) for array in (left, right))
    result[both] = _equal_valid(left, right)
    return result


def _equal_valid(left: pa.Array, right: pa.Array) -> BoolArray:
    """Same as `equal_values`, for arrays without nulls at the top."""
    dtype = left.type
    if isinstance(dtype, pa.BaseExtensionType):
        return _equal_valid(left.storage, right.storage)
    if pt.is_dictionary(dtype):
        return equal_values(left.dictionary_decode(), right.dictionary_decode())
    if pt.is_floating(dtype):
        same: BoolArray = _as_bits(left) == _as_bits(right)
        return same
    if pt.is_struct(dtype):
        result = np.ones(len(left), np.bool_)
        for number in range(dtype.num_fields):
            result &= equal_values(left.field(number), right.field(number))
        return result
    if pt.is_map(dtype):
        return _equal_valid(_as_list(left), _as_list(right))
    if pt.is_list(dtype) or pt.is_large_list(dtype):
        return _equal_lists(left, right)
    if pt.is_fixed_size_list(dtype):
        items = equal_values(left.flatten(), right.flatten())
        whole: BoolArray = np.logical_and.reduce(items.reshape(len(left), dtype.list_size), axis=1)
        return whole
    return _to_bools(pc.equal(left, right))


def _equal_lists(left: pa.Array, right: pa.Array) -> BoolArray:
    lengths = pc.list_value_length(left).to_numpy(zero_copy_only=False)
    result: BoolArray = lengths == pc.list_value_length(right).to_numpy(zero_copy_only=False)
    if not result.all():
        lengths = lengths[result]
        left, right = (take(array, np.flatnonzero(result)) for array in (left, right))
    different = np.concatenate([np.zeros(1, np.int64), np.cumsum(~equal_values(left.flatten(), right.flatten()))])
    ends = np.cumsum(lengths, dtype=np.int64)
    result[result] = different[ends] == different[ends - lengths]
    return result


def _as_list(array: pa.MapArray) -> pa.ListArray:
    entries = pa.StructArray.from_arrays([array.keys, array.items], names=["key", "value"])
    list_type = pa.list_(entries.type)
    return pa.Array.from_buffers(list_type, len(array), array.buffers()[:2], offset=array.offset, children=[entries])


def _as_bits(array: pa.Array) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values.view(_BITS[array.type.bit_width])


def _is_valid(array: pa.Array) -> BoolArray:
    return _to_bools(array.is_valid())


def _to_bools(array: pa.Array) -> BoolArray:
    return np.asarray(array.to_numpy(zero_copy_only=False), np.bool_)
