"""Which partitions a search reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lance_spark.errors import InvalidInputError
from lance_spark.index.vector.metrics import Float32Array, Metric

_AUTOMATIC: dict[Metric, tuple[tuple[int, float, int, int], ...]] = {
    Metric.L2: (
        (1, 0.2175, 5, 19),
        (10, 0.265, 6, 24),
        (100, 0.33, 11, 38),
        (200, 0.375, 15, 56),
        (500, 0.3725, 22, 81),
        (1000, 0.4175, 29, 93),
    ),
    Metric.COSINE: (
        (1, 0.235, 3, 50),
        (10, 0.2875, 8, 77),
        (100, 0.38, 7, 106),
        (200, 0.415, 18, 156),
        (500, 0.45, 28, 192),
        (1000, 0.47, 34, 248),
    ),
    Metric.DOT: (
        (1, 0.14, 56, 112),
        (10, 0.055, 144, 432),
        (100, 0.0625, 200, 768),
        (200, 0.0675, 211, 833),
        (500, 0.07, 244, 971),
        (1000, 0.0725, 279, 1092),
    ),
}
"""By metric: up to which k, how far beyond the nearest centroid, the least and the largest number of partitions.

The numbers are those of the reference library, so that searches have its recall.
"""


@dataclass(frozen=True, slots=True)
class Probing:
    """Limits of the number of partitions that are searched in each segment.

    Attributes:
        minimum: the least number; None for as many as the distances of the centroids suggest.
        maximum: the largest number; between the two only while fewer than k rows are found. None for all.
    """

    minimum: int | None = None
    maximum: int | None = None

    def __post_init__(self) -> None:
        for name, number in (("minimum", self.minimum), ("maximum", self.maximum)):
            if number is not None and (type(number) is not int or number < 1):
                raise InvalidInputError(f"the {name} number of probed partitions is {number!r}; it must be at least 1")
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise InvalidInputError(f"at least {self.minimum} and at most {self.maximum} partitions cannot be probed")

    def order(self, distances: Float32Array, k: int, metric: Metric) -> tuple[npt.NDArray[np.int64], int]:
        """(the partitions in the order in which they are searched, how many of them in any case).

        Args:
            distances: float32[p], of the query to the centroids.
        """
        order = distances.argsort(kind="stable")
        limit = len(order) if self.maximum is None else min(self.maximum, len(order))
        wanted = _automatic(distances[order], k, metric) if self.minimum is None else self.minimum
        return order[:limit], min(wanted, limit)


def _automatic(ascending: Float32Array, k: int, metric: Metric) -> int:
    rule = next((rule for rule in _AUTOMATIC.get(metric, _AUTOMATIC[Metric.L2]) if k <= rule[0]), None)
    if rule is None:
        return len(ascending)
    _, margin, least, most = rule
    nearest = float(ascending[0])
    scale = abs(1 - nearest) if metric is Metric.DOT else nearest
    near = int((ascending - nearest <= margin * scale).sum())
    return min(max(near, least), most)
