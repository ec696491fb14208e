"""Merges of vector indexes split partitions that are too large and dissolve those that are too small."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from lance.file import LanceFileReader

import lance_spark
from lance_spark.errors import LanceError
from lance_spark.index.vector.building.balance import changes_of
from lance_spark.index.vector.building.model import VectorModel
from lance_spark.index.vector.building.training import TrainingParameters
from lance_spark.index.vector.metrics import Metric

KINDS: dict[str, dict[str, Any]] = {
    "IVF_FLAT": {},
    "IVF_PQ": {"num_sub_vectors": 8},
    "IVF_SQ": {},
    "IVF_RQ": {},
    "IVF_HNSW_SQ": {},
}
DIMENSION = 16
NUM_CENTRES = 20
TARGET = 150
OLD, NEW = 1500, 2500
CENTRES = np.random.default_rng(0).normal(size=(NUM_CENTRES, DIMENSION))

Vectors = npt.NDArray[np.float32]


def around(labels: npt.NDArray[np.int64], seed: int) -> Vectors:
    noise = np.random.default_rng(seed).normal(scale=0.3, size=(len(labels), DIMENSION))
    return (CENTRES[labels] + noise).astype("f4")


OLD_LABELS = np.arange(OLD) % NUM_CENTRES
VALUES = np.concatenate([around(OLD_LABELS, 1), around(np.arange(NEW) % 2, 2)])
QUERIES = np.concatenate([around(np.arange(20), 3), around(np.arange(20) % 2, 4)])


def table_of(values: Vectors, first_id: int) -> pa.Table:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
    return pa.table({"id": pa.array(range(first_id, first_id + len(values)), pa.int64()), "v": vectors})


def write(uri: str, values: Vectors, first_id: int = 0, **options: Any) -> None:
    lance.write_dataset(table_of(values, first_id), uri, max_rows_per_file=600, **options)


def indexed(uri: str, kind: str, metric: str = "l2", *, stable: bool = False) -> lance_spark.Dataset:
    """The first `OLD` rows with an index of partitions of `TARGET` rows."""
    write(uri, VALUES[:OLD], enable_stable_row_ids=stable)
    return lance_spark.open(uri).create_index("v", kind, metric=metric, target_partition_size=TARGET, **KINDS[kind])


def sizes(dataset: lance_spark.Dataset) -> list[list[int]]:
    segments = dataset.index_statistics("v_idx")["segments"]
    return [[part["size"] for part in segment["partitions"]] for segment in segments]


def distances(query: Any, values: Any, metric: str) -> npt.NDArray[np.float64]:
    query, values = np.asarray(query, np.float64), np.asarray(values, np.float64)
    if metric == "l2":
        return np.asarray(((values - query) ** 2).sum(axis=1))
    if metric == "cosine":
        return np.asarray(1 - values @ query / np.linalg.norm(values, axis=1) / np.linalg.norm(query))
    return np.asarray(1 - values @ query)


def recall(dataset: lance_spark.Dataset, live: npt.NDArray[np.int64], metric: str = "l2") -> float:
    """The share of the ten nearest rows, by brute force, that the index finds; each answer is checked.

    A search probes four tenths of the partitions: more partitions of fewer rows are compared with as many rows.
    """
    nprobes = -(-4 * len(sizes(dataset)[0]) // 10)
    hits = 0
    for query in QUERIES:
        exact = distances(query, VALUES[live], metric)
        nearest = live[np.argsort(exact, kind="stable")[:10]]
        found = dataset.nearest("v", query, k=10, metric=metric, columns=["id"], fast_search=True, nprobes=nprobes)
        ids = found["id"].to_numpy()
        assert len(set(ids.tolist())) == len(ids) == 10
        assert set(ids.tolist()) <= set(live.tolist())
        np.testing.assert_allclose(found["_distance"], distances(query, VALUES[ids], metric), rtol=1e-4, atol=1e-4)
        hits += len(set(nearest.tolist()) & set(ids.tolist()))
    return hits / (10 * len(QUERIES))


def check_rows(uri: str) -> None:
    """The files of the index hold each live row once, as the reference library reads them."""
    dataset = lance.dataset(uri)
    (segment,) = lance_spark.open(uri).list_indices()
    file = Path(uri) / "_indices" / segment["uuid"] / "auxiliary.idx"
    stored = LanceFileReader(str(file)).read_all().to_table()["_rowid"].to_numpy()
    live = dataset.to_table(columns=[], with_row_id=True)["_rowid"].to_numpy()
    assert np.sort(stored).tolist() == np.sort(live).tolist()


def check_reference(uri: str, num_rows: int) -> None:
    """The reference library searches the index and optimizes it."""
    dataset = lance.dataset(uri)
    asked = {"column": "v", "k": 10, "nprobes": 1000, "refine_factor": 5}
    hits = 0
    for query in QUERIES:
        own = {**asked, "q": query}
        exact = dataset.to_table(columns=["id"], nearest={**own, "use_index": False})["id"].to_pylist()
        found = dataset.to_table(columns=["id"], nearest=own)["id"].to_pylist()
        assert len(set(found)) == 10
        hits += len(set(exact) & set(found))
    assert "ANNSubIndex" in dataset.scanner(nearest={**asked, "q": QUERIES[0]}).explain_plan()
    assert hits >= 0.97 * 10 * len(QUERIES)
    write(uri, QUERIES, 10_000, mode="append")
    lance.dataset(uri).optimize.optimize_indices()
    statistics = lance.dataset(uri).stats.index_stats("v_idx")
    assert statistics["num_indexed_rows"] == num_rows + len(QUERIES)
    found = lance.dataset(uri).to_table(columns=["id"], nearest={**asked, "q": QUERIES[3], "k": 1})
    assert found["id"].to_pylist() == [10_003]


@pytest.mark.slow
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_large_partitions_are_split(tmp_path: Path, kind: str, stable: bool, caplog: pytest.LogCaptureFixture) -> None:
    uri = str(tmp_path / "t")
    indexed(uri, kind, stable=stable)
    write(uri, VALUES[OLD:], OLD, mode="append")
    with_delta = lance_spark.open(uri).optimize_indices(num_indices_to_merge=0)
    first, second = sizes(with_delta)
    before = np.add(first, second)
    assert before.max() > 4 * TARGET
    live = np.arange(OLD + NEW)
    recall_before = recall(with_delta, live)
    merged = with_delta.optimize_indices(num_indices_to_merge=2)
    (after,) = sizes(merged)
    assert len(after) > len(before)
    assert max(after) <= before.max() // 2
    assert sum(after) == OLD + NEW
    assert not caplog.records
    check_rows(uri)
    assert recall(merged, live) >= recall_before - 0.005
    check_reference(uri, OLD + NEW)


@pytest.mark.slow
@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_small_partitions_are_dissolved(tmp_path: Path, kind: str, stable: bool) -> None:
    uri = str(tmp_path / "t")
    before = indexed(uri, kind, stable=stable)
    # Of most clusters two rows stay.
    deleted = (OLD_LABELS >= 4) & (np.arange(OLD) >= 2 * NUM_CENTRES)
    lance.dataset(uri).delete(f"id IN ({', '.join(map(str, np.flatnonzero(deleted).tolist()))})")
    write(uri, VALUES[OLD : OLD + 20], OLD, mode="append")
    live = np.concatenate([np.flatnonzero(~deleted), np.arange(OLD, OLD + 20)])
    with_delta = lance_spark.open(uri).optimize_indices(num_indices_to_merge=0)
    merged = with_delta.optimize_indices(num_indices_to_merge=2)
    (after,), (old,) = sizes(merged), sizes(before)
    assert len(after) < len(old)
    assert sum(after) == len(live)
    assert min(after) * 4 >= TARGET
    check_rows(uri)
    found, copy = recall(merged, live), shutil.copytree(uri, str(tmp_path / "copy"))
    check_reference(uri, len(live))
    built = lance_spark.open(copy).create_index("v", kind, replace=True, num_partitions=len(after), **KINDS[kind])
    # The centroids that stay are not those of the rows that are left.
    assert found >= recall(built, live) - 0.04


@pytest.mark.parametrize("metric", ["cosine", "dot"])
@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_RQ"])
def test_partitions_of_other_metrics_are_split(tmp_path: Path, kind: str, metric: str) -> None:
    uri = str(tmp_path / "t")
    indexed(uri, kind, metric)
    write(uri, VALUES[OLD:], OLD, mode="append")
    with_delta = lance_spark.open(uri).optimize_indices(num_indices_to_merge=0)
    live = np.arange(OLD + NEW)
    recall_before = recall(with_delta, live, metric)
    merged = with_delta.optimize_indices(num_indices_to_merge=2)
    before, (after,) = np.add(*sizes(with_delta)), sizes(merged)
    assert len(after) > len(before)
    assert max(after) < before.max()
    check_rows(uri)
    assert recall(merged, live, metric) >= recall_before - 0.005


def test_updated_rows_are_found_as_they_are(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    indexed(uri, "IVF_PQ", stable=True)
    write(uri, VALUES[OLD:], OLD, mode="append")
    changed = table_of(np.full((5, DIMENSION), 9, "f4") + np.arange(5, dtype="f4")[:, None], 0)
    lance.dataset(uri).merge_insert("id").when_matched_update_all().execute(changed)
    merged = lance_spark.open(uri).optimize_indices()
    check_rows(uri)
    assert len(sizes(merged)[0]) > 10
    query = np.full(DIMENSION, 9, "f4")
    found = merged.nearest("v", query, k=5, columns=["id"], fast_search=True, nprobes=1)
    assert found["id"].to_pylist() == [0, 1, 2, 3, 4]
    nearest = merged.nearest("v", VALUES[3], k=10, columns=["id"], fast_search=True)["id"].to_pylist()
    assert 3 not in nearest


def test_later_segments_have_the_changed_model(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    indexed(uri, "IVF_PQ")
    write(uri, VALUES[OLD:], OLD, mode="append")
    (split,) = sizes(lance_spark.open(uri).optimize_indices())
    write(uri, QUERIES, 10_000, mode="append")
    delta = lance_spark.open(uri).optimize_indices(num_indices_to_merge=0)
    assert [len(segment) for segment in sizes(delta)] == [len(split), len(split)]
    for place in (0, 25):
        found = delta.nearest("v", QUERIES[place], k=1, columns=["id"], fast_search=True, nprobes=1)
        assert found["id"].to_pylist() == [10_000 + place]
    merged = delta.optimize_indices(num_indices_to_merge=2)
    assert sum(sizes(merged)[0]) == OLD + NEW + len(QUERIES)
    check_rows(uri)


def test_merge_of_some_segments_keeps_their_model(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    (old,) = sizes(indexed(uri, "IVF_FLAT"))
    for start in (OLD, OLD + NEW // 2):
        write(uri, VALUES[start : start + NEW // 2], start, mode="append")
        lance_spark.open(uri).optimize_indices(num_indices_to_merge=0)
    merged = lance_spark.open(uri).optimize_indices(num_indices_to_merge=2)
    assert [len(segment) for segment in sizes(merged)] == [len(old), len(old)]
    assert max(sizes(merged)[1]) > 4 * TARGET


def test_compaction_keeps_partitions(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    (old,) = sizes(indexed(uri, "IVF_SQ"))
    lance.dataset(uri).delete("id >= 100")
    write(uri, VALUES[OLD : OLD + 10], OLD, mode="append")
    compacted = lance_spark.open(uri).compact()
    assert [len(segment) for segment in sizes(compacted)] == [len(old)]


def test_equal_vectors_stay_together(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    (old,) = sizes(indexed(uri, "IVF_PQ"))
    write(uri, np.repeat(VALUES[:1], 1000, axis=0), OLD, mode="append")
    merged = lance_spark.open(uri).optimize_indices()
    assert sum(sizes(merged)[0]) == OLD + 1000
    assert max(sizes(merged)[0]) >= 1000
    assert len(sizes(merged)[0]) <= len(old) + 8
    check_rows(uri)
    found = merged.nearest("v", VALUES[7], k=1, columns=["id"], fast_search=True)
    assert found["id"].to_pylist() == [7]


def test_lists_of_vectors(tmp_path: Path) -> None:
    uri, numbers = str(tmp_path / "t"), np.random.default_rng(5).permutation(OLD + NEW)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(VALUES[numbers].ravel()), DIMENSION)

    def lists(start: int, stop: int) -> pa.Table:
        offsets = pa.array(range(0, 4 * (stop - start) + 1, 4), pa.int32())
        column = pa.ListArray.from_arrays(offsets, vectors.slice(4 * start, 4 * (stop - start)))
        return pa.table({"id": range(start, stop), "v": column})

    lance.write_dataset(lists(0, 200), uri)
    lance_spark.open(uri).create_index("v", "IVF_PQ", metric="cosine", target_partition_size=50, num_sub_vectors=8)
    lance.write_dataset(lists(200, 1000), uri, mode="append")
    merged = lance_spark.open(uri).optimize_indices()
    (after,) = sizes(merged)
    assert len(after) > 16
    assert sum(after) == OLD + NEW
    (segment,) = merged.list_indices()
    file = LanceFileReader(str(Path(uri) / "_indices" / segment["uuid"] / "auxiliary.idx"))
    stored = file.read_all().to_table()["_rowid"].to_numpy()
    assert np.unique(stored, return_counts=True)[1].tolist() == [4] * 1000
    for row in (0, 150, 777):
        query = [vectors[4 * row + place].as_py() for place in range(4)]
        found = merged.nearest("v", query, k=1, metric="cosine", columns=["id"], fast_search=True)
        assert found["id"].to_pylist() == [row]


def test_nothing_is_committed_if_vectors_cannot_be_read(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    indexed(uri, "IVF_PQ")
    write(uri, VALUES[OLD:], OLD, mode="append")
    version = lance.dataset(uri).version
    folders = {path.name for path in (tmp_path / "t" / "_indices").iterdir()}
    fragment = lance.dataset(uri).get_fragments()[0]
    (tmp_path / "t" / "data" / fragment.data_files()[0].path).unlink()
    dataset = lance_spark.open(uri)
    with pytest.raises(LanceError, match=fragment.data_files()[0].path):
        dataset.optimize_indices()
    assert lance.dataset(uri).version == version
    assert {path.name for path in (tmp_path / "t" / "_indices").iterdir() if any(path.iterdir())} == folders


@pytest.mark.parametrize(
    ("target", "counts", "pieces", "dissolved"),
    [
        (100, [400, 25, 100], {}, ()),
        (100, [401, 24, 100], {0: 4}, (1,)),
        # Partitions of 4096 rows are meant, but all of these are as large as they were asked for.
        (None, [60, 50, 40, 50], {}, ()),
        (None, [50] * 9 + [5], {}, (9,)),
        # More than 4 * 4096 rows, and more than eight times the mean of 3040.
        (None, [1500] * 19 + [32_300], {19: 8}, ()),
        (None, [16_000] * 10, {}, ()),
        (100, [0, 0, 0], {}, (0, 1)),
    ],
)
def test_which_partitions_change(
    target: int | None, counts: list[int], pieces: dict[int, int], dissolved: tuple[int, ...]
) -> None:
    # On a line, so that each is nearest to those beside it.
    centroids = np.arange(len(counts), dtype="f4")[:, None]
    model = VectorModel("IVF_FLAT", Metric.L2, centroids)
    parameters = TrainingParameters("IVF_FLAT", Metric.L2, target_partition_size=target)
    changes = changes_of(model, np.array(counts), parameters)
    assert (changes.pieces, changes.dissolved) == (pieces, dissolved) if changes else not pieces and not dissolved


def test_small_partitions_are_dissolved_one_after_the_other() -> None:
    model = VectorModel("IVF_FLAT", Metric.L2, np.array([[0], [1], [5], [6]], "f4"))
    parameters = TrainingParameters("IVF_FLAT", Metric.L2, target_partition_size=100)
    changes = changes_of(model, np.array([20, 15, 21, 22]), parameters)
    assert changes is not None
    # The rows of 1 make 0 large enough, those of 2 make 3 so.
    assert changes.dissolved == (1, 2)


def test_changes_of_one_merge_are_bounded() -> None:
    model = VectorModel("IVF_FLAT", Metric.L2, np.arange(300, dtype="f4")[:, None])
    parameters = TrainingParameters("IVF_FLAT", Metric.L2, target_partition_size=100)
    changes = changes_of(model, np.array([1000] * 40 + [0] * 260), parameters)
    assert changes is not None
    assert (len(changes.pieces), len(changes.dissolved)) == (40, 24)
