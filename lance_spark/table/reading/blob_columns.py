"""Blob columns in scans (Lance file format, "Blob").

In files of 2.2 a blob column contains blob descriptors (the positions of the values), and a scan returns them. Files of
2.0 and 2.1 return the values themselves.
"""

from __future__ import annotations

from lance_spark.file_version import FileVersion
from lance_spark.schema.columns import is_blob
from lance_spark.schema.field import Field, FieldId, LanceSchema

_UNNUMBERED = FieldId(-1)
_DESCRIPTION = tuple(
    Field(name, _UNNUMBERED, logical_type, nullable=False)
    for name, logical_type in (
        ("kind", "uint8"),
        ("position", "uint64"),
        ("size", "uint64"),
        ("blob_id", "uint32"),
        ("blob_uri", "string"),
    )
)
_VALUES = (FileVersion.V0_1, FileVersion.V2_0, FileVersion.V2_1)


def with_blob_descriptors(schema: LanceSchema, file_version: FileVersion | None) -> LanceSchema:
    """The schema of what a scan returns of a table whose data files are of `file_version`."""
    if file_version is None or file_version in _VALUES:
        return schema
    return LanceSchema(tuple(_shown(field) for field in schema.fields), schema.metadata)


def has_other_descriptors(field: Field, file_version: FileVersion) -> bool:
    """True if a scan shows blobs of `field` as descriptions but files of `file_version` hold values, or the reverse."""
    holds_values = file_version in _VALUES
    return any(is_blob(node) and (node.children == _DESCRIPTION) is holds_values for node in field.walk())


def _shown(field: Field) -> Field:
    if is_blob(field):
        # Not the extension type of the values: these are descriptors.
        return Field(field.name, field.id, "struct", field.nullable, _DESCRIPTION, {"lance-encoding:blob": b"true"})
    children = tuple(_shown(child) for child in field.children)
    return field if children == field.children else field.with_children(children)
