# ruff: noqa: E501
"""Types between Lance and Spark: schemas, values in both directions, and what does not fit. No JVM is needed."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as st

from lance_spark.errors import InvalidInputError, UnsupportedFeatureError
from lance_spark.spark.compat.types import TIME, worker_schema
from lance_spark.spark.types.schemas import exchanged_schema, is_lossless, table_types, to_spark_schema, written_schema
from lance_spark.spark.types.values import from_spark_batch, to_spark_batch

MICROS = datetime.timedelta(microseconds=1)
HAS_TIME = pytest.mark.since("4.1", "the type TIME")

# Arrow type of the table, Spark's type, values of the table, what Spark sees of them (None: the same)
CASES: list[Any] = [
    (pa.bool_(), st.BooleanType(), [True, None, False], None),
    (pa.int8(), st.ByteType(), [-128, None, 127], None),
    (pa.int64(), st.LongType(), [-(2**63), None, 2**63 - 1], None),
    (pa.uint8(), st.ShortType(), [0, None, 255], None),
    (pa.uint16(), st.IntegerType(), [0, None, 2**16 - 1], None),
    (pa.uint32(), st.LongType(), [0, None, 2**32 - 1], None),
    (pa.uint64(), st.DecimalType(20, 0), [0, None, 2**64 - 1], [Decimal(0), None, Decimal(2**64 - 1)]),
    (pa.float16(), st.FloatType(), [1.5, None, -65504.0, math.inf], None),
    (pa.float32(), st.FloatType(), [1.5, None], None),
    (pa.float64(), st.DoubleType(), [1e300, None], None),
    (pa.decimal128(38, 10), st.DecimalType(38, 10), [Decimal("1.5000000000"), None], None),
    (pa.decimal256(38, 10), st.DecimalType(38, 10), [Decimal("1.5000000000"), None], None),
    (pa.string(), st.StringType(), ["a", None, ""], None),
    (pa.large_string(), st.StringType(), ["a", None, ""], None),
    (pa.binary(), st.BinaryType(), [b"a", None, b""], None),
    (pa.large_binary(), st.BinaryType(), [b"a", None, b""], None),
    (pa.binary(2), st.BinaryType(), [b"ab", None], None),
    (pa.date32(), st.DateType(), [datetime.date(2024, 1, 1), None], None),
    (pa.date64(), st.DateType(), [datetime.date(1969, 1, 1), None], None),
    (pa.timestamp("s"), st.TimestampNTZType(), [datetime.datetime(2024, 1, 1), None], None),
    (pa.timestamp("ms", "UTC"), st.TimestampType(), [datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc), None], None),
    (pa.timestamp("ns"), st.TimestampNTZType(), [datetime.datetime(1900, 1, 1, 0, 0, 0, 7), None], None),
    pytest.param(pa.time32("s"), TIME, [datetime.time(23, 59, 59), None], None, marks=HAS_TIME),
    pytest.param(pa.time64("us"), TIME, [datetime.time(23, 59, 59, 999999), None], None, marks=HAS_TIME),
    (pa.duration("ms"), st.DayTimeIntervalType(), [datetime.timedelta(days=-1, milliseconds=5), None], None),
    (pa.duration("us"), st.DayTimeIntervalType(), [datetime.timedelta(days=-1, microseconds=5), None], None),
    (pa.null(), st.NullType(), [None, None], None),
    (pa.dictionary(pa.int8(), pa.string()), st.StringType(), ["a", None, "b", "a"], None),
    (pa.dictionary(pa.uint16(), pa.uint64()), st.DecimalType(20, 0), [5, None, 5], [Decimal(5), None, Decimal(5)]),
    (pa.list_(pa.uint8()), st.ArrayType(st.ShortType()), [[1, None], None, []], None),
    (pa.large_list(pa.float16()), st.ArrayType(st.FloatType()), [[1.5, None], None, []], None),
    (pa.list_(pa.float16(), 2), st.ArrayType(st.FloatType()), [[1.5, 2.5], None, [3.0, None]], None),
    (pa.list_(pa.list_(pa.uint8(), 2), 2), st.ArrayType(st.ArrayType(st.ShortType())), [[[1, 2], [3, 4]], None], None),
    (
        pa.struct([("u", pa.uint8()), ("in", pa.struct([("t", pa.dictionary(pa.int8(), pa.string()))]))]),
        st.StructType([st.StructField("u", st.ShortType()), st.StructField("in", st.StructType([st.StructField("t", st.StringType())]))]),
        [{"u": 1, "in": {"t": "x"}}, None, {"u": None, "in": None}],
        None,
    ),
    (pa.map_(pa.string(), pa.uint32()), st.MapType(st.StringType(), st.LongType()), [[("a", 1), ("b", None)], None, []], None),
    (
        pa.list_(pa.struct([("m", pa.map_(pa.int32(), pa.list_(pa.uint8(), 1)))])),
        st.ArrayType(st.StructType([st.StructField("m", st.MapType(st.IntegerType(), st.ArrayType(st.ShortType())))])),
        [[{"m": [(1, [2]), (2, None)]}, None], None, []],
        None,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "spark_type", "values", "seen"), CASES, ids=lambda value: str(value)[:40])
def test_both_directions(
    dtype: pa.DataType, spark_type: st.DataType, values: list[Any], seen: list[Any] | None
) -> None:
    """What Spark is given has exactly the Arrow types that it checks for, and comes back as it was."""
    table_schema = pa.schema([("c", dtype)])
    spark_schema = to_spark_schema(table_schema)
    assert spark_schema == st.StructType([st.StructField("c", spark_type, True)])

    target = worker_schema(spark_schema)
    # Longer than one byte of validity, and cut in the middle: offsets must not be lost.
    column = pa.array(values * 5, dtype.value_type if pa.types.is_dictionary(dtype) else dtype)
    if pa.types.is_dictionary(dtype):
        encoded = column.dictionary_encode()
        column = pa.DictionaryArray.from_arrays(encoded.indices.cast(dtype.index_type), encoded.dictionary)
    for start, length in ((0, len(column)), (1, len(column) - 1), (len(values) + 1, len(values)), (3, 0)):
        stored = pa.record_batch([column.slice(start, length)], schema=table_schema)
        given = to_spark_batch(stored, target)
        given.validate(full=True)
        assert given.schema.equals(target)
        assert given.column(0).to_pylist() == ((seen or values) * 5)[start : start + length]
        back = from_spark_batch(given, table_types(target, table_schema))
        back.validate(full=True)
        assert back.schema.field("c").type == dtype
        assert back.column(0).to_pylist() == stored.column(0).to_pylist()


def _given(values: list[Any], dtype: pa.DataType) -> pa.RecordBatch:
    return pa.record_batch({"price": pa.array(values, dtype)})


@pytest.mark.parametrize(
    ("given", "dtype"),
    [
        (_given([256], pa.int16()), pa.uint8()),
        (_given([-1], pa.int16()), pa.uint8()),
        (_given([-1], pa.int64()), pa.uint32()),
        (_given([Decimal(2**64)], pa.decimal128(20, 0)), pa.uint64()),
        (_given([Decimal(-1)], pa.decimal128(20, 0)), pa.uint64()),
        (_given([65520.0], pa.float32()), pa.float16()),
        (_given([[1.0, -1e10]], pa.list_(pa.float32())), pa.list_(pa.float16(), 2)),
        (_given([b"abc"], pa.binary()), pa.binary(2)),
        (_given([[1.0]], pa.list_(pa.float32())), pa.list_(pa.float32(), 2)),
        (_given([1_500_000], pa.timestamp("us")), pa.timestamp("s")),
        (_given([2**62], pa.timestamp("us")), pa.timestamp("ns")),
        (_given([1_500_000_000], pa.time64("ns")), pa.time32("s")),
        (_given([1], pa.time64("ns")), pa.time64("us")),
        (_given([1_500], pa.duration("us")), pa.duration("ms")),
        (_given([str(k) for k in range(300)], pa.string()), pa.dictionary(pa.int8(), pa.string())),
        (_given([{"a": 300}], pa.struct([("a", pa.int16())])), pa.struct([("a", pa.uint8())])),
    ],
    ids=str,
)  # fmt: skip
def test_values_that_the_table_cannot_hold(given: pa.RecordBatch, dtype: pa.DataType) -> None:
    with pytest.raises(InvalidInputError, match=r"column price (has a value|takes lists)"):
        from_spark_batch(given, pa.schema([("price", dtype)]))


def test_values_that_spark_cannot_hold() -> None:
    far = pa.record_batch({"c": pa.array([2**62], pa.timestamp("s"))})
    with pytest.raises(InvalidInputError, match="column c has a value"):
        to_spark_batch(far, pa.schema([("c", pa.timestamp("us"))]))


def test_infinities_and_nan_stay_in_half_floats() -> None:
    given = pa.record_batch({"c": pa.array([math.inf, -math.inf, math.nan, 65504.0, None], pa.float32())})
    halves = from_spark_batch(given, pa.schema([("c", pa.float16())])).column(0).to_pylist()
    assert halves[:2] == [math.inf, -math.inf]
    assert math.isnan(halves[2])
    assert halves[3:] == [65504.0, None]


def test_nanoseconds_are_cut_off_towards_the_past() -> None:
    """As Spark does with nanoseconds in Parquet: 1 ns before 1970 is in the microsecond before 1970."""
    nanos = [-1001, -1000, -1, 0, 999, 1000, None]
    micros = [-2, -1, -1, 0, 0, 1, None]
    for dtype, seen in (
        (pa.timestamp("ns"), pa.timestamp("us")),
        (pa.timestamp("ns", "Europe/Paris"), pa.timestamp("us", "UTC")),
        (pa.duration("ns"), pa.duration("us")),
    ):
        stored = pa.record_batch({"c": pa.array(nanos, dtype), "l": pa.array([nanos] * 7, pa.list_(dtype))})
        target = pa.schema([("c", seen), ("l", pa.list_(pa.field("element", seen)))])
        given = to_spark_batch(stored, target)
        assert given.column(0).cast(pa.int64()).to_pylist() == micros
        assert given.column(1).values.cast(pa.int64()).to_pylist()[:7] == micros
        assert not is_lossless(dtype)
    clock = to_spark_batch(
        pa.record_batch({"c": pa.array([1999], pa.time64("ns"))}), pa.schema([("c", pa.time64("ns"))])
    )
    assert clock.column(0).cast(pa.int64()).to_pylist() == [1000]


@pytest.mark.parametrize(
    "dtype",
    [pa.decimal256(39, 0), pa.decimal128(5, -2), pa.month_day_nano_interval(), pa.list_view(pa.int8()), pa.run_end_encoded(pa.int32(), pa.int8())],
    ids=str,
)  # fmt: skip
def test_types_without_a_counterpart(dtype: pa.DataType) -> None:
    schema = pa.schema([("id", pa.int64()), ("deep", pa.struct([("c", pa.list_(dtype))]))])
    with pytest.raises(
        UnsupportedFeatureError, match=r"column deep\.c\.item has type .*, which Spark 4.. does not have"
    ):
        to_spark_schema(schema)


def test_nullability() -> None:
    inner = pa.struct([pa.field("a", pa.int32(), nullable=False)])
    schema = pa.schema(
        [
            pa.field("s", inner, nullable=False),
            pa.field("l", pa.list_(pa.field("item", pa.int8(), nullable=False))),
            pa.field("m", pa.map_(pa.string(), pa.field("value", pa.int8(), nullable=False))),
        ]
    )
    assert to_spark_schema(schema) == st.StructType(
        [
            st.StructField("s", st.StructType([st.StructField("a", st.IntegerType(), False)]), False),
            st.StructField("l", st.ArrayType(st.ByteType(), False)),
            st.StructField("m", st.MapType(st.StringType(), st.ByteType(), False)),
        ]
    )


def test_columns_of_new_tables_and_of_other_types_keep_sparks() -> None:
    given = pa.schema([("a", pa.int16()), ("b", pa.int64()), ("c", pa.list_(pa.field("element", pa.float32())))])
    table = pa.schema([("a", pa.uint8()), ("b", pa.uint8()), ("c", pa.list_(pa.float32(), 4))])
    assert table_types(given, None).types == [pa.int16(), pa.int64(), pa.list_(pa.field("item", pa.float32()))]
    # b is no column of SHORT in Spark, so it does not fit; whoever writes it decides what then.
    assert table_types(given, table).types == [pa.uint8(), pa.int64(), pa.list_(pa.float32(), 4)]


def test_columns_go_by_name_on_the_way_back_and_rows_survive_without_columns() -> None:
    given = pa.record_batch({"a": pa.array([1], pa.int16()), "b": ["x"]})
    back = from_spark_batch(given, pa.schema([("b", pa.large_string()), ("a", pa.uint8())]))
    assert back.to_pydict() == {"b": ["x"], "a": [1]}
    assert to_spark_batch(given.select([]), pa.schema([])).num_rows == 1


@pytest.mark.parametrize("dtype", [st.CharType(3), st.VarcharType(3)])
def test_texts_of_limited_length_become_strings(dtype: st.DataType) -> None:
    columns = st.StructType().add("a", st.ArrayType(dtype)).add("m", st.MapType(dtype, st.StructType().add("x", dtype)))
    schema = written_schema(columns)
    assert schema.field("a").type.value_type == pa.string()
    assert schema.field("m").type.item_type.field("x").type == pa.string()


@pytest.mark.parametrize(
    "dtype",
    [
        st.MapType(st.NullType(), st.NullType(), False),
        st.CalendarIntervalType(),
    ],
)
def test_types_that_a_table_would_forget(dtype: st.DataType) -> None:
    columns = st.StructType().add("s", st.StructType().add("l", st.ArrayType(dtype)))
    with pytest.raises(UnsupportedFeatureError, match=r"column s\.l\.element has Spark's type"):
        written_schema(columns)


@pytest.mark.since("4.1", "the types GEOMETRY and GEOGRAPHY")
@pytest.mark.parametrize("name", ["GeometryType", "GeographyType"])
def test_geometries_of_any_system_are_refused(name: str) -> None:
    columns = st.StructType().add("s", st.StructType().add("l", st.ArrayType(getattr(st, name)("ANY"))))
    with pytest.raises(UnsupportedFeatureError, match=r"column s\.l\.element (has Spark's type|is GEO.*\(ANY\))"):
        written_schema(columns)


@pytest.mark.skipif(TIME is not None, reason="this Spark has the type TIME")
def test_time_is_refused_where_spark_lacks_it() -> None:
    schema = pa.schema([("id", pa.int64()), ("t", pa.time64("us"))])
    with pytest.raises(
        UnsupportedFeatureError, match=r"column t has type time64\[us\], which Spark 4\.0 does not have"
    ):
        to_spark_schema(schema)


def test_collations_are_kept_at_every_level() -> None:
    text = st.StringType("UNICODE_CI")
    nested = st.MapType(text, st.StructType().add("x", text).add("plain", st.StringType()))
    columns = st.StructType().add("s", text).add("a", st.ArrayType(text)).add("m", nested)
    stored = table_types(written_schema(columns), None)
    assert to_spark_schema(stored) == columns
    assert stored.field("s").type == stored.field("a").type.value_type == pa.string()


@pytest.mark.parametrize("units", [(0, 0), (1, 1), (0, 1)])
def test_intervals_of_years_are_months_at_every_level(units: tuple[int, int]) -> None:
    dtype = st.YearMonthIntervalType(*units)
    nested = st.MapType(st.StringType(), st.StructType().add("x", dtype))
    columns = st.StructType().add("y", dtype).add("a", st.ArrayType(dtype)).add("m", nested)
    stored = table_types(written_schema(columns), None)
    assert to_spark_schema(stored) == columns
    assert stored.field("y").type == stored.field("m").type.item_type.field("x").type == pa.int32()
    assert exchanged_schema(columns).field("a").type.value_type == pa.int32()
    assert to_spark_schema(pa.schema([stored.field("y").remove_metadata()]))["y"].dataType == st.IntegerType()


def test_variants_are_structs_with_an_extension_at_every_level() -> None:
    columns = st.StructType().add("v", st.VariantType()).add("m", st.MapType(st.StringType(), st.VariantType()))
    stored = table_types(written_schema(columns), None)
    assert to_spark_schema(stored) == columns
    for field in (stored.field("v"), stored.field("m").type.item_field):
        assert [(child.name, child.type) for child in field.type] == [("metadata", pa.binary()), ("value", pa.binary())]
        assert field.metadata == {b"ARROW:extension:name": b"arrow.parquet.variant"}
    exchanged = exchanged_schema(columns)
    given = pa.StructArray.from_arrays(
        [pa.array([b"1", None]), pa.array([b"2", None])],
        fields=list(stored.field("v").type),
        mask=pa.array([False, True]),
    )
    batch = pa.RecordBatch.from_arrays([given], schema=pa.schema([stored.field("v")]))
    found = to_spark_batch(batch, pa.schema([exchanged.field("v")]))
    assert found.column(0).to_pylist() == [{"value": b"2", "metadata": b"1"}, None]
    assert from_spark_batch(found, pa.schema([stored.field("v")])).column(0).to_pylist() == given.to_pylist()


@pytest.mark.since("4.3", "columns of GEOMETRY and GEOGRAPHY")
def test_geometries_of_another_srid_are_refused() -> None:
    def schema(dtype: st.DataType) -> pa.Schema:
        return written_schema(st.StructType().add("s", st.StructType().add("l", st.ArrayType(dtype))))

    table = table_types(schema(st.GeometryType(4326)), None)
    assert to_spark_schema(table)["s"].dataType["l"].dataType.elementType == st.GeometryType(4326)
    assert table_types(schema(st.GeometryType(4326)), table) == table
    for other in (st.GeometryType(3857), st.GeographyType(4326), st.BinaryType()):
        with pytest.raises(InvalidInputError, match=r"column s\.l\.element is GEOMETRY\(4326\) in the table and"):
            table_types(schema(other), table)
        replaced = table_types(schema(other), table, replaces=True)
        assert to_spark_schema(replaced)["s"].dataType["l"].dataType.elementType == other


def test_units_of_intervals_survive_the_table_and_its_types() -> None:
    spark = st.StructType(
        [
            st.StructField("a", st.DayTimeIntervalType(1, 2)),
            st.StructField("l", st.ArrayType(st.MapType(st.StringType(), st.DayTimeIntervalType(0, 0)))),
            st.StructField("s", st.StructType([st.StructField("x", st.DayTimeIntervalType(3, 3))])),
            st.StructField("d", st.DayTimeIntervalType()),
        ]
    )
    kept = table_types(written_schema(spark), None)
    assert to_spark_schema(kept) == spark
    assert kept.field("a").type == pa.duration("us")
    assert kept.field("d").metadata is None
    # A table's own unit of counts stays; a unit that nobody knows is days to seconds.
    nanos = pa.schema([pa.field("a", pa.duration("ns"), metadata={"lance-spark:interval": "fortnight"})])
    assert table_types(written_schema(spark), nanos).field("a").type == pa.duration("ns")
    assert to_spark_schema(nanos).fields[0].dataType == st.DayTimeIntervalType()


def test_null_lists_of_a_fixed_size_without_any_item() -> None:
    """Arrow's cast of an array that came without a buffer of items ends the process."""
    given = pa.record_batch({"v": pa.array([None, None], pa.list_(pa.int32()))})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, given.schema) as stream:
        stream.write_batch(given)
    received = pa.ipc.open_stream(sink.getvalue()).read_next_batch()
    target = pa.schema([pa.field("v", pa.list_(pa.int32(), 2))])
    made = from_spark_batch(received, target)
    made.validate(full=True)
    assert made.to_pydict() == {"v": [None, None]}
    assert from_spark_batch(received.slice(1, 0), target).num_rows == 0


def test_a_list_of_a_wrong_length_tells_both_lengths() -> None:
    given = pa.record_batch({"k": ["a", "b", "c"], "v": pa.array([[1, 2], None, [3]], pa.list_(pa.int32()))})
    with pytest.raises(
        InvalidInputError, match=r"column v takes lists of 2 items, and row 2 of its batch \(k = c\) has one of 1"
    ):
        from_spark_batch(given, pa.schema([pa.field("k", pa.string()), pa.field("v", pa.list_(pa.int32(), 2))]))
