"""Builds BTREE segments; `index.btree` describes the files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.index.btree import BTreeIndex, read_entries
from lance_spark.index.builders.base import IndexBuilder, IndexedRows, OldSegment, UInt64Array
from lance_spark.index.builders.output import SegmentOutput
from lance_spark.index.builders.sorting import is_sortable, sort_order
from lance_spark.index.files import IndexFiles

PAGE_ROWS = 4096


class BTreeBuilder(IndexBuilder):
    """BTREE. `zone_size` is the number of rows of a page."""

    index_type = BTreeIndex
    defaults: ClassVar[Mapping[str, object]] = {"zone_size": PAGE_ROWS}

    @classmethod
    def supports(cls, dtype: pa.DataType) -> bool:
        return is_sortable(dtype)

    @classmethod
    def version(cls, *, stable_row_ids: bool) -> int:
        return 1 if stable_row_ids else 0

    @classmethod
    def parameters_of(cls, details: bytes, files: IndexFiles) -> dict[str, object]:
        return {"zone_size": files.open("page_lookup.lance").positive_number("batch_size", PAGE_ROWS)}

    @classmethod
    def statistics(cls, files: IndexFiles, dtype: pa.DataType) -> dict[str, object]:
        return {"num_pages": files.open("page_lookup.lance").num_rows}

    def train(self, rows: IndexedRows, output: SegmentOutput) -> None:
        order = sort_order(rows.values)
        self._write(rows.values.take(pa.array(order)), rows.ids[order], output)

    def merge(self, old: Sequence[OldSegment], rows: IndexedRows, output: SegmentOutput) -> None:
        values, ids = [rows.values], [rows.ids]
        for segment in old:
            found, numbers = read_entries(segment.files, self.dtype)
            kept, numbers = segment.mapping(numbers)
            values.append(found if kept.all() else found.filter(pa.array(kept)))
            ids.append(numbers)
        if len(old) == 1 and not len(rows.ids):
            self._write(values[1], ids[1], output)
        else:
            self.train(IndexedRows(pa.concat_arrays(values), np.concatenate(ids), np.empty(0, np.uint64)), output)

    def _write(self, values: pa.Array, ids: UInt64Array, output: SegmentOutput) -> None:
        fields = [pa.field("values", self.dtype), pa.field("ids", pa.uint64(), nullable=False)]
        table = pa.Table.from_arrays([values, pa.array(ids, pa.uint64())], schema=pa.schema(fields))
        output.write("page_data.lance", table, {})
        page_rows = self.parameters["zone_size"]
        assert isinstance(page_rows, int)
        metadata = {"batch_size": str(page_rows), "range_partitioned": "false"}
        output.write("page_lookup.lance", _lookup(values, page_rows), metadata)


def _lookup(values: pa.Array, page_rows: int) -> pa.Table:
    """The bounds and numbers of nulls of pages of sorted values."""
    starts: Int64Array = np.arange(0, len(values), page_rows, dtype=np.int64)
    stops = np.minimum(starts + page_rows, len(values))
    fields = [
        pa.field("min", values.type),
        pa.field("max", values.type),
        pa.field("null_count", pa.uint32(), nullable=False),
        pa.field("page_idx", pa.uint32(), nullable=False),
    ]
    columns = [
        values.take(pa.array(starts)),
        values.take(pa.array(stops - 1)),
        pa.array(np.clip(values.null_count - starts, 0, stops - starts).astype(np.uint32)),
        pa.array(np.arange(len(starts), dtype=np.uint32)),
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))
