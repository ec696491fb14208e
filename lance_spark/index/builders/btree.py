"""Builds BTREE segments; `index.btree` describes the files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import ClassVar

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.index.btree import BTreeIndex, read_entries
from lance_spark.index.builders.base import IndexBuilder, IndexedRows, OldSegment, UInt64Array
from lance_spark.index.builders.output import SegmentOutput
from lance_spark.index.builders.runs import SortedRows
from lance_spark.index.builders.sorting import is_sortable
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
        self.merge_batches([], iter([rows]), output)

    def train_batches(self, batches: Iterator[IndexedRows], output: SegmentOutput) -> None:
        self.merge_batches([], batches, output)

    def merge(self, old: Sequence[OldSegment], rows: IndexedRows, output: SegmentOutput) -> None:
        if len(old) == 1 and not len(rows.ids):
            self._write(_kept_entries(old[0], self.dtype), output)
        else:
            self.merge_batches(old, iter([rows]), output)

    def merge_batches(self, old: Sequence[OldSegment], batches: Iterator[IndexedRows], output: SegmentOutput) -> None:
        with closing(SortedRows(self.dtype)) as rows:
            for batch in batches:
                rows.add(batch)
            for segment in old:
                for values, ids in _kept_entries(segment, self.dtype):
                    rows.add(IndexedRows(values, ids, np.empty(0, np.uint64)))
            self._write(rows.pieces(), output)

    def _write(self, pieces: Iterator[tuple[pa.Array, UInt64Array]], output: SegmentOutput) -> None:
        page_rows = self.parameters["zone_size"]
        assert isinstance(page_rows, int)
        lookup = _PageLookup(self.dtype, page_rows)
        schema = pa.schema([pa.field("values", self.dtype), pa.field("ids", pa.uint64(), nullable=False)])

        def tables() -> Iterator[pa.Table]:
            for values, ids in pieces:
                lookup.add(values)
                yield pa.Table.from_arrays([values, pa.array(ids, pa.uint64())], schema=schema)

        output.write_pieces("page_data.lance", schema, tables(), {})
        metadata = {"batch_size": str(page_rows), "range_partitioned": "false"}
        output.write("page_lookup.lance", lookup.table(), metadata)


def _kept_entries(segment: OldSegment, dtype: pa.DataType) -> Iterator[tuple[pa.Array, UInt64Array]]:
    """(values, ids) of the rows of an old segment that are kept, in index order, piece by piece."""
    for values, entry_ids in read_entries(segment.files, dtype):
        kept, ids = segment.mapping(entry_ids)
        yield values if kept.all() else values.filter(pa.array(kept)), ids


class _PageLookup:
    """The bounds and numbers of nulls of pages of values that come in index order."""

    def __init__(self, dtype: pa.DataType, page_rows: int) -> None:
        self._dtype = dtype
        self._page_rows = page_rows
        self._least: list[pa.Array] = []
        self._greatest: list[pa.Array] = []
        self._last = pa.array([], dtype)
        self._num_rows = self._num_nulls = 0

    def add(self, values: pa.Array) -> None:
        if not len(values):
            return
        first = -self._num_rows % self._page_rows
        last = -(self._num_rows + 1) % self._page_rows
        self._least.append(values.take(pa.array(np.arange(first, len(values), self._page_rows))))
        self._greatest.append(values.take(pa.array(np.arange(last, len(values), self._page_rows))))
        self._last = values.take(pa.array([len(values) - 1]))
        self._num_rows += len(values)
        self._num_nulls += values.null_count

    def table(self) -> pa.Table:
        """The columns of the file."""
        starts: Int64Array = np.arange(0, self._num_rows, self._page_rows, dtype=np.int64)
        stops = np.minimum(starts + self._page_rows, self._num_rows)
        ends = [*self._greatest, *([self._last] if self._num_rows % self._page_rows else [])]
        fields = [
            pa.field("min", self._dtype),
            pa.field("max", self._dtype),
            pa.field("null_count", pa.uint32(), nullable=False),
            pa.field("page_idx", pa.uint32(), nullable=False),
        ]
        columns = [
            pa.chunked_array(self._least, self._dtype),
            pa.chunked_array(ends, self._dtype),
            pa.array(np.clip(self._num_nulls - starts, 0, stops - starts).astype(np.uint32)),
            pa.array(np.arange(len(starts), dtype=np.uint32)),
        ]
        return pa.Table.from_arrays(columns, schema=pa.schema(fields))
