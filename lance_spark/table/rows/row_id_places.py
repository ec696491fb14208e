"""Lookup of rows by stable row id: the fragments of a version and the offsets in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyroaring

from lance_spark._proto import table_pb2
from lance_spark.encodings.blocks import Int64Array
from lance_spark.storage.cache import cached_part
from lance_spark.table.rows.row_address import UInt64Array
from lance_spark.table.rows.row_ids import RowIdSequence, U64Segment

_BYTES_PER_SEGMENT = 256
_EXPANSION = 4
"""Bytes of a parsed sequence for each of its message."""


def row_ids_of(message: table_pb2.DataFragment) -> RowIdSequence:
    """The row ids of a fragment that has them inline. Messages that a manifest keeps are parsed once.

    Raises:
        CorruptFileError: they are no sequence, or do not fit the number of rows.
    """

    def parse() -> tuple[RowIdSequence, int]:
        data = message.inline_row_ids
        sequence = RowIdSequence.from_bytes(data, message.physical_rows)
        return sequence, _EXPANSION * len(data) + _BYTES_PER_SEGMENT * len(sequence.segments)

    return cached_part(message, "row ids", parse)


@dataclass(frozen=True)
class RowIdPlaces:
    """The segments of the row ids of all fragments, n in number.

    Attributes:
        segments: what finds the rows of each.
        lows, highs: uint64[n]: bounds of the ids in it, both inside.
        fragment_ids, first_rows: int64[n]: the fragment of its rows, and the offset of the first one there.
    """

    segments: tuple[U64Segment, ...]
    lows: UInt64Array
    highs: UInt64Array
    fragment_ids: Int64Array
    first_rows: Int64Array

    @classmethod
    def of(cls, fragments: Iterable[table_pb2.DataFragment]) -> RowIdPlaces | None:
        """Lookup of the rows of a version; None if a fragment has no row ids in the manifest, or does not say how many
        rows it has.

        Raises:
            CorruptFileError: as `row_ids_of`.
        """
        places: list[tuple[U64Segment, int, int, int, int]] = []
        for message in fragments:
            if not message.HasField("inline_row_ids") or not message.physical_rows:
                return None
            first = 0
            for segment in row_ids_of(message).segments:
                if segment.num_values:
                    places.append((segment, *segment.bounds, message.id, first))
                first += segment.num_values
        segments, lows, highs, ids, firsts = zip(*places, strict=True) if places else ((), (), (), (), ())
        return cls(
            segments,
            np.array(lows, np.uint64),
            np.array(highs, np.uint64),
            np.array(ids, np.int64),
            np.array(firsts, np.int64),
        )

    @property
    def num_bytes(self) -> int:
        """About what they take in memory beside the segments."""
        return (_BYTES_PER_SEGMENT + 32) * len(self.segments)

    def rows(self, row_ids: UInt64Array) -> dict[int, pyroaring.BitMap]:
        """Maps fragment ids to the offsets of rows, also deleted ones, with `row_ids` (uint64[n], ascending)."""
        starts, stops = np.searchsorted(row_ids, self.lows, "left"), np.searchsorted(row_ids, self.highs, "right")
        bitmaps: dict[int, pyroaring.BitMap] = {}
        for place in np.flatnonzero(starts < stops).tolist():
            ranks = self.segments[place].ranks_of(row_ids[starts[place] : stops[place]])
            if len(ranks):
                offsets = pyroaring.BitMap((ranks + self.first_rows[place]).astype(np.uint32))
                id_ = int(self.fragment_ids[place])
                bitmaps[id_] = bitmaps[id_] | offsets if id_ in bitmaps else offsets
        return bitmaps
