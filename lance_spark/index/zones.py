"""Zones of ZONEMAP and BLOOMFILTER indexes: runs of rows of a fragment, and the set of null rows.

A zone takes the rows from `zone_start` over `zone_length` offsets of a fragment. Rows outside of every zone were
deleted when the index was built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyroaring

from lance_spark.encodings.blocks import Int64Array
from lance_spark.index.base import Coverage, Predicate, SearchResult
from lance_spark.index.files import IndexFile, require_no_nulls
from lance_spark.index.row_set import RowSet
from lance_spark.index.shapes import null_test
from lance_spark.index.spans import stored_numbers

NULL_BITMAP = "null_bitmap"
ZONE_TYPES = {"fragment_id": pa.uint64(), "zone_start": pa.uint64(), "zone_length": pa.uint64()}
"""The columns of the rows of zones."""

_MAX_OFFSET = 1 << 32


@dataclass(frozen=True, slots=True)
class ZoneRows:
    """The rows of each zone, int64[n] each."""

    fragment_ids: Int64Array
    starts: Int64Array
    lengths: Int64Array

    @classmethod
    def of(cls, file: IndexFile, columns: Sequence[pa.Array] | None = None) -> ZoneRows:
        """The zones of an index file.

        Args:
            columns: those of `ZONE_TYPES`, if they are read already.

        Raises:
            CorruptFileError: a zone has no rows, or leaves the range of row addresses.
        """
        columns = file.columns(ZONE_TYPES) if columns is None else columns
        require_no_nulls(file, columns)
        numbers = [stored_numbers(column) for column in columns]
        if any(len(column) and int(column.max()) > _MAX_OFFSET for column in numbers):
            raise file.damaged("a zone leaves the range of row addresses")
        fragment_ids, starts, lengths = (column.astype(np.int64) for column in numbers)
        if len(starts) and (int((starts + lengths).max()) > _MAX_OFFSET or int(lengths.min()) == 0):
            raise file.damaged("a zone has no rows, or leaves the range of row addresses")
        return cls(fragment_ids, starts, lengths)

    @property
    def num_bytes(self) -> int:
        """Memory of the zones, in bytes."""
        return self.fragment_ids.nbytes + self.starts.nbytes + self.lengths.nbytes

    def check(self, file: IndexFile, coverage: Coverage) -> None:
        """Nothing, if the zones have room for the rows of the fragments and do not leave them.

        Raises:
            CorruptFileError: they have not, or do.
        """
        order = np.lexsort((self.starts, self.fragment_ids))
        ids, starts, ends = self.fragment_ids[order], self.starts[order], (self.starts + self.lengths)[order]
        if bool(np.any((ids[1:] == ids[:-1]) & (starts[1:] < ends[:-1]))):
            raise file.damaged("two zones share rows")
        covered = np.fromiter(coverage.fragment_rows, np.int64)
        num_rows = np.fromiter(coverage.fragment_rows.values(), np.int64)
        num_live = np.fromiter((coverage.live_rows[id_] for id_ in coverage.fragment_rows), np.int64)
        firsts, lasts = np.searchsorted(ids, covered, "left"), np.searchsorted(ids, covered, "right")
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(ends - starts)])
        num_zoned = sums[lasts] - sums[firsts]
        # Zones do not overlap, so the last one of a fragment ends last.
        last_ends = np.concatenate([ends, np.zeros(1, np.int64)])[np.where(firsts < lasts, lasts - 1, len(ends))]
        wrong = np.flatnonzero((num_zoned < num_live) | (last_ends > num_rows))
        if len(wrong):
            id_, zoned, physical = covered[wrong[0]], num_zoned[wrong[0]], num_rows[wrong[0]]
            raise file.damaged(f"the zones of fragment {id_} have {zoned} rows, the fragment has {physical}")

    def rows(self, kept: npt.NDArray[np.bool_], fragments: Mapping[int, int]) -> RowSet:
        """The rows of the zones that are marked in `kept` (bool[n]), of some fragments only."""
        parts: dict[int, pyroaring.BitMap] = {}
        (places,) = kept.nonzero()
        ends = self.starts + self.lengths
        for id_, start, end in zip(
            self.fragment_ids[places].tolist(), self.starts[places].tolist(), ends[places].tolist(), strict=True
        ):
            if id_ in fragments:
                parts.setdefault(id_, pyroaring.BitMap()).add_range(start, end)
        return RowSet(parts)


def search_nulls(file: IndexFile, predicate: Predicate, coverage: Coverage) -> SearchResult | None:
    """The exact answer to IS NULL and IS NOT NULL from the set of null rows; None for other conditions, and for files
    of old releases, which have no such set.

    Raises:
        CorruptFileError: it is no row set.
    """
    is_null = null_test(predicate.expr)
    data = None if is_null is None else file.buffer_named_by(NULL_BITMAP)
    if data is None:
        return None
    return SearchResult(RowSet.of_address_map(data, coverage.fragment_rows), is_complement=is_null is False)
