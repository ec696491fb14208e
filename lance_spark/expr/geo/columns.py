"""Columns of geometries: well-known binary, or points as structs of x and y."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import InvalidInputError
from lance_spark.expr.geo.geos import related
from lance_spark.expr.geo.shape import Shape
from lance_spark.expr.geo.wkb import parse_wkb


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
