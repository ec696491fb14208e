"""The types of pyspark.ml, whose columns are structs in the table and vectors or matrices in Spark."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from pyspark.sql import types as st

UDT = b"lance-spark:udt"
"""Field metadata of a struct: the class that it is in Spark."""

_MODULE = "pyspark.ml.linalg"
_CLASSES = {f"{_MODULE}.{name}".encode(): name for name in ("VectorUDT", "MatrixUDT")}
"""The only classes that are loaded: metadata comes from tables, which others may have written."""


def ml_type(name: bytes | None, stored: st.DataType) -> st.DataType:
    """The type of pyspark.ml of this name, if its values are stored as `stored`; otherwise `stored`."""
    if name not in _CLASSES:
        return stored
    known = _known(name)
    return known if known.sqlType().simpleString() == stored.simpleString() else stored


def ml_name(dtype: st.DataType) -> bytes | None:
    """The name of a type of pyspark.ml; None for other types."""
    if not isinstance(dtype, st.UserDefinedType):
        return None
    name = f"{dtype.module()}.{type(dtype).__name__}".encode()
    return name if name in _CLASSES else None


@cache
def _known(name: bytes) -> st.UserDefinedType:
    # Few sessions use pyspark.ml, and its import takes long.
    known: st.UserDefinedType = getattr(import_module(_MODULE), _CLASSES[name])()
    return known
