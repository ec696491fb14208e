"""Columns of one number in all rows, without requests and levels."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.layouts.base import EncodedPage, PageLayout, RowRanges
from lance_spark.layouts.constant.layout import ConstantLayout
from lance_spark.layouts.constant.values import inline_scalar
from lance_spark.layouts.in_memory.columns import InMemoryColumn
from lance_spark.layouts.in_memory.fixed_width import FixedWidth
from lance_spark.layouts.in_memory.single_rows import SingleRows
from lance_spark.layouts.repdef import RepDefLayer


class ConstantColumn(InMemoryColumn):
    """See `of`."""

    def __init__(self, values: FixedWidth, num_rows: int, value: pa.Scalar) -> None:
        super().__init__(values, num_rows)
        self._value = value

    @classmethod
    def of(
        cls, data_type: pa.DataType, pages: Sequence[EncodedPage], layouts: Sequence[PageLayout]
    ) -> ConstantColumn | None:
        """A column of one page with one number; None if it is another one."""
        layout, values = layouts[0], FixedWidth.of_type(data_type)
        if len(layouts) > 1 or not isinstance(layout, ConstantLayout) or layout.inline_value is None or values is None:
            return None
        if pages[0].buffers or layout.layers != (RepDefLayer.ALL_VALID_ITEM,) or not pa.types.is_primitive(data_type):
            return None
        try:
            value = inline_scalar(layout.inline_value, data_type)
        except CorruptFileError:
            # The general way says what is wrong.
            return None
        return cls(values, pages[0].num_rows, value[0])

    def read(self, data: pa.Buffer, rows: RowRanges) -> tuple[list[pa.Array], int] | None:
        num_rows = rows.num_rows
        if not num_rows or int(rows.stops[-1]) > self._num_rows:
            return None
        return [pa.repeat(self._value, num_rows)], 0

    def _find_single_rows(self, data: pa.Buffer) -> SingleRows | None:
        return None

    def _whole(self, data: pa.Buffer) -> tuple[list[pa.Array], int] | None:
        return None
