"""RTREE: the bounding box of each geometry.

``page_data.lance`` has the columns `bbox` and `id`: first an item for each row whose geometry has a place, in leaf
pages of `page_size` items, then the boxes of these pages, level by level up to the root. ``nulls.lance`` has the null
rows. Rows whose boxes meet the one of a geometry are a superset of the rows that intersect it.

A search reads the boxes above the items once, and then the leaf pages whose boxes meet that of the geometry. Each page
box must be exactly the box around what is below it: a wrong one is found when its page is read, and, as far as it
changes the box above it, before.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.expr.geo.nodes import Related
from lance_spark.expr.nodes import And, Column, Expr, Or
from lance_spark.index.base import Fit, Predicate, ScalarIndex, SearchResult
from lance_spark.index.files import IndexFile, IndexFiles, require_no_nulls
from lance_spark.index.row_set import RowSet
from lance_spark.index.shapes import null_test
from lance_spark.layouts.base import RowRanges

PAGE_FILE, NULL_FILE = "page_data.lance", "nulls.lance"
PAGE_SIZE = 4096
BOX_TYPE = pa.struct([pa.field(name, pa.float64(), nullable=False) for name in ("xmin", "ymin", "xmax", "ymax")])
_SIDES = ("minx", "miny", "maxx", "maxy")
Boxes = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Items:
    """Rows of a segment whose geometries have a place.

    Attributes:
        boxes: float64[n, 4].
        ids: uint64[n].
    """

    boxes: Boxes
    ids: npt.NDArray[np.uint64]


class RTreeIndex(ScalarIndex):
    """A segment of an RTREE index."""

    type_name = "RTREE"
    type_url = "/lance.index.pb.RTreeIndexDetails"
    max_version = 0
    keeps_old_values = True

    @classmethod
    def holds_row_ids(cls, version: int) -> bool:
        return version < 1

    @classmethod
    def fit(cls, predicate: Predicate) -> Fit:
        if null_test(predicate.expr) is not None:
            return Fit.EXACT
        return Fit.SUPERSET if _is_answered(predicate.expr) else Fit.NONE

    def search(self, predicate: Predicate) -> SearchResult | None:
        is_null = null_test(predicate.expr)
        if is_null is not None:
            return SearchResult(read_nulls(self._files, dict(self._coverage.fragment_rows)), is_complement=not is_null)
        file = self._files.open(PAGE_FILE)
        tree = read_tree(self._files)
        pages = np.flatnonzero(_meeting(predicate.expr, tree.boxes)).tolist()
        found = self._files.kept_parts(PAGE_FILE, "box page", pages, partial(_load_pages, file, tree)) if pages else []
        ids = [page.ids[_meeting(predicate.expr, page.boxes)] for page in found]
        return SearchResult(RowSet.of_numbers(np.concatenate([np.empty(0, np.uint64), *ids])), is_exact=False)


@dataclass(frozen=True, slots=True)
class Tree:
    """The leaf pages of a segment.

    Attributes:
        page_size: items of a page; the last one can have fewer.
        num_items: items of all pages.
        boxes: float64[n, 4]: the box around each page.
    """

    page_size: int
    num_items: int
    boxes: Boxes

    def rows_of(self, page: int) -> tuple[int, int]:
        """The rows [start, stop) of a page."""
        return page * self.page_size, min((page + 1) * self.page_size, self.num_items)


def read_tree(files: IndexFiles) -> Tree:
    """The leaf pages of a segment.

    Raises:
        LanceError: the file is missing or broken.
    """
    file = files.open(PAGE_FILE)
    return files.kept(PAGE_FILE, "page boxes", lambda: _load_tree(file))


def read_items(files: IndexFiles) -> Items:
    """The items of all of a segment's rows. Raises as `read_tree`."""
    file = files.open(PAGE_FILE)
    items = _read(file, [(0, read_tree(files).num_items)])
    if len(np.unique(items.ids)) != len(items.ids):
        raise file.damaged("a row has several boxes")
    return items


def united(boxes: Boxes, size: int) -> Boxes:
    """The box around each `size` boxes; numbers win over NaN."""
    starts = np.arange(0, len(boxes), size)
    lows, highs = np.fmin.reduceat(boxes[:, :2], starts), np.fmax.reduceat(boxes[:, 2:], starts)
    return np.concatenate([lows, highs], axis=1)


def read_nulls(files: IndexFiles, fragment_rows: dict[int, int]) -> RowSet:
    """The null rows of a segment. Raises as `read_items`."""
    file = files.open(NULL_FILE)
    (cells,) = file.columns({"nulls": pa.binary()})
    require_no_nulls(file, [cells])
    if len(cells) != 1:
        raise file.damaged(f"there are {len(cells)} sets of null rows")
    return RowSet.of_address_map(cells[0].as_py(), fragment_rows)


