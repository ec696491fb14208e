"""CPU time of building vector indexes, and the recall of what was built, beside the reference library.

    taskset -c 1 python benchmarks/vectors.py [KIND ...] [--rows 200000] [--dimension 128]

Recall is that of the reference library's search of both indexes, for 100 queries and 5 and 20 probed partitions.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa

import lance_spark

KINDS = ("IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_RQ", "IVF_HNSW_SQ")
_PROBES = (5, 20)


def clustered(num_rows: int, dimension: int) -> npt.NDArray[np.float32]:
    """Vectors around 2,000 centres of very different sizes."""
    random = np.random.default_rng(0)
    weights = 1 / np.arange(1, 2001) ** 0.7
    centres = random.normal(size=(2000, dimension)) * 2
    chosen = random.choice(2000, num_rows, p=weights / weights.sum())
    return (centres[chosen] + random.normal(size=(num_rows, dimension))).astype(np.float32)


def write(uri: str, values: npt.NDArray[np.float32]) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
    lance.write_dataset(pa.table({"id": np.arange(len(values)), "v": vectors}), uri)


def cpu_seconds(work: Callable[[], Any]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def found(uri: str, query: npt.NDArray[np.float32], **nearest: Any) -> set[int]:
    asked = {"column": "v", "q": query, "k": 10, **nearest}
    return set(lance.dataset(uri).to_table(columns=["id", "_distance"], nearest=asked)["id"].to_pylist())


def recall(uri: str, queries: npt.NDArray[np.float32], exact: Sequence[set[int]], nprobes: int) -> float:
    hits = [len(rows & found(uri, query, nprobes=nprobes)) for query, rows in zip(queries, exact, strict=True)]
    return float(np.mean(hits)) / 10


def compare(uri: str, kind: str, queries: npt.NDArray[np.float32], exact: Sequence[set[int]]) -> str:
    """One line of the table of results."""
    dimension = queries.shape[1]
    parameters = {"num_partitions": 4 if "HNSW" in kind else 256}
    if kind.endswith("PQ"):
        parameters["num_sub_vectors"] = dimension // 8
    own = cpu_seconds(lambda: lance_spark.open(uri).create_index("v", kind, replace=True, **parameters))
    own_recall = [recall(uri, queries, exact, nprobes) for nprobes in _PROBES]
    theirs = cpu_seconds(lambda: lance.dataset(uri).create_index("v", kind, replace=True, **parameters))
    their_recall = [recall(uri, queries, exact, nprobes) for nprobes in _PROBES]
    shown = [" / ".join(f"{number:.3f}" for number in numbers) for numbers in (own_recall, their_recall)]
    return f"| {kind} | {own:.1f} s | {theirs:.1f} s | {own / theirs:.2f} | {shown[0]} | {shown[1]} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kinds", nargs="*", default=KINDS)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--dimension", type=int, default=128)
    arguments = parser.parse_args()
    values = clustered(arguments.rows, arguments.dimension)
    noise = np.random.default_rng(1).normal(scale=0.5, size=(100, arguments.dimension))
    queries = (values[:100] + noise).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        uri = str(Path(folder) / "t")
        write(uri, values)
        # Machine code is compiled once and then kept on disk; it is no part of a build.
        small = str(Path(folder) / "small")
        write(small, values[:2000])
        for kind in arguments.kinds:
            parameters = {"num_sub_vectors": arguments.dimension // 8} if kind.endswith("PQ") else {}
            lance_spark.open(small).create_index("v", kind, replace=True, num_partitions=2, **parameters)
        exact = [found(uri, query, use_index=False) for query in queries]
        print("| kind | own build | reference | ratio | own recall at 5 / 20 | reference |\n|---|---|---|---|---|---|")
        for kind in arguments.kinds:
            print(compare(uri, kind, queries, exact), flush=True)


if __name__ == "__main__":
    main()
