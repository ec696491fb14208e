"""Builds ZONEMAP segments; `index.zone_map` describes the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lance_spark._proto import index_pb2
from lance_spark.index.builders.sorting import is_sortable, total_order_keys
from lance_spark.index.builders.zone_rows import ROWS_PER_ZONE, ZoneBuilder, Zones, nulls_before
from lance_spark.index.files import IndexFiles
from lance_spark.index.zone_map import ZONE_FILE, ZoneMapIndex

_WIDE = 8
"""Values of more bytes are wide."""


class ZoneMapBuilder(ZoneBuilder):
    """ZONEMAP. `rows_per_zone` is the number of rows of a zone."""

    index_type = ZoneMapIndex
    defaults: ClassVar[Mapping[str, object]] = {"rows_per_zone": ROWS_PER_ZONE}
    file_name = ZONE_FILE

    @classmethod
    def supports(cls, dtype: pa.DataType) -> bool:
        return is_sortable(dtype)

    @classmethod
    def parameters_of(cls, details: bytes, files: IndexFiles) -> dict[str, object]:
        known = index_pb2.ZoneMapIndexDetails.FromString(details).rows_per_zone
        return {"rows_per_zone": known or files.open(ZONE_FILE).positive_number("rows_per_zone", ROWS_PER_ZONE)}

    @classmethod
    def statistics(cls, files: IndexFiles, dtype: pa.DataType) -> dict[str, object]:
        file = files.open(ZONE_FILE)
        return {"num_zones": file.num_rows, "rows_per_zone": file.positive_number("rows_per_zone", ROWS_PER_ZONE)}

    def details(self) -> bytes:
        is_narrow = not _is_bytes(self.dtype) and self.dtype.bit_width <= _WIDE * 8
        message = index_pb2.ZoneMapIndexDetails(
            rows_per_zone=self.rows_per_zone, use_seeds=not is_narrow, has_null_bitmap=True
        )
        return message.SerializeToString(deterministic=True)

    @property
    def rows_per_zone(self) -> int:
        return int(str(self.parameters["rows_per_zone"]))

    @property
    def file_metadata(self) -> dict[str, str]:
        return {"rows_per_zone": str(self.rows_per_zone)}

    def summarized(self, values: pa.Array, zones: Zones) -> pa.Table:
        lows, highs, nan_counts = _bounds(values, zones.starts.tolist(), zones.stops.tolist())
        null_counts = nulls_before(values, zones.stops) - nulls_before(values, zones.starts)
        fields = [
            pa.field("min", self.dtype),
            pa.field("max", self.dtype),
            pa.field("null_count", pa.uint32(), nullable=False),
            pa.field("nan_count", pa.uint32(), nullable=False),
        ]
        columns = [
            lows,
            highs,
            pa.array(null_counts.astype(np.uint32)),
            pa.array(np.array(nan_counts, np.uint32)),
        ]
        return zones.appended_to(pa.table(columns, schema=pa.schema(fields)))


def _is_bytes(dtype: pa.DataType) -> bool:
    return bool(pt.is_string(dtype) or pt.is_large_string(dtype) or pt.is_binary(dtype) or pt.is_large_binary(dtype))


def _bounds(values: pa.Array, starts: list[int], stops: list[int]) -> tuple[pa.Array, pa.Array, list[int]]:
    """(smallest values, largest values, numbers of NaN) of ranges of values; nulls have no part in them."""
    dtype = values.type
    if pt.is_floating(dtype):
        return _float_bounds(values, starts, stops)
    if pt.is_temporal(dtype):
        # As integers: Python's times have no nanoseconds.
        lows, highs, nan_counts = _bounds(
            values.view(pa.int32() if dtype.bit_width == 32 else pa.int64()), starts, stops
        )
        return lows.view(dtype), highs.view(dtype), nan_counts
    if pt.is_integer(dtype) and not values.null_count:
        # Arrow compares numbers one by one, numpy as vectors.
        numbers = total_order_keys(values)
        pieces = [numbers[start:stop] for start, stop in zip(starts, stops, strict=True)]
        least, greatest = ([getattr(piece, name)() for piece in pieces] for name in ("min", "max"))
        return pa.array(least, dtype), pa.array(greatest, dtype), [0] * len(pieces)
    none = pa.scalar(None, dtype)
    found = [
        # As in the reference library, binaries of a fixed size have no bounds.
        (none, none) if pt.is_fixed_size_binary(dtype) else _min_max(values.slice(start, stop - start))
        for start, stop in zip(starts, stops, strict=True)
    ]
    lows, highs = (pa.array([pair[side].as_py() for pair in found], dtype) for side in (0, 1))
    return lows, highs, [0] * len(found)


def _min_max(values: pa.Array) -> tuple[pa.Scalar, pa.Scalar]:
    both = pc.min_max(values)
    return both["min"], both["max"]


def _float_bounds(values: pa.Array, starts: list[int], stops: list[int]) -> tuple[pa.Array, pa.Array, list[int]]:
    """Bounds in total order without NaN; the upper one is NaN where there is any."""
    keys = total_order_keys(values)
    known = values.is_valid().to_numpy(zero_copy_only=False)
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    is_nan = np.isnan(numbers) & known
    is_number = known & ~is_nan
    nan = float("nan")
    lows: list[object] = []
    highs: list[object] = []
    nan_counts = []
    for start, stop in zip(starts, stops, strict=True):
        places = np.flatnonzero(is_number[start:stop]) + start
        nan_counts.append(int(is_nan[start:stop].sum()))
        lows.append(numbers[places[np.argmin(keys[places])]] if len(places) else None)
        high = numbers[places[np.argmax(keys[places])]] if len(places) else None
        highs.append(nan if nan_counts[-1] else high)
    return pa.array(lows, values.type), pa.array(highs, values.type), nan_counts
