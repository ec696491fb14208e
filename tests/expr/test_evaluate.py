# ruff: noqa: E501
"""What filters keep, compared with Spark (recorded), with the reference library and with DuckDB."""

from __future__ import annotations

import datetime
import json
import math
from decimal import Decimal
from pathlib import Path

import duckdb
import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from lance_spark.errors import InvalidInputError, NotFoundError
from lance_spark.expr.evaluate import check_filter, constant_value, evaluate, evaluate_filter
from lance_spark.expr.literals import literal
from lance_spark.expr.nodes import Column, Comparison, ComparisonOp, InArray, Not
from lance_spark.expr.sql.parse import parse
from tests.expr.random_rows import VALUES, conditions, random_rows
from tests.expr.spark_cases import ANSWERS, ZONES, filters, table

ROWS = table().combine_chunks().to_batches()[0]

SPARK_DIFFERS = {
    "i > -99999999999999999999": "Spark keeps the row where i is null",
    "i >= -99999999999999999999": "Spark keeps the row where i is null",
    "i + 1 = 2147483648L": "Spark rewrites it to i = an impossible int and sees no overflow",
    "i + 1 >= 2147483648L": "as above",
    "i + 1 <=> 2147483648L": "as above",
    "t + t = -256": "tinyint + tinyint would overflow in Spark, here it is the true sum",
    "CAST(b AS FLOAT) = 9007199254740992D": "Spark drops the inner of two casts, float and then double",
    **{
        f"ntz {op} TIMESTAMP '2024-03-31 {hour}:30:00'": "Spark's optimizer compares local clocks; the clock skips 02:30"
        for op in ("=", "<>", "<", ">=", "<=>")
        for hour in ("02", "03")
    },
}
"""Where Spark's answer depends on its optimizer, or where it has none to give."""


@pytest.mark.slow
@pytest.mark.parametrize("zone", ZONES)
def test_spark_keeps_the_same_rows(zone: str) -> None:
    answers = json.loads(ANSWERS.read_text())
    different = {}
    for sql in filters():
        spark = answers[zone].get(sql, answers["UTC"][sql])
        if spark == "error" or sql in SPARK_DIFFERS:
            continue
        kept = evaluate_filter(parse(sql, time_zone=zone), ROWS, time_zone=zone)
        ours = ROWS.column("id").filter(kept).to_pylist()
        if ours != spark:
            different[sql] = (ours, spark)
    assert not different


def _long_values(type_: pa.DataType) -> pa.RecordBatch:
    values = [b"x" * 2_000_000, b"y" * 2_000_000, None, b"z" * 5]
    return pa.RecordBatch.from_arrays([pa.array(values, pa.binary()).cast(type_)], ["c"])


_FAR = (2**31 - 1, 2**31, 2**31 + 1, 2**62, 2**63 - 1)


