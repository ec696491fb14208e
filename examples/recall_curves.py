"""How many of the nearest pictures an index finds, against the time that a search takes.

Run ``python examples/recall_curves.py [folder]``. Needs matplotlib, and scikit-learn, which brings the pictures:
handwritten digits, each also moved by one pixel in all directions. If the package ``lance`` of the reference library is
installed, it searches the same table with the same index. The curves are drawn into ``recall.svg`` of the folder, a
point for each number of partitions that are searched.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.datasets import load_digits

import lance_spark

K, NUM_QUERIES = 10, 50
PARTITIONS = [1, 2, 4, 8, 16, 32]

Search = Callable[[npt.NDArray[np.float32], int], list[int]]
Curve = list[tuple[float, float]]


def moved_digits() -> npt.NDArray[np.float32]:
    """float32[n, 100]: pictures of 10 x 10 pixels."""
    pictures = np.pad(load_digits().images, ((0, 0), (1, 1), (1, 1)))
    moves = [(down, right) for down in (-1, 0, 1) for right in (-1, 0, 1)]
    moved = [np.roll(pictures, move, axis=(1, 2)) for move in moves]
    return np.concatenate(moved).reshape(-1, 100).astype(np.float32)


def searches(uri: str) -> dict[str, Search]:
    """By name of the library: a search with a number of partitions, which returns ids."""
    ours = lance_spark.open(uri)

    def own(query: npt.NDArray[np.float32], partitions: int) -> list[int]:
        found = ours.nearest("vector", query, K, nprobes=partitions, columns=["id"])
        return [int(value) for value in found["id"].to_pylist()]

    try:
        import lance
    except ImportError:
        return {"lance_spark": own}
    theirs = lance.dataset(uri)

    def reference(query: npt.NDArray[np.float32], partitions: int) -> list[int]:
        # Both libraries compare four candidates for each row of the result.
        nearest = {"column": "vector", "q": query, "k": K, "nprobes": partitions, "refine_factor": 4}
        found = theirs.to_table(columns=["id", "_distance"], nearest=nearest)
        return [int(value) for value in found["id"].to_pylist()]

    return {"lance_spark": own, "reference": reference}


def curve(search: Search, queries: npt.NDArray[np.float32], near: list[set[int]]) -> Curve:
    """(milliseconds of a search, recall) for each number of partitions."""
    points = []
    for partitions in PARTITIONS:
        found = [search(query, partitions) for query in queries]
        recall = statistics.mean(len(near[place] & set(ids)) / K for place, ids in enumerate(found))
        times = []
        for query in queries:
            start = time.perf_counter()
            search(query, partitions)
            times.append(time.perf_counter() - start)
        points.append((statistics.median(times) * 1000, recall))
    return points


def draw(curves: dict[str, Curve], path: Path) -> None:
    """Draws the curves into the SVG file at `path`: milliseconds to the right, recall upwards."""
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for name, points in curves.items():
        axes.plot(*zip(*points, strict=True), marker="o", label=name, gid=name)
    axes.set(xlabel="milliseconds of a search", ylabel=f"recall@{K}", xlim=(0, None))
    axes.legend()
    figure.savefig(path)


def main(folder: Path) -> None:
    pictures = moved_digits()
    random = np.random.default_rng(0)
    asked = random.choice(len(pictures), NUM_QUERIES, replace=False)
    queries = pictures[asked] + random.normal(scale=2, size=(NUM_QUERIES, pictures.shape[1])).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(pictures.ravel()), pictures.shape[1])
    uri = str(folder / "moved_digits.lance")
    table: Any = lance_spark.write(pa.table({"id": range(len(pictures)), "vector": vectors}), uri, mode="overwrite")
    table.create_index("vector", "IVF_PQ", num_partitions=64, num_sub_vectors=20)
    distances = ((pictures[None] - queries[:, None]) ** 2).sum(2)
    near = [set(row.tolist()) for row in np.argsort(distances, axis=1)[:, :K]]
    curves = {name: curve(search, queries, near) for name, search in searches(uri).items()}
    for name, points in curves.items():
        for partitions, (milliseconds, recall) in zip(PARTITIONS, points, strict=True):
            print(f"{name}: {partitions} of 64 partitions, recall {recall:.3f}, {milliseconds:.2f} ms")
    draw(curves, folder / "recall.svg")
    print("plot:", folder / "recall.svg")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp()))
