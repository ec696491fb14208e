"""FixedSizeBinary: strings of `byte_width` bytes each, without offsets (`lance.encodings.FixedSizeBinary`).

This stores types of variable length; Arrow's type of the same name is a `Flat`. Nulls have bytes too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import allocate_unbacked
from lance_spark.errors import CorruptFileError, InvalidInputError
from lance_spark.kernels.layouts.v2_0 import MAX_NARROW_OFFSET
from lance_spark.layouts.v2_0.base import ArrayEncoding, FileReads, PageBuffers, Selection, require_type
from lance_spark.layouts.v2_0.binary import WIDE_OFFSETS
from lance_spark.layouts.v2_0.registry import parse, register


@register
@dataclass(frozen=True, slots=True)
class FixedSizeBinary(ArrayEncoding):
    """`data` is the wire's `bytes`: per string `byte_width` values of 8 bits, or one value of `byte_width` bytes."""

    wire_name: ClassVar[str] = "fixed_size_binary"
    data: ArrayEncoding
    byte_width: int

    @classmethod
    def from_proto(cls, message: Any) -> FixedSizeBinary:
        if message.byte_width > MAX_NARROW_OFFSET:
            raise CorruptFileError(f"fixed_size_binary: strings of {message.byte_width} bytes each")
        return cls(parse(message.bytes), message.byte_width)

    def read(self, buffers: PageBuffers, selection: Selection, arrow_type: pa.DataType) -> FileReads[pa.Array]:
        require_type(arrow_type in WIDE_OFFSETS, self.wire_name, arrow_type)
        if self.data.bits_per_value == 8 * self.byte_width != 8:
            data = yield from self.data.read(buffers, selection, pa.binary(self.byte_width))
        else:
            data = yield from self.data.read(buffers, selection.scaled(self.byte_width), pa.uint8())
        kind = np.dtype(np.int64 if WIDE_OFFSETS[arrow_type] else np.int32)
        if kind == np.int32 and selection.num_values * self.byte_width > MAX_NARROW_OFFSET:
            raise InvalidInputError("more than 2 GiB of strings at once; read fewer rows at a time")
        offsets = allocate_unbacked((selection.num_values + 1) * kind.itemsize, self.wire_name)
        np.frombuffer(offsets, kind)[:] = np.arange(selection.num_values + 1) * self.byte_width
        return pa.Array.from_buffers(arrow_type, selection.num_values, [None, offsets, data.buffers()[1]])
