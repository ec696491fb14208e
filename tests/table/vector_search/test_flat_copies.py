"""Copies of the vectors of IVF_FLAT with a byte a value: they change no result."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pytest

import lance_spark
from lance_spark.index.vector.stored import flat
from lance_spark.index.vector.stored.flat import ByteCopy
from lance_spark.storage.cache import shared
from tests.support.vector_search.old_indexes import make_old, results
from tests.support.vector_search.tables import clustered, vectors, write

ROWS = 1500


@pytest.fixture(autouse=True)
def small_partitions_have_copies(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(flat, "_MIN_VALUES", 0)
    shared.clear()
    yield
    shared.clear()


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows of each copy that is made."""
    made: list[int] = []
    make = ByteCopy.of

    def counted(rows: Any, center: Any) -> ByteCopy:
        made.append(len(rows.row_ids))
        return make(rows, center)

    monkeypatch.setattr(ByteCopy, "of", counted)
    return made


def indexed(path: Path, metric: str = "l2", *, stable: bool = False, dtype: str = "f4") -> tuple[str, Any]:
    """A table with repeated vectors and an index of 4 partitions."""
    uri = str(path / "t")
    values = clustered(ROWS, 24, dtype)
    values[1::5] = values[::5]
    write(uri, vectors(values), max_rows_per_file=400, enable_stable_row_ids=stable)
    lance.dataset(uri).create_index("v", "IVF_FLAT", metric=metric, num_partitions=4)
    make_old(uri)
    return uri, values


def require_same(uri: str, queries: Any, metric: str, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
    """Requires the results of a search that compares all rows, also when the copies are there."""
    found = [results(uri, queries, metric, **options) for _ in range(3)]
    with monkeypatch.context() as patch:
        patch.setattr(flat, "_MIN_VALUES", 1 << 60)
        expected = results(uri, queries, metric, **options)
    assert all(item == expected for item in found)


@pytest.mark.slow
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_results_are_those_of_all_distances(
    tmp_path: Path, metric: str, stable: bool, copies: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, values = indexed(tmp_path, metric, stable=stable)
    queries = values[:12:4] * np.float32(1.01)
    require_same(uri, queries, metric, monkeypatch)
    assert sum(copies) == ROWS
    require_same(uri, queries, metric, monkeypatch, filter="id % 3 = 1")
    monkeypatch.setattr("lance_spark.table.vector_search.indexed._MAX_FILTERED_ROWS", 10)
    require_same(uri, queries, metric, monkeypatch, filter="id % 3 = 1")
    require_same(uri, queries, metric, monkeypatch, filter="id > 1400")
    lance.dataset(uri).delete("id % 7 < 5")
    make_old(uri)
    require_same(uri, queries, metric, monkeypatch)
    require_same(uri, queries, metric, monkeypatch, distance_range=(None, 3.0))


def test_copies_are_made_when_a_partition_is_compared_again(tmp_path: Path, copies: list[int]) -> None:
    uri, values = indexed(tmp_path)
    dataset = lance_spark.open(uri)
    dataset.nearest("v", values[0], nprobes=4)
    assert copies == []
    before = shared.num_bytes
    dataset.nearest("v", values[0], nprobes=4)
    dataset.nearest("v", values[0], nprobes=4)
    assert sum(copies) == ROWS
    # The cache counts them from the first comparison on.
    assert shared.num_bytes == before
    assert before >= ROWS * 24


def test_few_vectors_are_compared_with_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri, values = indexed(tmp_path)
    compared: list[int] = []
    of_parts = flat.distances_of_parts

    def counted(metric: Any, parts: Any, lengths: Any, query: Any) -> Any:
        compared.append(int(lengths.sum()))
        return of_parts(metric, parts, lengths, query)

    monkeypatch.setattr(flat, "distances_of_parts", counted)
    dataset = lance_spark.open(uri)
    for _ in range(3):
        dataset.nearest("v", values[0], 10, nprobes=4)
    assert compared[0] == ROWS
    assert compared[-1] < 60


@pytest.mark.parametrize("dtype", ["f2", "f8"])
def test_other_types_of_values(tmp_path: Path, dtype: str, copies: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    uri, values = indexed(tmp_path, dtype=dtype)
    require_same(uri, values[:20:5], "l2", monkeypatch)
    assert sum(copies) == (ROWS if dtype == "f2" else 0)


def test_no_copies_where_all_vectors_do_not_fit_into_memory(tmp_path: Path, copies: list[int]) -> None:
    uri, values = indexed(tmp_path)
    before = shared.max_bytes
    shared.resize(ROWS * 24 * 5)
    try:
        dataset = lance_spark.open(uri)
        for _ in range(3):
            dataset.nearest("v", values[0], nprobes=4)
    finally:
        shared.resize(before)
    assert copies == []
