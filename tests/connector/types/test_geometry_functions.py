"""The geometry functions of SQL: the rows of the reference library, from scans, from indexes and from the JVM."""

from __future__ import annotations

import base64
import random
import re
import struct
import sys
from collections.abc import Iterator
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lance_spark
from tests.support.connector.plans import plan
from tests.support.connector.scan_requests import ask, compare
from tests.support.expr.geometries import geometries, path, point, random_geometry, wkb

pytestmark = pytest.mark.since("4.3", "columns of GEOMETRY and GEOGRAPHY")

NAME = "lance.db.places"
EXACT = ["st_intersects", "st_disjoint"]
MEETING = [
    "st_contains",
    "st_within",
    "st_covers",
    "st_coveredby",
    "st_touches",
    "st_crosses",
    "st_overlaps",
    "st_equals",
]
TURNED = {"st_contains": "st_within", "st_within": "st_contains"}
TURNED |= {"st_covers": "st_coveredby", "st_coveredby": "st_covers"}
TEXTS = [
    "POINT(3 4)",
    "LINESTRING(0 0, 12 12)",
    "POLYGON((2 2, 9 2, 9 9, 2 9, 2 2))",
    "POLYGON((0 0, 12 0, 12 12, 0 12, 0 0), (3 3, 3 9, 9 9, 9 3, 3 3))",
    "MULTIPOINT((1 2), (5 6), (7 8))",
]
NAN = float("nan")
ODD = [point(NAN, NAN), point(NAN, 1), wkb(2, path([])), wkb(2, path([(1, 1), (2, 2), (NAN, 3)])), wkb(7), wkb(4)]
ODD += [wkb(2, path([(3, 4)])), wkb(3, path([(0, 0), (8, 0), (8, 8)])), wkb(2, path([(3, 4), (3, 4)])), wkb(3)]
ODD += [struct.pack(">BIIddd", 0, 0xA0000001, 4326, 3.0, 4.0, 9.0), struct.pack("<BIddd", 1, 1001, 3.0, 4.0, 9.0)]
SHAPES = [
    wkb(7),
    # Lines that have a part in common, one that crosses itself, one that ends where it began, three that meet.
    wkb(5, wkb(2, path([(7, 6), (10, 9), (13, 1)])), wkb(2, path([(5, 9), (7, 13), (13, 1)]))),
    wkb(5, wkb(2, path([(7, 1), (8, 3), (13, 1)])), wkb(2, path([(8, 7), (9, 9), (13, 1)]))),
    wkb(2, path([(0, 0), (8, 8), (8, 0), (0, 8)])),
    wkb(2, path([(2, 2), (9, 2), (9, 9), (2, 2)])),
    wkb(5, *(wkb(2, path([(3, 4), end])) for end in [(0, 0), (9, 9), (12, 0)])),
    # Parts of several kinds that overlap each other.
    wkb(7, point(3, 4), wkb(2, path([(4, 9), (8, 13), (13, 1)]))),
    wkb(7, wkb(3, path([(3, 4), (6, 4), (6, 7), (3, 7), (3, 4)])), wkb(2, path([(0, 0), (5, 5)])), point(4, 5)),
    wkb(6, *(wkb(3, path([(x, 0), (x + 3, 0), (x + 3, 3), (x, 0)])) for x in (0.0, 3.0, 6.5))),
    # Thirds and tenths, which are rounded.
    wkb(3, path([(0.1, 0.1), (0.7, 0.1), (0.7, 0.7), (0.1, 0.1)])),
    wkb(2, path([(0, 0), (12, 4), (1 / 3, 0.7)])),
    point(0.3, 0.1),
]


@pytest.fixture(scope="module")
def values() -> list[bytes | None]:
    rng = random.Random(11)
    return [None if place % 20 == 0 else random_geometry(rng) for place in range(200)]


@pytest.fixture(scope="module")
def table(spark: SparkSession, values: list[bytes | None]) -> Iterator[str]:
    """`g` is GEOMETRY, `b` the same as BINARY."""
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lance.db")
    spark.sql(f"CREATE OR REPLACE TABLE {NAME} (id BIGINT, g GEOMETRY(4326), b BINARY)")
    rows = geometries(values)
    schema = rows.schema.append(pa.field("b", pa.binary()))
    lance_spark.write(pa.table([*rows.columns, rows["g"]], schema=schema), location(spark), mode="append")
    yield NAME
    spark.sql(f"DROP TABLE {NAME}")


def location(spark: SparkSession) -> str:
    return str(spark.sql(f"DESCRIBE EXTENDED {NAME}").where("col_name = 'Location'").collect()[0][1])


