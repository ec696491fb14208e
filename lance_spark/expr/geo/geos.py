"""Relations of geometries by GEOS (package shapely); columns are well-known binary, or points as structs of x and y.

The extra ``geo`` has the package, which is loaded where a filter first needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.expr.geo.shape import Coordinates, Shape, closed, parse_wkb

Geometries = npt.NDArray[Any]
"""Array of shapely geometries; None has no place."""

_LEAST_GEOS = (3, 13, 0)
"""Before it, parts of different kinds in one geometry have no relations."""

_LEAST_RING = 4
_MAX_DEPTH = 40


def has_geos() -> bool:
    """Whether geometries can be compared here."""
    try:
        _shapely()
    except UnsupportedFeatureError:
        return False
    return True


def _shapely() -> ModuleType:
    try:
        import shapely
    except ImportError:
        raise _unsupported("the package shapely") from None
    if shapely.geos_version < _LEAST_GEOS:
        raise _unsupported(f"GEOS {'.'.join(map(str, _LEAST_GEOS))} or later, and that of the package shapely is older")
    module: ModuleType = shapely
    return module


def _unsupported(needed: str) -> UnsupportedFeatureError:
    message = f"functions of geometries need {needed}; run pip install 'lance-spark[geo]'"
    return UnsupportedFeatureError(message, feature="functions of geometries")


def parse_wkt(text: str) -> Shape:
    """The geometry of a text such as ``POLYGON((0 0, 2 0, 2 2, 0 0))``.

    >>> parse_wkt("MULTIPOINT((1 2), (3 4))").box()
    (1.0, 2.0, 3.0, 4.0)

    Raises:
        InvalidInputError: not such a text.
        UnsupportedFeatureError: the package shapely is not installed.
    """
    shapely = _shapely()
    # GEOS calls itself for what is in parentheses, and reads up to a null character.
    depth = max(accumulate({"(": 1, ")": -1}.get(character, 0) for character in text), default=0)
    if depth > _MAX_DEPTH or "\0" in text:
        raise _no_geometry(text, "it is nested too deeply" if depth > _MAX_DEPTH else "it has a null character")
    try:
        with np.errstate(all="ignore"):
            return parse_wkb(shapely.to_wkb(shapely.from_wkt(text)))
    except (shapely.errors.ShapelyError, NotImplementedError) as error:
        raise _no_geometry(text, str(error).strip()) from None


def _no_geometry(text: str, reason: str) -> InvalidInputError:
    shown = f"{text!r} is no geometry; write it as POINT(1 2), LINESTRING(0 0, 1 1) ..."
    return InvalidInputError(f"{shown} ({reason})" if reason else shown)


def related(name: str, shapes: Sequence[Shape], other: Shape) -> npt.NDArray[np.bool_]:
    """bool[n]: for which geometries a relation of `nodes.RELATIONS` to another one holds; empty ones have none.

    >>> related("st_touches", [parse_wkt("POINT(0 1)")], parse_wkt("LINESTRING(0 1, 5 5)")).tolist()
    [True]

    Raises:
        UnsupportedFeatureError: the package shapely is not installed.
    """
    shapely = _shapely()
    one, two = _GeometryPieces.of(shapes), _GeometryPieces.of([other])
    with np.errstate(all="ignore"):
        predicate = getattr(shapely, _PREDICATES.get(name, name.removeprefix("st_")))
        holds: npt.NDArray[np.bool_] = predicate(one.joined(), two.joined())
        is_mixed = one.is_mixed() | two.is_mixed()
        if is_mixed.any() and name not in ("st_intersects", "st_touches"):
            holds = np.where(is_mixed, _related_by_cover(name, one, two, holds), holds)
    return holds


_PREDICATES = {"st_coveredby": "covered_by"}


def _related_by_cover(
    name: str, one: _GeometryPieces, two: _GeometryPieces, holds: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """The right answers for geometries of points and areas, from the answers of GEOS.

    GEOS (to 3.14) takes an area to reach beyond a geometry that has a point outside of its own lines and areas, even
    where an area of that geometry covers it. What is inside of both it finds.
    """
    shapely = _shapely()
    ones, twos = one.joined(), two.joined()
    first, second = shapely.get_dimensions(ones), shapely.get_dimensions(twos)
    inside = shapely.relate_pattern(ones, twos, "T********")
    is_covered, covers = _is_covered(one, two), _is_covered(two, one)
    if name == "st_crosses":
        return np.where(first == second, holds, inside & ~np.where(first < second, is_covered, covers))
    if name == "st_overlaps":
        return np.where((first == 2) & (second == 2), inside & ~is_covered & ~covers, holds)
    by_name: dict[str, npt.NDArray[np.bool_]] = {
        "st_coveredby": is_covered,
        "st_covers": covers,
        "st_within": inside & is_covered,
        "st_contains": inside & covers,
        "st_equals": is_covered & covers,
    }
    return by_name[name]


def _is_covered(one: _GeometryPieces, other: _GeometryPieces) -> npt.NDArray[np.bool_]:
    """bool[n]: which geometries have all their points in others; single points cover nothing of lines and areas."""
    shapely = _shapely()
    points, rest = one.joined(is_point=True), one.joined(is_point=False)
    has_points = shapely.is_missing(points) | shapely.covered_by(points, other.joined())
    has_rest = shapely.is_missing(rest) | shapely.covered_by(rest, other.joined(is_point=False))
    covered: npt.NDArray[np.bool_] = has_points & has_rest & ~shapely.is_missing(one.joined())
    return covered


@dataclass(frozen=True, slots=True)
class _GeometryPieces:
    """Geometries as points, lines and areas.

    Attributes:
        pieces: of all geometries; the pieces of one geometry are adjacent.
        owners: the number of the geometry of each piece.
        count: of geometries; some can have no pieces.
    """

    pieces: Geometries
    owners: npt.NDArray[np.int64]
    count: int

    @classmethod
    def of(cls, shapes: Sequence[Shape]) -> _GeometryPieces:
        """The pieces of shapes that have a place."""
        shapely = _shapely()
        parts = _Parts()
        for owner, shape in enumerate(shapes):
            parts.add(owner, shape)
        built = [np.empty(0, np.object_)]
        if parts.points:
            built.append(shapely.points(np.concatenate(parts.points)))
        if parts.lines:
            built.append(shapely.linestrings(np.concatenate(parts.lines), indices=_numbers(parts.lines)))
        if parts.rings:
            rings = shapely.linearrings(np.concatenate(parts.rings), indices=_numbers(parts.rings))
            built.append(shapely.polygons(rings, indices=parts.areas))
        owners = np.array(parts.owners_of_points + parts.owners_of_lines + parts.owners_of_areas, np.int64)
        order = np.argsort(owners, kind="stable")
        return cls(np.concatenate(built)[order], owners[order], len(shapes))

    def joined(self, *, is_point: bool | None = None) -> Geometries:
        """Each geometry: all its pieces, or only those that are points, or only the others."""
        shapely = _shapely()
        pieces, owners = self.pieces, self.owners
        if is_point is not None:
            keep = (shapely.get_dimensions(pieces) == 0) == is_point
            pieces, owners = pieces[keep], owners[keep]
        geometries = np.full(self.count, None, np.object_)
        is_alone = np.bincount(owners, minlength=self.count)[owners] == 1
        geometries[owners[is_alone]] = pieces[is_alone]
        several, numbers = np.unique(owners[~is_alone], return_inverse=True)
        if len(several):
            geometries[several] = shapely.geometrycollections(pieces[~is_alone], indices=numbers)
        return geometries

    def is_mixed(self) -> npt.NDArray[np.bool_]:
        """bool[n]: which geometries have points beside lines or areas."""
        is_point = _shapely().get_dimensions(self.pieces) == 0
        counts = [np.bincount(self.owners[keep], minlength=self.count) for keep in (is_point, ~is_point)]
        mixed: npt.NDArray[np.bool_] = (counts[0] > 0) & (counts[1] > 0)
        return mixed


def _numbers(paths: list[Coordinates]) -> npt.NDArray[np.int64]:
    """The number of the path of each coordinate."""
    return np.repeat(np.arange(len(paths)), [len(path) for path in paths])


class _Parts:
    """Points, lines and areas of many geometries, each with the number of its owner. What is not finite has no place;
    lines without a length are points, rings of less than four points are lines.

    Attributes:
        areas: the number of the area of each ring.
    """

    def __init__(self) -> None:
        self.points: list[Coordinates] = []
        self.lines: list[Coordinates] = []
        self.rings: list[Coordinates] = []
        self.areas: list[int] = []
        self.owners_of_points: list[int] = []
        self.owners_of_lines: list[int] = []
        self.owners_of_areas: list[int] = []

    def add(self, owner: int, shape: Shape) -> None:
        for path in shape.paths:
            self._add_path(owner, path)
        for rings in shape.areas:
            is_bounded = all(np.isfinite(ring).all() for ring in rings)
            bounds = []
            for ring in map(closed, rings):
                if is_bounded and len(ring) >= _LEAST_RING:
                    bounds.append(ring)
                else:
                    self._add_path(owner, ring)
            if bounds:
                self.rings += bounds
                self.areas += [len(self.owners_of_areas)] * len(bounds)
                self.owners_of_areas.append(owner)

    def _add_path(self, owner: int, path: Coordinates) -> None:
        is_finite: npt.NDArray[np.bool_] = np.atleast_1d(np.isfinite(path).all(axis=1))
        if is_finite.all():
            self._add_line(owner, path)
            return
        # A point alone between two that have no place ends no segment.
        for run in np.split(np.arange(len(path)), np.flatnonzero(~is_finite)):
            finite = path[run[is_finite[run]]]
            if len(finite) > 1:
                self._add_line(owner, finite)

    def _add_line(self, owner: int, path: Coordinates) -> None:
        if not len(path):
            return
        if (path == path[0]).all():
            self.points.append(path[:1])
            self.owners_of_points.append(owner)
        else:
            self.lines.append(path)
            self.owners_of_lines.append(owner)


def is_geometry(dtype: pa.DataType) -> bool:
    """Whether values of a type can be geometries."""
    return bool(pt.is_binary(dtype) or pt.is_large_binary(dtype)) or _is_points(dtype)


def _is_points(dtype: pa.DataType) -> bool:
    names = [dtype.field(index).name for index in range(2)] if pt.is_struct(dtype) and dtype.num_fields >= 2 else []
    return names == ["x", "y"] and all(pt.is_float64(dtype.field(index).type) for index in range(2))


def relating(name: str, values: pa.Array, geometry: Shape) -> pa.Array:
    """bool[n]: for which geometries a relation to a constant one holds, see `related`; null for null.

    Raises:
        InvalidInputError: the column has no geometries, or a value is none.
        UnsupportedFeatureError: the package shapely is not installed.
    """
    holds = related(name, _shapes(values), geometry)
    return pa.array(holds, pa.bool_(), mask=values.is_null().to_numpy(zero_copy_only=False))


def boxes(values: pa.Array) -> npt.NDArray[np.float64]:
    """float64[n, 4]: least x and y, greatest x and y of geometries; of NULL as of a geometry without any place.

    Raises:
        InvalidInputError: as `relating`.
    """
    return np.array([shape.box() for shape in _shapes(values)], np.float64).reshape(-1, 4)


def _shapes(values: pa.Array) -> list[Shape]:
    """The geometries of a column; one without any place for NULL."""
    if not is_geometry(values.type):
        raise InvalidInputError(f"geometries are well-known binary or structs of x and y, and this is {values.type}")
    return [Shape() if value is None else _shape(value) for value in values.to_pylist()]


def _shape(value: bytes | dict[str, float | None]) -> Shape:
    if isinstance(value, bytes):
        return parse_wkb(value)
    x, y = (np.nan if value[name] is None else value[name] for name in ("x", "y"))
    return Shape([np.array([[x, y]], np.float64)])
