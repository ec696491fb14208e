"""The hash functions against the mmh3 package, and what the specification says of them."""

from __future__ import annotations

import datetime
import struct
from decimal import Decimal
from typing import Any

import mmh3
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.errors import InvalidInputError
from lance_spark.partitioned.transforms.bucket import MultiBucket
from lance_spark.partitioned.values.hashing import check_hashable, murmur3, murmur3_multi
from tests.partitioned import murmur3_vectors
from tests.support.partitioned.hashing import TYPES, VECTORS, column


def test_the_file_is_what_its_script_writes() -> None:
    assert murmur3_vectors.vectors() == VECTORS


@pytest.mark.parametrize("row", VECTORS, ids=lambda row: f"{'-'.join(row['types'])}-{row['hash']}")
def test_vector(row: dict[str, Any]) -> None:
    columns = [column(name, value) for name, value in zip(row["types"], row["values"], strict=True)]
    assert murmur3_multi(columns).to_pylist() == [row["hash"]]
    assert MultiBucket(16).apply(*columns).to_pylist() == [row["bucket_16"]]
    if len(columns) == 1:
        assert murmur3(columns[0]).to_pylist() == [row["hash"]]


def test_known_hashes_of_the_iceberg_specification() -> None:
    """Appendix B of the Iceberg specification; decimals have other bytes there."""
    day = pa.array([datetime.date(2017, 11, 16)])
    clock = pa.array([datetime.time(22, 31, 8)], pa.time64("us"))
    stamp = pa.array([datetime.datetime(2017, 11, 16, 22, 31, 8)], pa.timestamp("us"))
    for values, expected in [
        (pa.array([34], pa.int32()), 2017239379),
        (pa.array([34], pa.int64()), 2017239379),
        (day, -653330422),
        (clock, -662762989),
        (stamp, -2047944441),
        (stamp.cast(pa.timestamp("us", "UTC")), -2047944441),
        (pa.array(["iceberg"]), 1210000089),
        (pa.array([b"\x00\x01\x02\x03"]), -188683207),
    ]:
        assert murmur3(values).to_pylist() == [expected]


@given(st.lists(st.none() | st.integers(-128, 127)))
def test_equal_integers_hash_alike_in_all_types(values: list[int | None]) -> None:
    expected = murmur3(pa.array(values, pa.int64()))
    for type_ in (pa.int8(), pa.int16(), pa.int32()):
        assert murmur3(pa.array(values, type_)).equals(expected)
    decimals = [None if value is None else Decimal(value) for value in values]
    for type_ in (pa.decimal128(5, 2), pa.decimal256(50, 7), pa.decimal128(3, 0)):
        assert murmur3(pa.array(decimals, type_)).equals(expected)
    positive = [None if value is None else abs(value) for value in values]
    for type_ in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()):
        assert murmur3(pa.array(positive, type_)).equals(murmur3(pa.array(positive, pa.int64())))


@pytest.mark.slow
@given(st.lists(st.none() | st.floats(width=16)))
def test_equal_floats_hash_alike_in_all_types(values: list[float | None]) -> None:
    expected = [
        None if value is None else mmh3.hash(murmur3_vectors.floating(repr(value)), 0, signed=True) for value in values
    ]
    for type_ in (pa.float16(), pa.float32(), pa.float64()):
        assert murmur3(pa.array(values, pa.float64()).cast(type_)).to_pylist() == expected


@pytest.mark.slow
@settings(max_examples=50)
@given(st.lists(st.none() | st.text(max_size=9), min_size=2), st.integers(0, 3))
def test_layouts_of_one_text_hash_alike(values: list[str | None], cut: int) -> None:
    expected = [None if value is None else mmh3.hash(value.encode(), 0, signed=True) for value in values][cut:]
    plain = pa.array(values, pa.string())
    for array in (plain, plain.cast(pa.large_string()), plain.dictionary_encode(), plain.cast(pa.string_view())):
        assert murmur3(array[cut:]).to_pylist() == expected
    assert murmur3(plain.cast(pa.binary())[cut:]).to_pylist() == expected


@settings(max_examples=100)
@given(st.lists(st.tuples(*[st.none() | st.text(max_size=5), st.none() | st.integers(-9, 9)] * 2), max_size=20))
def test_multi_hashes_the_bytes_of_what_is_not_null(rows: list[tuple[str | int | None, ...]]) -> None:
    columns = [pa.array([row[at] for row in rows], (pa.string(), pa.int16())[at % 2]) for at in range(4)]

    def data(value: str | int) -> bytes:
        return value.encode() if isinstance(value, str) else struct.pack("<q", value)

    expected = [
        mmh3.hash(b"".join(data(value) for value in row if value is not None), 0, signed=True)
        if any(value is not None for value in row)
        else None
        for row in rows
    ]
    assert murmur3_multi(columns).to_pylist() == expected


def test_decimals_of_more_than_64_bits() -> None:
    values = [Decimal(10) ** 30, -(Decimal(2) ** 63) - 1, Decimal("1e-30"), Decimal(2) ** 63 - 1, Decimal(0), None]
    expected = []
    for value, width in zip(values, (32, 32, 8, 8, 8, 0), strict=True):
        number = None if value is None else 1 if value == Decimal("1e-30") else int(value)
        data = None if number is None else number.to_bytes(width, "little", signed=True)
        expected.append(None if data is None else mmh3.hash(data, 0, signed=True))
    assert murmur3(pa.array(values, pa.decimal256(70, 30))).to_pylist() == expected


@pytest.mark.parametrize(
    "type_",
    [pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.month_day_nano_interval(), pa.map_("string", "int8")],
)
def test_nested_types_have_no_hash(type_: pa.DataType) -> None:
    with pytest.raises(InvalidInputError, match="murmur3"):
        murmur3(pa.nulls(2, type_))
    with pytest.raises(InvalidInputError):
        check_hashable(type_)


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="one length"):
        murmur3_multi([pa.array([1]), pa.array([1, 2])])


def test_null_type_and_no_rows() -> None:
    assert murmur3(pa.nulls(3)).to_pylist() == [None] * 3
    for type_ in TYPES.values():
        assert len(murmur3(pa.array([], type_))) == 0
        assert murmur3(pa.nulls(2, type_)).to_pylist() == [None, None]


def test_offsets_outside_of_the_data_are_refused() -> None:
    offsets = pa.py_buffer(struct.pack("<3i", 0, 99, 3))
    broken = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"abc")])
    with pytest.raises(InvalidInputError, match="offsets"):
        murmur3(broken)
