"""List: the page of a list column (`lance.encodings.List`); the items are in the next column.

`offsets` has the u64 end of every list, relative to the first item of this page; for nulls `null_offset_adjustment`
is added. The item column has its own page boundaries: the items of a page begin after the `num_items` of all
preceding list pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.layouts.base import EncodedColumn
from lance_spark.layouts.v2_0.base import MAX_COUNT, ArrayEncoding, FileReads, PageBuffers, Selection
from lance_spark.layouts.v2_0.end_offsets import Rebased, preceded, rebase
from lance_spark.layouts.v2_0.registry import first_encoding, parse, register


@register
@dataclass(frozen=True, slots=True)
class List(ArrayEncoding):
    """Lists with `num_items` items in total."""

    wire_name: ClassVar[str] = "list"
    offsets: ArrayEncoding
    null_offset_adjustment: int
    num_items: int

    @classmethod
    def from_proto(cls, message: Any) -> List:
        if not message.num_items < message.null_offset_adjustment < MAX_COUNT:
            raise CorruptFileError(
                f"list: {message.null_offset_adjustment} cannot tell nulls from {message.num_items} items"
            )
        return cls(parse(message.offsets), message.null_offset_adjustment, message.num_items)

    def read(self, buffers: PageBuffers, selection: Selection, arrow_type: pa.DataType) -> FileReads[pa.Array]:
        """Not supported, because a list page contains no items: `read_rows` returns their positions."""
        raise CorruptFileError(f"a list page stands where values of type {arrow_type} are needed")

    def read_rows(self, buffers: PageBuffers, selection: Selection, wide: bool) -> FileReads[Rebased]:
        """The offsets of the selected lists into the items of this page."""
        ends = yield from self.offsets.read(buffers, preceded(selection), pa.uint64())
        return rebase(ends, selection, self.null_offset_adjustment, self.num_items, wide)


def holds_lists(column: EncodedColumn) -> bool:
    """Whether the first page of a column has lists. Raises as `parse_page`."""
    return isinstance(first_encoding(column), List)
