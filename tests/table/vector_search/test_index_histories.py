"""Random histories of a table with a vector index: whatever happened, answers are about the rows that there are now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from tests.table.vector_search.test_exact import clustered, vectors
from tests.table.vector_search.test_indexed import searched

DIMENSION = 16
KINDS: dict[str, dict[str, Any]] = {
    "IVF_FLAT": {},
    "IVF_PQ": {"num_sub_vectors": 8},
    "IVF_RQ": {"num_bits": 5},
    "IVF_HNSW_SQ": {},
}


class History:
    """A table, and the vectors that its rows must have."""

    def __init__(self, uri: str, kind: str, seed: int, *, stable: bool) -> None:
        self.uri = uri
        self.random = np.random.default_rng(seed)
        self.rows: dict[int, np.ndarray[Any, Any]] = {}
        lance.write_dataset(self._new(1200), uri, max_rows_per_file=300, enable_stable_row_ids=stable)
        self.table.create_index("v", kind, num_partitions=4, **KINDS[kind])

    @property
    def table(self) -> Any:
        return lance.dataset(self.uri)

    def _new(self, count: int) -> pa.Table:
        first = max(self.rows, default=-1) + 1
        values = clustered(count, DIMENSION, "f4", seed=int(self.random.integers(1 << 30)))
        self.rows.update({first + number: value for number, value in enumerate(values)})
        return pa.table({"id": pa.array(range(first, first + count), pa.int64()), "v": vectors(values)})

    def append(self) -> None:
        lance.write_dataset(self._new(150), self.uri, mode="append")

    def delete(self) -> None:
        share = int(self.random.integers(5, 12))
        self.table.delete(f"id % {share} = 2")
        self.rows = {id_: value for id_, value in self.rows.items() if id_ % share != 2}

    def update(self) -> None:
        changed = self.random.choice(list(self.rows), 40, replace=False).tolist()
        value = self.rows[changed[0]] + np.float32(0.25)
        self.table.update({"v": str([float(item) for item in value])}, f"id in ({', '.join(map(str, changed))})")
        self.rows.update(dict.fromkeys(changed, value))

    def compact(self) -> None:
        self.table.optimize.compact_files(target_rows_per_fragment=700)

    def compact_later(self) -> None:
        self.table.optimize.compact_files(target_rows_per_fragment=700, defer_index_remap=True)

    def optimize(self) -> None:
        self.table.optimize.optimize_indices(num_indices_to_merge=int(self.random.integers(2)))

    def check(self) -> float:
        """Passes if all answers are about current rows; the share of the nearest rows that were found."""
        dataset = lance_spark.open(self.uri)
        ids = np.array(list(self.rows))
        values = np.array(list(self.rows.values()))
        hits = 0
        for number, place in enumerate(self.random.choice(len(ids), 8)):
            query = values[place] + np.float32(0.01)
            distances = np.square(values - query).sum(1)
            among = np.flatnonzero(ids % 2 == 1) if number % 2 else np.arange(len(ids))
            found = dataset.nearest(
                "v", query, 10, filter="id % 2 = 1" if number % 2 else None, columns=["id"], nprobes=4
            )
            assert found.num_rows == 10
            places = [int(np.flatnonzero(ids == id_)[0]) for id_ in found["id"].to_pylist()]
            assert len(set(places)) == 10
            assert set(places) <= set(among.tolist())
            np.testing.assert_allclose(found["_distance"].to_numpy(), distances[places], 1e-4, 1e-4)
            worst = np.sort(distances[among])[9]
            hits += int((distances[places] <= worst * (1 + 1e-5)).sum())
        return hits / 80


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_random_history_returns_current_rows_only(
    tmp_path: Path, kind: str, stable: bool, caplog: pytest.LogCaptureFixture
) -> None:
    history = History(str(tmp_path / "t"), kind, seed=len(kind) + stable, stable=stable)
    steps = ["append", "delete", "update", "compact", "optimize"] + ([] if stable else ["compact_later"])
    done = []
    for step in [*history.random.permutation(steps), *history.random.choice(steps, 6)]:
        getattr(history, step)()
        done.append(str(step))
        assert history.check() >= 0.9, done
    searched(lance_spark.open(history.uri), caplog)
