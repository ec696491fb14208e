"""Blob columns of 2.0 (`lance.encodings.Blob`): a page has the position of each value in the file.

A descriptor is a packed struct of two u64, position and size. Position 1 with size 0 is null; any other position with
size 0 is an empty value; otherwise the value is `size` bytes from byte `position` of the file.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.encodings.blocks import MAX_UNBACKED_BYTES, Int64Array
from lance_spark.errors import CorruptFileError, InvalidInputError
from lance_spark.kernels.layouts.v2_0 import MAX_NARROW_OFFSET
from lance_spark.layouts.base import EncodedBuffer, RowRanges, side_by_side
from lance_spark.layouts.checked_values import checked
from lance_spark.layouts.read_spans import gathered
from lance_spark.layouts.v2_0.base import EMPTY, MAX_COUNT, FileReads, read_located, require_type
from lance_spark.layouts.v2_0.binary import WIDE_OFFSETS
from lance_spark.layouts.v2_0.column import Column
from lance_spark.layouts.v2_0.nodes import Node
from lance_spark.layouts.v2_0.write import NULL_POSITION

UInt64Array = npt.NDArray[np.uint64]

DESCRIPTION = pa.struct(
    [pa.field("position", pa.uint64(), nullable=False), pa.field("size", pa.uint64(), nullable=False)]
)
"""The type of blob descriptors."""


@dataclass(frozen=True, slots=True)
class BlobNode(Node):
    """A field whose values are stored outside of the pages of its column."""

    data_type: pa.DataType
    column: Column

    @property
    def num_values(self) -> int:
        return self.column.num_values

    def read(self, ranges: RowRanges) -> FileReads[pa.ChunkedArray]:
        """See `Node.read`. The array has the values, or the descriptors if the field is a struct of them."""
        require_type(self.data_type in WIDE_OFFSETS or self.data_type == DESCRIPTION, "blob", self.data_type)
        descriptions = yield from self.column.read(ranges, DESCRIPTION)
        if self.data_type == DESCRIPTION:
            return pa.chunked_array(map(self._with_nulls, descriptions), DESCRIPTION)
        values = yield from side_by_side([self._read_values(described) for described in descriptions])
        return pa.chunked_array(values, self.data_type)

    def _read_values(self, described: pa.StructArray) -> FileReads[pa.Array]:
        positions, sizes = self._numbers(described)
        if len(sizes) and max(int(positions.max()), int(sizes.max()), int(sizes.sum(dtype=np.float64))) >= MAX_COUNT:
            raise CorruptFileError("a blob lies behind the end of any file", column=self.column.encoded.index)
        wide = WIDE_OFFSETS[self.data_type]
        offsets = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        if offsets[-1] > MAX_NARROW_OFFSET and not wide:
            raise InvalidInputError("more than 2 GiB of blobs at once; read fewer rows at a time")
        filled = np.flatnonzero(sizes)
        data = yield from _read_blobs(positions[filled].astype(np.int64), sizes[filled].astype(np.int64))
        valid = _valid(positions, sizes)
        validity = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
        buffers = [validity, pa.py_buffer(offsets if wide else offsets.astype(np.int32)), data]
        return checked(pa.Array.from_buffers(self.data_type, len(sizes), buffers))

    def _with_nulls(self, described: pa.StructArray) -> pa.StructArray:
        positions, sizes = self._numbers(described)
        valid = _valid(positions, sizes)
        mask = None if valid.all() else pa.array(~valid)
        return pa.StructArray.from_arrays([positions, sizes], fields=list(DESCRIPTION), mask=mask)

    def _numbers(self, described: pa.StructArray) -> tuple[UInt64Array, UInt64Array]:
        """(positions, sizes)."""
        members = described.flatten()
        if any(member.null_count for member in members):
            raise CorruptFileError("the place of a blob is null", column=self.column.encoded.index)
        positions, sizes = (member.to_numpy() for member in members)
        return positions, sizes


def _valid(positions: UInt64Array, sizes: UInt64Array) -> npt.NDArray[np.bool_]:
    return np.asarray((sizes != 0) | (positions != NULL_POSITION))


def _read_blobs(positions: Int64Array, sizes: Int64Array) -> FileReads[pa.Buffer]:
    """The bytes of non-empty blobs, back to back in the same order."""
    if len(positions) == 0:
        return EMPTY
    order = np.argsort(positions, kind="stable")
    places = np.empty_like(positions)
    starts = positions[order]
    data, places[order] = yield from read_located(EncodedBuffer(0, MAX_COUNT), starts, starts + sizes[order])
    # The file layer has checked that the blobs are within the file, but not that they do not overlap.
    span = int((positions + sizes).max() - positions.min())
    if int(sizes.sum()) > max(span, MAX_UNBACKED_BYTES):
        raise CorruptFileError(f"blobs of {int(sizes.sum())} bytes lie in {span} bytes of the file")
    return gathered(data, places, sizes)
