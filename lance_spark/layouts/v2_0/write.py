"""Encodes pages of file version 2.0 (`lance.encodings.ArrayEncoding`).

Every field owns a column: a leaf has its values, a list the ends of its lists, a struct only a number of rows. A page
is one message and the buffers that it refers to by number.

Strings get a dictionary if few of them are distinct. FSST and compression are used only where the field's metadata
request them: readers of the releases that wrote 2.0 decode them slowly or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark._proto import encodings_v2_0_pb2 as pb
from lance_spark.encodings.blocks import (
    Block,
    Chunks,
    FixedSizeListBlock,
    FixedWidthBlock,
    Int64Array,
    PackedStructBlock,
    VariableWidthBlock,
)
from lance_spark.encodings.fsst import Fsst
from lance_spark.encodings.hints import EncodingHints
from lance_spark.errors import InvalidInputError
from lance_spark.layouts.dictionary_pages import without_unused_items
from lance_spark.layouts.leaf.values import is_variable, leaf_block, validity_bits
from lance_spark.layouts.page_bytes import PageBytes
from lance_spark.schema.number_types import numpy_type

_MIN_DICTIONARY_VALUES = 100
_MAX_DICTIONARY_ITEMS = 99
"""As in the reference library; codes have 8 bits and 0 is null, so 255 is the limit of the format."""
_SAMPLE_VALUES = 1024
NULL_POSITION = 1
"""The position of a null in a blob column; its size is 0."""
NULL_LIST = -1
"""The length of a null list."""


@dataclass(frozen=True, slots=True)
class ArrayPage:
    """The description of a page."""

    message: pb.ArrayEncoding

    def __hash__(self) -> int:
        # Messages have no hash of their own.
        return hash(self.message.SerializeToString(deterministic=True))

    def to_proto(self) -> Any:
        """The `ArrayEncoding`."""
        return self.message


@dataclass(slots=True)
class _Page:
    """A page under construction."""

    hints: EncodingHints
    buffers: list[pa.Buffer] = field(default_factory=list)

    def add(self, data: pa.Buffer) -> pb.Buffer:
        self.buffers.append(data)
        return pb.Buffer(buffer_index=len(self.buffers) - 1, buffer_type=pb.Buffer.BufferType.page)

    def finish(self, num_values: int, message: pb.ArrayEncoding, num_rows: int) -> PageBytes:
        return PageBytes(num_values, ArrayPage(message), tuple(self.buffers), num_rows)


def encode_leaf_page(values: pa.Array, metadata: Mapping[str, bytes], num_rows: int) -> PageBytes:
    """The page of a leaf column: a field without children, a fixed-size list, or a packed struct.

    Args:
        values: of the field, none of them below a null list.
        metadata: of the field.
        num_rows: rows of the file that they belong to.
    """
    page = _Page(EncodingHints.of(metadata))
    return page.finish(len(values), _leaf(page, values), num_rows)


def encode_blob_page(places: pa.StructArray, num_rows: int) -> PageBytes:
    """The page of a blob column: position and size of values that are written already (`layouts.v2_0.blob`).

    Args:
        places: struct<position, size>, null for nulls.
        num_rows: rows of the file that they belong to.
    """
    page = _Page(EncodingHints.of({}))
    if places.null_count:
        null = pa.scalar({"position": NULL_POSITION, "size": 0}, places.type)
        places = pc.if_else(places.is_valid(), places, null)
    return page.finish(len(places), _struct(page, places), num_rows)


def encode_struct_page(num_values: int, num_rows: int) -> PageBytes:
    """The page of a struct column."""
    message = pb.ArrayEncoding(struct=pb.SimpleStruct())
    return PageBytes(num_values, ArrayPage(message), (), num_rows)


def encode_list_page(lengths: Int64Array, num_rows: int) -> PageBytes:
    """The page of a list column; the items are in the next column.

    Args:
        lengths: items of each list, or `NULL_LIST`.
        num_rows: rows of the file that they belong to.
    """
    page = _Page(EncodingHints.of({}))
    nulls = lengths == NULL_LIST
    ends = np.cumsum(np.where(nulls, 0, lengths)).astype(np.uint64)
    num_items = int(ends[-1]) if len(ends) else 0
    ends[nulls] += np.uint64(num_items + 1)
    offsets = _valid(_flat(page, FixedWidthBlock(pa.py_buffer(ends), 64, len(ends))))
    message = pb.List(offsets=offsets, null_offset_adjustment=num_items + 1, num_items=num_items)
    return page.finish(len(lengths), pb.ArrayEncoding(list=message), num_rows)


def list_lengths(lists: pa.Array) -> Int64Array:
    """The items of each list, `NULL_LIST` for nulls.

    Raises:
        InvalidInputError: the offsets decrease.
    """
    wide = pa.types.is_large_list(lists.type)
    kind = np.dtype(np.int64 if wide else np.int32)
    if len(lists) == 0:
        return np.zeros(0, np.int64)
    offsets = np.frombuffer(lists.buffers()[1], kind, len(lists) + 1, lists.offset * kind.itemsize)
    lengths: Int64Array = np.subtract(offsets[1:], offsets[:-1], dtype=np.int64)
    if bool((lengths < 0).any()):
        raise InvalidInputError("the offsets of a list array fall; validate the array")
    if lists.null_count:
        lengths[np.asarray(lists.is_null())] = NULL_LIST
    return lengths


def visible_items(lists: pa.Array) -> pa.Array:
    """The items of the lists that are not null, in order."""
    if lists.null_count == 0:
        return lists.flatten()
    lengths = list_lengths(lists)
    kind = np.dtype(np.int64 if pa.types.is_large_list(lists.type) else np.int32)
    offsets = np.frombuffer(lists.buffers()[1], kind, len(lists) + 1, lists.offset * kind.itemsize)
    first, last = int(offsets[0]), int(offsets[-1])
    if last - first == int(lengths[lengths != NULL_LIST].sum()):
        return lists.values.slice(first, last - first)
    return lists.flatten()


def _leaf(page: _Page, values: pa.Array) -> pb.ArrayEncoding:
    dtype = values.type
    if pa.types.is_struct(dtype):
        return _struct(page, values)
    if pa.types.is_dictionary(dtype):
        return _arrow_dictionary(page, values)
    if is_variable(dtype):
        return _text(page, values)
    if pa.types.is_null(dtype) or values.null_count == len(values):
        return pb.ArrayEncoding(nullable=pb.Nullable(all_nulls=pb.Nullable.AllNull()))
    return _nullable(page, validity_bits(values), leaf_block(values))


def _nullable(page: _Page, validity: pa.Buffer | None, block: Block) -> pb.ArrayEncoding:
    if validity is None:
        return _valid(_items(page, block))
    bits = _flat(page, FixedWidthBlock(validity, 1, block.num_values))
    some = pb.Nullable.SomeNull(validity=bits, values=_items(page, block))
    return pb.ArrayEncoding(nullable=pb.Nullable(some_nulls=some))


def _valid(values: pb.ArrayEncoding) -> pb.ArrayEncoding:
    return pb.ArrayEncoding(nullable=pb.Nullable(no_nulls=pb.Nullable.NoNull(values=values)))


def _items(page: _Page, block: Block) -> pb.ArrayEncoding:
    if isinstance(block, FixedSizeListBlock):
        items = _nullable(page, block.validity, block.items)
        return pb.ArrayEncoding(fixed_size_list=pb.FixedSizeList(dimension=block.dimension, items=items))
    if not isinstance(block, FixedWidthBlock):
        raise InvalidInputError("a fixed-size list in a file of version 2.0 holds values of equal width")
    return _flat(page, block)


def _flat(page: _Page, block: FixedWidthBlock) -> pb.ArrayEncoding:
    size = (block.num_values * block.bits_per_value + 7) // 8
    flat = pb.Flat(bits_per_value=block.bits_per_value, buffer=page.add(block.data.slice(0, size)))
    return pb.ArrayEncoding(flat=flat)


def _text(page: _Page, values: pa.Array) -> pb.ArrayEncoding:
    if page.hints.general is None and page.hints.name != "fsst":
        repeating = _repeating(values)
        if repeating is not None:
            return _repeating_text(page, *repeating)
    validity = np.asarray(values.is_valid()) if values.null_count else None
    block = leaf_block(values)
    assert isinstance(block, VariableWidthBlock)
    if page.hints.name == "fsst" and block.data.size:
        encoded = Fsst.encode_values(block)
        codes = encoded.block
        assert isinstance(codes, VariableWidthBlock)
        binary = _binary(page, codes, validity)
        return pb.ArrayEncoding(fsst=pb.Fsst(binary=binary, symbol_table=encoded.encoding.symbol_table))
    return _binary(page, block, validity)


def _binary(
    page: _Page, block: VariableWidthBlock, validity: np.ndarray[Any, np.dtype[np.bool_]] | None = None
) -> pb.ArrayEncoding:
    kind = np.dtype(f"<i{block.bits_per_offset // 8}")
    ends = np.frombuffer(block.offsets, kind, block.num_values, kind.itemsize).astype(np.uint64)
    num_bytes = int(ends[-1]) if len(ends) else 0
    if validity is not None:
        ends[~validity] += np.uint64(num_bytes + 1)
    indices = _valid(_flat(page, FixedWidthBlock(pa.py_buffer(ends), 64, len(ends))))
    data = _bytes(page, block.data.slice(0, num_bytes))
    return pb.ArrayEncoding(binary=pb.Binary(indices=indices, bytes=data, null_adjustment=num_bytes + 1))


def _bytes(page: _Page, data: pa.Buffer) -> pb.ArrayEncoding:
    general = page.hints.general
    if general is None or data.size == 0:
        return _flat(page, FixedWidthBlock(data, 8, data.size))
    compressed = general.compress(Chunks.single(data, data.size)).data
    scheme = pb.Compression(scheme=general.scheme.name.lower(), level=general.level)
    return pb.ArrayEncoding(flat=pb.Flat(bits_per_value=8, buffer=page.add(compressed), compression=scheme))


def _repeating(values: pa.Array) -> tuple[pa.Array, pa.Array] | None:
    """Codes and distinct values, if there are few; only of strings, the one type that readers expect them for."""
    if not pa.types.is_string(values.type) or len(values) < _MIN_DICTIONARY_VALUES:
        return None
    if pc.count_distinct(values.slice(0, _SAMPLE_VALUES)).as_py() > _MAX_DICTIONARY_ITEMS:
        return None
    encoded = pc.dictionary_encode(values)
    if not 0 < len(encoded.dictionary) <= _MAX_DICTIONARY_ITEMS:
        return None
    return encoded.indices, encoded.dictionary


def _repeating_text(page: _Page, indices: pa.Array, items: pa.Array) -> pb.ArrayEncoding:
    """Strings as codes of 8 bits: 0 is null, code k the item k - 1."""
    codes = pc.fill_null(pc.add(indices, 1), 0).cast(pa.uint8())
    block = leaf_block(items)
    assert isinstance(block, VariableWidthBlock)
    dictionary = pb.Dictionary(
        indices=_valid(_flat(page, _fixed(codes))), items=_binary(page, block), num_dictionary_items=len(items)
    )
    return pb.ArrayEncoding(dictionary=dictionary)


def _fixed(values: pa.Array) -> FixedWidthBlock:
    block = leaf_block(values)
    assert isinstance(block, FixedWidthBlock)
    return block


def _arrow_dictionary(page: _Page, values: pa.DictionaryArray) -> pb.ArrayEncoding:
    """Codes of the type's width. Nulls are an item of the dictionary: the reference library reads no null codes."""
    values = without_unused_items(values)
    items, codes = values.dictionary, values.indices
    if codes.null_count:
        _require_free_code(values.type, len(items))
        codes = pc.fill_null(codes, pa.scalar(len(items), codes.type))
        items = pa.concat_arrays([items, pa.nulls(1, items.type)])
    indices = _valid(_flat(page, _fixed(codes)))
    plain = _Page(EncodingHints.of({}), page.buffers)
    encoded = _dictionary_items(plain, items)
    return pb.ArrayEncoding(dictionary=pb.Dictionary(indices=indices, items=encoded, num_dictionary_items=len(items)))


