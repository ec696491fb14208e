"""Builds one segment of an index over some fragments of a version. Nothing of it is visible before it is committed."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection

import pyroaring

from lance_spark._proto import table_pb2
from lance_spark.errors import InvalidInputError
from lance_spark.file_version import FileVersion
from lance_spark.index.builders.base import IndexBuilder
from lance_spark.index.builders.output import SegmentOutput
from lance_spark.storage.base import ObjectStore
from lance_spark.storage.deletion import delete_quietly
from lance_spark.table.indexes.definition import IndexDefinition
from lance_spark.table.indexes.rows import row_batches
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.features import check_writable
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.manifest_builder import data_format
from lance_spark.table.paths import INDICES
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.writing.save import DEFAULT_FILE_VERSION

_WRITABLE = (FileVersion.V2_1, FileVersion.V2_2)


def build_segment(
    table: TableLocation, manifest: Manifest, definition: IndexDefinition, fragment_ids: Collection[int] | None = None
) -> IndexMetadata:
    """A new segment, uncommitted: its files are written, and no version names them yet.

    Args:
        manifest: the version to read.
        fragment_ids: the fragments to index; None for all.

    Returns:
        what `commit_index` takes; it can be sent between processes as bytes.

    Raises:
        InvalidInputError: the version does not have such a fragment.
        UnsupportedFeatureError: the table needs something that this release does not write.
        CorruptFileError: a data file contradicts the format.
        StorageError: the store failed. No file is left behind.
    """
    fragments = chosen_fragments(manifest, fragment_ids)

    def write(output: SegmentOutput) -> None:
        rows = row_batches(manifest, table.bases(manifest), definition, fragments)
        definition.builder.train_batches(rows, output)

    ids = [fragment.id for fragment in fragments]
    return write_segment(table, manifest, definition, ids, write)


def chosen_fragments(manifest: Manifest, fragment_ids: Collection[int] | None) -> list[DataFragment]:
    """Fragments of a version in its order; None for all.

    Raises:
        InvalidInputError: the version does not have one of them.
    """
    if fragment_ids is None:
        return list(manifest.fragments)
    ids = set(fragment_ids)
    fragments = [fragment for fragment in manifest.fragments if fragment.id in ids]
    if len(fragments) < len(ids):
        missing = sorted(ids - {fragment.id for fragment in fragments})
        raise InvalidInputError(f"version {manifest.version} has no fragments {missing} that could be indexed")
    return fragments


def write_segment(
    table: TableLocation,
    manifest: Manifest,
    definition: IndexDefinition,
    fragment_ids: Collection[int],
    write: Callable[[SegmentOutput], None],
    *,
    dataset_version: int | None = None,
) -> IndexMetadata:
    """The metadata of a new segment that covers `fragment_ids` and whose files `write` writes.

    After an error no file is left behind.

    Args:
        dataset_version: the version whose values are in the files; None for that of `manifest`.
    """
    check_writable(manifest.writer_flags, table.uri)
    segment_uuid = uuid.uuid4()
    output = SegmentOutput(table.store, f"{INDICES}/{segment_uuid}", index_file_version(manifest))
    done = False
    try:
        write(output)
        done = True
    finally:
        # Whatever ends the build, an interrupt included, must not leave files.
        if not done:
            remove_files(table.store, str(segment_uuid), output.sizes)
    message = table_pb2.IndexMetadata(
        fields=[definition.field.id],
        name=definition.name,
        dataset_version=manifest.version if dataset_version is None else dataset_version,
        # Without files nothing is indexed: the segment only records what is to be.
        fragment_bitmap=pyroaring.BitMap(fragment_ids if output.sizes else []).serialize(),
        index_version=definition.builder.version(stable_row_ids=manifest.has_stable_row_ids),
        created_at=time.time_ns() // 1_000_000,
        files=[table_pb2.IndexFile(path=name, size_bytes=size) for name, size in sorted(output.sizes.items())],
    )
    message.uuid.uuid = segment_uuid.bytes
    set_details(message, definition.builder)
    return IndexMetadata.from_proto(message)


def set_details(message: table_pb2.IndexMetadata, builder: IndexBuilder) -> None:
    """Puts the details of a kind of index into the metadata of a segment."""
    message.index_details.type_url = builder.index_type.type_url
    message.index_details.value = builder.details()


def index_file_version(manifest: Manifest) -> FileVersion:
    """The version of index files: that of the table's data files, if it can be written."""
    version = data_format(manifest)
    return version if version in _WRITABLE else DEFAULT_FILE_VERSION


def remove_files(store: ObjectStore, segment_uuid: str, names: Collection[str]) -> None:
    """Removes the files of a segment that no version names."""
    for name in names:
        delete_quietly(store, f"{INDICES}/{segment_uuid}/{name}")


def remove_segments(table: TableLocation, segments: Collection[IndexMetadata]) -> None:
    """Removes the files of segments that no version names."""
    for segment in segments:
        remove_files(table.store, segment.uuid, [file.path for file in segment.message.files])