def _load_tree(file: IndexFile) -> tuple[Tree, int]:
    text = file.metadata.get("num_items", "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1
    size = file.positive_number("page_size", PAGE_SIZE)
    counts = _branch_counts(number, size)
    if number < 0 or number + sum(counts) != file.num_rows:
        raise file.damaged(f"num_items is {text!r}, and there are {file.num_rows} boxes with those of the pages")
    if not counts:
        # One page, which is read with its first use.
        return Tree(size, number, np.array([[-np.inf, -np.inf, np.inf, np.inf]] if number else []).reshape(-1, 4)), 0
    branches = _read(file, [(number, file.num_rows)])
    if not np.array_equal(branches.ids, np.arange(len(branches.ids), dtype=np.uint64)):
        raise file.damaged("the pages are not numbered in order")
    levels = np.split(branches.boxes, np.cumsum(counts)[:-1])
    for below, above in pairwise(levels):
        _require_around(file, below, size, above)
    _require_around(file, levels[-1], size, _whole_box(file))
    return Tree(size, number, levels[0]), levels[0].nbytes


def _branch_counts(num_items: int, size: int) -> list[int]:
    """The boxes of each level above the items; the root, if it is not the only page, has one box for each child."""
    counts: list[int] = []
    count = num_items
    while size > 1 and count > size:
        count = -(-count // size)
        counts.append(count)
    return counts


def _whole_box(file: IndexFile) -> Boxes | None:
    """The box around all items; None if the file does not name it."""
    try:
        named = json.loads(file.metadata.get("bbox", "null"))
        # A side that is no finite number has no form in JSON.
        is_known = named is not None and None not in (sides := [named[side] for side in _SIDES])
        return np.array([sides], np.float64) if is_known else None
    except (ValueError, TypeError, KeyError) as error:
        raise file.damaged(f"its box is {file.metadata.get('bbox')!r}") from error


def _require_around(file: IndexFile, below: Boxes, size: int, above: Boxes | None) -> None:
    """Nothing, if `above` are the boxes around each `size` of some boxes."""
    if above is not None and not np.array_equal(united(below, size), above, equal_nan=True):
        raise file.damaged("a page is not as large as what is in it")


def _load_pages(file: IndexFile, tree: Tree, numbers: Sequence[int]) -> list[tuple[Items, int]]:
    """Some leaf pages, ascending, and the bytes that each takes."""
    bounds = [tree.rows_of(page) for page in numbers]
    items = _read(file, bounds)
    found = []
    first = 0
    for page, (start, stop) in zip(numbers, bounds, strict=True):
        part = slice(first, first + stop - start)
        # A copy: a slice would keep all pages that were read with it.
        own = Items(items.boxes[part].copy(), items.ids[part].copy())
        if len(tree.boxes) > 1:
            _require_around(file, own.boxes, tree.page_size, tree.boxes[page : page + 1])
        found.append((own, own.boxes.nbytes + own.ids.nbytes))
        first += stop - start
    return found


def _read(file: IndexFile, ranges: Sequence[tuple[int, int]]) -> Items:
    """The boxes and ids at ranges [start, stop) of rows."""
    starts, stops = np.array(ranges, np.int64).T
    found, ids = file.columns({"bbox": BOX_TYPE, "id": pa.uint64()}, RowRanges(starts, stops))
    require_no_nulls(file, [found, ids])
    boxes = np.stack([found.field(name).to_numpy() for name in ("xmin", "ymin", "xmax", "ymax")], axis=1)
    return Items(boxes, ids.to_numpy())


def _is_answered(expr: Expr) -> bool:
    if isinstance(expr, (And, Or)):
        answered = [_is_answered(term) for term in expr.terms]
        return any(answered) if isinstance(expr, And) else all(answered)
    return isinstance(expr, Related) and isinstance(expr.value, Column)


def _meeting(expr: Expr, boxes: Boxes) -> npt.NDArray[np.bool_]:
    """bool[n]: which boxes can be those of geometries for which a condition is TRUE."""
    if isinstance(expr, (And, Or)):
        terms = [_meeting(term, boxes) for term in expr.terms if _is_answered(term)]
        met: npt.NDArray[np.bool_] = (np.logical_and if isinstance(expr, And) else np.logical_or).reduce(terms)
        return met
    assert isinstance(expr, Related)
    x_min, y_min, x_max, y_max = expr.geometry.shape.box()
    # A box that is not a number can be anywhere.
    apart = (boxes[:, 0] > x_max) | (boxes[:, 2] < x_min) | (boxes[:, 1] > y_max) | (boxes[:, 3] < y_min)
    return ~apart
