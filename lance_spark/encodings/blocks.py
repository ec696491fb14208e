"""Intermediate values between bytes and Arrow: inputs and outputs of codecs.

A *block* is decoded values without nulls (validity is in definition levels, or, for fixed-size lists, in the
block). `Chunks` is encoded bytes: n slices of one buffer. A standalone block (a dictionary, the levels of a
constant page) is `Chunks` with n = 1; the mini-block chunks of a complete page are `Chunks` with n in the
hundreds, so that a codec decodes a page with one kernel call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.slices import outside

Int64Array: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Chunks:
    """`n` slices of one buffer; slice i has `num_values[i]` encoded values.

    Attributes:
        data: the bytes; every slice is within them (checked at construction, or by `located`).
        starts: int64[n], offset of each slice in `data`.
        sizes: int64[n], bytes of each slice.
        num_values: int64[n], values in each slice.

    Raises:
        CorruptFileError: a slice is out of bounds, or a number is negative.
    """

    data: pa.Buffer
    starts: Int64Array
    sizes: Int64Array
    num_values: Int64Array

    def __post_init__(self) -> None:
        if len(self.starts) == 0:
            return
        if len(self.starts) == 1:
            start, size, count = int(self.starts[0]), int(self.sizes[0]), int(self.num_values[0])
            if start < 0 or size < 0 or count < 0 or start + size > self.data.size:
                raise CorruptFileError(f"a chunk lies outside of its buffer of {self.data.size} bytes")
            return
        tables = [np.ascontiguousarray(table) for table in (self.starts, self.sizes, self.num_values)]
        if outside(*map(address_of, tables), len(self.starts), self.data.size) >= 0:
            raise CorruptFileError(f"a chunk lies outside of its buffer of {self.data.size} bytes")

    @classmethod
    def located(cls, data: pa.Buffer, starts: Int64Array, sizes: Int64Array, num_values: Int64Array) -> Chunks:
        """Slices that a kernel has found within `data`: they are not checked again."""
        chunks = object.__new__(cls)
        object.__setattr__(chunks, "data", data)
        object.__setattr__(chunks, "starts", starts)
        object.__setattr__(chunks, "sizes", sizes)
        object.__setattr__(chunks, "num_values", num_values)
        return chunks

    @classmethod
    def single(cls, data: pa.Buffer, num_values: int) -> Chunks:
        """All of `data` as one slice."""
        return cls(
            data,
            np.zeros(1, np.int64),
            np.array([data.size], np.int64),
            np.array([num_values], np.int64),
        )

    @property
    def total_values(self) -> int:
        """Total number of values in all slices."""
        return int(self.num_values.sum())


@dataclass(frozen=True, slots=True)
class FixedWidthBlock:
    """`num_values` values of `bits_per_value` bits, back to back (1 bit: LSB first)."""

    data: pa.Buffer
    bits_per_value: int
    num_values: int


@dataclass(frozen=True, slots=True)
class VariableWidthBlock:
    """`num_values` byte strings.

    `offsets` has `num_values + 1` entries of `bits_per_offset` (32 or 64) bits, starts at 0, never decreases and is
    within `data`.
    """

    offsets: pa.Buffer
    data: pa.Buffer
    bits_per_offset: int
    num_values: int


@dataclass(frozen=True, slots=True)
class FixedSizeListBlock:
    """`num_values` lists of `dimension` items; `validity` (LSB first, 1 = valid): a bit per item, None = all valid."""

    items: Block
    dimension: int
    validity: pa.Buffer | None
    num_values: int


@dataclass(frozen=True, slots=True)
class PackedStructBlock:
    """`num_values` rows of a packed struct, its children in order."""

    children: tuple[Block, ...]
    num_values: int


Block: TypeAlias = FixedWidthBlock | VariableWidthBlock | FixedSizeListBlock | PackedStructBlock
