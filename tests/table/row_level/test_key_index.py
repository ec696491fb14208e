"""Keys of every type, against Python's equality."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_spark.errors import InvalidInputError
from lance_spark.table.row_level import key_index
from lance_spark.table.row_level.key_index import KeyIndex

NAN = float("nan")
DAY = datetime.date(2024, 2, 29)
KINDS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [1, -2, None]),
    (pa.uint64(), [1, (1 << 64) - 1, None]),
    (pa.float64(), [0.0, -0.0, NAN, 1.5, None]),
    (pa.float32(), [0.0, -0.0, NAN, None]),
    (pa.float16(), [0.0, -0.0, NAN, None]),
    (pa.string(), ["", "a", "ä", None]),
    (pa.large_string(), ["a", "b", None]),
    (pa.string_view(), ["a", "b", None]),
    (pa.binary(), [b"", b"\0", None]),
    (pa.binary(2), [b"ab", b"cd", None]),
    (pa.decimal128(5, 2), [decimal.Decimal("1.50"), decimal.Decimal("2.00"), None]),
    (pa.decimal256(50, 2), [decimal.Decimal("1.50"), decimal.Decimal("2.00"), None]),
    (pa.date32(), [DAY, None]),
    (pa.date64(), [DAY, None]),
    (pa.timestamp("us"), [1, 2, None]),
    (pa.timestamp("ns", "UTC"), [1, 2, None]),
    (pa.time32("s"), [1, 2, None]),
    (pa.time64("ns"), [1, 2, None]),
    (pa.duration("ms"), [1, 2, None]),
    (pa.bool_(), [True, False, None]),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b", None]),
    (pa.null(), [None]),
]


def array(type_: pa.DataType, values: list[Any]) -> pa.Array:
    if pa.types.is_dictionary(type_):
        return pa.array(values, type_.value_type).dictionary_encode().cast(type_)
    return pa.array(values, type_)


def same(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def keys(columns: list[list[Any]]) -> list[tuple[Any, ...]]:
    return [tuple(same(value) for value in row) for row in zip(*columns, strict=True)]


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_rows_are_found_by_python_s_equality(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3))
    sizes = [data.draw(st.integers(0, 12)) for _ in range(2)]
    here, there = (
        [data.draw(st.lists(st.sampled_from(values), min_size=size, max_size=size)) for _, values in kinds]
        for size in sizes
    )
    index = KeyIndex([array(kind[0], column) for kind, column in zip(kinds, here, strict=True)], ["k"] * len(kinds))
    found = index.find([array(kind[0], column) for kind, column in zip(kinds, there, strict=True)])
    rows = keys(here)
    for key, number in zip(keys(there), found.tolist(), strict=True):
        expected = [row for row, other in enumerate(rows) if other == key and None not in key]
        assert (number >= 0) == bool(expected)
        if expected:
            assert index.first_rows()[number] == expected[0]
            assert index.counts()[number] == len(expected)
    assert [key < 0 for key in index.keys.tolist()] == [None in row for row in rows]
    assert index.num_keys == len({row for row in rows if None not in row})


def test_sliced_arrays() -> None:
    values = pa.array([9, 1, 2, 3, 9])
    index = KeyIndex([values.slice(1, 3)], ["k"])
    assert index.find([values.slice(2)]).tolist() == [1, 2, -1]


@pytest.mark.parametrize("type_", [pa.list_(pa.int64()), pa.struct([("x", pa.int64())]), pa.map_(pa.int8(), pa.int8())])
def test_nested_values_are_no_keys(type_: pa.DataType) -> None:
    with pytest.raises(InvalidInputError, match="cannot be a key"):
        KeyIndex([pa.nulls(1, type_)], ["k"])


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.int64, np.uint64])
@pytest.mark.parametrize("num_keys", [1, 100, 9000])
def test_many_rows_are_sifted_first(dtype: type[np.generic], num_keys: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows with other keys are mostly not searched, and the answers are those of a dictionary."""
    rng = np.random.default_rng(num_keys)
    limits = np.iinfo(dtype)
    known = rng.integers(limits.min, limits.max, num_keys, dtype, endpoint=True)
    rows = np.concatenate([rng.integers(limits.min, limits.max, 20_000, dtype, endpoint=True), known[:50]])
    index = KeyIndex([pa.array(known)], ["k"])
    searched: list[int] = []
    search = key_index._places

    def counted(values: Any, among: Any) -> Any:
        searched.append(len(values))
        return search(values, among)

    monkeypatch.setattr(key_index, "_places", counted)
    found = index.find([pa.array(rows)])
    expected = {value: number for number, value in enumerate(sorted(set(known.tolist())))}
    assert found.tolist() == [expected.get(value, -1) for value in rows.tolist()]
    if limits.bits > 16 and num_keys == 100:
        assert sum(searched) < len(rows) // 50
