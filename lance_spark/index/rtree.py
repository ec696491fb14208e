"""RTREE: the bounding box of each geometry.

``page_data.lance`` has the columns `bbox` and `id`: first an item for each row whose geometry has a place, in leaf
pages of `page_size` items, then the boxes of these pages, level by level up to the root. ``nulls.lance`` has the null
rows. Rows whose boxes meet the one of a geometry are a superset of the rows that intersect it.

Only the items of rows are read: they are kept in memory, and compared all at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.expr.geo.nodes import Intersects
from lance_spark.expr.nodes import And, Column, Expr, Or
from lance_spark.index.base import Fit, Predicate, ScalarIndex, SearchResult
from lance_spark.index.files import IndexFile, IndexFiles, require_no_nulls
from lance_spark.index.row_set import RowSet
from lance_spark.index.shapes import null_test
from lance_spark.layouts.base import RowRanges

PAGE_FILE, NULL_FILE = "page_data.lance", "nulls.lance"
PAGE_SIZE = 4096
BOX_TYPE = pa.struct([pa.field(name, pa.float64(), nullable=False) for name in ("xmin", "ymin", "xmax", "ymax")])
Boxes = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Items:
    """The rows of a segment whose geometries have a place.

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
        items = read_items(self._files)
        return SearchResult(RowSet.of_numbers(items.ids[_meeting(predicate.expr, items.boxes)]), is_exact=False)


def read_items(files: IndexFiles) -> Items:
    """The items of a segment's rows.

    Raises:
        LanceError: the file is missing or broken.
    """
    file = files.open(PAGE_FILE)
    return files.kept(PAGE_FILE, "boxes", lambda: _load(file))


def read_nulls(files: IndexFiles, fragment_rows: dict[int, int]) -> RowSet:
    """The null rows of a segment. Raises as `read_items`."""
    file = files.open(NULL_FILE)
    (cells,) = file.columns({"nulls": pa.binary()})
    require_no_nulls(file, [cells])
    if len(cells) != 1:
        raise file.damaged(f"there are {len(cells)} sets of null rows")
    return RowSet.of_address_map(cells[0].as_py(), fragment_rows)


def _load(file: IndexFile) -> tuple[Items, int]:
    text = file.metadata.get("num_items", "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 19 else -1
    if not 0 <= number <= file.num_rows or bool(number) is not bool(file.num_rows):
        raise file.damaged(f"num_items is {text!r}, and there are {file.num_rows} items")
    if not number:
        return Items(np.empty((0, 4)), np.empty(0, np.uint64)), 0
    rows = RowRanges(np.array([0], np.int64), np.array([number], np.int64))
    found, ids = file.columns({"bbox": BOX_TYPE, "id": pa.uint64()}, rows)
    require_no_nulls(file, [found, ids])
    boxes = np.stack([found.field(name).to_numpy() for name in ("xmin", "ymin", "xmax", "ymax")], axis=1)
    items = Items(boxes, ids.to_numpy())
    if len(np.unique(items.ids)) != number:
        raise file.damaged("a row has several boxes")
    return items, boxes.nbytes + items.ids.nbytes


def _is_answered(expr: Expr) -> bool:
    if isinstance(expr, (And, Or)):
        answered = [_is_answered(term) for term in expr.terms]
        return any(answered) if isinstance(expr, And) else all(answered)
    return isinstance(expr, Intersects) and isinstance(expr.value, Column)


def _meeting(expr: Expr, boxes: Boxes) -> npt.NDArray[np.bool_]:
    """bool[n]: which boxes can be those of geometries for which a condition is TRUE."""
    if isinstance(expr, (And, Or)):
        terms = [_meeting(term, boxes) for term in expr.terms if _is_answered(term)]
        met: npt.NDArray[np.bool_] = (np.logical_and if isinstance(expr, And) else np.logical_or).reduce(terms)
        return met
    assert isinstance(expr, Intersects)
    x_min, y_min, x_max, y_max = expr.geometry.shape.box()
    # A box that is not a number can be anywhere.
    apart = (boxes[:, 0] > x_max) | (boxes[:, 2] < x_min) | (boxes[:, 1] > y_max) | (boxes[:, 3] < y_min)
    return ~apart
