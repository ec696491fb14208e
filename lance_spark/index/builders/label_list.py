"""Builds LABEL_LIST segments; `index.label_list` describes the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.index.bitmap import BITMAP_FILE
from lance_spark.index.builders.base import IndexBuilder, IndexedRows, OldSegment
from lance_spark.index.builders.bitmap import add_segment, write_bitmaps
from lance_spark.index.builders.entries import KeyRows
from lance_spark.index.builders.output import SegmentOutput
from lance_spark.index.builders.sorting import is_sortable
from lance_spark.index.files import IndexFiles
from lance_spark.index.label_list import NULL_LISTS, LabelListIndex
from lance_spark.index.row_set import RowSet, address_maps


class LabelListBuilder(IndexBuilder):
    """LABEL_LIST."""

    index_type = LabelListIndex

    @classmethod
    def supports(cls, dtype: pa.DataType) -> bool:
        return (pt.is_list(dtype) or pt.is_large_list(dtype)) and is_sortable(dtype.value_type)

    @classmethod
    def version(cls, *, stable_row_ids: bool) -> int:
        return 1

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
        null_lists = [np.empty(0, np.uint64)]
        with closing(KeyRows(self.dtype.value_type)) as items:
            for rows in batches:
                items.add(pc.list_flatten(rows.values), rows.ids[pc.list_parent_indices(rows.values).to_numpy()])
                null_lists.append(rows.ids[rows.values.is_null().to_numpy(zero_copy_only=False)])
            for segment in old:
                file = segment.files.open(BITMAP_FILE)
                data = file.buffer_named_by(NULL_LISTS)
                if data is None:
                    raise file.damaged("the segment does not know which lists are null")
                add_segment(items, segment, self.dtype.value_type)
                _, kept = segment.mapping(RowSet.of_address_map(data, segment.fragment_rows).numbers())
                null_lists.append(kept)
            nulls = np.unique(np.concatenate(null_lists))
            write_bitmaps(items, output, {NULL_LISTS: address_maps(nulls, [0, len(nulls)])[0]})
