"""The fragment reuse index: where compactions have moved rows whose addresses are still in index files.

A compaction with a deferred index remap leaves index files as they are and records each group of old fragments, the
rows of them that it kept, and the new fragments. The kept rows, in the order of the old fragments as they are listed,
fill the new fragments one after the other. Compactions form a chain: the new fragments of one can be the old ones of a
later one. Fragment ids are never reused, so an address by itself says which of these moves it has yet to make.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyroaring
from google.protobuf.message import DecodeError

from lance_spark._proto import table_pb2
from lance_spark.cached import cached_property
from lance_spark.errors import CorruptFileError
from lance_spark.index.row_set import RowSet, union_all

_MAX_ROWS = 1 << 48
_OFFSET_BITS = 32

_UInt64Array = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class _Group:
    """Fragments that a compaction has rewritten together.

    Attributes:
        old, new: (fragment id, physical rows) in the order of the rows.
        kept: the addresses of the rows that it has moved.
    """

    old: tuple[tuple[int, int], ...]
    new: tuple[tuple[int, int], ...]
    kept: RowSet

    @classmethod
    def of(cls, message: table_pb2.FragmentReuseIndexDetails.Group) -> _Group:
        old = tuple((item.id, item.physical_rows) for item in message.old_fragments)
        new = tuple((item.id, item.physical_rows) for item in message.new_fragments)
        kept = RowSet.of_treemap(message.changed_row_addrs, _MAX_ROWS)
        rows = dict(old)
        if len(kept) != sum(num_rows for _, num_rows in new) or not set(kept.highs) <= rows.keys():
            raise CorruptFileError("a compaction of the fragment reuse index does not have the rows of its fragments")
        if any(kept.part(id_).max() >= rows[id_] for id_ in kept.highs):
            raise CorruptFileError("the fragment reuse index has a row beyond the end of its fragment")
        return cls(old, new, kept)

    def moved(self, rows: RowSet) -> RowSet:
        """`rows` with those of the old fragments at their new addresses; rows that were deleted are left out."""
        if not any(rows.part(id_) for id_, _ in self.old):
            return rows
        ranks: list[npt.NDArray[np.int64]] = []
        first = 0
        for id_, _ in self.old:
            kept = self.kept.part(id_)
            found = np.array((rows.part(id_) & kept).to_array(), np.int64)
            if len(found):
                ranks.append(first + np.searchsorted(np.array(kept.to_array(), np.int64), found))
            first += len(kept)
        others = RowSet({id_: rows.part(id_) for id_ in set(rows.highs) - {id_ for id_, _ in self.old}})
        return union_all((others, self._at(np.concatenate(ranks)))) if ranks else others

    def moved_each(self, addresses: _UInt64Array) -> tuple[_UInt64Array, npt.NDArray[np.bool_]]:
        """(where each row is now, uint64[n]; whether it is still there, bool[n])."""
        old, new = self._moves
        owners = (addresses >> np.uint64(_OFFSET_BITS)).astype(np.int64)
        is_old = np.isin(owners, np.array([id_ for id_, _ in self.old], np.int64))
        places = np.minimum(np.searchsorted(old, addresses), max(len(old) - 1, 0))
        is_kept = (old[places] == addresses) & is_old if len(old) else np.zeros(len(addresses), np.bool_)
        moved = np.where(is_kept, new[places] if len(new) else addresses, addresses)
        return moved, is_kept | ~is_old

    @cached_property
    def _moves(self) -> tuple[_UInt64Array, _UInt64Array]:
        """(the old addresses of the moved rows, ascending; the new one of each)."""
        old = [np.empty(0, np.uint64)]
        for id_, _ in self.old:
            old.append(np.array(self.kept.part(id_).to_array(), np.uint64) | np.uint64(id_ << _OFFSET_BITS))
        new = [np.empty(0, np.uint64)]
        for id_, num_rows in self.new:
            new.append(np.arange(num_rows, dtype=np.uint64) | np.uint64(id_ << _OFFSET_BITS))
        before, after = np.concatenate(old), np.concatenate(new)
        order = np.argsort(before, kind="stable")
        return before[order], after[order]

    def _at(self, ranks: npt.NDArray[np.int64]) -> RowSet:
        """The addresses of the moved rows with these numbers, int64[n] ascending."""
        ends = list(accumulate(num_rows for _, num_rows in self.new))
        parts: dict[int, pyroaring.BitMap] = {}
        for (id_, num_rows), end in zip(self.new, ends, strict=True):
            first, last = np.searchsorted(ranks, [end - num_rows, end])
            parts[id_] = pyroaring.BitMap((ranks[first:last] - (end - num_rows)).astype(np.uint32))
        return RowSet(parts)


@dataclass(frozen=True, slots=True)
class _Compaction:
    dataset_version: int
    groups: tuple[_Group, ...]


class FragmentReuse:
    """The moves that a fragment reuse index records, oldest first."""

    def __init__(self, compactions: Sequence[_Compaction]) -> None:
        self._compactions = tuple(compactions)

    @classmethod
    def of_content(cls, data: bytes) -> FragmentReuse:
        """The moves in a serialized `InlineContent`.

        Raises:
            CorruptFileError: the file is damaged, or its fragments and rows do not add up.
        """
        try:
            content = table_pb2.FragmentReuseIndexDetails.InlineContent.FromString(data)
        except DecodeError as error:
            raise CorruptFileError(f"not a fragment reuse index: {error}") from error
        return cls(
            [
                _Compaction(version.dataset_version, tuple(map(_Group.of, version.groups)))
                for version in content.versions
            ]
        )

    def moved(self, rows: RowSet) -> RowSet:
        """The current addresses of rows; those that a compaction has dropped as deleted are left out."""
        for group in self._groups:
            rows = group.moved(rows)
        return rows

    def moved_ids(self, ids: _UInt64Array) -> tuple[npt.NDArray[np.bool_], _UInt64Array]:
        """(bool[n]: which addresses are of rows that no compaction has dropped, uint64[k]: the current addresses of
        those, in the same order).
        """
        addresses, is_kept = self.moved_each(ids)
        return is_kept, addresses[is_kept]

    def moved_each(self, addresses: _UInt64Array) -> tuple[_UInt64Array, npt.NDArray[np.bool_]]:
        """(the current address of each row, uint64[n]; whether it is still there, bool[n])."""
        is_kept = np.ones(len(addresses), np.bool_)
        for group in self._groups:
            addresses, still_there = group.moved_each(addresses)
            is_kept &= still_there
        return addresses, is_kept

    def current(self, fragment_ids: Iterable[int]) -> pyroaring.BitMap:
        """The fragments that hold nothing but rows of `fragment_ids` now. New fragments of a group of which only some
        old ones are among them are left out.
        """
        found = set(fragment_ids)
        for group in self._groups:
            old = {id_ for id_, _ in group.old}
            if old <= found:
                found |= {id_ for id_, _ in group.new}
            found -= old
        return pyroaring.BitMap(found)

    def sources(self, fragment_ids: Iterable[int]) -> dict[int, int]:
        """The fragments whose rows have moved into `fragment_ids`, in one or more steps: physical rows by id."""
        found: dict[int, int] = {}
        wanted = set(fragment_ids)
        for group in reversed(self._groups):
            if wanted & {id_ for id_, _ in group.new}:
                found |= dict(group.old)
                wanted |= {id_ for id_, _ in group.old}
        return found

    def unexplained(self, fragment_ids: Iterable[int], dataset_version: int) -> set[int]:
        """The `fragment_ids` that a segment built at `dataset_version` cannot have had when it was built, and that
        no recorded move explains: they were added to it, or rewritten, after a deferred compaction.
        """
        later = [item for item in self._compactions if item.dataset_version >= dataset_version]
        groups = [group for item in later for group in item.groups]
        first_new = min((id_ for group in groups for id_, _ in group.new), default=None)
        if first_new is None:
            return set()
        known: set[int] = set()
        for group in groups:
            if all(id_ < first_new or id_ in known for id_, _ in group.old):
                known |= {id_ for id_, _ in group.new}
        return {id_ for id_ in fragment_ids if id_ >= first_new and id_ not in known}

    def num_settled(self, segments: Collection[tuple[int, Iterable[int]]]) -> int:
        """Number of the oldest compactions that no segment needs any more.

        A segment needs a compaction if its bitmap names an old fragment of it, or a fragment that is as new as the new
        ones of the compaction although the values are from an earlier version.

        Args:
            segments: (the version that its values were read from, the fragments of its bitmap) of each.
        """
        sets = [(dataset_version, set(fragment_ids)) for dataset_version, fragment_ids in segments]
        never = 1 << 64
        for place, item in enumerate(self._compactions):
            old = {id_ for group in item.groups for id_, _ in group.old}
            first_new = min((id_ for group in item.groups for id_, _ in group.new), default=never)
            if any(
                ids & old or (version <= item.dataset_version and max(ids, default=-1) >= first_new)
                for version, ids in sets
            ):
                return place
        return len(self._compactions)

    def needed_by(self, dataset_version: int, fragment_ids: Iterable[int]) -> bool:
        """Whether a segment needs any of the compactions; arguments as in `num_settled`."""
        return self.num_settled([(dataset_version, fragment_ids)]) < len(self._compactions)

    @property
    def _groups(self) -> list[_Group]:
        return [group for item in self._compactions for group in item.groups]
