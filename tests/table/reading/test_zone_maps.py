"""Bounds of runs of rows: no row that a filter matches is left out, and few others are left in."""

from __future__ import annotations

import os
from datetime import date, datetime, timedelta
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_spark.expr.evaluate import evaluate_filter
from lance_spark.expr.nodes import Column, InArray
from lance_spark.expr.sql.parse import parse
from lance_spark.schema.arrow import from_arrow_schema
from lance_spark.storage.meter import READS
from lance_spark.table.location import TableLocation
from lance_spark.table.manifests.manifest import Manifest
from lance_spark.table.reading import zone_maps as zones_module
from lance_spark.table.reading.zone_maps import (
    ZONE_ROWS,
    ZoneMap,
    has_clustered_values,
    matching_rows,
    zone_map_of,
    zoned_fields,
)

ROWS = 20_000
START = datetime(2026, 1, 1)


def opened(uri: str) -> tuple[TableLocation, Manifest]:
    location = TableLocation(uri, {})
    manifest = location.latest()
    assert manifest is not None
    return location, manifest


def rows_of(uri: str, filter: str) -> list[list[tuple[int, int]]]:
    """The ranges of each fragment; all of its rows where nothing is known."""
    location, manifest = opened(uri)
    condition = parse(filter, time_zone="UTC")
    found = []
    for fragment in manifest.fragments:
        fields = zoned_fields(condition, manifest.schema)
        made = {path: zone_map_of(fragment, field, location.bases(manifest)) for path, field in fields.items()}
        known = {path: item for path, item in made.items() if item is not None}
        assert fragment.physical_rows is not None
        found.append(
            matching_rows(condition, known, fragment.physical_rows) if known else [(0, fragment.physical_rows)]
        )
    return found


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Sorted numbers, dates and times, numbers in any order, and a half of nulls, by the reference library."""
    numbers = np.arange(ROWS)
    mixed = np.random.default_rng(5).permutation(ROWS)
    table = pa.table(
        {
            "id": pa.array(numbers),
            "small": pa.array((numbers // 100).astype(np.int16)),
            "day": pa.array([date(2026, 1, 1) + timedelta(days=int(n) // 100) for n in numbers]),
            "moment": pa.array([START + timedelta(seconds=int(n)) for n in numbers], pa.timestamp("us")),
            "zoned": pa.array([START + timedelta(seconds=int(n)) for n in numbers], pa.timestamp("us", "UTC")),
            "mixed": pa.array(mixed),
            "half": pa.array(numbers, mask=numbers >= ROWS // 4),
            "text": pa.array([str(n) for n in numbers]),
            "big": pa.array(numbers.astype(np.uint64)),
        }
    )
    path = str(tmp_path_factory.mktemp("zones") / "table")
    lance.write_dataset(table, path, max_rows_per_file=ROWS // 2)
    return path


HALF = ROWS // 2
ALL = [(0, HALF)]
ZONE_3 = [(3 * ZONE_ROWS, 4 * ZONE_ROWS)]


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ("id = 7000", [ZONE_3, []]),
        ("ID = 7000", [ZONE_3, []]),
        ("7000 = id", [ZONE_3, []]),
        ("id BETWEEN 7000 AND 7001", [ZONE_3, []]),
        ("id IN (7000, 7005)", [ZONE_3, []]),
        ("id IN (1, 9999)", [[(0, ZONE_ROWS), (4 * ZONE_ROWS, HALF)], []]),
        ("id < 0", [[], []]),
        ("id = 7000 AND text = 'x'", [ZONE_3, []]),
        ("id = 7000 AND mixed < 5", [ZONE_3, []]),
        ("id = 7000 OR text = 'x'", [ALL, ALL]),
        ("NOT (id <> 7000)", [ZONE_3, []]),
        ("id <=> 7000", [ZONE_3, []]),
        ("small = 70S", [ZONE_3, []]),
        ("day = DATE '2026-03-12'", [ZONE_3, []]),
        ("day = '2026-03-12'", [ZONE_3, []]),
        ("moment = TIMESTAMP_NTZ '2026-01-01 01:56:40'", [ZONE_3, []]),
        ("zoned = TIMESTAMP '2026-01-01 01:56:40'", [ZONE_3, []]),
        ("half = 1", [[(0, ZONE_ROWS)], []]),
        # Spark adds IS NOT NULL to most filters, and for these alone nothing is read.
        ("half IS NULL", [ALL, ALL]),
        ("half IS NOT NULL AND mixed = 3", [ALL, ALL]),
        ("half IS NOT NULL AND half < 5000", [[(0, 3 * ZONE_ROWS)], []]),
        ("mixed = 12", [ALL, ALL]),
        ("mixed < 0", [[], []]),
        ("big = 3", [ALL, ALL]),
        ("id + 1 = 7001", [ALL, ALL]),
    ],
)
def test_rows_that_can_match(uri: str, filter: str, expected: list[list[tuple[int, int]]]) -> None:
    found = rows_of(uri, filter)
    assert found[0] == expected[0]
    assert found[1] == expected[1]


def test_zones_are_computed_once(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"id": range(ROWS)}), uri, max_rows_per_file=HALF)
    for file in Path(uri).rglob("*.lance"):
        os.utime(file, (0, 0))  # What is known of files that were just written is not kept.
    assert rows_of(uri, "id = 7000") == [ZONE_3, []]
    before = READS.counts.requests
    assert rows_of(uri, "id = 7000") == [ZONE_3, []]
    # Only the newest manifest is looked for.
    assert READS.counts.requests - before <= 1


def test_a_column_that_was_written_anew_has_new_zones(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    made = lance.write_dataset(pa.table({"id": range(HALF), "n": range(HALF)}), uri)
    assert rows_of(uri, "n = 7000") == [ZONE_3]
    made.drop_columns(["n"])
    made.add_columns({"n": f"{HALF - 1} - id"})
    assert rows_of(uri, "n = 7000") == [[(ZONE_ROWS, 2 * ZONE_ROWS)]]
    lance.write_dataset(pa.table({"id": range(HALF), "n": [5] * HALF}), uri, mode="overwrite")
    assert rows_of(uri, "n = 7000") == [[]]
    assert rows_of(uri, "n = 5") == [ALL]


def test_a_column_that_no_file_has_tells_nothing(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    made = lance.write_dataset(pa.table({"id": range(10)}), uri)
    made.add_columns(pa.field("late", pa.int64()))
    assert rows_of(uri, "late IS NULL") == [[(0, 10)]]
    assert rows_of(uri, "late = 1") == [[(0, 10)]]


def test_numbers_as_far_apart_as_can_be() -> None:
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    known = ZoneMap(pa.int64(), np.array([least, 0, most]), np.array([least, 1, most]), np.zeros(3, np.int64))
    assert known.tell_rows_apart()
    path = ("n",)
    assert matching_rows(parse("n = 1"), {path: known}, 3 * ZONE_ROWS) == [(ZONE_ROWS, 2 * ZONE_ROWS)]
    assert matching_rows(parse(f"n >= {most}"), {path: known}, 3 * ZONE_ROWS) == [(2 * ZONE_ROWS, 3 * ZONE_ROWS)]


def test_far_ranges_are_few() -> None:
    count = 1000
    numbers = np.arange(count)
    known = ZoneMap(pa.int64(), numbers, numbers, np.zeros(count, np.int64))
    wanted = InArray(Column(("n",)), pa.array(range(0, count, 10), pa.int64()))
    ranges = matching_rows(wanted, {("n",): known}, count * ZONE_ROWS)
    assert len(ranges) == 16
    for zone in range(0, count, 10):
        assert any(start <= zone * ZONE_ROWS and (zone + 1) * ZONE_ROWS <= stop for start, stop in ranges)


NUMBERS = st.one_of(st.none(), st.integers(-20, 20))
CONSTANTS = st.integers(-25, 25)
TERMS = st.one_of(
    st.builds(
        "{} {} {}".format, st.sampled_from("ab"), st.sampled_from(["=", "<", "<=", ">", ">=", "<>", "<=>"]), CONSTANTS
    ),
    st.builds("{} IN ({}, {})".format, st.sampled_from("ab"), CONSTANTS, CONSTANTS),
    st.builds("{} NOT IN ({}, {})".format, st.sampled_from("ab"), CONSTANTS, CONSTANTS),
    st.builds("{} IS NULL".format, st.sampled_from("ab")),
    st.builds("a < b".format),
)
CONDITIONS = st.recursive(
    TERMS,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("(NOT {})".format, inner),
    ),
    max_leaves=4,
)


@given(
    st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=60),
    st.booleans(),
    CONDITIONS,
    st.sampled_from([pa.int8(), pa.int64(), pa.date32(), pa.timestamp("us")]),
)
def test_no_row_that_matches_is_left_out(
    rows: list[tuple[int | None, int | None]], is_sorted: bool, filter: str, dtype: pa.DataType
) -> None:
    if is_sorted:
        rows = sorted(rows, key=lambda row: (row[0] is None, row[0]))
    numbers = pa.int32() if pa.types.is_date32(dtype) else pa.int64()
    columns = [pa.array([row[place] for row in rows], numbers).cast(dtype) for place in range(2)]
    text = filter
    if not pa.types.is_integer(dtype):
        dates = dtype == pa.date32()
        text = "".join(_constant(word, dates) for word in _words(filter))
    batch = pa.record_batch(columns, ["a", "b"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zones_module, "ZONE_ROWS", 4)
        known: dict[tuple[str, ...], ZoneMap] = {
            (name,): ZoneMap(dtype, *zones_module._bounds(pa.chunked_array([column])))
            for name, column in zip("ab", columns, strict=True)
        }
        condition = parse(text, time_zone="UTC")
        assert set(zoned_fields(condition, from_arrow_schema(batch.schema))) <= set(known)
        ranges = matching_rows(condition, known, len(rows))
    matched = evaluate_filter(condition, batch).to_pylist()
    kept = {row for start, stop in ranges for row in range(start, stop)}
    assert {row for row, is_match in enumerate(matched) if is_match} <= kept
    assert all(0 <= start < stop <= len(rows) for start, stop in ranges)


def _words(filter: str) -> list[str]:
    return filter.replace("(", "( ").replace(")", " )").replace(",", " ,").replace(" ", "  ").split(" ")


def _constant(word: str, dates: bool) -> str:
    if not word.lstrip("-").isdigit():
        return word or " "
    if dates:
        return f"DATE '{date(1970, 1, 1) + timedelta(days=int(word))}'"
    return f"TIMESTAMP_NTZ '{datetime(1970, 1, 1) + timedelta(microseconds=int(word))}'"


@pytest.mark.parametrize(
    ("column", "files", "expected"),
    [
        ("sorted", 1, True),
        ("sorted", 10, True),
        ("mixed", 1, False),
        ("mixed", 10, False),
        ("mixed within files", 10, True),
        ("mixed within files", 2, False),
        ("nothing", 3, False),
        ("one value", 3, False),
    ],
)
def test_clustered_values_by_sample(tmp_path: Path, column: str, files: int, expected: bool) -> None:
    """The sample of a column whose values are near each other in the same rows, or in the same files."""
    count, size = 400_000, 400_000 // files
    numbers = np.arange(count)
    values = {
        "sorted": numbers,
        "mixed": np.random.default_rng(1).permutation(count),
        "mixed within files": numbers // size * size + numbers * 7919 % size,
        "one value": np.zeros(count, np.int64),
        "nothing": pa.nulls(count, pa.int64()),
    }
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"n": values[column]}), uri, max_rows_per_file=size)
    location, manifest = opened(uri)
    fragments = [(fragment, location.bases(manifest)) for fragment in manifest.fragments]
    before = READS.counts
    assert has_clustered_values(fragments, manifest.schema.fields[0]) is expected
    assert (READS.counts - before).requests <= 8 * 6
