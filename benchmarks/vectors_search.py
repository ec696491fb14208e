"""Vector searches beside the reference library, and faiss if it is installed, in CPU time of one pinned core.

Usage: OPENBLAS_NUM_THREADS=1 taskset -c 1 python benchmarks/vectors_search.py [rows] [dimension]

The reference library builds the tables and indexes, which both search. Times are of whole calls with the column `id` in
the result, and of calls whose result has row ids only; with caches warm.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa

import lance_spark

K = 10
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "flat": ({}, {"use_index": False}),
    "IVF_FLAT": ({"num_partitions": 256}, {"nprobes": 20}),
    "IVF_PQ": ({"num_partitions": 256, "num_sub_vectors": 16}, {"nprobes": 20, "refine_factor": 1}),
    "IVF_SQ": ({"num_partitions": 256}, {"nprobes": 20, "refine_factor": 1}),
    "IVF_RQ": ({"num_partitions": 256}, {"nprobes": 20, "refine_factor": 1}),
    "IVF_HNSW_FLAT": ({"num_partitions": 1}, {"nprobes": 1, "ef": 100}),
    "IVF_HNSW_SQ": ({"num_partitions": 1}, {"nprobes": 1, "ef": 100, "refine_factor": 1}),
}
"""By kind: parameters of the index, and of searches, the same for both libraries."""


def clustered(num_rows: int, dimension: int, seed: int = 1) -> npt.NDArray[np.float32]:
    """Vectors around 2,000 centres of different weights."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(0).normal(size=(2000, dimension))
    weights = 1 / np.arange(1, 2001)
    chosen = random.choice(2000, num_rows, p=weights / weights.sum())
    return (centres[chosen] + random.normal(scale=0.5, size=(num_rows, dimension))).astype(np.float32)


def milliseconds(search: Callable[[Any], object], queries: npt.NDArray[np.float32], num_calls: int) -> float:
    """CPU time of one call."""
    for query in queries:
        search(query)
    start = time.process_time()
    for number in range(num_calls):
        search(queries[number % len(queries)])
    return (time.process_time() - start) / num_calls * 1000


def compare(name: str, uri: str, queries: npt.NDArray[np.float32], exact: list[set[int]]) -> None:
    """Prints both times and recalls of one kind of index."""
    options = KINDS[name][1]
    ours, theirs = lance_spark.open(uri), lance.dataset(uri)
    calls = 20 if name == "flat" else 200
    times = {}
    for columns in (["id"], []):

        def own(query: Any, columns: list[str] = columns) -> pa.Table:
            return ours.nearest("v", query, K, columns=columns, with_row_id=not columns, **options)

        def reference(query: Any, columns: list[str] = columns) -> pa.Table:
            nearest = {"column": "v", "q": query, "k": K, **options}
            return theirs.to_table(columns=[*columns, "_distance"], nearest=nearest, with_row_id=not columns)

        times[bool(columns)] = (milliseconds(own, queries, calls), milliseconds(reference, queries, calls))
        if columns:
            recalls = [
                np.mean(
                    [len(set(search(q)["id"].to_pylist()) & near) / K for q, near in zip(queries, exact, strict=True)]
                )
                for search in (own, reference)
            ]
    (full, full_theirs), (ids, ids_theirs) = times[True], times[False]
    print(
        f"{name:14} with id {full:7.2f} ms, reference {full_theirs:7.2f} ms, ratio {full / full_theirs:5.2f} | "
        f"row ids {ids:7.2f} ms, reference {ids_theirs:7.2f} ms, ratio {ids / ids_theirs:5.2f} | "
        f"recall {recalls[0]:.3f}, reference {recalls[1]:.3f}",
        flush=True,
    )


def batch(uri: str, values: npt.NDArray[np.float32], queries: npt.NDArray[np.float32]) -> None:
    """Prints the time of a batch of 1,000 queries without an index, beside faiss."""
    dataset = lance_spark.open(uri)
    dataset.nearest("v", queries[:8], K, columns=["id"])
    start = time.process_time()
    dataset.nearest("v", queries, K, columns=["id"])
    print(f"{len(queries)} queries, flat: {(time.process_time() - start) / len(queries) * 1000:.2f} ms each")
    try:
        import faiss
    except ImportError:
        return
    faiss.omp_set_num_threads(1)
    index = faiss.IndexFlatL2(values.shape[1])
    index.add(values)
    start = time.process_time()
    index.search(queries, K)
    print(f"{len(queries)} queries, faiss: {(time.process_time() - start) / len(queries) * 1000:.2f} ms each")
    print(f"one query, faiss flat: {milliseconds(lambda query: index.search(query[None], K), queries[:20], 20):.2f} ms")


def main() -> None:
    num_rows = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    dimension = int(sys.argv[2]) if len(sys.argv) > 2 else 128
    values, queries = clustered(num_rows, dimension), clustered(1000, dimension, seed=2)
    table = pa.table(
        {"id": range(num_rows), "v": pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), dimension)}
    )
    squares = (values * values).sum(1)
    few = queries[:50]
    exact = [set(np.argpartition(squares - 2 * values @ query, K)[:K].tolist()) for query in few]
    with tempfile.TemporaryDirectory() as folder:
        for name, (parameters, _) in KINDS.items():
            uri = f"{folder}/{name}"
            written = lance.write_dataset(table, uri)
            if parameters:
                written.create_index("v", name, **parameters)
            compare(name, uri, few, exact)
        batch(f"{folder}/flat", values, queries)


if __name__ == "__main__":
    main()
