"""Well-known text of constants in filters."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from lance_spark.errors import InvalidInputError
from lance_spark.expr.geo.shape import Coordinates, Shape

_TOKEN = re.compile(r"\s*([A-Za-z]+|[(),]|[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
_MAX_DEPTH = 32
_DIMENSIONS = ("Z", "M", "ZM")
Item = TypeVar("Item")
_PARTS = {"MULTIPOINT": "POINT", "MULTILINESTRING": "LINESTRING", "MULTIPOLYGON": "POLYGON"}


def parse_wkt(text: str) -> Shape:
    """The geometry of a text such as ``POLYGON((0 0, 2 0, 2 2, 0 0))``.

    >>> parse_wkt("MULTIPOINT((1 2), 3 4)").box()
    (1.0, 2.0, 3.0, 4.0)

    Raises:
        InvalidInputError: not such a text.
    """
    reader = _Reader(text)
    shape = Shape()
    reader.geometry(shape, 0)
    if reader.next is not None:
        raise reader.refused()
    return shape


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = []
        position = 0
        while position < len(text.rstrip()):
            found = _TOKEN.match(text, position)
            if found is None:
                raise self.refused()
            self._tokens.append(found[1].upper())
            position = found.end()

    def refused(self) -> InvalidInputError:
        return InvalidInputError(f"{self._text!r} is no geometry; write it as POINT(1 2), LINESTRING(0 0, 1 1) ...")

    @property
    def next(self) -> str | None:
        return self._tokens[0] if self._tokens else None

    def _take(self, expected: str | None = None) -> str:
        if not self._tokens or (expected is not None and self._tokens[0] != expected):
            raise self.refused()
        return self._tokens.pop(0)

    def geometry(self, shape: Shape, depth: int) -> None:
        """Adds the geometry at the position to `shape`."""
        kind = self._take()
        if self.next in _DIMENSIONS:
            self._take()
        self._body(kind, shape, depth)

    def _body(self, kind: str, shape: Shape, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise self.refused()
        if self.next == "EMPTY":
            self._take()
        elif kind in ("POINT", "LINESTRING"):
            path = self._path()
            if kind == "POINT" and len(path) != 1:
                raise self.refused()
            shape.paths.append(path)
        elif kind == "POLYGON":
            shape.areas.append(self._list(self._path))
        elif kind == "GEOMETRYCOLLECTION":
            self._list(lambda: self.geometry(shape, depth + 1))
        elif kind == "MULTIPOINT" and self._tokens[1:2] not in (["("], ["EMPTY"]):
            shape.paths.extend(point[None] for point in self._path())
        elif kind in _PARTS:
            self._list(lambda: self._part(_PARTS[kind], shape, depth + 1))
        else:
            raise self.refused()

    def _part(self, kind: str, shape: Shape, depth: int) -> None:
        if kind == "POINT" and self.next not in ("(", "EMPTY"):
            shape.paths.append(np.array([self._point()]))
        else:
            self._body(kind, shape, depth)

    def _list(self, item: Callable[[], Item]) -> list[Item]:
        self._take("(")
        items = [item()]
        while self.next == ",":
            self._take()
            items.append(item())
        self._take(")")
        return items

    def _path(self) -> Coordinates:
        return np.array(self._list(self._point), np.float64)

    def _point(self) -> tuple[float, float]:
        numbers = []
        while self.next is not None and self.next[0] in "+-.0123456789":
            numbers.append(float(self._take()))
        if not 2 <= len(numbers) <= 4:
            raise self.refused()
        return numbers[0], numbers[1]
