"""Space-filling curves: each place once, neighbours on the Hilbert curve are neighbours in space."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from lance_spark.table.maintenance.clustering.curve import hilbert, zorder


@pytest.mark.parametrize(("dimensions", "bits"), [(1, 6), (2, 1), (2, 5), (3, 3), (4, 2), (5, 2)])
def test_a_hilbert_curve_visits_each_point_and_never_jumps(dimensions: int, bits: int) -> None:
    points = np.array(list(product(range(1 << bits), repeat=dimensions))).T
    places = hilbert(points, bits)
    assert sorted(places.tolist()) == list(range(1 << bits * dimensions))
    along = points[:, np.argsort(places)]
    steps = np.abs(np.diff(along, axis=1)).sum(axis=0)
    assert (steps == 1).all()


def test_zorder_interleaves_bits() -> None:
    points = np.array(list(product(range(8), range(8)))).T
    expected = [
        sum(((x >> bit & 1) << 2 * bit + 1) | ((y >> bit & 1) << 2 * bit) for bit in range(3)) for x, y in points.T
    ]
    assert zorder(points, 3).tolist() == expected
