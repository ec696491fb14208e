"""Which code reads the fields of which file version.

Page encodings of a version are an `Any` whose type URL must be the version's own: `lance.encodings.ArrayEncoding` in
2.0, `lance.encodings21.PageLayout` in 2.1 and 2.2. Pre-release 2.1 files carry others and are refused.
"""

from __future__ import annotations

from lance_spark.errors import UnsupportedFeatureError
from lance_spark.file_version import FileVersion
from lance_spark.layouts.base import FieldReader

FIELD_READERS: dict[FileVersion, FieldReader] = {}


def field_reader(version: FileVersion) -> FieldReader:
    """The reader of top-level fields of files of `version`.

    Raises:
        UnsupportedFeatureError: files of this version are not read.
    """
    reader = FIELD_READERS.get(version)
    if reader is None:
        raise UnsupportedFeatureError(
            f"Lance files of version {version.value} are not supported; rewrite the table as version 2.2",
            feature="file version",
            version=version.value,
        )
    return reader
