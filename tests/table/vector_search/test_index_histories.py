"""Random histories of tables with a vector index: whatever both libraries did, answers are about the present rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from tests.support.history_seeds import seeds
from tests.support.two_library_history import TwoLibraryHistory
from tests.support.vector_search.searches import searched
from tests.support.vector_search.tables import clustered, vectors

DIMENSION = 16
KINDS: dict[str, dict[str, Any]] = {
    "IVF_FLAT": {},
    "IVF_PQ": {"num_sub_vectors": 8},
    "IVF_SQ": {},
    "IVF_RQ": {"num_bits": 5},
    "IVF_HNSW_FLAT": {},
    "IVF_HNSW_SQ": {},
    "IVF_HNSW_PQ": {"num_sub_vectors": 8},
}
CHANGES = ("append", "delete", "update", "merge", "other_column", "replace", "restore")
UPKEEP = ("compact", "optimize", "optimize", "rebuild")


class History(TwoLibraryHistory["np.ndarray[Any, Any] | None"]):
    """A table with a vector index, and the vectors that its rows must have."""

    appended, merged, target_rows, indices_to_merge = 150, 60, 700, (0, 1, 2)

    def __init__(self, uri: str, kind: str, seed: int, *, stable: bool) -> None:
        super().__init__(uri, seed, stable=stable)
        self._kind = kind

    def values(self, count: int) -> tuple[list[np.ndarray[Any, Any] | None], pa.Array, str]:
        """Some rows have no vector."""
        values = clustered(count, DIMENSION, "f4", seed=int(self.random.integers(1 << 30)))
        is_null = self.random.random(count) < 0.03
        array = pa.FixedSizeListArray.from_arrays(vectors(values).flatten(), DIMENSION, mask=pa.array(is_null))
        return [None if null else value for value, null in zip(values, is_null, strict=True)], array, "v"

    def update(self, table: Any) -> None:
        changed = self.some(40)
        value = next(value for value in self.rows.values() if value is not None) + np.float32(0.25)
        items = ", ".join(str(float(item)) for item in value)
        literal = f"[{items}]" if isinstance(table, lance.LanceDataset) else f"array({items})"
        table.update({"v": literal}, f"id in ({', '.join(map(str, changed))})")
        self.rows.update(dict.fromkeys(changed, value))

    def replace(self, table: Any) -> None:
        """All rows of one fragment leave, and others come."""
        fragment = table.to_table(columns=["id"])["id"].to_pylist()[:100]
        table.delete(f"id in ({', '.join(map(str, fragment))})")
        for id_ in fragment:
            del self.rows[id_]
        self.append(table)

    def rebuild(self, table: Any) -> None:
        table.create_index("v", self._kind, name="by_v", replace=True, num_partitions=4, **KINDS[self._kind])

    def check(self) -> float:
        """Passes if all answers are about present rows; the share of the nearest rows that were found."""
        dataset = self.ours
        assert dataset.count_rows() == len(self.rows)
        known = {id_: value for id_, value in self.rows.items() if value is not None}
        ids, values = np.array(list(known)), np.array(list(known.values()))
        hits = 0
        for number, place in enumerate(self.random.choice(len(ids), 8)):
            query = values[place] + np.float32(0.01)
            distances = np.square(values - query).sum(1)
            among = np.flatnonzero(ids % 2 == 1) if number % 2 else np.arange(len(ids))
            found = dataset.nearest(
                "v", query, 10, filter="id % 2 = 1" if number % 2 else None, columns=["id"], nprobes=64
            )
            assert found.num_rows == 10
            places = [int(np.flatnonzero(ids == id_)[0]) for id_ in found["id"].to_pylist()]
            assert len(set(places)) == 10
            assert set(places) <= set(among.tolist())
            np.testing.assert_allclose(found["_distance"].to_numpy(), distances[places], 1e-4, 1e-4)
            worst = np.sort(distances[among])[9]
            hits += int((distances[places] <= worst * (1 + 1e-5)).sum())
        return hits / 80


@pytest.mark.slow
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable_ids"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(1))
def test_random_history_returns_present_rows_only(
    tmp_path: Path, kind: str, stable: bool, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    history = History(str(tmp_path / "t"), kind, seed=1000 * len(kind) + 2 * seed + stable, stable=stable)
    history.begin(1200, 300)
    for step in [*history.random.permutation([*CHANGES, *UPKEEP]), *history.random.choice([*CHANGES, *UPKEEP], 3)]:
        history.step(str(step))
        try:
            assert history.check() >= 0.85
        except AssertionError as error:
            raise AssertionError(f"after {history.steps}") from error
    searched(lance_spark.open(history.uri), caplog)