@pytest.mark.parametrize("type_", [pa.binary(), pa.large_binary(), pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize("far", _FAR)
def test_substring_bounds_beyond_every_value(type_: pa.DataType, far: int) -> None:
    rows = _long_values(type_)

    def kept(sql: str) -> list[bool]:
        return list(evaluate_filter(parse(sql), rows).to_pylist())

    for sql in (f"substring(c, 1, {far}) = c", f"substring(c, 0, {far}) = c", f"length(substring(c, {far})) = 0"):
        assert kept(sql) == [True, True, False, True], sql
    for sql in (f"length(substring(c, {-far}, 3)) = 0", f"length(substring(c, -3, {-far})) = 0"):
        assert kept(sql) == [True, True, False, True], sql
    assert kept(f"length(substring(c, 1, {far})) = 2000000") == [True, True, False, False]
    assert kept(f"length(substring(c, -3, {far})) = 3") == [True, True, False, True]
    assert kept(f"substring('abc', 1, {far}) = 'abc'") == [True] * 4


@pytest.mark.parametrize("bound", [2**63, -(2**63) - 1, 10**60])
def test_substring_refuses_bounds_beyond_bigint(bound: int) -> None:
    for sql in (f"substring(c, {bound}) = c", f"substring(c, 1, {bound}) = c"):
        with pytest.raises(InvalidInputError, match="constant integers"):
            evaluate_filter(parse(sql), _long_values(pa.binary()))


def test_substring_of_smallest_bigint_is_empty() -> None:
    kept = evaluate_filter(parse(f"substring(c, {-(2**63)}, 3) = X''"), _long_values(pa.binary()))
    assert kept.to_pylist() == [True, True, False, True]


@pytest.mark.parametrize("value", [b"", b"a", b"ab", b"abcdef"])
@pytest.mark.parametrize("type_", [pa.binary(), pa.string()], ids=str)
def test_substring_equals_spark_definition(value: bytes, type_: pa.DataType) -> None:
    # UTF8String.substringSQL: start counts from the end if negative, and the end is start + length, cut to the value.
    rows = pa.RecordBatch.from_arrays([pa.array([value], pa.binary()).cast(type_)], ["c"])
    for position in range(-8, 9):
        for length in range(-2, 10):
            start = position - 1 if position > 0 else len(value) + position if position < 0 else 0
            wanted = value[max(start, 0) : max(start + max(length, 0), 0)]
            got = evaluate(parse(f"substring(c, {position}, {length})"), rows).cast(pa.binary())
            assert got.to_pylist() == [wanted], (position, length)


def test_every_difference_from_spark_is_one() -> None:
    answers = json.loads(ANSWERS.read_text())
    for sql in SPARK_DIFFERS:
        differs = []
        for zone in ZONES:
            kept = evaluate_filter(parse(sql, time_zone=zone), ROWS, time_zone=zone)
            differs.append(ROWS.column("id").filter(kept).to_pylist() != answers[zone].get(sql, answers["UTC"][sql]))
        assert any(differs), sql


@pytest.mark.parametrize(
    "sql",
    ["10 / i > 1", "10 % i = 0", "x / 0 > 1", "CAST(x AS INT) = 2", "CAST(num AS INT) > 1", "CAST(i AS TINYINT) = 5"],
)
def test_what_fails_in_spark_fails_here(sql: str) -> None:
    assert json.loads(ANSWERS.read_text())["UTC"][sql] == "error"
    with pytest.raises(InvalidInputError, match="in: "):
        evaluate_filter(parse(sql), ROWS)


# The reference library and DuckDB on random tables

DUCKDB = duckdb.connect()


def _ours(rows: pa.Table, sql: str) -> list[int]:
    batch = rows.combine_chunks().to_batches()[0]
    return list(batch.column("id").filter(evaluate_filter(parse(sql), batch)).to_pylist())


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(random_rows(), conditions)
def test_duckdb_keeps_the_same_rows(rows: pa.Table, sql: str) -> None:
    # DuckDB orders NaN as Spark does. It compares float32 and doubles with decimals its own way, so no fractions there.
    # Its own table: filters that it pushes into a scan of Arrow tell the two zeros apart.
    DUCKDB.register("given", rows)
    DUCKDB.execute("CREATE OR REPLACE TEMP TABLE rows AS FROM given")
    kept = DUCKDB.execute(f"SELECT id FROM rows WHERE {sql} ORDER BY id").fetchall()
    assert _ours(rows, sql) == [row[0] for row in kept]


REFERENCE_FILTERS = [
    "i8 > 5", "i8 <= -3 OR i8 IS NULL", "NOT (i8 > 5)", "i64 = 9007199254740993", "i64 IN (0, 5, 9007199254740992)", "i64 NOT IN (1, 5)",
    "u32 >= 5 AND u32 < 1000", "f64 > 1.0", "f64 < 0.0", "f64 >= 0.0", "f64 = 0.0", "f64 <> 0.0", "NOT (f64 > 0.5)", "f64 BETWEEN -1.0 AND 1.0",
    "f32 > 0.5", "f32 <= 0.5", "f32 = 0.5", "txt = 'a'", "txt > 'a'", "txt LIKE 'a%'", "txt LIKE '%b'", "txt IN ('a', 'b', 'É')", "txt IS NOT NULL AND NOT flag",
    "flag", "NOT flag", "flag OR i8 = 1", "flag IS NULL", "day > DATE '2000-01-01'", "day = DATE '2001-02-03'", "day BETWEEN DATE '1950-01-01' AND DATE '2050-01-01'",
]  # fmt: skip


def seeded_rows(count: int) -> pa.Table:
    """Rows of the types in VALUES, one value in eight null and many values equal to the constants above."""
    random = np.random.default_rng(7)
    some_null = [random.random(count) < 1 / 8 for _ in VALUES]
    columns = [
        random.integers(-128, 128, count).astype("i1"),
        random.choice([0, 1, 5, 2**53, 2**53 + 1, -(2**63), 2**63 - 1], count),
        random.choice([0, 5, 999, 1000, 2**32 - 1], count).astype("u4"),
        random.choice([0.0, -0.0, 1.0, -1.0, 0.5, math.nan, math.inf, -math.inf, 2.5], count),
        random.choice([0.0, -0.0, 0.5, 0.75, math.nan, -math.inf], count).astype("f4"),
        None,
        random.choice(["a", "b", "ab", "", "É", "a\nb", "a%"], count),
        random.integers(-10_000, 20_000, count).astype("M8[D]"),
        random.random(count) < 0.5,
    ]
    arrays = {
        name: pa.nulls(count, type_) if column is None else pa.array(column, type_, mask=nulls)
        for (name, (type_, _)), column, nulls in zip(VALUES.items(), columns, some_null, strict=True)
    }
    return pa.table({"id": pa.array(range(count), pa.int64()), **arrays})


@pytest.mark.slow
def test_reference_library_keeps_the_same_rows(tmp_path: Path) -> None:
    rows = seeded_rows(500)
    dataset = lance.write_dataset(rows, tmp_path / "rows.lance")
    for sql in REFERENCE_FILTERS:
        assert _ours(rows, sql) == dataset.to_table(filter=sql, columns=["id"])["id"].to_pylist(), sql


def test_where_pylance_differs(tmp_path: Path) -> None:
    """Literals are cast to the column's type there; here the column to the common type (docs/design/014-filter-semantics.md)."""
    rows = pa.table({"id": [0, 1], "f32": pa.array([0.1, 0.5], pa.float32()), "i64": [2**53, 2**53 + 1]})
    dataset = lance.write_dataset(rows, tmp_path / "rows.lance")
    assert dataset.to_table(filter="f32 = 0.1")["id"].to_pylist() == [0]
    assert _ours(rows, "f32 = 0.1") == []
    assert _ours(rows, "f32 = 0.1F") == [0]
    with pytest.raises(ValueError, match="could not convert"):
        dataset.to_table(filter="i64 > 99999999999999999999")
    assert _ours(rows, "i64 < 99999999999999999999") == [0, 1]

    # Its order of floating point numbers is IEEE 754's total order, so a NaN whose sign bit is set comes first.
    negative_nan = np.array([0xFFF8_0000_0000_0000], "u8").view("f8")
    signs = pa.table({"id": [0], "x": negative_nan})
    dataset = lance.write_dataset(signs, tmp_path / "signs.lance")
    assert dataset.to_table(filter="x > 1.0")["id"].to_pylist() == []
    assert _ours(signs, "x > 1.0") == [0]


def test_reference_library_orders_nan_alike(tmp_path: Path) -> None:
    rows = pa.table({"id": range(7), "x": [1.0, math.nan, None, -0.0, 0.0, math.inf, -math.inf]})
    dataset = lance.write_dataset(rows, tmp_path / "rows.lance")
    for op in ("=", "<>", "<", "<=", ">", ">="):
        for constant in ("1.0", "0.0", "-0.0", "CAST('NaN' AS DOUBLE)", "CAST('inf' AS DOUBLE)"):
            sql = f"x {op} {constant}"
            assert _ours(rows, sql) == dataset.to_table(filter=sql, columns=["id"])["id"].to_pylist(), sql


# Types that Spark does not have

UTC = datetime.timezone.utc
SIGNED_NAN = pa.array(np.array([math.nan, np.copysign(math.nan, -1), -0.0, 0.0]), mask=np.array([0, 0, 0, 1], "?"))
ODD_TYPES: list[tuple[pa.Array, str, list[bool | None]]] = [
    (pa.array([0, 2**64 - 1, 2**63, None], pa.uint64()), "c > -1", [True, True, True, None]),
    (pa.array([0, 2**64 - 1, 2**63, None], pa.uint64()), "c > 9223372036854775807", [False, True, True, None]),
    (pa.array([0, 2**64 - 1, 2**63, None], pa.uint64()), "c IN (18446744073709551615, -1)", [False, True, False, None]),
    (pa.array([0, 200, 255, None], pa.uint8()), "c < 200.5", [True, True, False, None]),
    (pa.array([0, 200, 255, None], pa.uint8()), "-c = -200", [False, True, False, None]),
    (pa.array([1.0, math.nan, -0.0, None], pa.float16()), "c > 0.5", [True, True, False, None]),
    (pa.array([1.0, math.nan, -0.0, None], pa.float16()), "c IN (0, 7)", [False, False, True, None]),
    (pa.array([1.0, math.nan, -0.0, None], pa.float16()), "isnan(c)", [False, True, False, False]),
    (SIGNED_NAN, "c IN (double('NaN'), 7D)", [True, True, False, None]),
    (SIGNED_NAN.cast(pa.float32()), "c NOT IN (double('NaN'), 7D)", [False, False, True, None]),
    (SIGNED_NAN, "c IN (double('NaN'), NULL)", [True, True, None, None]),
    (pa.array(["a", None, "b", "a"]).dictionary_encode(), "c = 'a'", [True, None, False, True]),
    (pa.array(["a", None, "b", "a"]).dictionary_encode(), "c IN ('a', NULL)", [True, None, None, True]),
    (pa.array(["a", None, "b", "ab"], pa.large_string()), "c LIKE 'a%'", [True, None, False, True]),
    (pa.array(["a", None, "b", "ab"], pa.string_view()), "c >= 'ab' OR c LIKE '_'", [True, None, True, True]),
    (pa.array(["a", None, "b", "ab"], pa.string_view()), "c IN ('b')", [False, None, True, False]),
    (pa.array([b"ab", None, b"\xff\x00"], pa.binary(2)), "c > X'6162'", [False, None, True]),
    (pa.array([b"ab", None, b"\xff\x00"], pa.binary(2)), "c IN (X'6162', X'61')", [True, None, False]),
    (pa.array([b"ab", None, b"\xff"], pa.large_binary()), "c = X'ff'", [False, None, True]),
    (pa.array([b"ab", None, b"\xff"], pa.binary_view()), "c = X'ff'", [False, None, True]),
    (pa.array([Decimal("1.5"), None, Decimal("-2.25")], pa.decimal256(70, 30)), "c > -2.2500000000000000000000000001", [True, None, True]),
    (pa.array([Decimal("1.5"), None, Decimal("-2.25")], pa.decimal256(70, 30)), "c = 1.5D", [True, None, False]),
    (pa.array([Decimal("1.5"), None], pa.decimal32(5, 2)), "c = 1.50", [True, None]),
    (pa.array([Decimal("1.5"), None], pa.decimal64(15, 2)), "c < 2", [True, None]),
    (pa.array([Decimal("1200"), None], pa.decimal128(5, -2)), "c = 1200", [True, None]),
    (pa.array([-1, None, 1999], pa.int64()).cast(pa.timestamp("ns")), "c < TIMESTAMP_NTZ '1970-01-01'", [True, None, False]),
    (pa.array([-1, None, 1999], pa.int64()).cast(pa.timestamp("ns")), "c = TIMESTAMP_NTZ '1970-01-01 00:00:00.000001999'", [False, None, True]),
    (pa.array([2**62, None, 0], pa.int64()).cast(pa.timestamp("s")), "c > TIMESTAMP_NTZ '1970-01-01'", [True, None, False]),
    (pa.array([1500, None, 0], pa.int64()).cast(pa.timestamp("ms", "Asia/Tokyo")), "c = TIMESTAMP '1970-01-01 00:00:01.5Z'", [True, None, False]),
    (pa.array([1500, None, 0], pa.int64()).cast(pa.timestamp("ms", "Asia/Tokyo")), "c IN (TIMESTAMP '1970-01-01 00:00:01.5Z')", [True, None, False]),
    (pa.array([1500, None, 0], pa.int64()).cast(pa.timestamp("ms", "Asia/Tokyo")), "year(c) = 1970 AND hour(c) = 0", [True, None, True]),
    (pa.array([86_400_000, None, 0], pa.int64()).view(pa.date64()), "c = DATE '1970-01-02'", [True, None, False]),
    (pa.array([86_399_999, None, -1], pa.int64()).view(pa.date64()), "c < DATE '1970-01-01'", [False, None, True]),
    (pa.array([1, None], pa.time32("s")), "c = TIME '00:00:01'", [True, None]),
    (pa.array([1, None], pa.time64("ns")), "c < '00:00:00.000000002'", [True, None]),
    (pa.array([1, None, 61], pa.time32("s")), "minute(c) = 1", [False, None, True]),
    (pa.array([1000, None], pa.duration("ms")), "c = INTERVAL '1' SECOND", [True, None]),
    (pa.nulls(2), "c = 1", [None, None]),
    (pa.nulls(2), "c IS NULL", [True, True]),
    (pa.nulls(2), "c IN (1, 2)", [None, None]),
    (pa.array([[1], None]), "c IS NOT NULL", [True, False]),
    (pa.RunEndEncodedArray.from_arrays([1, 3], [5, None]), "c = 5", [True, None, None]),
]  # fmt: skip


@pytest.mark.parametrize(("values", "sql", "expected"), ODD_TYPES, ids=lambda value: str(getattr(value, "type", value)))
def test_types_beyond_spark(values: pa.Array, sql: str, expected: list[bool | None]) -> None:
    batch = pa.record_batch({"c": values})
    assert evaluate(parse(sql), batch).to_pylist() == expected
    sliced = pa.record_batch({"c": pa.concat_arrays([values, values]).slice(1, len(values))})
    if not pa.types.is_run_end_encoded(values.type):
        assert evaluate(parse(sql), sliced).to_pylist() == (expected + expected)[1 : 1 + len(values)]


def test_decimals_of_too_many_digits_are_refused() -> None:
    batch = pa.record_batch({"c": pa.array([Decimal(0), None], pa.decimal256(76, -1))})
    with pytest.raises(InvalidInputError, match="77 digits"):
        evaluate(parse("c = 5"), batch)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (pa.array([2**62, 0, None], pa.int64()).cast(pa.timestamp("s")), pa.array([0, 5, 1], pa.int64()).cast(pa.timestamp("ns"))),
        (pa.array([2**63, 0, None], pa.uint64()), pa.array([-1, 5, 1], pa.int64())),
        (pa.array([255, 0, None], pa.uint8()), pa.array([-1, 5, 1], pa.int8())),
        (pa.array([Decimal("9" * 38), Decimal(0), None], pa.decimal128(38, 0)), pa.array([Decimal("0.5"), Decimal("0.6"), Decimal(1)], pa.decimal128(38, 37))),
    ],
)  # fmt: skip
def test_columns_of_two_types(left: pa.Array, right: pa.Array) -> None:
    batch = pa.record_batch({"l": left, "r": right})
    assert evaluate(parse("l > r"), batch).to_pylist() == [True, False, None]
    assert evaluate(parse("r >= l"), batch).to_pylist() == [False, True, None]
    assert evaluate(parse("l = r"), batch).to_pylist() == [False, False, None]


