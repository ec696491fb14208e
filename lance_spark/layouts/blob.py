"""Blob pages: values that lie elsewhere in the file, by position and size (`lance.encodings21.BlobLayout`).

The inner layout is a page of packed structs ``{position: uint64, size: uint64}`` without nulls; `position` is absolute
in the file. A size of 0 at position 0 is an empty value. A size of 0 elsewhere is no value, and the position holds the
levels instead: ``(definition << 16) | repetition``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.layouts.base import Page, PageLayout, Reads, RowRanges
from lance_spark.layouts.registry import parse, register
from lance_spark.layouts.repdef import RepDefLayer, layers_from_wire, layers_to_wire


@register
@dataclass(frozen=True, slots=True)
class BlobLayout(PageLayout):
    """The fields of the wire message; `layers` are those of the blobs, the inner layout has one of its own."""

    wire_name: ClassVar[str] = "blob_layout"
    inner_layout: PageLayout
    layers: tuple[RepDefLayer, ...]

    @classmethod
    def from_proto(cls, message: Any) -> BlobLayout:
        return cls(parse(message.inner_layout), layers_from_wire(message.layers))

    def to_proto(self) -> Any:
        message = pb.BlobLayout(inner_layout=self.inner_layout.to_proto(), layers=layers_to_wire(self.layers))
        return pb.PageLayout(blob_layout=message)

    def read(self, page: Page, rows: RowRanges) -> Reads[pa.Array]:
        raise NotImplementedError
        yield []
