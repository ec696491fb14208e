"""Opens a data file of any supported version."""

from __future__ import annotations

import pyarrow as pa

from lance_spark.file.data_file_reader import DataFileReader, FileErrors, read_tail
from lance_spark.file.footer import Footer
from lance_spark.file.reader import FileReader
from lance_spark.file.v0_1_reader import V01FileReader
from lance_spark.file_version import FileVersion
from lance_spark.layouts.field_readers import field_reader
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.cache import cached_by_path, has_free_etags


def open_data_file(
    store: ObjectStore, path: str, *, size: int | None = None, whole: pa.Buffer | None = None
) -> DataFileReader:
    """Opens the file at `path` with the reader for the version in its footer.

    Args:
        store: the store of the file.
        path: relative to the store's root.
        size: its size in bytes if known; saves a request.
        whole: the mapped file, if it is.

    Raises:
        NotFoundError: no such object.
        CorruptFileError: not a complete Lance file.
        UnsupportedFeatureError: a version of the format that is not supported.
    """
    if not has_free_etags(store):
        return opened_file(store, path, size, whole)

    def opened() -> tuple[DataFileReader, int]:
        reader = opened_file(store, path, size, whole)
        return reader, reader.cached_bytes

    # Local files only: from other stores the end of the file is cached, which is all that opening needs.
    return cached_by_path(store, "data file", path, size, opened)


def opened_file(store: ObjectStore, path: str, size: int | None, whole: pa.Buffer | None = None) -> DataFileReader:
    """Opens the file at `path` without caching the reader; see `open_data_file`."""
    with FileErrors(store, path):
        tail, file_size = read_tail(store, path, size, whole)
        footer = Footer.parse(tail, file_size)
        if footer.version is FileVersion.V0_1:
            return V01FileReader(store, path, file_size, tail)
        field_reader(footer.version)
        return FileReader(store, path, footer, tail)