def ids(spark: SparkSession, condition: str, *, kept: bool = False) -> list[int]:
    """The rows of a condition; with `kept` Spark evaluates it."""
    frame = spark.table(NAME)
    if kept:
        frame = frame.selectExpr("*", "rand() AS r").where(f"({condition}) AND r >= 0")
        assert re.search(r"\bFilter\b.*st_", plan(frame))
    return [row.id for row in frame.where(condition).select("id").orderBy("id").collect()]


@pytest.mark.slow
@pytest.mark.parametrize("function", EXACT + MEETING)
def test_rows_are_those_of_pylance(spark: SparkSession, table: str, values: list[bytes | None], function: str) -> None:
    plain, other = lance.dataset(location(spark)), TURNED.get(function, function)
    for number, text in enumerate([values[7], *TEXTS]):
        constant = f"st_geomfromtext('{text}')" if isinstance(text, str) else f"st_geomfromwkb(X'{text.hex()}')"
        condition = f"{function}(g, {constant})"
        expected = plain.to_table(filter=f"{function}(b, {constant})")["id"].to_pylist()
        assert ids(spark, condition) == expected, text
        # The reference library (14.0.2) takes a constant for the second argument wherever it is.
        assert ids(spark, f"{other}({constant}, {'gb'[number % 2]})") == expected, text
        if number < 2:
            assert ids(spark, condition, kept=True) == expected, text
            assert ids(spark, f"{function}(b, {constant})") == expected, text
            others = ids(spark, f"NOT {condition}")
            assert sorted(expected + others) == [place for place, value in enumerate(values) if value is not None]
            assert ids(spark, f"{condition} IS NULL") == list(range(0, 200, 20))


@pytest.mark.slow
@pytest.mark.parametrize("function", EXACT + MEETING)
def test_what_scans_answer(spark: SparkSession, table: str, function: str) -> None:
    for constant in (
        "st_geomfromtext('POINT(3 4)')",
        f"st_geomfromwkb(X'{point(3, 4).hex()}', 4326)",
        f"X'{point(3, 4).hex()}'",
    ):
        shown = plan(spark.table(table).where(f"{function}(g, {constant})"))
        assert bool(re.search(r"\bFilter\b", shown)) is (function in MEETING)
        assert "st_intersects(g" in shown


@pytest.mark.parametrize("function", EXACT + MEETING)
def test_without_geos_spark_answers(uri: str, monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    lance_spark.write(geometries([point(3, 4), None, point(5, 6)]), uri)
    binary = {"literal": base64.b64encode(point(3, 4)).decode(), "type": "binary"}
    text = {"name": "io.lancespark.st_geomfromtext", "children": [{"literal": "POINT(33 34)", "type": "string"}]}
    exact, check_again, no = 2, 1, 0
    for constant in (binary, text):
        call = {"name": f"io.lancespark.{function}", "children": [{"column": ["g"]}, constant]}
        both = {"name": "AND", "children": [compare("=", "id", 0), call]}
        answer = exact if function in EXACT else check_again
        assert pushed(uri, call, both)["answers"] == [answer, answer]
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, "shapely", None)
            reply = pushed(uri, call, both)
            assert reply["answers"] == [no, check_again]
            assert "st_" not in str(reply["filter"])
            assert pushed(uri, call)["filter"] is None


def pushed(uri: str, *predicates: dict[str, Any]) -> dict[str, Any]:
    return ask("scan.push", uri, predicates=predicates)[0]


@pytest.mark.slow
def test_spark_alone_answers_the_rest(spark: SparkSession, table: str) -> None:
    every = spark.table(table).where("b IS NOT NULL").count()
    assert spark.table(table).where("st_equals(g, b)").count() == every
    assert ids(spark, "st_within(g, st_geomfromtext('POINT EMPTY'))") == []
    assert spark.sql("SELECT st_intersects(NULL, st_geomfromtext('POINT(1 2)')), st_geomfromtext(NULL)").first()[:] == (
        None,
        None,
    )
    either = "st_within(g, st_geomfromtext('POINT(3 4)')) OR (id < 40 AND st_touches(g, st_geomfromtext('POINT(9 9)')))"
    assert ids(spark, either) == ids(spark, either, kept=True)


@pytest.mark.slow
def test_index_answers_all_functions(spark: SparkSession, table: str) -> None:
    conditions = [f"{name}(b, st_geomfromtext('{TEXTS[2]}'))" for name in EXACT + MEETING]
    expected = [ids(spark, condition) for condition in conditions]
    spark.sql(f"ALTER TABLE {table} CREATE INDEX by_place USING rtree (b)")
    for condition, rows in zip(conditions, expected, strict=True):
        assert ("by_place" in plan(spark.table(table).where(condition))) is ("disjoint" not in condition)
        assert ids(spark, condition) == rows
    both = f"{conditions[3]} AND id > 50"
    assert "by_place" in plan(spark.table(table).where(both))
    assert ids(spark, both) == [row for row in expected[3] if row > 50]
    spark.sql(f"ALTER TABLE {table} DROP INDEX by_place")


