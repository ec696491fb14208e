"""Geometries as WKB."""

from __future__ import annotations

import random
import struct

import pyarrow as pa

EXTENSION = {"ARROW:extension:name": "geoarrow.wkb", "ARROW:extension:metadata": "{}"}


Path2 = list[tuple[float, float]]


def path(points: Path2, order: str = "<") -> bytes:
    return struct.pack(f"{order}I{2 * len(points)}d", len(points), *(number for point in points for number in point))


def wkb(kind: int, *parts: bytes) -> bytes:
    """A collection or polygon of parts, a line of one part, a point."""
    count = struct.pack("<I", len(parts)) if kind > 2 else b""
    return struct.pack("<BI", 1, kind) + count + b"".join(parts)


def point(x: float, y: float) -> bytes:
    return wkb(1, struct.pack("<dd", x, y))


def random_geometry(rng: random.Random) -> bytes:
    def at() -> tuple[float, float]:
        return float(rng.randint(0, 12)), float(rng.randint(0, 12))

    def box() -> bytes:
        (x, y), size = at(), rng.randint(3, 9)
        outer = [(x, y), (x + size, y), (x + size, y + size), (x, y + size), (x, y)]
        hole = [
            (x + 1, y + 1),
            (x + 1, y + size - 1),
            (x + size - 1, y + size - 1),
            (x + size - 1, y + 1),
            (x + 1, y + 1),
        ]
        return wkb(3, path(outer), path(hole)) if rng.random() < 0.5 else wkb(3, path(outer))

    def line() -> bytes:
        start = at()
        return wkb(2, path([start, (start[0] + rng.randint(1, 5), start[1] + rng.randint(0, 5)), (13.0, 1.0)]))

    kinds = [
        lambda: point(*at()),
        line,
        box,
        lambda: wkb(4, point(*at()), point(*at())),
        lambda: wkb(5, line(), line()),
        lambda: wkb(7, point(*at()), line()),
    ]
    return rng.choice(kinds)()


def geometries(values: list[bytes | None]) -> pa.Table:
    schema = pa.schema([pa.field("id", pa.int64()), pa.field("g", pa.binary(), metadata=EXTENSION)])
    return pa.table([pa.array(range(len(values))), pa.array(values, pa.binary())], schema=schema)
