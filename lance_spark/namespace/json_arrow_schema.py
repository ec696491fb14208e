"""Arrow schemas as JSON: JsonArrowSchema, JsonArrowField and JsonArrowDataType (Lance namespace client specification).

A schema is `{"fields": [<field>...], "metadata"?}`, a field `{"name", "nullable", "type", "metadata"?}` and a type
`{"type": <name>, "fields"?, "length"?}`. The length of a decimal is precision * 1000 + scale. Additional members, which
other readers ignore, have what these cannot express: `unit` and `timezone` of temporal types, `index` of dictionaries
(whose `type` is the one of their values).

Both spellings are read: Arrow's (`utf8`, `float32`, `date32`) and Lance's logical types (`string`, `float`,
`timestamp:us:UTC`, `decimal:128:10:2`).

>>> type_to_json(pa.timestamp("us", "UTC")), type_to_json(pa.decimal128(10, 2))
({'type': 'timestamp', 'unit': 'us', 'timezone': 'UTC'}, {'type': 'decimal128', 'length': 10002})
>>> type_from_json({"type": "timestamp:ns:-"}), type_from_json({"type": "float64"})
(TimestampType(timestamp[ns]), DataType(double))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import CorruptFileError, InvalidInputError, LanceError, UnsupportedFeatureError
from lance_spark.schema.arrow import from_arrow_field, to_arrow_field, to_arrow_type
from lance_spark.schema.field import MAX_DEPTH, Field, FieldId, LanceSchema

FIELD_ID_KEY = "lance:field_id"

_SIMPLE: dict[str, pa.DataType] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "date32": pa.date32(),
    "date64": pa.date64(),
    "utf8": pa.string(),
    "large_utf8": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
}
_SIMPLE_NAMES = {type_: name for name, type_ in _SIMPLE.items()}
_LANCE_ONLY = frozenset({"json", "lance.bfloat16"})
"""Logical types for which Arrow only has a storage type."""
_SPELLINGS = {"boolean": "bool", "utf8_view": "utf8", "binary_view": "binary", "largeutf8": "large_utf8"}


def schema_to_json(schema: LanceSchema) -> dict[str, Any]:
    """The JSON object of a schema, with the id of every field in its metadata."""
    return _with_metadata({"fields": [_field_to_json(field) for field in schema.fields]}, schema.metadata)


def schema_from_json(members: object) -> LanceSchema:
    """The schema of a JSON object.

    Raises:
        CorruptFileError: not a JsonArrowSchema, or field ids are missing or duplicated.
        UnsupportedFeatureError: an unknown type.
    """
    fields = _members(_object(members, "a schema"), "fields", "a schema")
    schema = LanceSchema(tuple(_field_from_json(field, 0) for field in fields), _metadata(_object(members, "a schema")))
    names = schema.names()
    if len(set(names)) < len(names):
        raise CorruptFileError(f"the namespace's schema has fields of one name: {', '.join(names)}")
    ids = [field.id for field in schema.walk()]
    if len(set(ids)) < len(ids):
        twice = sorted({field_id for field_id in ids if ids.count(field_id) > 1})
        raise CorruptFileError(f"fields of the namespace's schema share {FIELD_ID_KEY} {twice}")
    return schema


def type_to_json(type_: pa.DataType) -> dict[str, Any]:
    """The JSON object of a type.

    Raises:
        InvalidInputError: the type has no name in JSON.
    """
    if type_ in _SIMPLE_NAMES:
        return {"type": _SIMPLE_NAMES[type_]}
    if isinstance(type_, pa.BaseExtensionType):
        return type_to_json(type_.storage_type)
    if pt.is_dictionary(type_):
        return {**type_to_json(type_.value_type), "index": type_to_json(type_.index_type)}
    for belongs, write in _WRITERS:
        if belongs(type_):
            return write(type_)
    raise InvalidInputError(f"type {type_} has no name in a JSON schema; cast the column to another type first")


def type_from_json(members: object) -> pa.DataType:
    """The type of a JSON object. Raises as `schema_from_json`."""
    return _type_from_json(_object(members, "a type"), 0)


def _field_to_json(field: Field) -> dict[str, Any]:
    arrow = to_arrow_field(field)
    type_: dict[str, Any] = (
        {"type": field.logical_type} if field.logical_type in _LANCE_ONLY else type_to_json(arrow.type)
    )
    if "fields" in type_:
        # From the field's own children, which have ids.
        type_["fields"] = _children_to_json(field, type_["fields"])
    members = {"name": field.name, "nullable": field.nullable, "type": type_}
    return _with_metadata(members, {**field.metadata, FIELD_ID_KEY: str(field.id).encode()})


def _children_to_json(field: Field, children: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [_field_to_json(child) for child in field.children] if field.children else children


def _with_metadata(members: dict[str, Any], metadata: Mapping[str, bytes]) -> dict[str, Any]:
    try:
        text = {key: value.decode() for key, value in metadata.items()}
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"metadata of {members.get('name', 'the schema')} is no text: {error}") from error
    return {**members, "metadata": text} if text else members


def _plain_field(field: pa.Field) -> dict[str, Any]:
    return {"name": field.name, "nullable": field.nullable, "type": type_to_json(field.type)}


def _decimal_to_json(type_: pa.DataType) -> dict[str, Any]:
    return {"type": f"decimal{type_.bit_width}", "length": type_.precision * 1000 + type_.scale}


def _timestamp_to_json(type_: pa.DataType) -> dict[str, Any]:
    return {"type": "timestamp", "unit": type_.unit} | ({"timezone": type_.tz} if type_.tz else {})


def _map_to_json(type_: pa.DataType) -> dict[str, Any]:
    entries = pa.field("entries", pa.struct([type_.key_field, type_.item_field]), nullable=False)
    return {"type": "map", "fields": [_plain_field(entries)]}


_WRITERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], dict[str, Any]]], ...] = (
    (pt.is_timestamp, _timestamp_to_json),
    (pt.is_decimal, _decimal_to_json),
    (pt.is_time32, lambda type_: {"type": "time32", "unit": type_.unit}),
    (pt.is_time64, lambda type_: {"type": "time64", "unit": type_.unit}),
    (pt.is_duration, lambda type_: {"type": "duration", "unit": type_.unit}),
    (pt.is_fixed_size_binary, lambda type_: {"type": "fixed_size_binary", "length": type_.byte_width}),
    (pt.is_string_view, lambda type_: {"type": "utf8"}),
    (pt.is_binary_view, lambda type_: {"type": "binary"}),
    (pt.is_struct, lambda type_: {"type": "struct", "fields": [_plain_field(child) for child in type_]}),
    (pt.is_map, _map_to_json),
    (pt.is_list, lambda type_: {"type": "list", "fields": [_plain_field(type_.value_field)]}),
    (pt.is_large_list, lambda type_: {"type": "large_list", "fields": [_plain_field(type_.value_field)]}),
    (
        pt.is_fixed_size_list,
        lambda type_: {
            "type": "fixed_size_list",
            "fields": [_plain_field(type_.value_field)],
            "length": type_.list_size,
        },
    ),
)


def _object(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise CorruptFileError(f"{what} of the namespace is no JSON object but {_shown(value)}")
    return value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _members(members: Mapping[str, Any], name: str, what: str) -> list[Any]:
    value = members.get(name)
    if not isinstance(value, list):
        raise CorruptFileError(f"{what} of the namespace needs the list {name!r}, got {_shown(value)}")
    return value


def _metadata(members: Mapping[str, Any]) -> dict[str, bytes]:
    metadata = members.get("metadata") or {}
    texts = _object(metadata, "metadata").items()
    if not all(isinstance(value, str) for _, value in texts):
        raise CorruptFileError(f"metadata of {members.get('name', 'the schema')!r} holds values that are no text")
    return {key: value.encode() for key, value in texts}


def _field_from_json(value: object, depth: int) -> Field:
    members = _object(value, "a field")
    arrow, metadata = _arrow_field(members, depth)
    field_id = metadata.pop(FIELD_ID_KEY, b"").decode()
    if not field_id.isascii() or not field_id.isdigit() or len(field_id) > 9:
        raise CorruptFileError(f"field {arrow.name!r} of the namespace's schema has no number as {FIELD_ID_KEY}")
    try:
        field = from_arrow_field(arrow.with_metadata(metadata or None), first_id=0, nested=depth > 0)
    except InvalidInputError as error:
        raise CorruptFileError(f"the namespace's schema is no schema of a table: {error}") from error
    children = field.children
    if children:
        children = tuple(
            _field_from_json(child, depth + 1)
            for child in _members(_object(members["type"], "a type"), "fields", "a type")
        )
    logical = _object(members["type"], "a type")["type"]
    return replace(
        field,
        id=FieldId(int(field_id)),
        children=children,
        logical_type=logical if logical in _LANCE_ONLY else field.logical_type,
    )


def _arrow_field(members: Mapping[str, Any], depth: int) -> tuple[pa.Field, dict[str, bytes]]:
    name, nullable = members.get("name"), members.get("nullable", True)
    if not isinstance(name, str) or not isinstance(nullable, bool):
        raise CorruptFileError(f"a field of the namespace's schema lacks name or nullable: {_shown(dict(members))}")
    type_ = _type_from_json(_object(members.get("type"), f"the type of {name!r}"), depth)
    return pa.field(name, type_, nullable), _metadata(members)


def _type_from_json(members: Mapping[str, Any], depth: int) -> pa.DataType:
    if depth > MAX_DEPTH:
        raise CorruptFileError(f"the namespace's schema nests deeper than {MAX_DEPTH}")
    name = members.get("type")
    if not isinstance(name, str):
        raise CorruptFileError(f"a type of the namespace's schema has no name: {_shown(dict(members))}")
    type_ = _named_type(name, members, depth)
    if "index" not in members:
        return type_
    index = _type_from_json(_object(members["index"], "a dictionary's index"), depth + 1)
    if not pt.is_integer(index):
        raise CorruptFileError(f"a dictionary of the namespace's schema is indexed by {index}")
    return pa.dictionary(index, type_)


def _named_type(name: str, members: Mapping[str, Any], depth: int) -> pa.DataType:
    folded = name.lower()
    folded = _SPELLINGS.get(folded, folded)
    if folded in _SIMPLE:
        return _SIMPLE[folded]
    read = _READERS.get(folded)
    try:
        if read is not None:
            return read(members, depth)
        # Lance's own logical types; those with children have another form here.
        return to_arrow_type(Field("", FieldId(0), name))
    except LanceError as error:
        if isinstance(error, UnsupportedFeatureError):
            raise UnsupportedFeatureError(
                f"the namespace's schema has type {name!r}, which this release does not know", feature=f"type {name}"
            ) from error
        raise
    except (ValueError, TypeError, KeyError, OverflowError, pa.ArrowException) as error:
        raise CorruptFileError(f"the namespace's schema has the malformed type {_shown(dict(members))}") from error


def _length(members: Mapping[str, Any]) -> int:
    length = members.get("length")
    if isinstance(length, bool) or not isinstance(length, int) or not 0 <= length < 2**31:
        raise CorruptFileError(f"type {members['type']!r} of the namespace's schema has the length {_shown(length)}")
    return length


def _decimal(make: Callable[[int, int], pa.DataType]) -> Callable[[Mapping[str, Any], int], pa.DataType]:
    return lambda members, depth: make(*divmod(_length(members), 1000))


def _children(members: Mapping[str, Any], depth: int, count: int | None) -> list[pa.Field]:
    fields = _members(members, "fields", f"type {members['type']!r}")
    if count is not None and len(fields) != count:
        raise CorruptFileError(f"type {members['type']!r} of the namespace's schema has {len(fields)} fields")
    children = [_arrow_field(_object(field, "a field"), depth + 1) for field in fields]
    pairs = [(field, {k: v for k, v in metadata.items() if k != FIELD_ID_KEY}) for field, metadata in children]
    return [field.with_metadata(metadata) if metadata else field for field, metadata in pairs]


def _map(members: Mapping[str, Any], depth: int) -> pa.DataType:
    (entries,) = _children(members, depth, 1)
    if not pt.is_struct(entries.type) or entries.type.num_fields != 2:
        raise CorruptFileError("a map of the namespace's schema has no entries of key and value")
    return pa.map_(entries.type.field(0).with_nullable(False), entries.type.field(1))


def _timestamp(members: Mapping[str, Any], depth: int) -> pa.DataType:
    # Other writers omit unit and zone; the default unit of Lance's tables is microseconds.
    return pa.timestamp(members.get("unit", "us"), members.get("timezone"))


_READERS: dict[str, Callable[[Mapping[str, Any], int], pa.DataType]] = {
    "decimal32": _decimal(pa.decimal128),
    "decimal64": _decimal(pa.decimal128),
    "decimal128": _decimal(pa.decimal128),
    "decimal256": _decimal(pa.decimal256),
    "time32": lambda members, depth: pa.time32(members.get("unit", "ms")),
    "time64": lambda members, depth: pa.time64(members.get("unit", "us")),
    "timestamp": _timestamp,
    "duration": lambda members, depth: pa.duration(members.get("unit", "us")),
    "fixed_size_binary": lambda members, depth: pa.binary(_length(members)),
    "list": lambda members, depth: pa.list_(*_children(members, depth, 1)),
    "large_list": lambda members, depth: pa.large_list(*_children(members, depth, 1)),
    "fixed_size_list": lambda members, depth: pa.list_(*_children(members, depth, 1), _length(members)),
    "struct": lambda members, depth: pa.struct(_children(members, depth, None)),
    "map": _map,
}
