"""Take and filter on Arrow arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.encodings.blocks import Int64Array
from lance_spark.kernels.bits import keep_words


def take(array: pa.Array, places: Int64Array) -> pa.Array:
    """A copy of the values at the indices `places`, which must be in range.

    pyarrow's own `take` (seen in 26.0) returns uninitialised memory for fixed-size lists of fixed-size lists of numbers
    with nulls. Slices of such arrays are concatenated instead.
    """
    if not _has_nested_fixed_size_list(array.type) or len(places) == 0:
        return pc.take(array, pa.array(places), boundscheck=False)
    breaks = np.flatnonzero(np.diff(places) != 1) + 1
    starts = np.concatenate([[0], breaks])
    lengths = np.diff(np.append(starts, len(places)))
    runs = zip(places[starts].tolist(), lengths.tolist(), strict=True)
    return pa.concat_arrays([array.slice(start, length) for start, length in runs])


def take_chunked(column: pa.ChunkedArray, places: Int64Array) -> pa.ChunkedArray:
    """A copy of the values of a column at the indices `places`, which must be in range."""
    if not _has_nested_fixed_size_list(column.type) or column.num_chunks == 0:
        return column.take(pa.array(places))
    return pa.chunked_array([take(pa.concat_arrays(column.chunks), places)], column.type)


def filter_chunked(column: pa.ChunkedArray, keep: pa.ChunkedArray) -> pa.ChunkedArray:
    """A copy of the values of a column where `keep` (bool, same length, no nulls) is true."""
    if column.num_chunks == keep.num_chunks == 1 and len(column) == len(keep) and _is_plain(column.chunk(0)):
        return pa.chunked_array([_filter_words(column.chunk(0), keep.chunk(0))], column.type)
    if not _has_nested_fixed_size_list(column.type):
        return column.filter(keep)
    return take_chunked(column, np.flatnonzero(keep.to_numpy()))


def _is_plain(array: pa.Array) -> bool:
    """Whether an array is words of 1 to 8 bytes, without nulls."""
    dtype = array.type
    return pa.types.is_primitive(dtype) and dtype.bit_width in (8, 16, 32, 64) and array.null_count == 0


def _filter_words(array: pa.Array, keep: pa.BooleanArray) -> pa.Array:
    """In half of the time of pyarrow's filter where many values in no order are kept."""
    width, count = array.type.bit_width // 8, keep.true_count
    data, bits = array.buffers()[1], keep.buffers()[1]
    if count == 0 or data is None:
        return array.slice(0, 0)
    target = pa.allocate_buffer((count + 1) * width)
    chosen = bits.address + (keep.offset >> 3), keep.offset & 7, len(keep)
    keep_words(data.address + array.offset * width, width, *chosen, target.address)
    return pa.Array.from_buffers(array.type, count, [None, target.slice(0, count * width)])


def _has_nested_fixed_size_list(dtype: pa.DataType) -> bool:
    if pa.types.is_fixed_size_list(dtype) and pa.types.is_fixed_size_list(dtype.value_type):
        return True
    return any(_has_nested_fixed_size_list(dtype.field(number).type) for number in range(dtype.num_fields))
