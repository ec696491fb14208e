"""Builds RTREE segments; `index.rtree` describes the files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_spark.errors import InvalidInputError
from lance_spark.expr.geo.geos import boxes, is_geometry
from lance_spark.index.builders.base import IndexBuilder, IndexedRows, OldSegment, UInt64Array
from lance_spark.index.builders.output import SegmentOutput
from lance_spark.index.files import IndexFiles
from lance_spark.index.row_set import address_maps
from lance_spark.index.rtree import (
    BOX_TYPE,
    NULL_FILE,
    PAGE_FILE,
    PAGE_SIZE,
    Boxes,
    RTreeIndex,
    read_items,
    read_nulls,
    read_tree,
    united,
)

_GRID_BITS = 16


class RTreeBuilder(IndexBuilder):
    """RTREE. `page_size` is the number of boxes of a page."""

    index_type = RTreeIndex
    defaults: ClassVar[Mapping[str, object]] = {"page_size": PAGE_SIZE}

    @classmethod
    def _value(cls, name: str, value: object) -> object:
        number = super()._value(name, value)
        if number == 1:
            raise InvalidInputError("page_size of RTREE is 1, with which no page has two below it; use 2 or more")
        return number

    @classmethod
    def supports(cls, dtype: pa.DataType) -> bool:
        return is_geometry(dtype)

    @classmethod
    def parameters_of(cls, details: bytes, files: IndexFiles) -> dict[str, object]:
        return {"page_size": files.open(PAGE_FILE).positive_number("page_size", PAGE_SIZE)}

    @classmethod
    def statistics(cls, files: IndexFiles, dtype: pa.DataType) -> dict[str, object]:
        file = files.open(PAGE_FILE)
        return {"num_pages": int(file.metadata.get("num_pages", "0")), "num_items": read_tree(files).num_items}

    def train(self, rows: IndexedRows, output: SegmentOutput) -> None:
        self.merge([], rows, output)

    def merge(self, old: Sequence[OldSegment], rows: IndexedRows, output: SegmentOutput) -> None:
        found = boxes(rows.values)
        is_null = rows.values.is_null().to_numpy(zero_copy_only=False)
        # Geometries without a place have none in the tree.
        has_place = found[:, 0] <= found[:, 2]
        all_boxes, ids, nulls = [found[has_place]], [rows.ids[has_place]], [rows.ids[is_null]]
        for segment in old:
            items = read_items(segment.files)
            kept, new_ids = segment.mapping(items.ids)
            all_boxes.append(items.boxes[kept])
            ids.append(new_ids)
            nulls.append(segment.mapping(read_nulls(segment.files, dict(segment.fragment_rows)).numbers())[1])
        self._write(np.concatenate(all_boxes), np.concatenate(ids), output)
        _write_nulls(np.unique(np.concatenate(nulls)), output)

    def _write(self, items: Boxes, ids: UInt64Array, output: SegmentOutput) -> None:
        size = self.parameters["page_size"]
        assert isinstance(size, int), "parameters are checked"
        order = np.argsort(_curve_places(items), kind="stable")
        levels = [(items[order], ids[order])]
        num_pages = -(-len(items) // size)
        above = num_pages
        first_page = 0
        while above > 1:
            below = levels[-1][0]
            numbers = np.arange(first_page, first_page + above, dtype=np.uint64)
            levels.append((united(below, size), numbers))
            first_page, above = first_page + above, -(-above // size)
            num_pages += above
        whole = united(items, len(items))[0] if len(items) else np.zeros(4)
        metadata = {
            "page_size": str(size),
            "num_pages": str(num_pages),
            "num_items": str(len(items)),
            "bbox": _box_text(whole),
        }
        output.write(PAGE_FILE, _page_table(levels), metadata)


def _page_table(levels: Sequence[tuple[Boxes, UInt64Array]]) -> pa.Table:
    joined = np.concatenate([level[0] for level in levels])
    sides = [pa.array(np.ascontiguousarray(joined[:, side])) for side in range(4)]
    fields = [
        pa.field("bbox", BOX_TYPE, nullable=False, metadata={"ARROW:extension:name": "geoarrow.box"}),
        pa.field("id", pa.uint64(), nullable=False),
    ]
    columns = [
        pa.StructArray.from_arrays(sides, fields=list(BOX_TYPE)),
        pa.array(np.concatenate([level[1] for level in levels]), pa.uint64()),
    ]
    return pa.table(columns, schema=pa.schema(fields))


def _write_nulls(ids: UInt64Array, output: SegmentOutput) -> None:
    cell = pa.array(address_maps(ids, [0, len(ids)]), pa.binary())
    output.write(NULL_FILE, pa.table([cell], schema=pa.schema([pa.field("nulls", pa.binary(), nullable=False)])), {})


def _box_text(box: npt.NDArray[np.float64]) -> str:
    named = dict(zip(("minx", "miny", "maxx", "maxy"), box.tolist(), strict=True))
    return json.dumps(named, separators=(",", ":"))


def _curve_places(items: Boxes) -> npt.NDArray[np.uint64]:
    """uint64[n]: where the middle of each box is on a Hilbert curve over all of them: near places, near numbers."""
    if not len(items):
        return np.empty(0, np.uint64)
    middles = items[:, :2] / 2 + items[:, 2:] / 2
    lows = middles.min(axis=0)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scaled = (middles / 2 - lows / 2) / (middles.max(axis=0) / 2 - lows / 2)
    grid = (np.nan_to_num(scaled) * ((1 << _GRID_BITS) - 1)).astype(np.int64)
    return _hilbert(grid[:, 0], grid[:, 1])


def _hilbert(x: npt.NDArray[np.int64], y: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """The number of each cell along the curve.

    >>> _hilbert(np.array([0, 1, 1, 0]), np.array([0, 0, 1, 1])).tolist()
    [0, 1, 2, 3]
    """
    place = np.zeros(len(x), np.int64)
    side = 1 << (_GRID_BITS - 1)
    while side:
        right, upper = (x & side) > 0, (y & side) > 0
        place += side * side * ((3 * right) ^ upper)
        mirrored = right & ~upper
        x, y = np.where(mirrored, side - 1 - (x & (side - 1)), x), np.where(mirrored, side - 1 - (y & (side - 1)), y)
        x, y = np.where(upper, x, y), np.where(upper, y, x)
        side >>= 1
    return place.astype(np.uint64)
