"""UUIDs: 16 bytes with the extension `arrow.uuid` in a table, in Spark BINARY or STRING.

The table property `lance.uuid_as`, or the option `uuid_as` of a read, says which (docs/reference/types.md).
Texts have the canonical form, in lower case, so they have the order of the bytes.
"""

from __future__ import annotations

import re
from dataclasses import replace
from uuid import UUID

import pyarrow as pa
import pyarrow.types as pt

from lance_spark.errors import InvalidInputError
from lance_spark.schema.extension import EXTENSION_METADATA, EXTENSION_NAME
from lance_spark.schema.field import Field
from lance_spark.spark.option_values import word_value

BINARY, STRING = "binary", "string"

STORED_UUID = pa.binary(16)
UUID_METADATA = {EXTENSION_NAME: b"arrow.uuid", EXTENSION_METADATA: b""}
"""The metadata of a field with UUIDs."""

_TEXT = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


parse_uuid_as = word_value("uuid_as", BINARY, STRING)
"""Parses the type of UUID columns in Spark. Raises `InvalidInputError` for another word."""


def is_uuid_field(field: pa.Field) -> bool:
    """Whether a column of a table has UUIDs."""
    return bool(field.type == STORED_UUID and (field.metadata or {}).get(EXTENSION_NAME.encode()) == b"arrow.uuid")


def shown_uuid(field: Field, uuid_as: str) -> Field:
    """A column as Spark sees it: UUIDs as text, if `uuid_as` says so."""
    is_uuid = field.extension_name == "arrow.uuid" and field.logical_type == "fixed_size_binary:16"
    if uuid_as != STRING or not is_uuid:
        return field
    kept = {key: value for key, value in field.metadata.items() if key not in UUID_METADATA}
    return replace(field, logical_type="string", metadata=kept, extension_name="")


def convert_uuids(array: pa.Array, target: pa.DataType) -> pa.Array | None:
    """UUIDs as text, or text as UUIDs; None if these are not the two types.

    Raises:
        InvalidInputError: a text is no UUID.
    """
    if array.type == STORED_UUID and pt.is_string(target):
        return pa.array([None if item is None else str(UUID(bytes=item)) for item in array.to_pylist()], target)
    if target == STORED_UUID and (pt.is_string(array.type) or pt.is_large_string(array.type)):
        return pa.array([None if item is None else _parsed(item) for item in array.to_pylist()], target)
    return None


def canonical_bytes(text: str) -> bytes | None:
    """The bytes of a UUID in canonical form; None for any other text, to which no shown UUID is equal."""
    return UUID(text).bytes if _TEXT.fullmatch(text) else None


def _parsed(text: str) -> bytes:
    found = canonical_bytes(text.lower())
    if found is None:
        raise InvalidInputError(f"{text[:60]!r} is no UUID such as 01234567-89ab-cdef-0123-456789abcdef")
    return found
