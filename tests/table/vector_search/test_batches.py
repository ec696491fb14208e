"""Partitions that do not fit into memory together are searched one batch after the other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pytest

import lance_spark
from lance_spark.index.vector import segment
from lance_spark.index.vector.storage import VectorStorage
from tests.support.vector_search.tables import vectors, write

pytestmark = pytest.mark.usefixtures("empty_cache")

ROWS, DIMENSION, PARTITIONS = 2000, 32, 4

BYTES = {
    "IVF_FLAT": 8 + 32 + 128,
    "IVF_SQ": 8 + 32 + 32,
    "IVF_PQ": 8 + 32 + 8,
    "IVF_RQ": 8 + 32 + 4 + 32 + 5 * 4,
}
"""Of a row in memory: its id, a byte a value, and its columns."""


@pytest.mark.parametrize("kind", BYTES)
def test_batches_are_as_large_as_their_rows_in_memory(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.random.default_rng(1).normal(size=(ROWS, DIMENSION)).astype("f4")
    uri = str(tmp_path / "t")
    write(uri, vectors(values))
    parameters = {"num_sub_vectors": 8} if kind == "IVF_PQ" else {}
    lance.dataset(uri).create_index("v", kind, num_partitions=PARTITIONS, **parameters)
    dataset = lance_spark.open(uri)
    batches: list[int] = []
    rows = VectorStorage.rows

    def counted(storage: VectorStorage, numbers: Sequence[int]) -> Any:
        batches.append(len(numbers))
        return rows(storage, numbers)

    monkeypatch.setattr(VectorStorage, "rows", counted)
    # More candidates than rows, so that batches do not change which rows are compared exactly.
    options: dict[str, Any] = {"columns": ["id"], "nprobes": PARTITIONS, "refine_factor": ROWS}
    found = []
    for num_bytes in (ROWS * BYTES[kind], ROWS * BYTES[kind] - 1, 1):
        monkeypatch.setattr(segment, "_BATCH_BYTES", num_bytes)
        found.append([dataset.nearest("v", query, **options) for query in values[:3]])
        assert sum(batches) == 3 * PARTITIONS
        assert (max(batches) == PARTITIONS) == (num_bytes >= ROWS * BYTES[kind])
        batches.clear()
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("metric", ["l2", "cosine"])
def test_many_partitions_are_compared_by_one_call(tmp_path: Path, metric: str) -> None:
    partitions = 200
    values = np.random.default_rng(2).normal(size=(6000, DIMENSION)).astype("f4")
    uri = str(tmp_path / "t")
    write(uri, vectors(values))
    lance.dataset(uri).create_index("v", "IVF_SQ", metric=metric, num_partitions=partitions)
    dataset = lance_spark.open(uri)
    for query in values[:20]:
        options: dict[str, Any] = {"columns": ["id"], "metric": metric, "k": 10}
        near = dataset.nearest("v", query, nprobes=partitions, refine_factor=10, **options)
        assert near["id"] == dataset.nearest("v", query, use_index=False, **options)["id"]
