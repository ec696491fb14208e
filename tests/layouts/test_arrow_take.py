"""Values by number, where pyarrow's own take is right and where it is not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lance_spark.layouts.arrow_take import filter_chunked, take, take_chunked
from tests.support.strategies import array

VECTORS = pa.list_(pa.list_(pa.int16(), 2), 3)


@pytest.mark.parametrize(
    "dtype",
    [pa.int32(), pa.string(), VECTORS, pa.list_(VECTORS), pa.struct([("v", VECTORS)]), pa.list_(pa.float32(), 4)],
    ids=str,
)
def test_take_gives_the_values_at_the_places(dtype: pa.DataType) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        values = array(dtype, 50, 0.2, rng)
        places = np.flatnonzero(rng.random(50) < 0.5)
        rows = values.to_pylist()
        assert str(take(values, places).to_pylist()) == str([rows[place] for place in places.tolist()])


@pytest.mark.parametrize(
    "dtype",
    [pa.bool_(), pa.int8(), pa.uint16(), pa.float16(), pa.float32(), pa.date32(), pa.int64(), pa.timestamp("us", "UTC"),
     pa.decimal128(9, 2), pa.string()],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("nulls", [0.0, 0.2])
def test_filter_keeps_the_values_whose_bit_is_set(dtype: pa.DataType, nulls: float) -> None:
    rng = np.random.default_rng(3)
    numbers = pa.array(rng.integers(-100, 100, 400).astype(np.int8))
    numbers = pa.array(np.abs(numbers.to_numpy())) if pa.types.is_unsigned_integer(dtype) else numbers
    wide = pa.array(numbers.to_numpy().astype(np.float16)) if pa.types.is_float16(dtype) else numbers
    wide = numbers.cast(pa.int32()) if pa.types.is_date(dtype) else wide
    wide = numbers.cast(pa.int64()) if pa.types.is_timestamp(dtype) else wide
    values = pc.if_else(pa.array(rng.random(400) >= nulls), wide.cast(dtype), pa.scalar(None, dtype))
    for share in (0.0, 0.1, 0.5, 0.97, 1.0):
        keep = pa.array(rng.random(400) < share)
        for first, mask_first, length in ((0, 0, 400), (3, 0, 17), (0, 5, 390), (7, 9, 300), (1, 1, 3), (9, 2, 0)):
            some, mask = values.slice(first, length), keep.slice(mask_first, length)
            found = filter_chunked(pa.chunked_array([some]), pa.chunked_array([mask]))
            found.validate(full=True)
            assert found.type == dtype
            expected = [value for value, bit in zip(some.to_pylist(), mask.to_pylist(), strict=True) if bit]
            assert found.to_pylist() == expected


def test_take_of_nothing() -> None:
    assert take(pa.array([[[1, 2]]], pa.list_(pa.list_(pa.int16(), 2), 1)), np.zeros(0, np.int64)).to_pylist() == []


def test_columns_in_chunks_are_taken_and_filtered_as_lists_would_be() -> None:
    inner = pa.array([[1.0, None], None, [3.0, 4.0], [5.0, 6.0]] * 25, pa.list_(pa.float32(), 2))
    matrix = pa.FixedSizeListArray.from_arrays(inner, 2, mask=pa.array([i % 5 == 0 for i in range(50)]))
    column = pa.chunked_array([matrix.slice(0, 20), matrix.slice(20)])
    expected = column.to_pylist()
    places = np.array([3, 3, 49, 0, 21], np.int64)
    assert take_chunked(column, places).to_pylist() == [expected[place] for place in places]
    keep = pa.chunked_array([pa.array([i % 3 == 1 for i in range(50)])])
    assert filter_chunked(column, keep).to_pylist() == [value for i, value in enumerate(expected) if i % 3 == 1]
