"""Readers of top-level fields by file version.

In a 2.1 or 2.2 file a column is a leaf; in a 2.0 file structs and lists own columns too.
"""

from __future__ import annotations

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.file_version import FileVersion
from lance_spark.layouts import leaf_columns
from lance_spark.layouts.base import FieldReader
from lance_spark.layouts.v2_0 import field_reader as v2_0

_FIELD_READERS: dict[FileVersion, FieldReader] = {
    FileVersion.V2_0: v2_0.read_field,
    FileVersion.V2_1: leaf_columns.read_field,
    FileVersion.V2_2: leaf_columns.read_field,
}


def field_reader(version: FileVersion) -> FieldReader:
    """The reader of top-level fields of files of `version`.

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
