"""Mini-block pages of values of fixed width without lists and dictionaries, and pages of one such value, in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.encodings.blocks import Int64Array
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.layouts.in_memory import decode_mini_blocks
from lance_spark.kernels.layouts.single_rows import CONSTANT, NO_LEVELS, NULLS, PACKED, RUNS
from lance_spark.layouts.base import EncodedPage, PageLayout
from lance_spark.layouts.in_memory.columns import InMemoryColumn
from lance_spark.layouts.in_memory.fixed_width import FixedWidth
from lance_spark.layouts.in_memory.page_tables import Form
from lance_spark.layouts.in_memory.single_rows import SingleRows, forms_of_pages

_SPARE_VALUES = 1024
_MAX_WHOLE_BYTES = 64 << 20
"""All values of a column are decoded by one call up to this size; where more are, its time does not matter."""


class MiniBlockColumn(InMemoryColumn):
    """See `of`."""

    def __init__(self, values: FixedWidth, pages: Sequence[EncodedPage], forms: Sequence[Form]) -> None:
        super().__init__(values, sum([page.num_rows for page in pages]))
        self._pages, self._forms = pages, forms

    @classmethod
    def of(
        cls, data_type: pa.DataType, pages: Sequence[EncodedPage], layouts: Sequence[PageLayout]
    ) -> MiniBlockColumn | None:
        """A column of `pages` that hold values of `data_type`; None if the kernels are not made for one of them."""
        values = FixedWidth.of_type(data_type)
        forms = None if values is None else forms_of_pages(values, pages, layouts)
        return None if values is None or forms is None else cls(values, pages, forms)

    def _find_single_rows(self, data: pa.Buffer) -> SingleRows | None:
        return SingleRows.of_forms(self._values, self._pages, self._forms, data)

    @cached_property
    def _page_table(self) -> Int64Array | None:
        """The pages as `decode_mini_blocks` takes them; None if one is of a kind that it does not decode."""
        kinds, _, levels = zip(*self._forms, strict=True)
        if any(level != NO_LEVELS for level in levels) or any(kind in (RUNS, CONSTANT, NULLS) for kind in kinds):
            return None
        table = [
            (*page.buffers[0], *page.buffers[1], page.num_rows, int(kind == PACKED))
            for page, kind in zip(self._pages, kinds, strict=True)
        ]
        found: Int64Array = np.array(table, np.int64).T.copy()
        return found

    def _whole(self, data: pa.Buffer) -> tuple[list[pa.Array], int] | None:
        num_rows, value_bits = self._num_rows, self._values.value_bits
        num_bytes = (num_rows * value_bits + 7) // 8
        table = self._page_table
        if table is None or num_bytes > _MAX_WHOLE_BYTES:
            return None
        target = pa.allocate_buffer(num_bytes + _SPARE_VALUES * value_bits // 8)
        num_read = decode_mini_blocks(
            data.address, data.size, address_of(table), table.shape[1], self._forms[0][1], num_rows, value_bits,
            target.address,
        )  # fmt: skip
        if num_read < 0:
            return None
        return [self._values.array(target.slice(0, num_bytes), num_rows, None)], num_read
