"""Columns of geometries: well-known binary, or points as structs of x and y."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import InvalidInputError
from lance_spark.expr.geo.intersects import boxes_meet, intersects
from lance_spark.expr.geo.relate import related
from lance_spark.expr.geo.shape import NOWHERE, Shape
from lance_spark.expr.geo.wkb import parse_wkb


def is_geometry(dtype: pa.DataType) -> bool:
    """Whether values of a type can be geometries."""
    return bool(pt.is_binary(dtype) or pt.is_large_binary(dtype)) or _is_points(dtype)


def _is_points(dtype: pa.DataType) -> bool:
    names = [dtype.field(index).name for index in range(2)] if pt.is_struct(dtype) and dtype.num_fields >= 2 else []
    return names == ["x", "y"] and all(pt.is_float64(dtype.field(index).type) for index in range(2))


def intersecting(values: pa.Array, geometry: Shape) -> pa.Array:
    """bool[n]: which geometries have a point in common with a constant one; null for null.

    Raises:
        InvalidInputError: the column has no geometries, or a value is none.
    """
    box = geometry.box()
    return _tested(values, lambda shape: boxes_meet(shape.box(), box) and intersects(shape, geometry))


def relating(name: str, values: pa.Array, geometry: Shape) -> pa.Array:
    """bool[n]: for which geometries a relation to a constant one holds, see `related`; null for null.

    Raises:
        InvalidInputError: as `intersecting`.
    """
    return _tested(values, lambda shape: related(name, shape, geometry))


def _tested(values: pa.Array, test: Callable[[Shape], bool]) -> pa.Array:
    _check(values.type)
    return pa.array([None if value is None else test(_shape(value)) for value in values.to_pylist()], pa.bool_())


def boxes(values: pa.Array) -> npt.NDArray[np.float64]:
    """float64[n, 4]: least x and y, greatest x and y of geometries; of NULL as of a geometry without any place.

    Raises:
        InvalidInputError: as `intersecting`.
    """
    _check(values.type)
    found = [NOWHERE if value is None else _shape(value).box() for value in values.to_pylist()]
    return np.array(found, np.float64).reshape(-1, 4)


def _check(dtype: pa.DataType) -> None:
    if not is_geometry(dtype):
        raise InvalidInputError(f"geometries are well-known binary or structs of x and y, and this is {dtype}")


def _shape(value: bytes | dict[str, float | None]) -> Shape:
    if isinstance(value, bytes):
        return parse_wkb(value)
    x, y = (np.nan if value[name] is None else value[name] for name in ("x", "y"))
    return Shape([np.array([[x, y]], np.float64)])
