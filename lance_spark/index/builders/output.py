"""Writes the files of a new index segment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from lance_spark.file.writer import FileWriter
from lance_spark.file_version import FileVersion
from lance_spark.schema.arrow import internal_schema
from lance_spark.storage.base import ObjectStore


class SegmentOutput:
    """The folder of a segment that is being built.

    Args:
        folder: of the store, without a slash at its end.
        version: file version of the files, one that can be written.

    Attributes:
        sizes: bytes of the files written so far, by name.
    """

    def __init__(self, store: ObjectStore, folder: str, version: FileVersion) -> None:
        self._store = store
        self._folder = folder
        self._version = version
        self.sizes: dict[str, int] = {}

    def write(
        self,
        name: str,
        table: pa.Table,
        metadata: Mapping[str, str],
        buffers: Mapping[str, bytes] | None = None,
        unnamed_buffers: Sequence[bytes] = (),
    ) -> None:
        """Writes one file.

        Args:
            metadata: entries of the schema's metadata.
            buffers: global buffers, each by the metadata key that gets its number; the first one has number 1.
            unnamed_buffers: further global buffers, after these.

        Raises:
            StorageError: the store failed. The file does not exist.
        """
        self.write_pieces(name, table.schema, [table], metadata, buffers, unnamed_buffers)

    def write_pieces(
        self,
        name: str,
        schema: pa.Schema,
        pieces: Iterable[pa.Table],
        metadata: Mapping[str, str],
        buffers: Mapping[str, bytes] | None = None,
        unnamed_buffers: Sequence[bytes] = (),
    ) -> None:
        """Writes one file, whose rows come piece by piece. Arguments and errors as `write`."""
        stored = internal_schema(schema.remove_metadata())
        with FileWriter(self._store, f"{self._folder}/{name}", stored, version=self._version) as writer:
            for key, data in (buffers or {}).items():
                writer.add_schema_metadata(key, str(writer.add_global_buffer(data)).encode())
            for data in unnamed_buffers:
                writer.add_global_buffer(data)
            for key, value in metadata.items():
                writer.add_schema_metadata(key, value.encode())
            for piece in pieces:
                writer.write(piece)
            self.sizes[name] = writer.close().size_bytes
