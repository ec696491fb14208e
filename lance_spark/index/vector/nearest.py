"""The k nearest rows of all that are offered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_spark.errors import InvalidInputError
from lance_spark.index.vector.metrics import Float32Array
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.vector_codes import least

UInt64Array = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Hits:
    """Rows and their distances, nearest first; of equally near ones the one with the least row id first.

    Attributes:
        distances: float32[n].
        row_ids: uint64[n].
        addresses: uint64[n].
    """

    distances: Float32Array
    row_ids: UInt64Array
    addresses: UInt64Array


NO_HITS = Hits(np.empty(0, np.float32), np.empty(0, np.uint64), np.empty(0, np.uint64))


@dataclass(frozen=True, slots=True)
class DistanceRange:
    """The distances that count: from `lower` on, below `upper`."""

    lower: float | None = None
    upper: float | None = None

    def __post_init__(self) -> None:
        if self.lower is not None and self.upper is not None and not self.lower <= self.upper:
            raise InvalidInputError(f"the distance range from {self.lower} to {self.upper} is empty")

    def keeps(self, distances: Float32Array) -> npt.NDArray[np.bool_]:
        """bool[n]: which distances are in the range; NaN never is."""
        kept = ~np.isnan(distances)
        if self.lower is not None:
            kept &= distances >= np.float32(self.lower)
        if self.upper is not None:
            kept &= distances < np.float32(self.upper)
        return kept


def bound_of_least(distances: Float32Array, count: int) -> tuple[float, int]:
    """(the greatest of the `count` least distances, how many they are); NaN is none.

    >>> bound_of_least(np.array([3, 1, np.nan, 2], np.float32), 2)
    (2.0, 2)
    """
    values = np.ascontiguousarray(distances)
    heap = np.empty(min(count, len(values)) or 1, np.float32)
    found = least(address_of(values), len(values), min(count, len(values)), address_of(heap)) if len(values) else 0
    return (float(heap[0]), found) if found else (-np.inf, 0)


class NearestRows:
    """Collects the `k` nearest of the rows that it is offered.

    Args:
        k: how many.
        within: the distances that count.
    """

    def __init__(self, k: int, within: DistanceRange) -> None:
        self._k = k
        self._within = within
        self._hits = NO_HITS

    @property
    def bound(self) -> float:
        """A row that is farther is not taken; infinity until there are k rows."""
        return float(self._hits.distances[-1]) if len(self._hits.distances) == self._k else np.inf

    @property
    def is_bounded(self) -> bool:
        """Whether only some distances count."""
        return self._within.lower is not None or self._within.upper is not None

    def offer(self, distances: Float32Array, row_ids: UInt64Array, addresses: UInt64Array) -> None:
        """Takes rows into account; a NaN distance means none."""
        kept = self._within.keeps(distances)
        if len(self._hits.distances) == self._k:
            kept &= distances <= self._hits.distances[-1]
        (chosen,) = kept.nonzero()
        if len(chosen) > self._k:
            # Cut before sorting, with all rows as near as the last one: row ids decide among them.
            near = distances[chosen]
            chosen = chosen[near <= bound_of_least(near, self._k)[0]]
        if not len(chosen):
            return
        merged = Hits(distances[chosen], row_ids[chosen], addresses[chosen])
        if len(self._hits.distances):
            merged = Hits(
                np.concatenate([self._hits.distances, merged.distances]),
                np.concatenate([self._hits.row_ids, merged.row_ids]),
                np.concatenate([self._hits.addresses, merged.addresses]),
            )
        order = np.lexsort((merged.row_ids, merged.distances))[: self._k]
        self._hits = Hits(merged.distances[order], merged.row_ids[order], merged.addresses[order])

    def offer_hits(self, hits: Hits) -> None:
        """Takes rows into account that are in order, none of which has the distance NaN."""
        if len(self._hits.distances) or len(hits.distances) > self._k or self.is_bounded:
            self.offer(hits.distances, hits.row_ids, hits.addresses)
        else:
            self._hits = hits

    def hits(self) -> Hits:
        """The nearest rows of all that were offered."""
        return self._hits

    @staticmethod
    def offer_to_each(
        collectors: Sequence[NearestRows],
        counts: npt.NDArray[np.int64],
        distances: Float32Array,
        row_ids: UInt64Array,
        addresses: UInt64Array,
    ) -> None:
        """Takes rows into account, the first `counts[0]` for the first collector, and so on, as `offer` for each does.

        Args:
            collectors: of the same k and range.
        """
        before = [collector._hits for collector in collectors]
        owners = np.repeat(np.arange(len(collectors)), counts)
        old_owners = np.repeat(np.arange(len(collectors)), [len(hits.distances) for hits in before])
        kept = np.flatnonzero(collectors[0]._within.keeps(distances))
        owners = np.concatenate([old_owners, owners[kept]])
        near = np.concatenate([*(hits.distances for hits in before), distances[kept]])
        ids = np.concatenate([*(hits.row_ids for hits in before), row_ids[kept]])
        where = np.concatenate([*(hits.addresses for hits in before), addresses[kept]])
        order = np.lexsort((ids, near, owners))
        ends = np.cumsum(np.bincount(owners, minlength=len(collectors))).tolist()
        near, ids, where = near[order], ids[order], where[order]
        for collector, start, end in zip(collectors, [0, *ends[:-1]], ends, strict=True):
            stop = min(end, start + collector._k)
            collector._hits = Hits(near[start:stop], ids[start:stop], where[start:stop])
