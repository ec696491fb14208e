"""Maps entries of an index to the current addresses of rows, and selects those that a search may return."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyroaring

from lance_spark.cached import cached_property
from lance_spark.errors import CorruptFileError
from lance_spark.index.fragment_reuse import FragmentReuse
from lance_spark.index.vector.segment import LiveRows, VectorSegment
from lance_spark.storage.cache import cached_part
from lance_spark.table.bases import Bases
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.selection import FragmentRows
from lance_spark.table.reading.system_columns import ROW_ADDRESS
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.rows.fragment_runs import by_fragment
from lance_spark.table.rows.row_address import OFFSET_BITS, UInt64Array, row_addresses
from lance_spark.table.rows.row_ids import RowIdSequence
from lance_spark.table.vector_search.exact import innermost, values_of
from lance_spark.table.vector_search.segments import fragment_reuse_of

Int64Array = npt.NDArray[np.int64]


def live_rows(
    manifest: Manifest,
    fragment_ids: pyroaring.BitMap,
    segment: VectorSegment,
    scan: Scan,
    allowed: UInt64Array | None,
) -> LiveRows:
    """Tells which rows of a segment a search may return: rows of these fragments that are not deleted and
    are `allowed`.

    Args:
        allowed: uint64[n], ascending: the rows that a filter has left; None for all.

    Raises:
        CorruptFileError: a fragment does not say its row ids.
    """

    live = _live_rows(manifest, fragment_ids, segment, scan)
    return live if allowed is None else _AllowedRows(live, allowed)


def infinite_rows(
    manifest: Manifest, fragment_ids: pyroaring.BitMap, segment: VectorSegment, scan: Scan
) -> UInt64Array:
    """uint64[n], ascending: the addresses of the rows of these fragments whose vectors have an infinity and are not in
    the segment. What is compared for that, the row ids of the index and the vectors of the rows that it does not have,
    is read once.

    Raises:
        LanceError: a file is missing or broken.
    """
    live, opened = _live_rows(manifest, fragment_ids, segment, scan), segment.opened()
    if live.are_those_of(segment) and int(opened.storage.partitions.lengths.sum()) >= int(live.num_rows.sum()):
        return np.empty(0, np.uint64)

    def make() -> tuple[UInt64Array, int]:
        found = [np.empty(0, np.uint64)]
        plan = replace(scan, filter=None).with_addresses
        rows = by_fragment(live.without(opened.storage.row_ids()))
        for batch in plan.read([FragmentRows(manifest.fragments.with_id(number), offsets) for number, offsets in rows]):
            vectors = innermost(batch.column(0))
            values = values_of(vectors, vectors.type.list_size)
            has_infinity = np.isinf(values).any(axis=1) & vectors.is_valid().to_numpy(zero_copy_only=False)
            found.append(batch.column(ROW_ADDRESS).to_numpy()[has_infinity])
        joined = np.concatenate(found)
        return joined, joined.nbytes + len(fragment_ids)

    # The same in all versions in which the same rows are deleted.
    return cached_part(opened, ("infinite rows", fragment_ids.serialize(), live.deletions), make)


def _live_rows(manifest: Manifest, fragment_ids: pyroaring.BitMap, segment: VectorSegment, scan: Scan) -> _LiveRows:
    def make() -> tuple[_LiveRows, int]:
        found = _LiveRows.of(manifest, [*manifest.fragments.with_ids(fragment_ids)], segment, scan)
        return found, found.num_bytes

    return cached_part(manifest, ("live rows", segment.uuid, fragment_ids.serialize()), make)


@dataclass(frozen=True)
class _LiveRows:
    """Rows of some fragments.

    Attributes:
        ids: int64[f], ascending: the fragments.
        num_rows: int64[f]: physical rows of each.
        deleted: uint64[n], ascending: addresses of deleted rows.
        row_ids: where stable row ids are now; None if the index has addresses.
        reuse: moves that the index does not show.
        may_exclude: whether the segment has rows of other fragments, or some of these fragments' rows are deleted.
    """

    ids: Int64Array
    num_rows: Int64Array
    deleted: UInt64Array
    row_ids: _RowIds | None
    reuse: FragmentReuse | None
    may_exclude: bool

    @classmethod
    def of(cls, manifest: Manifest, fragments: Sequence[DataFragment], segment: VectorSegment, scan: Scan) -> _LiveRows:
        rows = {fragment.id: fragment.physical_rows or 0 for fragment in fragments}
        ids = np.array(sorted(rows), np.int64)
        deleted = _deleted(fragments, scan.bases)
        row_ids = _RowIds.of(fragments, deleted) if scan.stable_row_ids else None
        reuse = fragment_reuse_of(manifest, scan.bases)
        may_exclude = bool(len(deleted)) or row_ids is not None or reuse is not None
        may_exclude |= len(rows) != len(segment.fragment_ids)
        num_rows = np.array([rows[id_] for id_ in ids.tolist()], np.int64)
        return cls(ids, num_rows, deleted, row_ids, reuse, may_exclude)

    @cached_property
    def deletions(self) -> bytes:
        """Tells whether the same rows are deleted."""
        return hashlib.sha256(self.deleted.tobytes()).digest()

    def are_those_of(self, segment: VectorSegment) -> bool:
        """Whether the fragments are those that a segment was built for."""
        return np.array_equal(self.ids, segment.fragment_ids.to_array())

    def without(self, row_ids: Iterable[UInt64Array]) -> UInt64Array:
        """uint64[n], ascending: the addresses of the rows that are not deleted and that no row id leads to."""
        starts, lengths = self._spans
        firsts = lengths.cumsum() - lengths
        is_known = np.zeros(int(lengths.sum()), np.bool_)
        for addresses in chain([self.deleted], (where[known] for where, known in map(self, row_ids))):
            places = starts.searchsorted(addresses, side="right") - 1
            is_known[firsts[places] + addresses - starts[places]] = True
        (others,) = (~is_known).nonzero()
        places = firsts.searchsorted(others, side="right") - 1
        return starts[places] + others.astype(np.uint64) - firsts[places]

    @cached_property
    def _spans(self) -> tuple[UInt64Array, UInt64Array]:
        """The first address of each fragment, ascending, and its number of addresses, both uint64[f]."""
        return self.ids.astype(np.uint64) << np.uint64(OFFSET_BITS), self.num_rows.astype(np.uint64)

    @property
    def num_bytes(self) -> int:
        row_ids = 0 if self.row_ids is None else 2 * self.row_ids.known.nbytes
        return self.ids.nbytes + self.num_rows.nbytes + self.deleted.nbytes + row_ids

    def __call__(self, row_ids: UInt64Array, /) -> tuple[UInt64Array, npt.NDArray[np.bool_]]:
        known: npt.NDArray[np.bool_] | None
        if self.row_ids is not None:
            addresses, known = self.row_ids.located(row_ids)
        elif self.reuse is not None:
            addresses, known = self.reuse.moved_each(row_ids)
        else:
            addresses, known = row_ids, None
        if not len(self.ids):
            return addresses, np.zeros(len(row_ids), np.bool_)
        starts, lengths = self._spans
        places = starts.searchsorted(addresses, side="right") - 1
        # Of an address before the first fragment the last one is taken off: it wraps around, beyond all lengths.
        inside = addresses - starts[places] < lengths[places]
        known = inside if known is None else known & inside
        if len(self.deleted):
            known &= ~_is_in(addresses, self.deleted)
        return addresses, known


@dataclass(frozen=True)
class _AllowedRows:
    live: _LiveRows
    allowed: UInt64Array
    may_exclude: bool = True

    def __call__(self, row_ids: UInt64Array, /) -> tuple[UInt64Array, npt.NDArray[np.bool_]]:
        addresses, known = self.live(row_ids)
        return addresses, known & _is_in(addresses, self.allowed)


@dataclass(frozen=True)
class _RowIds:
    """Map from stable row ids to current addresses. An updated row has left a deleted one with the same id behind.

    Attributes:
        known: uint64[n], ascending: the ids of the rows that are not deleted.
        addresses: uint64[n].
    """

    known: UInt64Array
    addresses: UInt64Array

    @classmethod
    def of(cls, fragments: Sequence[DataFragment], deleted: UInt64Array) -> _RowIds:
        ids, addresses = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
        for fragment in fragments:
            if fragment.row_ids is None or fragment.physical_rows is None:
                raise CorruptFileError(f"fragment {fragment.id} does not say its row ids")
            offsets = np.arange(fragment.physical_rows, dtype=np.int64)
            ids.append(RowIdSequence.from_bytes(fragment.row_ids, fragment.physical_rows).at(offsets))
            addresses.append(row_addresses(fragment.id, offsets))
        known, where = np.concatenate(ids), np.concatenate(addresses)
        kept = ~_is_in(where, deleted)
        known, where = known[kept], where[kept]
        order = np.argsort(known, kind="stable")
        return cls(known[order], where[order])

    def located(self, row_ids: UInt64Array) -> tuple[UInt64Array, npt.NDArray[np.bool_]]:
        if not len(self.known):
            return np.zeros(len(row_ids), np.uint64), np.zeros(len(row_ids), np.bool_)
        places = np.minimum(np.searchsorted(self.known, row_ids), len(self.known) - 1)
        return self.addresses[places], self.known[places] == row_ids


def _is_in(values: UInt64Array, ascending: UInt64Array) -> npt.NDArray[np.bool_]:
    if not len(ascending):
        return np.zeros(len(values), np.bool_)
    places = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    found: npt.NDArray[np.bool_] = ascending[places] == values
    return found


def _deleted(fragments: Sequence[DataFragment], bases: Bases) -> UInt64Array:
    parts = [np.empty(0, np.uint64)]
    with bases.reading():
        for fragment in fragments:
            if fragment.deletion_file is not None:
                offsets = FragmentReader(fragment, bases).deletions.offsets
                parts.append(row_addresses(fragment.id, np.sort(offsets.astype(np.int64))))
    return np.sort(np.concatenate(parts))
