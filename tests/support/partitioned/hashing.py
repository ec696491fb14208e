"""Columns and their hashes by Spark's murmur3."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa

from tests.partitioned import murmur3_vectors

VECTORS = json.loads(murmur3_vectors.PATH.read_text())


TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "bool": pa.bool_(),
    "date32": pa.date32(),
    "decimal128(10, 2)": pa.decimal128(10, 2),
    "decimal128(10, 4)": pa.decimal128(10, 4),
    "decimal128(38, 2)": pa.decimal128(38, 2),
    "timestamp(s)": pa.timestamp("s"),
    "timestamp(ms)": pa.timestamp("ms"),
    "timestamp(us)": pa.timestamp("us"),
    "timestamp(ns)": pa.timestamp("ns"),
    "timestamp(us, UTC)": pa.timestamp("us", "UTC"),
    "time64(us)": pa.time64("us"),
    "time32(ms)": pa.time32("ms"),
    "duration(ns)": pa.duration("ns"),
    **{name: getattr(pa, name)() for name in ("int8", "int16", "int32", "int64", "float32", "float64")},
    **{name: getattr(pa, name)() for name in ("uint8", "uint16", "uint32", "uint64")},
}


def column(name: str, value: str | None) -> pa.Array:
    type_ = TYPES[name]
    if value is None:
        return pa.nulls(1, type_)
    if name in ("string", "large_string"):
        return pa.array([value], type_)
    if name == "binary":
        return pa.array([bytes.fromhex(value)])
    if name == "bool":
        return pa.array([value == "true"])
    if name.startswith("decimal"):
        return pa.array([Decimal(value)], type_)
    if name.startswith("float"):
        return pa.array([float(value)], type_)
    return pa.array([int(value)], type_)
