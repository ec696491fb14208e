"""Builds BITMAP segments; `index.bitmap` describes the file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

import numpy as np
import pyarrow as pa

from lance_spark.index.bitmap import BITMAP_FILE, BitmapIndex, load_keys, read_bitmaps
from lance_spark.index.builders.base import IndexBuilder, IndexedRows, OldSegment
from lance_spark.index.builders.entries import KeyRows
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
        self.merge_batches([], iter([rows]), output)

    def train_batches(self, batches: Iterator[IndexedRows], output: SegmentOutput) -> None:
        self.merge_batches([], batches, output)

    def merge(self, old: Sequence[OldSegment], rows: IndexedRows, output: SegmentOutput) -> None:
        self.merge_batches(old, iter([rows]), output)

    def merge_batches(self, old: Sequence[OldSegment], batches: Iterator[IndexedRows], output: SegmentOutput) -> None:
        with closing(KeyRows(self.dtype)) as rows:
            for batch in batches:
                rows.add(batch.values, batch.ids)
            for segment in old:
                add_segment(rows, segment, self.dtype)
            write_bitmaps(rows, output)


def add_segment(rows: KeyRows, segment: OldSegment, dtype: pa.DataType) -> None:
    """Adds the pairs of an old segment, with keys of type `dtype`, whose rows are kept.

    Raises:
        LanceError: its file is missing or broken.
    """
    file = segment.files.open(BITMAP_FILE)
    keys = load_keys(file, dtype)
    sets = read_bitmaps(file, np.arange(len(keys), dtype=np.int64), segment.fragment_rows)
    rows.add_sets(keys, sets, segment.mapping)


def write_bitmaps(
    rows: KeyRows,
    output: SegmentOutput,
    buffers: Mapping[str, bytes] | None = None,
) -> None:
    """Writes the file of a BITMAP, with further global buffers by the metadata key of their number."""
    groups = rows.grouped()
    schema = pa.schema([pa.field("keys", groups.keys.type), pa.field("bitmaps", pa.binary())])
    pieces = (
        pa.table([keys, pa.array(address_maps(ids, bounds), pa.binary())], schema=schema)
        for keys, bounds, ids in groups.pieces()
    )
    statistics = json.dumps({"num_bitmaps": groups.num_keys}, separators=(",", ":"))
    output.write_pieces(BITMAP_FILE, schema, pieces, {"lance:index_stats": statistics}, buffers)
