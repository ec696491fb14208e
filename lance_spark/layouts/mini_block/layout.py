"""Mini-block pages: values in chunks of a few KiB that are decoded at once (`lance.encodings21.MiniBlockLayout`).

Buffer 0 has a *chunk word* for each chunk, ``((bytes / 8 - 1) << 4) | log2(num_values)``, in 16 bits or, with large
chunks, in 32. Buffer 1 is the chunks back to back. The dictionary follows, if the values are indices into one, and the
repetition index, if there are lists. The last chunk has the rest of the `num_items` values, regardless of its word.
`num_items` counts the values, not the placeholders of null and empty lists.

The chunk of three int64 values 5, 6, 7 without levels is 32 bytes, so its word is ``((32 / 8 - 1) << 4) | 0`` = 0x30::

    0000        no levels
    18000000    24 bytes of values (u32, as in pages with large chunks)
    fefe        padding to 8 bytes
    0500000000000000 0600000000000000 0700000000000000
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import BlockEncoding, MiniBlockEncoding
from lance_spark.encodings.registry import parse
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.base import JoinablePageLayout, Page, PageLayout, Reads, RowRanges
from lance_spark.layouts.mini_block.read import read_mini_blocks
from lance_spark.layouts.registry import bounded_count, optional_block, register, set_optional_block
from lance_spark.layouts.repdef import RepDefLayer, layers_from_wire, layers_to_wire


@register
@dataclass(frozen=True, slots=True)
class MiniBlockLayout(JoinablePageLayout):
    """The fields of the wire message."""

    wire_name: ClassVar[str] = "mini_block_layout"
    value_compression: MiniBlockEncoding
    layers: tuple[RepDefLayer, ...]
    num_items: int
    has_large_chunk: bool
    rep_compression: BlockEncoding | None = None
    def_compression: BlockEncoding | None = None
    dictionary: BlockEncoding | None = None
    num_dictionary_items: int = 0
    repetition_index_depth: int = 0

    @classmethod
    def from_proto(cls, message: Any) -> MiniBlockLayout:
        layout = cls(
            parse(message.value_compression, MiniBlockEncoding),
            layers_from_wire(message.layers),
            bounded_count(message.num_items),
            message.has_large_chunk,
            optional_block(message, "rep_compression"),
            optional_block(message, "def_compression"),
            optional_block(message, "dictionary"),
            bounded_count(message.num_dictionary_items),
            message.repetition_index_depth,
        )
        if message.num_buffers != layout.value_compression.num_buffers:
            raise CorruptFileError(
                f"mini-block: {message.num_buffers} value buffers for an encoding that has another number of them"
            )
        if layout.repetition_index_depth > 1:
            raise UnsupportedFeatureError("a repetition index of more than one level", feature="repetition index")
        return layout

    def to_proto(self) -> Any:
        message = pb.MiniBlockLayout(
            value_compression=self.value_compression.to_proto(),
            layers=layers_to_wire(self.layers),
            num_buffers=self.value_compression.num_buffers,
            num_items=self.num_items,
            has_large_chunk=self.has_large_chunk,
            num_dictionary_items=self.num_dictionary_items,
            repetition_index_depth=self.repetition_index_depth,
        )
        set_optional_block(message, "rep_compression", self.rep_compression)
        set_optional_block(message, "def_compression", self.def_compression)
        set_optional_block(message, "dictionary", self.dictionary)
        return pb.PageLayout(mini_block_layout=message)

    def read(self, page: Page, rows: RowRanges) -> Reads[pa.Array]:
        return read_mini_blocks([self], [page], rows)

    def joins(self, before: PageLayout) -> bool:
        """Only without dictionaries, and if the layouts are equal except for their number of items."""
        if self.dictionary is not None or not isinstance(before, MiniBlockLayout):
            return False
        return before is self or self == replace(before, num_items=self.num_items)

    def read_run(self, layouts: Sequence[PageLayout], pages: Sequence[Page], rows: RowRanges) -> Reads[pa.Array]:
        return read_mini_blocks([each for each in layouts if isinstance(each, MiniBlockLayout)], pages, rows)
