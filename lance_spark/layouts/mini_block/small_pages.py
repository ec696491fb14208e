"""Mini-block pages of few values without nulls and lists, byte by byte as the general way makes them, in fewer steps.

A page of another kind, or one for which another layout could be better, is left to the general way (`layouts.choose`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from lance_spark.encodings.base import BlockEncoding, MiniBlockEncoding
from lance_spark.encodings.blocks import VariableWidthBlock
from lance_spark.encodings.choose import MIN_FSST_BYTES, choose_block
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.hints import NO_REQUESTS
from lance_spark.encodings.inline_bitpacking import InlineBitpacking
from lance_spark.encodings.rle import Rle
from lance_spark.file_version import FileVersion
from lance_spark.kernels.layouts.small_pages import (
    FLAT,
    MAX_VALUES,
    PACKED,
    WORK_BYTES,
    distinct_strings,
    write_small_page,
)
from lance_spark.layouts.dictionary_pages import MIN_VALUES, dictionary_pays
from lance_spark.layouts.mini_block.layout import MiniBlockLayout
from lance_spark.layouts.page_bytes import PageBytes
from lance_spark.layouts.repdef import RepDefLayer

_FULL_ZIP_BYTES = 256
_HEADER_BYTES = 32
_INDEX_BYTES = 4
_SLACK_BYTES = 8
_AS_INDEX, _NEVER = -1, 0


def small_page(values: pa.Array, depth: int, version: FileVersion) -> PageBytes | None:
    """A page of values none of which is null; None if it is not for this module.

    Args:
        depth: the structs around the values, and one.
    """
    dtype = values.type
    if not 0 < len(values) <= MAX_VALUES:
        return None
    if pt.is_string(dtype) or pt.is_binary(dtype):
        return _strings(values, depth, version)
    word_bytes = _word_bytes(dtype)
    data = values.buffers()[1] if word_bytes else None
    if data is None or data.size < (values.offset + len(values)) * word_bytes:
        return None
    from_values = MIN_VALUES if word_bytes == 8 and version is not FileVersion.V2_1 else _NEVER
    source = data.address + values.offset * word_bytes
    chunk = _chunk(source, len(values), word_bytes, version, from_values)
    if chunk is None:
        return None
    encoding, buffers = chunk
    return PageBytes(len(values), _layout(encoding, depth, len(values), version), buffers)


def _word_bytes(dtype: pa.DataType) -> int:
    """Bytes of a value that is one word, 0 for other types."""
    words = (pt.is_integer, pt.is_floating, pt.is_temporal, pt.is_decimal)
    is_word = any(kind(dtype) for kind in words) and not pt.is_interval(dtype) and dtype.bit_width <= 64
    return int(dtype.bit_width) // 8 if is_word else 0


def _chunk(
    source: int, num_values: int, word_bytes: int, version: FileVersion, from_values: int
) -> tuple[MiniBlockEncoding, tuple[pa.Buffer, pa.Buffer]] | None:
    """The encoding of some words, and the chunk word and the chunk."""
    large = version is not FileVersion.V2_1
    target = pa.allocate_buffer(num_values * word_bytes + _HEADER_BYTES)
    work = pa.allocate_buffer(WORK_BYTES)
    written = write_small_page(source, num_values, word_bytes, large, from_values, work.address, target.address)
    if written < 0:
        return None
    size = written >> 2
    word = ((size // 8 - 1) << 4).to_bytes(4 if large else 2, "little")
    return _ENCODINGS[written & 3, word_bytes], (pa.py_buffer(word), target.slice(0, size))


_ENCODINGS: dict[tuple[int, int], MiniBlockEncoding] = {
    (kind, bits // 8): (Flat(bits) if kind == FLAT else InlineBitpacking(bits) if kind == PACKED else Rle(bits))
    for kind in range(3)
    for bits in (8, 16, 32, 64)
}


def _layout(
    values: MiniBlockEncoding,
    depth: int,
    num_values: int,
    version: FileVersion,
    dictionary: BlockEncoding | None = None,
    num_items: int = 0,
) -> MiniBlockLayout:
    layers = (RepDefLayer.ALL_VALID_ITEM,) * depth
    large = version is not FileVersion.V2_1
    return MiniBlockLayout(values, layers, num_values, large, None, None, dictionary, num_items)


def _strings(values: pa.Array, depth: int, version: FileVersion) -> PageBytes | None:
    """A page with a dictionary, if that is smaller."""
    count = len(values)
    _, offsets, data = values.buffers()
    if count < MIN_VALUES or data is None or offsets.size < (values.offset + count + 1) * 4:
        return None
    ends = np.frombuffer(offsets, np.int32, count + 1, values.offset * 4)
    num_bytes = int(ends[count]) - int(ends[0])
    if not 0 <= num_bytes < min(MIN_FSST_BYTES, _FULL_ZIP_BYTES * count):
        return None
    places = pa.allocate_buffer(_INDEX_BYTES * (2 * count + 1) + 4 * MAX_VALUES)
    indices = places.address
    item_ends = indices + _INDEX_BYTES * count
    items = pa.allocate_buffer(num_bytes + _SLACK_BYTES)
    num_items = distinct_strings(
        offsets.address + values.offset * 4,
        data.address,
        data.size,
        count,
        count // NO_REQUESTS.dict_divisor,
        item_ends + _INDEX_BYTES * (count + 1),
        indices,
        item_ends,
        items.address,
    )
    if num_items < 1 or (num_items == 1 and version is not FileVersion.V2_1):
        return None
    item_offsets = places.slice(_INDEX_BYTES * count, 4 * (num_items + 1))
    item_bytes = int(np.frombuffer(item_offsets, np.int32)[num_items])
    plain_bytes = 4 * (count + 1) + num_bytes
    if not dictionary_pays(count, num_items, item_offsets.size + item_bytes, plain_bytes, NO_REQUESTS):
        return None
    chunk = _chunk(indices, count, _INDEX_BYTES, version, _AS_INDEX)
    if chunk is None:
        return None
    encoding, buffers = chunk
    block = VariableWidthBlock(item_offsets, items.slice(0, item_bytes), 32, num_items)
    dictionary = choose_block(block, version)
    layout = _layout(encoding, depth, count, version, dictionary.encoding, num_items)
    return PageBytes(count, layout, (*buffers, dictionary.data))
