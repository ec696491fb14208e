"""Builds LABEL_LIST segments; `index.label_list` describes the file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark.index.bitmap import BITMAP_FILE
from lance_spark.index.builders.base import IndexBuilder, IndexedRows, OldSegment, UInt64Array
from lance_spark.index.builders.bitmap import read_entries, write_bitmaps
from lance_spark.index.builders.entries import Entries, united
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
        self._write([_items(rows)], [_null_lists(rows)], output)

    def merge(self, old: Sequence[OldSegment], rows: IndexedRows, output: SegmentOutput) -> None:
        entries, null_lists = [_items(rows)], [_null_lists(rows)]
        for segment in old:
            file = segment.files.open(BITMAP_FILE)
            data = file.buffer_named_by(NULL_LISTS)
            if data is None:
                raise file.damaged("the segment does not know which lists are null")
            entries.append(read_entries(segment, self.dtype.value_type))
            _, kept = segment.mapping(RowSet.of_address_map(data, segment.fragment_rows).numbers())
            null_lists.append(kept)
        self._write(entries, null_lists, output)

    def _write(self, entries: list[Entries], null_lists: list[UInt64Array], output: SegmentOutput) -> None:
        nulls = np.unique(np.concatenate(null_lists))
        write_bitmaps(united(entries), output, {NULL_LISTS: address_maps(nulls, [0, len(nulls)])[0]})


def _items(rows: IndexedRows) -> Entries:
    parents = pc.list_parent_indices(rows.values).to_numpy()
    return Entries.of_values(pc.list_flatten(rows.values), rows.ids[parents])


def _null_lists(rows: IndexedRows) -> UInt64Array:
    ids: UInt64Array = rows.ids[rows.values.is_null().to_numpy(zero_copy_only=False)]
    return ids
