"""Zones: runs of rows of a fragment, which ZONEMAP and BLOOMFILTER summarize."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_spark.encodings.blocks import Int64Array
from lance_spark.index.builders.base import IndexBuilder, IndexedRows, OldSegment, UInt64Array
from lance_spark.index.builders.output import SegmentOutput
from lance_spark.index.row_set import RowSet, address_maps
from lance_spark.index.zones import NULL_BITMAP, ZoneRows

ROWS_PER_ZONE = 8192
_HIGH_BITS = np.uint64(32)
_LOW_MASK = np.uint64((1 << 32) - 1)
_CHUNK_ROWS = 1 << 17
"""Small fragments are summarized together, up to this many rows."""


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
    starts, stops = _spans(addresses, rows_per_zone)
    first, last = addresses[starts], addresses[stops - 1]
    offsets = (first & _LOW_MASK).astype(np.int64)
    lengths = (last - first).astype(np.int64) + 1
    return Zones(starts, stops, (first >> _HIGH_BITS).astype(np.int64), offsets, lengths)


def _spans(addresses: UInt64Array, rows_per_zone: int) -> tuple[Int64Array, Int64Array]:
    """(starts, stops) of zones, int64[n] each."""
    num_rows = len(addresses)
    if not num_rows or addresses[0] >> _HIGH_BITS == addresses[-1] >> _HIGH_BITS:
        starts: Int64Array = np.arange(0, num_rows, rows_per_zone, dtype=np.int64)
        return starts, np.minimum(starts + rows_per_zone, num_rows)
    highs = addresses >> _HIGH_BITS
    firsts = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(highs[1:] != highs[:-1]) + 1])
    ends = np.append(firsts[1:], num_rows)
    counts = -((firsts - ends) // rows_per_zone)
    number = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = np.repeat(firsts, counts) + number * rows_per_zone
    return starts, np.minimum(starts + rows_per_zone, np.repeat(ends, counts))


def nulls_before(values: pa.Array, places: Int64Array) -> Int64Array:
    """int64[n]: how many of the values before each place are null."""
    if not values.null_count:
        return np.zeros(len(places), np.int64)
    counts = np.concatenate([np.zeros(1, np.int64), np.cumsum(values.is_null().to_numpy(zero_copy_only=False))])
    found: npt.NDArray[np.int64] = counts[places]
    return found


class ZoneBuilder(IndexBuilder):
    """Builds segments of one file, which has a row for each zone. Subclasses say what is in it.

    Values are needed fragment by fragment only, so a build has no more of them in memory.
    """

    can_remap = False
    file_name: ClassVar[str]

    @property
    @abstractmethod
    def rows_per_zone(self) -> int:
        """The number of rows of a zone."""

    @property
    @abstractmethod
    def file_metadata(self) -> dict[str, str]:
        """Entries of the metadata of the file's schema."""

    @abstractmethod
    def summarized(self, values: pa.Array, zones: Zones) -> pa.Table:
        """A row for each zone over `values`."""

    def train(self, rows: IndexedRows, output: SegmentOutput) -> None:
        self.train_batches(iter([rows]), output)

    def train_batches(self, batches: Iterator[IndexedRows], output: SegmentOutput) -> None:
        self._write(*self._new_zones(batches), output)

    def merge(self, old: Sequence[OldSegment], rows: IndexedRows, output: SegmentOutput) -> None:
        self.merge_batches(old, iter([rows]), output)

    def merge_batches(self, old: Sequence[OldSegment], batches: Iterator[IndexedRows], output: SegmentOutput) -> None:
        table, nulls = self._new_zones(batches)
        tables, all_nulls = [table], [nulls]
        for segment in old:
            if not segment.fragment_rows:
                continue
            file = segment.files.open(self.file_name)
            data = file.buffer_named_by(NULL_BITMAP)
            if data is None:
                raise file.damaged("the segment does not know which rows are null")
            ZoneRows.of(file)  # Checks them.
            columns = file.columns({field.name: field.type for field in table.schema})
            found = pa.table(columns, schema=table.schema)
            wanted = pa.array(sorted(segment.fragment_rows), pa.uint64())
            tables.append(found.filter(pc.is_in(found["fragment_id"], wanted)))
            _, kept = segment.mapping(RowSet.of_address_map(data, segment.fragment_rows).numbers())
            all_nulls.append(kept)
        joined = pa.concat_tables(tables).combine_chunks()
        order = np.lexsort((joined["zone_start"].to_numpy(), joined["fragment_id"].to_numpy()))
        self._write(joined.take(pa.array(order)), np.unique(np.concatenate(all_nulls)), output)

    def _new_zones(self, batches: Iterable[IndexedRows]) -> tuple[pa.Table, UInt64Array]:
        """(a row for each zone, uint64[n]: the addresses of null rows)."""
        tables, nulls = [], []
        for rows in _chunks(batches, self.dtype):
            tables.append(self.summarized(rows.values, zones_of(rows.addresses, self.rows_per_zone)))
            if rows.values.null_count:
                nulls.append(rows.addresses[rows.values.is_null().to_numpy(zero_copy_only=False)])
        return pa.concat_tables(tables), np.concatenate([np.empty(0, np.uint64), *nulls])

    def _write(self, table: pa.Table, nulls: UInt64Array, output: SegmentOutput) -> None:
        bitmap = address_maps(nulls, [0, len(nulls)])[0]
        output.write(self.file_name, table, self.file_metadata, {NULL_BITMAP: bitmap})


def _chunks(batches: Iterable[IndexedRows], dtype: pa.DataType) -> Iterator[IndexedRows]:
    """All rows of some fragments at a time; at least once, if without rows."""
    parts: list[IndexedRows] = []
    num_rows, is_first = 0, True
    for batch in batches:
        if num_rows >= _CHUNK_ROWS and not _continues(parts[-1], batch):
            yield IndexedRows.joined(parts, dtype)
            parts, num_rows, is_first = [], 0, False
        if len(batch.values):
            parts.append(batch)
            num_rows += len(batch.values)
        if num_rows >= _CHUNK_ROWS and batch.ends_fragment:
            # Before the next batch is read, which can have the memory of this one then.
            yield IndexedRows.joined(parts, dtype)
            parts, num_rows, is_first = [], 0, False
    if parts or is_first:
        yield IndexedRows.joined(parts, dtype)


def _continues(rows: IndexedRows, following: IndexedRows) -> bool:
    """Whether the fragment of the last row has rows in the batch after it too."""
    others = following.addresses
    return not len(others) or bool(rows.addresses[-1] >> _HIGH_BITS == others[0] >> _HIGH_BITS)
