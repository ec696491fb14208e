"""How the interiors, boundaries and exteriors of two geometries meet, exactly: rounding decides nothing.

The segments of both are cut where they meet, by fractions. Where each node, each edge and each side of an edge is in
either geometry gives the matrix of dimensions of the standard "OpenGIS Simple Features", section 6.1.15. Areas come
before lines and lines before points where the parts of one geometry overlap; the areas of one are united.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lance_spark.expr.geo.intersects import Floats, boxes_meet, intersects, side
from lance_spark.expr.geo.shape import NOWHERE, Coordinates, Shape, closed

Number = float | Fraction
Node = tuple[Number, Number]
Edge = tuple[Node, Node]
Box = tuple[float, float, float, float]

_INTERIOR, _BOUNDARY, _EXTERIOR = 0, 1, 2
_LEAST_RING = 4
_RELATIVE_ERROR = 1e-14
"""Of a determinant with a rounded point, by the sum of its products; an ample bound."""

RELATIONS = frozenset(
    f"st_{name}" for name in ("contains", "within", "covers", "coveredby", "touches", "crosses", "overlaps", "equals")
)
"""What `related` answers; `st_disjoint` is the opposite of `st_intersects`."""

TURNED = {
    "st_contains": "st_within",
    "st_within": "st_contains",
    "st_covers": "st_coveredby",
    "st_coveredby": "st_covers",
}
"""The names of relations whose arguments are exchanged; others are symmetric."""


def related(name: str, one: Shape, other: Shape) -> bool:
    """Whether a relation of `RELATIONS` holds between two geometries.

    >>> from lance_spark.expr.geo.wkt import parse_wkt
    >>> related("st_touches", parse_wkt("POINT(0 1)"), parse_wkt("LINESTRING(0 1, 5 5)"))
    True
    """
    if name in ("st_contains", "st_covers"):
        return related(TURNED[name], other, one)
    first, second = one.box(), other.box()
    if NOWHERE in (first, second):
        return False
    if name in ("st_within", "st_coveredby", "st_equals") and not _is_around(second, first):
        return False
    if name == "st_equals" and first != second:
        return False
    if not boxes_meet(first, second) or not intersects(one, other):
        return False
    parts = _Parts.of(one), _Parts.of(other)
    return _holds(name, _matrix(parts, (first, second)), parts[0].dimension, parts[1].dimension)


def _is_around(outer: tuple[float, ...], inner: tuple[float, ...]) -> bool:
    return outer[0] <= inner[0] and outer[1] <= inner[1] and outer[2] >= inner[2] and outer[3] >= inner[3]


def _holds(name: str, matrix: list[list[int]], one: int, other: int) -> bool:
    """By the dimensions of what the parts have in common, -1 for nothing, and those of the geometries."""
    inside = matrix[_INTERIOR][_INTERIOR] >= 0
    common = inside or max(matrix[0][1], matrix[1][0], matrix[1][1]) >= 0
    one_leaves = max(matrix[_INTERIOR][_EXTERIOR], matrix[_BOUNDARY][_EXTERIOR]) >= 0
    other_leaves = max(matrix[_EXTERIOR][_INTERIOR], matrix[_EXTERIOR][_BOUNDARY]) >= 0
    both_leave = matrix[_INTERIOR][_EXTERIOR] >= 0 and matrix[_EXTERIOR][_INTERIOR] >= 0
    if name == "st_within":
        return inside and not one_leaves
    if name == "st_coveredby":
        return common and not one_leaves
    if name == "st_equals":
        return inside and not one_leaves and not other_leaves
    if name == "st_touches":
        return common and not inside
    if name == "st_overlaps":
        fits = matrix[_INTERIOR][_INTERIOR] == 1 if one == 1 else inside
        return one == other and fits and both_leave
    if one != other:
        leaves = matrix[_INTERIOR][_EXTERIOR] if one < other else matrix[_EXTERIOR][_INTERIOR]
        return inside and leaves >= 0
    return one == 1 and matrix[_INTERIOR][_INTERIOR] == 0


@dataclass
class _Parts:
    """A geometry as points, lines and areas, of which each has a place.

    Attributes:
        segments: float64[n, 4] of each line, and of the rings of each area, without those of length 0.
    """

    points: list[Node] = field(default_factory=list)
    lines: list[Floats] = field(default_factory=list)
    areas: list[Floats] = field(default_factory=list)

    @classmethod
    def of(cls, shape: Shape) -> _Parts:
        """The parts of a shape; what is not finite has no place, rings of less than four points are lines."""
        parts = cls()
        for path in shape.paths:
            parts._add_path(path)
        for rings in shape.areas:
            is_bounded = all(np.isfinite(ring).all() for ring in rings)
            bounds = []
            for ring in map(closed, rings):
                if is_bounded and len(ring) >= _LEAST_RING:
                    bounds.append(_segments(ring))
                else:
                    parts._add_path(ring)
            if bounds:
                parts.areas.append(np.concatenate(bounds))
        return parts

    def _add_path(self, path: Coordinates) -> None:
        is_finite: npt.NDArray[np.bool_] = np.atleast_1d(np.isfinite(path).all(axis=1))
        if len(path) == 1 and is_finite[0]:
            self.points.append((float(path[0, 0]), float(path[0, 1])))
        for run in np.split(np.arange(len(path)), np.flatnonzero(~is_finite)):
            finite = path[run[is_finite[run]]]
            if len(finite) < 2:
                continue
            segments = _segments(finite)
            if len(segments):
                self.lines.append(segments)
            else:
                self.points.append((float(finite[0, 0]), float(finite[0, 1])))

    @property
    def is_uniform(self) -> bool:
        """Whether all parts are areas, or all are lines."""
        return not self.points and not (self.lines and self.areas)

    @property
    def dimension(self) -> int:
        """The highest dimension of a part."""
        return 2 if self.areas else 1 if self.lines else 0


def _segments(path: Coordinates) -> Floats:
    segments = np.concatenate([path[:-1], path[1:]], axis=1)
    kept: Floats = segments[(segments[:, :2] != segments[:, 2:]).any(axis=1)]
    return kept


def _matrix(parts: tuple[_Parts, _Parts], boxes: tuple[Box, Box]) -> list[list[int]]:
    """[3][3]: the dimensions of what interior, boundary and exterior of one and the other have in common."""
    matrix = [[-1, -1, -1], [-1, -1, -1], [-1, -1, 2]]

    def met(dimension: int, one: int, other: int) -> None:
        matrix[one][other] = max(matrix[one][other], dimension)

    edges, nodes = _arranged(parts, boxes)
    sides = {edge: tuple(_sides(edge, own.areas) for own in parts) for edge in edges}
    incident: defaultdict[Node, list[Edge]] = defaultdict(list)
    for edge, owners in edges.items():
        for node in edge:
            incident[node].append(edge)
        one, other = sides[edge]
        for first, second in zip(one, other, strict=True):
            met(2, _INTERIOR if first else _EXTERIOR, _INTERIOR if second else _EXTERIOR)
        places = [_place(covered, is_there=number in owners) for number, covered in enumerate((one, other))]
        met(1, *places)
    for number, own in enumerate(parts):
        for dimension, place in _outside(own, boxes[1 - number]):
            met(dimension, *((place, _EXTERIOR) if number == 0 else (_EXTERIOR, place)))
    ends = [_odd_ends(own) for own in parts]
    for node in nodes | incident.keys():
        is_cut_off = any(own.is_uniform and not _is_in(node, box) for own, box in zip(parts, boxes[::-1], strict=True))
        if is_cut_off and not any(node in own.points for own in parts):
            continue  # What is around it has been left out, and its edges say all: see `_outside`.
        around = incident.get(node, ())
        places = []
        for number, own in enumerate(parts):
            covered = [value for edge in around for value in sides[edge][number]]
            if not around:
                covered = [any(_is_below(node, area, is_turned=False) for area in own.areas)]
            is_there = node in own.points or any(number in edges[edge] for edge in around)
            places.append(_place(covered, is_there=is_there, is_end=node in ends[number]))
        met(0, *places)
    return matrix


def _outside(own: _Parts, box: Box) -> Iterator[tuple[int, int]]:
    """(dimension, place) of what a geometry has outside of the box of another one, where its segments are left out.

    An area with a segment outside of a box also has its utmost corner there, with its boundary and interior beside it.
    """
    if not own.is_uniform:
        return
    if not all(_is_near(segments, box).all() for segments in (*own.lines, *own.areas)):
        yield own.dimension, _INTERIOR
        if own.areas:
            yield 1, _BOUNDARY
    if any(not _is_in(node, box) for node in _odd_ends(own)):
        yield 0, _BOUNDARY


def _is_near(segments: Floats, box: Box) -> npt.NDArray[np.bool_]:
    """bool[n]: whether the boxes of segments meet another one."""
    lows, highs = np.minimum(segments[:, :2], segments[:, 2:]), np.maximum(segments[:, :2], segments[:, 2:])
    return np.atleast_1d(((lows <= np.array(box[2:])) & (highs >= np.array(box[:2]))).all(axis=1))


def _is_in(node: Node, box: Box) -> bool:
    return box[0] <= node[0] <= box[2] and box[1] <= node[1] <= box[3]


def _place(covered: Sequence[bool], *, is_there: bool, is_end: bool = False) -> int:
    """Where something is in a geometry.

    Args:
        covered: whether areas have what is around it.
        is_there: whether a line or a point is.
        is_end: whether it is on the boundary of the lines.
    """
    if all(covered):
        return _INTERIOR
    if any(covered) or is_end:
        return _BOUNDARY
    return _INTERIOR if is_there else _EXTERIOR


def _odd_ends(parts: _Parts) -> set[Node]:
    """The boundary of the lines: where an odd number of them ends."""
    ends = Counter(_node(point) for line in parts.lines for point in (line[0, :2], line[-1, 2:]))
    return {node for node, count in ends.items() if count % 2}


def _node(point: npt.NDArray[np.float64]) -> Node:
    return float(point[0]), float(point[1])


def _arranged(parts: tuple[_Parts, _Parts], boxes: tuple[Box, Box]) -> tuple[dict[Edge, set[int]], set[Node]]:
    """(the edges between all meetings of segments, with the geometries that have a line there; the points).

    Segments that are not near the other geometry are left out if all parts of their own geometry are alike.
    """
    near: dict[tuple[float, ...], set[int]] = {}
    far = [np.empty((0, 4))]
    for number, own in enumerate(parts):
        for segments, is_line in [(line, True) for line in own.lines] + [(area, False) for area in own.areas]:
            kept = _is_near(segments, boxes[1 - number]) | (not own.is_uniform)
            far.append(segments[~kept])
            for segment in segments[kept].tolist():
                key = tuple(segment) if segment[:2] <= segment[2:] else (*segment[2:], *segment[:2])
                near.setdefault(key, set()).update({number} if is_line else ())
    points = {node for own in parts for node in own.points}
    segments = np.concatenate([np.array(list(near), np.float64).reshape(-1, 4), *far])
    cuts: list[set[Node]] = [{_node(segment[:2]), _node(segment[2:])} for segment in segments[: len(near)]]
    for one, other, node in _meetings(segments, len(near)):
        cuts[one].add(node)
        if other < len(near):
            cuts[other].add(node)
    for point in points:
        for place in _containing(point, segments[: len(near)]):
            cuts[place].add(point)
    edges: dict[Edge, set[int]] = {}
    for nodes, with_line in zip(cuts, near.values(), strict=True):
        for edge in pairwise(sorted(nodes)):
            edges.setdefault(edge, set()).update(with_line)
    return edges, points


def _containing(point: Node, segments: Floats) -> list[int]:
    low = np.minimum(segments[:, :2], segments[:, 2:])
    high = np.maximum(segments[:, :2], segments[:, 2:])
    at = np.array(point, np.float64)
    near = np.flatnonzero(((low <= at) & (high >= at)).all(axis=1))
    return [int(place) for place in near[side(segments[near, :2], segments[near, 2:], at) == 0]] if len(near) else []


def _meetings(segments: Floats, count: int) -> Iterator[tuple[int, int, Node]]:
    """(one of the first `count` segments, a later one, a point that both have), with the ends of what both have."""
    lows, highs = np.minimum(segments[:, :2], segments[:, 2:]), np.maximum(segments[:, :2], segments[:, 2:])
    for one in range(count):
        near = ((lows[one + 1 :] <= highs[one]) & (highs[one + 1 :] >= lows[one])).all(axis=1)
        others = one + 1 + np.flatnonzero(near)
        if not len(others):
            continue
        a, b = segments[one, :2], segments[one, 2:]
        c, d = segments[others, :2], segments[others, 2:]
        of_c, of_d, of_a, of_b = side(a, b, c), side(a, b, d), side(c, d, a), side(c, d, b)
        for place in np.flatnonzero((of_c * of_d <= 0) & (of_a * of_b <= 0)).tolist():
            signs = int(of_c[place]), int(of_d[place]), int(of_a[place]), int(of_b[place])
            for node in _common(segments[one], segments[others[place]], signs):
                yield one, int(others[place]), node


def _common(one: npt.NDArray[np.float64], other: npt.NDArray[np.float64], signs: tuple[int, ...]) -> list[Node]:
    """The points of two segments whose ends are on these sides: of the first the ends of the second, and so on."""
    ends = (other[:2], other[2:], one[:2], one[2:])
    bounds = (one, one, other, other)
    touching = [
        _node(point)
        for point, segment, sign in zip(ends, bounds, signs, strict=True)
        if sign == 0 and _is_between(point, segment)
    ]
    if touching or 0 in signs:
        return touching
    ax, ay, bx, by = map(Fraction, one.tolist())
    cx, cy, dx, dy = map(Fraction, other.tolist())
    share = ((cx - ax) * (dy - cy) - (cy - ay) * (dx - cx)) / ((bx - ax) * (dy - cy) - (by - ay) * (dx - cx))
    return [(ax + share * (bx - ax), ay + share * (by - ay))]


def _is_between(point: npt.NDArray[np.float64], segment: npt.NDArray[np.float64]) -> bool:
    low, high = np.minimum(segment[:2], segment[2:]), np.maximum(segment[:2], segment[2:])
    return bool(((low <= point) & (point <= high)).all())


def _sides(edge: Edge, areas: list[Floats]) -> tuple[bool, bool]:
    """Whether one of some areas is above an edge, and below it; right and left of an edge from bottom to top."""
    (ax, ay), (bx, by) = edge
    is_turned = ax == bx
    middle = (Fraction(ax) + Fraction(bx)) / 2, (Fraction(ay) + Fraction(by)) / 2
    above = below = False
    for area in areas:
        is_inside = _is_below(middle, area, is_turned=is_turned)
        above |= is_inside
        below |= is_inside != bool(_count_through(middle, area) % 2)
    return above, below


def _is_below(node: Node, area: Floats, *, is_turned: bool) -> bool:
    """Whether a place right above a node is in an area; right of it, if `is_turned`."""
    order = [1, 0, 3, 2] if is_turned else [0, 1, 2, 3]
    turned = area[:, order]
    x1, x2 = turned[:, 0], turned[:, 2]
    x, y = (Fraction(value) for value in (node[::-1] if is_turned else node))
    passing = np.flatnonzero(_is_until(x1, x) != _is_until(x2, x))
    signs = _turns(turned[passing], x, y)
    forward = x2[passing] > x1[passing]
    return int((np.where(forward, signs, -signs) < 0).sum()) % 2 == 1


def _is_until(values: npt.NDArray[np.float64], bound: Fraction) -> npt.NDArray[np.bool_]:
    """bool[n]: which values are at most `bound`."""
    near = float(bound)
    until: npt.NDArray[np.bool_] = (values < near) | ((values == near) & (Fraction(near) <= bound))
    return until


def _turns(segments: Floats, x: Fraction, y: Fraction) -> npt.NDArray[np.int8]:
    """int8[n]: 1 where a point is left of a segment, -1 where it is right, 0 on its line."""
    fx, fy = float(x), float(y)
    x1, y1, x2, y2 = segments.T
    with np.errstate(over="ignore", invalid="ignore"):
        turn = (x2 - x1) * (fy - y1) - (y2 - y1) * (fx - x1)
        size = abs(x2 - x1) * (abs(fy) + abs(y1)) + abs(y2 - y1) * (abs(fx) + abs(x1))
        is_sure = np.abs(turn) > _RELATIVE_ERROR * size + 1e-290
    is_sure &= np.isfinite(turn) & np.isfinite(size)
    signs = np.where(is_sure, np.sign(np.where(is_sure, turn, 0)), 0).astype(np.int8)
    for place in np.flatnonzero(~is_sure).tolist():
        ax, ay, bx, by = map(Fraction, segments[place].tolist())
        exact = (bx - ax) * (y - ay) - (by - ay) * (x - ax)
        signs[place] = (exact > 0) - (exact < 0)
    return signs


def _count_through(node: Node, area: Floats) -> int:
    """How many segments go through a node that is none of their ends."""
    x, y = Fraction(node[0]), Fraction(node[1])
    low_x, high_x = np.minimum(area[:, 0], area[:, 2]), np.maximum(area[:, 0], area[:, 2])
    low_y, high_y = np.minimum(area[:, 1], area[:, 3]), np.maximum(area[:, 1], area[:, 3])
    near = _is_until(low_x, x) & _is_until(low_y, y) & _is_until(-high_x, -x) & _is_until(-high_y, -y)
    return int((_turns(area[near], x, y) == 0).sum())
