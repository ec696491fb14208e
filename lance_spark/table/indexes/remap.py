"""Remaps indexes to the addresses that a compaction gives to rows.

Segments that hold addresses get new files, in which the rows of rewritten fragments have their new addresses. Zones
cannot follow rows, so those of new fragments are built from their values. New files need the ids of the new fragments
before the commit, so they are reserved by a transaction of their own. Segments that hold stable row ids stay as they
are; the commit changes the fragments that they cover.

A deferred remap writes no index file: the compaction records in the fragment reuse index where rows have moved. A
table that has such a record is always compacted this way, because its files can hold the addresses of any version.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lance_spark._proto import transaction_pb2
from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import LanceError, RetryableConflictError, StorageError
from lance_spark.index.builders.base import OldSegment
from lance_spark.index.builders.output import SegmentOutput
from lance_spark.table.bases import Bases
from lance_spark.table.commits.commit import Commit, NewTable
from lance_spark.table.indexes.build import remove_segments, write_segment
from lance_spark.table.indexes.deferred_remap import extended_reuse, fragment_reuse_index
from lance_spark.table.indexes.definition import IndexDefinition
from lance_spark.table.indexes.optimize import definition_of, index_files
from lance_spark.table.indexes.rows import holds_row_ids, row_batches
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.index_metadata import IndexMetadata
from lance_spark.table.manifests.index_section import parse_indices
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.manifests.transaction import Transaction
from lance_spark.table.operations.manifest_builder import data_format, largest_fragment_id
from lance_spark.table.operations.reserve_fragments import ReserveFragments
from lance_spark.table.operations.rewrite import Rewrite, RewriteGroup, RewrittenIndex
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.rows.fragment import DataFragment, FragmentId
from lance_spark.table.rows.row_address import UInt64Array, row_addresses, split_addresses
from lance_spark.table.writing.save import DEFAULT_FILE_VERSION, CommitOptions

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Remapped:
    """Rewritten fragments and remapped indexes of a compaction, ready to commit.

    Attributes:
        groups: the rewritten fragments; new ones have ids if there are remapped indexes.
        indices: the remapped indexes.
        fragment_reuse: the fragment reuse index, if indexes are remapped later.
        extended_reuse: the UUID of the one that it replaces.
        segments: their metadata, whose files are to be removed if the commit fails.
    """

    groups: tuple[RewriteGroup, ...]
    indices: tuple[RewrittenIndex, ...] = ()
    fragment_reuse: IndexMetadata | None = None
    extended_reuse: str | None = None
    segments: tuple[IndexMetadata, ...] = ()

    @property
    def operation(self) -> Rewrite:
        """The operation that commits the compaction."""
        return Rewrite(
            self.groups, self.indices, fragment_reuse=self.fragment_reuse, extended_reuse=self.extended_reuse
        )


def remap_indices(
    table: TableLocation,
    base: Manifest,
    groups: Sequence[RewriteGroup],
    options: CommitOptions,
    *,
    deferred: bool = False,
) -> Remapped:
    """Segments of `base` with the new addresses of rewritten rows, uncommitted.

    A segment that cannot be read is left out: it no longer covers the rewritten fragments.

    Args:
        deferred: writes a fragment reuse index instead, if the table has any index.

    Raises:
        CommitConflictError: the ids of the new fragments could not be reserved, or rows were sorted and another writer
            has deferred a compaction.
        CommitStateUnknownError: the store did not say whether they were.
        StorageError: the store failed. No file of an index is left behind.
    """
    if is_deferred(base, requested=deferred):
        if any(group.is_sorted for group in groups):
            raise RetryableConflictError(
                f"another writer has deferred a compaction of {table.uri}, whose record has no place for sorted rows; "
                "run optimize_indices, then cluster again",
                own=Rewrite.operation_kind.value,
                table_version=base.version,
            )
        numbered, newer = _with_ids(table, base, groups, options)
        before = fragment_reuse_index(newer)
        reuse = extended_reuse(table, newer, numbered)
        return Remapped(tuple(numbered), fragment_reuse=reuse, extended_reuse=before.uuid if before else None)
    remappable = _remappable(table.bases(base), base, groups)
    chosen = [(definition, segment) for definition, segment in remappable if not _is_lost(definition, segment, groups)]
    if not chosen:
        return Remapped(tuple(groups))
    numbered, _ = _with_ids(table, base, groups, options)
    remapped: list[IndexMetadata] = []
    indices: list[RewrittenIndex] = []
    done = False
    try:
        for definition, segment in chosen:
            new = _remapped(table, base, definition, segment, numbered)
            if new is not None:
                remapped.append(new)
                indices.append(_rewritten(segment, new))
        done = True
    finally:
        if not done:
            remove_segments(table, remapped)
    return Remapped(tuple(numbered), tuple(indices), segments=tuple(remapped))


def is_deferred(base: Manifest, *, requested: bool) -> bool:
    """Whether a compaction of `base` records in a fragment reuse index where rows move."""
    indexes = parse_indices(base.index_section)
    return any(index.is_fragment_reuse or (requested and not index.is_system) for index in indexes)


def _remappable(
    bases: Bases, base: Manifest, groups: Sequence[RewriteGroup]
) -> list[tuple[IndexDefinition, IndexMetadata]]:
    """The segments that hold addresses and cover all old fragments of a group."""
    result = []
    for segment in parse_indices(base.index_section):
        if segment.is_system or not any(group.old_ids <= set(segment.fragment_ids()) for group in groups):
            continue
        definition = definition_of(base.schema, [segment], bases)
        if definition is not None and _has_addresses(base, definition, segment):
            result.append((definition, segment))
    return result


def _is_lost(definition: IndexDefinition, segment: IndexMetadata, groups: Sequence[RewriteGroup]) -> bool:
    """Whether it is not known where rows of a segment went: it was built since they were sorted."""
    covered = set(segment.fragment_ids())
    unknown = [group for group in groups if group.is_sorted and group.new_places is None]
    return definition.builder.can_remap and any(group.old_ids <= covered for group in unknown)


def has_following_index(bases: Bases, base: Manifest, fragments: Sequence[DataFragment]) -> bool:
    """Whether an index has addresses of these fragments, and follows rows that get others.

    Raises:
        CorruptFileError: the metadata of an index is broken.
        StorageError: the store failed.
    """
    chosen = _remappable(bases, base, [RewriteGroup(tuple(fragments), ())])
    return any(definition.builder.can_remap for definition, _ in chosen)


def _has_addresses(base: Manifest, definition: IndexDefinition, segment: IndexMetadata) -> bool:
    """Whether the files of a segment have addresses, and so will those of a new one."""
    version = segment.message.index_version
    kind = definition.builder.kind_in(segment.message.index_details.value)
    if kind is None or version > kind.max_version or not segment.tells_coverage:
        return False
    return not (base.has_stable_row_ids and kind.holds_row_ids(version)) and not holds_row_ids(definition, base)


def _with_ids(
    table: TableLocation, base: Manifest, groups: Sequence[RewriteGroup], options: CommitOptions
) -> tuple[list[RewriteGroup], Manifest]:
    """(the groups with ids of new fragments that no other writer can get, the version that has reserved them)."""
    count = sum(len(group.new_fragments) for group in groups)
    transaction = Transaction.new(base.version, ReserveFragments(count))
    new_table = NewTable(data_format(base) or DEFAULT_FILE_VERSION)
    reserved = Commit(table.history, base, transaction, new_table, options.policy).run()
    next_id = largest_fragment_id(reserved) - count + 1
    numbered = []
    for group in groups:
        new = [replace(fragment, id=FragmentId(next_id + place)) for place, fragment in enumerate(group.new_fragments)]
        next_id += len(new)
        numbered.append(replace(group, new_fragments=tuple(new)))
    return numbered, reserved


def _remapped(
    table: TableLocation,
    base: Manifest,
    definition: IndexDefinition,
    segment: IndexMetadata,
    groups: Sequence[RewriteGroup],
) -> IndexMetadata | None:
    bases = table.bases(base)
    covered_ids = segment.fragment_ids()
    covered = {fragment.id: fragment for fragment in base.fragments if fragment.id in covered_ids}
    follows = definition.builder.can_remap
    moved = [group for group in groups if group.old_ids <= covered.keys()]
    touched = {fragment_id for group in groups for fragment_id in group.old_ids}
    new = [fragment for group in moved for fragment in group.new_fragments]
    unmoved = covered.keys() - touched
    mapping = MovedRows.of(moved if follows else [], unmoved, bases)
    read = covered.values() if follows else [covered[number] for number in unmoved]
    rows = {int(fragment.id): FragmentReader(fragment, bases).num_rows for fragment in read}
    old = OldSegment(index_files(segment, bases), mapping, rows)

    def write(output: SegmentOutput) -> None:
        batches = row_batches(base, bases, definition, [] if follows else new)
        definition.builder.remap(old, batches, output)

    try:
        return write_segment(
            table,
            base,
            definition,
            [*unmoved, *(fragment.id for fragment in new)],
            write,
            dataset_version=segment.message.dataset_version,
        )
    except StorageError:
        raise
    except LanceError as error:
        _LOGGER.warning(
            "segment %s of index %s cannot be read, it no longer covers compacted fragments: %s",
            segment.uuid,
            segment.name,
            error,
        )
        return None


def _rewritten(old: IndexMetadata, new: IndexMetadata) -> RewrittenIndex:
    message = transaction_pb2.Transaction.Rewrite.RewrittenIndex(
        new_index_details=new.message.index_details,
        new_index_version=new.message.index_version,
        new_index_files=new.message.files,
    )
    message.old_id.CopyFrom(old.message.uuid)
    message.new_id.CopyFrom(new.message.uuid)
    return RewrittenIndex.from_proto(message)


@dataclass(frozen=True, slots=True)
class _Place:
    """Map from the rows of an old fragment to their new addresses.

    Attributes:
        deleted: int64[n]: offsets of deleted rows, ascending.
        first: how many live rows of its group come before.
        new_ids: the new fragments of the group.
        starts: int64[k]: how many rows of the group come before each new fragment.
        new_places: int64[n]: the new places of the group's live rows; None if they have kept their order.
    """

    deleted: Int64Array
    first: int
    new_ids: Sequence[int]
    starts: Int64Array
    new_places: Int64Array | None = None

    def addresses(self, offsets: Int64Array) -> tuple[npt.NDArray[np.bool_], UInt64Array]:
        """(bool[n]: which rows are live, uint64[k]: the new addresses of those)."""
        before = np.searchsorted(self.deleted, offsets)
        is_deleted = np.zeros(len(offsets), np.bool_)
        if len(self.deleted):
            is_deleted = self.deleted[np.minimum(before, len(self.deleted) - 1)] == offsets
        ranks = (self.first + offsets - before)[~is_deleted]
        ranks = ranks if self.new_places is None else self.new_places[ranks]
        places = np.searchsorted(self.starts, ranks, side="right") - 1
        addresses = row_addresses(0, ranks - self.starts[places]) if len(ranks) else np.empty(0, np.uint64)
        highs = np.array(self.new_ids, np.uint64)[places] << np.uint64(32) if len(ranks) else addresses
        return ~is_deleted, addresses | highs


class MovedRows:
    """The new addresses of rows: an `IdMapping`.

    Args:
        places: by old fragment id.
        unmoved: ids of fragments whose rows keep their addresses. Rows of all other fragments are dropped.
    """

    def __init__(self, places: Mapping[int, _Place], unmoved: frozenset[int]) -> None:
        self._places = places
        self._unmoved = unmoved

    @classmethod
    def of(cls, groups: Sequence[RewriteGroup], unmoved: Sequence[int] | set[FragmentId], bases: Bases) -> MovedRows:
        """The mapping of a compaction.

        Args:
            groups: rewritten fragments, with ids of the new ones.

        Raises:
            LanceError: a deletion file cannot be read.
        """
        places: dict[int, _Place] = {}
        for group in groups:
            first = 0
            new_ids = [int(fragment.id) for fragment in group.new_fragments]
            sizes = [fragment.physical_rows or 0 for fragment in group.new_fragments]
            starts: Int64Array = np.cumsum([0, *sizes[:-1]]).astype(np.int64)
            for fragment in group.old_fragments:
                deleted, live = _deletions(fragment, bases)
                places[int(fragment.id)] = _Place(deleted, first, new_ids, starts, group.new_places)
                first += live
        return cls(places, frozenset(int(number) for number in unmoved))

    def __call__(self, ids: UInt64Array) -> tuple[npt.NDArray[np.bool_], UInt64Array]:
        fragments, offsets = split_addresses(ids)
        order = np.argsort(fragments, kind="stable")
        breaks = np.flatnonzero(np.diff(fragments[order], prepend=-1))
        keep = np.zeros(len(ids), np.bool_)
        moved = ids.copy()
        for start, stop in pairwise([*breaks.tolist(), len(ids)]):
            rows = order[start:stop]
            fragment_id = int(fragments[rows[0]])
            if fragment_id in self._unmoved:
                keep[rows] = True
            elif fragment_id in self._places:
                live, addresses = self._places[fragment_id].addresses(offsets[rows])
                keep[rows] = live
                moved[rows[live]] = addresses
        return keep, moved[keep]


def _deletions(fragment: DataFragment, bases: Bases) -> tuple[Int64Array, int]:
    """(offsets of deleted rows, number of live rows)."""
    reader = FragmentReader(fragment, bases)
    return reader.deletions.offsets, reader.num_live_rows()
