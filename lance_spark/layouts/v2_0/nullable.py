"""Nullable: no nulls, all nulls, or a validity bitmap beside the values (`lance.encodings.Nullable`).

A bit of 1 is valid, as in Arrow; the values under nulls are arbitrary.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.errors import CorruptFileError
from lance_spark.layouts.arrow_values import all_null
from lance_spark.layouts.base import side_by_side
from lance_spark.layouts.v2_0.base import (
    ArrayEncoding,
    FileReads,
    PageBuffers,
    PagesSelection,
    Selection,
    immediate,
)
from lance_spark.layouts.v2_0.registry import parse, register


@dataclass(frozen=True, slots=True)
class NoNull:
    """Every value is valid."""

    values: ArrayEncoding

    @classmethod
    def from_proto(cls, message: Any) -> NoNull:
        return cls(parse(message.values))

    def read(self, buffers: PageBuffers, selection: Selection, arrow_type: pa.DataType) -> FileReads[pa.Array]:
        return self.values.read(buffers, selection, arrow_type)

    def join_key(self, arrow_type: pa.DataType) -> Hashable:
        # Not the key of the values alone: pages of them without this message are read by another `read_pages`.
        key = self.values.join_key(arrow_type)
        return None if key is None else ("no nulls", key)

    def read_pages(
        self,
        nullabilities: Sequence[Nullability],
        buffers: Sequence[PageBuffers],
        selection: PagesSelection,
        arrow_type: pa.DataType,
    ) -> FileReads[pa.Array]:
        values = [each.values for each in nullabilities if isinstance(each, NoNull)]
        return self.values.read_pages(values, buffers, selection, arrow_type)


@dataclass(frozen=True, slots=True)
class SomeNull:
    """A bitmap marks the valid values."""

    validity: ArrayEncoding
    values: ArrayEncoding

    @classmethod
    def from_proto(cls, message: Any) -> SomeNull:
        return cls(parse(message.validity), parse(message.values))

    def read(self, buffers: PageBuffers, selection: Selection, arrow_type: pa.DataType) -> FileReads[pa.Array]:
        validity, values = yield from side_by_side(
            [self.validity.read(buffers, selection, pa.bool_()), self.values.read(buffers, selection, arrow_type)]
        )
        return with_validity(values, validity)

    def join_key(self, arrow_type: pa.DataType) -> Hashable:
        keys = self.validity.join_key(pa.bool_()), self.values.join_key(arrow_type)
        return None if None in keys else ("nulls", *keys)

    def read_pages(
        self,
        nullabilities: Sequence[Nullability],
        buffers: Sequence[PageBuffers],
        selection: PagesSelection,
        arrow_type: pa.DataType,
    ) -> FileReads[pa.Array]:
        of_pages = [each for each in nullabilities if isinstance(each, SomeNull)]
        bits, items = [each.validity for each in of_pages], [each.values for each in of_pages]
        validity, values = yield from side_by_side(
            [
                self.validity.read_pages(bits, buffers, selection, pa.bool_()),
                self.values.read_pages(items, buffers, selection, arrow_type),
            ]
        )
        return with_validity(values, validity)


@dataclass(frozen=True, slots=True)
class AllNull:
    """Every value is null; there are no buffers."""

    values: None = None

    @classmethod
    def from_proto(cls, message: Any) -> AllNull:
        return cls()

    def read(self, buffers: PageBuffers, selection: Selection, arrow_type: pa.DataType) -> FileReads[pa.Array]:
        return immediate(all_null(selection.num_values, arrow_type))

    def join_key(self, arrow_type: pa.DataType) -> Hashable:
        return "no values"

    def read_pages(
        self,
        nullabilities: Sequence[Nullability],
        buffers: Sequence[PageBuffers],
        selection: PagesSelection,
        arrow_type: pa.DataType,
    ) -> FileReads[pa.Array]:
        return immediate(all_null(selection.num_values, arrow_type))


Nullability: TypeAlias = NoNull | SomeNull | AllNull

_NULLABILITIES: dict[str, Callable[[Any], Nullability]] = {
    "no_nulls": NoNull.from_proto,
    "some_nulls": SomeNull.from_proto,
    "all_nulls": AllNull.from_proto,
}


@register
@dataclass(frozen=True, slots=True)
class Nullable(ArrayEncoding):
    """Adds nulls to another encoding."""

    wire_name: ClassVar[str] = "nullable"
    nullability: Nullability

    @classmethod
    def from_proto(cls, message: Any) -> Nullable:
        name = message.WhichOneof("nullability")
        if name is None:
            raise CorruptFileError("nullable: nothing says whether there are nulls")
        return cls(_NULLABILITIES[name](getattr(message, name)))

    def join_key(self, arrow_type: pa.DataType) -> Hashable:
        return self.nullability.join_key(arrow_type)

    def read_pages(
        self,
        encodings: Sequence[ArrayEncoding],
        buffers: Sequence[PageBuffers],
        selection: PagesSelection,
        arrow_type: pa.DataType,
    ) -> FileReads[pa.Array]:
        of_pages = [each.nullability for each in encodings if isinstance(each, Nullable)]
        return self.nullability.read_pages(of_pages, buffers, selection, arrow_type)

    @property
    def bits_per_value(self) -> int | None:
        values = self.nullability.values
        return None if values is None else values.bits_per_value

    def read(self, buffers: PageBuffers, selection: Selection, arrow_type: pa.DataType) -> FileReads[pa.Array]:
        return self.nullability.read(buffers, selection, arrow_type)


def with_validity(values: pa.Array, validity: pa.BooleanArray) -> pa.Array:
    """`values` (offset 0) with the bits of `validity` (offset 0) as their validity; nothing is copied."""
    bitmap = validity.buffers()[1]
    dtype = values.type
    if pa.types.is_null(dtype):
        return values
    if pa.types.is_dictionary(dtype):
        return pa.DictionaryArray.from_arrays(with_validity(values.indices, validity), values.dictionary, safe=False)
    if values.null_count:
        return pc.if_else(validity, values, pa.scalar(None, dtype))
    if pa.types.is_fixed_size_list(dtype):
        return pa.Array.from_buffers(dtype, len(values), [bitmap], children=[values.values])
    if pa.types.is_struct(dtype):
        children = [values.field(i) for i in range(dtype.num_fields)]
        return pa.Array.from_buffers(dtype, len(values), [bitmap], children=children)
    return pa.Array.from_buffers(dtype, len(values), [bitmap, *values.buffers()[1:]])
