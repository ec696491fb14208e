"""Ranges of decimals and times against Python's integers."""

from __future__ import annotations

import numpy as np
import pytest

from lance_spark.kernels.jit import address_of
from lance_spark.kernels.value_ranges import decimals_within, integers_below


def words(values: list[int], width: int) -> np.ndarray:
    return np.frombuffer(b"".join(value.to_bytes(width, "little", signed=True) for value in values), np.uint64)


@pytest.mark.parametrize("width", [16, 32])
@pytest.mark.parametrize("precision", [1, 18, 19, 20, 38])
def test_decimals_within(width: int, precision: int) -> None:
    bound = 10**precision - 1
    limit = words([bound], width)
    inside = [0, 1, -1, bound - 1, -bound, 1 - bound]
    for value, expected in [
        *((value, 1) for value in inside),
        (bound + 1, 0),
        (-bound - 1, 0),
        (2**127 - 1, 0),
        (-(2**127), 0),
    ]:
        data = words([0, value, 1], width)
        assert decimals_within(address_of(data), 3, width // 8, address_of(limit)) == expected, value
    # The bound itself is left to the exact test.
    data = words([bound], width)
    assert decimals_within(address_of(data), 1, width // 8, address_of(limit)) == 0
    assert decimals_within(address_of(data), 0, width // 8, address_of(limit)) == 1


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_integers_below(kind: type) -> None:
    width = np.dtype(kind).itemsize
    for value, expected in (
        (0, 1),
        (86_399, 1),
        (86_400, 0),
        (-1, 0),
        (np.iinfo(kind).max, 0),
        (np.iinfo(kind).min, 0),
    ):
        data = np.full(37, 5, kind)
        data[31] = value
        assert integers_below(address_of(data), 37, width, 86_400) == expected, value
