"""Values by number, where pyarrow's own take is right and where it is not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lance_spark.layouts.arrow_take import take
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
