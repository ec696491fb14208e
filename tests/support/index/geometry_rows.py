"""Rows with geometries."""

from __future__ import annotations

import pyarrow as pa

from tests.index.comparisons import ID
from tests.support.expr.geometries import EXTENSION, path, wkb

WHERE = "ST_GeomFromText('POLYGON((0 0, 30 0, 30 30, 0 30, 0 0))')"


def rows(first: int, count: int) -> pa.Table:
    """Points as structs, and polygons, lines, empty lines and NULL as binary."""
    numbers = range(first, first + count)
    points = pa.StructArray.from_arrays(
        [pa.array([float(i % 97) for i in numbers]), pa.array([float(i * 7 % 50) for i in numbers])], ["x", "y"]
    )
    schema = pa.schema(
        [
            pa.field(ID, pa.int64()),
            pa.field("pt", points.type, metadata={**EXTENSION, "ARROW:extension:name": "geoarrow.point"}),
            pa.field("g", pa.binary(), metadata=EXTENSION),
        ]
    )
    return pa.table([pa.array(numbers, pa.int64()), points, pa.array(map(geometry, numbers))], schema=schema)


def geometry(number: int) -> bytes | None:
    x, y = float(number % 97), float(number * 7 % 50)
    special = {3: None, 4: wkb(2, path([])), 5: wkb(2, path([(x, y), (x + 1, y)]))}
    ring = [(x, y), (x + 2, y), (x + 2, y + 3), (x, y)]
    return special.get(number % 20, wkb(3, path(ring)))
