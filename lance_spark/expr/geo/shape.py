"""Geometries as points, paths and areas, and their bounding boxes. Only x and y count; Z and M are left out.

A point without coordinates (NaN, as `POINT EMPTY` is written) and every segment or area with a coordinate that is not
finite have no place: they intersect nothing, and no box is larger because of them.

`parse_wkb` reads well-known binary. The bytes can come from anywhere, so every count is checked before memory is taken
for it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lance_spark.errors import InvalidInputError

Coordinates = npt.NDArray[np.float64]
"""float64[n, 2]: x and y."""

NOWHERE = (np.inf, np.inf, -np.inf, -np.inf)
"""The box of a geometry without any place."""

_POINT, _LINE, _POLYGON = 1, 2, 3
_COLLECTIONS = (4, 5, 6, 7)
_MAX_DEPTH = 32
_EWKB_Z, _EWKB_M, _EWKB_SRID = 0x80000000, 0x40000000, 0x20000000


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


def parse_wkb(data: bytes) -> Shape:
    """The geometry in ISO well-known binary, or in the extended form with an SRID.

    >>> parse_wkb(bytes.fromhex("0101000000000000000000F03F0000000000000040")).box()
    (1.0, 2.0, 1.0, 2.0)

    Raises:
        InvalidInputError: the bytes are no such geometry.
    """
    reader = _WkbReader(data)
    shape = Shape()
    reader.geometry(shape, 0)
    if reader.position != len(data):
        raise reader.refused("has bytes after its end")
    return shape


class _WkbReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def refused(self, reason: str) -> InvalidInputError:
        return InvalidInputError(f"a geometry of {len(self._data)} bytes {reason} at byte {self.position}")

    def geometry(self, shape: Shape, depth: int) -> None:
        """Adds the geometry at the position to `shape`."""
        if depth > _MAX_DEPTH:
            raise self.refused("is nested too deeply")
        order, kind, dimensions = self._head()
        if kind == _POINT:
            shape.paths.append(self._coordinates(order, 1, dimensions))
        elif kind == _LINE:
            shape.paths.append(self._coordinates(order, self._count(order), dimensions))
        elif kind == _POLYGON:
            rings = [
                self._coordinates(order, self._count(order), dimensions) for _ in range(self._checked(order, least=4))
            ]
            shape.areas.append(rings)
        elif kind in _COLLECTIONS:
            for _ in range(self._checked(order, least=5)):
                self.geometry(shape, depth + 1)
        else:
            raise self.refused(f"has the unknown type {kind}")

    def _head(self) -> tuple[str, int, int]:
        order = {0: ">", 1: "<"}.get(self._data[self.position] if self.position < len(self._data) else 2)
        if order is None:
            raise self.refused("has no byte order")
        self.position += 1
        code = self._count(order)
        flags = (code & _EWKB_Z != 0) + (code & _EWKB_M != 0)
        if code & _EWKB_SRID:
            self._count(order)
        extra, kind = divmod(code & 0x0FFFFFFF, 1000)
        if extra > 3:
            raise self.refused(f"has the unknown type {code}")
        return order, kind, 2 + max(flags, (0, 1, 1, 2)[extra])

    def _count(self, order: str) -> int:
        if self.position + 4 > len(self._data):
            raise self.refused("ends too early")
        (number,) = struct.unpack_from(f"{order}I", self._data, self.position)
        self.position += 4
        return int(number)

    def _checked(self, order: str, *, least: int) -> int:
        """A number of parts, each of at least `least` bytes."""
        number = self._count(order)
        if number * least > len(self._data) - self.position:
            raise self.refused("ends too early")
        return number

    def _coordinates(self, order: str, number: int, dimensions: int) -> Coordinates:
        size = number * dimensions * 8
        if size > len(self._data) - self.position:
            raise self.refused("ends too early")
        values = np.frombuffer(self._data, f"{order}f8", number * dimensions, self.position)
        self.position += size
        return values.reshape(number, dimensions)[:, :2].astype(np.float64)
