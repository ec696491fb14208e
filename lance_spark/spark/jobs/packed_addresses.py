"""Row addresses on their way from a task to the driver: differences, compressed. Runs of rows nearly vanish.

>>> packed = PackedAddresses.of(np.array([7, 8, 9, 3], np.uint64))
>>> packed.unpack().tolist()
[7, 8, 9, 3]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.table.rows.row_address import UInt64Array

_CODEC = "zstd"


@dataclass(frozen=True, slots=True)
class PackedAddresses:
    """uint64[count], in their order."""

    count: int
    data: bytes

    @classmethod
    def of(cls, addresses: UInt64Array) -> PackedAddresses:
        """`addresses`, packed."""
        # Differences wrap around, and so do the sums that bring them back.
        steps = np.diff(addresses.astype(np.uint64, copy=False), prepend=np.uint64(0))
        return cls(len(addresses), pa.compress(steps.tobytes(), codec=_CODEC, asbytes=True))

    def unpack(self) -> UInt64Array:
        """uint64[count]."""
        steps = pa.decompress(self.data, self.count * 8, codec=_CODEC)
        addresses: UInt64Array = np.cumsum(np.frombuffer(steps, np.uint64), dtype=np.uint64)
        return addresses
