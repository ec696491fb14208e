"""The mapping between Lance fields and Arrow types.

Arrow types without a Lance type are rejected with a remedy, except where another type represents the same values:
string views become strings, binary views become binary. The "sorted keys" flag of maps and the "ordered" flag of
dictionaries are lost. Extension types are stored as their storage type, see `extension`; their name and parameters
are in the field's metadata when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import CorruptFileError, InvalidInputError, UnsupportedFeatureError
from lance_spark.schema import logical_type as lt
from lance_spark.schema.extension import EXTENSION_METADATA, EXTENSION_NAME, LANCE_JSON, storage, text_metadata
from lance_spark.schema.field import (
    MAX_DEPTH,
    RESERVED_NAMES,
    DictionaryLocation,
    Field,
    FieldId,
    LanceSchema,
    is_set,
)

PRIMARY_KEY = "lance-schema:unenforced-primary-key"
PRIMARY_KEY_POSITION = "lance-schema:unenforced-primary-key:position"
_CLUSTERING_KEY_POSITION = "lance-schema:unenforced-clustering-key:position"

_PLAIN, _VAR_BINARY, _DICTIONARY = 1, 2, 3  # lance.file.Encoding

_BFLOAT16 = "lance.bfloat16"

_SIMPLE: dict[str, pa.DataType] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "uint8": pa.uint8(),
    "int16": pa.int16(),
    "uint16": pa.uint16(),
    "int32": pa.int32(),
    "uint32": pa.uint32(),
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "halffloat": pa.float16(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "json": pa.large_binary(),
    "date32:day": pa.date32(),
    "date64:ms": pa.date64(),
    "time32:s": pa.time32("s"),
    "time32:ms": pa.time32("ms"),
    "time64:us": pa.time64("us"),
    "time64:ns": pa.time64("ns"),
    _BFLOAT16: pa.binary(2),
}
_SIMPLE_NAMES = {dtype: name for name, dtype in _SIMPLE.items() if name not in {"json", _BFLOAT16}}


def to_arrow_schema(schema: LanceSchema) -> pa.Schema:
    """The Arrow schema of a Lance schema, metadata included.

    Raises:
        CorruptFileError: a logical type that cannot be parsed.
        UnsupportedFeatureError: a logical type that this release does not know.
    """
    if schema.arrow_schema is None:
        metadata = {key.encode(): value for key, value in schema.metadata.items()}
        result = pa.schema([to_arrow_field(top) for top in schema.fields], metadata=metadata or None)
        object.__setattr__(schema, "arrow_schema", result)
    return schema.arrow_schema


def to_arrow_field(field: Field) -> pa.Field:
    """The Arrow field of one Lance field, children and metadata included."""
    metadata = {key.encode(): value for key, value in field.metadata.items()}
    return pa.field(field.name, to_arrow_type(field), field.nullable, metadata=metadata or None)


def to_arrow_type(field: Field) -> pa.DataType:
    """The Arrow type of one Lance field; contains only the children present in it."""
    if field.logical_type in _SIMPLE:
        return _SIMPLE[field.logical_type]
    if field.arrow_type is None:
        object.__setattr__(field, "arrow_type", _arrow_type(field))
    return field.arrow_type


def _arrow_type(field: Field) -> pa.DataType:
    logical = field.logical_type
    if logical == "struct":
        return pa.struct([to_arrow_field(child) for child in field.children])
    if logical in lt.LIST_TYPES:
        return pa.list_(to_arrow_field(_only_child(field)))
    if logical in lt.LARGE_LIST_TYPES:
        return pa.large_list(to_arrow_field(_only_child(field)))
    if logical == "map":
        return _map_type(field)
    if lt.is_fixed_size_list(logical) and field.children:
        _, parameters = lt.split(logical)
        return pa.list_(to_arrow_field(_only_child(field)), _number(parameters[-1], field))
    if logical.count("fixed_size_list:") + logical.count("dict:") > MAX_DEPTH:
        raise CorruptFileError(f"the type of field {field.name!r} nests deeper than {MAX_DEPTH}")
    return _parametric(logical, field)


def _only_child(field: Field) -> Field:
    if len(field.children) != 1:
        raise CorruptFileError(f"field {field.name!r} of type {field.logical_type} has {len(field.children)} children")
    return field.children[0]


def _map_type(field: Field) -> pa.DataType:
    entries = _only_child(field)
    if len(entries.children) != 2:
        raise CorruptFileError(f"map {field.name!r} has {len(entries.children)} fields in its entries instead of 2")
    key, value = entries.children
    return pa.map_(to_arrow_field(key).with_nullable(False), to_arrow_field(value))


def _number(text: str, field: Field) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise CorruptFileError(f"field {field.name!r} has the malformed type {field.logical_type!r}")
    return int(text)


def _parametric(logical: str, field: Field) -> pa.DataType:
    kind, parameters = lt.split(logical)
    build = _PARAMETRIC.get(kind)
    if kind in _WITH_CHILDREN:
        raise CorruptFileError(f"field {field.name!r} of type {logical!r} lacks its children")
    if build is None:
        raise UnsupportedFeatureError(
            f"field {field.name!r} has type {logical!r}, which this release does not know; read the table without it",
            feature=f"logical type {kind}",
        )
    try:
        return build(parameters, field)
    except (ValueError, TypeError, KeyError, OverflowError, pa.ArrowException) as error:
        raise CorruptFileError(f"field {field.name!r} has the malformed type {logical!r}") from error


def _timestamp(parameters: tuple[str, ...], field: Field) -> pa.DataType:
    unit, zone = parameters
    return pa.timestamp(unit, None if zone == "-" else zone)


def _decimal(parameters: tuple[str, ...], field: Field) -> pa.DataType:
    bits, precision, scale = parameters
    return {"128": pa.decimal128, "256": pa.decimal256}[bits](int(precision), int(scale))


def _fixed_size_binary(parameters: tuple[str, ...], field: Field) -> pa.DataType:
    (width,) = parameters
    return pa.binary(_number(width, field))


def _fixed_size_list(parameters: tuple[str, ...], field: Field) -> pa.DataType:
    item, dimension = parameters
    metadata = {EXTENSION_NAME: _BFLOAT16, EXTENSION_METADATA: ""} if item == _BFLOAT16 else None
    return pa.list_(pa.field("item", _inner(item, field), metadata=metadata), _number(dimension, field))


def _dictionary(parameters: tuple[str, ...], field: Field) -> pa.DataType:
    value, index, ordered = parameters
    return pa.dictionary(_inner(index, field), _inner(value, field), ordered == "true")


def _inner(logical: str, field: Field) -> pa.DataType:
    return _SIMPLE[logical] if logical in _SIMPLE else _parametric(logical, field)


_WITH_CHILDREN = lt.LIST_TYPES | lt.LARGE_LIST_TYPES | {"struct", "map"}
_PARAMETRIC: dict[str, Callable[[tuple[str, ...], Field], pa.DataType]] = {
    "timestamp": _timestamp,
    "duration": lambda parameters, field: pa.duration(*parameters),
    "decimal": _decimal,
    "fixed_size_binary": _fixed_size_binary,
    "fixed_size_list": _fixed_size_list,
    "dict": _dictionary,
}


def from_arrow_schema(schema: pa.Schema, *, first_id: int = 0) -> LanceSchema:
    """The Lance schema of an Arrow schema; fields are numbered depth-first from `first_id`.

    Raises:
        InvalidInputError: a type without a Lance type, duplicate or empty names, or a top-level name with a dot.
    """
    _check_names([field.name for field in schema], "the schema")
    ids = count(first_id)
    fields = tuple(_top_level(field, ids) for field in schema)
    return LanceSchema(fields, text_metadata(schema.metadata, "the schema"))


def internal_schema(schema: pa.Schema) -> LanceSchema:
    """The Lance schema of a file that holds no table data: names that a table reserves are allowed."""
    ids = count(0)
    fields = tuple(_from_arrow_field(field, ids, field.name, 0) for field in schema)
    return LanceSchema(fields, text_metadata(schema.metadata, "the schema"))


def from_arrow_field(field: pa.Field, *, first_id: int, nested: bool = False) -> Field:
    """One Lance field and its children, numbered depth-first from `first_id`; raises as `from_arrow_schema`.

    Args:
        nested: whether it is in another field; then its name may have dots.
    """
    ids = count(first_id)
    if not nested:
        return _top_level(field, ids)
    _check_names([field.name], "a struct")
    return _from_arrow_field(field, ids, field.name, 0)


def _top_level(field: pa.Field, ids: Iterator[int]) -> Field:
    if "." in field.name:
        # Nested names may contain dots; the reference rejects top-level ones too, as it cannot read such a column.
        raise InvalidInputError(f"{field.name!r} is no name for a column, dots separate nested fields; rename it")
    if field.name in RESERVED_NAMES:
        raise InvalidInputError(f"{field.name!r} is a column that every table has; rename yours")
    return _from_arrow_field(field, ids, field.name, 0)


def _from_arrow_field(field: pa.Field, ids: Iterator[int], path: str, depth: int) -> Field:
    if depth > MAX_DEPTH:
        raise InvalidInputError(f"{path.partition('.')[0]!r} nests deeper than {MAX_DEPTH} fields")
    dtype, metadata = storage(field)
    position = _position(metadata, PRIMARY_KEY_POSITION)
    field_id = FieldId(next(ids))
    is_json = metadata.get(EXTENSION_NAME) == LANCE_JSON and (pt.is_binary(dtype) or pt.is_large_binary(dtype))
    return Field(
        name=field.name,
        id=field_id,
        logical_type="json" if is_json else _logical(dtype, path),
        nullable=field.nullable,
        children=tuple(
            _from_arrow_field(child, ids, f"{path}.{child.name}", depth + 1) for child in _children(dtype, path)
        ),
        metadata=metadata,
        encoding=_wire_encoding(dtype),
        dictionary=DictionaryLocation(0, 0) if pt.is_dictionary(dtype) else None,
        extension_name=metadata.get(EXTENSION_NAME, b"").decode(),
        unenforced_primary_key=is_set(metadata, PRIMARY_KEY) or position is not None,
        unenforced_primary_key_position=position or 0,
        unenforced_clustering_key_position=_position(metadata, _CLUSTERING_KEY_POSITION) or 0,
    )


def with_metadata(field: Field, metadata: Mapping[str, bytes]) -> Field:
    """`field` with other metadata, and with the attributes derived from changed entries."""
    changed = {key for key in field.metadata.keys() | metadata.keys() if field.metadata.get(key) != metadata.get(key)}
    field = replace(field, metadata=metadata)
    if EXTENSION_NAME in changed:
        field = replace(field, extension_name=metadata.get(EXTENSION_NAME, b"").decode("utf-8", "replace"))
    if changed & {PRIMARY_KEY, PRIMARY_KEY_POSITION}:
        position = _position(metadata, PRIMARY_KEY_POSITION)
        field = replace(
            field,
            unenforced_primary_key=is_set(metadata, PRIMARY_KEY) or position is not None,
            unenforced_primary_key_position=position or 0,
        )
    if _CLUSTERING_KEY_POSITION in changed:
        position = _position(metadata, _CLUSTERING_KEY_POSITION)
        field = replace(field, unenforced_clustering_key_position=position or 0)
    return field


def with_metadata_entries(field: Field, entries: Mapping[str, str | None]) -> Field:
    """`field` with these entries of its metadata, beside the others that it has; None removes one."""
    if not entries:
        return field
    rest = {key: value for key, value in field.metadata.items() if key not in entries}
    set_entries = {key: value.encode() for key, value in entries.items() if value is not None}
    return with_metadata(field, {**rest, **set_entries})


def _position(metadata: Mapping[str, bytes], key: str) -> int | None:
    digits = metadata.get(key, b"").removeprefix(b"+")
    return int(digits) if digits.isdigit() and len(digits) <= 10 and int(digits) < 1 << 32 else None


def _children(dtype: pa.DataType, path: str) -> list[pa.Field]:
    if pt.is_struct(dtype):
        _check_names([child.name for child in dtype], path)
        return list(dtype)
    if pt.is_map(dtype):
        entries = pa.struct([dtype.key_field.with_nullable(False), dtype.item_field])
        return [pa.field("entries", entries, nullable=False)]
    if pt.is_list(dtype) or pt.is_large_list(dtype):
        return [dtype.value_field]
    if pt.is_fixed_size_list(dtype) and pt.is_struct(dtype.value_type):
        return [dtype.value_field]
    return []


def _check_names(names: list[str], path: str) -> None:
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InvalidInputError(f"{path} has more than one field named {', '.join(map(repr, twice))}; rename them")
    if "" in names:
        raise InvalidInputError(f"{path} has a field without a name; name it")


def _logical(dtype: pa.DataType, path: str) -> str:
    if isinstance(dtype, pa.BaseExtensionType):
        return _logical(dtype.storage_type, path)
    if dtype in _SIMPLE_NAMES:
        return _SIMPLE_NAMES[dtype]
    if pt.is_struct(dtype):
        return "struct"
    if pt.is_map(dtype):
        return "map"
    if pt.is_list(dtype) or pt.is_large_list(dtype):
        large = "large_list" if pt.is_large_list(dtype) else "list"
        return f"{large}.struct" if pt.is_struct(dtype.value_type) else large
    if pt.is_string_view(dtype):
        return "string"
    if pt.is_binary_view(dtype):
        return "binary"
    return _parametric_logical(dtype, path)


def _parametric_logical(dtype: pa.DataType, path: str) -> str:
    if pt.is_timestamp(dtype):
        if dtype.tz == "-":
            raise InvalidInputError(f"{path} has the time zone '-', which stands for none in Lance; name a time zone")
        return f"timestamp:{dtype.unit}:{dtype.tz or '-'}"
    if pt.is_duration(dtype):
        return f"duration:{dtype.unit}"
    if pt.is_decimal128(dtype) or pt.is_decimal256(dtype):
        return f"decimal:{dtype.bit_width}:{dtype.precision}:{dtype.scale}"
    if pt.is_fixed_size_binary(dtype):
        return f"fixed_size_binary:{dtype.byte_width}"
    if pt.is_dictionary(dtype):
        return f"dict:{_dictionary_value(dtype, path)}:{_logical(dtype.index_type, path)}:false"
    if pt.is_fixed_size_list(dtype):
        return f"fixed_size_list:{_fixed_size_list_item(dtype, path)}:{dtype.list_size}"
    raise InvalidInputError(f"{path} has type {dtype}, which Lance cannot hold; {_advice(dtype)}")


def is_dictionary_value(dtype: pa.DataType) -> bool:
    """Whether a Lance type can be a dictionary of values of `dtype`: readers split its name at colons."""
    return ":" not in _SIMPLE_NAMES.get(dtype, ":")


def _dictionary_value(dtype: pa.DataType, path: str) -> str:
    value = _logical(dtype.value_type, path)
    if ":" in value or pt.is_nested(dtype.value_type):
        raise InvalidInputError(
            f"{path} is a dictionary of {dtype.value_type}, which Lance cannot name; cast it to that"
        )
    return value


def is_fixed_size_list_type(dtype: pa.DataType) -> bool:
    """Whether Lance has a type for a fixed-size list; it has one for lists of any size with the same items."""
    item = dtype.value_type
    if dtype.list_size == 0 or (pt.is_fixed_size_list(item) and pt.is_struct(_innermost(item))):
        return False
    if isinstance(item, pa.BaseExtensionType) and item.extension_name == _BFLOAT16:
        return True
    fixed_width = pt.is_primitive(item) or pt.is_decimal(item) or pt.is_fixed_size_binary(item) or pt.is_boolean(item)
    return bool(fixed_width or pt.is_struct(item) or pt.is_fixed_size_list(item))


def _fixed_size_list_item(dtype: pa.DataType, path: str) -> str:
    item = dtype.value_type
    if dtype.list_size == 0:
        raise InvalidInputError(f"{path} is a list of fixed size 0, which Lance cannot hold; use a list instead")
    if not is_fixed_size_list_type(dtype):
        raise InvalidInputError(f"{path} is a fixed-size list of {item}, which Lance cannot hold; use a list instead")
    names = {(dtype.value_field.metadata or {}).get(EXTENSION_NAME.encode(), b"").decode()}
    if isinstance(item, pa.BaseExtensionType):
        names.add(item.extension_name)
    if _BFLOAT16 in names:
        return _BFLOAT16
    return _logical(item, path)


def _innermost(dtype: pa.DataType) -> pa.DataType:
    return _innermost(dtype.value_type) if pt.is_fixed_size_list(dtype) else dtype


def _advice(dtype: pa.DataType) -> str:
    if pt.is_decimal(dtype):
        return "cast it to decimal128"
    if pt.is_union(dtype):
        return "use a struct with one field for each member"
    if pt.is_run_end_encoded(dtype):
        return "decode it first"
    return "cast it to another type first"


def _wire_encoding(dtype: pa.DataType) -> int:
    if pt.is_struct(dtype) or pt.is_null(dtype):
        return 0
    if pt.is_dictionary(dtype):
        return _DICTIONARY
    return _VAR_BINARY if any(is_variable(dtype) for is_variable in _VARIABLE) else _PLAIN


_VARIABLE = (
    pt.is_string,
    pt.is_large_string,
    pt.is_string_view,
    pt.is_binary,
    pt.is_large_binary,
    pt.is_binary_view,
)
