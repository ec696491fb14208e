"""`st_intersects` in filters, compared with the reference library's scan."""

from __future__ import annotations

import random
import struct
import sys
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.expr.geo.geos import parse_wkt, related
from lance_spark.expr.geo.nodes import RELATIONS, TURNED
from lance_spark.expr.geo.shape import Shape, parse_wkb
from lance_spark.expr.sql.parse import parse
from tests.support.expr.geometries import geometries, path, point, random_geometry, wkb

AREA = "POLYGON((0 0, 2 0, 2 2, 0 2, 0 0))"
QUERIES = [
    "POINT(3 4)",
    "POINT Z (3 4 5)",
    "LINESTRING(0 0, 12 12)",
    "LINESTRING EMPTY",
    "MULTIPOINT((1 2), (5 6), (7 8))",
    "POLYGON((2 2, 9 2, 9 9, 2 9, 2 2), (4 4, 4 7, 7 7, 7 4, 4 4))",
    "MULTIPOLYGON(((0 0, 2 0, 2 2, 0 2, 0 0)), ((8 8, 12 8, 10.5 12, 8 8)))",
    "MULTILINESTRING((0 1, 0.3 0.1, 12 0), (5 5, 5 9))",
    "GEOMETRYCOLLECTION(POINT(3 4), LINESTRING(0 12, 12 0))",
    "POLYGON((0.1 0.1, 0.7 0.1, 0.7 0.7, 0.1 0.1))",
]


def holds(name: str, one: Shape, other: Shape) -> bool:
    (answer,) = related(name, [one], other).tolist()
    return answer is True


def intersects(one: Shape, other: Shape) -> bool:
    return holds("st_intersects", one, other)


@pytest.mark.slow
def test_intersecting_rows_are_those_of_pylance(tmp_path: Path) -> None:
    rng = random.Random(7)
    values = [None if place % 20 == 0 else random_geometry(rng) for place in range(200)]
    lance.write_dataset(geometries(values), str(tmp_path))
    reference, ours = lance.dataset(str(tmp_path)), lance_spark.open(str(tmp_path))
    for text in QUERIES:
        inner = f"st_intersects(g, st_geomfromtext('{text}'))"
        for query in (inner, f"NOT {inner}", f"St_Intersects(ST_GeomFromText('{text}'), g) AND id > 50"):
            expected = reference.to_table(columns=["id"], filter=query)["id"].to_pylist()
            assert ours.to_table(columns=["id"], filter=query)["id"].to_pylist() == expected, query
    constant = f"st_intersects(g, st_geomfromwkb(X'{random_geometry(rng).hex()}'))"
    assert ours.count_rows(constant) == reference.count_rows(filter=constant) > 0
    assert parse(str(parse(constant))) == parse(constant)


@pytest.mark.slow
def test_related_rows_are_those_of_pylance(tmp_path: Path) -> None:
    rng = random.Random(9)
    values = [None if place % 20 == 0 else random_geometry(rng) for place in range(80)]
    lance.write_dataset(geometries(values), str(tmp_path))
    reference, ours = lance.dataset(str(tmp_path)), lance_spark.open(str(tmp_path))
    mixed = ", ".join(str(place) for place, value in enumerate(values) if value is not None and value[1] == 7)
    for name in sorted(RELATIONS):
        for text in QUERIES:
            if text.startswith("GEOMETRYCOLLECTION") or text.endswith("EMPTY"):
                continue
            inner = f"{name}(g, st_geomfromtext('{text}'))"
            for query in (inner, f"NOT {inner}"):
                # Of collections the reference library finds other relations than JTS (test_geometry_functions.py).
                both = f"({query}) AND id NOT IN ({mixed})"
                expected = reference.to_table(columns=["id"], filter=both)["id"].to_pylist()
                assert ours.to_table(columns=["id"], filter=both)["id"].to_pylist() == expected, query
        constant = f"{name}(g, st_geomfromtext('{QUERIES[4]}'))"
        assert parse(str(parse(constant))) == parse(constant)
        # The reference library (14.0.2) takes a constant for the second argument wherever it is.
        first = f"{TURNED.get(name, name)}(st_geomfromtext('{QUERIES[4]}'), g)"
        assert parse(first) == parse(constant)


def test_points_in_structs(tmp_path: Path) -> None:
    values = pa.array([{"x": 1.0, "y": 2.0}, {"x": float("nan"), "y": 2.0}, None, {"x": 5.0, "y": 5.0}])
    lance_spark.write(pa.table({"p": values}), str(tmp_path))
    ours = lance_spark.open(str(tmp_path))
    inner = "st_intersects(p, st_geomfromtext('LINESTRING(0 1, 3 4)'))"
    assert [ours.count_rows(query) for query in (inner, f"NOT {inner}", f"{inner} IS NULL")] == [1, 2, 1]


