"""Fixed-size lists of items of equal width (`lance.encodings21.FixedSizeList`); they may nest.

Mini-blocks: a bitmap of the items' validity, if any, is a value buffer before the buffers of the items. Full-zip: each
value is, layer by layer from the outside, the validity of all its items padded to a byte, then all leaf items.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import (
    CompressiveEncoding,
    EncodedMiniBlocks,
    EncodedValues,
    MiniBlockEncoding,
    PerValueEncoding,
    ValueForm,
)
from lance_spark.encodings.blocks import (
    Block,
    ChunkLimits,
    Chunks,
    FixedSizeListBlock,
    FixedWidthBlock,
    Int64Array,
    VariableWidthBlock,
    equal_chunks,
)
from lance_spark.encodings.flat import Flat, cut
from lance_spark.encodings.registry import parse, register
from lance_spark.errors import CorruptFileError, InvalidInputError
from lance_spark.kernels.bits import concatenate_bits
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.pick_values import FLAT
from lance_spark.kernels.slices import gather_rows, scatter_slices

if TYPE_CHECKING:
    from typing_extensions import Self

_VALIDITY = Flat(1)
_MAX_ITEMS_PER_VALUE = (1 << 31) - 1


@register
@dataclass(frozen=True, slots=True)
class FixedSizeList(MiniBlockEncoding, PerValueEncoding):
    """`items_per_value` items per list; `values` is the encoding of the items."""

    wire_name: ClassVar[str] = "fixed_size_list"
    items_per_value: int
    has_validity: bool
    values: CompressiveEncoding

    @classmethod
    def from_proto(cls, message: Any, role: type[CompressiveEncoding]) -> Self:
        if not 1 <= message.items_per_value <= _MAX_ITEMS_PER_VALUE:
            raise CorruptFileError(f"fixed_size_list: {message.items_per_value} items in a list")
        return cls(message.items_per_value, message.has_validity, parse(message.values, role))

    def to_proto(self) -> Any:
        return pb.CompressiveEncoding(
            fixed_size_list=pb.FixedSizeList(
                items_per_value=self.items_per_value, has_validity=self.has_validity, values=self.values.to_proto()
            )
        )

    def max_encoded_bytes(self, num_values: int) -> int | None:
        num_items = num_values * self.items_per_value
        return (num_items + 7) // 8 if self.has_validity else self.values.max_encoded_bytes(num_items)

    @property
    def num_buffers(self) -> int:
        return int(self.has_validity) + self._mini_block_values().num_buffers

    @classmethod
    def encode_mini_blocks(cls, block: FixedSizeListBlock, limits: ChunkLimits) -> EncodedMiniBlocks[Self]:
        """Chunks with equal numbers of lists; views where chunks end at byte boundaries."""
        counts = equal_chunks(block.num_values, limits.values_per_chunk(_row_bits(block)))
        codec, buffers = cls._cut(block, counts)
        of_lists = [Chunks(chunks.data, chunks.starts, chunks.sizes, counts) for chunks in buffers]
        return EncodedMiniBlocks(codec, of_lists)

    @classmethod
    def encode_values(cls, block: FixedSizeListBlock) -> EncodedValues[Self]:
        """The bytes of each list; a view if there is no validity and the width is a multiple of 8 bits."""
        codec, parts, num_items = cls._of(block), [], 1
        layer: Block = block
        while isinstance(layer, FixedSizeListBlock):
            num_items *= layer.dimension
            if layer.validity is not None:
                parts.append((layer.validity, num_items))
            layer = layer.items
        if not isinstance(layer, FixedWidthBlock):
            raise InvalidInputError("the items of a fixed-size list must have equal width")
        row_bits = num_items * layer.bits_per_value
        if not parts and row_bits % 8 == 0:
            return EncodedValues(codec, FixedWidthBlock(layer.data, row_bits, block.num_values))
        return EncodedValues(codec, _scatter_rows([*parts, (layer.data, row_bits)], block.num_values))

    @classmethod
    def _of(cls, block: FixedSizeListBlock) -> Self:
        items = block.items
        values = cls._of(items) if isinstance(items, FixedSizeListBlock) else Flat(_bits_per_value(items))
        return cls(block.dimension, block.validity is not None, values)

    @classmethod
    def _cut(cls, block: FixedSizeListBlock, counts: Int64Array) -> tuple[Self, list[Chunks]]:
        of_items = counts * block.dimension
        buffers = [] if block.validity is None else [cut(block.validity, 1, of_items)]
        if isinstance(block.items, FixedSizeListBlock):
            buffers += cls._cut(block.items, of_items)[1]
        elif isinstance(block.items, FixedWidthBlock):
            buffers.append(cut(block.items.data, block.items.bits_per_value, of_items))
        return cls._of(block), buffers

    def decode_mini_blocks(self, buffers: list[Chunks]) -> FixedSizeListBlock:
        num_values = buffers[0].num_values
        if bool((num_values > (1 << 62) // self.items_per_value).any()):
            raise CorruptFileError("fixed_size_list: a chunk claims more items than there can be")
        of_items = [
            Chunks(chunks.data, chunks.starts, chunks.sizes, num_values * self.items_per_value) for chunks in buffers
        ]
        validity = None
        if self.has_validity:
            validity = _VALIDITY.decode_blocks(of_items.pop(0)).data
        items = self._mini_block_values().decode_mini_blocks(of_items)
        return FixedSizeListBlock(items, self.items_per_value, validity, items.num_values // self.items_per_value)

    @property
    def value_form(self) -> ValueForm | None:
        items = None if self.has_validity else self.values.value_form
        return (
            None
            if items is None or items.kind != FLAT or items.items > 1
            else items._replace(items=self.items_per_value)
        )

    def decode_values(self, block: FixedWidthBlock | VariableWidthBlock) -> FixedSizeListBlock:
        if not isinstance(block, FixedWidthBlock) or block.bits_per_value % 8:
            raise CorruptFileError("fixed_size_list: the page does not hold whole bytes of equal width")
        return self._decode_rows(block, 0, 1)

    def _mini_block_values(self) -> MiniBlockEncoding:
        if not isinstance(self.values, MiniBlockEncoding):
            raise CorruptFileError(f"fixed_size_list: {self.values.wire_name} cannot stand in a mini-block")
        return self.values

    def _decode_rows(self, rows: FixedWidthBlock, at: int, num_lists: int) -> FixedSizeListBlock:
        """Decodes this layer, which begins at byte `at` of each row; a row has `num_lists` lists of this layer."""
        num_items = num_lists * self.items_per_value
        validity = None
        if self.has_validity:
            validity = _gather_bits(rows, at, num_items)
            at += (num_items + 7) // 8
        items: Block
        if isinstance(self.values, FixedSizeList):
            items = self.values._decode_rows(rows, at, num_items)
        elif isinstance(self.values, Flat):
            items = _gather_items(rows, at, num_items, self.values.bits_per_value)
        else:
            raise CorruptFileError(f"fixed_size_list: {self.values.wire_name} cannot stand in a full-zip page")
        return FixedSizeListBlock(items, self.items_per_value, validity, rows.num_values * num_lists)


def _bits_per_value(items: Block) -> int:
    if not isinstance(items, FixedWidthBlock):
        raise InvalidInputError("the items of a fixed-size list must have equal width")
    return items.bits_per_value


def _row_bits(block: FixedSizeListBlock) -> int:
    items = block.items
    of_item = _row_bits(items) if isinstance(items, FixedSizeListBlock) else _bits_per_value(items)
    return block.dimension * (of_item + (block.validity is not None))


def _scatter_rows(parts: list[tuple[pa.Buffer, int]], num_rows: int) -> FixedWidthBlock:
    """Interleaves all parts into rows, each part padded to a byte; a part is (bits of all rows, bits per row)."""
    widths = [(bits + 7) // 8 for _, bits in parts]
    stride = sum(widths)
    target = pa.allocate_buffer(num_rows * stride)
    at = 0
    for (data, bits), width in zip(parts, widths, strict=True):
        slices = cut(data, bits, np.ones(num_rows, np.int64))
        places = np.arange(num_rows, dtype=np.int64) * stride + at
        scatter_slices(
            slices.data.address,
            address_of(slices.starts),
            address_of(slices.sizes),
            num_rows,
            address_of(places),
            target.address,
        )
        at += width
    return FixedWidthBlock(target, stride * 8, num_rows)


def _gather_bits(rows: FixedWidthBlock, at: int, bits_per_row: int) -> pa.Buffer:
    """`bits_per_row` bits from byte `at` of each row, back to back."""
    stride = rows.bits_per_value // 8
    if at + (bits_per_row + 7) // 8 > stride:
        raise CorruptFileError(f"fixed_size_list: a value of {stride} bytes is too short for its lists")
    starts = np.arange(rows.num_values, dtype=np.int64) * stride + at
    counts = np.full(rows.num_values, bits_per_row, np.int64)
    num_bytes = (rows.num_values * bits_per_row + 7) // 8
    target = pa.allocate_buffer(num_bytes + 1)
    concatenate_bits(rows.data.address, address_of(starts), address_of(counts), len(starts), target.address)
    return target.slice(0, num_bytes)


def _gather_items(rows: FixedWidthBlock, at: int, items_per_row: int, bits_per_item: int) -> FixedWidthBlock:
    stride = rows.bits_per_value // 8
    num_items = rows.num_values * items_per_row
    bits_per_row = items_per_row * bits_per_item
    if bits_per_row % 8:
        return FixedWidthBlock(_gather_bits(rows, at, bits_per_row), bits_per_item, num_items)
    row_bytes = bits_per_row // 8
    if at + row_bytes != stride:
        raise CorruptFileError(f"fixed_size_list: a value has {stride} bytes where its lists need {at + row_bytes}")
    if at == 0:
        return FixedWidthBlock(rows.data, bits_per_item, num_items)
    target = pa.allocate_buffer(rows.num_values * row_bytes)
    gather_rows(rows.data.address + at, stride, row_bytes, rows.num_values, target.address)
    return FixedWidthBlock(target, bits_per_item, num_items)
