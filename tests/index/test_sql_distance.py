"""The distances by which scans order rows for `lance_distance`."""

from __future__ import annotations

from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark.index.vector.metrics import Metric
from lance_spark.index.vector.sql_distance import SqlDistance

TYPES = {"f2": pa.float16(), "f4": pa.float32(), "f8": pa.float64(), "u1": pa.uint8()}


def column(values: np.ndarray) -> pa.FixedSizeListArray:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel(), TYPES[values.dtype.str[1:]]), values.shape[1])


def distance(vectors: pa.Array, metric: str, query: np.ndarray) -> SqlDistance:
    found = SqlDistance.of(vectors.type, Metric.named(metric), tuple(map(float, query)))
    assert found is not None
    return found


def in_lanes(terms: np.ndarray) -> np.floating:
    """The sum of the terms in the documented order."""
    lanes = np.zeros(8, terms.dtype)
    for place, term in enumerate(terms):
        lanes[place % 8] += term
    return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]))


@pytest.mark.parametrize("dimension", [1, 5, 8, 15, 37])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sums_have_the_documented_order(dtype: str, dimension: int) -> None:
    random = np.random.default_rng(dimension)
    values = random.normal(size=(50, dimension)).astype(dtype)
    query = values[7]
    vectors = column(values)
    one = np.array(1, dtype)[()]
    norm = np.sqrt(in_lanes(query * query))
    expected = {
        "l2": [in_lanes((row - query) ** 2) for row in values],
        "dot": [one - in_lanes(row * query) for row in values],
        "cosine": [one - in_lanes(row * query) / (np.sqrt(in_lanes(row * row)) * norm) for row in values],
    }
    for metric, numbers in expected.items():
        found = distance(vectors, metric, query).values(vectors).to_numpy()
        np.testing.assert_array_equal(found, np.array(numbers).astype(np.float32))


@pytest.mark.parametrize("dtype", ["f4", "f8", "u1"])
def test_distances_are_those_of_pylance(tmp_path: Path, dtype: str) -> None:
    random = np.random.default_rng(3)
    values = (random.random(size=(200, 20)) * 250).astype(dtype)
    vectors = column(values)
    lance.write_dataset(pa.table({"id": range(200), "v": vectors}), str(tmp_path))
    for metric in ["hamming"] if dtype == "u1" else ["l2", "cosine", "dot"]:
        nearest = {"column": "v", "q": values[5], "k": 200, "metric": metric}
        theirs = lance.dataset(str(tmp_path)).to_table(nearest=nearest).sort_by("id")["_distance"].to_numpy()
        ours = distance(vectors, metric, values[5]).values(vectors).to_numpy()
        np.testing.assert_allclose(ours, theirs, 1e-4, 1e-4)


def test_nulls_slices_and_null_items() -> None:
    vectors = pa.array([[9, 9], [1, 2], None, [None, 2], [np.nan, 0], [np.inf, 0]], pa.list_(pa.float32(), 2))[1:]
    found = distance(vectors, "l2", np.array([1.0, 0.0])).values(vectors)
    assert found.to_pylist()[:3] == [4.0, None, 5.0]
    assert np.isnan(found[3].as_py())
    assert found[4].as_py() == np.inf
    zero = pa.array([[0, 0], [0, 3]], pa.list_(pa.float32(), 2))
    cosine = distance(zero, "cosine", np.array([0.0, 1.0])).values(zero).to_pylist()
    assert np.isnan(cosine[0])
    assert cosine[1] == 0.0


def test_float16_is_compared_in_float32() -> None:
    vectors = column(np.array([[0.5, 1.5]], np.float16))
    assert distance(vectors, "l2", np.array([0.1, 1.5])).values(vectors)[0].as_py() == (
        (np.float32(0.5) - np.float32(0.1)) ** 2
    )


@pytest.mark.parametrize(
    ("dtype", "metric", "query"),
    [
        (pa.list_(pa.float32(), 2), "l2", (1.0,)),
        (pa.list_(pa.float32()), "l2", (1.0, 2.0)),
        (pa.list_(pa.float32(), 2), "hamming", (1.0, 2.0)),
        (pa.list_(pa.uint8(), 2), "l2", (1.0, 2.0)),
        (pa.list_(pa.uint8(), 2), "hamming", (1.5, 2.0)),
        (pa.list_(pa.uint8(), 2), "hamming", (1.0, 256.0)),
        (pa.list_(pa.int32(), 2), "l2", (1.0, 2.0)),
        (pa.float32(), "l2", (1.0, 2.0)),
    ],
)
def test_calls_that_fail_are_left_to_spark(dtype: pa.DataType, metric: str, query: tuple[float, ...]) -> None:
    assert SqlDistance.of(dtype, Metric.named(metric), query) is None
