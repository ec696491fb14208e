"""The pages of one column: rows are buffered until they fill a page, then encoded.

Since file version 2.1 only leaves own a column (`ColumnWriter`); in 2.0 structs and lists do too (`ArrayColumnWriter`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.file.batches import node_values
from lance_spark.file_version import FileVersion
from lance_spark.layouts.choose import PageSettings, encode_pages
from lance_spark.layouts.page_bytes import PageBytes
from lance_spark.layouts.row_sizes import RowSizes, word_bits
from lance_spark.layouts.shred import Shredded, lasting_codes, shred, without_null_entries
from lance_spark.layouts.v2_0.write import (
    encode_blob_page,
    encode_leaf_page,
    encode_list_page,
    encode_struct_page,
    list_lengths,
)
from lance_spark.schema.columns import is_array_leaf, is_blob
from lance_spark.schema.field import Field
from lance_spark.schema.logical_type import is_fixed_size_list, split

MAX_PIECES = 256
"""Maximum buffered pieces of a page before they are joined."""
MAX_PAGE_ROWS = 1 << 24
"""Maximum rows of a page, also of small ones: levels take memory too."""

_END_BYTES = 8

Piece = TypeVar("Piece")


class PageWriter(ABC, Generic[Piece]):
    """Splits one column into pages of about `page_bytes` bytes, at row boundaries.

    Args:
        leaf: the field that owns the column.
        steps: the child indices from the top-level field to it.
        page_bytes: bytes of Arrow values in a page; a larger row is a page by itself.
    """

    def __init__(self, leaf: Field, steps: tuple[int, ...], page_bytes: int) -> None:
        self.leaf = leaf
        self._steps = steps
        self._page_bytes = page_bytes
        self._pieces: list[Piece] = []
        self._gathered_bytes = 0
        self._gathered_rows = 0

    @abstractmethod
    def append(self, array: pa.Array) -> Iterator[PageBytes]:
        """Appends values of the top-level field; yields the pages that became full."""

    @abstractmethod
    def flush(self) -> Iterator[PageBytes]:
        """The pages of the buffered rows."""

    @abstractmethod
    def _piece(self, rows: pa.Array) -> Piece:
        """The values of some rows of the top-level field."""

    @abstractmethod
    def _detached(self, piece: Piece) -> Piece:
        """A copy of the values of `piece` that shares no memory with their batch."""

    @abstractmethod
    def _joined(self, pieces: list[Piece]) -> list[Piece]:
        """Pieces with the same values, as few as possible."""

    def _append_sized(self, array: pa.Array, sizes: RowSizes) -> Iterator[PageBytes]:
        start = 0
        while start < len(array):
            room = self._page_bytes - self._gathered_bytes
            stop = min(sizes.rows_within(start, room), start + MAX_PAGE_ROWS - self._gathered_rows)
            if stop == start and not self._pieces:
                stop = start + 1
            if stop > start:
                self._pieces.append(self._piece(array.slice(start, stop - start)))
                self._gathered_bytes += sizes.before(stop) - sizes.before(start)
                self._gathered_rows += stop - start
            if stop < len(array) or self._gathered_bytes >= self._page_bytes:
                yield from self.flush()
            start = stop
        if self._pieces:
            # The columns of a batch can share one allocation, which a single narrow column would keep alive.
            self._pieces[-1] = self._detached(self._pieces[-1])
        self._join_many()

    def _join_many(self) -> None:
        if len(self._pieces) >= MAX_PIECES:
            self._pieces = self._joined(self._pieces)

    def _taken(self) -> list[Piece]:
        """The buffered pieces, joined, which the buffer then no longer has."""
        pieces = self._joined(self._pieces) if self._pieces else []
        self._pieces = []
        self._gathered_bytes = self._gathered_rows = 0
        return pieces


class ColumnWriter(PageWriter[Shredded]):
    """Writes one leaf column.

    Args:
        path: the fields from the top-level field to the leaf.
        version: file version, 2.1 or 2.2.
        Others as `PageWriter`.
    """

    def __init__(self, path: tuple[Field, ...], steps: tuple[int, ...], version: FileVersion, page_bytes: int) -> None:
        super().__init__(path[-1], steps, page_bytes)
        self.slots_per_row = slots_per_row(path)
        self._settings = PageSettings(version, path[-1].metadata, lasting_codes(path))

    def append(self, array: pa.Array) -> Iterator[PageBytes]:
        if not self._append_whole(array):
            yield from self._append_sized(array, RowSizes(array, self._steps))

    def _append_whole(self, array: pa.Array) -> bool:
        """Appends values of one size that fit into the page with room to spare."""
        bits = 0 if self._steps else word_bits(array.type)
        num_bytes = self._gathered_bytes + len(array) * bits // 8
        num_rows = self._gathered_rows + len(array)
        if not bits or num_bytes >= self._page_bytes or num_rows > MAX_PAGE_ROWS:
            return False
        if len(array):
            # A copy, as `_detached` makes one.
            self._pieces.append(shred(pa.concat_arrays([array]), ()))
            self._gathered_bytes, self._gathered_rows = num_bytes, num_rows
            self._join_many()
        return True

    def flush(self) -> Iterator[PageBytes]:
        for rows in self._taken():
            yield from encode_pages(rows, self._settings)

    def _piece(self, rows: pa.Array) -> Shredded:
        return shred(rows, self._steps)

    def _detached(self, piece: Shredded) -> Shredded:
        values = pa.concat_arrays([piece.values])
        return Shredded(piece.lists, piece.present, piece.num_rows, piece.num_items, piece.reps, piece.codes, values)

    def _joined(self, pieces: list[Shredded]) -> list[Shredded]:
        return joined(pieces, Shredded.concat)


def slots_per_row(path: tuple[Field, ...]) -> int:
    """Rows of a page per row of the file: the pages of a fixed-size list of structs count its items."""
    slots = 1
    for field in path[:-1]:
        if is_fixed_size_list(field.logical_type):
            slots *= int(split(field.logical_type)[1][-1])
    return slots


@dataclass(slots=True)
class _Values:
    """The values of some rows: of a leaf as an array, of a list as lengths, of a struct only their number."""

    num_rows: int
    num_values: int
    array: pa.Array | None = None
    lengths: Int64Array | None = None


class ArrayColumnWriter(PageWriter[_Values]):
    """Writes one column of version 2.0. The column of a struct is one page: the reference library reads no other.

    Args:
        path: the fields from the top-level field to the one that owns the column.
        Others as `PageWriter`.
    """

    slots_per_row = 1

    def __init__(self, path: tuple[Field, ...], steps: tuple[int, ...], page_bytes: int) -> None:
        super().__init__(path[-1], steps, page_bytes)
        self._is_leaf = is_array_leaf(self.leaf)
        self._is_list = not self._is_leaf and self.leaf.logical_type != "struct"

    def append(self, array: pa.Array) -> Iterator[PageBytes]:
        if self._is_leaf or self._is_list:
            yield from self._append_sized(array, RowSizes(array, self._steps, None if self._is_leaf else _END_BYTES))
        else:
            self._pieces = self._joined([*self._pieces, self._piece(array)])

    def flush(self) -> Iterator[PageBytes]:
        for values in self._taken():
            if values.array is not None and is_blob(self.leaf):
                yield encode_blob_page(values.array, values.num_rows)
            elif values.array is not None:
                yield encode_leaf_page(values.array, self.leaf.metadata, values.num_rows)
            elif values.lengths is not None:
                yield encode_list_page(values.lengths, values.num_rows)
            else:
                yield encode_struct_page(values.num_values, values.num_rows)

    def _piece(self, rows: pa.Array) -> _Values:
        values = node_values(rows, self._steps)
        if self._is_leaf:
            return _Values(len(rows), len(values), array=without_null_entries(values))
        return _Values(len(rows), len(values), lengths=list_lengths(values) if self._is_list else None)

    def _detached(self, piece: _Values) -> _Values:
        return piece if piece.array is None else replace(piece, array=pa.concat_arrays([piece.array]))

    def _joined(self, pieces: list[_Values]) -> list[_Values]:
        return list(pieces) if len(pieces) == 1 else joined(pieces, _concatenated)


def joined(pieces: Sequence[Piece], concatenated: Callable[[Sequence[Piece]], Piece]) -> list[Piece]:
    """Concatenates the pieces; several remain where joined dictionaries would exceed the range of their indices."""
    try:
        return [concatenated(pieces)]
    except pa.ArrowInvalid:
        if len(pieces) == 1:
            raise
    half = len(pieces) // 2
    return [*joined(pieces[:half], concatenated), *joined(pieces[half:], concatenated)]


def _concatenated(pieces: Sequence[_Values]) -> _Values:
    arrays = [piece.array for piece in pieces if piece.array is not None]
    lengths = [piece.lengths for piece in pieces if piece.lengths is not None]
    return _Values(
        sum(piece.num_rows for piece in pieces),
        sum(piece.num_values for piece in pieces),
        pa.concat_arrays(arrays) if arrays else None,
        np.concatenate(lengths) if lengths else None,
    )
