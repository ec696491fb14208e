"""List and statistics of the indexes of a version, for users."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from lance_spark.errors import LanceError, NotFoundError
from lance_spark.index.builders.kinds import builder_of
from lance_spark.index.json_index import JSON_URL
from lance_spark.index.registry import index_type_of
from lance_spark.index.vector.building.kinds import kind_in_details
from lance_spark.schema.arrow import to_arrow_type
from lance_spark.schema.field import LanceSchema
from lance_spark.schema.projection import dotted
from lance_spark.table.bases import Bases
from lance_spark.table.indexes.definition import field_path
from lance_spark.table.indexes.optimize import index_files
from lance_spark.table.manifests.fragment_reuse import covered_fragments
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.mem_wal import MEM_WAL, mem_wal_state
from lance_spark.table.reading.fragment_reader import FragmentReader

_SHORT_NAMES = {
    "BTREE": "BTree",
    "BITMAP": "Bitmap",
    "LABEL_LIST": "LabelList",
    "NGRAM": "NGram",
    "ZONEMAP": "ZoneMap",
    "BLOOMFILTER": "BloomFilter",
    "INVERTED": "Inverted",
    "RTREE": "RTree",
}


def list_indices(manifest: Manifest, bases: Bases) -> list[dict[str, Any]]:
    """The segments of the indexes of a version, ordered by name, system indexes among them.

    Each is a dict: `name`, `type` (such as BTree), `uuid`, `fields` (column paths), `version` (that its values are
    from), `fragment_ids` (a set), `base_id`.
    """
    indexes = parse_indices(manifest.index_section)
    covered = covered_fragments(indexes, bases)
    return [
        {
            "name": index.name,
            "type": type_name(index),
            "uuid": index.uuid,
            "fields": column_paths(index, manifest.schema),
            "version": index.message.dataset_version,
            "fragment_ids": set(index.fragment_ids() if index.is_system else covered(index)),
            "base_id": index.base_id,
        }
        for index in sorted(indexes, key=lambda index: index.name)
    ]


@dataclass(frozen=True, slots=True)
class SegmentSummary:
    """Metadata of a segment of an index.

    Attributes:
        num_indexed_rows: rows that are not deleted in the fragments that the segment covers; None for a system index.
        num_unindexed_rows: such rows in fragments that no segment of the index covers; None for a system index.
        size_bytes: of its files; None if the metadata do not have the sizes.
    """

    segment: IndexMetadata
    columns: list[str]
    type_name: str
    num_indexed_rows: int | None
    num_unindexed_rows: int | None
    size_bytes: int | None


def summarize_segments(manifest: Manifest, bases: Bases) -> Iterator[SegmentSummary]:
    """All segments of the indexes of a version, ordered by the name of the index; reads no index file."""
    segments = sorted(parse_indices(manifest.index_section), key=lambda segment: segment.name)
    if not segments:
        return
    coverage = _Coverage.of(manifest, bases, [segment for segment in segments if not segment.is_system])
    unindexed_rows = {
        name: coverage.num_rows(coverage.of_index(own)[1])
        for name, own in groupby(segments, key=lambda segment: segment.name)
    }
    for segment in segments:
        indexed = unindexed = None
        if not segment.is_system:
            indexed = coverage.num_rows(coverage.fragments[segment.uuid])
            unindexed = unindexed_rows[segment.name]
        columns = column_paths(segment, manifest.schema)
        yield SegmentSummary(segment, columns, type_name(segment), indexed, unindexed, size_bytes(segment))


def type_name(index: IndexMetadata) -> str:
    """The kind of an index as the reference library spells it; for an unknown kind the name of its details."""
    return kind_name(index.message.index_details.type_url, index.message.index_details.value)


def kind_name(url: str, details: bytes) -> str:
    """Kind of an index by the type and the bytes of its details, spelled as by `type_name`."""
    vector_kind = kind_in_details(details) if url.endswith("VectorIndexDetails") else None
    if vector_kind is not None:
        return vector_kind
    if url.lower() == JSON_URL.lower():
        return "Json"
    index_type = index_type_of(url)
    if index_type is not None:
        return _SHORT_NAMES[index_type.type_name]
    return url.rsplit(".", 1)[-1].removesuffix("IndexDetails") or "Unknown"


def column_paths(index: IndexMetadata, schema: LanceSchema) -> list[str]:
    """The dotted paths of the indexed columns."""
    return [dotted([field.name for field in field_path(schema, number)]) for number in index.message.fields]


def index_statistics(manifest: Manifest, bases: Bases, name: str) -> dict[str, Any]:
    """Statistics of an index of a version.

    A dict: `index_type`, `name`, `num_segments`, `num_indexed_fragments`, `num_indexed_rows` (rows that are not
    deleted in covered fragments), `num_unindexed_fragments`, `num_unindexed_rows`, `num_indexed_rows_per_segment`,
    `size_bytes` (None if the metadata does not have the sizes of all files), `updated_at_timestamp_ms` (None if not
    known) and `segments`, one dict each: `uuid`, `fragment_ids`, `size_bytes`, and what the kind tells, such as
    `num_pages`.

    Raises:
        NotFoundError: no such index.
    """
    segments = [index for index in parse_indices(manifest.index_section) if index.name == name]
    if not segments:
        names = sorted({index.name for index in parse_indices(manifest.index_section) if not index.is_system})
        raise NotFoundError(f"there is no index {name!r}; known: {', '.join(names) or 'none'}")
    coverage = _Coverage.of(manifest, bases, segments)
    covered = [coverage.fragments[segment.uuid] for segment in segments]
    indexed, unindexed = coverage.of_index(segments)
    sizes = [size_bytes(segment) for segment in segments]
    created = [segment.message.created_at for segment in segments if segment.message.created_at]
    return {
        "index_type": type_name(segments[0]),
        "name": name,
        "num_segments": len(segments),
        "num_indexed_fragments": len(indexed),
        "num_indexed_rows": coverage.num_rows(indexed),
        "num_unindexed_fragments": len(unindexed),
        "num_unindexed_rows": coverage.num_rows(unindexed),
        "num_indexed_rows_per_segment": [coverage.num_rows(numbers) for numbers in covered],
        "size_bytes": None if None in sizes else int(np.sum(np.array(sizes, np.int64))),
        "updated_at_timestamp_ms": max(created, default=None),
        "segments": [
            {
                "uuid": segment.uuid,
                "fragment_ids": numbers,
                "size_bytes": size,
                **_details(segment, manifest.schema, bases),
            }
            for segment, numbers, size in zip(segments, covered, sizes, strict=True)
        ],
    }


def size_bytes(index: IndexMetadata) -> int | None:
    """Bytes of a segment's files; None if the metadata does not have them."""
    sizes: Sequence[int] = [file.size_bytes for file in index.message.files]
    return sum(sizes) if sizes and all(sizes) else None


