"""Well-known binary. The bytes can come from anywhere, so every count is checked before memory is taken for it."""

from __future__ import annotations

import struct

import numpy as np

from lance_spark.errors import InvalidInputError
from lance_spark.expr.geo.shape import Coordinates, Shape

_POINT, _LINE, _POLYGON = 1, 2, 3
_COLLECTIONS = (4, 5, 6, 7)
_MAX_DEPTH = 32
_EWKB_Z, _EWKB_M, _EWKB_SRID = 0x80000000, 0x40000000, 0x20000000


def parse_wkb(data: bytes) -> Shape:
    """The geometry in ISO well-known binary, or in the extended form with an SRID.

    >>> parse_wkb(bytes.fromhex("0101000000000000000000F03F0000000000000040")).box()
    (1.0, 2.0, 1.0, 2.0)

    Raises:
        InvalidInputError: the bytes are no such geometry.
    """
    reader = _Reader(data)
    shape = Shape()
    reader.geometry(shape, 0)
    if reader.position != len(data):
        raise reader.refused("has bytes after its end")
    return shape


class _Reader:
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
