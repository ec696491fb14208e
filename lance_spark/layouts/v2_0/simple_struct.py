"""SimpleStruct: the page of a struct column (`lance.encodings.SimpleStruct`).

It has no buffers, only a number of rows: in 2.0 a struct has no validity, and its members are columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from lance_spark.layouts.base import EncodedColumn
from lance_spark.layouts.v2_0.base import ArrayEncoding, FileReads, PageBuffers, Selection, immediate, require_type
from lance_spark.layouts.v2_0.registry import first_encoding, register


@register
@dataclass(frozen=True, slots=True)
class SimpleStruct(ArrayEncoding):
    """Rows without data."""

    wire_name: ClassVar[str] = "struct"

    @classmethod
    def from_proto(cls, message: Any) -> SimpleStruct:
        return cls()

    def read(self, buffers: PageBuffers, selection: Selection, arrow_type: pa.DataType) -> FileReads[pa.Array]:
        require_type(pa.types.is_struct(arrow_type) and arrow_type.num_fields == 0, "struct", arrow_type)
        return immediate(pa.Array.from_buffers(arrow_type, selection.num_values, [None]))


def holds_structs(column: EncodedColumn) -> bool:
    """Whether the members of a struct are other columns than its own. Raises as `parse_page`."""
    return isinstance(first_encoding(column), SimpleStruct)
