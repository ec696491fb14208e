"""Bounds of short runs of rows (zones), computed from a column of a file and kept: files of Lance 2 have no statistics.

Data files never change, so what was once computed stays true, whatever versions come. Zones say which rows a filter
cannot match; deleted rows are in the bounds, which only makes them wider.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from lance_spark.encodings.blocks import Int64Array
from lance_spark.expr.columns import resolve_names
from lance_spark.expr.literals import Literal
from lance_spark.expr.nodes import Column, Comparison, Expr, In, InArray
from lance_spark.expr.prune import ColumnStatistics, may_match
from lance_spark.layouts.base import RowRanges
from lance_spark.schema.arrow import to_arrow_schema, to_arrow_type
from lance_spark.schema.field import Field, LanceSchema
from lance_spark.storage.cache import cached_by_path
from lance_spark.table.bases import Bases
from lance_spark.table.reading.fragment_reader import FragmentReader
from lance_spark.table.rows.fragment import DataFragment

ZONE_ROWS = 2048

_WINDOW_ROWS = 256 * ZONE_ROWS
"""Rows that are decoded at a time."""

_MAX_RANGES = 16
"""Ranges of one fragment; more are not worth the steps between them."""

_PARTS = 16
"""The number of parts in which a fragment is looked at first."""

_FEW_PARTS = 4
_FEW_ZONES = 4
"""Of a sample of about 16."""

_SAMPLED_FRAGMENTS = 8
_SAMPLED_ZONES = 8
"""Zones of each of these fragments that show whether values are clustered."""

_INT64 = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True)
class ZoneMap:
    """Bounds of a column of a fragment: of zone i the rows [i * ZONE_ROWS, (i + 1) * ZONE_ROWS).

    Attributes:
        dtype: of the column.
        lows, highs: int64[n], the bounds of what is not null as whole numbers; of a zone of nulls the largest and the
            smallest number.
        null_counts: int64[n].
    """

    dtype: pa.DataType
    lows: Int64Array
    highs: Int64Array
    null_counts: Int64Array

    @property
    def num_bytes(self) -> int:
        """What they take in memory."""
        return self.lows.nbytes + self.highs.nbytes + self.null_counts.nbytes

    def over(self, first: int, last: int, num_rows: int) -> ColumnStatistics:
        """The statistics of the zones [first, last), which have `num_rows` rows."""
        low, high = int(self.lows[first:last].min()), int(self.highs[first:last].max())
        null_count = int(self.null_counts[first:last].sum())
        if low > high:
            return ColumnStatistics(null_count=null_count, num_rows=num_rows)
        return ColumnStatistics(self._scalar(low), self._scalar(high), null_count=null_count, num_rows=num_rows)

    def tell_rows_apart(self) -> bool:
        """Whether a value can be in few of the zones only: not where rows come in any order."""
        known = self.lows <= self.highs
        # As floats: the span of 64-bit numbers needs one bit more.
        lows, highs = self.lows[known].astype(np.float64), self.highs[known].astype(np.float64)
        if len(lows) < 2:
            return 0 < len(lows) < len(self.lows)
        span = float(highs.max() - lows.min())
        return span > 0 and float((highs - lows).sum()) <= span * max(1.0, len(lows) * _TELLING_SHARE)

    def _scalar(self, number: int) -> pa.Scalar:
        if pt.is_date32(self.dtype):
            return pa.scalar(number, pa.int32()).cast(self.dtype)
        return pa.scalar(number, self.dtype)


_TELLING_SHARE = 1 / 8
"""A value is in such a share of the zones at most, on average."""


def zoned_fields(condition: Expr, schema: LanceSchema) -> dict[tuple[str, ...], Field]:
    """The columns that zones are worth having of: whole numbers, dates and timestamps that a filter compares with
    something, by their names in the filter.

    Raises:
        NotFoundError: no such column.
    """
    known = to_arrow_schema(schema)
    names = {name.lower() for name in known.names}
    fields = {}
    for path in _compared(condition):
        if len(path) > 1 or path[0].lower() not in names:
            continue  # A member of a struct, or a system column.
        (name,) = resolve_names(known, path)
        field = schema.fields[known.get_field_index(name)]
        if _has_bounds(to_arrow_type(field)):
            fields[path] = field
    return fields


def _compared(condition: Expr) -> Iterator[tuple[str, ...]]:
    for node in condition.walk():
        if isinstance(node, (Comparison, In, InArray)):
            children = node.children()
            if isinstance(node, InArray) or any(isinstance(child, Literal) for child in children):
                yield from (child.path for child in children if isinstance(child, Column))


def _has_bounds(dtype: pa.DataType) -> bool:
    is_number = pt.is_integer(dtype) and not pt.is_uint64(dtype)
    return bool(is_number or pt.is_date32(dtype) or pt.is_timestamp(dtype))


def zone_map_of(fragment: DataFragment, field: Field, bases: Bases) -> ZoneMap | None:
    """The zones of a top-level field; None if no file or more than one has it, or if there are no rows. The first call
    for a file reads the whole column.

    Raises:
        CorruptFileError: a file contradicts the format.
    """
    files = [file for file in fragment.files if field.id in file.columns()]
    if len(files) != 1:
        return None
    store, path = bases.data_file(files[0])
    reader = FragmentReader(fragment, bases)
    if not reader.num_rows:
        return None

    def make() -> tuple[ZoneMap, int]:
        zones = _computed(reader, field)
        return zones, zones.num_bytes

    return cached_by_path(store, "zones", path, (field.id, field.logical_type), make)


def has_clustered_values(fragments: Sequence[tuple[DataFragment, Bases]], field: Field) -> bool:
    """Whether zones of a top-level field are worth computing: a sample of some fragments shows that near values are in
    the same rows, or the same fragments.

    Raises:
        CorruptFileError: a file contradicts the format.
    """
    places = np.linspace(0, len(fragments) - 1, min(len(fragments), _SAMPLED_FRAGMENTS)).astype(np.int64)
    found = [_sampled_zones(fragment, bases, field) for fragment, bases in (fragments[place] for place in places)]
    known = [zones for zones in found if zones is not None]
    if not known:
        return False
    lows, highs = np.concatenate([zones.lows for zones in known]), np.concatenate([zones.highs for zones in known])
    null_counts = np.concatenate([zones.null_counts for zones in known])
    return ZoneMap(known[0].dtype, lows, highs, null_counts).tell_rows_apart()


def _sampled_zones(fragment: DataFragment, bases: Bases, field: Field) -> ZoneMap | None:
    """Some of the zones of a fragment; None as of `zone_map_of`."""
    files = [file for file in fragment.files if field.id in file.columns()]
    if len(files) != 1:
        return None
    store, path = bases.data_file(files[0])
    reader = FragmentReader(fragment, bases)
    if not reader.num_rows:
        return None

    def make() -> tuple[ZoneMap, int]:
        size = min(ZONE_ROWS, reader.num_rows)
        count = reader.num_rows // size
        starts = np.linspace(0, count - 1, min(count, _SAMPLED_ZONES)).astype(np.int64) * size
        rows = RowRanges.of_numbers((starts[:, None] + np.arange(size)).ravel())
        zones = ZoneMap(to_arrow_type(field), *_bounds(reader.columns([field]).read(rows)[0]))
        return zones, zones.num_bytes

    return cached_by_path(store, "sampled zones", path, (field.id, field.logical_type), make)


def _computed(reader: FragmentReader, field: Field) -> ZoneMap:
    columns = reader.columns([field])
    bounds = [
        _bounds(columns.read(RowRanges.of(start, min(start + _WINDOW_ROWS, reader.num_rows)))[0])
        for start in range(0, reader.num_rows, _WINDOW_ROWS)
    ]
    lows, highs, null_counts = (np.concatenate(parts) for parts in zip(*bounds, strict=True))
    return ZoneMap(to_arrow_type(field), lows, highs, null_counts)


def _bounds(column: pa.ChunkedArray) -> tuple[Int64Array, Int64Array, Int64Array]:
    """(lows, highs, null counts) of the zones of some rows."""
    array = column.combine_chunks()
    numbers = array.view(_number_type(array.type))
    starts = np.arange(0, len(array), ZONE_ROWS)
    if not array.null_count:
        values = numbers.to_numpy()
        lows, highs = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
        return lows.astype(np.int64), highs.astype(np.int64), np.zeros(len(starts), np.int64)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    values = numbers.fill_null(0).to_numpy().astype(np.int64)
    lows = np.minimum.reduceat(np.where(valid, values, _INT64.max), starts)
    highs = np.maximum.reduceat(np.where(valid, values, _INT64.min), starts)
    return lows, highs, np.add.reduceat((~valid).astype(np.int64), starts)


def _number_type(dtype: pa.DataType) -> pa.DataType:
    if pt.is_integer(dtype):
        return dtype
    return pa.int32() if pt.is_date32(dtype) else pa.int64()


def matching_rows(
    condition: Expr, zones: Mapping[tuple[str, ...], ZoneMap], num_rows: int, *, time_zone: str = "UTC"
) -> list[tuple[int, int]]:
    """The rows of a fragment that a filter can match, as ascending ranges [start, stop), at most 16.

    Args:
        zones: of some of the filter's columns, by their names in the filter; not none.
        num_rows: rows of the fragment, deleted ones included.
    """
    num_zones = -(-num_rows // ZONE_ROWS)

    def may_have(first: int, last: int, known: Mapping[tuple[str, ...], ZoneMap]) -> bool:
        """Whether a row of the zones [first, last) can match, by what is known."""
        rows = min(last * ZONE_ROWS, num_rows) - first * ZONE_ROWS
        statistics = {path: item.over(first, last, rows) for path, item in known.items()}
        return may_match(condition, statistics, time_zone=time_zone)

    if not num_rows or not may_have(0, num_zones, zones):
        return []
    telling = {path: known for path, known in zones.items() if known.tell_rows_apart()}
    if not telling:
        return [(0, num_rows)]
    found = [part for part in _parts(0, num_zones, _PARTS) if may_have(*part, telling)]
    inside = [zone for first, last in found for zone in range(first, last)]
    sample = inside[:: max(1, len(inside) // _PARTS)]
    # To look at each zone takes longer than to read it, unless most of them can be left out.
    is_worth_it = len(found) <= _FEW_PARTS or sum(may_have(zone, zone + 1, telling) for zone in sample) <= _FEW_ZONES
    while is_worth_it and any(last - first > 1 for first, last in found):
        halves = [half for first, last in found for half in _parts(first, last, 2)]
        found = [half for half in halves if may_have(*half, telling)]
    return _joined([(first * ZONE_ROWS, min(last * ZONE_ROWS, num_rows)) for first, last in found])


def _parts(first: int, last: int, count: int) -> list[tuple[int, int]]:
    """The zones [first, last) in up to `count` parts of about the same length."""
    bounds = np.unique(np.linspace(first, last, count + 1).astype(np.int64)).tolist()
    return list(pairwise(bounds))


def _joined(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges as few: neighbours together, and the nearest ones if there are too many."""
    if not ranges:
        return []
    starts, stops = np.array(ranges, np.int64).T
    gaps = starts[1:] - stops[:-1]
    kept = np.sort(np.argsort(-gaps, kind="stable")[: _MAX_RANGES - 1])
    kept = kept[gaps[kept] > 0]
    return list(
        zip(
            starts[np.concatenate([[0], kept + 1])].tolist(),
            stops[np.concatenate([kept, [len(stops) - 1]])].tolist(),
            strict=True,
        )
    )
