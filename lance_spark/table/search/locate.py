"""From the row ids in index files to the rows of a version."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lance_spark.kernels.jit import address_of
from lance_spark.kernels.text.order import order_of
from lance_spark.storage.cache import cached_part
from lance_spark.table.bases import Bases
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.rows.fragment import DataFragment
from lance_spark.table.rows.fragment_runs import fragment_runs
from lance_spark.table.rows.row_address import offsets_of, row_addresses
from lance_spark.table.rows.row_ids import RowIdSequence


class RowLocator:
    """Finds rows of some fragments; rows that are deleted or elsewhere do not exist for it.

    Args:
        fragments: whose number of rows is known, and with stable row ids whose row ids are in the manifest.
    """

    def __init__(self, fragments: Sequence[DataFragment], bases: Bases, *, stable_row_ids: bool) -> None:
        self._fragments = {fragment.id: fragment for fragment in fragments}
        self._bases = bases
        self._stable_row_ids = stable_row_ids

    def __call__(self, row_ids: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
        """(uint64[n] addresses, bool[n]: which rows exist) of row ids (uint64[n])."""
        if not self._stable_row_ids:
            return row_ids, self._exist(row_ids)
        addresses, is_known = self._addresses_of(row_ids)
        return addresses, is_known & self._exist(addresses)

    def _exist(self, addresses: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        # Addresses of documents that are items of lists repeat.
        if order_of(address_of(addresses), 0, 0, len(addresses)) < 0:
            order = np.argsort(addresses)
            unordered = np.empty(len(addresses), np.bool_)
            unordered[order] = self._exist(addresses[order])
            return unordered
        exist = np.zeros(len(addresses), np.bool_)
        for id_, start, stop in fragment_runs(addresses):
            fragment = self._fragments.get(id_)
            if fragment is None:
                continue
            end = np.uint64(id_ << 32 | (fragment.physical_rows or 0))
            stop = start + int(np.searchsorted(addresses[start:stop], end))
            live = self._live_rows(fragment)
            exist[start:stop] = True if live is None else live[offsets_of(addresses[start:stop])]
        return exist

    def _live_rows(self, fragment: DataFragment) -> npt.NDArray[np.bool_] | None:
        """bool[rows]: which rows are not deleted; None if all are."""
        if fragment.deletion_file is None:
            return None

        def make() -> tuple[npt.NDArray[np.bool_], int]:
            live = np.ones(fragment.physical_rows or 0, np.bool_)
            with self._bases.reading():
                live[FragmentReader(fragment, self._bases).deletions.offsets] = False
            return live, live.nbytes

        return cached_part(self, ("live", fragment.id), make)

    def _addresses_of(self, row_ids: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
        known, addresses = cached_part(self, "row ids", self._by_row_id)
        if not len(known):
            return row_ids, np.zeros(len(row_ids), np.bool_)
        places = np.minimum(np.searchsorted(known, row_ids), len(known) - 1)
        return addresses[places], known[places] == row_ids

    def _by_row_id(self) -> tuple[tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]], int]:
        """(the row ids of live rows, ascending, the addresses of these rows), and their size."""
        ids, addresses = [np.empty(0, np.uint64)], [np.empty(0, np.uint64)]
        for fragment in self._fragments.values():
            num_rows = fragment.physical_rows or 0
            live = self._live_rows(fragment)
            rows = np.arange(num_rows) if live is None else np.flatnonzero(live)
            if fragment.row_ids is not None:
                ids.append(RowIdSequence.from_bytes(fragment.row_ids, num_rows).at(rows))
                addresses.append(row_addresses(fragment.id, rows))
        found, places = np.concatenate(ids), np.concatenate(addresses)
        order = np.argsort(found, kind="stable")
        return (found[order], places[order]), found.nbytes + places.nbytes