# Names

NESTED = pa.record_batch(
    {
        "st": pa.array(
            [{"a": 1, "A.b": 2}, None, {"a": None, "A.b": 3}], pa.struct([("a", pa.int8()), ("A.b", pa.int8())])
        ),
        "Name": ["x", "y", "z"],
        "name": [1, 2, 3],
        "a.b": [7, 8, 9],
        "Only": [True, False, None],
    }
)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("st.a = 1", [True, None, None]),
        ("ST.A = 1", [True, None, None]),
        ("st.`A.b` >= 2", [True, None, True]),
        ("st.a IS NULL", [False, True, True]),
        ("st IS NULL", [False, True, False]),
        ("Name = 'x'", [True, False, False]),
        ("name = 1", [True, False, False]),
        ("`a.b` = 8", [False, True, False]),
        ("only", [True, False, None]),
    ],
)
def test_names(sql: str, expected: list[bool | None]) -> None:
    assert evaluate(parse(sql), NESTED).to_pylist() == expected
    assert evaluate(parse(sql), NESTED.slice(1)).to_pylist() == expected[1:]


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("nme = 1", NotFoundError, "no column nme; did you mean Name, name?"),
        ("zzz = 1", NotFoundError, "there are: st, Name, name, `a.b`, Only"),
        ("st.b = 1", NotFoundError, "no field b of struct st"),
        ("NAME = 1", InvalidInputError, "column NAME is ambiguous: Name, name"),
        ("name.x = 1", InvalidInputError, "only a struct has fields"),
        ("st = 1", InvalidInputError, "not defined for struct"),
        ("st <=> NULL", InvalidInputError, "not defined for struct"),
        ("Name = 1", InvalidInputError, "cannot compare string with int64; CAST one of them (in: Name = 1)"),
        ("name = 'x'", InvalidInputError, "cannot compare int64 with string"),
        ("name", InvalidInputError, "must be a condition, but is int64"),
        ("name AND only", InvalidInputError, "must be a condition"),
        ("NOT name", InvalidInputError, "must be a condition"),
        ("only > 1", InvalidInputError, "cannot compare bool with int64"),
        ("Name LIKE 'x' AND name LIKE 'x'", InvalidInputError, "LIKE is not defined for int64"),
        ("name + Name = 1", InvalidInputError, "operator + is not defined for int64 and string"),
        ("lower(name) = 'x'", InvalidInputError, "lower takes string, got int64"),
        ("year(Name) = 2024", InvalidInputError, "year takes date or"),
        ("abs(Name) = 1", InvalidInputError, "abs takes integer or"),
        ("substring(Name, name) = 'x'", InvalidInputError, "constant integers"),
        ("coalesce(Name, name) = 1", InvalidInputError, "no common type"),
        ("CAST(st AS INT) = 1", InvalidInputError, "CAST of struct"),
        ("CAST(only AS DATE) = 1", InvalidInputError, "CAST of bool to DATE is not supported"),
        ("Name IN (1, 2)", InvalidInputError, "cannot compare string with int64"),
        ("isnan(Name)", InvalidInputError, "isnan is not defined"),
    ],
)
def test_wrong_names_and_types(sql: str, error: type[Exception], message: str) -> None:
    for check in (lambda tree: evaluate_filter(tree, NESTED), lambda tree: check_filter(tree, NESTED.schema)):
        with pytest.raises(error) as caught:
            check(parse(sql))
        assert message in str(caught.value)


