"""Top-level fields of files whose columns are leaves (versions 2.1 and 2.2).

Structs, lists and maps own no column; they are encoded in the levels of each leaf below them. The leaves of a field
are read concurrently, each page to a path array, and then merged.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError
from lance_spark.layouts.base import (
    EncodedColumn,
    EncodedPage,
    FieldReads,
    FileRange,
    JoinablePageLayout,
    Page,
    PageLayout,
    Reads,
    RowRanges,
    side_by_side,
)
from lance_spark.layouts.merge import merge_columns
from lance_spark.layouts.path import LeafPath
from lance_spark.layouts.registry import parse_page
from lance_spark.schema.columns import is_leaf, paths
from lance_spark.schema.field import Field, FieldId

MAX_RUN_ROWS = 1 << 24
MAX_RUN_BYTES = 4 << 20
"""Maximum bytes decoded together, unless a single page is larger."""

CHUNK_BYTES = 8 << 10
"""Approximate cost of a single row in the middle of a page."""


def read_field(field: Field, columns: Mapping[FieldId, EncodedColumn], rows: RowRanges) -> FieldReads:
    """See `lance_spark.layouts.base.FieldReader`."""
    if is_leaf(field) and field.id in columns:
        column = yield from _read_leaf(LeafPath.of((field,)), columns[field.id], rows)
        return merge_columns(field, [column], rows.num_rows)
    leaves = [
        _read_leaf(LeafPath.of(fields), columns[fields[-1].id], rows)
        for fields in paths(field)
        if fields[-1].id in columns
    ]
    arrays = yield from side_by_side(leaves)
    return merge_columns(field, arrays, rows.num_rows)


def _read_leaf(path: LeafPath, column: EncodedColumn, rows: RowRanges) -> FieldReads:
    """The path arrays of one column, one chunk per page."""
    slots = path.slots_per_row
    if len(column.pages) == 1 and slots == 1 and rows.num_rows:
        only = column.pages[0]
        if only.num_rows != column.num_rows:
            raise CorruptFileError(f"the pages hold {only.num_rows} rows of {column.num_rows}", column=column.index)
        found = yield from _read_run(column, [0], [_page(only, only.num_rows, path)], rows)
        return pa.chunked_array(found, path.data_type)
    lengths = np.array([page.num_rows for page in column.pages], np.int64)
    if slots > 1 and bool((lengths % slots).any()):
        raise CorruptFileError("the length of a page is no number of rows", column=column.index)
    lengths //= slots
    ends = np.cumsum(lengths)
    num_rows = int(ends[-1]) if len(ends) else 0
    if num_rows != column.num_rows:
        raise CorruptFileError(f"the pages hold {num_rows} rows of {column.num_rows}", column=column.index)
    touched, sizes = _touched(column, lengths, ends, rows)
    reads = []
    for run in _runs(column, touched, sizes, path):
        start, stop = int(ends[run[0]] - lengths[run[0]]), int(ends[run[-1]])
        pages = [_page(column.pages[number], int(lengths[number]), path) for number in run]
        reads.append(_read_run(column, run, pages, rows.within(start, stop)))
    arrays = yield from side_by_side(reads)
    return pa.chunked_array([array for run in arrays for array in run], path.data_type)


def _page(page: EncodedPage, num_rows: int, path: LeafPath) -> Page:
    return Page(tuple(size for _, size in page.buffers), num_rows, path)


def _runs(
    column: EncodedColumn, touched: Sequence[int], touched_bytes: Sequence[int], path: LeafPath
) -> list[list[int]]:
    """Runs of consecutive pages that can be decoded together, by their indices."""
    runs: list[list[int]] = []
    before: PageLayout | None = None
    num_rows = num_bytes = 0
    # An Arrow dictionary array has the dictionary of one page.
    can_join = path.slots_per_row == 1 and not pa.types.is_dictionary(path.nodes[0].data_type)
    for number, size in zip(touched, touched_bytes, strict=True):
        page = column.pages[number]
        num_rows, num_bytes = num_rows + page.num_rows, num_bytes + size
        layout = _layout(column, number)
        small = num_rows <= MAX_RUN_ROWS and num_bytes <= MAX_RUN_BYTES and can_join
        follows = small and before is not None and runs[-1][-1] == number - 1
        if follows and before is not None and isinstance(layout, JoinablePageLayout) and layout.joins(before):
            runs[-1].append(number)
        else:
            runs.append([number])
            num_rows, num_bytes = page.num_rows, size
        before = layout
    return runs


def _touched(
    column: EncodedColumn, lengths: Int64Array, ends: Int64Array, rows: RowRanges
) -> tuple[list[int], list[int]]:
    """(indices of the pages with any of `rows`, approximate bytes of each to decode)."""
    sizes = np.array([sum(size for _, size in page.buffers) for page in column.pages], np.int64)
    if rows.is_all(column.num_rows):
        touched = np.flatnonzero(lengths)
        return touched.tolist(), sizes[touched].tolist()
    if len(rows.starts) == 0:
        return [], []
    starts = ends - lengths
    wanted = _rows_before(rows, ends) - _rows_before(rows, starts)
    num_ranges = np.searchsorted(rows.starts, ends) - np.searchsorted(rows.stops, starts, "right")
    needed = np.minimum(sizes, sizes * wanted // np.maximum(lengths, 1) + num_ranges * CHUNK_BYTES)
    touched = np.flatnonzero(wanted)
    return touched.tolist(), needed[touched].tolist()


def _rows_before(rows: RowRanges, places: Int64Array) -> Int64Array:
    """The number of `rows` before each of `places`."""
    lengths = rows.stops - rows.starts
    counted = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    done = np.searchsorted(rows.stops, places, "right")
    inside = np.minimum(done, len(lengths) - 1)
    open_rows = np.clip(places - rows.starts[inside], 0, lengths[inside])
    result: Int64Array = counted[done] + np.where(done < len(lengths), open_rows, 0)
    return result


def _layout(column: EncodedColumn, number: int) -> PageLayout:
    page = column.pages[number]
    try:
        return parse_page(page.type_url, page.message)
    except CorruptFileError as error:
        error.at(column=column.index, page=number)
        raise


def _read_run(
    column: EncodedColumn, numbers: list[int], pages: list[Page], rows: RowRanges
) -> Generator[list[FileRange], list[pa.Buffer], list[pa.Array]]:
    """The path arrays of pages that are read together; errors get their location."""
    layouts = [_layout(column, number) for number in numbers]
    first = layouts[0]
    try:
        if len(pages) > 1 and isinstance(first, JoinablePageLayout):
            reads = first.read_run(layouts, pages, rows)
        else:
            reads = first.read(pages[0], rows)
        array = yield from _located(reads, [column.pages[number] for number in numbers])
        if len(array) != rows.num_rows:
            raise CorruptFileError(f"{len(array)} rows where the page has {rows.num_rows}")
    except CorruptFileError as error:
        if len(numbers) == 1:
            error.at(column=column.index, page=numbers[0])
            raise
    else:
        return [array]
    # One by one, so that the error names its page; or the pages are valid and only too large to be read together.
    return (yield from _read_one_by_one(column, numbers, pages, rows))


def _read_one_by_one(
    column: EncodedColumn, numbers: list[int], pages: list[Page], rows: RowRanges
) -> Generator[list[FileRange], list[pa.Buffer], list[pa.Array]]:
    arrays = []
    start = 0
    for number, page in zip(numbers, pages, strict=True):
        wanted = rows.within(start, start + page.num_rows)
        start += page.num_rows
        if wanted.num_rows:
            arrays += yield from _read_run(column, [number], [page], wanted)
    return arrays


def _located(
    reads: Reads[pa.Array], pages: Sequence[EncodedPage]
) -> Generator[list[FileRange], list[pa.Buffer], pa.Array]:
    """Runs a page's coroutine and translates its requests into file ranges."""
    try:
        requests = next(reads)
        while True:
            ranges = [
                request if isinstance(request, FileRange) else pages[request.page].locate(request)
                for request in requests
            ]
            requests = reads.send((yield ranges))
    except StopIteration as stop:
        array: pa.Array = stop.value
        return array
