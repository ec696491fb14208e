"""Building a text index over a version."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark._proto import table_pb2
from lance_spark.analysis.analyzer import is_text
from lance_spark.errors import InvalidInputError
from lance_spark.file.writer import FileWriter
from lance_spark.file_version import FileVersion
from lance_spark.index.text.build import INDEX_VERSION, TextIndexParameters, write_segment_files
from lance_spark.index.text.segment import TYPE_URL
from lance_spark.schema.arrow import from_arrow_schema, to_arrow_field
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.projection import FieldFinder
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.deletion import delete_quietly
from lance_spark.table.bases import Bases
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.features import check_writable
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.paths import INDICES
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.system_columns import ROW_ADDRESS, ROW_ID
from lance_spark.table.search.text_columns import quoted, values_of
from lance_spark.table.writing.save import DEFAULT_FILE_VERSION

_WRITABLE = (FileVersion.V2_1, FileVersion.V2_2)


class _SegmentFiles:
    """The files of a new segment."""

    def __init__(self, store: ObjectStore, folder: str, version: FileVersion) -> None:
        self._store = store
        self._folder = folder
        self._version = version
        self.sizes: dict[str, int] = {}

    def write(self, name: str, table: pa.Table, metadata: Mapping[str, str]) -> None:
        # `_rowid` is a reserved name for columns of tables, but not of index files.
        numbered = from_arrow_schema(table.rename_columns([f"column{n}" for n in range(table.num_columns)]).schema)
        fields = (replace(field, name=name) for field, name in zip(numbered.fields, table.column_names, strict=True))
        schema = LanceSchema(tuple(fields))
        with FileWriter(self._store, f"{self._folder}/{name}", schema, version=self._version) as writer:
            for key, value in metadata.items():
                writer.add_schema_metadata(key, value.encode())
            writer.write(table)
            self.sizes[name] = writer.close().size_bytes

    def remove(self) -> None:
        for name in self.sizes:
            delete_quietly(self._store, f"{self._folder}/{name}")


def build_text_index(
    table: TableLocation, manifest: Manifest, column: str, name: str | None, options: Mapping[str, object]
) -> IndexMetadata:
    """The metadata of a new segment over all rows of a version. Its files are written; no version names them yet.

    Raises:
        NotFoundError: no such column.
        InvalidInputError: a column that is no text, a wrong option, or a name that another index has.
        UnsupportedFeatureError: the table needs something that this release does not write.
        StorageError: the store failed. No file is left behind.
    """
    check_writable(manifest.writer_flags, table.uri)
    parameters = TextIndexParameters.of(options)
    finder = FieldFinder(manifest.schema)
    path = finder.find(finder.names(column))
    names, dtype = tuple(field.name for field in path), to_arrow_field(path[-1]).type
    if not is_text(dtype):
        raise InvalidInputError(f"column {column!r} is {dtype}; a text index needs strings or lists of strings")
    chosen = name or f"{'.'.join(names)}_idx"
    _check_name(chosen, path[-1].id, manifest)
    known = data_format(manifest)
    segment_uuid = uuid.uuid4()
    folder = f"{INDICES}/{segment_uuid}"
    files = _SegmentFiles(table.store, folder, known if known in _WRITABLE else DEFAULT_FILE_VERSION)
    done = False
    try:
        write_segment_files(_texts(manifest, table.bases(manifest), names), parameters, files)
        done = True
    finally:
        # Whatever ends the build, an interrupt included, must not leave files.
        if not done:
            files.remove()
    message = IndexMetadata.of(
        segment_uuid.bytes,
        chosen,
        [path[-1].id],
        manifest.version,
        [fragment.id for fragment in manifest.fragments],
    ).message
    message.index_version = INDEX_VERSION
    message.created_at = time.time_ns() // 1_000_000
    message.files.extend(table_pb2.IndexFile(path=key, size_bytes=size) for key, size in sorted(files.sizes.items()))
    message.index_details.type_url = TYPE_URL
    message.index_details.value = parameters.details()
    return IndexMetadata.from_proto(message)


def _texts(
    manifest: Manifest, bases: Bases, names: tuple[str, ...]
) -> Iterator[tuple[pa.Array, npt.NDArray[np.uint64]]]:
    stable = manifest.has_stable_row_ids
    system = ROW_ID if stable else ROW_ADDRESS
    scan = Scan.of(
        manifest.schema,
        bases,
        columns=[quoted(names)],
        with_row_id=stable,
        with_row_address=not stable,
        stable_row_ids=stable,
        batch_rows=1 << 16,
    )
    for fragment in manifest.fragments:
        for batch in scan.read_fragment(fragment):
            ids = batch.column(batch.schema.get_field_index(system)).to_numpy()
            yield values_of(batch, names), ids.astype(np.uint64, copy=False)


def _check_name(name: str, field_id: int, manifest: Manifest) -> None:
    if not name or name.startswith("__lance"):
        raise InvalidInputError(f"an index cannot be called {name!r}; choose a name that does not begin with __lance")
    for index in parse_indices(manifest.index_section):
        is_text_index = index.message.index_details.type_url.lower() == TYPE_URL.lower()
        if index.name == name and not (is_text_index and list(index.message.fields) == [field_id]):
            raise InvalidInputError(f"{name!r} is another index; choose another name, or drop it first")
