"""Mini-block pages of values of fixed width without lists and dictionaries, straight from a file in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_spark.encodings.base import MiniBlockEncoding
from lance_spark.encodings.blocks import Int64Array
from lance_spark.encodings.fixed_size_list import FixedSizeList
from lance_spark.encodings.flat import Flat
from lance_spark.encodings.inline_bitpacking import InlineBitpacking
from lance_spark.encodings.out_of_line_bitpacking import OutOfLineBitpacking
from lance_spark.kernels.layouts.in_memory import decode_mini_blocks, take_from_mini_blocks
from lance_spark.kernels.layouts.picked_levels import LEVEL_BITS
from lance_spark.layouts.base import EncodedPage, PageLayout
from lance_spark.layouts.in_memory import FixedWidth, InMemoryColumn
from lance_spark.layouts.mini_block.layout import MiniBlockLayout
from lance_spark.layouts.repdef import RepDefLayer

_NO_LEVELS = -1
_LEVEL_WIDTHS = 5
"""The row of the table of pages."""

_SPARE_VALUES = 1024
_MAX_WHOLE_BYTES = 64 << 20
"""All values of a column are decoded by one call up to this size; where more are, its time does not matter."""


class MiniBlockColumn(InMemoryColumn):
    """See `of`."""

    def __init__(self, values: FixedWidth, pages: Int64Array, *, size_bytes: int) -> None:
        super().__init__(values, pages, has_nulls=bool((pages[_LEVEL_WIDTHS] != _NO_LEVELS).any()))
        self._size_bytes = size_bytes

    @classmethod
    def of(
        cls, data_type: pa.DataType, pages: Sequence[EncodedPage], layouts: Sequence[PageLayout]
    ) -> MiniBlockColumn | None:
        """A column of `pages` that hold values of `data_type`; None if the kernels are not made for one of them."""
        found = [_page(data_type, page, layout) for page, layout in zip(pages, layouts, strict=True)]
        known = [page for page in found if page is not None]
        if len(known) < len(found) or len({page[:2] for page in known}) != 1:
            return None
        values, size_bytes, _ = known[0]
        return cls(values, np.array([row for _, _, row in known], np.int64).T.copy(), size_bytes=size_bytes)

    def _take(
        self, pages: tuple[int, int, int, int], rows: tuple[int, int, int, int], target: int, validity: int
    ) -> int:
        num_read: int = take_from_mini_blocks(
            *pages, self._size_bytes, *rows, self._values.value_bits, target, validity
        )
        return num_read

    def _whole(self, data: pa.Buffer) -> tuple[list[pa.Array], int] | None:
        num_rows, value_bits = self._num_rows, self._values.value_bits
        num_bytes = (num_rows * value_bits + 7) // 8
        if self._has_nulls or num_bytes > _MAX_WHOLE_BYTES:
            return None
        target = pa.allocate_buffer(num_bytes + _SPARE_VALUES * value_bits // 8)
        num_read = decode_mini_blocks(
            data.address, data.size, *self._page_table, self._size_bytes, num_rows, value_bits, target.address
        )
        if num_read < 0:
            return None
        return [self._values.array(target.slice(0, num_bytes), num_rows, None)], num_read


def _page(
    data_type: pa.DataType, page: EncodedPage, layout: PageLayout
) -> tuple[FixedWidth, int, tuple[int, ...]] | None:
    """What a page holds, the bytes of a chunk word, and its column of the table of the kernels."""
    if not isinstance(layout, MiniBlockLayout) or layout.dictionary is not None or layout.rep_compression is not None:
        return None
    values, width = _values_of(data_type, layout.value_compression), _level_width(layout)
    if values is None or width is None or layout.num_items != page.num_rows or len(page.buffers) < 2:
        return None
    is_packed = isinstance(layout.value_compression, InlineBitpacking)
    row = (*page.buffers[0], *page.buffers[1], page.num_rows, width, int(is_packed))
    return values, 4 if layout.has_large_chunk else 2, row


def _values_of(data_type: pa.DataType, encoding: MiniBlockEncoding) -> FixedWidth | None:
    if isinstance(encoding, Flat):
        return FixedWidth.of(data_type, encoding.bits_per_value)
    if isinstance(encoding, InlineBitpacking):
        return FixedWidth.of(data_type, encoding.uncompressed_bits_per_value)
    if isinstance(encoding, FixedSizeList) and not encoding.has_validity and isinstance(encoding.values, Flat):
        return FixedWidth.of(data_type, encoding.values.bits_per_value, encoding.items_per_value)
    return None


def _level_width(layout: MiniBlockLayout) -> int | None:
    """The bits of a definition level, -1 without levels; None for levels that the kernels do not know."""
    encoding = layout.def_compression
    if len(layout.layers) != 1:
        return None
    if encoding is None:
        return _NO_LEVELS
    is_known = isinstance(encoding, OutOfLineBitpacking) and encoding.uncompressed_bits_per_value == LEVEL_BITS
    if not is_known or layout.layers[0] is not RepDefLayer.NULLABLE_ITEM:
        return None
    assert isinstance(encoding, OutOfLineBitpacking)
    return encoding.bit_width
