"""Walks through graphs: what they find, and that no edge of a broken graph is followed out of it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from lance_spark.index.vector.building.graph import graph_of
from lance_spark.index.vector.building.model import GraphParameters
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


def star(**changed: Any) -> Graph:
    """A node that is linked to 300 others, some of them twice, and they to it."""
    edges = [*range(1, 301), *range(150, 250), *([0] * 300)]
    parts: dict[str, Any] = {
        "ids": np.arange(301, dtype=np.uint32),
        "levels": np.array([0, 301], np.int64),
        "ends": np.array([0, *range(400, 701)], np.int64),
        "edges": np.array(edges, np.uint32),
        "entry": 0,
    }
    return Graph(**{**parts, **changed})


@pytest.mark.parametrize("effort", [1, 5, 400])
def test_all_links_of_a_node_are_followed(effort: int) -> None:
    values = np.random.default_rng(effort).normal(size=(301, 7)).astype("f4")
    query = np.zeros(7, np.float32)
    found = star().nearest(GraphNodes(SQUARED_L2, values, 7, query), effort, None)
    assert found is not None
    order = np.argsort(np.square(values).sum(1))[:effort]
    assert sorted(found[1].tolist()) == sorted(order.tolist())


@pytest.mark.parametrize("place", [0, 31, 32, 299, 399])
def test_each_link_of_a_node_is_checked(place: int) -> None:
    edges = star().edges.copy()
    edges[place] = 301
    values = np.zeros((301, 7), np.float32)
    assert star(edges=edges).nearest(GraphNodes(SQUARED_L2, values, 7, values[0]), 5, None) is None


def plain_graph(
    values: np.ndarray[Any, Any], order: list[int], levels: list[int], m: int, ef: int
) -> list[dict[int, list[int]]]:
    """The links of each level, by the algorithm in the paper, without anything that makes it fast.

    Args:
        order: in which nodes are inserted.
        levels: the highest one of each node.
    """
    links: list[dict[int, list[int]]] = [{} for _ in range(max(levels) + 1)]

    def away(one: int, other: int) -> float:
        return float(np.square(values[one] - values[other]).sum())

    def chosen(node: int, others: set[int], limit: int) -> list[int]:
        found: list[int] = []
        by_distance = sorted(others, key=lambda other: away(node, other))
        for other in by_distance:
            if len(found) < limit and all(away(other, kept) >= away(node, other) for kept in found):
                found.append(other)
        return [*found, *(other for other in by_distance if other not in found)][:limit]

    def nearest(node: int, start: int, level: int, count: int) -> list[int]:
        seen, followed, best = {start}, set[int](), [start]
        while open_nodes := [other for other in best if other not in followed]:
            followed.add(open_nodes[0])
            found = set(links[level][open_nodes[0]]) - seen
            seen |= found
            best = sorted({*best, *found}, key=lambda other: away(node, other))[:count]
        return best

    entry = order[0]
    for node in order:
        place, own = entry, levels[node]
        for level in range(levels[entry], -1, -1) if node != order[0] else ():
            found = nearest(node, place, level, 1 if level > own else ef)
            place = found[0]
            if level <= own:
                links[level][node] = chosen(node, set(found), m)
                for other in links[level][node]:
                    room = 2 * m if level == 0 else m
                    row = {*links[level][other], node}
                    links[level][other] = [*row] if len(row) <= room else chosen(other, row, room)
        for level in range(own + 1):
            links[level].setdefault(node, [])
        if own > levels[entry]:
            entry = node
    return links


@pytest.mark.parametrize("num_nodes", [2, 40, 400])
def test_graphs_are_those_of_the_plain_algorithm(num_nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Links lead to all nodes of these graphs, so none are added for that.
    random = np.random.default_rng(num_nodes + 1)
    values, order = random.normal(size=(num_nodes, 3)).astype(np.float32), random.permutation(num_nodes)
    monkeypatch.setattr("lance_spark.index.vector.building.graph._insertion_order", lambda vectors: order)
    parameters = GraphParameters(m=4, ef_construction=12)
    built = graph_of(values, parameters, by_product=False)
    offsets = json.loads(built.description)["level_offsets"]
    rows = built.rows.to_pydict()
    counts = np.bincount(rows["__vector_id"], minlength=num_nodes) - 1
    for level, expected in enumerate(plain_graph(values, order.tolist(), counts.tolist(), 4, 12)):
        part = slice(offsets[level], offsets[level + 1])
        links = dict(zip(rows["__vector_id"][part], rows["__neighbors"][part], strict=True))
        assert {node: sorted(others) for node, others in links.items()} == {
            node: sorted(others) for node, others in expected.items()
        }


@pytest.mark.parametrize("width", [9, 32, 45, 160])
def test_bytes_have_the_graph_of_their_values(width: int) -> None:
    codes = np.random.default_rng(1).integers(0, 256, (500, width), np.uint8)
    parameters = GraphParameters(m=4, ef_construction=12)
    of_bytes = graph_of(codes, parameters, by_product=False, scale=0.25)
    of_values = graph_of(codes.astype(np.float32) / 2, parameters, by_product=False)
    assert of_bytes.description == of_values.description
    assert of_bytes.rows.equals(of_values.rows)


def links_of(graph: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = graph.rows.to_pylist()
    return rows


def test_graphs_found_by_codes_have_the_links_and_distances_of_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(3).normal(size=(1500, 24)).astype(np.float32)
    parameters = GraphParameters(m=6, ef_construction=60)
    of_vectors = graph_of(values, parameters, by_product=False)
    monkeypatch.setattr("lance_spark.index.vector.building.graph._MIN_CODED_BYTES", 0)
    by_codes = graph_of(values, parameters, by_product=False, scale=0.5)
    assert by_codes.description == of_vectors.description
    shared = total = 0
    for row, exact in zip(links_of(by_codes), links_of(of_vectors), strict=True):
        difference = values[row["__neighbors"]] - values[row["__vector_id"]]
        np.testing.assert_allclose(row["_distance"], np.square(difference).sum(1) / 2, 1e-5)
        shared += len({*row["__neighbors"]} & {*exact["__neighbors"]})
        total += len(exact["__neighbors"])
    assert shared > 0.97 * total


@pytest.mark.parametrize("kind", ["outliers", "clusters", "equal"])
def test_where_codes_hide_the_nearest_nodes_vectors_are_walked(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    values = np.random.default_rng(4).normal(size=(1500, 24)).astype(np.float32)
    if kind == "outliers":
        values[::500] *= 1e6
    elif kind == "clusters":
        values = (values[:3].repeat(500, 0) + 1e-4 * values).astype(np.float32)
    else:
        values[:] = values[0]
    parameters = GraphParameters(m=6, ef_construction=60)
    of_vectors = graph_of(values, parameters, by_product=False)
    monkeypatch.setattr("lance_spark.index.vector.building.graph._MIN_CODED_BYTES", 0)
    by_codes = graph_of(values, parameters, by_product=False)
    shared = total = 0
    for row, exact in zip(links_of(by_codes), links_of(of_vectors), strict=True):
        shared += len({*row["__neighbors"]} & {*exact["__neighbors"]})
        total += len(exact["__neighbors"])
    assert shared > 0.97 * total


@pytest.mark.parametrize("by_product", [False, True])
@pytest.mark.parametrize("copies", [60, 700])
@pytest.mark.parametrize("shuffled", [False, True])
def test_links_lead_to_all_nodes_where_many_are_equal(by_product: bool, copies: int, shuffled: bool) -> None:
    random = np.random.default_rng(copies)
    values = random.normal(size=(2100 // copies, 16)).astype(np.float32).repeat(copies, 0)
    if shuffled:
        values = values[random.permutation(len(values))]
    parameters = GraphParameters()
    built = graph_of(values, parameters, by_product=by_product)
    description = json.loads(built.description)
    lowest = built.rows["__neighbors"].to_pylist()[: len(values)]
    reached, coming = {description["entry_point"]}, [description["entry_point"]]
    while coming:
        found = set(lowest[coming.pop()]) - reached
        reached |= found
        coming += found
    assert len(reached) == len(values)
    assert max(map(len, lowest)) <= 2 * parameters.m + 1