@pytest.mark.parametrize(
    ("name", "one", "other", "expected"),
    [
        # By hand: both have the part of the line from (9, 9) to (13, 1).
        ("st_overlaps", "MULTILINESTRING((7 6, 10 9, 13 1), (5 9, 7 13, 13 1))", "LINESTRING(8 7, 9 9, 13 1)", True),
        ("st_crosses", "MULTILINESTRING((7 6, 10 9, 13 1), (5 9, 7 13, 13 1))", "LINESTRING(8 7, 9 9, 13 1)", False),
        # Three ends of lines at one place are a boundary, two are not.
        ("st_touches", "POINT(1 1)", "MULTILINESTRING((0 0, 1 1), (1 1, 2 0), (1 1, 1 5))", True),
        ("st_within", "POINT(1 1)", "MULTILINESTRING((0 0, 1 1), (1 1, 2 0))", True),
        # The line goes along the side that two areas share.
        (
            "st_within",
            "LINESTRING(1 0, 1 1)",
            "MULTIPOLYGON(((0 0, 1 0, 1 1, 0 1, 0 0)), ((1 0, 2 0, 2 1, 1 1, 1 0)))",
            True,
        ),
        ("st_within", "LINESTRING(2 0, 2 1)", "POLYGON((0 0, 2 0, 2 1, 0 1, 0 0))", False),
        ("st_coveredby", "LINESTRING(2 0, 2 1)", "POLYGON((0 0, 2 0, 2 1, 0 1, 0 0))", True),
        # Cut at a third, which no float is.
        ("st_crosses", "LINESTRING(0 0, 1 1)", "LINESTRING(0 0.5, 1 0)", True),
        ("st_equals", "LINESTRING(0 0, 4 4)", "MULTILINESTRING((4 4, 1 1), (0 0, 2 2))", True),
        ("st_equals", "LINESTRING(0 0, 0.3 0.9)", "LINESTRING(0 0, 0.1 0.3, 0.3 0.9)", False),
        ("st_equals", "POINT EMPTY", "POINT EMPTY", False),
        # All points of an area are in a collection that has this area and points elsewhere.
        ("st_within", AREA, f"GEOMETRYCOLLECTION({AREA}, POINT(9 9))", True),
        ("st_coveredby", AREA, f"GEOMETRYCOLLECTION({AREA}, POINT(9 9))", True),
        ("st_overlaps", AREA, f"GEOMETRYCOLLECTION({AREA}, POINT(9 9))", False),
        ("st_equals", AREA, f"GEOMETRYCOLLECTION({AREA}, POINT(9 9))", False),
        ("st_equals", f"GEOMETRYCOLLECTION({AREA}, POINT(1 1))", AREA, True),
        (
            "st_equals",
            f"GEOMETRYCOLLECTION(POINT(9 9), {AREA})",
            f"GEOMETRYCOLLECTION({AREA}, POINT(9 9), POINT(1 1))",
            True,
        ),
        ("st_overlaps", f"GEOMETRYCOLLECTION({AREA}, POINT(9 9))", f"GEOMETRYCOLLECTION({AREA}, POINT(8 8))", True),
        ("st_crosses", "LINESTRING(0 0, 2 2)", f"GEOMETRYCOLLECTION({AREA}, POINT(9 9))", False),
        ("st_crosses", "LINESTRING(0 0, 9 9)", f"GEOMETRYCOLLECTION({AREA}, POINT(9 9))", True),
        ("st_crosses", "GEOMETRYCOLLECTION(LINESTRING(0 0, 2 2), POINT(9 9))", AREA, True),
        ("st_within", "GEOMETRYCOLLECTION(LINESTRING(0 0, 2 2), POINT(1 0))", AREA, True),
        ("st_within", "POINT EMPTY", "POINT EMPTY", False),
    ],
)
def test_relations(name: str, one: str, other: str, expected: bool) -> None:
    assert holds(name, parse_wkt(one), parse_wkt(other)) is expected
    assert holds(TURNED.get(name, name), parse_wkt(other), parse_wkt(one)) is expected


def test_rounding_decides_nothing_within_twice_the_digits_of_a_float() -> None:
    # The three points are on one line only as decimals.
    line, near = parse_wkt("LINESTRING(0 0, 0.3 0.9)"), parse_wkt("POINT(0.1 0.3)")
    exact = parse_wkt("POINT(0.15 0.45)")
    assert intersects(line, exact)
    assert not intersects(line, near)
    long = parse_wkt("LINESTRING(-1e15 -1e15, 1e15 1e15)")
    assert intersects(long, parse_wkt("POINT(7 7)"))
    assert not intersects(long, parse_wkt("POINT(7 7.000000000000001)"))
    # A limit of GEOS, and of JTS: beyond twice the digits of a float it rounds.
    assert intersects(parse_wkt("LINESTRING(-1e20 -1e20, 1e20 1e20)"), parse_wkt("POINT(7 7.000000000000001)"))
    assert intersects(parse_wkt("LINESTRING(-1e308 -1e308, 1e308 1e308)"), parse_wkt("POINT(7 7)"))
    assert intersects(parse_wkt("LINESTRING(0 0, 1e-200 1e-200)"), parse_wkt("POINT(5e-201 5e-201)"))


