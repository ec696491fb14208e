"""Options for the storage of one new column: ``<column>.arrow.*`` for its type, ``<column>.lance.*`` for its encoding.

Spark has no syntax for a fixed-size list or a half float; users request them by these options. They apply to columns
that a write creates. An existing column keeps its type, and an option that requests another type is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import InvalidInputError
from lance_spark.schema.blob import BLOB_KEY, DEDICATED_SIZE, INLINE_SIZE, PACK_SIZE
from lance_spark.schema.extension import JSON_METADATA
from lance_spark.spark.types.json_columns import is_written_as_json
from lance_spark.spark.types.uuids import STORED_UUID, UUID_METADATA

Properties: TypeAlias = Mapping[str, Mapping[str, str]]
"""Property and value by column; names of columns are in lower case, as in Spark's options."""

_ENCODING_KEYS = {
    "lance.compression": "lance-encoding:compression",
    "lance.compression-level": "lance-encoding:compression-level",
    "lance.structural-encoding": "lance-encoding:structural-encoding",
    "lance.rle-threshold": "lance-encoding:rle-threshold",
    "lance.bss": "lance-encoding:bss",
    "lance.dict-divisor": "lance-encoding:dict-divisor",
    "lance.dict-size-ratio": "lance-encoding:dict-size-ratio",
    "lance.dict-values-compression": "lance-encoding:dict-values-compression",
    "lance.minichunk-size": "lance-encoding:minichunk-size",
    "lance.packed": "lance-encoding:packed",
}


_BLOB = "lance.encoding"
_BLOB_SIZES = {
    "lance.blob.inline-size": INLINE_SIZE,
    "lance.blob.dedicated-size": DEDICATED_SIZE,
    "lance.blob.pack-size": PACK_SIZE,
}

_JSON = "lance.json"
_UUID = "arrow.uuid"

_WORDS = {
    "lance.compression": ("zstd", "lz4", "fsst", "none"),
    "lance.dict-values-compression": ("zstd", "lz4", "none"),
    "lance.structural-encoding": ("miniblock", "fullzip"),
    "lance.bss": ("off", "on", "auto"),
}
_NUMBERS: dict[str, Callable[[str], float]] = {
    "lance.compression-level": int,
    "lance.minichunk-size": int,
    "lance.rle-threshold": float,
    "lance.dict-divisor": float,
    "lance.dict-size-ratio": float,
}


@dataclass(frozen=True, slots=True)
class _TypeProperty:
    fits: Callable[[pa.DataType], bool]
    build: Callable[[pa.DataType, str], pa.DataType]
    of: str


def _fixed_size(dtype: pa.DataType, value: str) -> pa.DataType:
    if not value.isascii() or not value.isdigit() or not 0 < int(value) < 1 << 31:
        raise InvalidInputError(f"{value!r} is not a size of lists")
    return pa.list_(dtype.value_field, int(value))


def _half(dtype: pa.DataType, value: str) -> pa.DataType:
    if not _is_on(value):
        return dtype
    if not (pt.is_list(dtype) or pt.is_fixed_size_list(dtype)):
        return pa.float16()
    item = dtype.value_field.with_type(pa.float16())
    return pa.list_(item) if pt.is_list(dtype) else pa.list_(item, dtype.list_size)


def _large_text(dtype: pa.DataType, value: str) -> pa.DataType:
    return pa.large_string() if _is_on(value) else dtype


def _is_on(value: str) -> bool:
    if value.lower() not in {"true", "false"}:
        raise InvalidInputError(f"{value!r} is neither true nor false")
    return value.lower() == "true"


def _holds_floats(dtype: pa.DataType) -> bool:
    item = dtype.value_type if pt.is_list(dtype) or pt.is_fixed_size_list(dtype) else dtype
    return bool(pt.is_float32(item) or pt.is_float64(item))


# In the order of application: the size of a list does not affect the types that its items can get.
_TYPES = {
    "arrow.fixed-size-list.size": _TypeProperty(pt.is_list, _fixed_size, "an array"),
    "arrow.float16": _TypeProperty(_holds_floats, _half, "a float or an array of floats"),
    "arrow.large_var_char": _TypeProperty(pt.is_string, _large_text, "a string"),
}