@pytest.mark.parametrize("constant", ["'yesterday'", "'2024-13-01'", "''"])
def test_text_that_is_no_date(constant: str) -> None:
    with pytest.raises(InvalidInputError, match="is no date"):
        evaluate(parse(f"day = {constant}"), ROWS)


def test_filter_has_no_nulls() -> None:
    kept = evaluate_filter(parse("i > 0"), ROWS)
    assert kept.null_count == 0
    assert kept.to_pylist() == [False, True, False, False, True, False, True, True, True]


@pytest.mark.parametrize(
    "sql",
    ["TRUE", "1 = 1", "NULL IS NULL", "double('NaN') = double('NaN')", "2 > 1.5D", "'a' < 'b'", "upper('é') = 'É'"],
)
def test_constant_filters_have_every_row(sql: str) -> None:
    assert evaluate_filter(parse(sql), ROWS).to_pylist() == [True] * 9
    assert evaluate_filter(parse(sql), ROWS.slice(0, 0)).to_pylist() == []
    value = constant_value(parse(sql))
    assert value is not None
    assert value.as_py() is True


def test_no_columns_needed() -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}] * 4, pa.struct([])))
    assert evaluate_filter(parse("1 < 2"), batch).to_pylist() == [True] * 4
    assert constant_value(parse("a + 1 = 2")) is None


