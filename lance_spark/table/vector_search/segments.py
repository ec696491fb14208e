"""Which segments of a version's indexes answer a search, and for which fragments."""

from __future__ import annotations

import pyroaring

from lance_spark.errors import LanceError
from lance_spark.index.files import IndexFiles
from lance_spark.index.fragment_reuse import FragmentReuse
from lance_spark.index.segments import warn_unused
from lance_spark.index.vector.segment import VectorSegment
from lance_spark.storage.cache import cached_part
from lance_spark.table.bases import Bases
from lance_spark.table.manifests.fragment_reuse import FRAGMENT_REUSE, fragment_reuse
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.scan import Scan
from lance_spark.table.rows.fragment import BaseId
from lance_spark.table.vector_search.query import VectorQuery

_DETAILS = "/lance.index.pb.vectorindexdetails"
_PARSED_BYTES = 4
_PART_BYTES = 1024

SegmentPart = tuple[VectorSegment, pyroaring.BitMap]
"""A segment, and the fragments of the version that it answers for."""


def chosen_segments(scan: Scan, manifest: Manifest, query: VectorQuery, *, use_index: bool) -> list[SegmentPart]:
    """The segments of the first index that fits a query; none if it has to be answered without.

    Args:
        scan: reads the column of vectors alone.
    """
    if not use_index or not manifest.index_section:
        return []
    by_name: dict[str, list[SegmentPart]] = {}
    searched = scan.projection.fields[0]
    while searched.logical_type == "struct":
        searched = searched.children[0]
    for part in _of_column(scan.bases, manifest, searched.id, query.column.dimension):
        by_name.setdefault(part[0].name, []).append(part)
    for parts in by_name.values():
        try:
            metrics = {segment.metric for segment, _ in parts}
        except LanceError as error:
            warn_unused(parts[0][0].name, parts[0][0].uuid, error)
            continue
        if len(metrics) == 1 and (query.metric_is_default or metrics == {query.metric}):
            return parts
    return []


def fragment_reuse_of(manifest: Manifest, bases: Bases) -> FragmentReuse | None:
    """The moves of rows that compactions have left to readers; None if there are none.

    Raises:
        LanceError: they cannot be read.
    """
    index = next((index for index in _indexes(manifest) if index.name == FRAGMENT_REUSE), None)
    return None if index is None else fragment_reuse(index, bases)


def _indexes(manifest: Manifest) -> list[IndexMetadata]:
    section = manifest.index_section or b""

    def parse() -> tuple[list[IndexMetadata], int]:
        return [*parse_indices(section)], _PARSED_BYTES * len(section)

    return cached_part(manifest, "indexes", parse)


def _of_column(bases: Bases, manifest: Manifest, field_id: int, dimension: int) -> list[SegmentPart]:
    def make() -> tuple[list[SegmentPart], int]:
        found = _opened(bases, manifest, field_id, dimension)
        return found, sum(_PART_BYTES + len(ids) for _, ids in found)

    try:
        return cached_part(manifest, ("vector segments", field_id, dimension), make)
    except LanceError as error:
        warn_unused("section", "all", error)
        return []


def _opened(bases: Bases, manifest: Manifest, field_id: int, dimension: int) -> list[SegmentPart]:
    reuse = fragment_reuse_of(manifest, bases)
    if reuse is not None and manifest.has_stable_row_ids:
        # No library writes both; which of the two an index follows is not known.
        return []
    found: list[SegmentPart] = []
    for index in _indexes(manifest):
        message = index.message
        if message.index_details.type_url.lower().endswith(_DETAILS) and list(message.fields) == [field_id]:
            segment = _segment(index, bases, dimension)
            found += [] if segment is None else [(segment, _covered(segment, manifest, reuse))]
    return found


def _covered(segment: VectorSegment, manifest: Manifest, reuse: FragmentReuse | None) -> pyroaring.BitMap:
    present = pyroaring.BitMap(message.id for message in manifest.fragments.messages)
    if reuse is None:
        return segment.fragment_ids & present
    current = reuse.current(segment.fragment_ids) & present
    return current - pyroaring.BitMap(reuse.unexplained(current, segment.dataset_version))


def _segment(index: IndexMetadata, bases: Bases, dimension: int) -> VectorSegment | None:
    try:
        fragment_ids = index.fragment_ids()
        if not fragment_ids:
            # A definition without files, to be trained when there are rows.
            return None
        store, folder = bases.index_folder(index.uuid, None if index.base_id is None else BaseId(index.base_id))
        sizes = {file.path: file.size_bytes for file in index.message.files if file.size_bytes}
        files = IndexFiles(store, folder, sizes)
        version = index.message.dataset_version
        return VectorSegment(index.name, index.uuid, fragment_ids, files, dimension, version)
    except LanceError as error:
        warn_unused(index.name, index.uuid, error)
        return None
