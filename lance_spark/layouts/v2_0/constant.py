"""Constant: one value for all rows (`lance.encodings.Constant`); its bytes are in the message.

The format has the message but no known writer uses it, so its bytes are interpreted as Arrow suggests: little-endian
for fixed width, one byte of 0 or 1 for booleans, the string itself for strings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import MAX_UNBACKED_BYTES
from lance_spark.errors import CorruptFileError
from lance_spark.layouts.v2_0.base import ArrayEncoding, FileReads, PageBuffers, Selection, immediate, require_type
from lance_spark.layouts.v2_0.binary import WIDE_OFFSETS
from lance_spark.layouts.v2_0.registry import register


@register
@dataclass(frozen=True, slots=True)
class Constant(ArrayEncoding):
    """Every value has the bytes `value`."""

    wire_name: ClassVar[str] = "constant"
    value: bytes

    @classmethod
    def from_proto(cls, message: Any) -> Constant:
        return cls(message.value)

    def read(self, buffers: PageBuffers, selection: Selection, arrow_type: pa.DataType) -> FileReads[pa.Array]:
        num_values, size = selection.num_values, len(self.value)
        if num_values * (size + 8) > MAX_UNBACKED_BYTES:
            raise CorruptFileError(f"constant: {num_values} values of {size} bytes are claimed")
        if arrow_type in WIDE_OFFSETS:
            offsets = np.array([0, size], np.int64 if WIDE_OFFSETS[arrow_type] else np.int32)
            parts = [None, pa.py_buffer(offsets), pa.py_buffer(self.value)]
            single = pa.Array.from_buffers(arrow_type, 1, parts)
        else:
            fixed = not pa.types.is_nested(arrow_type) and not pa.types.is_dictionary(arrow_type)
            matches = fixed and not pa.types.is_null(arrow_type) and (arrow_type.bit_width + 7) // 8 == size
            require_type(matches, f"constant of {size} bytes", arrow_type)
            single = pa.Array.from_buffers(arrow_type, 1, [None, pa.py_buffer(self.value)])
        return immediate(single.take(pa.array(np.zeros(num_values, np.int64))))
