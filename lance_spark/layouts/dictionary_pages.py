"""Dictionary encoding of repeated values of a page.

A sample of a large page decides whether to count all values, unless the field's metadata set a limit; the sizes then
decide whether to use the dictionary.
Values are compared bitwise, so -0.0 stays -0.0 and every NaN keeps its payload.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.encodings.blocks import Block, FixedWidthBlock, VariableWidthBlock
from lance_spark.encodings.hints import EncodingHints
from lance_spark.file_version import FileVersion
from lance_spark.kernels.distinct import distinct_values
from lance_spark.kernels.jit import address_of
from lance_spark.layouts.arrow_take import take
from lance_spark.layouts.leaf.values import is_variable, leaf_block

_MIN_VALUES = 100
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
    values: pa.Array, block: Block, version: FileVersion, plain_bytes: int, hints: EncodingHints
) -> DictionaryValues | None:
    """A dictionary of the distinct values, if significantly smaller than `plain_bytes`.

    Only for byte strings and values of 128 bits, from version 2.2 on also of 64 bits.

    Args:
        block: `leaf_block` of the values.
    """
    count = len(values)
    if count < _MIN_VALUES or not _can_have_dictionary(values.type, version):
        return None
    most = min(_MAX_ITEMS, count // hints.dict_divisor)
    if not hints.counts_distinct:
        if count <= _SAMPLE_RUNS * _SAMPLE_RUN_VALUES:
            most = min(most, (count - values.null_count) // 2)
        else:
            distinct = _distinct_in_sample(values)
            if distinct is None or count * _index_bits(distinct) // 8 >= hints.dict_size_ratio * plain_bytes:
                return None
    encoded = _encoded(values, block, most)
    return encoded if encoded is not None and _pays(encoded, plain_bytes, hints) else None


def _encoded(values: pa.Array, block: Block, max_items: int) -> DictionaryValues | None:
    """A dictionary of the distinct values, in the order in which they first occur; None if they are too many."""
    offsets, offset_bytes, value_bytes = 0, 0, 0
    if isinstance(block, VariableWidthBlock):
        offsets, offset_bytes = block.offsets.address, block.bits_per_offset // 8
    else:
        assert isinstance(block, FixedWidthBlock)
        value_bytes = block.bits_per_value // 8
    slot_bits = max_items.bit_length() + 1
    slots = np.zeros(1 << slot_bits, np.int32)
    indices = pa.allocate_buffer(4 * len(values))
    firsts = np.empty(max_items, np.int64)
    validity = values.buffers()[0] if values.null_count else None
    num_items = distinct_values(
        offsets,
        offset_bytes,
        block.data.address,
        block.data.size,
        value_bytes,
        len(values),
        0 if validity is None else validity.address,
        values.offset,
        max_items,
        address_of(slots),
        slot_bits,
        indices.address,
        address_of(firsts),
    )
    if num_items < 0:
        return None
    return DictionaryValues(FixedWidthBlock(indices, 32, len(values)), leaf_block(take(values, firsts[:num_items])))


def _pays(encoded: DictionaryValues, plain_bytes: int, hints: EncodingHints) -> bool:
    """Whether indices and items are significantly smaller than `plain_bytes`."""
    items = encoded.items
    assert isinstance(items, (FixedWidthBlock, VariableWidthBlock))
    offset_bytes = items.offsets.size if isinstance(items, VariableWidthBlock) else 0
    index_bytes = encoded.indices.num_values * _index_bits(items.num_values) // 8
    return bool(index_bytes + offset_bytes + items.data.size < hints.dict_size_ratio * plain_bytes)


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
