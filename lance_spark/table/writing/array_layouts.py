"""Arrays whose layout Lance does not have, in plain layouts.

pyarrow's casts of list views (seen in 26.0) give other rows than the views have, and it decodes neither runs nor
dictionaries of views.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import InvalidInputError
from lance_spark.layouts.arrow_take import take

_MAX_INT32 = (1 << 31) - 1


def run_values(array: pa.RunEndEncodedArray, values: pa.Array) -> pa.Array:
    """The rows of an array of runs, whose values are `values`."""
    ends = np.asarray(array.run_ends).astype(np.int64)
    lengths = np.diff(np.clip(ends - array.offset, 0, len(array)), prepend=0)
    return take(values, np.repeat(np.arange(len(ends)), lengths))


def dictionary_values(array: pa.DictionaryArray, values: pa.Array) -> pa.Array:
    """The rows of a dictionary array, whose dictionary is `values`."""
    places = array.indices.cast(pa.int64()).fill_null(len(values)).to_numpy()
    return take(pa.concat_arrays([values, pa.nulls(1, values.type)]), places)


def encoded(array: pa.Array, dtype: pa.DictionaryType) -> pa.DictionaryArray:
    """`array`, plain values of `dtype` or a dictionary array with such a dictionary, as `dtype`.

    Raises:
        pa.ArrowInvalid: there are more different values than the indices of `dtype` can number.
    """
    if not pt.is_dictionary(array.type):
        array = array.dictionary_encode()
    indices = array.indices.cast(dtype.index_type)
    return pa.DictionaryArray.from_arrays(indices, array.dictionary, ordered=dtype.ordered)


def view_items(array: pa.Array) -> tuple[Int64Array, Int64Array]:
    """(number of items of each list, places of all items in order) of an array of list views; nulls have no items."""
    sizes = np.where(_valid(array), np.asarray(array.sizes), 0).astype(np.int64)
    ends = np.cumsum(sizes)
    starts = np.asarray(array.offsets)[: len(array)].astype(np.int64)
    places = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - sizes), sizes)
    return sizes, places


def fixed_size_items(array: pa.FixedSizeListArray) -> tuple[Int64Array, Int64Array]:
    """Same as `view_items`, for an array of lists of one size."""
    size = array.type.list_size
    valid = _valid(array)
    places = np.arange(len(array) * size).reshape(len(array), size)[valid] + array.offset * size
    return valid * np.int64(size), places.reshape(-1)


def lists_of(array: pa.Array, sizes: Int64Array, items: pa.Array, dtype: pa.DataType) -> pa.Array:
    """The lists of `array` in the type `dtype`, list or large list.

    Args:
        sizes: number of items of each.
        items: of all of them, in the type of items of `dtype`.
    """
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    if not pt.is_large_list(dtype) and ends[-1] > _MAX_INT32:
        raise InvalidInputError(f"{ends[-1]} items of lists are in one batch; write smaller batches")
    offsets = pa.array(ends.astype(np.int64 if pt.is_large_list(dtype) else np.int32))
    flavour = pa.LargeListArray if pt.is_large_list(dtype) else pa.ListArray
    return flavour.from_arrays(offsets, items, type=dtype, mask=array.is_null() if array.null_count else None)


def _valid(array: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.asarray(array.is_valid())