def _details(segment: IndexMetadata, schema: LanceSchema, bases: Bases) -> dict[str, Any]:
    """Statistics of a segment that its kind of index reports; empty for a segment that cannot be read."""
    if segment.name == MEM_WAL:
        return mem_wal_state(segment)
    builder_type = builder_of(segment.message.index_details.type_url)
    path = field_path(schema, segment.message.fields[0]) if segment.message.fields else ()
    if builder_type is None or not path:
        return {}
    try:
        files = index_files(segment, bases)
        own_type = builder_type.of_segment(segment.message.index_details.value, files)
        return dict(own_type.statistics(files, to_arrow_type(path[-1])))
    except LanceError:
        return {}


@dataclass(frozen=True, slots=True)
class _Coverage:
    """The rows of a version that the segments of its indexes cover.

    Attributes:
        rows: those that are not deleted, by fragment id.
        fragments: the fragments of the version that each of some segments covers, by its UUID.
    """

    rows: dict[int, int]
    fragments: dict[str, list[int]]

    @classmethod
    def of(cls, manifest: Manifest, bases: Bases, segments: Iterable[IndexMetadata]) -> _Coverage:
        rows = _live_rows(manifest, bases)
        current = covered_fragments(parse_indices(manifest.index_section), bases)
        return cls(rows, {item.uuid: [number for number in current(item) if number in rows] for item in segments})

    def of_index(self, segments: Iterable[IndexMetadata]) -> tuple[set[int], set[int]]:
        """(the fragments that any of the segments covers, the others); system indexes cover none."""
        covered = {number for segment in segments for number in self.fragments.get(segment.uuid, ())}
        return covered, self.rows.keys() - covered

    def num_rows(self, fragment_ids: Collection[int]) -> int:
        return sum(self.rows[number] for number in fragment_ids)


def _live_rows(manifest: Manifest, bases: Bases) -> dict[int, int]:
    """Rows that are not deleted, by fragment id."""
    counts = manifest.fragments.row_counts()
    messages = manifest.fragments.messages
    return {
        message.id: FragmentReader(manifest.fragments[place], bases).num_live_rows() if count is None else count
        for place, (message, count) in enumerate(zip(messages, counts, strict=True))
    }
