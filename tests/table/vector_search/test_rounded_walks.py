"""Walks through graphs of IVF_HNSW_FLAT by rounded vectors, whose results have the distances of the vectors."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pytest

import lance_spark
from lance_spark.index.vector import segment
from lance_spark.index.vector.storage import GraphNodes
from lance_spark.index.vector.stored.flat import row_codes
from lance_spark.index.vector.stored.graph import Graph
from lance_spark.kernels.vector.vector_graph import CODES_DOT, CODES_SQUARED_L2, SQUARED_L2
from tests.support.vector_search.old_indexes import make_old
from tests.support.vector_search.tables import clustered, vectors, write

ROWS = 1500


pytestmark = pytest.mark.usefixtures("empty_cache")


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each walk compares rounded vectors."""
    walked: list[bool] = []
    nearest = Graph.nearest

    def counted(graph: Any, nodes: Any, effort: int, returned: Any) -> Any:
        walked.append(nodes.kind in (CODES_SQUARED_L2, CODES_DOT))
        return nearest(graph, nodes, effort, returned)

    monkeypatch.setattr(Graph, "nearest", counted)
    return walked


def indexed(path: Path, values: np.ndarray[Any, Any], metric: str = "l2") -> lance_spark.Dataset:
    uri = str(path / "t")
    write(uri, vectors(values), max_rows_per_file=400)
    lance.dataset(uri).create_index("v", "IVF_HNSW_FLAT", metric=metric, num_partitions=1)
    make_old(uri)
    return lance_spark.open(uri)


