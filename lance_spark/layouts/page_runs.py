"""Pages of leaves that are decoded together.

Decoding a page costs some fifty calls, whatever it holds, and the pages of lists, of small files and of wide tables are
small. So pages of one layout are decoded one behind the other as one: pages of a column (a *run*), and runs of columns
of the same type (a *group*). The array of a group is cut into those of its runs, which share its memory.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lance_spark.cached import cached_property
from lance_spark.encodings.blocks import Int64Array
from lance_spark.errors import CorruptFileError
from lance_spark.kernels.jit import address_of
from lance_spark.kernels.touched_pages import touched_pages
from lance_spark.layouts.arrow_errors import DECODING_ERRORS, raise_corrupt
from lance_spark.layouts.base import (
    Answer,
    BufferSlices,
    EncodedColumn,
    EncodedPage,
    FieldsReads,
    FileRange,
    FileRequest,
    JoinablePageLayout,
    Page,
    PageLayout,
    PageRequest,
    Reads,
    RowRanges,
    side_by_side,
)
from lance_spark.layouts.path import LeafPath
from lance_spark.layouts.registry import parse_page

MAX_RUN_ROWS = 1 << 24
MAX_RUN_BYTES = 4 << 20
"""Maximum bytes decoded together, unless a single page is larger."""

CHUNK_BYTES = 4 << 10
"""Approximate cost of a single row in the middle of a page."""

_ArrayLists = Generator[list[FileRequest], list[Answer], list[list[pa.Array]]]


class Leaf:
    """A leaf to read: its path, and its column in the file.

    Attributes:
        lengths: int64[pages], the rows of each page.
        ends: int64[pages], the rows up to the end of each page.
        sizes: int64[pages], the bytes of each page.

    Raises:
        CorruptFileError: the pages do not hold as many rows as the file.
    """

    def __init__(self, path: LeafPath, column: EncodedColumn) -> None:
        self.path = path
        self.column = column
        lengths = [page.num_rows for page in column.pages]
        slots = path.slots_per_row
        if slots > 1:
            if any(length % slots for length in lengths):
                raise CorruptFileError("the length of a page is no number of rows", column=column.index)
            lengths = [length // slots for length in lengths]
        if sum(lengths) != column.num_rows:
            raise CorruptFileError(f"the pages hold {sum(lengths)} rows of {column.num_rows}", column=column.index)
        self.pages = [
            Page(tuple([size for _, size in page.buffers]), length, path)
            for page, length in zip(column.pages, lengths, strict=True)
        ]

    @cached_property
    def lengths(self) -> Int64Array:
        return np.array([page.num_rows for page in self.pages], np.int64)

    @cached_property
    def ends(self) -> Int64Array:
        return np.cumsum(self.lengths)

    @cached_property
    def sizes(self) -> Int64Array:
        return np.array([page.num_bytes for page in self.pages], np.int64)

    def layout(self, number: int) -> PageLayout:
        """The layout of a page.

        Raises:
            CorruptFileError: it cannot be parsed.
        """
        page = self.column.pages[number]
        try:
            return parse_page(page.type_url, page.message)
        except CorruptFileError as error:
            error.at(column=self.column.index, page=number)
            raise


@dataclass(slots=True)
class _Run:
    """Pages of a column of a file, in order; those between them have no wanted rows.

    Attributes:
        start: where the file begins, if several are read as one.
        column: the place of the leaf among those that are read.
        numbers: the indices of the pages in the column.
        pages, layouts: the pages, and the layout of each.
        key: pages of equal keys can be decoded together; None if this one cannot be with any other.
        rows: the wanted rows, numbered from the first row of the first page.
        num_wanted: how many they are.
        num_rows: rows of the pages.
        num_bytes: about how many bytes are decoded.
        arrays: the path arrays of the wanted rows, once they are read.
    """

    leaf: Leaf
    start: int
    column: int
    numbers: list[int]
    pages: list[Page]
    layouts: list[PageLayout]
    key: Hashable
    rows: RowRanges
    num_wanted: int
    num_rows: int
    num_bytes: int
    arrays: list[pa.Array] = field(default_factory=list)

    def encoded(self) -> list[EncodedPage]:
        """The pages as the metadata describes them."""
        return [self.leaf.column.pages[number] for number in self.numbers]


class Selection(NamedTuple):
    """Rows of the leaves of a file.

    Attributes:
        leaves: the leaves to read.
        rows: the rows of the file.
        start: where the file begins, if several are read as one.
    """

    leaves: Sequence[Leaf]
    rows: RowRanges
    start: int = 0


def read_leaves(files: Sequence[Selection]) -> FieldsReads:
    """The path arrays of each leaf: those of the wanted rows of all files, one file behind the other.

    Errors name their column and page.

    Args:
        files: at least one; the leaves of all of them have the same paths.

    Raises:
        CorruptFileError: the pages contradict the file or the format.
    """
    of_files = [(file, file.rows.num_rows) for file in files]
    columns = [
        [run for file, wanted in of_files for run in _runs(file, column, wanted)]
        for column in range(len(files[0].leaves))
    ]
    groups = _grouped([run for runs in columns for run in runs])
    reads = []
    for group in groups:
        column = group[0].column
        is_column = group[-1].column == column and len(group) == len(columns[column])
        reads.append(_read_group(group, is_column))
    found = yield from side_by_side(reads)
    for group, lists in zip(groups, found, strict=True):
        for run, arrays in zip(group, lists, strict=True):
            run.arrays = arrays
    return [
        pa.chunked_array([array for run in runs for array in run.arrays], leaf.path.data_type)
        for leaf, runs in zip(files[0].leaves, columns, strict=True)
    ]


def _runs(file: Selection, column: int, wanted: int) -> Iterator[_Run]:
    """The pages of a leaf with any of the `wanted` rows of a file, in runs that are decoded together."""
    leaf, rows = file.leaves[column], file.rows
    if len(leaf.pages) == 1 and wanted:
        page = leaf.pages[0]
        layout = leaf.layout(0)
        key = _key(leaf.path, layout, wanted, page.num_rows)
        needed = _needed(page, wanted, len(rows.starts))
        yield _Run(leaf, file.start, column, [0], leaf.pages, [layout], key, rows, wanted, page.num_rows, needed)
        return
    touched = _touched(leaf, rows)
    for run, layouts, key in _together(leaf, touched):
        numbers, num_wanted = touched.numbers[run], sum(touched.wanted[run])
        pages = [leaf.pages[number] for number in numbers]
        num_rows = sum([page.num_rows for page in pages])
        within = _rows_within(leaf, rows, touched, run, num_wanted)
        yield _Run(
            leaf, file.start, column, numbers, pages, layouts, key, within, num_wanted, num_rows,
            sum(touched.num_bytes[run]),
        )  # fmt: skip


def _key(path: LeafPath, layout: PageLayout, num_wanted: int, num_rows: int) -> Hashable:
    if path.shape is None:
        return None
    key = layout.join_key(num_wanted, num_rows)
    return None if key is None else (path.shape, key)


class _Touched(NamedTuple):
    """The pages of a leaf with any of some rows.

    Attributes:
        numbers: their indices.
        wanted: how many of the rows each has.
        num_bytes: approximate bytes of each to decode.
        bounds: where the ranges of rows of each page begin and those of the last one end; None if a range is in two.
        firsts: for each page, how many rows the touched pages before it have. None if a range is in two.
        starts, stops: int64[n], the ranges of rows, numbered from the first row of the first touched page as if these
            pages lay one behind the other. None if a range is in two.
    """

    numbers: list[int]
    wanted: list[int]
    num_bytes: list[int]
    bounds: list[int] | None = None
    firsts: list[int] | None = None
    starts: Int64Array | None = None
    stops: Int64Array | None = None


def _together(leaf: Leaf, touched: _Touched) -> Iterator[tuple[slice, list[PageLayout], Hashable]]:
    """(some of the pages, their layouts, their key) of pages that can be decoded together.

    Those of a run are consecutive, unless each range of rows is in one page.
    """
    may_skip = touched.bounds is not None
    layouts: list[PageLayout] = []
    first = num_rows = num_bytes = before = 0
    common: Hashable = None
    for place, (number, count, size) in enumerate(zip(touched.numbers, touched.wanted, touched.num_bytes, strict=True)):
        length, layout = leaf.pages[number].num_rows, leaf.layout(number)
        key = _key(leaf.path, layout, count, length)
        fits = num_rows + length <= MAX_RUN_ROWS and num_bytes + size <= MAX_RUN_BYTES
        if layouts and not (fits and key is not None and key == common and (may_skip or before == number - 1)):
            yield slice(first, place), layouts, common
            layouts, first, num_rows, num_bytes = [], place, 0, 0
        layouts.append(layout)
        num_rows, num_bytes, before, common = num_rows + length, num_bytes + size, number, key
    if layouts:
        yield slice(first, first + len(layouts)), layouts, common


def _rows_within(leaf: Leaf, rows: RowRanges, touched: _Touched, run: slice, num_wanted: int) -> RowRanges:
    """The part of `rows` in a run of pages, numbered from the first row of its first page."""
    if touched.starts is None or touched.stops is None or touched.bounds is None or touched.firsts is None:
        numbers = touched.numbers[run]
        return rows.within(int(leaf.ends[numbers[0]] - leaf.lengths[numbers[0]]), int(leaf.ends[numbers[-1]]))
    ranges = slice(touched.bounds[run.start], touched.bounds[run.stop])
    starts, stops, first = touched.starts[ranges], touched.stops[ranges], touched.firsts[run.start]
    return RowRanges(starts - first, stops - first, num_wanted) if first else RowRanges(starts, stops, num_wanted)


def _needed(page: Page, wanted: int, num_ranges: int) -> int:
    """About how many bytes of a page have to be decoded for some of its rows; not more than it has."""
    size = page.num_bytes
    return min(size, size * wanted // max(page.num_rows, 1) + num_ranges * CHUNK_BYTES)


def _touched(leaf: Leaf, rows: RowRanges) -> _Touched:
    lengths, ends, sizes = leaf.lengths, leaf.ends, leaf.sizes
    if rows.is_all(leaf.column.num_rows):
        touched = np.flatnonzero(lengths)
        return _Touched(touched.tolist(), lengths[touched].tolist(), sizes[touched].tolist())
    if len(rows.starts) == 0 or len(ends) == 0:
        return _Touched([], [], [])
    apart = _touched_apart(leaf, rows)
    if apart is not None:
        return apart
    starts = ends - lengths
    of_pages = _rows_before(rows, ends) - _rows_before(rows, starts)
    touched = np.flatnonzero(of_pages)
    wanted = of_pages[touched]
    before = np.searchsorted(rows.stops, starts[touched], "right")
    num_ranges = np.searchsorted(rows.starts, ends[touched]) - before
    of_page = sizes[touched]
    needed = np.minimum(of_page, of_page * wanted // np.maximum(lengths[touched], 1) + num_ranges * CHUNK_BYTES)
    return _Touched(touched.tolist(), wanted.tolist(), needed.tolist())


def _touched_apart(leaf: Leaf, rows: RowRanges) -> _Touched | None:
    """The pages with any of `rows`; None if a range is in two pages. Single rows never are."""
    num_ranges, num_pages = len(rows.starts), len(leaf.pages)
    tables = [np.ascontiguousarray(table) for table in (rows.starts, rows.stops, leaf.lengths, leaf.sizes)]
    starts, stops, lengths, sizes = map(address_of, tables)
    moved, found = np.empty((2, num_ranges), np.int64), np.empty((5, min(num_ranges, num_pages)), np.int64)
    count = touched_pages(
        starts, stops, num_ranges, lengths, sizes, num_pages, CHUNK_BYTES, address_of(moved), address_of(found),
        found.shape[1],
    )  # fmt: skip
    if count < 0:
        return None
    numbers, wanted, num_bytes, opens, firsts = found[:, :count].tolist()
    return _Touched(numbers, wanted, num_bytes, [*opens, num_ranges], firsts, *moved)


def _rows_before(rows: RowRanges, places: Int64Array) -> Int64Array:
    """The number of `rows` before each of `places`."""
    lengths = rows.stops - rows.starts
    counted = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    done = np.searchsorted(rows.stops, places, "right")
    inside = np.minimum(done, len(lengths) - 1)
    open_rows = np.clip(places - rows.starts[inside], 0, lengths[inside])
    result: Int64Array = counted[done] + np.where(done < len(lengths), open_rows, 0)
    return result


def _grouped(runs: Sequence[_Run]) -> list[list[_Run]]:
    """The runs in groups that are decoded together."""
    groups: list[list[_Run]] = []
    open_groups: dict[Hashable, tuple[list[_Run], int, int]] = {}
    for run in runs:
        num_rows, num_bytes = run.num_rows, run.num_bytes
        group, rows_before, bytes_before = open_groups.get(run.key, ([], 0, 0))
        if rows_before + num_rows > MAX_RUN_ROWS or bytes_before + num_bytes > MAX_RUN_BYTES:
            group, rows_before, bytes_before = [], 0, 0
        if not group:
            groups.append(group)
        group.append(run)
        if run.key is not None:
            open_groups[run.key] = group, rows_before + num_rows, bytes_before + num_bytes
    return groups


def _read_group(group: list[_Run], is_column: bool) -> _ArrayLists:
    """The path arrays of each run of a group.

    Args:
        is_column: the group is all runs of a column, whose array need not be cut.
    """
    pages = [page for run in group for page in run.pages]
    wanted = sum([run.num_wanted for run in group])
    try:
        first = group[0].layouts[0]
        if len(pages) > 1 and isinstance(first, JoinablePageLayout):
            reads = first.read_run([layout for run in group for layout in run.layouts], pages, _rows_of(group, wanted))
        else:
            reads = first.read(pages[0], group[0].rows)
        array = yield from _located(reads, [(page, run.start) for run in group for page in run.encoded()])
        if len(array) != wanted:
            raise CorruptFileError(f"{len(array)} rows where the page has {wanted}")
    except DECODING_ERRORS as error:
        if len(pages) == 1:
            raise_corrupt(error, column=group[0].leaf.column.index, page=group[0].numbers[0])
    else:
        return _cut(array, group, is_column)
    # One by one, so that the error names its page; or the pages are valid and only too large to be read together.
    return (yield from _read_each(group))


def _cut(array: pa.Array, group: Sequence[_Run], is_column: bool) -> list[list[pa.Array]]:
    if len(group) == 1:
        return [[array]]
    if is_column:
        return [[array], *([] for _ in group[1:])]
    arrays = []
    start = 0
    for run in group:
        arrays.append([array.slice(start, run.num_wanted)])
        start += run.num_wanted
    return arrays


def _rows_of(group: Sequence[_Run], wanted: int) -> RowRanges:
    """The wanted rows of a group, numbered from the first row of its first page."""
    if len(group) == 1:
        return group[0].rows
    num_rows = [run.num_rows for run in group]
    total = sum(num_rows)
    if wanted == total:
        return RowRanges.of(0, total)
    first_rows = np.array([0, *accumulate(num_rows[:-1])], np.int64)
    moves = np.repeat(first_rows, [len(run.rows.starts) for run in group])
    starts = np.concatenate([run.rows.starts for run in group]) + moves
    return RowRanges(starts, np.concatenate([run.rows.stops for run in group]) + moves)


def _read_each(group: Sequence[_Run]) -> _ArrayLists:
    lists: list[list[pa.Array]] = []
    for run in group:
        arrays = yield from _read_one_by_one(run)
        lists.append(arrays)
    return lists


def _read_one_by_one(run: _Run) -> Generator[list[FileRequest], list[Answer], list[pa.Array]]:
    arrays = []
    start = 0
    for number, page, layout in zip(run.numbers, run.pages, run.layouts, strict=True):
        rows = run.rows.within(start, start + page.num_rows)
        start += page.num_rows
        if wanted := rows.num_rows:
            alone = _Run(
                run.leaf, run.start, run.column, [number], [page], [layout], None, rows, wanted, page.num_rows, 0
            )  # fmt: skip
            [found] = yield from _read_group([alone], False)
            arrays += found
    return arrays


def _in_files(request: PageRequest, pages: Sequence[tuple[EncodedPage, int]]) -> FileRequest:
    if isinstance(request, BufferSlices):
        buffers = [(file_start, page.buffer(request.buffer)) for page, file_start in pages]
        positions = [file_start + position for file_start, (position, _) in buffers]
        return request.within_buffers(positions, [size for _, (_, size) in buffers])
    page, file_start = pages[0 if isinstance(request, FileRange) else request.page]
    start, length = request if isinstance(request, FileRange) else page.locate(request)
    return FileRange(file_start + start, length)


def _located(
    reads: Reads[pa.Array], pages: Sequence[tuple[EncodedPage, int]]
) -> Generator[list[FileRequest], list[Answer], pa.Array]:
    """Runs a page's coroutine and translates its requests into file ranges.

    Args:
        pages: each with the place where its file begins.
    """
    try:
        requests = next(reads)
        while True:
            requests = reads.send((yield [_in_files(request, pages) for request in requests]))
    except StopIteration as stop:
        array: pa.Array = stop.value
        return array
