"""GEOMETRY and GEOGRAPHY: columns of well-known binary with the extension `geoarrow.wkb` (docs/design/019-geometry.md).

Spark and its workers exchange such values as structs of an SRID and the binary; the table keeps the binary, and the
coordinate reference system in the metadata of the field.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from pyspark.sql import types as st

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.schema.extension import EXTENSION_METADATA, EXTENSION_NAME
from lance_spark.spark.compat.types import GEOMETRIES, GeographyType, GeometryType

GEOARROW_WKB = b"geoarrow.wkb"
_NAME, _METADATA = EXTENSION_NAME.encode(), EXTENSION_METADATA.encode()
_SRID, _WKB = "srid", "wkb"
_GEOMETRY, _GEOGRAPHY = b"geometry", b"geography"

_SRIDS = {"OGC:CRS84": 4326, "EPSG:4326": 4326, "EPSG:3857": 3857}
"""Coordinates are x before y whatever the authority says, so that the first two are the same."""

_CODES = {4326: "OGC:CRS84", 3857: "EPSG:3857"}


def is_geo_type(dtype: st.DataType) -> bool:
    """Whether a type is GEOMETRY or GEOGRAPHY."""
    return isinstance(dtype, GEOMETRIES)


def check_geo_type(dtype: Any, path: str) -> None:
    """Checks that a column can have this type.

    Raises:
        UnsupportedFeatureError: values of any SRID, which one field cannot describe, or an SRID without a known name.
    """
    if dtype.srid != 0 and dtype.srid not in _CODES:
        raise UnsupportedFeatureError(
            f"column {path} is {dtype.simpleString().upper()}, and a column in Lance has one SRID of 0, 3857 and 4326; "
            "declare it, such as GEOMETRY(4326)",
            feature=f"type {dtype.simpleString()} in Lance",
        )


def check_same_geo(name: str, rows: st.DataType, table: st.DataType) -> None:
    """Checks that the geometries in rows of the column `name` have the types of the table, including nested ones.

    In the files all are binary, which would take the others in silence.

    Raises:
        InvalidInputError: a type differs.
    """
    has = dict(_leaves(table, name))
    for path, kind in _leaves(rows, name):
        other = has.get(path, kind)
        if other.simpleString() != kind.simpleString() and (is_geo_type(kind) or is_geo_type(other)):
            raise InvalidInputError(
                f"column {path} is {other.simpleString().upper()} in the table and {kind.simpleString().upper()} in "
                "the rows; convert it, with st_setsrid or st_geomfromwkb say"
            )


def _leaves(dtype: st.DataType, path: str) -> Iterator[tuple[str, st.DataType]]:
    if isinstance(dtype, st.StructType):
        for field in dtype.fields:
            yield from _leaves(field.dataType, f"{path}.{field.name}")
    elif isinstance(dtype, st.ArrayType):
        yield from _leaves(dtype.elementType, f"{path}.element")
    elif isinstance(dtype, st.MapType):
        yield from _leaves(dtype.keyType, f"{path}.key")
        yield from _leaves(dtype.valueType, f"{path}.value")
    else:
        yield path, dtype


def geo_metadata(dtype: Any) -> dict[bytes, bytes]:
    """The metadata of a field for values of a GEOMETRY or GEOGRAPHY with one known SRID."""
    parameters = {}
    if dtype.srid in _CODES:
        parameters = {"crs": _CODES[dtype.srid], "crs_type": "authority_code"}
    if isinstance(dtype, GeographyType):
        parameters["edges"] = "spherical"
    return {_NAME: GEOARROW_WKB, _METADATA: json.dumps(parameters, separators=(",", ":")).encode()}


def geo_type(field: pa.Field) -> st.DataType | None:
    """The GEOMETRY or GEOGRAPHY of a column, as stored or as exchanged with Spark.

    None for other columns, and for `geoarrow.wkb` that Spark has no type for (another reference system, other edges),
    which are BINARY.
    """
    if not GEOMETRIES:
        return None
    if _is_exchanged(field.type):
        entries = field.type.field(_WKB).metadata
        srid = int(entries[b"srid"])
        if srid in (0, *_CODES):
            return GeometryType(srid) if _GEOMETRY in entries else GeographyType(srid)
        return None
    metadata = field.metadata or {}
    if not _is_binary(field.type) or metadata.get(_NAME) != GEOARROW_WKB:
        return None
    return _declared(metadata.get(_METADATA, b""))


def _declared(text: bytes) -> st.DataType | None:
    try:
        parameters = json.loads(text or b"{}")
    except (ValueError, RecursionError):  # Others have written it.
        return None
    if not isinstance(parameters, dict):
        return None
    srid, edges = _srid(parameters.get("crs"), parameters.get("crs_type")), parameters.get("edges")
    if srid is None or edges not in (None, "planar", "spherical"):
        return None
    if edges == "spherical":
        return GeographyType(srid) if srid == 4326 else None
    return GeometryType(srid)


def _srid(crs: Any, kind: Any) -> int | None:
    """The SRID of a reference system, which is a code, a number or PROJJSON; 0 without one, None if it is another."""
    if crs is None:
        return 0
    if isinstance(crs, Mapping):
        known = crs.get("id")
        crs = f"{known.get('authority')}:{known.get('code')}" if isinstance(known, Mapping) else ""
    if kind == "srid":
        return {"0": 0, "3857": 3857, "4326": 4326}.get(str(crs))
    return _SRIDS.get(str(crs).upper())


def _is_binary(dtype: pa.DataType) -> bool:
    return bool(pt.is_binary(dtype) or pt.is_large_binary(dtype))


def _is_exchanged(dtype: pa.DataType) -> bool:
    """Whether this is the struct in which Spark and its workers exchange geometries."""
    if not pt.is_struct(dtype) or dtype.num_fields != 2 or [child.name for child in dtype] != [_SRID, _WKB]:
        return False
    entries = dtype.field(_WKB).metadata or {}
    srid = entries.get(b"srid", b"").removeprefix(b"-")
    return (_GEOMETRY in entries or _GEOGRAPHY in entries) and srid.isdigit()


def stored_geo_field(field: pa.Field) -> pa.Field | None:
    """The field in a table for a column as exchanged with Spark; None if it is no GEOMETRY or GEOGRAPHY."""
    found = geo_type(field) if _is_exchanged(field.type) else None
    if found is None:
        return None
    return pa.field(field.name, pa.binary(), field.nullable, {**(field.metadata or {}), **geo_metadata(found)})


def convert_geo(array: pa.Array, target: pa.DataType) -> pa.Array | None:
    """Geometries between their forms in a table and in Spark; None if neither type is the struct of the exchange."""
    if _is_binary(array.type) and _is_exchanged(target):
        return _exchanged(array, target)
    if _is_exchanged(array.type) and _is_binary(target):
        # Takes the nulls of the struct over.
        return pc.struct_field(array, _WKB).cast(target)
    return None


def _exchanged(array: pa.Array, target: pa.DataType) -> pa.Array:
    srids = pa.array(np.full(len(array), int(target.field(_WKB).metadata[b"srid"]), np.int32))
    mask = array.is_null() if array.null_count else None
    # Children are not nullable.
    values = array.cast(pa.binary())
    values = values.fill_null(b"") if values.null_count else values
    return pa.StructArray.from_arrays([srids, values], fields=list(target), mask=mask)
