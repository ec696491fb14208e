"""Intermediate values between bytes and Arrow: inputs and outputs of codecs.

A *block* is decoded values without nulls (validity is in definition levels, or, for fixed-size lists, in the
block). `Chunks` is encoded bytes: n slices of one buffer. A standalone block (a dictionary, the levels of a
constant page) is `Chunks` with n = 1; the mini-block chunks of a complete page are `Chunks` with n in the
hundreds, so that a codec decodes a page with one kernel call. `ChunkLimits` are the sizes of the chunks that we write.
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

MAX_UNBACKED_BYTES = 1 << 30
"""Maximum bytes decoded from (nearly) no input, such as the zeros of a bit width of 0."""


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
    within `data`. `is_ascii`: all bytes are known to be below 128.
    """

    offsets: pa.Buffer
    data: pa.Buffer
    bits_per_offset: int
    num_values: int
    is_ascii: bool = False


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


def check(status: int, wire_name: str) -> int:
    """Returns `status` if it is not negative.

    Raises:
        CorruptFileError: chunk (or value) ``~status`` is inconsistent with its size or its number of values.
    """
    if status < 0:
        raise CorruptFileError(f"{wire_name}: chunk {~status} contradicts its size or its number of values")
    return status


def allocate_unbacked(num_bytes: int, wire_name: str) -> pa.Buffer:
    """A buffer whose size is based on a count in the file, not on the size of its bytes.

    Raises:
        CorruptFileError: more than `MAX_UNBACKED_BYTES`.
    """
    if num_bytes > MAX_UNBACKED_BYTES:
        raise CorruptFileError(f"{wire_name}: {num_bytes} bytes are claimed, but no bytes stand for them")
    return pa.allocate_buffer(num_bytes)


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """Limits of one chunk.

    Attributes:
        max_values: maximum values of a chunk, a power of two; the format allows 32768.
        max_bytes: maximum bytes of one value buffer of a chunk, unless two values are larger.
    """

    max_values: int = 4096
    max_bytes: int = 8192

    def values_per_chunk(self, bits_per_value: int) -> int:
        """The largest power of two of values within both limits, at least 2.

        A chunk of one value can only be the last of its page: the wire reserves the logarithm 0 for that.
        """
        fitting = max(2, self.max_bytes * 8 // max(bits_per_value, 1))
        return min(self.max_values, 1 << (fitting.bit_length() - 1))


def equal_chunks(num_values: int, values_per_chunk: int) -> Int64Array:
    """Value counts of equal chunks with a shorter last one; a single empty chunk for no values."""
    if num_values <= values_per_chunk:
        return np.array([num_values], np.int64)
    full, rest = divmod(num_values, values_per_chunk)
    counts = np.full(full + (1 if rest else 0), values_per_chunk, np.int64)
    if rest:
        counts[-1] = rest
    return counts


def starts_of(sizes: Int64Array) -> Int64Array:
    """The starts of back-to-back slices of these sizes."""
    if len(sizes) == 1:
        return np.zeros(1, np.int64)
    return np.asarray(np.cumsum(sizes) - sizes, np.int64)


def total_of(sizes: Int64Array) -> int:
    """The sum of some sizes; for a few of them in a fifth of the time that numpy takes."""
    return sum(sizes.tolist())
