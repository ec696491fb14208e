"""Whether two geometries have a point in common, exactly: rounding decides nothing."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from lance_spark.expr.geo.shape import Coordinates, Shape

Floats = npt.NDArray[np.float64]

_RELATIVE_ERROR = 3.3306690738754716e-16
"""Of a 2x2 determinant of differences, by the sum of its two products (3 units of rounding, and those of the bound)."""

_UNDERFLOW = 1e-290
"""Products below may have lost digits."""


def intersects(one: Shape, other: Shape) -> bool:
    """Whether two geometries have a point in common; boundaries belong to areas."""
    if not boxes_meet(one.box(), other.box()):
        return False
    first, second = one.segments(), other.segments()
    if _any_cross(first, second):
        return True
    # Without a common point of the boundaries each part is inside of an area or outside of it, as its first point is.
    return _any_inside(one, other) or _any_inside(other, one)


def boxes_meet(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether two boxes have a point in common."""
    return one[0] <= other[2] and other[0] <= one[2] and one[1] <= other[3] and other[1] <= one[3]


def _any_cross(first: Floats, second: Floats) -> bool:
    if len(first) > len(second):
        first, second = second, first
    lows = np.minimum(second[:, :2], second[:, 2:])
    highs = np.maximum(second[:, :2], second[:, 2:])
    for segment in first:
        a, b = segment[:2], segment[2:]
        near = ((lows <= np.maximum(a, b)) & (highs >= np.minimum(a, b))).all(axis=1)
        if near.any() and bool(_cross(a, b, second[near, :2], second[near, 2:]).any()):
            return True
    return False


def _cross(a: Floats, b: Floats, c: Floats, d: Floats) -> npt.NDArray[np.bool_]:
    """bool[n]: which segments from c to d meet the one from a to b; their boxes do."""
    straddles_first = side(a, b, c) * side(a, b, d) <= 0
    straddles_second = side(c, d, a) * side(c, d, b) <= 0
    return straddles_first & straddles_second


def side(a: Floats, b: Floats, c: Floats) -> npt.NDArray[np.int8]:
    """int8[n]: 1 where c is left of the line from a to b, -1 right of it, 0 on it."""
    a, b, c = np.broadcast_arrays(*(np.atleast_2d(point) for point in (a, b, c)))
    with np.errstate(over="ignore", invalid="ignore"):
        left = (a[:, 0] - c[:, 0]) * (b[:, 1] - c[:, 1])
        right = (a[:, 1] - c[:, 1]) * (b[:, 0] - c[:, 0])
        turn = left - right
        is_sure = np.abs(turn) > _RELATIVE_ERROR * (np.abs(left) + np.abs(right)) + _UNDERFLOW
    is_sure &= np.isfinite(turn)
    signs = np.where(is_sure, np.sign(np.where(is_sure, turn, 0)), 0).astype(np.int8)
    for place in np.flatnonzero(~is_sure).tolist():
        signs[place] = _exact_side(a[place].tolist(), b[place].tolist(), c[place].tolist())
    return signs


def _exact_side(a: list[float], b: list[float], c: list[float]) -> int:
    (ax, ay), (bx, by), (cx, cy) = ([Fraction(value) for value in point] for point in (a, b, c))
    turn = (ax - cx) * (by - cy) - (ay - cy) * (bx - cx)
    return (turn > 0) - (turn < 0)


def _any_inside(parts: Shape, areas: Shape) -> bool:
    bounded = areas.bounded_areas()
    if not bounded:
        return False
    firsts = [path[:1] for path in parts.paths] + [rings[0][:1] for rings in parts.areas if rings]
    points = [first for first in firsts if len(first) and np.isfinite(first).all()]
    return any(_is_inside(point[0], rings) for rings in bounded for point in points)


def _is_inside(point: Floats, rings: list[Coordinates]) -> bool:
    """Whether a point that is on no ring is inside an odd number of them."""
    crossings = 0
    for ring in rings:
        starts, ends = ring[:-1], ring[1:]
        passes = (starts[:, 1] > point[1]) != (ends[:, 1] > point[1])
        starts, ends = starts[passes], ends[passes]
        upward = ends[:, 1] > starts[:, 1]
        if len(starts):
            crossings += int(((side(starts, ends, point) > 0) == upward).sum())
    return crossings % 2 == 1
