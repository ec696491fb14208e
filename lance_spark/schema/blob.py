"""Blob columns: how they are declared, described, and stored (Lance file format, "Blob").

In tables of 2.2 ("blob v2") the schema has the form in which values are written, ``struct<data, uri[, position,
size]>``. A data file holds a description of each value, a packed struct of five fields. A scan returns that
description. In tables of 2.0 and 2.1 ("blob v1") the schema has large binary values. A data file holds the position
and the size of each, and the values; a plan reads these, or the description that a file of 2.2 would hold, and reads
by users return the position and the size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.file_version import FileVersion
from lance_spark.schema.columns import BLOB_V2_EXTENSION, is_blob
from lance_spark.schema.extension import EXTENSION_NAME
from lance_spark.schema.field import Field, FieldId, LanceSchema

BLOB_KEY = "lance-encoding:blob"
INLINE_SIZE = "lance-encoding:blob-inline-size-threshold"
DEDICATED_SIZE = "lance-encoding:blob-dedicated-size-threshold"
PACK_SIZE = "lance-encoding:blob-pack-file-size-threshold"

_UNNUMBERED = FieldId(-1)
_PLAIN, _VAR_BINARY = 1, 2  # lance.file.Encoding


class BlobKind(IntEnum):
    """Storage location of the bytes of a value."""

    INLINE = 0
    """In the data file."""
    PACKED = 1
    """In a sidecar of the data file, behind other values."""
    DEDICATED = 2
    """In a sidecar of their own."""
    EXTERNAL = 3
    """In an object that the table does not own, at `blob_uri`."""
    MANAGED = 4


DESCRIPTION = tuple(
    Field(name, _UNNUMBERED, logical_type, nullable=False, encoding=encoding)
    for name, logical_type, encoding in (
        ("kind", "uint8", _PLAIN),
        ("position", "uint64", _PLAIN),
        ("size", "uint64", _PLAIN),
        ("blob_id", "uint32", _PLAIN),
        ("blob_uri", "string", _VAR_BINARY),
    )
)
"""The fields of a description."""

PLACE = tuple(Field(name, _UNNUMBERED, "uint64", nullable=False, encoding=_PLAIN) for name in ("position", "size"))
"""The fields of what files of 2.0 and 2.1 hold of a value, which is in the same file. Empty values are at 0."""

INGEST = "ingest"
"""A member of values in memory only: whether the bytes at the URI are copied, instead of kept as a reference."""

SOURCE = Field("source", _UNNUMBERED, "string", nullable=False)
"""A sixth field, in memory only: the data file that the description is of. With it rows can be moved to new files."""


@dataclass(frozen=True, slots=True)
class BlobSizes:
    """Which values lie where; sizes in bytes.

    Attributes:
        inline: the largest value inside of the data file.
        dedicated: the largest value in a sidecar that it shares.
        pack: the size that a shared sidecar does not exceed, unless a single value does.
    """

    inline: int = 64 << 10
    dedicated: int = 4 << 20
    pack: int = 1 << 30

    @classmethod
    def of(cls, field: Field) -> BlobSizes:
        """The sizes that the metadata of a field asks for.

        Raises:
            InvalidInputError: one of them is no number, or a limit is 0 where a value needs room.
        """
        sizes = cls(
            _size(field, INLINE_SIZE, cls().inline),
            _size(field, DEDICATED_SIZE, cls().dedicated),
            _size(field, PACK_SIZE, cls().pack),
        )
        if sizes.pack == 0:
            raise InvalidInputError(f"field {field.name!r}: {PACK_SIZE} is 0; a sidecar needs room for a value")
        return sizes


def _size(field: Field, key: str, default: int) -> int:
    text = field.metadata.get(key)
    if text is None:
        return default
    if not text.isdigit() or len(text) > 15:
        raise InvalidInputError(f"field {field.name!r}: {key} is {text!r}, not a number of bytes")
    return int(text)


def is_blob_v2(field: Field) -> bool:
    """True for a blob column in the form in which its values are written."""
    return is_blob(field) and field.logical_type == "struct" and any(child.name == "data" for child in field.children)


def is_blob_v1(field: Field) -> bool:
    """True for a blob column of files of 2.0 and 2.1, in the form in which its values are written."""
    return is_blob(field) and field.logical_type in ("binary", "large_binary")


def is_described(field: Field) -> bool:
    """True for a blob column in the form in which a scan returns it, with or without the source."""
    return is_blob(field) and field.children[: len(DESCRIPTION)] == DESCRIPTION


def is_placed(field: Field) -> bool:
    """True for a blob column in the form in which reads return it of files of 2.0 and 2.1."""
    return is_blob(field) and tuple(child.name for child in field.children) == tuple(child.name for child in PLACE)


def described(field: Field, *, with_source: bool = False) -> Field:
    """A blob column in the form in which a scan returns it."""
    children = (*DESCRIPTION, SOURCE) if with_source else DESCRIPTION
    # Not the extension type of the values: these are descriptions.
    return Field(field.name, field.id, "struct", field.nullable, children, {BLOB_KEY: b"true"})


def stored(field: Field) -> Field:
    """`field` as the pages of data files hold it: blob columns, at any depth of structs, as packed descriptions."""
    if is_blob_v2(field) or is_blob_v1(field):
        metadata = {"lance-encoding:packed": b"true", BLOB_KEY: b"true"}
        members = DESCRIPTION if is_blob_v2(field) else PLACE
        return Field(field.name, field.id, "struct", field.nullable, members, metadata)
    children = tuple(stored(child) for child in field.children)
    return field if children == field.children else field.with_children(children)


def in_file_version(schema: LanceSchema, version: FileVersion, *, first_id: int = 0) -> LanceSchema:
    """`schema` of a table of 2.0 or newer once all its files are of `version`, which is not older."""
    return as_blob_v2(schema, first_id=first_id) if version is FileVersion.V2_2 else schema


def as_blob_v2(schema: LanceSchema, *, first_id: int = 0) -> LanceSchema:
    """`schema` with the blob columns of older files, binary values with a mark, as columns of files of 2.2.

    The new children get ids above all others, as in the reference library.
    """
    next_id = max(schema.max_field_id + 1, first_id)

    def changed(field: Field) -> Field:
        nonlocal next_id
        if is_blob_v1(field):
            children = (
                Field("data", FieldId(next_id), "large_binary", encoding=_VAR_BINARY),
                Field("uri", FieldId(next_id + 1), "string", encoding=_VAR_BINARY),
            )
            next_id += 2
            other_metadata = {key: value for key, value in field.metadata.items() if key != BLOB_KEY}
            metadata: Mapping[str, bytes] = {**other_metadata, EXTENSION_NAME: BLOB_V2_EXTENSION.encode()}
            return Field(
                field.name,
                field.id,
                "struct",
                field.nullable,
                children,
                metadata,
                extension_name=BLOB_V2_EXTENSION,
            )
        below = tuple(changed(child) for child in field.children)
        return field if below == field.children else field.with_children(below)

    return LanceSchema(tuple(changed(field) for field in schema.fields), schema.metadata)


def as_blob_field(field: Field) -> Field:
    """`as_blob_v2` of one field."""
    return as_blob_v2(LanceSchema((field,))).fields[0]


def has_blobs(field: Field) -> bool:
    """True if the field, or one below it, is a blob column."""
    return is_blob(field) or any(map(has_blobs, field.children))


def blob_columns(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """The top-level `fields` that are blob columns or have any below them."""
    return tuple(filter(has_blobs, fields))


def blob_field(
    name: str,
    *,
    nullable: bool = True,
    inline_size_threshold: int | None = None,
    dedicated_size_threshold: int | None = None,
    pack_file_size_threshold: int | None = None,
) -> pa.Field:
    """The Arrow field of a blob column, for the schema of rows whose column has plain binary values.

    Args:
        name: of the column.
        nullable: whether values can be null.
        inline_size_threshold: values of up to this many bytes lie inside of the data file (64 KiB if None).
        dedicated_size_threshold: larger ones have a sidecar of their own (4 MiB if None).
        pack_file_size_threshold: the size of a sidecar that several values share (1 GiB if None).

    >>> blob_field("img", inline_size_threshold=10).metadata
    {b'lance-encoding:blob': b'true', b'lance-encoding:blob-inline-size-threshold': b'10'}
    """
    settings = {
        INLINE_SIZE: inline_size_threshold,
        DEDICATED_SIZE: dedicated_size_threshold,
        PACK_SIZE: pack_file_size_threshold,
    }
    sizes = {key: str(value) for key, value in settings.items() if value is not None}
    return pa.field(name, pa.large_binary(), nullable, metadata={BLOB_KEY: "true", **sizes})