def test_places_that_are_no_numbers_intersect_nothing() -> None:
    everything = parse_wkt("POLYGON((-9 -9, 9 -9, 9 9, -9 9, -9 -9))")
    nan, inf = float("nan"), float("inf")
    for value in (point(nan, nan), point(nan, 1), point(inf, 1), wkb(2, path([])), wkb(3), wkb(4), wkb(7)):
        assert not intersects(parse_wkb(value), everything)
    assert intersects(parse_wkb(wkb(2, path([(1, 1), (2, 2), (nan, 3)]))), everything)
    # Extended form with an SRID and Z, big endian.
    extended = struct.pack(">BIIddd", 0, 0xA0000001, 4326, 1.0, 2.0, 3.0)
    assert parse_wkb(extended).box() == (1.0, 2.0, 1.0, 2.0)


def test_damaged_geometries_are_refused() -> None:
    whole = wkb(7, wkb(3, path([(0, 0), (1, 0), (1, 1), (0, 0)])), wkb(4, point(1, 2)))
    parse_wkb(whole)
    rng = np.random.default_rng(1)
    for size in range(len(whole)):
        with pytest.raises(InvalidInputError, match="a geometry of"):
            parse_wkb(whole[:size])
    for _ in range(500):
        damaged = bytearray(whole)
        damaged[int(rng.integers(len(whole)))] = int(rng.integers(256))
        try:
            parse_wkb(bytes(damaged))
        except InvalidInputError as error:
            assert "a geometry of" in str(error)  # noqa: PT017
    for counts in (struct.pack("<BII", 1, 2, 0xFFFFFFFF), struct.pack("<BII", 1, 6, 0x7FFFFFFF), wkb(7) * 40):
        with pytest.raises(InvalidInputError):
            parse_wkb(counts)
    nested = wkb(1, struct.pack("<dd", 0, 0))
    for _ in range(40):
        nested = wkb(7, nested)
    with pytest.raises(InvalidInputError, match="nested too deeply"):
        parse_wkb(nested)


@pytest.mark.parametrize(
    "text",
    [
        *("bogus", "POINT(1)", "POINT(1 2", "POINT(1 2) x", "POLYGON(1 2)", "POINT(1 2, 3 4)", "", "POINT(1 & 2)"),
        *("MULTIPOINT((1 2), 3 4)", "POLYGON((0 0, 1 0, 1 1))", "CIRCULARSTRING(0 0, 1 1, 2 0)", "LINESTRING(1 2)"),
        *("POINT(1 2)\0", "GEOMETRYCOLLECTION(" * 5_000),
    ],
)
def test_texts_that_are_no_geometry_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="is no geometry"):
        parse(f"st_intersects(g, st_geomfromtext('{text}'))")


@pytest.mark.parametrize(
    "query", ["st_intersects(g, h)", "st_intersects(g, 'POINT(1 2)')", "st_intersects(g)", "st_geomfromtext(g) = 1"]
)
def test_other_arguments_are_refused(query: str) -> None:
    with pytest.raises(InvalidInputError):
        parse(query)


def test_random_geometries_of_any_size_have_relations() -> None:
    """Values can come from anywhere: no coordinates make GEOS fail."""
    rng = random.Random(5)
    numbers = [0.0, 1.0, -1.0, 1e308, -1.7e308, 5e-324, 1e-300, 1e154, float("nan"), float("inf")]

    def any_path() -> bytes:
        return path([(rng.choice(numbers), rng.choice(numbers)) for _ in range(rng.randrange(7))])

    shapes = [parse_wkb(wkb(kind, any_path(), any_path()) if kind == 3 else wkb(2, any_path())) for kind in [2, 3] * 90]
    for other in rng.sample(shapes, 12):
        meet = related("st_intersects", shapes, other)
        for name in RELATIONS:
            assert not (related(name, shapes, other) & ~meet).any()


@pytest.mark.parametrize("version", [None, (3, 12, 2)])
def test_without_geos_boxes_are_indexed_and_filters_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: tuple[int, ...] | None
) -> None:
    lance_spark.write(geometries([point(1, 2), None, point(3, 4)]), str(tmp_path))
    if version is None:
        monkeypatch.setitem(sys.modules, "shapely", None)
    else:
        monkeypatch.setattr("shapely.geos_version", version)
    ours = lance_spark.open(str(tmp_path)).create_scalar_index("g", "RTREE", name="boxes")
    lance_spark.write(geometries([point(5, 6)]), str(tmp_path), mode="append")
    ours = lance_spark.open(str(tmp_path)).optimize_indices()
    assert ours.to_table(["id"], filter="g IS NULL")["id"].to_pylist() == [1]
    assert "boxes" in ours.explain(filter="g IS NULL")
    message = r"functions of geometries need .*pip install 'lance-spark\[geo\]'"
    for constant in ("st_geomfromtext('POINT(77 78)')", f"st_geomfromwkb(X'{point(1, 2).hex()}')"):
        for name in (*RELATIONS, "st_disjoint"):
            with pytest.raises(UnsupportedFeatureError, match=message):
                ours.count_rows(f"{name}(g, {constant})")
