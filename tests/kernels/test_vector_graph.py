"""Walks through graphs: what they find, and that no edge of a broken graph is followed out of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lance_spark.index.vector.storage import GraphNodes
from lance_spark.index.vector.stored.graph import Graph
from lance_spark.kernels.vector.vector_graph import SQUARED_L2

NUM_NODES = 20


def chain(**changed: Any) -> Graph:
    """Nodes on a line, each linked to its neighbours, with one upper level of two nodes."""
    edges: list[int] = []
    ends = [0]
    for node in range(NUM_NODES):
        edges += [other for other in (node - 1, node + 1) if 0 <= other < NUM_NODES]
        ends.append(len(edges))
    for other in (15, 0):
        edges.append(other)
        ends.append(len(edges))
    parts: dict[str, Any] = {
        "ids": np.array([*range(NUM_NODES), 0, 15], np.uint32),
        "levels": np.array([0, NUM_NODES, NUM_NODES + 2], np.int64),
        "ends": np.array(ends, np.int64),
        "edges": np.array(edges, np.uint32),
        "entry": 0,
    }
    return Graph(**{**parts, **changed})


def nodes(query: float) -> GraphNodes:
    payload = np.arange(NUM_NODES, dtype=np.float32).reshape(-1, 1)
    return GraphNodes(SQUARED_L2, payload, 1, np.array([query], np.float32))


@pytest.mark.parametrize("query", [0.0, 7.2, 19.0])
def test_walk_finds_the_nearest_nodes(query: float) -> None:
    found = chain().nearest(nodes(query), 4, None)
    assert found is not None
    keys, places = found
    expected = np.argsort(np.abs(np.arange(NUM_NODES) - query), kind="stable")[:4]
    assert set(places.tolist()) == set(expected.tolist())
    np.testing.assert_allclose(keys, np.square(places - query), 1e-5, 1e-5)


def test_walk_passes_nodes_that_are_no_results() -> None:
    returned = np.arange(NUM_NODES) % 5 == 0
    found = chain().nearest(nodes(12.0), 2, returned)
    assert found is not None
    assert set(found[1].tolist()) == {10, 15}


@pytest.mark.parametrize(
    "changed",
    [
        {"entry": NUM_NODES},
        {"entry": -1},
        {"edges": np.full(40, NUM_NODES, np.uint32)},
        {"edges": np.full(40, 2**32 - 1, np.uint32)},
        {"edges": np.arange(5, dtype=np.uint32)},
        {"ends": np.array([-8, *range(2, 2 * NUM_NODES + 4, 2)], np.int64)},
    ],
)
def test_walk_through_a_broken_graph_ends(changed: dict[str, Any]) -> None:
    assert chain(**changed).nearest(nodes(19.0), 20, None) is None
