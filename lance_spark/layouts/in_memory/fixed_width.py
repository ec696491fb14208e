"""Values of fixed width: what a column holds of which all values take as many bits."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from lance_spark.encodings.blocks import Block, FixedSizeListBlock, FixedWidthBlock
from lance_spark.layouts.arrow_values import block_to_array
from lance_spark.layouts.checked_values import PLAIN


@dataclass(frozen=True)
class FixedWidth:
    """Values of fixed width.

    Attributes:
        data_type: their type.
        bits: of an item: 1, or a multiple of 8.
        items: of a fixed-size list, at least 1; 1 of other values.
    """

    data_type: pa.DataType
    bits: int
    items: int = 1

    @classmethod
    def of(cls, data_type: pa.DataType, bits: int, items: int = 1) -> FixedWidth | None:
        """None for types of other kinds, and for other widths."""
        if items < 1:
            # Only damaged schemas have such lists. To kernels, values without bytes are bits.
            return None
        item_type = data_type
        if items > 1 or pa.types.is_fixed_size_list(data_type):
            if not pa.types.is_fixed_size_list(data_type) or data_type.list_size != items or bits == 1:
                return None
            item_type = data_type.value_type
        if pa.types.is_nested(item_type) or pa.types.is_dictionary(item_type) or not (bits == 1 or bits % 8 == 0):
            return None
        try:
            return cls(data_type, bits, items) if 0 < bits == item_type.bit_width else None
        except ValueError:
            return None

    @classmethod
    def of_type(cls, data_type: pa.DataType) -> FixedWidth | None:
        """Values of a type in their usual width; None as `of`."""
        known = _KNOWN.get(data_type.id)
        if known is not None:
            return known
        if data_type.id in PLAIN:
            return cls(data_type, data_type.bit_width)
        is_list = pa.types.is_fixed_size_list(data_type)
        try:
            bits = (data_type.value_type if is_list else data_type).bit_width
        except ValueError:
            return None
        return cls.of(data_type, bits, data_type.list_size if is_list else 1)

    @property
    def value_bits(self) -> int:
        """The bits of a value."""
        return self.bits * self.items

    def array(self, data: pa.Buffer, num_values: int, validity: pa.Buffer | None) -> pa.Array:
        """An array of the values.

        Raises:
            CorruptFileError: they are not of this type.
        """
        if self.data_type.id in PLAIN:
            return pa.Array.from_buffers(self.data_type, num_values, [validity, data])
        block: Block = FixedWidthBlock(data, self.bits, num_values * self.items)
        if pa.types.is_fixed_size_list(self.data_type):
            block = FixedSizeListBlock(block, self.items, None, num_values)
        return block_to_array(block, self.data_type, validity)


_NUMBERS = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.bool_(), pa.float16(), pa.float32(), pa.float64(), pa.date32()),
)
_KNOWN = {dtype.id: FixedWidth(dtype, dtype.bit_width) for dtype in _NUMBERS}
