"""The rows with the least distances, of some parts."""

from __future__ import annotations

import numpy as np
import pytest

from lance_spark.kernels.jit import address_of
from lance_spark.kernels.vector.vector_codes import nearest_rows


@pytest.mark.parametrize("count", [1, 10, 200, 2000])
@pytest.mark.parametrize("missing", [0.0, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("order", ["any", "ascending", "descending", "equal"])
def test_rows_are_those_of_a_sort(count: int, missing: float, order: str) -> None:
    random = np.random.default_rng(count)
    lengths = np.array([0, 1, 63, 64, 65, 1000, 130, 0], np.int64)
    number = int(lengths.sum())
    # Few distances, so that many are equal and row ids decide.
    values = random.integers(0, 50, number).astype(np.float32)
    if order == "equal":
        values[:] = 3
    elif order != "any":
        values = np.sort(values)[:: -1 if order == "descending" else 1].copy()
    values[random.random(number) < missing] = np.nan
    ids = random.permutation(number).astype(np.uint64)
    starts = lengths.cumsum() - lengths
    of_values, of_ids = address_of(values) + 4 * starts, address_of(ids) + 8 * starts
    keys, rows = np.empty(count, np.float32), np.empty(count, np.uint64)
    found = nearest_rows(
        address_of(of_values),
        address_of(of_ids),
        address_of(lengths),
        len(lengths),
        count,
        address_of(keys),
        address_of(rows),
    )
    wanted = np.lexsort((ids, values))[: min(count, np.count_nonzero(~np.isnan(values)))]
    assert found == len(wanted)
    assert keys[:found].tolist() == values[wanted].tolist()
    assert rows[:found].tolist() == ids[wanted].tolist()