def found(dataset: lance_spark.Dataset, query: Any, k: int = 10, **options: Any) -> list[tuple[int, float]]:
    rows = dataset.nearest("v", query, k, columns=["id"], ef=50, **options)
    return list(zip(rows["id"].to_pylist(), rows["_distance"].to_pylist(), strict=True))


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("where", [None, "id % 3 = 1"])
def test_rows_and_distances_are_those_of_the_vectors(
    tmp_path: Path, metric: str, where: str | None, walks: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lance_spark.table.vector_search.indexed._MAX_FILTERED_ROWS", 10)
    values = np.random.default_rng(1).normal(size=(ROWS, 24)).astype("f4")
    dataset, queries = indexed(tmp_path, values, metric), values[:20] * np.float32(1.01)
    found(dataset, queries[0], filter=where)
    del walks[:]
    results = [dict(found(dataset, query, filter=where)) for query in queries]
    assert walks == [True] * len(queries)
    exact = [dict(found(dataset, query, filter=where, metric=metric, use_index=False)) for query in queries]
    assert sum(len(rows.keys() & of_all.keys()) for rows, of_all in zip(results, exact, strict=True)) >= 190
    for rows, of_all in zip(results, exact, strict=True):
        assert all(distance == of_all[row] for row, distance in rows.items() if row in of_all)


@pytest.mark.parametrize("settled", [[True], [False, True]])
def test_vectors_of_the_nearest_nodes_are_compared_and_of_all_if_need_be(
    tmp_path: Path, settled: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset, query = indexed(tmp_path, np.random.default_rng(1).normal(size=(ROWS, 24)).astype("f4")), np.ones(24, "f4")
    expected = found(dataset, query)
    assert found(dataset, query) == expected
    compared = []

    nearest = segment.nearest_of_found

    def nearest_of_found(*arguments: int) -> int:
        # The ninth one is the number of nodes that are compared.
        compared.append(arguments[8])
        return int(nearest(*arguments)) if settled[len(compared) - 1] else -1

    monkeypatch.setattr(segment, "nearest_of_found", nearest_of_found)
    assert found(dataset, query) == expected
    assert compared == [30, 50][: len(settled)]


def test_the_first_walk_makes_no_codes(tmp_path: Path, walks: list[bool]) -> None:
    dataset = indexed(tmp_path, clustered(ROWS, 24, "f4"))
    for _ in range(3):
        found(dataset, np.ones(24, np.float32))
    assert walks == [False, True, True]


def test_walks_that_keep_few_more_nodes_than_rows_are_by_vectors(tmp_path: Path, walks: list[bool]) -> None:
    dataset = indexed(tmp_path, clustered(ROWS, 24, "f4"))
    for _ in range(3):
        found(dataset, np.ones(24, np.float32), k=26)
    assert walks == [False, False, False]


def test_a_query_that_is_no_number_changes_nothing_for_others(tmp_path: Path, walks: list[bool]) -> None:
    dataset = indexed(tmp_path, clustered(ROWS, 24, "f4"))
    for query in (np.ones(24), np.full(24, np.nan), np.full(24, np.inf), np.ones(24)):
        rows = found(dataset, query.astype("f4"))
        assert bool(np.isfinite(query).all()) == bool(len(rows) == 10 and np.isfinite([row[1] for row in rows]).all())
    assert walks[0] is False
    assert walks[-1] is True


@pytest.mark.parametrize("far", [1.0, 1e6])
def test_vectors_nearer_than_a_code_tells_are_walked(tmp_path: Path, far: float, walks: list[bool]) -> None:
    """Nearest rows that differ by less than the step of a code are found, and codes are not walked again."""
    random = np.random.default_rng(3)
    values = np.repeat(random.normal(size=(5, 24)), ROWS // 5, axis=0)
    values += random.normal(scale=1e-5, size=values.shape)
    values[-1] = far
    dataset, queries = indexed(tmp_path, values.astype("f4")), values[:1400:100].astype("f4")
    found(dataset, queries[0])
    del walks[:]
    results = [found(dataset, query) for query in queries]
    assert walks == [True] + [False] * len(queries)
    exact = [found(dataset, query, use_index=False) for query in queries]
    shared_rows = [len(dict(own).keys() & dict(of_all).keys()) for own, of_all in zip(results, exact, strict=True)]
    assert sum(shared_rows) >= 9 * len(queries)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_without_bounds_have_no_codes(value: float) -> None:
    rows = np.ones((3, 8), np.float32)
    rows[1, 2] = value
    assert not row_codes(rows).arrays
    assert not row_codes(np.ones((3, 8), np.float32)).arrays
    assert row_codes(np.arange(24, dtype=np.float32).reshape(3, 8)).arrays


def test_distances_that_overflow_are_infinite() -> None:
    """Codes of a damaged file can have any scale."""
    graph = Graph(np.zeros(1, np.uint32), np.array([0, 1]), np.zeros(2, np.int64), np.zeros(0, np.uint32), 0)
    nodes = GraphNodes(SQUARED_L2, np.full((1, 1), 1e15, np.float32), 1, np.zeros(1, np.float32), scale=1e20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        walked = graph.nearest(nodes, 1, None)
    assert walked is not None
    assert walked[0].tolist() == [np.inf]


@pytest.mark.parametrize("kind", ["IVF_HNSW_FLAT", "IVF_HNSW_SQ"])
@pytest.mark.parametrize("where", [None, "id % 3 = 1"])
def test_rows_that_no_link_leads_to_are_found(
    tmp_path: Path, kind: str, where: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lance_spark.table.vector_search.indexed._MAX_FILTERED_ROWS", 10)
    values = clustered(ROWS, 24, "f4")
    uri = str(tmp_path / "t")
    write(uri, vectors(values))
    lance_spark.open(uri).create_index("v", kind, num_partitions=1)
    nearest = Graph.nearest

    def few(graph: Any, *arguments: Any) -> Any:
        found = nearest(graph, *arguments)
        assert found is not None
        return found[0][:7], found[1][:7]

    monkeypatch.setattr(Graph, "nearest", few)
    dataset = lance_spark.open(uri)
    for query in values[:6] * np.float32(1.01):
        exact = found(dataset, query, filter=where, use_index=False)
        assert [row for row, _ in found(dataset, query, filter=where)] == [row for row, _ in exact]
