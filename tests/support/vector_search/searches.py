"""Builds of vector indexes and their recall."""

from __future__ import annotations

from typing import Any

import lance
import numpy as np
import pytest

KINDS: dict[str, dict[str, Any]] = {
    "IVF_FLAT": {},
    "IVF_PQ": {"num_sub_vectors": 8},
    "IVF_PQ 4": {"num_sub_vectors": 16, "num_bits": 4},
    "IVF_SQ": {},
    "IVF_HNSW_FLAT": {},
    "IVF_HNSW_PQ": {"num_sub_vectors": 8},
    "IVF_HNSW_SQ": {},
}


def build(uri: str, kind: str, metric: str = "l2", **options: Any) -> None:
    name, parameters = kind.split()[0], {"num_partitions": 4, **KINDS[kind], **options}
    lance.dataset(uri).create_index("v", name, metric=metric, **parameters)


def recall(dataset: Any, queries: np.ndarray[Any, Any], metric: str = "l2", **options: Any) -> float:
    hits = 0
    for query in queries:
        exact = dataset.nearest("v", query, metric=metric, use_index=False, columns=["id"])["id"].to_pylist()
        found = dataset.nearest("v", query, metric=metric, columns=["id"], **options)["id"].to_pylist()
        hits += len(set(exact) & set(found))
    return hits / (10 * len(queries))


def searched(dataset: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Passes if no index was left aside."""
    assert not [record for record in caplog.records if "is not used" in record.getMessage()]
