"""Dictionary encoding of repeated values of a page.

A sample of the page decides whether to count all values, unless the field's metadata set a limit; the sizes then decide
whether to use the dictionary.
Values are compared bitwise, so -0.0 stays -0.0 and every NaN keeps its payload.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.encodings.blocks import Block
from lance_spark.encodings.hints import EncodingHints
from lance_spark.file_version import FileVersion
from lance_spark.layouts.leaf.values import is_variable, leaf_block

MIN_VALUES = 100
_MAX_ITEMS = 100_000
_SAMPLE_RUNS = 16
_SAMPLE_RUN_VALUES = 128


@dataclass(frozen=True, slots=True)
class DictionaryValues:
    """Indices, one per value (0 for nulls), and the items that they refer to."""

    indices: Block
    items: Block


def requested_dictionary(values: pa.DictionaryArray) -> DictionaryValues:
    """The indices and items of an Arrow dictionary array; unused items are removed if there are many."""
    values = without_unused_items(values)
    return DictionaryValues(leaf_block(values.indices), leaf_block(values.dictionary))


def without_unused_items(values: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same values with a smaller dictionary, if most of its items are unused."""
    return _compacted(values) if len(values.dictionary) > max(2 * len(values), 1000) else values


def _compacted(values: pa.DictionaryArray) -> pa.DictionaryArray:
    used, inverse = np.unique(values.indices.fill_null(0).to_numpy(zero_copy_only=False), return_inverse=True)
    indices = pa.array(inverse, values.type.index_type, mask=np.asarray(values.is_null()))
    return pa.DictionaryArray.from_arrays(indices, values.dictionary.take(pa.array(used)))


def repeating_values(
    values: pa.Array, version: FileVersion, plain_bytes: int, hints: EncodingHints
) -> DictionaryValues | None:
    """A dictionary of the distinct values, if significantly smaller than `plain_bytes`.

    Only for byte strings and values of 128 bits, from version 2.2 on also of 64 bits.
    """
    dtype = values.type
    if len(values) < MIN_VALUES or not _can_have_dictionary(dtype, version):
        return None
    if not is_variable(dtype) and dtype.bit_width == 64:
        values = values.view(pa.int64())
    if not hints.counts_distinct:
        distinct = _distinct_in_sample(values)
        if distinct is None or len(values) * _index_bits(distinct) // 8 >= hints.dict_size_ratio * plain_bytes:
            return None
    encoded = pc.dictionary_encode(values)
    num_items = len(encoded.dictionary)
    if num_items > min(_MAX_ITEMS, len(values) // hints.dict_divisor):
        return None
    if not dictionary_pays(len(values), num_items, encoded.dictionary.nbytes, plain_bytes, hints):
        return None
    return DictionaryValues(leaf_block(encoded.indices), leaf_block(encoded.dictionary))


def dictionary_pays(num_values: int, num_items: int, item_bytes: int, plain_bytes: int, hints: EncodingHints) -> bool:
    """Whether indices and items are significantly smaller than `plain_bytes`."""
    return num_values * _index_bits(num_items) // 8 + item_bytes < hints.dict_size_ratio * plain_bytes


def _can_have_dictionary(dtype: pa.DataType, version: FileVersion) -> bool:
    if is_variable(dtype):
        return True
    if pa.types.is_nested(dtype) or pa.types.is_boolean(dtype):
        return False
    bits = dtype.bit_width
    return bool(bits == 128 or (bits == 64 and version is not FileVersion.V2_1))


def _index_bits(num_items: int) -> int:
    return max(1, (num_items - 1).bit_length())


def _distinct_in_sample(values: pa.Array) -> int | None:
    """Distinct values in a sample of short runs of the page, or None if more than half of them are distinct."""
    step = max(len(values) // _SAMPLE_RUNS, _SAMPLE_RUN_VALUES)
    runs = [values.slice(start, _SAMPLE_RUN_VALUES) for start in range(0, len(values), step)]
    sample = pa.concat_arrays(runs).drop_null()
    distinct = int(pc.count_distinct(sample).as_py())
    return distinct if 2 * distinct <= len(sample) else None
