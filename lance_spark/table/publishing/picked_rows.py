"""The change of one version, in terms of another branch: which rows go there, and which fragments are added."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.table.change_feed.change_feed import VersionStep
from lance_spark.table.change_feed.version_diff import RowPairs
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.operations.base import OperationKind
from lance_spark.table.publishing.compare import num_updated, same_fragments
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.reading.system_columns import RowLineage
from lance_spark.table.row_level.rewritten_rows import NO_ORIGIN, NewFragment
from lance_spark.table.row_level.row_changes import DeletedRows, rows_by_fragment
from lance_spark.table.rows.fragment import DataFragment, FragmentId, FragmentList
from lance_spark.table.rows.row_address import UInt64Array, row_addresses
from lance_spark.table.rows.row_id_places import RowIdPlaces


@dataclass(frozen=True, slots=True)
class PickedRows:
    """Changes that a version makes to another branch.

    Attributes:
        deleted: rows of the newest version of that branch that are deleted or rewritten.
        new: fragments with new and rewritten rows.
        deleted_new: the offsets of rows of each of these that the version has not.
    """

    deleted: DeletedRows
    new: tuple[NewFragment, ...]
    deleted_new: tuple[Int64Array, ...]


class RowPicker:
    """Finds the rows of a version in the newest version of another branch.

    Args:
        table: the branch to change.
        newest: its newest version.
        before, after: the picked version and its predecessor, with files named as from `table`.
        shared_row_ids: stable row ids below this are of the same row in `newest` and `before`.
        label: the picked version in messages.
    """

    def __init__(
        self, table: TableLocation, newest: Manifest, before: Manifest, after: Manifest, shared_row_ids: int, label: str
    ) -> None:
        self._table, self._newest = table, newest
        self._before, self._after = before, after
        self._shared, self._label = shared_row_ids, label
        # The base paths of the picked version are those of the branch and more.
        self._bases = table.bases(after)

    def pick(self) -> PickedRows:
        """The rows.

        Raises:
            InvalidInputError: a row that the version deleted or updated is not there unchanged, or rows that it has
                added are there already.
            UnsupportedFeatureError: the version has changed values in place.
        """
        lost = self._lost()
        ids = self._before.fragments.ids
        new = [fragment for fragment in self._after.fragments if fragment.id not in ids]
        self._check_new(new)
        addresses = {fragment.id: self._places(fragment, offsets) for fragment, offsets in lost}
        rows = np.concatenate([np.empty(0, np.uint64), *addresses.values()])
        picked = tuple(self._new_fragment(fragment, lost, addresses) for fragment in new)
        gone = tuple(FragmentReader(fragment, self._bases).deletions.offsets for fragment in new)
        return PickedRows(rows_by_fragment(rows), picked, gone)

    def _lost(self) -> list[tuple[DataFragment, Int64Array]]:
        """The rows that the version has deleted or rewritten, by fragment of its predecessor."""
        after = {fragment.id: fragment for fragment in self._after.fragments}
        lost = []
        for fragment in self._before.fragments:
            now = after.get(fragment.id)
            if now == fragment:
                continue
            if now is not None and now.files != fragment.files:
                raise UnsupportedFeatureError(
                    f"{self._label} has changed values of columns in place, which is not picked; update the rows again",
                    feature="cherrypick of columns that were rewritten in place",
                )
            reader = FragmentReader(fragment, self._bases)
            gone = np.arange(reader.num_rows) if now is None else FragmentReader(now, self._bases).deletions.offsets
            offsets = np.setdiff1d(gone, reader.deletions.offsets, assume_unique=True)
            if len(offsets):
                lost.append((fragment, offsets))
        return lost

    def _check_new(self, new: Sequence[DataFragment]) -> None:
        names = {(file.path, file.base_id) for fragment in self._newest.fragments for file in fragment.files}
        for fragment in new:
            if any((file.path, file.base_id) in names for file in fragment.files):
                raise InvalidInputError(f"rows of {self._label} are there already, so it is not picked again")
            if fragment.lineage_fields:
                raise UnsupportedFeatureError(
                    f"new rows of {self._label} have row ids in data files; insert them again",
                    feature="cherrypick of such fragments",
                )

    def _places(self, fragment: DataFragment, offsets: Int64Array) -> UInt64Array:
        """uint64[n]: the addresses in the newest version of rows of a fragment of the predecessor.

        Raises:
            InvalidInputError: one of the rows is not there, or not as it was.
        """
        found = np.full(len(offsets), NO_ORIGIN, np.uint64)
        one = replace(self._before, fragments=FragmentList([fragment.to_proto()]))
        for _, own in same_fragments(one, self._newest):
            if own.files == fragment.files:
                live = ~np.isin(offsets, FragmentReader(own, self._bases).deletions.offsets)
                found[live] = row_addresses(own.id, offsets[live])
        missing = found == NO_ORIGIN
        if missing.any() and self._newest.has_stable_row_ids:
            found[missing] = self._moved(fragment, offsets[missing])
        if bool((found == NO_ORIGIN).any()):
            raise self._changed(int(np.count_nonzero(found == NO_ORIGIN)))
        return found

    def _moved(self, fragment: DataFragment, offsets: Int64Array) -> UInt64Array:
        """Addresses of rows by their stable row ids, `NO_ORIGIN` for rows that are not there or not as they were."""
        result = np.full(len(offsets), NO_ORIGIN, np.uint64)
        reader = FragmentReader(fragment, self._bases)
        row_ids = RowLineage(fragment, reader, stable_row_ids=True).row_ids(offsets)
        places = RowIdPlaces.of(self._newest.fragments.messages)
        if places is None:
            return result
        wanted = np.sort(row_ids[row_ids < self._shared])
        newest = replace(self._newest, base_paths=self._after.base_paths)
        step = VersionStep(self._table, self._before, newest, OperationKind.RESTORE, True)
        for own_id, bitmap in places.rows(wanted).items():
            own = self._newest.fragments.with_id(own_id)
            own_reader = FragmentReader(own, self._bases)
            live = np.setdiff1d(np.array(bitmap.to_array(), np.int64), own_reader.deletions.offsets)
            if not len(live):
                continue
            own_row_ids = RowLineage(own, own_reader, stable_row_ids=True).row_ids(live)
            _, at, at_own = np.intersect1d(row_ids, own_row_ids, return_indices=True)
            order = np.argsort(offsets[at])
            at, at_own = at[order], at_own[order]
            pairs = RowPairs(fragment, own, offsets[at], live[at_own], tuple(self._newest.schema.names()))
            if count := num_updated(step, pairs):
                raise self._changed(count)
            result[at] = row_addresses(own.id, live[at_own])
        return result

    def _changed(self, count: int) -> InvalidInputError:
        return InvalidInputError(
            f"{count} rows that {self._label} deleted or updated are not in {self._table.uri}, branch "
            f"{self._table.branch or 'main'}, as they were: they have been deleted, updated or moved there; make the "
            "change again on that branch"
        )

    def _new_fragment(
        self,
        fragment: DataFragment,
        lost: Sequence[tuple[DataFragment, Int64Array]],
        addresses: Mapping[FragmentId, UInt64Array],
    ) -> NewFragment:
        """A new fragment, with the addresses that its rewritten rows have on the branch."""
        bare = replace(
            fragment, deletion_file=None, row_ids=None, created_at_versions=None, last_updated_at_versions=None
        )
        if not self._newest.has_stable_row_ids or not lost:
            return NewFragment(bare)
        reader = FragmentReader(fragment, self._bases)
        rows = np.setdiff1d(np.arange(reader.num_rows), reader.deletions.offsets, assume_unique=True)
        row_ids = RowLineage(fragment, reader, stable_row_ids=True).row_ids(rows)
        lost_ids, at = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
        for source, offsets in lost:
            lineage = RowLineage(source, FragmentReader(source, self._bases), stable_row_ids=True)
            lost_ids.append(lineage.row_ids(offsets))
            at.append(addresses[source.id])
        _, here, there = np.intersect1d(row_ids, np.concatenate(lost_ids), return_indices=True)
        origins = np.full(reader.num_rows, NO_ORIGIN, np.uint64)
        origins[rows[here]] = np.concatenate(at)[there]
        return NewFragment(bare, origins if len(here) else None)
