"""Size limits of the mini-block chunks that we write."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lance_spark.encodings.blocks import Int64Array


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
