"""From the row ids in index files to the rows of a version."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from lance_spark.table.bases import Bases
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.rows.row_ids import RowIdSequence

_HIGH = np.uint64(32)
_LOW = np.uint64((1 << 32) - 1)


class RowLocator:
    """Finds rows of some fragments; rows that are deleted or elsewhere do not exist for it.

    Args:
        fragments: whose number of rows is known, and with stable row ids whose row ids are in the manifest.
    """

    def __init__(self, fragments: Sequence[DataFragment], bases: Bases, *, stable_row_ids: bool) -> None:
        self._fragments = {fragment.id: fragment for fragment in fragments}
        self._bases = bases
        self._stable_row_ids = stable_row_ids
        self._live: dict[int, npt.NDArray[np.bool_] | None] = {}

    def __call__(self, row_ids: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
        """(uint64[n] addresses, bool[n]: which rows exist) of row ids (uint64[n])."""
        if self._stable_row_ids:
            addresses, exists = self._addresses_of(row_ids)
        else:
            addresses, exists = row_ids, np.ones(len(row_ids), np.bool_)
        owners = (addresses >> _HIGH).astype(np.int64)
        offsets = (addresses & _LOW).astype(np.int64)
        for id_ in np.unique(owners).tolist():
            fragment = self._fragments.get(id_)
            inside = owners == id_
            if fragment is None:
                exists &= ~inside
                continue
            num_rows = fragment.physical_rows or 0
            exists &= ~(inside & (offsets >= num_rows))
            live = self._live_rows(fragment)
            if live is not None and num_rows:
                exists &= ~inside | live[np.minimum(offsets, num_rows - 1)]
        return addresses, exists

    def _live_rows(self, fragment: DataFragment) -> npt.NDArray[np.bool_] | None:
        """bool[rows]: which rows are not deleted; None if all are."""
        if fragment.deletion_file is None:
            return None
        if fragment.id not in self._live:
            live = np.ones(fragment.physical_rows or 0, np.bool_)
            with self._bases.reading():
                live[FragmentReader(fragment, self._bases).deletions.offsets] = False
            self._live[fragment.id] = live
        return self._live[fragment.id]

    def _addresses_of(self, row_ids: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
        known, addresses = self._by_row_id
        if not len(known):
            return row_ids, np.zeros(len(row_ids), np.bool_)
        places = np.minimum(np.searchsorted(known, row_ids), len(known) - 1)
        return addresses[places], known[places] == row_ids

    @cached_property
    def _by_row_id(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """The row ids of live rows, ascending, and the addresses of these rows."""
        ids, addresses = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
        for fragment in self._fragments.values():
            num_rows = fragment.physical_rows or 0
            live = self._live_rows(fragment)
            rows = np.arange(num_rows) if live is None else np.flatnonzero(live)
            if fragment.row_ids is not None:
                ids.append(RowIdSequence.from_bytes(fragment.row_ids, num_rows).at(rows))
                addresses.append(rows.astype(np.uint64) | np.uint64(fragment.id) << _HIGH)
        found, places = np.concatenate(ids), np.concatenate(addresses)
        order = np.argsort(found, kind="stable")
        return found[order], places[order]
