"""The pages of one leaf column: rows are buffered until they fill a page, then encoded."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lance_spark.file_version import FileVersion
from lance_spark.layouts.choose import PageSettings, encode_pages
from lance_spark.layouts.page_bytes import PageBytes
from lance_spark.layouts.row_sizes import RowSizes, word_bits
from lance_spark.layouts.shred import Shredded, lasting_codes, shred
from lance_spark.schema.field import Field
from lance_spark.schema.logical_type import is_fixed_size_list, split

MAX_PIECES = 256
"""Maximum buffered pieces of a page before they are joined."""
MAX_PAGE_ROWS = 1 << 24
"""Maximum rows of a page, whatever their size: levels take memory too."""


class ColumnWriter:
    """Splits one leaf column into pages of about `page_bytes` bytes, at row boundaries.

    Args:
        path: the fields from the top-level field to the leaf.
        steps: the child indices of that path.
        version: file version, 2.1 or 2.2.
        page_bytes: bytes of Arrow values in a page; a larger row is a page by itself.
    """

    def __init__(self, path: tuple[Field, ...], steps: tuple[int, ...], version: FileVersion, page_bytes: int) -> None:
        self.leaf = path[-1]
        self.slots_per_row = slots_per_row(path)
        self._steps = steps
        self._settings = PageSettings(version, path[-1].metadata, lasting_codes(path))
        self._page_bytes = page_bytes
        self._pieces: list[Shredded] = []
        self._gathered_bytes = 0
        self._gathered_rows = 0

    def append(self, array: pa.Array) -> Iterator[PageBytes]:
        """Appends values of the top-level field; yields the pages that became full."""
        if self._append_whole(array):
            return
        sizes = RowSizes(array, self._steps)
        start = 0
        while start < len(array):
            room = self._page_bytes - self._gathered_bytes
            stop = min(sizes.rows_within(start, room), start + MAX_PAGE_ROWS - self._gathered_rows)
            if stop == start and not self._pieces:
                stop = start + 1
            if stop > start:
                self._pieces.append(shred(array.slice(start, stop - start), self._steps))
                self._gathered_bytes += sizes.before(stop) - sizes.before(start)
                self._gathered_rows += stop - start
            if stop < len(array) or self._gathered_bytes >= self._page_bytes:
                yield from self.flush()
            start = stop
        self._detach()

    def _append_whole(self, array: pa.Array) -> bool:
        """Appends values of one size that fit into the page with room to spare."""
        bits = 0 if self._steps else word_bits(array.type)
        num_bytes = self._gathered_bytes + len(array) * bits // 8
        num_rows = self._gathered_rows + len(array)
        if not bits or num_bytes >= self._page_bytes or num_rows > MAX_PAGE_ROWS:
            return False
        if len(array):
            # A copy, as `_detach` makes one.
            self._pieces.append(shred(pa.concat_arrays([array]), ()))
            self._gathered_bytes, self._gathered_rows = num_bytes, num_rows
            self._join_many()
        return True

    def _detach(self) -> None:
        """Copies the buffered values out of their batch, into few pieces.

        The columns of a batch can share one allocation, which a single narrow column would keep alive.
        """
        if self._pieces:
            last = self._pieces[-1]
            values = pa.concat_arrays([last.values])
            self._pieces[-1] = Shredded(
                last.lists, last.present, last.num_rows, last.num_items, last.reps, last.codes, values
            )
        self._join_many()

    def _join_many(self) -> None:
        if len(self._pieces) >= MAX_PIECES:
            self._pieces = _joined(self._pieces)

    def flush(self) -> Iterator[PageBytes]:
        """The pages of the buffered rows."""
        if self._pieces:
            pieces = _joined(self._pieces)
            self._pieces = []
            self._gathered_bytes = self._gathered_rows = 0
            for rows in pieces:
                yield from encode_pages(rows, self._settings)


def _joined(pieces: list[Shredded]) -> list[Shredded]:
    """Concatenates the pieces; several remain where joined dictionaries would exceed the range of their indices."""
    try:
        return [Shredded.concat(pieces)]
    except pa.ArrowInvalid:
        if len(pieces) == 1:
            raise
    half = len(pieces) // 2
    return [*_joined(pieces[:half]), *_joined(pieces[half:])]


def slots_per_row(path: tuple[Field, ...]) -> int:
    """Rows of a page per row of the file: the pages of a fixed-size list of structs count its items."""
    slots = 1
    for field in path[:-1]:
        if is_fixed_size_list(field.logical_type):
            slots *= int(split(field.logical_type)[1][-1])
    return slots