@pytest.mark.slow
def test_odd_geometries_are_the_same_for_scans_and_the_jvm(spark: SparkSession, uri: str) -> None:
    everything = "st_geomfromtext('POLYGON((-9 -9, 99 -9, 99 99, -9 99, -9 -9))')"
    lance_spark.write(pa.table({"id": range(len(ODD)), "g": pa.array(ODD, pa.binary())}), uri)
    frame = spark.read.format("lance").load(uri)
    found = set()
    for constant in (everything, *(f"st_geomfromtext('{text}')" for text in TEXTS)):
        pushed = [row.id for row in frame.where(f"st_intersects(g, {constant})").orderBy("id").collect()]
        shown = frame.selectExpr("id", f"st_intersects(g, {constant}) AS met").orderBy("id").collect()
        assert pushed == [row.id for row in shown if row.met], constant
        found.update(pushed)
    assert found == {3, 6, 7, 8, 10, 11}


@pytest.mark.slow
def test_filters_of_python_find_what_the_jvm_finds(spark: SparkSession, uri: str) -> None:
    """One list of geometries for both."""
    rng = random.Random(3)
    values = [*(random_geometry(rng) for _ in range(30)), *ODD, *SHAPES]
    lance_spark.write(pa.table({"id": range(len(values)), "g": pa.array([*values[:-1], None], pa.binary())}), uri)
    frame, ours = spark.read.format("lance").load(uri), lance_spark.open(uri)
    calls = [
        f"{name}(g, X'{value.hex()}')" if (number + place) % 2 else f"{name}(X'{value.hex()}', g)"
        for number, value in enumerate([*values[:30:6], *ODD[::4], *SHAPES])
        for place, name in enumerate(EXACT + MEETING)
    ]
    rows = frame.selectExpr("id", *(f"{call} AS c{number}" for number, call in enumerate(calls))).collect()
    assert [row[1:] for row in rows if row.id == len(values) - 1] == [(None,) * len(calls)]
    found = {call: sorted(row.id for row in rows if row[number]) for number, call in enumerate(calls, 1)}
    conditions = {re.sub(r"(X'\w*')", r"st_geomfromwkb(\1)", call): rows for call, rows in found.items()}
    scanned = {condition: ours.to_table(["id"], filter=condition)["id"].to_pylist() for condition in conditions}
    assert scanned == conditions


@pytest.mark.slow
def test_statements_use_them(spark: SparkSession) -> None:
    spark.sql(
        "CREATE OR REPLACE TABLE lance.db.moved AS SELECT * FROM VALUES (1, st_geomfromwkb(X'"
        + point(1, 2).hex()
        + "', 4326)), (2, st_geomfromwkb(X'"
        + point(5, 6).hex()
        + "', 4326)) AS v(id, g)"
    )
    area = "st_geomfromtext('POLYGON((0 0, 3 0, 3 3, 0 3, 0 0))')"
    spark.sql(f"UPDATE lance.db.moved SET id = 10 WHERE st_intersects(g, {area})")
    spark.sql(f"DELETE FROM lance.db.moved WHERE NOT lance.st_within(g, {area})")
    assert [row.id for row in spark.table("lance.db.moved").collect()] == [10]
    assert {f"st_{name}" for name in ("within", "geomfromtext", "disjoint")} <= {
        row[0].rsplit(".", 1)[-1] for row in spark.sql("SHOW FUNCTIONS").collect()
    }


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("st_intersects(g)", "use it as st_intersects"),
        ("st_within(id, g)", "does not take arguments of types"),
        ("st_within(st_geogfromwkb(b), g)", "does not take arguments of types"),
        (f"st_within(st_geomfromwkb(X'{point(1, 2).hex()}', 3857), g)", "one reference system, got SRID 3857 and 4326"),
        ("st_within(g, st_geomfromtext('POINT(1'))", "is no geometry"),
        ("st_within(b, X'0102')", "a geometry of 2 bytes ends too early"),
        (f"st_within(b, X'{point(1, 2).hex()}00')", "has bytes after its end"),
    ],
)
def test_wrong_arguments(spark: SparkSession, table: str, call: str, message: str) -> None:
    with pytest.raises(PySparkException, match=message):
        spark.sql(f"SELECT {call} FROM {table}").collect()
