"""ZONEMAP: bounds, and counts of nulls and NaN, of each zone.

``zonemap.lance`` has the columns `min`, `max`, `null_count`, `nan_count` and those of the zones' rows. Bounds leave
nulls and NaN out, but `max` is NaN in a zone with any NaN. Zones that cannot match are ruled out; the rows of the
others are a superset of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.cached import cached_property
from lance_spark.encodings.blocks import Int64Array
from lance_spark.expr.prune import ColumnStatistics
from lance_spark.index.base import Coverage, Fit, Predicate, ScalarIndex, SearchResult
from lance_spark.index.bounds import Bounds, matching_bounds
from lance_spark.index.files import IndexFile, IndexFiles, require_no_nulls
from lance_spark.index.shapes import is_range_condition
from lance_spark.index.spans import stored_numbers
from lance_spark.index.zones import ZONE_TYPES, ZoneRows, search_nulls

ZONE_FILE = "zonemap.lance"


@dataclass(frozen=True)
class _ZoneMap:
    rows: ZoneRows
    lows: pa.Array
    highs: pa.Array
    null_counts: Int64Array
    nan_counts: Int64Array

    @property
    def num_bytes(self) -> int:
        return int(self.rows.num_bytes + 2 * (self.lows.nbytes + self.highs.nbytes + self.null_counts.nbytes))

    @cached_property
    def bounds(self) -> Bounds:
        """Bounds of each zone."""
        return Bounds(self.lows, self.highs, self.null_counts < self.rows.lengths)

    def statistics(self, zone: int) -> ColumnStatistics:
        """Statistics of the values of a zone. Deleted rows between its own count towards its length."""
        low, high = self.lows[zone], self.highs[zone]
        nulls = int(self.null_counts[zone])
        return ColumnStatistics(
            min=low if low.is_valid else None,
            max=high if high.is_valid else None,
            null_count=nulls,
            nan_count=int(self.nan_counts[zone]),
            num_rows=max(int(self.rows.lengths[zone]), nulls),
        )


class ZoneMapIndex(ScalarIndex):
    """A segment of a ZONEMAP index."""

    type_name = "ZONEMAP"
    type_url = "/lance.table.ZoneMapIndexDetails"
    max_version = 0

    @classmethod
    def fit(cls, predicate: Predicate) -> Fit:
        return Fit.SUPERSET if is_range_condition(predicate.expr) else Fit.NONE

    def __init__(self, files: IndexFiles, coverage: Coverage) -> None:
        super().__init__(files, coverage)
        self._checked: tuple[ZoneRows, npt.NDArray[np.bool_]] | None = None

    def search(self, predicate: Predicate) -> SearchResult | None:
        file = self._files.open(ZONE_FILE)
        zones = self._zones(file, predicate.dtype)
        wanted = self._covered(file, zones.rows)
        exact = search_nulls(file, predicate, self._coverage)
        if exact is not None:
            return exact
        compared = matching_bounds(predicate, zones.bounds)
        if compared is None:
            places = np.flatnonzero(wanted).tolist()
            compared = np.zeros(len(wanted), np.bool_)
            compared[places] = [predicate.may_match(zones.statistics(zone)) for zone in places]
        return SearchResult(zones.rows.rows(wanted & compared, self._coverage.fragment_rows), is_exact=False)

    def _covered(self, file: IndexFile, rows: ZoneRows) -> npt.NDArray[np.bool_]:
        """bool[n]: which zones are of covered fragments. The zones of a file are checked once."""
        if self._checked is None or self._checked[0] is not rows:
            rows.check(file, self._coverage)
            covered = self._coverage.fragment_rows
            self._checked = (rows, np.array([id_ in covered for id_ in rows.fragment_ids.tolist()], np.bool_))
        return self._checked[1]

    def _zones(self, file: IndexFile, dtype: pa.DataType) -> _ZoneMap:
        return file.kept("zones", lambda: _load(file, dtype))

    def bounds(self, dtype: pa.DataType) -> tuple[pa.Scalar, pa.Scalar] | None:
        zones = self._zones(self._files.open(ZONE_FILE), dtype)
        return pc.min(zones.lows), pc.max(zones.highs)


def _load(file: IndexFile, dtype: pa.DataType) -> tuple[_ZoneMap, int]:
    types = {"min": dtype, "max": dtype, "null_count": pa.uint32(), "nan_count": pa.uint32(), **ZONE_TYPES}
    lows, highs, null_counts, nan_counts, *rows = file.columns(types)
    require_no_nulls(file, [null_counts, nan_counts])
    counts = [stored_numbers(column).astype(np.int64) for column in (null_counts, nan_counts)]
    zones = _ZoneMap(ZoneRows.of(file, rows), lows, highs, *counts)
    if bool(np.any(zones.null_counts + zones.nan_counts > zones.rows.lengths)):
        raise file.damaged("a zone has more nulls and NaN than rows")
    return zones, zones.num_bytes