SUFFIXES = (*_TYPES, *_ENCODING_KEYS, _BLOB, *_BLOB_SIZES, _JSON, _UUID)
"""The part of a property's name that follows the column."""


def split_name(option: str) -> tuple[str, str] | None:
    """(column, property) of an option in lower case; None if it is not an option of this kind."""
    for suffix in SUFFIXES:
        if option.endswith(f".{suffix}") and len(option) > len(suffix) + 1:
            return option[: -len(suffix) - 1], suffix
    return None


def metadata_key(name: str) -> str | None:
    """The key of a field's metadata for the property `name`; None for a property that changes the type."""
    return _ENCODING_KEYS.get(name) or _BLOB_SIZES.get(name)


def apply(properties: Properties, schema: pa.Schema) -> pa.Schema:
    """`schema` with `properties` applied to its columns.

    Raises:
        InvalidInputError: no such column, or a property does not apply to it.
    """
    fields = list(schema)
    for column, asked in properties.items():
        found = [index for index, field in enumerate(fields) if field.name.lower() == column]
        if len(found) != 1:
            problem = "there is no such column" if not found else "several columns differ in case only"
            raise InvalidInputError(f"option {column}.{next(iter(asked))}: {problem}")
        fields[found[0]] = _with_properties(fields[found[0]], asked)
    return pa.schema(fields)


def _with_properties(field: pa.Field, asked: Mapping[str, str]) -> pa.Field:
    dtype = field.type
    for name, kind in _TYPES.items():
        if name not in asked:
            continue
        if not kind.fits(dtype):
            raise InvalidInputError(f"option {field.name}.{name} is for {kind.of}, the column is {dtype}")
        dtype = kind.build(dtype, asked[name])
    for name, value in asked.items():
        _check_value(f"{field.name}.{name}", name, value)
    if _BLOB in asked or not _BLOB_SIZES.keys().isdisjoint(asked):
        dtype = _blob_type(field, asked)
    keys = {**_ENCODING_KEYS, **_BLOB_SIZES}
    metadata = {key.encode(): asked[name].encode() for name, key in keys.items() if name in asked}
    if _BLOB in asked:
        metadata[BLOB_KEY.encode()] = b"true"
    if _is_on(asked.get(_JSON, "false")):
        if not is_written_as_json(field):
            raise InvalidInputError(f"option {field.name}.{_JSON} is for VARIANT and STRING, the column is {dtype}")
        dtype = pa.large_binary()
        metadata |= {key.encode(): entry for key, entry in JSON_METADATA.items()}
    if _is_on(asked.get(_UUID, "false")):
        if not pt.is_string(dtype):
            raise InvalidInputError(f"option {field.name}.{_UUID} is for STRING, the column is {dtype}")
        dtype = STORED_UUID
        metadata |= {key.encode(): entry for key, entry in UUID_METADATA.items()}
    return field.with_type(dtype).with_metadata({**(field.metadata or {}), **metadata} or None)


def _blob_type(field: pa.Field, asked: Mapping[str, str]) -> pa.DataType:
    if asked.get(_BLOB, "").lower() != "blob":
        problem = f"is {asked[_BLOB]!r}; the only such encoding is blob" if _BLOB in asked else "is missing"
        raise InvalidInputError(f"option {field.name}.{_BLOB} {problem}")
    if not (pt.is_binary(field.type) or pt.is_large_binary(field.type)):
        raise InvalidInputError(f"option {field.name}.{_BLOB} is for a binary column, the column is {field.type}")
    for name in _BLOB_SIZES:
        size = asked.get(name, "1")
        if not (size.isascii() and size.isdigit() and len(size) <= 15):
            raise InvalidInputError(f"option {field.name}.{name} is {size!r}, which is not a number of bytes")
    return pa.large_binary()


def _check_value(option: str, name: str, value: str) -> None:
    """Raises `InvalidInputError` for a value that writers would reject, possibly much later."""
    words = _WORDS.get(name)
    if words is not None and value.lower() not in words:
        raise InvalidInputError(f"option {option} is {value!r}, which is none of {', '.join(words)}")
    number = _NUMBERS.get(name)
    try:
        if number is not None:
            number(value)
    except ValueError as error:
        raise InvalidInputError(f"option {option} is {value!r}, which is not a number") from error
