"""The order of values in an index, beside Python's sort, which keeps the order of equal values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.index.builders.sorting import sort_order

NUM_ROWS = 5000


def texts() -> dict[str, list[bytes]]:
    draw = np.random.default_rng(4)
    numbers = draw.integers(0, 1 << 40, NUM_ROWS).tolist()
    return {
        "distinct": [b"user %013d" % number for number in numbers],
        "equal pairs": [b"user %013d" % (number // 2) for number in draw.permutation(NUM_ROWS).tolist()],
        "one is the start of another": [str(number).encode()[: number % 14] for number in numbers],
        "differ behind 8 bytes": [b"%08d%02d" % (number % 3000, number % 97) for number in numbers],
        "zero bytes": [b"%07d" % (number % 9_999_991) + bytes(number % 4) for number in numbers],
        "few": [b"kind %d" % (number % 7) for number in numbers],
        "all equal": [b"same"] * NUM_ROWS,
        "empty": [b""] * NUM_ROWS,
        "none": [],
    }


@pytest.mark.parametrize("name", texts())
@pytest.mark.parametrize("dtype", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str)
@pytest.mark.parametrize("with_nulls", [False, True])
def test_texts_are_in_the_order_of_their_bytes(name: str, dtype: pa.DataType, with_nulls: bool) -> None:
    values = [None if with_nulls and place % 10 == 3 else value for place, value in enumerate(texts()[name])]
    expected = sorted(range(len(values)), key=lambda place: (values[place] is not None, values[place] or b""))
    assert sort_order(pa.array(values, pa.large_binary()).cast(dtype)).tolist() == expected


def test_binaries_of_a_fixed_size_are_in_the_order_of_their_bytes() -> None:
    values = [value[:16].ljust(16, b"x") for value in texts()["distinct"]]
    expected = sorted(range(len(values)), key=values.__getitem__)
    assert sort_order(pa.array(values, pa.binary(16))).tolist() == expected
    assert sort_order(pa.array(values, pa.binary(16)).slice(100)).tolist() == sorted(
        range(len(values) - 100), key=values[100:].__getitem__
    )


@pytest.mark.parametrize("dtype", [pa.int8(), pa.uint16(), pa.int64(), pa.timestamp("us")], ids=str)
@pytest.mark.parametrize("most", [100, 1 << 14, 1 << 40])
def test_equal_numbers_keep_their_order(dtype: pa.DataType, most: int) -> None:
    bits = 7 if dtype == pa.int8() else 16 if dtype == pa.uint16() else 40
    numbers = np.random.default_rng(most).integers(0, min(most, 1 << bits), NUM_ROWS)
    values = [None if place % 10 == 3 else number for place, number in enumerate(numbers.tolist())]
    expected = sorted(range(NUM_ROWS), key=lambda place: (values[place] is not None, values[place] or 0))
    array = pa.array(values, pa.int64()).cast(dtype)
    assert sort_order(array).tolist() == expected