def test_literals_of_arrow_scalars() -> None:
    for scalar in (
        pa.scalar(5, pa.uint8()),
        pa.scalar(5, pa.decimal128(3, 0)),
        pa.scalar(5.0, pa.float16()),
        pa.scalar(5),
    ):
        tree = Comparison(ComparisonOp.EQ, Column(("i",)), literal(scalar))
        assert evaluate_filter(tree, ROWS).to_pylist() == [False] * 6 + [True, False, False]
    assert literal(pa.scalar("a").cast(pa.dictionary(pa.int8(), pa.string()))) == literal("a")
    with pytest.raises(InvalidInputError, match="cannot hold"):
        literal(pa.scalar([1]))
    with pytest.raises(InvalidInputError, match="cannot hold"):
        literal(object())


def test_values_of_an_array_are_looked_up() -> None:
    batch = pa.record_batch({"a": pa.array([1, None, 3, 4], pa.int64())})
    for values in ([3, 4], [3, 4, None], []):
        found = evaluate_filter(InArray(Column(("a",)), pa.array(values, pa.int64())), batch)
        assert found.to_pylist() == [value in values for value in (1, "none", 3, 4)]
    assert evaluate(Not(InArray(Column(("a",)), pa.array([3], pa.int64()))), batch).to_pylist() == [
        True,
        True,
        False,
        True,
    ]
    with pytest.raises(InvalidInputError, match="a is int64, the values to look up are int32"):
        evaluate_filter(InArray(Column(("a",)), pa.array([1], pa.int32())), batch)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo", "UTC"])
def test_the_last_timestamps_of_a_type_are_compared(unit: str, zone: str) -> None:
    """Such as pandas' largest, which many take for "never": in another zone's time 64 bits do not hold it."""
    ticks = [2**63 - 1, -(2**63), 0, None, 2**63 - 2, 1 - 2**63]
    batch = pa.record_batch(
        {"t": pa.array(ticks, pa.timestamp(unit)), "u": pa.array([0] * 6, pa.timestamp("s", "UTC"))}
    )
    for sql in ("t > TIMESTAMP'2020-01-01 00:00:00'", "NOT t <= TIMESTAMP'2020-01-01 00:00:00 UTC'"):
        assert evaluate_filter(parse(sql, time_zone=zone), batch, time_zone=zone).to_pylist() == [
            tick is not None and tick > 0 for tick in ticks
        ]
    assert evaluate_filter(parse("t < TIMESTAMP'1960-01-01 00:00:00'"), batch, time_zone=zone).to_pylist() == [
        tick is not None and tick < 0 for tick in ticks
    ]
