"""`lance.file.Field` lists and field trees.

The wire format lists fields depth-first, each with its id and its parent's (-1 for top-level fields).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache

from lance_spark._proto import file_pb2
from lance_spark.errors import CorruptFileError, InvalidInputError
from lance_spark.schema.columns import is_blob
from lance_spark.schema.field import LINEAGE_FIELD_IDS, MAX_DEPTH, DictionaryLocation, Field, FieldId, LanceSchema

_NO_PARENT = -1
_NO_ID = -1


def schema_from_proto(message: file_pb2.Schema) -> LanceSchema:
    """The schema of a `lance.file.Schema` message.

    Raises:
        CorruptFileError: as `fields_from_proto`.
    """
    return schema_from_messages(message.fields, message.metadata)


def schema_from_messages(messages: Sequence[file_pb2.Field], metadata: Mapping[str, bytes]) -> LanceSchema:
    """The schema of some fields with some metadata; mostly the same object for equal ones.

    The versions of a table, and its files, have the same schema over and over.

    Raises:
        CorruptFileError: as `fields_from_proto`.
    """
    return _parsed_schema(_serialized(messages), tuple(sorted(metadata.items())) if metadata else ())


@lru_cache(maxsize=64)
def _parsed_schema(serialized: tuple[bytes, ...], metadata: tuple[tuple[str, bytes], ...]) -> LanceSchema:
    return LanceSchema(_parsed_fields(serialized), dict(metadata))


def schema_to_proto(schema: LanceSchema) -> file_pb2.Schema:
    """The `lance.file.Schema` message of a schema."""
    return file_pb2.Schema(fields=fields_to_proto(schema.fields), metadata=dict(schema.metadata))


def schema_from_bytes(data: bytes) -> LanceSchema:
    """The schema of a `lance.file.Schema` message serialized by `schema_to_bytes`."""
    return schema_from_proto(file_pb2.Schema.FromString(data))


def schema_to_bytes(schema: LanceSchema) -> bytes:
    """The `lance.file.Schema` message of a schema, serialized."""
    data: bytes = schema_to_proto(schema).SerializeToString()
    return data


def fields_from_proto(messages: Sequence[file_pb2.Field]) -> tuple[Field, ...]:
    """The trees of top-level fields.

    Raises:
        CorruptFileError: a negative or duplicate id, two fields of one name beside each other, a parent that does not
            precede its child, or excessive nesting.
    """
    return _parsed_fields(_serialized(messages))


def _serialized(messages: Sequence[file_pb2.Field]) -> tuple[bytes, ...]:
    return tuple(map(file_pb2.Field.SerializeToString, messages))


def _parsed_fields(serialized: tuple[bytes, ...]) -> tuple[Field, ...]:
    messages = [file_pb2.Field.FromString(data) for data in serialized]
    children: dict[int, list[int]] = {}
    positions: dict[int, int] = {}
    tops: list[int] = []
    owner_of_unnumbered: int | None = None
    for position, message in enumerate(messages):
        if message.id == _NO_ID and owner_of_unnumbered is not None:
            # The descriptor children of a blob column have no ids of their own.
            children.setdefault(owner_of_unnumbered, []).append(position)
            continue
        if message.id < 0 and message.id not in LINEAGE_FIELD_IDS:
            raise CorruptFileError(f"field {message.name!r} has id {message.id}")
        if message.id in positions:
            raise CorruptFileError(f"two fields of the schema have id {message.id}")
        if message.parent_id == _NO_PARENT:
            tops.append(position)
        elif message.parent_id in positions:
            children.setdefault(positions[message.parent_id], []).append(position)
        else:
            raise CorruptFileError(f"field {message.name!r} has parent {message.parent_id}, which is not before it")
        positions[message.id] = position
        owner_of_unnumbered = position if is_blob(_field(message, ())) else None
    for siblings in (tops, *children.values()):
        names = [messages[position].name for position in siblings if messages[position].id != _NO_ID]
        if len(set(names)) < len(names):
            raise CorruptFileError(f"two of the fields {sorted(names)} have one name")
    return tuple(_build(messages, children, position, 0) for position in tops)


def _build(messages: Sequence[file_pb2.Field], children: dict[int, list[int]], position: int, depth: int) -> Field:
    if depth > MAX_DEPTH:
        raise CorruptFileError(f"the schema nests deeper than {MAX_DEPTH} fields")
    below = tuple(_build(messages, children, child, depth + 1) for child in children.get(position, ()))
    return _field(messages[position], below)


def _field(message: file_pb2.Field, children: tuple[Field, ...]) -> Field:
    located = message.HasField("dictionary")
    return Field(
        name=message.name,
        id=FieldId(message.id),
        logical_type=message.logical_type,
        # Arrow has no column of nulls that must not be null.
        nullable=message.nullable or message.logical_type == "null",
        children=children,
        metadata=dict(message.metadata),
        encoding=message.encoding,
        dictionary=DictionaryLocation(message.dictionary.offset, message.dictionary.length) if located else None,
        extension_name=message.extension_name,
        unenforced_primary_key=message.unenforced_primary_key,
        unenforced_primary_key_position=message.unenforced_primary_key_position,
        unenforced_clustering_key_position=message.unenforced_clustering_key_position,
    )


def fields_to_proto(fields: Iterable[Field]) -> list[file_pb2.Field]:
    """The messages of field trees, depth-first; they must not be modified.

    Raises:
        InvalidInputError: a name or metadata that is not UTF-8, or an id beyond 32 bits.
    """
    fields = tuple(fields)
    # The identities are those of these fields as long as the entry holds them.
    key = tuple(map(id, fields))
    cached = _messages.get(key)
    if cached is None:
        cached = _messages[key] = fields, _new_messages(fields)
        while len(_messages) > _MAX_MESSAGES:
            with suppress(KeyError):
                _messages.popitem(last=False)
    return list(cached[1])


_MAX_MESSAGES = 16
_messages: OrderedDict[tuple[int, ...], tuple[tuple[Field, ...], list[file_pb2.Field]]] = OrderedDict()
"""The messages of the last field lists: a file and the version with it have the fields of the version before."""


def _new_messages(fields: tuple[Field, ...]) -> list[file_pb2.Field]:
    messages: list[file_pb2.Field] = []
    for field in fields:
        try:
            _append(messages, field, _NO_PARENT)
        except ValueError as error:
            raise InvalidInputError(f"column {field.name!r} cannot be written: {error}") from error
    return messages


def _append(messages: list[file_pb2.Field], field: Field, parent_id: int) -> None:
    location = None
    if field.dictionary is not None:
        location = file_pb2.Dictionary(offset=field.dictionary.offset, length=field.dictionary.length)
    messages.append(
        file_pb2.Field(
            name=field.name,
            id=field.id,
            parent_id=parent_id,
            logical_type=field.logical_type,
            nullable=field.nullable,
            encoding=field.encoding,  # type: ignore[arg-type]
            extension_name=field.extension_name,
            metadata=dict(field.metadata),
            unenforced_primary_key=field.unenforced_primary_key,
            unenforced_primary_key_position=field.unenforced_primary_key_position,
            unenforced_clustering_key_position=field.unenforced_clustering_key_position,
            dictionary=location,
        )
    )
    for child in field.children:
        _append(messages, child, _NO_PARENT if child.id == _NO_ID else field.id)
