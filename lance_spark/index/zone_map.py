"""ZONEMAP: bounds, and counts of nulls and NaN, of each zone.

``zonemap.lance`` has the columns `min`, `max`, `null_count`, `nan_count` and those of the zones' rows. Bounds leave
nulls and NaN out, but `max` is NaN in a zone with any NaN. Zones that cannot match are ruled out; the rows of the
others are a superset of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.expr.literals import Literal
from lance_spark.expr.nodes import And, Column, Comparison, ComparisonOp, Expr, Or
from lance_spark.expr.prune import ColumnStatistics
from lance_spark.expr.values import family_of, plain
from lance_spark.index.base import Fit, Predicate, ScalarIndex, SearchResult
from lance_spark.index.files import IndexFile, require_no_nulls
from lance_spark.index.shapes import is_range_condition
from lance_spark.index.zones import ZoneRows, search_nulls

ZONE_FILE = "zonemap.lance"


@dataclass(frozen=True, slots=True)
class _ZoneMap:
    rows: ZoneRows
    lows: pa.Array
    highs: pa.Array
    null_counts: Int64Array
    nan_counts: Int64Array

    @property
    def num_bytes(self) -> int:
        return int(self.rows.num_bytes + self.lows.nbytes + self.highs.nbytes + 2 * self.null_counts.nbytes)

    def statistics(self, zone: int) -> ColumnStatistics:
        """What is known of the values of a zone. Deleted rows between its own are in its length."""
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

    def search(self, predicate: Predicate) -> SearchResult | None:
        file = self._files.open(ZONE_FILE)
        zones = self._files.kept(ZONE_FILE, "zones", lambda: _load(file, predicate.dtype))
        zones.rows.check(file, self._coverage)
        exact = search_nulls(file, predicate, self._coverage)
        if exact is not None:
            return exact
        wanted = np.isin(zones.rows.fragment_ids, list(self._coverage.fragment_rows))
        kept = np.array(
            [bool(wanted[zone]) and predicate.may_match(zones.statistics(zone)) for zone in range(len(wanted))],
            np.bool_,
        )
        return SearchResult(zones.rows.rows(kept, self._coverage.fragment_rows), is_exact=False)


def _load(file: IndexFile, dtype: pa.DataType) -> tuple[_ZoneMap, int]:
    lows, highs, null_counts, nan_counts = file.columns(
        {"min": dtype, "max": dtype, "null_count": pa.uint32(), "nan_count": pa.uint32()}
    )
    require_no_nulls(file, [null_counts, nan_counts])
    counts = (null_counts.to_numpy().astype(np.int64), nan_counts.to_numpy().astype(np.int64))
    zones = _ZoneMap(ZoneRows.of(file), lows, highs, *counts)
    if bool(np.any(zones.null_counts + zones.nan_counts > zones.rows.lengths)):
        raise file.damaged("a zone has more nulls and NaN than rows")
    return zones, zones.num_bytes


def _compared(expr: Expr, zones: _ZoneMap, predicate: Predicate) -> npt.NDArray[np.bool_] | None:
    """bool[n]: which zones a comparison of the column with constants does not rule out, all zones at once; None for
    other conditions, which are asked zone by zone.
    """
    if isinstance(expr, (And, Or)):
        terms = [_compared(term, zones, predicate) for term in expr.terms]
        known = [term for term in terms if term is not None]
        if len(known) < len(terms):
            return None
        joined: npt.NDArray[np.bool_] = (np.logical_and if isinstance(expr, And) else np.logical_or).reduce(known)
        return joined
    if not isinstance(expr, Comparison) or expr.op not in _BOUND_OPS:
        return None
    column, constant, op = expr.left, expr.right, expr.op
    if isinstance(constant, Column):
        column, constant, op = constant, column, op.mirrored
    # Values of two families can be ordered otherwise than their bounds: local times are, where clocks change.
    if not isinstance(column, Column) or not isinstance(constant, Literal) or not _is_one_family(constant, predicate):
        return None
    low_op, high_op = _BOUND_OPS[op]
    kept = zones.null_counts < zones.rows.lengths
    for bounds, bound_op in ((zones.lows, low_op), (zones.highs, high_op)):
        if bound_op is not None:
            test = replace(predicate, expr=Comparison(bound_op, column, constant))
            kept &= test.keeps(bounds) | bounds.is_null().to_numpy(zero_copy_only=False)
    return kept


def _is_one_family(constant: Literal, predicate: Predicate) -> bool:
    return family_of(constant.type) is family_of(plain(pa.array([], predicate.dtype)).type)


_BOUND_OPS: dict[ComparisonOp, tuple[ComparisonOp | None, ComparisonOp | None]] = {
    ComparisonOp.EQ: (ComparisonOp.LE, ComparisonOp.GE),
    ComparisonOp.LT: (ComparisonOp.LT, None),
    ComparisonOp.LE: (ComparisonOp.LE, None),
    ComparisonOp.GT: (None, ComparisonOp.GT),
    ComparisonOp.GE: (None, ComparisonOp.GE),
}
"""What the lower and the upper bound of some values must satisfy for one of them to satisfy a comparison. NaN, as an
upper bound, is greater than every number, as the NaN is that it stands for.
"""
