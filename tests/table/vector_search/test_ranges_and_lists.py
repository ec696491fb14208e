"""Ranges of distances and lists of vectors, searched by an index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.table.dataset import Dataset
from lance_spark.table.vector_search.request import NearestRequest
from tests.support.vector_search.stored_columns import opened
from tests.support.vector_search.tables import clustered, vectors, write


def searched(dataset: Dataset, query: Any, **options: Any) -> tuple[list[tuple[int, float]], list[str]]:
    """((id, distance) of the rows, the indexes that were used)."""
    search = dataset.plan_nearest(NearestRequest("v", query, columns=["id", "_distance"], **options))
    rows = dataset.searched(search)
    found = zip(rows["id"].to_pylist(), rows["_distance"].to_pylist(), strict=True)
    return list(found), search.index.probed.indexes


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_SQ", "IVF_HNSW_SQ"])
def test_range_with_probes_is_searched_by_the_index(tmp_path: Path, kind: str) -> None:
    uri = str(tmp_path / "t")
    values = clustered(3000, 32, "f4")
    write(uri, vectors(values), max_rows_per_file=900)
    lance_spark.open(uri).create_index("v", kind, num_partitions=4)
    dataset = opened(uri)
    for query in values[:6] + np.float32(0.02):
        exact, none = searched(dataset, query, k=20, use_index=False)
        bound = exact[12][1]
        inside, _ = searched(dataset, query, k=20, use_index=False, distance_range=(None, bound))
        assert (inside, none) == (exact[:12], [])
        assert searched(dataset, query, k=20, distance_range=(None, bound)) == (inside, [])
        found, indexes = searched(dataset, query, k=20, distance_range=(None, bound), nprobes=4, refine_factor=8)
        assert indexes == ["v_idx"]
        assert set(found) <= set(inside)
        assert len(found) >= 11
        above = searched(dataset, query, k=5, distance_range=(bound, None), nprobes=4)
        assert above == (exact[12:17], [])


def lists_of(values: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any]) -> pa.ListArray:
    ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return pa.ListArray.from_arrays(ends, vectors(values))


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("builder", ["own", "reference"])
def test_lists_of_vectors_are_searched_by_the_index(tmp_path: Path, builder: str, stable: bool) -> None:
    uri = str(tmp_path / "t")
    random = np.random.default_rng(5)
    lengths = random.integers(1, 5, 800)
    write(uri, lists_of(clustered(int(lengths.sum()), 16, "f4"), lengths), enable_stable_row_ids=stable)
    if builder == "own":
        lance_spark.open(uri).create_index("v", "IVF_FLAT", metric="cosine", num_partitions=4)
    else:
        lance.dataset(uri).create_index("v", "IVF_FLAT", metric="cosine", num_partitions=4)
    lance.dataset(uri).delete("id % 10 = 4")
    lance.write_dataset(
        pa.table({"id": range(800, 820), "v": lists_of(clustered(40, 16, "f4", 7), np.full(20, 2))}), uri, mode="append"
    )
    dataset = opened(uri)
    hits = 0
    for number in range(8):
        query = clustered(3, 16, "f4", seed=number)
        everything = dict(searched(dataset, query, k=900, metric="cosine", use_index=False)[0])
        for condition in (None, "id % 3 = 1"):
            exact, none = searched(dataset, query, metric="cosine", filter=condition, use_index=False)
            found, indexes = searched(dataset, query, filter=condition, nprobes=4)
            assert (none, indexes) == ([], ["v_idx"])
            assert len(found) == 10
            assert all(everything[id_] == pytest.approx(distance, abs=1e-6) for id_, distance in found)
            assert [distance for _, distance in found] == sorted(distance for _, distance in found)
            hits += len({id_ for id_, _ in found} & {id_ for id_, _ in exact})
    assert hits >= 0.9 * 160


def test_rows_with_many_near_vectors_leave_no_place_empty(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    random = np.random.default_rng(6)
    near = np.ones((400, 16), "f4") + random.normal(scale=1e-3, size=(400, 16)).astype("f4")
    lengths = np.concatenate([[400], np.full(40, 2)])
    values = np.concatenate([near, clustered(80, 16, "f4")])
    write(uri, lists_of(values, lengths))
    lance_spark.open(uri).create_index("v", "IVF_FLAT", metric="cosine", num_partitions=1)
    found, indexes = searched(opened(uri), np.ones((1, 16), "f4"), k=10)
    assert indexes == ["v_idx"]
    assert len({id_ for id_, _ in found}) == 10
