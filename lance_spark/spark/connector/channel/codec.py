"""Converts JSON of requests and replies from and to frozen dataclasses, by their type hints.

Only this module handles untyped dictionaries: it rejects a request that does not match its dataclass.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from pyspark.errors import IllegalArgumentException, PySparkValueError
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, _parse_datatype_json_value

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError

T = TypeVar("T")


def decode(kind: type[T], value: object) -> T:
    """Converts `value`, parsed JSON, to a `kind`; ignores unknown members.

    Raises:
        InvalidInputError: it does not match.
    """
    decoded: T = _decode(kind, value, kind.__name__)
    return decoded


def encode(value: object) -> Any:
    """Converts a dataclass, or its values, for `json`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in _fields(type(value))}
    if isinstance(value, DataType):
        return value.jsonValue()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    return value


@cache
def _fields(kind: type) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(kind)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _decode(kind: Any, value: object, path: str) -> Any:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _optional(kind, value, path)
    if origin is tuple:
        if not isinstance(value, list):
            raise _unfit(path, value)
        return tuple(_decode(get_args(kind)[0], item, f"{path}[]") for item in value)
    if origin is not None:
        return _mapping(kind, value, path)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, value, path)
    if isinstance(kind, type) and issubclass(kind, DataType):
        return _spark_type(kind, value, path)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _unfit(path, value)
    return value


def _optional(kind: Any, value: object, path: str) -> Any:
    if value is None:
        return None
    (inner,) = (option for option in get_args(kind) if option is not type(None))
    return _decode(inner, value, path)


def _mapping(kind: Any, value: object, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _unfit(path, value)
    return {key: _decode(get_args(kind)[1], item, f"{path}.{key}") for key, item in value.items()}


def _dataclass(kind: Any, value: object, path: str) -> Any:
    if not isinstance(value, dict):
        raise _unfit(path, value)
    hints = _hints(kind)
    given = {}
    for field in _fields(kind):
        if field.name in value:
            given[field.name] = _decode(hints[field.name], value[field.name], f"{path}.{field.name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise InvalidInputError(f"the request has no {path}.{field.name}")
    return kind(**given)


def _spark_type(kind: type[DataType], value: object, path: str) -> DataType:
    try:
        parsed: DataType = _parse_datatype_json_value(value)  # type: ignore[arg-type]
    except (PySparkValueError, IllegalArgumentException) as error:
        text = f"Spark's type {str(value)[:80]!r} is not known to Python: {error}"
        raise UnsupportedFeatureError(text, feature="type of a column") from error
    if not isinstance(parsed, kind):
        raise _unfit(path, value)
    _check_collations(value, parsed)
    return parsed


def _check_collations(value: Any, parsed: DataType) -> None:
    """Passes if `parsed` has all collations of Spark's JSON: pyspark drops those of CHAR and VARCHAR."""
    if isinstance(parsed, StructType):
        for given, field in zip(value["fields"], parsed.fields, strict=True):
            names = (given.get("metadata") or {}).get("__COLLATIONS", {}).values()
            wanted = [name for name in names if name.rpartition(".")[2] != "UTF8_BINARY"]
            if wanted and len(wanted) != len(field.getCollationMetadata()):
                raise UnsupportedFeatureError(
                    f"column {field.name} is CHAR or VARCHAR with a collation; use STRING COLLATE",
                    feature="CHAR and VARCHAR with a collation",
                )
            _check_collations(given["type"], field.dataType)
    elif isinstance(parsed, ArrayType):
        _check_collations(value["elementType"], parsed.elementType)
    elif isinstance(parsed, MapType):
        _check_collations(value["keyType"], parsed.keyType)
        _check_collations(value["valueType"], parsed.valueType)


def _unfit(path: str, value: object) -> InvalidInputError:
    return InvalidInputError(f"{path} of the request cannot be {str(value)[:80]!r}")
