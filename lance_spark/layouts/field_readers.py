"""Readers of top-level fields by file version.

In a 2.1 or 2.2 file a column is a leaf; in a 2.0 file structs and lists own columns too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.file_version import FileVersion
from lance_spark.layouts.base import EncodedColumn, FieldsReader
from lance_spark.layouts.leaf.columns import LeafFields
from lance_spark.layouts.v2_0.field_reader import NodeFields
from lance_spark.schema.field import Field, FieldId

_Prepare: TypeAlias = Callable[[Sequence[Field], Mapping[FieldId, EncodedColumn]], FieldsReader]

_FIELD_READERS: dict[FileVersion, _Prepare] = {
    FileVersion.V2_0: NodeFields,
    FileVersion.V2_1: LeafFields,
    FileVersion.V2_2: LeafFields,
}


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
