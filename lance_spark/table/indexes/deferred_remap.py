"""Writes the fragment reuse index: where a compaction has moved rows, instead of new files of every index.

The entry of a compaction is appended to those of earlier ones. `optimize_indices` moves segments to the current
addresses; compactions that no segment needs any more leave the record.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence

import pyroaring

from lance_spark._proto import table_pb2
from lance_spark.index.fragment_reuse import FragmentReuse
from lance_spark.table.bases import Bases
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.fragment_reuse import FRAGMENT_REUSE, fragment_reuse_content
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.rewrite import RewriteGroup
from lance_spark.table.paths import INDICES
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.rows.fragment import DataFragment

_TYPE_URL = "/lance.table.FragmentReuseIndexDetails"
_FILE = "details.binpb"
_MAX_INLINE_BYTES = 200 * 1024
"""A longer record is a file of its own, as in the reference library."""

_Content = table_pb2.FragmentReuseIndexDetails.InlineContent
_Group = table_pb2.FragmentReuseIndexDetails.Group
_Digest = table_pb2.FragmentReuseIndexDetails.FragmentDigest


def fragment_reuse_index(manifest: Manifest) -> IndexMetadata | None:
    """The fragment reuse index of a version; None if it has none."""
    return next((index for index in parse_indices(manifest.index_section) if index.is_fragment_reuse), None)


def extended_reuse(table: TableLocation, base: Manifest, groups: Sequence[RewriteGroup]) -> IndexMetadata:
    """The fragment reuse index of `base` with one compaction more, uncommitted.

    Args:
        groups: rewritten fragments, with the ids of the new ones.

    Raises:
        CorruptFileError: the fragment reuse index of `base` is broken.
        LanceError: a deletion file cannot be read, or the store failed.
    """
    bases = table.bases(base)
    content = _content(base, bases)
    content.versions.add(dataset_version=base.version, groups=[_group(group, bases) for group in groups])
    return _written(table, base, content)


def trimmed_reuse(
    table: TableLocation, base: Manifest, segments: Sequence[IndexMetadata]
) -> tuple[list[IndexMetadata], list[IndexMetadata]]:
    """(the fragment reuse index without compactions that no segment needs, the one that it replaces).

    Both are empty if there is nothing to trim; the first one is if no compaction is left.

    Args:
        segments: those that the version will have.

    Raises: as `extended_reuse`.
    """
    index = fragment_reuse_index(base)
    if index is None or index.message.index_version > 0:
        return [], []
    content = _content(base, table.bases(base))
    moves = FragmentReuse.of_content(content.SerializeToString(deterministic=True))
    used = [(segment.message.dataset_version, segment.fragment_ids()) for segment in segments if not segment.is_system]
    num_settled = moves.num_settled(used)
    if not num_settled:
        return [], []
    del content.versions[:num_settled]
    return [_written(table, base, content)] if content.versions else [], [index]


def _content(base: Manifest, bases: Bases) -> table_pb2.FragmentReuseIndexDetails.InlineContent:
    index = fragment_reuse_index(base)
    if index is None:
        return _Content()
    data = fragment_reuse_content(index, bases)
    FragmentReuse.of_content(data)  # Checks it: nothing is appended to what nobody can follow.
    return _Content.FromString(data)


def _group(group: RewriteGroup, bases: Bases) -> table_pb2.FragmentReuseIndexDetails.Group:
    live = pyroaring.BitMap64()
    old = []
    for fragment in group.old_fragments:
        digest, rows = _kept_rows(fragment, bases)
        old.append(digest)
        live |= rows
    new = [_Digest(id=fragment.id, physical_rows=fragment.physical_rows or 0) for fragment in group.new_fragments]
    return _Group(changed_row_addrs=live.serialize(), old_fragments=old, new_fragments=new)


def _kept_rows(
    fragment: DataFragment, bases: Bases
) -> tuple[table_pb2.FragmentReuseIndexDetails.FragmentDigest, pyroaring.BitMap64]:
    """(the size of an old fragment, the addresses of its live rows)."""
    reader = FragmentReader(fragment, bases)
    first = fragment.id << 32
    rows = pyroaring.BitMap64()
    rows.add_range(first, first + reader.num_rows)
    deleted = reader.deletions.offsets
    rows -= pyroaring.BitMap64((deleted + first).tolist())
    return _Digest(id=fragment.id, physical_rows=reader.num_rows, num_deleted_rows=len(deleted)), rows


def _written(
    table: TableLocation, base: Manifest, content: table_pb2.FragmentReuseIndexDetails.InlineContent
) -> IndexMetadata:
    index_uuid = uuid.uuid4()
    data = content.SerializeToString(deterministic=True)
    details = table_pb2.FragmentReuseIndexDetails(inline=content)
    if len(data) > _MAX_INLINE_BYTES:
        table.store.put(f"{INDICES}/{index_uuid}/{_FILE}", data)
        details = table_pb2.FragmentReuseIndexDetails()
        details.external.path, details.external.offset, details.external.size = _FILE, 0, len(data)
    new = [digest.id for version in content.versions for group in version.groups for digest in group.new_fragments]
    message = table_pb2.IndexMetadata(
        name=FRAGMENT_REUSE,
        dataset_version=base.version,
        fragment_bitmap=pyroaring.BitMap(new).serialize(),
        created_at=time.time_ns() // 1_000_000,
    )
    message.uuid.uuid = index_uuid.bytes
    message.index_details.type_url = _TYPE_URL
    message.index_details.value = details.SerializeToString(deterministic=True)
    return IndexMetadata.from_proto(message)
