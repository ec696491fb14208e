"""Transforms against Python's own arithmetic, DataFusion's derived expressions, and the specification's appendix F."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import mmh3
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.errors import InvalidInputError, LanceError, UnsupportedFeatureError
from lance_spark.partitioned.expression import evaluate_expression
from lance_spark.partitioned.transforms.base import Keep, Transform
from lance_spark.partitioned.transforms.bucket import Bucket, Modulo, MultiBucket, buckets
from lance_spark.partitioned.transforms.calendar import Level
from lance_spark.partitioned.transforms.date_part import CoarserTime, Day, Hour, Month, Year, ordinals, time_reducer
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.partitioned.transforms.registry import TRANSFORMS, transform_from_json
from lance_spark.partitioned.transforms.truncate import Truncate
from lance_spark.partitioned.values.key_space import space_of
from tests.partitioned.random_specs import COLUMNS, SCHEMA, rows, specs

DATE_PARTS: list[Transform] = [Year(), Month(), Day(), Hour()]


def test_all_eight_transforms_are_there() -> None:
    assert set(TRANSFORMS) == {"identity", "year", "month", "day", "hour", "bucket", "multi_bucket", "truncate"}


@pytest.mark.parametrize(
    ("moment", "fields"),
    [
        (datetime.datetime(2025, 12, 10, 23, 59), [2025, 12, 10, 23]),
        (datetime.datetime(1970, 1, 1), [1970, 1, 1, 0]),
        (datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), [1969, 12, 31, 23]),
        (datetime.datetime(2024, 2, 29, 12), [2024, 2, 29, 12]),
        (datetime.datetime(1900, 2, 28), [1900, 2, 28, 0]),
        (datetime.datetime(1, 1, 1), [1, 1, 1, 0]),
        (datetime.datetime(9999, 12, 31, 23), [9999, 12, 31, 23]),
    ],
)
@pytest.mark.parametrize(
    "type_", [pa.timestamp("us"), pa.timestamp("ms", "America/New_York"), pa.timestamp("s", "UTC")]
)
def test_calendar_fields_are_those_of_the_instant_in_utc_or_of_the_clock(
    moment: datetime.datetime, fields: list[int], type_: pa.DataType
) -> None:
    seconds = int((moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(seconds=1))
    ticks = pa.array([seconds, None], pa.timestamp("s")).cast(pa.timestamp(type_.unit)).cast(pa.int64())
    values = ticks.cast(type_)
    assert [part.apply(values).to_pylist() for part in DATE_PARTS] == [[field, None] for field in fields]
    days = pa.array([moment.date(), None], pa.date32())
    assert [part.apply(days).to_pylist() for part in DATE_PARTS[:3]] == [[field, None] for field in fields[:3]]


def test_years_beyond_16_bits_are_right() -> None:
    days = pa.array([2**31 - 1, -(2**31)], pa.int32()).cast(pa.date32())
    assert Year().apply(days).to_pylist() == [5881580, -5877641]
    assert Month().apply(days).to_pylist() == [7, 6]
    with pytest.raises(InvalidInputError, match="32 bits"):
        Year().apply(pa.array([2**62], pa.int64()).cast(pa.timestamp("s")))


@pytest.mark.parametrize(
    ("type_", "width", "expected"),
    [
        (
            pa.int32(),
            10,
            {-11: -10, -10: -10, -9: 0, -1: 0, 0: 0, 9: 0, 10: 10, 2**31 - 1: 2147483640, -(2**31): -2147483640},
        ),
        (pa.int8(), 128, {-128: -128, -127: 0, 127: 0}),
        (pa.int8(), 1000, {-128: 0, 127: 0}),
        (pa.uint64(), 1000, {2**64 - 1: 18446744073709551000, 999: 0}),
        (pa.int64(), 7, {-(2**63): -(2**63) + 1, 2**63 - 1: 2**63 - 1 - (2**63 - 1) % 7}),
        (pa.decimal128(10, 2), 50, {Decimal("10.65"): Decimal("0.00"), Decimal("-99.99"): Decimal("-50.00")}),
        (
            pa.decimal128(38, 2),
            10,
            {
                Decimal("-123456789012345678901234567890.19"): Decimal("-123456789012345678901234567890.00"),
                Decimal("9.99"): 0,
            },
        ),
        (pa.decimal256(60, 1), 3, {Decimal("1E+50"): Decimal("9" * 50), Decimal("-4.5"): Decimal("-3.0")}),
        (pa.float64(), 10, {-0.5: 0.0, 25.5: 20.0, -25.5: -20.0, 1e300: 1e300 - math.fmod(1e300, 10)}),
        (pa.string(), 2, {"äöü": "äö", "": "", "a": "a", "👍👍👍": "👍👍", "e\u0301x": "e\u0301"}),
        (pa.large_string(), 3, {"iceberg": "ice"}),
    ],
)
def test_truncate(type_: pa.DataType, width: int, expected: dict[Any, Any]) -> None:
    source = pa.array([None, *expected, None], type_)
    for values, wanted in ((source, [None, *expected.values(), None]), (source[1:-1], list(expected.values()))):
        result = Truncate(width).apply(values)
        assert result.type == type_
        assert result.to_pylist() == wanted
        result.validate(full=True)


def test_floats_that_have_no_remainder_share_the_partition_of_nan() -> None:
    result = Truncate(10).apply(pa.array([math.inf, -math.inf, math.nan, -0.0, -3.0])).to_pylist()
    assert all(map(math.isnan, result[:3]))
    assert [math.copysign(1, value) for value in result[3:]] == [1, 1]


def test_identity_of_floats_has_one_zero_and_one_nan() -> None:
    values = Identity().apply(pa.array([0.0, -0.0, math.nan, -math.nan, None], pa.float32()))
    assert values.type == pa.float32()
    assert pc.count_distinct(values, mode="all").as_py() == 3
    assert math.copysign(1, values[1].as_py()) == 1


def test_identity_leaves_layouts_behind() -> None:
    values = pa.array(["a", None, "a"]).dictionary_encode()
    assert Identity().apply(values).equals(pa.array(["a", None, "a"]))
    assert Identity().result_type([values.type]) == pa.string()


def test_bucket_takes_the_absolute_value_not_the_sign_bit() -> None:
    values = list(range(-20, 20))
    hashes = [mmh3.hash(value.to_bytes(8, "little", signed=True), 0, signed=True) for value in values]
    assert min(hashes) < 0
    assert Bucket(7).apply(pa.array(values, pa.int16())).to_pylist() == [abs(hash_) % 7 for hash_ in hashes]


def test_lowest_hash_has_a_bucket() -> None:
    assert buckets(pa.array([-(2**31), None, 7], pa.int32()), 3).to_pylist() == [2**31 % 3, None, 1]


def test_null_is_not_bucket_0() -> None:
    assert Bucket(1).apply(pa.array([None, 5], pa.int64())).to_pylist() == [None, 0]
    columns = pa.array([None, 5, None], pa.int64()), pa.array([None, None, "x"], pa.string())
    assert MultiBucket(1).apply(*columns).to_pylist() == [None, 0, 0]


def test_appendix_f_orders_and_customers() -> None:
    ids = pa.array(range(1000))
    orders, customers = Bucket(16), Bucket(8)
    reducer = orders.reducer(customers)
    assert reducer == Modulo(8)
    assert customers.reducer(orders) == Keep()
    assert reducer is not None
    assert reducer.apply(orders.apply(ids)).equals(customers.apply(ids))
    pairs = {(bucket % 8, bucket) for bucket in orders.apply(ids).to_pylist()}
    assert sorted(pairs) == sorted((i, i + 8 * k) for i in range(8) for k in range(2))


@pytest.mark.parametrize(
    ("left", "right", "is_compatible"),
    [
        (Bucket(16), Bucket(12), True),
        (Bucket(16), Bucket(16), True),
        (Bucket(16), Bucket(9), False),
        (Bucket(16), MultiBucket(16), False),
        (MultiBucket(16), MultiBucket(8), True),
        (Identity(), Identity(), True),
        (Identity(), Year(), False),
        (Year(), Year(), True),
        (Year(), Month(), False),
        (Truncate(10), Truncate(10), True),
        (Truncate(10), Truncate(20), False),
    ],
)
def test_compatibility(left: Transform, right: Transform, is_compatible: bool) -> None:
    assert [left.reducer(right) is not None, right.reducer(left) is not None] == [is_compatible, is_compatible]


def test_reducers_of_16_and_12_buckets_meet_at_4() -> None:
    ids = pa.array([*range(500), None])
    left, right = Bucket(16), Bucket(12)
    reduced = [a.reducer(b).apply(a.apply(ids)) for a, b in ((left, right), (right, left))]  # type: ignore[union-attr]
    assert reduced[0].equals(reduced[1])
    assert pc.max(reduced[0]).as_py() == 3


@given(st.lists(st.none() | st.datetimes(datetime.datetime(1800, 1, 1), datetime.datetime(2200, 1, 1)), min_size=1))
def test_a_time_hierarchy_is_one_ordered_number(moments: list[datetime.datetime | None]) -> None:
    values = pa.array(moments, pa.timestamp("us"))
    parts = [part.apply(values) for part in DATE_PARTS]
    for level, unit in zip(Level, ("Y", "M", "D", "h"), strict=True):
        numbers = ordinals(parts[: level + 1])
        expected = values.to_numpy(zero_copy_only=False).astype(f"datetime64[{unit}]").astype("int64")
        wanted = [None if moment is None else int(n) for moment, n in zip(moments, expected, strict=True)]
        assert numbers.to_pylist() == wanted
        for coarser in Level:
            if coarser <= level:
                assert time_reducer(level, coarser).apply(numbers).equals(ordinals(parts[: coarser + 1]))
    assert time_reducer(Level.YEAR, Level.DAY) == Keep()
    assert time_reducer(Level.DAY, Level.MONTH) == CoarserTime(Level.DAY, Level.MONTH)


@pytest.mark.parametrize("transform", [*DATE_PARTS, Bucket(16)])
@pytest.mark.parametrize("name", ["ts", "ntz", "day"])
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_datafusion_gives_the_same_of_dates(transform: Transform, name: str, data: st.DataObject) -> None:
    if isinstance(transform, Hour) and name == "day":
        pytest.skip("a date has no hours")
    _same_as_datafusion(transform, name, data)


@pytest.mark.parametrize(
    ("transform", "name"),
    [
        (Truncate(1), "i8"),
        (Truncate(10), "i64"),
        (Truncate(100), "u32"),
        (Truncate(2), "txt"),
        (Truncate(3), "dec"),
        (Bucket(7), "txt"),
        (Bucket(7), "dec"),
        (Identity(), "dec"),
        (Identity(), "txt"),
    ],
)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_datafusion_gives_the_same(transform: Transform, name: str, data: st.DataObject) -> None:
    _same_as_datafusion(transform, name, data)


def _same_as_datafusion(transform: Transform, name: str, data: st.DataObject) -> None:
    pytest.importorskip("datafusion")
    type_, strategy = COLUMNS[name]
    values = pa.array(data.draw(st.lists(st.none() | strategy, max_size=20)), type_)
    expression = transform.derived_expression([type_])
    expected = evaluate_expression(expression, [values], transform.result_type([type_]))
    assert transform.apply(values).equals(expected), expression


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(rows(), specs())
def test_every_row_is_in_the_domain_of_its_partition(batch: pa.RecordBatch, spec: Any) -> None:
    for field in spec.fields:
        if len(field.source_ids) > 1:
            continue
        (path,) = field.source_columns(SCHEMA)
        source = batch.column(path[0])
        space = space_of(source.type)
        for value, partition in zip(source, field.values(batch, SCHEMA), strict=True):
            domain = field.transform.domain(partition, source.type)
            if not value.is_valid:
                assert domain.has_null
                continue
            key, _ = space.cuts(value)
            assert any((low is None or low <= key) and (high is None or key < high) for low, high in domain.intervals)


@pytest.mark.parametrize("transform", [Identity(), Year(), Bucket(16), MultiBucket(8), Truncate(2)])
def test_json_is_that_of_the_specification(transform: Transform) -> None:
    assert transform_from_json(transform.to_json()) == transform
    assert transform_from_json({**transform.to_json(), "unknown": 1}) == transform


def test_json_members() -> None:
    assert Bucket(16).to_json() == {"type": "bucket", "num_buckets": 16}
    assert Truncate(3).to_json() == {"type": "truncate", "width": 3}
    assert Hour().to_json() == {"type": "hour"}


@pytest.mark.parametrize(
    ("members", "error"),
    [
        ({"type": "bucket"}, InvalidInputError),
        ({"type": "bucket", "num_buckets": 0}, InvalidInputError),
        ({"type": "bucket", "num_buckets": True}, InvalidInputError),
        ({"type": "bucket", "num_buckets": 2**31}, InvalidInputError),
        ({"type": "multi_bucket", "num_buckets": "4"}, InvalidInputError),
        ({"type": "truncate", "width": -1}, InvalidInputError),
        ({"type": "week"}, UnsupportedFeatureError),
        ({"type": 5}, InvalidInputError),
        ("year", InvalidInputError),
    ],
)
def test_wrong_json_is_refused(members: object, error: type[LanceError]) -> None:
    with pytest.raises(error):
        transform_from_json(members)


@pytest.mark.parametrize(
    ("transform", "types"),
    [
        (Year(), [pa.string()]),
        (Hour(), [pa.date32()]),
        (Truncate(2), [pa.binary()]),
        (Truncate(2), [pa.bool_()]),
        (Truncate(2), [pa.float16()]),
        (Bucket(2), [pa.list_(pa.int8())]),
        (Identity(), [pa.struct([("a", pa.int8())])]),
        (Bucket(2), [pa.int8(), pa.int8()]),
        (MultiBucket(2), []),
        (MultiBucket(2), [pa.month_day_nano_interval()]),
    ],
)
def test_wrong_source_types_are_refused(transform: Transform, types: list[pa.DataType]) -> None:
    with pytest.raises(InvalidInputError):
        transform.result_type(types)
    if len(types) == 1:
        with pytest.raises(InvalidInputError):
            transform.apply(pa.nulls(1, types[0]))


def test_a_dropped_column_is_null() -> None:
    for transform in (Identity(), *DATE_PARTS, Bucket(3), MultiBucket(3), Truncate(3)):
        assert transform.apply(pa.nulls(2)).null_count == 2
