"""Geometries as points, paths and areas, and their bounding boxes. Only x and y count; Z and M are left out.

A point without coordinates (NaN, as `POINT EMPTY` is written) and every segment or area with a coordinate that is not
finite have no place: they intersect nothing, and no box is larger because of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Coordinates = npt.NDArray[np.float64]
"""float64[n, 2]: x and y."""

NOWHERE = (np.inf, np.inf, -np.inf, -np.inf)
"""The box of a geometry without any place."""


@dataclass
class Shape:
    """A geometry of any type, or several.

    Attributes:
        paths: of points (one each) and lines.
        areas: of polygons: the rings of each, the outer one first.
    """

    paths: list[Coordinates] = field(default_factory=list)
    areas: list[list[Coordinates]] = field(default_factory=list)

    def segments(self) -> npt.NDArray[np.float64]:
        """float64[n, 4]: x and y of both ends of all segments; a point is a segment of length 0."""
        parts = [_segments(path) for path in self.paths]
        parts += [_segments(closed(ring)) for rings in self.areas for ring in rings]
        joined = np.concatenate(parts) if parts else np.empty((0, 4))
        finite: npt.NDArray[np.float64] = joined[np.isfinite(joined).all(axis=1)]
        return finite

    def box(self) -> tuple[float, float, float, float]:
        """(least x, least y, greatest x, greatest y)."""
        segments = self.segments()
        if not len(segments):
            return NOWHERE
        xs, ys = segments[:, [0, 2]], segments[:, [1, 3]]
        return float(xs.min()), float(ys.min()), float(xs.max()), float(ys.max())


def closed(ring: Coordinates) -> Coordinates:
    """A ring whose last point is its first one."""
    if len(ring) < 2 or bool((ring[0] == ring[-1]).all()):
        return ring
    return np.concatenate([ring, ring[:1]])


def _segments(path: Coordinates) -> npt.NDArray[np.float64]:
    ends = path if len(path) < 2 else path[1:]
    starts = path if len(path) < 2 else path[:-1]
    return np.concatenate([starts, ends], axis=1)
