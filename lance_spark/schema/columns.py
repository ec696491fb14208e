"""The fields that own a column in a data file (Lance file format: 2.0 every node, from 2.1 on only leaves)."""

from __future__ import annotations

from collections.abc import Iterable

from lance_spark.file_version import FileVersion
from lance_spark.schema.field import Field, is_set

_PACKED = "lance-encoding:packed"
_BLOB = "lance-encoding:blob"
BLOB_V2_EXTENSION = "lance.blob.v2"


def is_packed(field: Field) -> bool:
    """True for a struct whose children are stored row by row in one column."""
    return field.logical_type == "struct" and (is_set(field.metadata, _PACKED) or is_set(field.metadata, "packed"))


def has_bytes(field: Field) -> bool:
    """True for texts and byte strings of any length."""
    return field.logical_type in ("string", "large_string", "binary", "large_binary")


def is_blob(field: Field) -> bool:
    """True for a column of large values that are stored outside of the pages (blob v1 and v2).

    The presence of the key decides, not its value.
    """
    extension = field.metadata.get("ARROW:extension:name", b"").decode("utf-8", "replace") or field.extension_name
    return _BLOB in field.metadata or extension == BLOB_V2_EXTENSION


def is_leaf(field: Field) -> bool:
    """True if the field owns a column in a file of version 2.1 or later, and none of its children does."""
    return not field.children or is_packed(field) or is_blob(field)


def paths(field: Field) -> list[tuple[Field, ...]]:
    """For each leaf below `field` the path of fields from `field` to it, in column order."""
    if is_leaf(field):
        return [(field,)]
    return [(field, *rest) for child in field.children for rest in paths(child)]


def column_fields(fields: Iterable[Field], version: FileVersion) -> tuple[Field, ...]:
    """The fields that own a column in a file of `version`, in column order."""
    if version is FileVersion.V0_1:
        return tuple(node for field in fields for node in field.walk())
    if version is FileVersion.V2_0:
        return tuple(node for field in fields for node in _nodes(field))
    owners: list[Field] = []
    for field in fields:
        owners += [path[-1] for path in paths(field)] if field.children else [field]
    return tuple(owners)


def is_array_leaf(field: Field) -> bool:
    """True if the field owns a column in a file of version 2.0, and none of its children does."""
    # For writers of 2.0 files the mere presence of the newer key meant true.
    packed = field.logical_type == "struct" and _PACKED in field.metadata
    return is_leaf(field) or packed or field.logical_type.startswith("fixed_size_list:")


def _nodes(field: Field) -> list[Field]:
    if is_array_leaf(field):
        return [field]
    return [field, *(node for child in field.children for node in _nodes(child))]
