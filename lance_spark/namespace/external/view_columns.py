"""Columns of a view as other tools see them: types of Hive's metastore and of Iceberg, from Spark's JSON of a struct
type. They are for display only; Spark takes the columns of the definition.

>>> hive_type({"type": "array", "elementType": "long", "containsNull": True})
'array<bigint>'
>>> hive_type("interval day to second")
'string'
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from lance_spark.namespace.view_texts import view_fields

_DECIMAL = re.compile(r"decimal\((\d{1,2}), ?(-?\d{1,2})\)")
_TEXT = re.compile(r"(varchar|char)\(\d+\)")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_]+")
_HIVE: Mapping[str, str] = {
    **{name: name for name in ("float", "double", "boolean", "string", "binary", "date", "timestamp")},
    **{"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "timestamp_ntz": "timestamp"},
}
_ICEBERG: Mapping[str, str] = {
    **{name: name for name in ("float", "double", "boolean", "string", "binary", "date", "long")},
    **dict.fromkeys(("byte", "short", "integer"), "int"),
    **{"timestamp": "timestamptz", "timestamp_ntz": "timestamp"},
}
_LONGEST_NAME, _LONGEST_TYPE, _LONGEST_COMMENT = 128, 4000, 200
_DEEPEST = 50
UNSHOWN = ("columns", "string", "The columns of this view have no names or types that this catalog can keep")
"""Name, type and comment of the column that stands for those that cannot be shown."""


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """A column of a view.

    Attributes:
        type: Spark's JSON of it.
    """

    name: str
    type: Any
    comment: str | None = None


class _UnmappedError(Exception):
    """A type that has no other spelling."""


def view_columns(definition: str) -> list[ViewColumn]:
    """The columns of a definition; none if they are unreadable."""
    try:
        fields = json.loads(str(view_fields(definition).get("columns")))["fields"]
        return [
            ViewColumn(str(field["name"]), field["type"], (field.get("metadata") or {}).get("comment"))
            for field in fields
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []


def hive_columns(definition: str) -> list[tuple[str, str, str]]:
    """Name, type and comment of the columns, as Glue and a Hive metastore keep them."""
    columns = view_columns(definition)
    names = {column.name.lower() for column in columns}
    is_shown = columns and len(names) == len(columns) and all(map(_is_keepable, names))
    if not is_shown:
        return [UNSHOWN]
    return [(column.name, hive_type(column.type), _short(column.comment)) for column in columns]


def hive_type(spark: Any) -> str:
    """The type as Hive writes it; ``string`` if it has no other."""
    try:
        text = _hive(spark, 0)
    except (_UnmappedError, KeyError, TypeError, AttributeError):
        return "string"
    return text if len(text) <= _LONGEST_TYPE else "string"


def iceberg_schema(definition: str) -> dict[str, Any]:
    """The columns as a schema of Iceberg; those of types that Iceberg lacks are texts, and say so."""
    columns, numbers = view_columns(definition), count(1)
    fields = [_iceberg_field(column, numbers) for column in columns]
    if not fields or len({column.name for column in columns}) < len(columns) or not all(c.name for c in columns):
        name, kind, comment = UNSHOWN
        fields = [{"id": 1, "name": name, "required": False, "type": kind, "doc": comment}]
    return {"type": "struct", "schema-id": 0, "fields": fields}


def _iceberg_field(column: ViewColumn, numbers: count[int]) -> dict[str, Any]:
    number = next(numbers)
    shown: dict[str, Any] = {"id": number, "name": column.name, "required": False}
    try:
        shown["type"] = _iceberg(column.type, numbers, 0)
    except (_UnmappedError, KeyError, TypeError, AttributeError):
        return {**shown, "type": "string", "doc": f"of type {json.dumps(column.type)} in Spark"[:_LONGEST_COMMENT]}
    return {**shown, **({"doc": column.comment} if column.comment else {})}


def _hive(spark: Any, depth: int) -> str:
    if depth > _DEEPEST:
        raise _UnmappedError
    if isinstance(spark, str):
        if spark in _HIVE:
            return _HIVE[spark]
        if _DECIMAL.fullmatch(spark) or _TEXT.fullmatch(spark):
            return spark.replace(" ", "")
        raise _UnmappedError
    kind = spark["type"]
    if kind == "array":
        return f"array<{_hive(spark['elementType'], depth + 1)}>"
    if kind == "map":
        return f"map<{_hive(spark['keyType'], depth + 1)},{_hive(spark['valueType'], depth + 1)}>"
    if kind != "struct" or not all(_PLAIN_NAME.fullmatch(field["name"]) for field in spark["fields"]):
        raise _UnmappedError
    members = [f"{field['name']}:{_hive(field['type'], depth + 1)}" for field in spark["fields"]]
    return f"struct<{','.join(members)}>"


def _iceberg(spark: Any, numbers: count[int], depth: int) -> Any:
    if depth > _DEEPEST:
        raise _UnmappedError
    if isinstance(spark, str):
        decimal = _DECIMAL.fullmatch(spark)
        if decimal and not decimal[2].startswith("-"):
            return f"decimal({decimal[1]}, {decimal[2]})"
        if spark not in _ICEBERG and not _TEXT.fullmatch(spark):
            raise _UnmappedError
        return _ICEBERG.get(spark, "string")
    kind = spark["type"]
    if kind == "array":
        ids: dict[str, Any] = {"element-id": next(numbers), "element-required": False}
        return {"type": "list", **ids, "element": _iceberg(spark["elementType"], numbers, depth + 1)}
    if kind == "map":
        ids = {"key-id": next(numbers), "value-id": next(numbers), "value-required": False}
        key = _iceberg(spark["keyType"], numbers, depth + 1)
        return {"type": "map", **ids, "key": key, "value": _iceberg(spark["valueType"], numbers, depth + 1)}
    if kind != "struct":
        raise _UnmappedError
    fields = [
        {
            "id": next(numbers),
            "name": field["name"],
            "required": False,
            "type": _iceberg(field["type"], numbers, depth + 1),
        }
        for field in spark["fields"]
    ]
    return {"type": "struct", "fields": fields}


def _is_keepable(name: str) -> bool:
    return 0 < len(name) <= _LONGEST_NAME and name.isascii() and name.isprintable()


def _short(comment: object) -> str:
    """A comment as these catalogs keep it: one line of some letters."""
    text = " ".join(comment.split()) if isinstance(comment, str) else ""
    return text.encode("ascii", "replace").decode()[:_LONGEST_COMMENT]
