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
from tests.table.vector_search.test_exact import clustered, vectors
from tests.table.vector_search.test_indexed import searched

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


class History:
    """A table that two libraries change by turns, and the vectors that its rows must have."""

    def __init__(self, uri: str, kind: str, seed: int, *, stable: bool) -> None:
        self.uri, self.kind = uri, kind
        self.random = np.random.default_rng(seed)
        self.rows: dict[int, np.ndarray[Any, Any] | None] = {}
        self.next_id = 0
        self.steps: list[str] = []
        self._known: dict[int, dict[int, np.ndarray[Any, Any] | None]] = {}
        self._deferred = not stable
        lance.write_dataset(self._new(1200), uri, max_rows_per_file=300, enable_stable_row_ids=stable)
        self.rebuild(self._theirs)
        self._remember()

    @property
    def _ours(self) -> Any:
        return lance_spark.open(self.uri)

    @property
    def _theirs(self) -> Any:
        return lance.dataset(self.uri)

    def _remember(self) -> None:
        self._known[self._ours.version] = dict(self.rows)

    def _new(self, count: int, ids: list[int] | None = None) -> pa.Table:
        """Rows, some without a vector; they count as rows of the table from now on."""
        if ids is None:
            ids = list(range(self.next_id, self.next_id + count))
            self.next_id += count
        values = clustered(count, DIMENSION, "f4", seed=int(self.random.integers(1 << 30)))
        is_null = self.random.random(count) < 0.03
        array = vectors(values)
        array = pa.FixedSizeListArray.from_arrays(array.flatten(), DIMENSION, mask=pa.array(is_null))
        for id_, value, null in zip(ids, values, is_null, strict=True):
            self.rows[id_] = None if null else value
        return pa.table({"id": pa.array(ids, pa.int64()), "v": array, "n": pa.array(np.zeros(count, "i8"))})

    def _some(self, count: int) -> list[int]:
        chosen: list[int] = self.random.choice(list(self.rows), min(count, len(self.rows)), replace=False).tolist()
        return chosen

    def step(self, name: str) -> None:
        """Makes one change, by a library that is chosen at random."""
        table = self._ours if self.random.random() < 0.5 else self._theirs
        self.steps.append(f"{name} by {type(table).__name__}")
        getattr(self, name)(table)
        self._remember()

    def append(self, table: Any) -> None:
        if isinstance(table, lance.LanceDataset):
            lance.write_dataset(self._new(150), self.uri, mode="append")
        else:
            lance_spark.write(self._new(150), self.uri, mode="append")

    def delete(self, table: Any) -> None:
        share = int(self.random.integers(5, 12))
        table.delete(f"id % {share} = 2")
        self.rows = {id_: value for id_, value in self.rows.items() if id_ % share != 2}

    def update(self, table: Any) -> None:
        changed = self._some(40)
        value = next(value for value in self.rows.values() if value is not None) + np.float32(0.25)
        literal = f"[{', '.join(str(float(item)) for item in value)}]"
        if not isinstance(table, lance.LanceDataset):
            literal = f"array({literal[1:-1]})"
        table.update({"v": literal}, f"id in ({', '.join(map(str, changed))})")
        self.rows.update(dict.fromkeys(changed, value))

    def merge(self, table: Any) -> None:
        """Gives rows new vectors, or none, by a merge."""
        new = self._new(60, self._some(60))
        if isinstance(table, lance.LanceDataset):
            table.merge_insert("id").when_matched_update_all().execute(new)
        else:
            table.merge(new, "id")

    def other_column(self, table: Any) -> None:
        table.update({"n": "n + 1"}, f"id % 7 = {self.random.integers(7)}")

    def replace(self, table: Any) -> None:
        """All rows of one fragment leave, and others come."""
        fragment = table.to_table(columns=["id"])["id"].to_pylist()[:100]
        table.delete(f"id in ({', '.join(map(str, fragment))})")
        for id_ in fragment:
            del self.rows[id_]
        self.append(table)

    def restore(self, table: Any) -> None:
        version = int(self.random.choice(list(self._known)[-3:]))
        if isinstance(table, lance.LanceDataset):
            lance.dataset(self.uri, version=version).restore()  # type: ignore[no-untyped-call]
        else:
            table.restore(version)
        self.rows = dict(self._known[version])

    def compact(self, table: Any) -> None:
        defer = self._deferred and bool(self.random.random() < 0.5)
        self.steps[-1] += ", deferred" if defer else ""
        if isinstance(table, lance.LanceDataset):
            table.optimize.compact_files(target_rows_per_fragment=700, defer_index_remap=defer)
        else:
            table.compact(target_rows_per_fragment=700, defer_index_remap=defer)

    def optimize(self, table: Any) -> None:
        count = int(self.random.integers(3))
        if isinstance(table, lance.LanceDataset):
            table.optimize.optimize_indices(num_indices_to_merge=count)
        else:
            table.optimize_indices(num_indices_to_merge=count)

    def rebuild(self, table: Any) -> None:
        table.create_index("v", self.kind, name="by_v", replace=True, num_partitions=4, **KINDS[self.kind])

    def check(self) -> float:
        """Passes if all answers are about present rows; the share of the nearest rows that were found."""
        dataset = self._ours
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


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable_ids"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(1))
def test_random_history_returns_present_rows_only(
    tmp_path: Path, kind: str, stable: bool, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    history = History(str(tmp_path / "t"), kind, seed=1000 * len(kind) + 2 * seed + stable, stable=stable)
    for step in [*history.random.permutation([*CHANGES, *UPKEEP]), *history.random.choice([*CHANGES, *UPKEEP], 3)]:
        history.step(str(step))
        try:
            assert history.check() >= 0.85
        except AssertionError as error:
            raise AssertionError(f"after {history.steps}") from error
    searched(lance_spark.open(history.uri), caplog)
