"""Constant pages: every value that is there is the same, or none is (`lance.encodings21.ConstantLayout`).

Until 2.2 the message was called `AllNullLayout` and stood for nulls only. What the page holds follows from its buffers:

==============  ========  ====================================================
`inline_value`  buffers   meaning
==============  ========  ====================================================
absent          0         all null (also: empty structs, and the null type)
absent          2         null, with repetition and definition levels
present         0         the value in every slot
present         2         the value, with repetition and definition levels
absent          1         the value of buffer 0 in every slot
absent          3         the value of buffer 0, then levels
==============  ========  ====================================================

Levels are bare u16 values, or a block if the message names a compression. A level kind that the page does not have is
an empty buffer. The value in a buffer is ``u32`` number of parts, ``u32`` size of each, and the parts of the Arrow
array of this one value (offsets and bytes); "same" is::

    02000000 08000000 04000000 | 00000000 04000000 | 73616d65
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import BlockEncoding
from lance_spark.layouts.base import Page, PageLayout, Reads, RowRanges
from lance_spark.layouts.registry import optional_block, register, set_optional_block
from lance_spark.layouts.repdef import RepDefLayer, layers_from_wire, layers_to_wire


@register
@dataclass(frozen=True, slots=True)
class ConstantLayout(PageLayout):
    """The fields of the wire message."""

    wire_name: ClassVar[str] = "constant_layout"
    layers: tuple[RepDefLayer, ...]
    inline_value: bytes | None = None
    rep_compression: BlockEncoding | None = None
    def_compression: BlockEncoding | None = None
    num_rep_values: int = 0
    num_def_values: int = 0

    @classmethod
    def from_proto(cls, message: Any) -> ConstantLayout:
        return cls(
            layers_from_wire(message.layers),
            message.inline_value if message.HasField("inline_value") else None,
            optional_block(message, "rep_compression"),
            optional_block(message, "def_compression"),
            message.num_rep_values,
            message.num_def_values,
        )

    def to_proto(self) -> Any:
        message = pb.ConstantLayout(
            layers=layers_to_wire(self.layers),
            inline_value=self.inline_value,
            num_rep_values=self.num_rep_values,
            num_def_values=self.num_def_values,
        )
        set_optional_block(message, "rep_compression", self.rep_compression)
        set_optional_block(message, "def_compression", self.def_compression)
        return pb.PageLayout(constant_layout=message)

    def read(self, page: Page, rows: RowRanges) -> Reads[pa.Array]:
        raise NotImplementedError
        yield []