def _require_free_code(dtype: pa.DictionaryType, num_items: int) -> None:
    if num_items > np.iinfo(numpy_type(dtype.index_type)).max:
        raise InvalidInputError(
            f"a dictionary of {num_items} items leaves indices of type {dtype.index_type} no value for null in a file "
            "of version 2.0; use wider indices"
        )


def _dictionary_items(page: _Page, items: pa.Array) -> pb.ArrayEncoding:
    block = leaf_block(items)
    if isinstance(block, VariableWidthBlock):
        return _binary(page, block, np.asarray(items.is_valid()) if items.null_count else None)
    return _nullable(page, validity_bits(items), block)


def _struct(page: _Page, values: pa.StructArray) -> pb.ArrayEncoding:
    if values.type.num_fields == 0:
        return pb.ArrayEncoding(struct=pb.SimpleStruct())
    block = leaf_block(values)
    assert isinstance(block, PackedStructBlock)
    buffer = pb.Buffer(buffer_index=0, buffer_type=pb.Buffer.BufferType.page)
    rows = np.empty((len(values), sum(_value_bytes(child) for child in block.children)), np.uint8)
    inner, offset = [], 0
    for child in block.children:
        width = _value_bytes(child)
        rows[:, offset : offset + width] = _bytes_of(child).reshape(len(values), width)
        inner.append(_valid(_member(child, buffer)))
        offset += width
    page.add(pa.py_buffer(rows))
    return pb.ArrayEncoding(packed_struct=pb.PackedStruct(inner=inner, buffer=buffer))


def _member(block: Block, buffer: pb.Buffer) -> pb.ArrayEncoding:
    if isinstance(block, FixedSizeListBlock):
        items = _valid(_member(block.items, buffer))
        return pb.ArrayEncoding(fixed_size_list=pb.FixedSizeList(dimension=block.dimension, items=items))
    assert isinstance(block, FixedWidthBlock)
    return pb.ArrayEncoding(flat=pb.Flat(bits_per_value=block.bits_per_value, buffer=buffer))


def _value_bytes(block: Block) -> int:
    if isinstance(block, FixedSizeListBlock):
        return block.dimension * _value_bytes(block.items)
    assert isinstance(block, FixedWidthBlock)
    return block.bits_per_value // 8


def _bytes_of(block: Block) -> np.ndarray[Any, np.dtype[np.uint8]]:
    while isinstance(block, FixedSizeListBlock):
        block = block.items
    assert isinstance(block, FixedWidthBlock)
    return np.frombuffer(block.data, np.uint8, block.num_values * block.bits_per_value // 8)
