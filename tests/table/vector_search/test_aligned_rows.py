"""The codes that walks through graphs compare begin at a line of the caches, and are not copied again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pytest

import lance_spark
from lance_spark.index.vector.aligned import line_aligned, owned
from lance_spark.index.vector.stored.graph import Graph
from lance_spark.kernels.jit import address_of
from tests.support.vector_search.old_indexes import make_old
from tests.support.vector_search.tables import vectors, write

pytestmark = pytest.mark.usefixtures("empty_cache")


def test_only_a_view_of_much_more_is_copied() -> None:
    aligned = line_aligned((7, 3), np.float32)
    assert owned(aligned) is aligned
    more = np.zeros((500, 3), np.float32)
    assert owned(more) is more
    view = more[:7]
    assert owned(view) is not view
    assert owned(view).base is None


def test_walked_codes_begin_at_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).normal(size=(1500, 24)).astype("f4")
    uri = str(tmp_path / "t")
    write(uri, vectors(values))
    lance.dataset(uri).create_index("v", "IVF_HNSW_SQ", num_partitions=1)
    make_old(uri)
    walked: list[Any] = []
    nearest = Graph.nearest

    def seen(graph: Any, nodes: Any, effort: int, returned: Any) -> Any:
        walked.append(nodes.payload)
        return nearest(graph, nodes, effort, returned)

    monkeypatch.setattr(Graph, "nearest", seen)
    dataset = lance_spark.open(uri)
    for query in values[:3]:
        dataset.nearest("v", query, 5, columns=["id"], ef=50)
    codes = [payload for payload in walked if payload.dtype == np.uint8]
    assert codes
    assert all(address_of(payload) % 128 == 0 for payload in codes)
