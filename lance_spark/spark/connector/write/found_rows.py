"""What tasks that look for rows tell the driver."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.spark.jobs.packed_addresses import PackedAddresses
from lance_spark.table.rows.row_address import UInt64Array


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Rows that were found.

    Attributes:
        object_id: the partition that they are in; None in a table without any.
    """

    object_id: str | None
    addresses: PackedAddresses

    @classmethod
    def of(cls, object_id: str | None, batches: Iterable[pa.RecordBatch]) -> FoundRows:
        """Those of `batches`, whose only column is their address."""
        addresses = [batch.column(0).to_numpy() for batch in batches]
        return cls(object_id, PackedAddresses.of(joined(addresses)))


def joined(parts: Iterable[UInt64Array]) -> UInt64Array:
    """All addresses, in the order of `parts`."""
    return np.concatenate([np.empty(0, np.uint64), *parts])
