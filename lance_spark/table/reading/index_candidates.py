"""Scans that read only the rows that the table's scalar indexes have found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyroaring

from lance_spark.index.answers import Answer
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading.decoding.single_rows import MOST_ROWS
from lance_spark.table.reading.opened_version import OpenedVersion
from lance_spark.table.reading.scan import Scan
from lance_spark.table.reading.selection import FragmentRows
from lance_spark.table.rows.fragment import DataFragment, FragmentList

if TYPE_CHECKING:
    from lance_spark.index.planner import Plan

_SELECTIVE_SHARE = 1 / 2
"""If more of a fragment's rows are candidates, all are read: rows in a row are cheaper than single ones."""

_SCATTERED_SHARE = 1 / 16
"""The same, if they lie in most of the blocks that are decoded anyway."""

_FEW_OF = 8
"""Up to this share of the deleted rows are looked up one by one."""

_MAX_TRUSTED = 1 << 22
"""Up to this many rows of a fragment that need no check are read alone: it spares the filter and its columns."""

_NO_ROWS = pyroaring.BitMap()

_BLOCK_ROWS = 1024
"""About this many values of a number column are decoded to read one of them."""


def is_selective(offsets: pyroaring.BitMap, num_rows: int) -> bool:
    """Whether reading some rows of a fragment of `num_rows` is cheaper than reading all."""
    if len(offsets) <= num_rows * _SCATTERED_SHARE:
        return True
    if len(offsets) > num_rows * _SELECTIVE_SHARE:
        return False
    blocks = np.unique(np.array(offsets.to_array(), np.int64) // _BLOCK_ROWS)
    return len(blocks) * _BLOCK_ROWS <= num_rows * _SELECTIVE_SHARE


def live_rows(fragment: DataFragment, version: OpenedVersion, offsets: pyroaring.BitMap) -> pyroaring.BitMap:
    """The `offsets` of a fragment whose rows are not deleted."""
    if fragment.deletion_file is None or not offsets:
        return offsets
    with version.bases.reading():
        deleted = version.reader(fragment).deletions.offsets
    if len(offsets) * _FEW_OF > len(deleted):
        return offsets - pyroaring.BitMap(deleted.astype(np.uint32))
    # A bitmap of many deleted rows takes longer to make than all the rest.
    rows = np.array(offsets.to_array(), np.int64)
    is_deleted = deleted[np.minimum(np.searchsorted(deleted, rows), len(deleted) - 1)] == rows
    return pyroaring.BitMap(rows[~is_deleted].astype(np.uint32))


class Candidates:
    """A scan's rows, narrowed by the indexes of a version. Its answers are those of the scan.

    Exact answers are taken as they are, for reading as for counting, unless they are to be checked. Then a row that a
    damaged index names is compared with the filter before it is returned: for statements that change rows.

    Args:
        scan: the scan, for any fragment of the version.
        plan: what the indexes have found; None if none was asked.
        checks_exact: whether rows of exact answers are compared with the filter.
    """

    def __init__(self, scan: Scan, plan: Plan | None = None, *, checks_exact: bool = False) -> None:
        self.scan = scan
        self._matches = Answer() if plan is None else plan.matches
        self._checks_exact = checks_exact
        # Rows of a superset satisfy the terms that are answered.
        unanswered = None if plan is None or checks_exact else plan.unanswered
        self._compared = scan if unanswered is None else scan.without_filter.filtered(unanswered)

    @classmethod
    def of(
        cls, scan: Scan, manifest: Manifest, *, use_scalar_index: bool = True, checks_exact: bool = False
    ) -> Candidates:
        """The candidates of a scan of a version.

        Args:
            use_scalar_index: False looks into no index.
            checks_exact: as for the class.
        """
        plan: Plan | None = None
        if use_scalar_index and scan.filter is not None:
            from lance_spark.table.reading.index_plan import index_plan

            plan = index_plan(scan, manifest)
        return cls(scan, plan, checks_exact=checks_exact)

    def read(self, fragments: Iterable[DataFragment]) -> Iterator[pa.RecordBatch]:
        """The rows of several fragments, as `Scan.read`."""
        are_few = bool(self._matches) and self._matches.num_rows <= MOST_ROWS
        for reader, run in groupby(map(self._selected, self._not_ruled_out(fragments)), itemgetter(0)):
            rows = (item for _, item in run)
            # A list of one item is read without a group.
            yield from reader.read(list(rows) if are_few else rows)

    def _selected(self, fragment: DataFragment) -> tuple[Scan, FragmentRows]:
        """The rows of a fragment that are read, and the scan that reads them."""
        id_, matches = fragment.id, self._matches
        if id_ not in matches.known:
            return self.scan, FragmentRows(fragment)
        offsets = live_rows(fragment, self.scan.version, matches.rows.get(id_, _NO_ROWS))
        is_trusted = not self._checks_exact and id_ not in matches.inexact
        is_few = is_trusted and len(offsets) <= _MAX_TRUSTED
        if not is_few and not is_selective(offsets, fragment.physical_rows or 0):
            return self.scan, FragmentRows(fragment)
        reader = self.scan.without_filter if is_trusted else self._compared
        return reader, FragmentRows(fragment, np.array(offsets.to_array(), np.int64))

    def _not_ruled_out(self, fragments: Iterable[DataFragment]) -> Iterable[DataFragment]:
        """The fragments that can have a row, in order."""
        if not self._matches:
            return fragments
        if isinstance(fragments, FragmentList):
            return fragments.with_ids((fragments.ids - self._matches.known) | pyroaring.BitMap(self._matches.rows))
        return (
            fragment for fragment in fragments if fragment.id in self._matches.rows or fragment.id not in self._matches
        )

    def total(self, fragments: FragmentList) -> int:
        """The rows of all `fragments` that the scan returns; no data is read where an index has the exact answer."""
        if not self._matches:
            return self.scan.total(fragments)
        return sum(map(self._count, self._not_ruled_out(fragments)))

    def _count(self, fragment: DataFragment) -> int:
        found = self._matches.get(fragment.id)
        if found is not None and found.is_exact:
            return len(live_rows(fragment, self.scan.version, found.offsets))
        return sum(batch.num_rows for batch in self.read([fragment]))
