"""Pruning: never wrong (property), and sharp where the statistics allow it (tables)."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.expr.evaluate import evaluate_filter
from lance_spark.expr.prune import ColumnStatistics, may_match
from lance_spark.expr.sql.parse import parse
from tests.expr.random_rows import conditions, random_rows


def statistics_of(values: pa.Array, *, keep_bytes: int | None = None) -> ColumnStatistics:
    """Exact statistics; with `keep_bytes` the bounds of strings are cut to that many characters."""
    known = values.drop_null()
    nan_count = None
    if pa.types.is_floating(values.type):
        nan_count = pc.sum(pc.is_nan(known)).as_py() or 0
        known = known.filter(pc.invert(pc.is_nan(known)))
    bounds = sorted(known.to_pylist())
    low, high = (bounds[0], bounds[-1]) if bounds else (None, None)
    is_truncated = keep_bytes is not None and isinstance(low, str)
    if is_truncated:
        low, high = low[:keep_bytes], high[:keep_bytes]
    return ColumnStatistics(
        min=pa.scalar(low, values.type),
        max=pa.scalar(high, values.type),
        null_count=values.null_count,
        nan_count=nan_count,
        num_rows=len(values),
        is_truncated=is_truncated,
    )


@st.composite
def forgetful(draw: st.DrawFn, about: ColumnStatistics) -> ColumnStatistics:
    """The same statistics with some of them unknown."""
    known = {
        name: getattr(about, name)
        for name in ("min", "max", "null_count", "nan_count", "num_rows")
        if draw(st.integers(0, 3)) > 0
    }
    return ColumnStatistics(**known, is_truncated=about.is_truncated)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.data(), random_rows(), conditions)
def test_rows_that_match_are_never_pruned(data: st.DataObject, rows: pa.Table, sql: str) -> None:
    batch = rows.combine_chunks().to_batches()[0]
    keep_bytes = data.draw(st.sampled_from([None, 0, 1, 2]))
    exact = {(name,): statistics_of(batch.column(name), keep_bytes=keep_bytes) for name in batch.schema.names}
    tree = parse(sql)
    matches = evaluate_filter(tree, batch).true_count > 0
    assert may_match(tree, exact) or not matches
    partly = {path: data.draw(forgetful(about)) for path, about in exact.items() if data.draw(st.booleans())}
    assert may_match(tree, partly) or not matches


INTS = ColumnStatistics(pa.scalar(10), pa.scalar(20), null_count=0, num_rows=5)
SOME_NULL = ColumnStatistics(pa.scalar(10), pa.scalar(20), null_count=1, num_rows=5)
ONE_VALUE = ColumnStatistics(pa.scalar(7), pa.scalar(7), null_count=0, num_rows=5)
ALL_NULL = ColumnStatistics(null_count=5, num_rows=5)
FLOATS = ColumnStatistics(pa.scalar(1.0), pa.scalar(2.0), null_count=0, nan_count=0, num_rows=5)
MAYBE_NAN = ColumnStatistics(pa.scalar(1.0), pa.scalar(2.0), null_count=0, num_rows=5)
NAN_BOUND = ColumnStatistics(pa.scalar(1.0), pa.scalar(math.nan), null_count=0, nan_count=2, num_rows=5)
TEXT = ColumnStatistics(pa.scalar("bb"), pa.scalar("dd"), null_count=0, num_rows=5)
CUT = ColumnStatistics(pa.scalar("bb"), pa.scalar("dd"), null_count=0, num_rows=5, is_truncated=True)
DAYS = ColumnStatistics(pa.scalar(datetime.date(2024, 1, 1)), pa.scalar(datetime.date(2024, 1, 31)), num_rows=5)
MOMENTS = ColumnStatistics(
    pa.scalar(datetime.datetime(2024, 1, 1), pa.timestamp("ns", "UTC")),
    pa.scalar(datetime.datetime(2024, 1, 31), pa.timestamp("ns", "UTC")),
)
FLAGS = ColumnStatistics(pa.scalar(False), pa.scalar(False), null_count=0, num_rows=5)
UNSIGNED = ColumnStatistics(pa.scalar(2**63, pa.uint64()), pa.scalar(2**64 - 1, pa.uint64()))
PRICES = ColumnStatistics(pa.scalar(Decimal("1.50")), pa.scalar(Decimal("2.50")))


@pytest.mark.parametrize(
    ("sql", "about", "expected"),
    [
        ("c = 10", INTS, True),
        ("c = 9", INTS, False),
        ("c = 15.5", INTS, True),
        ("c < 10", INTS, False),
        ("c < 10.5", INTS, True),
        ("c <= 10", INTS, True),
        ("c > 20", INTS, False),
        ("20 < c", INTS, False),
        ("c >= 20", INTS, True),
        ("c > 99999999999999999999", INTS, False),
        ("c <> 7", ONE_VALUE, False),
        ("c <> 7", INTS, True),
        ("NOT c = 7", ONE_VALUE, False),
        ("NOT (c > 5)", INTS, False),
        ("NOT (c > 5)", SOME_NULL, False),
        ("c IN (1, 2, 21)", INTS, False),
        ("c IN (1, 15)", INTS, True),
        ("c NOT IN (7, 8)", ONE_VALUE, False),
        ("c NOT IN (8, NULL)", ONE_VALUE, False),
        ("c BETWEEN 21 AND 30", INTS, False),
        ("c > 12 AND c < 5", INTS, False),
        ("c > 30 OR c < 5", INTS, False),
        ("c > 30 OR c = 12", INTS, True),
        ("c > 30 AND unknown = 1", INTS, False),
        ("c > 30 OR unknown = 1", INTS, True),
        ("c IS NULL", INTS, False),
        ("c IS NULL", SOME_NULL, True),
        ("c IS NOT NULL", ALL_NULL, False),
        ("c = 1", ALL_NULL, False),
        ("c LIKE 'a%'", ALL_NULL, False),
        ("c <=> NULL", INTS, False),
        ("c <=> NULL", ALL_NULL, True),
        ("c <=> 5", ALL_NULL, False),
        ("NOT (c <=> 5)", ALL_NULL, True),
        ("c <=> 5", INTS, False),
        ("c = NULL", INTS, False),
        ("c > 4 + 20", INTS, False),
        ("c > CAST('25' AS INT)", INTS, False),
        ("c + 1 > 100", INTS, True),
        ("c = CAST('x' AS INT)", INTS, True),
        ("c = 'x'", INTS, True),
        ("FALSE", INTS, False),
        ("NULL", INTS, False),
        ("TRUE", INTS, True),
        ("c > 2", FLOATS, False),
        ("c > 2", MAYBE_NAN, True),
        ("c = double('NaN')", FLOATS, False),
        ("c = double('NaN')", MAYBE_NAN, True),
        ("c < 1", MAYBE_NAN, False),
        ("c > 5", NAN_BOUND, True),
        ("c < 1", NAN_BOUND, False),
        ("isnan(c)", FLOATS, False),
        ("isnan(c)", MAYBE_NAN, True),
        ("c = 'aa'", TEXT, False),
        ("c = 'dda'", TEXT, False),
        ("c = 'dda'", CUT, True),
        ("c > 'dda'", CUT, True),
        ("c > 'de'", CUT, False),
        ("c >= 'ddz'", CUT, True),
        ("c < 'bb'", CUT, False),
        ("c LIKE 'd%'", TEXT, True),
        ("c LIKE 'e%'", TEXT, False),
        ("c LIKE 'a%z'", TEXT, False),
        ("c LIKE 'ddz%'", TEXT, False),
        ("c LIKE 'ddz%'", CUT, True),
        ("c LIKE '%a'", TEXT, True),
        ("startswith(c, 'ba')", TEXT, False),
        ("startswith(c, 'b')", TEXT, True),
        ("contains(c, 'q')", TEXT, True),
        ("c < '2024-01-01'", DAYS, False),
        ("c = '2024-02-01'", DAYS, False),
        ("c > TIMESTAMP_NTZ '2024-01-31 00:00:00'", DAYS, False),
        ("c > TIMESTAMP_NTZ '2024-01-30 23:00:00'", DAYS, True),
        ("c > TIMESTAMP '2024-01-31 00:00:01Z'", MOMENTS, False),
        ("c < TIMESTAMP '2024-01-01 00:00:01Z'", MOMENTS, True),
        ("c < DATE '2024-01-01'", MOMENTS, False),
        ("c", FLAGS, False),
        ("NOT c", FLAGS, True),
        ("c = TRUE", FLAGS, False),
        ("c < 0", UNSIGNED, False),
        ("c > 9223372036854775807", UNSIGNED, True),
        ("c < 9223372036854775808", UNSIGNED, False),
        ("c < 1.5", PRICES, False),
        ("c > 2.499", PRICES, True),
        ("c > 2.5D", PRICES, False),
    ],
)
def test_decisions(sql: str, about: ColumnStatistics, expected: bool) -> None:
    assert may_match(parse(sql), {("c",): about}) is expected


def test_no_rows() -> None:
    assert not may_match(parse("TRUE"), {("c",): ColumnStatistics(num_rows=0)})


def test_nothing_known() -> None:
    assert may_match(parse("c = 1 AND d < 5"), {})
    assert may_match(parse("c = 1 AND d < 5"), {("c",): ColumnStatistics()})


def test_nested_paths() -> None:
    assert not may_match(parse("a.b > 30"), {("a", "b"): INTS})
    assert may_match(parse("`a.b` > 30"), {("a", "b"): INTS})


def test_doubles_in_a_list_compare_all_of_it_as_doubles() -> None:
    """2**53 matches 2**53 + 1 once a double stands beside it, so the exact bounds must not prune it."""
    about = ColumnStatistics(pa.scalar(2**53), pa.scalar(2**53), null_count=0, num_rows=1)
    tree = parse("c IN (9007199254740993, 1D)")
    assert evaluate_filter(tree, pa.record_batch({"c": [2**53]})).to_pylist() == [True]
    assert may_match(tree, {("c",): about})
    assert not may_match(parse("c IN (9007199254740993, 1)"), {("c",): about})


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris"])
def test_local_bounds_against_instants_need_a_zone_that_keeps_order(zone: str) -> None:
    bounds: dict[str, Any] = {
        "min": pa.scalar(datetime.datetime(2024, 1, 1), pa.timestamp("us")),
        "max": pa.scalar(datetime.datetime(2024, 1, 2), pa.timestamp("us")),
    }
    tree = parse("c > TIMESTAMP '2025-01-01 00:00:00Z'")
    assert may_match(tree, {("c",): ColumnStatistics(**bounds)}, time_zone=zone) is (zone != "UTC")


def test_bounds_beyond_pythons_dates() -> None:
    far = pa.scalar(2**62, pa.timestamp("s"))
    odd = pa.scalar(1_000_000_001, pa.timestamp("ns"))
    about = ColumnStatistics(odd, far, null_count=0)
    assert may_match(parse("c > TIMESTAMP_NTZ '9999-01-01'"), {("c",): about})
    assert not may_match(parse("c < TIMESTAMP_NTZ '1970-01-01 00:00:01'"), {("c",): about})
