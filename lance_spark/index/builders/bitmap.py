"""Builds BITMAP segments; `index.bitmap` describes the file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from lance_spark.index.bitmap import BITMAP_FILE, BitmapIndex, load_keys, read_bitmaps
from lance_spark.index.builders.base import IndexBuilder, IndexedRows, OldSegment
from lance_spark.index.builders.entries import Entries, united
from lance_spark.index.builders.output import SegmentOutput
from lance_spark.index.builders.sorting import is_sortable
from lance_spark.index.files import IndexFiles
from lance_spark.index.row_set import address_maps


class BitmapBuilder(IndexBuilder):
    """BITMAP."""

    index_type = BitmapIndex

    @classmethod
    def supports(cls, dtype: pa.DataType) -> bool:
        return is_sortable(dtype)

    @classmethod
    def statistics(cls, files: IndexFiles, dtype: pa.DataType) -> dict[str, object]:
        return {"num_bitmaps": files.open(BITMAP_FILE).num_rows}

    def train(self, rows: IndexedRows, output: SegmentOutput) -> None:
        write_bitmaps(Entries.of_values(rows.values, rows.ids), output)

    def merge(self, old: Sequence[OldSegment], rows: IndexedRows, output: SegmentOutput) -> None:
        parts = [Entries.of_values(rows.values, rows.ids), *(read_entries(segment, self.dtype) for segment in old)]
        write_bitmaps(united(parts), output)


def read_entries(segment: OldSegment, dtype: pa.DataType) -> Entries:
    """The pairs of an old segment whose rows are kept.

    Raises:
        LanceError: its file is missing or broken.
    """
    file = segment.files.open(BITMAP_FILE)
    keys = load_keys(segment.files, file, dtype)
    sets = read_bitmaps(file, np.arange(len(keys), dtype=np.int64), segment.fragment_rows)
    return Entries.of_sets(keys, sets, segment.mapping)


def write_bitmaps(
    entries: Entries,
    output: SegmentOutput,
    buffers: Mapping[str, bytes] | None = None,
) -> None:
    """Writes the file of a BITMAP, with further global buffers by the metadata key of their number."""
    keys, bounds, ids = entries.sorted()
    fields = [pa.field("keys", keys.type), pa.field("bitmaps", pa.binary())]
    table = pa.table([keys, pa.array(address_maps(ids, bounds), pa.binary())], schema=pa.schema(fields))
    statistics = json.dumps({"num_bitmaps": len(keys)}, separators=(",", ":"))
    output.write(BITMAP_FILE, table, {"lance:index_stats": statistics}, buffers)
