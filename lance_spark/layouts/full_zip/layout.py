"""Full-zip pages: large values, each preceded by its levels (`lance.encodings21.FullZipLayout`).

Buffer 0 has for each slot a *control word* of 1, 2 or 4 bytes, ``(rep << bits_def) | def`` (none if the page has no
levels), and then the value. The placeholder of a null or empty list is only a control word. Values of fixed width are
stored for nulls too; one of variable width is preceded by its length, and a null has neither length nor bytes.

Buffer 1, the row index, exists if rows differ in size: ``num_rows + 1`` offsets into buffer 0, each in 1, 2, 4 or 8
bytes, the fewest possible. `num_items` counts all slots here, `num_visible_items` those with a value.

The slots of the binary values ``b"ab", null`` with 32-bit lengths::

    00 02000000 6162    control word 0 (valid), length, bytes
    01                  control word 1 (null)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import PerValueEncoding
from lance_spark.encodings.registry import parse
from lance_spark.errors import CorruptFileError
from lance_spark.layouts.base import Page, PageLayout, Reads, RowRanges
from lance_spark.layouts.full_zip.read import read_full_zip
from lance_spark.layouts.registry import register
from lance_spark.layouts.repdef import RepDefLayer, layers_from_wire, layers_to_wire


@register
@dataclass(frozen=True, slots=True)
class FullZipLayout(PageLayout):
    """The fields of the wire message. Exactly one of `bits_per_value` and `bits_per_offset` is set."""

    wire_name: ClassVar[str] = "full_zip_layout"
    value_compression: PerValueEncoding
    layers: tuple[RepDefLayer, ...]
    num_items: int
    num_visible_items: int
    bits_rep: int = 0
    bits_def: int = 0
    bits_per_value: int | None = None
    bits_per_offset: int | None = None

    @classmethod
    def from_proto(cls, message: Any) -> FullZipLayout:
        details = message.WhichOneof("details")
        layout = cls(
            parse(message.value_compression, PerValueEncoding),
            layers_from_wire(message.layers),
            message.num_items,
            message.num_visible_items,
            message.bits_rep,
            message.bits_def,
            message.bits_per_value if details == "bits_per_value" else None,
            message.bits_per_offset if details == "bits_per_offset" else None,
        )
        if details is None or layout.bits_per_offset not in (None, 32, 64):
            raise CorruptFileError("full-zip: neither a width of values nor a width of lengths")
        if layout.bits_per_value is not None and layout.bits_per_value % 8:
            raise CorruptFileError(f"full-zip: values of {layout.bits_per_value} bits are not whole bytes")
        if layout.bits_rep > 16 or layout.bits_def > 16:
            raise CorruptFileError(f"full-zip: levels of {layout.bits_rep} and {layout.bits_def} bits")
        return layout

    def to_proto(self) -> Any:
        message = pb.FullZipLayout(
            bits_rep=self.bits_rep,
            bits_def=self.bits_def,
            num_items=self.num_items,
            num_visible_items=self.num_visible_items,
            value_compression=self.value_compression.to_proto(),
            layers=layers_to_wire(self.layers),
        )
        if self.bits_per_value is not None:
            message.bits_per_value = self.bits_per_value
        if self.bits_per_offset is not None:
            message.bits_per_offset = self.bits_per_offset
        return pb.PageLayout(full_zip_layout=message)

    @property
    def control_bytes(self) -> int:
        """Bytes of a control word."""
        bits = self.bits_rep + self.bits_def
        return 0 if bits == 0 else 1 if bits <= 8 else 2 if bits <= 16 else 4

    def read(self, page: Page, rows: RowRanges) -> Reads[pa.Array]:
        return read_full_zip(self, page, rows)
