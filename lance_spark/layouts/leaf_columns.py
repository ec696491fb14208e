"""Top-level fields of files whose columns are leaves (versions 2.1 and 2.2).

Structs, lists and maps own no column; they live in the levels of each leaf below them. The leaves of a field are read
side by side, each page to a path array, and merged once all are there.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

import numpy as np
import pyarrow as pa

from lance_spark.errors import CorruptFileError
from lance_spark.layouts.base import (
    EncodedColumn,
    EncodedPage,
    FieldReads,
    FileRange,
    Page,
    RowRanges,
    side_by_side,
)
from lance_spark.layouts.merge import merge_columns
from lance_spark.layouts.path import LeafPath
from lance_spark.layouts.registry import parse_page
from lance_spark.schema.columns import paths
from lance_spark.schema.field import Field, FieldId


def read_field(field: Field, columns: Mapping[FieldId, EncodedColumn], rows: RowRanges) -> FieldReads:
    """See `lance_spark.layouts.base.FieldReader`."""
    leaves = [
        _read_leaf(LeafPath.of(fields), columns[fields[-1].id], rows)
        for fields in paths(field)
        if fields[-1].id in columns
    ]
    arrays = yield from side_by_side(leaves)
    return merge_columns(field, arrays, rows.num_rows)


def _read_leaf(path: LeafPath, column: EncodedColumn, rows: RowRanges) -> FieldReads:
    """The path arrays of one column, a chunk a page."""
    slots = path.slots_per_row
    lengths = np.array([page.num_rows for page in column.pages], np.int64)
    if len(lengths) and (int(lengths.min()) < 0 or bool((lengths % slots).any())):
        raise CorruptFileError("the length of a page is no number of rows", column=column.index)
    lengths //= slots
    ends = np.cumsum(lengths)
    if (int(ends[-1]) if len(ends) else 0) != column.num_rows:
        raise CorruptFileError(
            f"the pages hold {int(ends[-1]) if len(ends) else 0} rows of {column.num_rows}", column=column.index
        )
    reads = []
    for number in _touched(lengths, ends, rows):
        page = column.pages[number]
        start = int(ends[number] - lengths[number])
        wanted = rows.within(start, int(ends[number]))
        reads.append(_read_page(path, column.index, number, page, int(lengths[number]), wanted))
    arrays = yield from side_by_side(reads)
    return pa.chunked_array(arrays, path.data_type)


def _touched(lengths: np.ndarray, ends: np.ndarray, rows: RowRanges) -> list[int]:
    """Numbers of the pages that hold any of `rows`."""
    first = np.searchsorted(ends, rows.starts, "right")
    last = np.searchsorted(ends, rows.stops - 1, "right")
    touched = np.zeros(len(ends) + 1, np.int64)
    np.add.at(touched, first, 1)
    np.add.at(touched, last + 1, -1)
    return [int(number) for number in np.flatnonzero(np.cumsum(touched[:-1])) if lengths[number] > 0]


def _read_page(
    path: LeafPath, column: int, number: int, encoded: EncodedPage, num_rows: int, rows: RowRanges
) -> Generator[list[FileRange], list[pa.Buffer], pa.Array]:
    """Runs the page's coroutine; its errors learn where they happened."""
    page = Page(tuple(buffer.size for buffer in encoded.buffers), num_rows, path)
    try:
        reads = parse_page(encoded.type_url, encoded.message).read(page, rows)
        pieces = next(reads)
        while True:
            buffers = yield [encoded.locate(piece) for piece in pieces]
            pieces = reads.send(buffers)
    except StopIteration as stop:
        array: pa.Array = stop.value
    except CorruptFileError as error:
        error.at(column=column, page=number)
        raise
    if len(array) != rows.num_rows:
        raise CorruptFileError(
            f"the page gives {len(array)} rows where {rows.num_rows} were expected", column=column, page=number
        )
    return array
