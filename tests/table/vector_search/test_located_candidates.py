"""Candidates that are compared where mapped files have their vectors: results are those of vectors that are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

from lance_spark.index.vector.metrics import Metric, distances
from lance_spark.index.vector.nearest import Hits
from lance_spark.index.vector.vector_places import VectorPlaces
from lance_spark.storage.cache import shared
from lance_spark.table.dataset import Dataset
from lance_spark.table.vector_search.exact import ExactSearch
from lance_spark.table.vector_search.query import VectorQuery
from lance_spark.table.vector_search.search import searched_column
from lance_spark.table.vector_search.stored_vectors import LocatedVectors, StoredVectors
from tests.support.threads import all_at_once
from tests.support.vector_search.stored_columns import column_of, opened
from tests.support.vector_search.tables import clustered

ROWS = 3000


def written(tmp_path: Path, dtype: str, nulls: str = "none", **options: Any) -> tuple[str, np.ndarray[Any, Any]]:
    values = clustered(ROWS, 128, dtype)
    uri = str(tmp_path / "t")
    lance.write_dataset(pa.table({"id": range(ROWS), "v": column_of(values, nulls)}), uri, **options)
    return uri, values


class Located:
    """Counts searches whose candidates are in mapped files."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.is_off = False
        located = StoredVectors.located

        def count(stored: StoredVectors, addresses: Any) -> LocatedVectors | None:
            found = None if self.is_off else located(stored, addresses)
            self.count += found is not None
            return found

        monkeypatch.setattr(StoredVectors, "located", count)


@pytest.fixture
def located(monkeypatch: pytest.MonkeyPatch) -> Located:
    return Located(monkeypatch)


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize(("dtype", "metric"), [("f4", "l2"), ("f4", "cosine"), ("f4", "dot"), ("f8", "l2")])
def test_results_are_those_of_vectors_that_are_read(
    tmp_path: Path, dtype: str, metric: str, stable: bool, located: Located
) -> None:
    uri, values = written(tmp_path, dtype, max_rows_per_file=700, enable_stable_row_ids=stable)
    opened(uri).create_index("v", "IVF_SQ", num_partitions=4, metric=metric)
    lance.dataset(uri).delete("id % 10 = 4")
    if stable:
        lance.dataset(uri).update({"id": "id + 10000"}, where="id % 10 = 5")
    dataset = opened(uri)
    for query in values[::300] + 0.01:
        options: dict[str, Any] = {"columns": ["id"], "with_row_id": True, "nprobes": 4}
        located.is_off = False
        found = dataset.nearest("v", query, 10, **options)
        located.is_off = True
        assert found.equals(dataset.nearest("v", query, 10, **options))
        exact = distances(Metric(metric), values, query.astype(dtype))
        assert found.column("_distance").to_pylist() == [
            float(exact[number % 10_000]) for number in found.column("id").to_pylist()
        ]
    assert located.count == 10


def test_a_range_of_distances(tmp_path: Path, located: Located) -> None:
    uri, values = written(tmp_path, "f4")
    dataset = opened(uri).create_index("v", "IVF_PQ", num_partitions=4, num_sub_vectors=16)
    near = dataset.nearest("v", values[0], 10, columns=["id"], nprobes=4).column("_distance").to_pylist()
    found = dataset.nearest("v", values[0], 10, columns=["id"], nprobes=4, distance_range=(None, near[4]))
    assert found.column("_distance").to_pylist() == near[:4]
    assert located.count == 2


@pytest.mark.parametrize(("dtype", "nulls"), [("f2", "none"), ("f4", "some")])
def test_vectors_that_must_be_read(tmp_path: Path, dtype: str, nulls: str, located: Located) -> None:
    """Those that are converted, and those of pages with nulls."""
    uri, values = written(tmp_path, dtype, nulls)
    dataset = opened(uri).create_index("v", "IVF_SQ", num_partitions=2)
    found = dataset.nearest("v", values[4], 5, columns=["id"], nprobes=2)
    exact = np.where(np.arange(ROWS) % 7 == 3, np.inf, 0) if nulls == "some" else np.zeros(ROWS)
    exact = exact + distances(Metric.L2, values, values[4])
    assert found.column("id").to_pylist() == np.argsort(exact, kind="stable")[:5].tolist()
    assert located.count == 0


def search_of(dataset: Dataset, query: np.ndarray[Any, Any]) -> ExactSearch:
    column = searched_column("v", dataset.stored_schema)
    return ExactSearch(dataset.plan(["v"]), VectorQuery.of(column, query, k=5))


def hits(rows: list[int]) -> Hits:
    addresses = np.array(rows, np.uint64)
    return Hits(np.zeros(len(rows), np.float32), addresses, addresses)


def test_rows_that_an_index_has_twice_are_left_to_the_reader(tmp_path: Path) -> None:
    uri, values = written(tmp_path, "f4")
    search = search_of(opened(uri), values[0])
    manifest = opened(uri).manifest
    assert not search.offer_candidates(manifest, [hits([3, 7, 3])])
    assert not search.offer_candidates(manifest, [hits([3]), hits([3])])
    assert search.offer_candidates(manifest, [hits([])])
    assert search.num_rows == 0
    assert search.offer_candidates(manifest, [hits([9, 3, 7])])
    near = distances(Metric.L2, values, values[0])
    assert search.hits()[0].addresses.tolist() == sorted([3, 7, 9], key=lambda row: near[row])
    # Beyond the rows of the file.
    assert not search.offer_candidates(manifest, [hits([ROWS])])


def test_maps_stay_while_they_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other threads give up what the cache has, and the store its maps."""
    uri, values = written(tmp_path, "f4", max_rows_per_file=700)
    dataset = opened(uri).create_index("v", "IVF_SQ", num_partitions=4)
    expected = [dataset.nearest("v", query, 10, nprobes=4) for query in values[:8]]
    addresses = VectorPlaces.addresses

    def losing(places: VectorPlaces, *arguments: Any) -> Any:
        found = addresses(places, *arguments)
        shared.clear()
        dataset.location.store._maps.clear()
        return found

    monkeypatch.setattr(VectorPlaces, "addresses", losing)

    def work(number: int) -> bool:
        return all(dataset.nearest("v", values[number], 10, nprobes=4).equals(expected[number]) for _ in range(5))

    assert all(all_at_once(work, 8))
