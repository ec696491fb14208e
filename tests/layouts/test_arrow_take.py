"""Values by number, where pyarrow's own take is right and where it is not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
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
