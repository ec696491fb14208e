"""Zones: runs of rows of a fragment, which ZONEMAP and BLOOMFILTER summarize."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.encodings.blocks import Int64Array
from lance_spark.index.builders.base import IndexedRows, OldSegment, UInt64Array
from lance_spark.index.builders.output import SegmentOutput
from lance_spark.index.row_set import RowSet, address_maps
from lance_spark.index.zones import NULL_BITMAP, ZoneRows

ROWS_PER_ZONE = 8192


@dataclass(frozen=True, slots=True)
class Zones:
    """Zones over rows in the order of their addresses, int64[n] each.

    Attributes:
        starts, stops: the places of their rows among those that are indexed.
        fragment_ids: the fragments.
        offsets: the offset of the first row in its fragment.
        lengths: how many offsets there are from the first row to the last one.
    """

    starts: Int64Array
    stops: Int64Array
    fragment_ids: Int64Array
    offsets: Int64Array
    lengths: Int64Array

    def appended_to(self, table: pa.Table, *, first: bool = False) -> pa.Table:
        """A table of one row for each zone with the columns that say where the zones are, `first` or last."""
        names = ("fragment_id", "zone_start", "zone_length")
        columns = [pa.array(values.astype(np.uint64)) for values in (self.fragment_ids, self.offsets, self.lengths)]
        fields = [pa.field(name, pa.uint64(), nullable=False) for name in names]
        own = [(field, column) for field, column in zip(table.schema, table.columns, strict=True)]
        added = list(zip(fields, columns, strict=True))
        both = [*added, *own] if first else [*own, *added]
        return pa.table([column for _, column in both], schema=pa.schema([field for field, _ in both]))


def zones_of(addresses: UInt64Array, rows_per_zone: int) -> Zones:
    """Zones of `rows_per_zone` rows each; the last one of a fragment may have fewer.

    >>> zones = zones_of(np.array([0, 2, 5, 6, (1 << 32) + 1], np.uint64), 3)
    >>> zones.fragment_ids.tolist(), zones.offsets.tolist(), zones.lengths.tolist()
    ([0, 0, 1], [0, 6, 1], [6, 1, 1])
    """
    fragments = (addresses >> np.uint64(32)).astype(np.int64)
    offsets = (addresses & np.uint64((1 << 32) - 1)).astype(np.int64)
    first = np.flatnonzero(np.diff(fragments, prepend=-1))
    starts = np.empty(0, np.int64)
    stops = starts
    for start, end in pairwise([*first.tolist(), len(addresses)]):
        span = np.arange(start, end, rows_per_zone, dtype=np.int64)
        starts = np.concatenate([starts, span])
        stops = np.concatenate([stops, np.minimum(span + rows_per_zone, end)])
    lengths = offsets[stops - 1] - offsets[starts] + 1 if len(starts) else starts
    return Zones(starts, stops, fragments[starts], offsets[starts], lengths)


def write_zones(
    name: str, table: pa.Table, rows: IndexedRows, output: SegmentOutput, metadata: Mapping[str, str]
) -> None:
    """Writes a file of zones over new rows."""
    _write(name, table, _null_addresses(rows), output, metadata)


def merge_zones(
    name: str,
    old: Sequence[OldSegment],
    table: pa.Table,
    rows: IndexedRows,
    output: SegmentOutput,
    metadata: Mapping[str, str],
) -> None:
    """Writes a file of the zones of old segments in fragments that they answer for, and of new ones in `table`.

    Raises:
        LanceError: a file of an old segment is missing or broken.
    """
    tables, nulls = [table], [_null_addresses(rows)]
    for segment in old:
        file = segment.files.open(name)
        data = file.buffer_named_by(NULL_BITMAP)
        if data is None:
            raise file.damaged("the segment does not know which rows are null")
        ZoneRows.of(file)  # Checks them.
        columns = file.columns({field.name: field.type for field in table.schema})
        found = pa.table(columns, schema=table.schema)
        wanted = pa.array(sorted(segment.fragment_rows), pa.uint64())
        tables.append(found.filter(pc.is_in(found["fragment_id"], wanted)))
        _, kept = segment.mapping(RowSet.of_address_map(data, segment.fragment_rows).numbers())
        nulls.append(kept)
    joined = pa.concat_tables(tables).combine_chunks()
    order = np.lexsort((joined["zone_start"].to_numpy(), joined["fragment_id"].to_numpy()))
    _write(name, joined.take(pa.array(order)), np.unique(np.concatenate(nulls)), output, metadata)


def _write(name: str, table: pa.Table, nulls: UInt64Array, output: SegmentOutput, metadata: Mapping[str, str]) -> None:
    output.write(name, table, metadata, {NULL_BITMAP: address_maps(nulls, [0, len(nulls)])[0]})


def _null_addresses(rows: IndexedRows) -> UInt64Array:
    nulls: UInt64Array = rows.addresses[rows.values.is_null().to_numpy(zero_copy_only=False)]
    return nulls
