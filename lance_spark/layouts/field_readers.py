"""Readers of top-level fields by file version.

In a 2.1 or 2.2 file a column is a leaf; in a 2.0 file structs and lists own columns too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from lance_spark.errors import CorruptFileError, UnsupportedFeatureError
from lance_spark.file_version import FileVersion
from lance_spark.layouts.base import EncodedColumn, FieldsReader
from lance_spark.layouts.leaf.columns import LeafFields
from lance_spark.layouts.prepared.field import PreparedField, prepared_field
from lance_spark.schema.field import Field, FieldId

_Prepare: TypeAlias = Callable[[Sequence[Field], Mapping[FieldId, EncodedColumn]], FieldsReader]


def _node_fields(fields: Sequence[Field], columns: Mapping[FieldId, EncodedColumn]) -> FieldsReader:
    from lance_spark.layouts.v2_0.field_reader import NodeFields

    return NodeFields(fields, columns)


_FIELD_READERS: dict[FileVersion, _Prepare] = {
    FileVersion.V2_0: _node_fields,
    FileVersion.V2_1: LeafFields,
    FileVersion.V2_2: LeafFields,
}


def _bare_field(field: Field, columns: Mapping[FieldId, EncodedColumn], data: pa.Buffer) -> PreparedField | None:
    from lance_spark.layouts.prepared.bare_pages import bare_field
    from lance_spark.layouts.v2_0.field_reader import checked_node

    try:
        return bare_field(checked_node(field, columns), data)
    except (CorruptFileError, UnsupportedFeatureError):
        return None


_PREPARED_FIELDS = {
    FileVersion.V2_0: _bare_field,
    FileVersion.V2_1: prepared_field,
    FileVersion.V2_2: prepared_field,
}


def prepare_field(
    version: FileVersion, field: Field, columns: Mapping[FieldId, EncodedColumn], data: pa.Buffer
) -> PreparedField | None:
    """A top-level field of the file `data` of `version`; None if only the reader of `field_reader` can read it.

    Args:
        columns: by the fields that own them.
    """
    prepare = _PREPARED_FIELDS.get(version)
    return None if prepare is None else prepare(field, columns, data)


def field_reader(version: FileVersion) -> _Prepare:
    """Makes the reader of some top-level fields of a file of `version`, from its columns by the fields that own them.

    Raises:
        UnsupportedFeatureError: files of this version are not supported.
    """
    reader = _FIELD_READERS.get(version)
    if reader is None:
        raise UnsupportedFeatureError(
            f"Lance files of version {version.value} cannot be read; write the table again as version 2.2",
            feature="file version",
            version=version.value,
        )
    return reader
