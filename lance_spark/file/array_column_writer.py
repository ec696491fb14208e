"""The pages of one column of a 2.0 file, where structs and lists own a column too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.file.batches import node_values
from lance_spark.file.column_writer import MAX_PAGE_ROWS, MAX_PIECES
from lance_spark.layouts.page_bytes import PageBytes
from lance_spark.layouts.row_sizes import RowSizes
from lance_spark.layouts.shred import without_null_entries
from lance_spark.layouts.v2_0.write import (
    encode_blob_page,
    encode_leaf_page,
    encode_list_page,
    encode_struct_page,
    list_lengths,
)
from lance_spark.schema.columns import is_array_leaf, is_blob
from lance_spark.schema.field import Field

_END_BYTES = 8


@dataclass(slots=True)
class _Values:
    """The values of some rows: of a leaf as an array, of a list as lengths, of a struct only their number."""

    num_rows: int
    num_values: int
    array: pa.Array | None = None
    lengths: Int64Array | None = None


class ArrayColumnWriter:
    """Splits one column into pages of about `page_bytes` bytes, at row boundaries.

    The column of a struct is one page: the reference library reads no other.

    Args:
        path: the fields from the top-level field to the one that owns the column.
        steps: the child indices of that path.
        page_bytes: bytes of Arrow values in a page; a larger row is a page by itself.
    """

    slots_per_row = 1

    def __init__(self, path: tuple[Field, ...], steps: tuple[int, ...], page_bytes: int) -> None:
        self.leaf = path[-1]
        self._is_leaf = is_array_leaf(self.leaf)
        self._is_list = not self._is_leaf and self.leaf.logical_type != "struct"
        self._steps = steps
        self._page_bytes = page_bytes
        self._pieces: list[_Values] = []
        self._gathered_bytes = 0
        self._gathered_rows = 0

    def append(self, array: pa.Array) -> Iterator[PageBytes]:
        """Appends values of the top-level field; yields the pages that became full."""
        if not (self._is_leaf or self._is_list):
            self._pieces = _joined([*self._pieces, self._values(array)])
            return
        sizes = RowSizes(array, self._steps, None if self._is_leaf else _END_BYTES)
        start = 0
        while start < len(array):
            room = self._page_bytes - self._gathered_bytes
            stop = min(sizes.rows_within(start, room), start + MAX_PAGE_ROWS - self._gathered_rows)
            if stop == start and not self._pieces:
                stop = start + 1
            if stop > start:
                self._pieces.append(self._values(array.slice(start, stop - start)))
                self._gathered_bytes += sizes.before(stop) - sizes.before(start)
                self._gathered_rows += stop - start
            if stop < len(array) or self._gathered_bytes >= self._page_bytes:
                yield from self.flush()
            start = stop
        self._detach()

    def flush(self) -> Iterator[PageBytes]:
        """The pages of the buffered rows."""
        pieces, self._pieces = self._pieces, []
        self._gathered_bytes = self._gathered_rows = 0
        for values in _joined(pieces) if pieces else []:
            if values.array is not None and is_blob(self.leaf):
                yield encode_blob_page(values.array, values.num_rows)
            elif values.array is not None:
                yield encode_leaf_page(values.array, self.leaf.metadata, values.num_rows)
            elif values.lengths is not None:
                yield encode_list_page(values.lengths, values.num_rows)
            else:
                yield encode_struct_page(values.num_values, values.num_rows)

    def _values(self, rows: pa.Array) -> _Values:
        values = node_values(rows, self._steps)
        if self._is_leaf:
            return _Values(len(rows), len(values), array=without_null_entries(values))
        return _Values(len(rows), len(values), lengths=list_lengths(values) if self._is_list else None)

    def _detach(self) -> None:
        """Copies the buffered values out of their batch, which a single narrow column would keep in memory."""
        if self._pieces and self._pieces[-1].array is not None:
            self._pieces[-1].array = pa.concat_arrays([self._pieces[-1].array])
        if len(self._pieces) >= MAX_PIECES:
            self._pieces = _joined(self._pieces)


def _joined(pieces: Sequence[_Values]) -> list[_Values]:
    """Concatenates the pieces; several remain where joined dictionaries would exceed the range of their indices."""
    if len(pieces) == 1:
        return list(pieces)
    try:
        return [_concatenated(pieces)]
    except pa.ArrowInvalid:
        half = len(pieces) // 2
        return [*_joined(pieces[:half]), *_joined(pieces[half:])]


def _concatenated(pieces: Sequence[_Values]) -> _Values:
    arrays = [piece.array for piece in pieces if piece.array is not None]
    lengths = [piece.lengths for piece in pieces if piece.lengths is not None]
    return _Values(
        sum(piece.num_rows for piece in pieces),
        sum(piece.num_values for piece in pieces),
        pa.concat_arrays(arrays) if arrays else None,
        np.concatenate(lengths) if lengths else None,
    )
