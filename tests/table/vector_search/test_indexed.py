"""Searches with vector indexes that the reference library has built."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import InvalidInputError
from lance_spark.index.vector.segment import VectorSegment
from lance_spark.index.vector.storage import VectorStorage
from lance_spark.table.reading.scan import Scan
from lance_spark.table.vector_search import indexed
from tests.support.vector_search.old_indexes import make_old
from tests.support.vector_search.searches import KINDS, build, recall, searched
from tests.support.vector_search.tables import clustered, vectors, write

RECALL = {"IVF_PQ": 0.9, "IVF_PQ 4": 0.7, "IVF_HNSW_PQ": 0.9}
"""Of the ten nearest, with all partitions searched; 0.99 for the others."""


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_finds_the_nearest_rows(
    tmp_path: Path, kind: str, metric: str, caplog: pytest.LogCaptureFixture
) -> None:
    uri = str(tmp_path / "t")
    values = clustered(2000, 32, "f4")
    write(uri, vectors(values), max_rows_per_file=700)
    build(uri, kind, metric)
    dataset = lance_spark.open(uri)
    assert recall(dataset, values[:30], metric, nprobes=4) >= RECALL.get(kind, 0.99)
    searched(dataset, caplog)
    # fast_search reads no row that the index does not suggest, so this proves that the index was asked.
    assert dataset.nearest("v", values[0], 10, metric, nprobes=1, fast_search=True).num_rows == 10


@pytest.mark.parametrize("kind", KINDS)
def test_distances_are_those_of_the_vectors(tmp_path: Path, kind: str) -> None:
    uri = str(tmp_path / "t")
    values = clustered(1000, 32, "f4")
    write(uri, vectors(values))
    build(uri, kind, "cosine")
    found = lance_spark.open(uri).nearest("v", values[3], metric="cosine")
    rows = values[found["id"].to_numpy()].astype("f8")
    cosine = rows @ values[3] / np.linalg.norm(rows, axis=1) / np.linalg.norm(values[3].astype("f8"))
    np.testing.assert_allclose(found["_distance"].to_numpy(), 1 - cosine, atol=1e-5)


@pytest.mark.parametrize("dtype", ["f2", "f8", "u1"])
def test_other_types_of_values(tmp_path: Path, dtype: str, caplog: pytest.LogCaptureFixture) -> None:
    uri = str(tmp_path / "t")
    values = clustered(1500, 16, dtype)
    write(uri, vectors(values))
    metric = "hamming" if dtype == "u1" else "l2"
    build(uri, "IVF_FLAT", metric)
    dataset = lance_spark.open(uri)
    for query in values[:20]:
        exact, found = dataset.nearest("v", query, use_index=False), dataset.nearest("v", query, nprobes=4)
        assert found["_distance"].to_pylist() == exact["_distance"].to_pylist()
    searched(lance_spark.open(uri), caplog)


def test_the_metric_of_the_index_is_taken_if_none_is_named(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    values = clustered(1000, 16, "f4")
    write(uri, vectors(values))
    build(uri, "IVF_FLAT", "cosine")
    dataset = lance_spark.open(uri)
    assert dataset.nearest("v", values[0]).equals(dataset.nearest("v", values[0], metric="cosine"))
    exact = dataset.nearest("v", values[0], metric="l2")
    assert exact.equals(dataset.nearest("v", values[0], metric="l2", use_index=False))


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_HNSW_SQ"])
def test_changed_tables(tmp_path: Path, kind: str, stable: bool, caplog: pytest.LogCaptureFixture) -> None:
    uri = str(tmp_path / "t")
    values = clustered(3000, 16, "f4")
    write(uri, vectors(values[:2000]), max_rows_per_file=500, enable_stable_row_ids=stable)
    build(uri, kind)
    table = lance.dataset(uri)
    lance.write_dataset(pa.table({"id": range(2000, 3000), "v": vectors(values[2000:])}), uri, mode="append")
    table = lance.dataset(uri)
    table.delete("id % 10 = 4")
    moved = [float(value) for value in values[2500]]
    table.update({"v": f"{moved}"}, "id = 77")
    for step in range(3):
        dataset = lance_spark.open(uri)
        found = dataset.nearest("v", values[2500], 2, nprobes=4)
        assert sorted(found["id"].to_pylist()) == [77, 2500]
        old = dataset.nearest("v", values[77], 3000, nprobes=4, columns=["id", "_distance"]).to_pylist()
        assert [row["_distance"] for row in old if row["id"] == 77] == [
            pytest.approx(float(np.square(values[77] - values[2500]).sum()), rel=1e-4)
        ]
        assert not [row for row in old if row["id"] % 10 == 4]
        assert recall(dataset, values[5:3000:150], nprobes=4) >= 0.9
        assert dataset.nearest("v", values[2500], 2, fast_search=True, nprobes=4).num_rows == 2
        if step == 0:
            lance.dataset(uri).optimize.optimize_indices()
        else:
            lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=5000)
    searched(dataset, caplog)


@pytest.mark.parametrize("share", [0.002, 0.5])
def test_a_filter_leaves_no_row_out(tmp_path: Path, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lance_spark.table.vector_search.indexed._MAX_FILTERED_ROWS", 0)
    uri = str(tmp_path / "t")
    values = clustered(3000, 16, "f4")
    write(uri, vectors(values))
    build(uri, "IVF_FLAT", num_partitions=16)
    condition = f"id % 1000 < {int(share * 1000)}"
    dataset = lance_spark.open(uri)
    for query in values[:10]:
        exact = dataset.nearest("v", query, 6, filter=condition, use_index=False)
        found = dataset.nearest("v", query, 6, filter=condition, minimum_nprobes=1)
        assert found.num_rows == 6
        if share < 0.1:
            assert found.equals(exact)


def test_all_partitions_of_a_flat_index_give_the_exact_rows(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    values = clustered(2000, 8, "f4")
    write(uri, vectors(values))
    build(uri, "IVF_FLAT", num_partitions=8)
    dataset = lance_spark.open(uri)
    for query in values[:10]:
        assert dataset.nearest("v", query, 7, nprobes=8).equals(dataset.nearest("v", query, 7, use_index=False))
        assert dataset.nearest("v", values[:3], 7, nprobes=8).equals(
            dataset.nearest("v", values[:3], 7, use_index=False)
        )


def test_a_broken_index_costs_a_warning_and_a_scan(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    uri = str(tmp_path / "t")
    values = clustered(600, 8, "f4")
    write(uri, vectors(values))
    build(uri, "IVF_FLAT")
    for path in Path(uri).glob("_indices/*/auxiliary.idx"):
        path.unlink()
    with caplog.at_level(logging.WARNING):
        found = lance_spark.open(uri).nearest("v", values[0])
    assert found.equals(lance_spark.open(uri).nearest("v", values[0], use_index=False))
    assert "is not used" in caplog.text


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_HNSW_SQ"])
def test_warm_search_opens_a_segment_and_each_probed_partition_once(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = str(tmp_path / "t")
    values = clustered(1000, 32, "f4")
    write(uri, vectors(values))
    build(uri, kind)
    dataset = lance_spark.open(uri)
    expected_rows = dataset.nearest("v", values[0], nprobes=4)
    opened: list[str] = []
    read: list[int] = []
    open_segment, rows = VectorSegment.opened, VectorStorage.rows
    monkeypatch.setattr(VectorSegment, "opened", lambda self: opened.append(self.uuid) or open_segment(self))
    monkeypatch.setattr(VectorStorage, "rows", lambda self, numbers: read.extend(numbers) or rows(self, numbers))
    assert dataset.nearest("v", values[0], nprobes=4).equals(expected_rows)
    assert len(opened) == 1
    # The reference library may leave a partition empty; it is not read.
    assert len(read) == len(set(read)) > 1


def test_warm_search_plans_no_scan_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = str(tmp_path / "t")
    values = clustered(1000, 32, "f4")
    write(uri, vectors(values))
    build(uri, "IVF_PQ")
    dataset = lance_spark.open(uri)
    expected_rows = dataset.nearest("v", values[0], columns=["id"], with_row_id=True)
    monkeypatch.setattr(Scan, "of", lambda *arguments, **options: pytest.fail("planned again"))
    assert dataset.nearest("v", values[0], columns=["id"], with_row_id=True).equals(expected_rows)


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_SQ", "IVF_HNSW_SQ"])
def test_warm_search_makes_few_calls(tmp_path: Path, kind: str) -> None:
    """Of functions of the package: what depends on the version and the arguments alone is not worked out again."""
    uri = str(tmp_path / "t")
    values = clustered(1000, 64, "f4")
    write(uri, vectors(values))
    build(uri, kind, num_partitions=1)
    make_old(uri)
    dataset = lance_spark.open(uri)
    package = str(Path(lance_spark.__file__).parent)
    calls: list[str] = []

    def count(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(package):
            calls.append(frame.f_code.co_name)

    def search() -> pa.Table:
        return dataset.nearest("v", values[0], columns=[], with_row_id=True)

    expected = [search() for _ in range(3)][-1]
    sys.setprofile(count)
    try:
        found = search()
    finally:
        sys.setprofile(None)
    assert found.equals(expected)
    assert len(calls) < 198, calls


def test_broken_index_after_a_search_costs_a_warning_and_a_scan(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    uri = str(tmp_path / "t")
    values = clustered(600, 8, "f4")
    write(uri, vectors(values))
    build(uri, "IVF_FLAT", "dot")
    dataset = lance_spark.open(uri)
    searched_before = dataset.nearest("v", values[0], nprobes=4)
    for path in Path(uri).glob("_indices/*/index.idx"):
        path.unlink()
    with caplog.at_level(logging.WARNING):
        found = dataset.nearest("v", values[0], nprobes=4)
    assert "is not used" in caplog.text
    assert found.equals(searched_before)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nprobes": 0}, "at least 1"),
        ({"minimum_nprobes": 3, "maximum_nprobes": 2}, "at least 3 and at most 2"),
        ({"nprobes": 2, "maximum_nprobes": 2}, "give either"),
        ({"refine_factor": 0}, "refine_factor is 0"),
    ],
)
def test_wrong_parameters_of_the_search(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    uri = str(tmp_path / "t")
    write(uri, vectors(clustered(10, 4, "f4")))
    with pytest.raises(InvalidInputError, match=message):
        lance_spark.open(uri).nearest("v", [0.0] * 4, **options)


@pytest.mark.parametrize("kind", ["IVF_SQ", "IVF_HNSW_SQ"])
def test_estimates_of_scalar_codes_are_as_good_as_pylance(tmp_path: Path, kind: str) -> None:
    """Codes are rounded down. With long vectors among the others the bounds are far apart, and the steps are large."""
    uri = str(tmp_path / "t")
    values = clustered(3000, 32, "f4")
    values[::100] *= 4
    write(uri, vectors(values))
    build(uri, kind, num_partitions=1)
    ours, theirs = lance_spark.open(uri), lance.dataset(uri)
    hits = [0, 0]
    for query in values[1:80] + np.float32(0.1):
        exact = ours.nearest("v", query, columns=["id"], use_index=False)["id"].to_pylist()
        found = ours.nearest("v", query, columns=["id"], refine_factor=1)["id"].to_pylist()
        nearest = {"column": "v", "q": query, "k": 10, "refine_factor": 1}
        others = theirs.to_table(columns=["id"], nearest=nearest)["id"].to_pylist()
        hits[0] += len(set(exact) & set(found))
        hits[1] += len(set(exact) & set(others))
    assert hits[0] >= hits[1]


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_HNSW_SQ"])
def test_segments_of_the_same_fragments_double_no_row(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = str(tmp_path / "t")
    values = clustered(1000, 16, "f4")
    write(uri, vectors(values))
    build(uri, kind)
    expected = lance_spark.open(uri).nearest("v", values[0], 20)
    chosen = indexed.chosen_segments
    monkeypatch.setattr(indexed, "chosen_segments", lambda *args, **options: 2 * chosen(*args, **options))
    assert lance_spark.open(uri).nearest("v", values[0], 20).equals(expected)
