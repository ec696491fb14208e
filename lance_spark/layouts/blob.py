"""Blob pages: values stored elsewhere in the file, by position and size (`lance.encodings21.BlobLayout`).

The inner layout is a page of packed structs ``{position: uint64, size: uint64}`` without nulls; `position` is absolute
in the file. Size 0 at position 0 is an empty value. Size 0 with another position means no value; the position then
encodes the levels: ``(definition << 16) | repetition``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark._proto import encodings_v2_1_pb2 as pb
from lance_spark.encodings.blocks import MAX_UNBACKED_BYTES, VariableWidthBlock
from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.layouts.base import FileRange, Page, PageLayout, PageRequest, Reads, RowRanges
from lance_spark.layouts.leaf.arrays import Leaf, block_leaf, check_count
from lance_spark.layouts.page_bytes import PageBytes
from lance_spark.layouts.path import LeafPath
from lance_spark.layouts.registry import parse, register
from lance_spark.layouts.repdef import LevelScheme, RepDefLayer, layers_from_wire, layers_to_wire
from lance_spark.layouts.shred import Levels
from lance_spark.layouts.unravel import SlotLevels, unravel
from lance_spark.schema.field import Field, FieldId

MAX_POSITION = 1 << 50
MAX_VALUE_BYTES = 1 << 40
"""Maximum plausible file size; a larger value means corruption."""

_DESCRIPTION = Field(
    "description",
    FieldId(-1),
    "struct",
    nullable=False,
    children=(
        Field("position", FieldId(-1), "uint64", nullable=False),
        Field("size", FieldId(-1), "uint64", nullable=False),
    ),
)
_DESCRIPTION_PATH = LeafPath.of((_DESCRIPTION,))


@register
@dataclass(frozen=True, slots=True)
class BlobLayout(PageLayout):
    """The fields of the wire message; `layers` are those of the blobs, the inner layout has its own."""

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
        """See `PageLayout.read`. The array has the values, or the descriptors if the leaf is a struct."""
        scheme = LevelScheme.of(self.layers)
        if scheme.max_rep or page.path.slots_per_row > 1:
            raise UnsupportedFeatureError("blobs in lists are not supported", feature="list of blobs")
        inner = Page(page.buffer_sizes, page.num_rows, _DESCRIPTION_PATH)
        described = yield from self.inner_layout.read(inner, rows)
        position, size = (described.field(number).to_numpy(zero_copy_only=False) for number in range(2))
        missing = (size == 0) & (position != 0)
        definition = None
        if scheme.max_def:
            if int(position[missing].max(initial=0)) > scheme.max_def << 16:
                raise CorruptFileError("blob: the levels of a missing value are out of bounds")
            definition = np.where(missing, position >> np.uint64(16), np.uint64(0)).astype(np.uint16)
        elif missing.any():
            raise CorruptFileError("blob: a value is missing, but the layers of the page have no nulls")
        leaf_type = page.path.nodes[0].data_type
        if pa.types.is_struct(leaf_type):
            leaf = _description_leaf(described, leaf_type)
        else:
            leaf = yield from _read_values(position, size, leaf_type)
        return unravel(page.path, scheme, SlotLevels(None, definition, len(described)), leaf)


def blob_places(levels: Levels, values: pa.StructArray) -> tuple[pa.StructArray, Levels]:
    """Positions and sizes that the inner layout stores for `values`, struct<position, size>, and their levels.

    Nulls, also those of structs around the column, become positions that encode their level.
    """
    positions, sizes = (child.to_numpy(zero_copy_only=False) for child in values.flatten())
    if levels.defs is not None:
        missing = levels.defs != 0
        positions = np.where(missing, levels.defs.astype(np.uint64) << np.uint64(16), positions)
        sizes = np.where(missing, np.uint64(0), sizes)
    fields = [member.with_nullable(False) for member in values.type]
    places = pa.StructArray.from_arrays([pa.array(positions, pa.uint64()), pa.array(sizes, pa.uint64())], fields=fields)
    scheme = LevelScheme.of((RepDefLayer.ALL_VALID_ITEM,))
    return places, Levels(scheme, levels.num_rows, len(places), len(places), None, None)


def in_blob_layout(levels: Levels, inner: PageBytes) -> PageBytes:
    """The page of a blob column, whose descriptors are the page `inner`."""
    assert isinstance(inner.layout, PageLayout)
    return PageBytes(levels.num_rows, BlobLayout(inner.layout, levels.scheme.layers), inner.buffers)


def _description_leaf(described: pa.StructArray, leaf_type: pa.DataType) -> Leaf:
    if leaf_type.num_fields != 2:
        raise CorruptFileError(f"blob: a description is a position and a size, not {leaf_type}")

    def build(validity: pa.Buffer | None, num_values: int) -> pa.Array:
        check_count(len(described), num_values)
        return pa.Array.from_buffers(leaf_type, num_values, [validity], children=described.flatten())

    return build


def _read_values(position: npt.NDArray[np.uint64], size: npt.NDArray[np.uint64], leaf_type: pa.DataType) -> Reads[Leaf]:
    """Reads the bytes of the values."""
    filled = np.flatnonzero(size)
    if int(size.max(initial=0)) > MAX_VALUE_BYTES or int(position[filled].max(initial=0)) > MAX_POSITION:
        raise CorruptFileError("blob: a value lies beyond the end of any file")
    if len(filled):
        # The file layer checks that each value is within the file, but not that the ranges do not overlap.
        span = int((position + size)[filled].max() - position[filled].min())
        total = sum(size.tolist())
        if total > max(span, MAX_UNBACKED_BYTES):
            raise CorruptFileError(f"blob: values of {total} bytes lie in {span} bytes of the file")
    ranges = list(map(FileRange, position[filled].tolist(), size[filled].tolist()))
    pieces = (yield list[PageRequest](ranges)) if ranges else []
    offsets = np.zeros(len(size) + 1, np.int64)
    np.cumsum(size.astype(np.int64), out=offsets[1:])
    block = VariableWidthBlock(pa.py_buffer(offsets), pa.py_buffer(b"".join(pieces)), 64, len(size))
    return block_leaf(block, leaf_type)
