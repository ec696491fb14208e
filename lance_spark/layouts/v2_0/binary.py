"""Binary: strings or byte strings as end offsets and bytes (`lance.encodings.Binary`).

`indices` has the u64 end of every value; for nulls `null_adjustment` is added, which is the length of the bytes plus
one. ``["ab", null, "", "cde"]`` is the ends 2, 8, 2, 5 (adjustment 6) and the bytes "abcde".

Complete pages are read in one round. For selections the ends are read first, each range with the preceding entry,
and then only the bytes between them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.layouts.base import RowRanges, side_by_side
from lance_spark.layouts.v2_0.base import (
    MAX_COUNT,
    ArrayEncoding,
    FileReads,
    PageBuffers,
    PagesSelection,
    Selection,
    require_type,
)
from lance_spark.layouts.v2_0.end_offsets import Rebased, preceded, preceded_in_pages, rebase, rebase_pages
from lance_spark.layouts.v2_0.registry import parse, register

WIDE_OFFSETS = {pa.string(): False, pa.binary(): False, pa.large_string(): True, pa.large_binary(): True}
"""The types of variable width -> whether their offsets have 64 bits."""


@register
@dataclass(frozen=True, slots=True)
class Binary(ArrayEncoding):
    """`data` is the wire's `bytes`: an array of 8-bit values."""

    wire_name: ClassVar[str] = "binary"
    indices: ArrayEncoding
    data: ArrayEncoding
    null_adjustment: int

    @classmethod
    def from_proto(cls, message: Any) -> Binary:
        # The reference library writes 0 for a page without rows; rows of such a page are refused when they are read.
        if not 0 <= message.null_adjustment < MAX_COUNT:
            raise CorruptFileError(f"binary: {message.null_adjustment} cannot tell nulls from lengths")
        return cls(parse(message.indices), parse(message.bytes), message.null_adjustment)

    def read(self, buffers: PageBuffers, selection: Selection, arrow_type: pa.DataType) -> FileReads[pa.Array]:
        require_type(arrow_type in WIDE_OFFSETS, self.wire_name, arrow_type)
        rows, data = yield from self.read_rows(buffers, selection, WIDE_OFFSETS[arrow_type])
        return pa.Array.from_buffers(arrow_type, rows.num_values, [rows.validity, rows.offsets, data], rows.num_nulls)

    def read_rows(self, buffers: PageBuffers, selection: Selection, wide: bool) -> FileReads[tuple[Rebased, pa.Buffer]]:
        """The offsets of the selected values and the bytes they refer to."""
        self._check_adjustment(selection.num_values)
        num_bytes = max(self.null_adjustment - 1, 0)
        indices = self.indices.read(buffers, preceded(selection), pa.uint64())
        if selection.is_all:
            data = self.data.read(buffers, Selection.all(num_bytes), pa.uint8())
            ends, bytes_read = yield from side_by_side([indices, data])
            rows = rebase(ends, selection, self.null_adjustment, num_bytes, wide)
        else:
            ends = yield from indices
            rows = rebase(ends, selection, self.null_adjustment, num_bytes, wide)
            wanted = Selection.of(RowRanges(rows.starts, rows.stops), num_bytes)
            bytes_read = yield from self.data.read(buffers, wanted, pa.uint8())
        return rows, bytes_read.buffers()[1]

    def _check_adjustment(self, num_values: int) -> None:
        """Checks that nulls differ from lengths, if any value is read."""
        if num_values and not self.null_adjustment:
            raise CorruptFileError("binary: 0 cannot tell nulls from lengths")

    def join_key(self, arrow_type: pa.DataType) -> Hashable:
        keys = self.indices.join_key(pa.uint64()), self.data.join_key(pa.uint8())
        return None if None in keys else ("binary", *keys)

    def read_pages(
        self,
        encodings: Sequence[ArrayEncoding],
        buffers: Sequence[PageBuffers],
        selection: PagesSelection,
        arrow_type: pa.DataType,
    ) -> FileReads[pa.Array]:
        """See `ArrayEncoding.read_pages`. The ends are read first, whatever is selected."""
        require_type(arrow_type in WIDE_OFFSETS, self.wire_name, arrow_type)
        of_pages = [each for each in encodings if isinstance(each, Binary)]
        for each in of_pages:
            each._check_adjustment(selection.num_values)
        indices, data = [each.indices for each in of_pages], [each.data for each in of_pages]
        ends = yield from self.indices.read_pages(indices, buffers, preceded_in_pages(selection), pa.uint64())
        adjustments = [each.null_adjustment for each in of_pages]
        rows = rebase_pages(ends, selection, adjustments, WIDE_OFFSETS[arrow_type])
        wanted = selection.with_ranges(rows.starts, rows.stops)
        found = yield from self.data.read_pages(data, buffers, wanted, pa.uint8())
        parts = [rows.validity, rows.offsets, found.buffers()[1]]
        return pa.Array.from_buffers(arrow_type, rows.num_values, parts, rows.num_nulls)
