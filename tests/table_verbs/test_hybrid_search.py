"""Hybrid search in tables of both kinds, beside ranks computed from the two searches."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError
from lance_spark.partitioned.dataset import create_partitioned_dataset
from lance_spark.partitioned.save import PartitionBy
from lance_spark.partitioned.transforms.identity import Identity
from lance_spark.table.vector_search.hybrid import Fusion, HybridSearch
from lance_spark.table.vector_search.request import NearestRequest

VALUES = np.random.default_rng(7).normal(size=(90, 4)).astype(np.float32)
WORDS = ["sea", "lake", "wood", "tree", "hill"]
ROWS = pa.table(
    {
        "id": pa.array(range(90), pa.int64()),
        "p": pa.array([number % 3 for number in range(90)], pa.int64()),
        "text": [
            f"{WORDS[number % 5]} {WORDS[number % 4]} {'rare' if number in (3, 50, 71) else ''}" for number in range(90)
        ],
        "v": pa.FixedSizeListArray.from_arrays(VALUES.ravel(), 4),
    }
)
QUERY = VALUES[50]


@pytest.fixture(params=["plain", "partitioned"])
def table(request: pytest.FixtureRequest) -> Any:
    uri = f"memory://hybrid-{uuid.uuid4().hex}"
    if request.param == "plain":
        return lance_spark.write(ROWS, uri, max_rows_per_file=40)
    return create_partitioned_dataset(uri, ROWS.schema, [PartitionBy("p", ("p",), Identity())]).append(ROWS)


def sides(table: Any, count: int, filter: str | None = None) -> tuple[list[int], list[int]]:
    near = table.nearest("v", QUERY, count, filter=filter)["id"].to_pylist()
    words = table.search("rare lake", limit=count, filter=filter)["id"].to_pylist()
    return near, words


@pytest.mark.parametrize("filter", [None, "p = 1", "id > 20"])
def test_reciprocal_ranks_order_the_rows(table: Any, filter: str | None) -> None:
    near, words = sides(table, 20, filter)
    expected = dict.fromkeys(near + words, 0.0)
    for side in (near, words):
        for rank, id_ in enumerate(side):
            expected[id_] += 1 / (rank + 60)
    found = table.hybrid_search("v", QUERY, "rare lake", 8, filter=filter, candidates=20)
    assert found.schema.names == ["id", "p", "text", "v", "_distance", "_score", "_relevance_score"]
    assert not found.schema.field("_relevance_score").nullable
    relevance = found["_relevance_score"].to_pylist()
    np.testing.assert_allclose(relevance, [expected[id_] for id_ in found["id"].to_pylist()], 1e-6)
    np.testing.assert_allclose(relevance, sorted(expected.values(), reverse=True)[:8], 1e-6)
    for row in found.to_pylist():
        assert (row["_distance"] is None) == (row["id"] not in near)
        assert (row["_score"] is None) == (row["id"] not in words)


def test_linear_fusion_weighs_the_sides(table: Any) -> None:
    near, words = sides(table, 6)
    options = {"candidates": 6, "fusion": "linear", "columns": ["id"]}
    only_near = table.hybrid_search("v", QUERY, "rare lake", 5, vector_weight=1.0, **options)
    assert only_near["id"].to_pylist() == near[:5]
    only_words = table.hybrid_search("v", QUERY, "rare lake", 3, vector_weight=0.0, **options)
    assert set(only_words["id"].to_pylist()) == set(words[:3])
    best = table.hybrid_search("v", QUERY, "rare lake", 1, **options).to_pylist()[0]
    assert (best["id"], best["_distance"]) == (50, 0)
    assert best["_relevance_score"] > 0.5


def test_offset_and_row_ids_of_a_hybrid_search(table: Any) -> None:
    all_rows = table.hybrid_search("v", QUERY, "rare", 9, candidates=12, columns=["id"])
    later = table.hybrid_search("v", QUERY, "rare", 6, candidates=12, columns=["id"], offset=3, with_row_id=True)
    assert later["id"].to_pylist() == all_rows["id"].to_pylist()[3:]
    assert later.schema.names == ["id", "_distance", "_score", "_relevance_score", "_rowid"]
    assert table.hybrid_schema(["id"], with_row_id=True) == later.schema


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fusion": "sum"}, "no fusion 'sum'; use one of rrf, linear"),
        ({"rrf_k": 0}, "rrf_k is 0"),
        ({"vector_weight": 2}, "vector_weight is 2; it must be from 0 to 1"),
        ({"offset": -1}, "offset is -1"),
        ({"query_vector": VALUES[:2]}, "has one query vector"),
        ({"search_columns": ["id"]}, "id"),
    ],
)
def test_wrong_arguments_of_a_hybrid_search(table: Any, options: dict[str, Any], message: str) -> None:
    arguments = {"column": "v", "query_vector": QUERY, "query": "rare", **options}
    with pytest.raises(InvalidInputError, match=message):
        table.hybrid_search(**arguments)


@pytest.mark.parametrize(("value", "compared"), [(1, 30), (7, 0)])
def test_vectors_of_other_partitions_are_not_compared(table: Any, value: int, compared: int) -> None:
    opened = []
    request = NearestRequest("v", QUERY, 40, filter=f"p = {value}", columns=["id"])
    search = table.plan_hybrid_search(request, "rare lake", None, None, Fusion())
    vector_parts = HybridSearch.vector_parts

    def noted(self: HybridSearch, parts: Any) -> Any:
        found = vector_parts(self, parts)
        opened.append(len(found))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HybridSearch, "vector_parts", noted)
        found = table.found_by_both(search)
    assert sorted(found["id"].to_pylist()) == [number for number in range(90) if number % 3 == value]
    assert search.vector.index.probed.compared == compared
    partitions = 1 if value == 1 else 0
    assert opened == [partitions if "partitioned" in type(table).__module__ else 1]
