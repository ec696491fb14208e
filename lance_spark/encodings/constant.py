"""Constant: one value for a complete block, stored in the message (`lance.encodings21.Constant`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.base import BlockEncoding, CompressiveEncoding
from lance_spark.encodings.blocks import Chunks, FixedWidthBlock, allocate_unbacked
from lance_spark.encodings.registry import register
from lance_spark.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from typing_extensions import Self


@register
@dataclass(frozen=True, slots=True)
class Constant(BlockEncoding):
    """`value` is the little-endian bytes of every value."""

    wire_name: ClassVar[str] = "constant"
    value: bytes

    @classmethod
    def from_proto(cls, message: Any, role: type[CompressiveEncoding]) -> Self:
        if not message.HasField("value"):
            raise UnsupportedFeatureError("constant: a block without a value", feature="constant")
        return cls(message.value)

    def to_proto(self) -> Any:
        return pb.CompressiveEncoding(constant=pb.Constant(value=self.value))

    def decode_blocks(self, chunks: Chunks) -> FixedWidthBlock:
        total = sum(chunks.num_values.tolist())
        width = len(self.value)
        data = allocate_unbacked(total * width, self.wire_name)
        rows = np.frombuffer(data, np.uint8).reshape(total, width)
        rows[:] = np.frombuffer(self.value, np.uint8)
        return FixedWidthBlock(data, width * 8, total)
