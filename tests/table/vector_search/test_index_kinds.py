"""Kinds of vector indexes that need care: IVF_RQ, files of the first version, and tables whose rows have moved."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_spark
from lance_spark.errors import CorruptFileError, InvalidInputError
from lance_spark.index.files import IndexFile
from lance_spark.index.vector.ivf import IvfModel
from lance_spark.index.vector.metrics import Metric
from lance_spark.index.vector.probing import Probing
from lance_spark.index.vector.segment import Effort, Probed, nearest_of_segment
from lance_spark.index.vector.stored.rabit import RabitStorage
from lance_spark.table.vector_search.request import NearestRequest
from lance_spark.table.vector_search.segments import chosen_segments
from tests.support.vector_search.searches import build, recall, searched
from tests.support.vector_search.tables import clustered, vectors, write

ROWS = 1500


def indexed(path: Path, kind: str, metric: str = "l2", *, dimension: int = 32, **options: Any) -> tuple[str, Any]:
    uri = str(path / "t")
    values = clustered(ROWS, dimension, "f4")
    write(uri, vectors(values), max_rows_per_file=400)
    lance.dataset(uri).create_index("v", kind, metric=metric, num_partitions=4, **options)
    return uri, values


def recall_of_reference(uri: str, queries: np.ndarray[Any, Any], metric: str, **options: Any) -> float:
    hits = 0
    for query in queries:
        exact = lance_spark.open(uri).nearest("v", query, metric=metric, use_index=False, columns=["id"])
        nearest = {"column": "v", "q": query, "k": 10, "metric": metric, **options}
        found = lance.dataset(uri).to_table(columns=["id", "_distance"], nearest=nearest)
        hits += len(set(exact["id"].to_pylist()) & set(found["id"].to_pylist()))
    return hits / (10 * len(queries))


@pytest.mark.parametrize("num_bits", range(1, 10))
def test_rq_finds_as_many_of_the_nearest_rows_as_pylance(
    tmp_path: Path, num_bits: int, caplog: pytest.LogCaptureFixture
) -> None:
    metric = ("l2", "cosine", "dot")[num_bits % 3]
    dimension = 104 if num_bits % 2 else 32
    uri, values = indexed(tmp_path, "IVF_RQ", metric, dimension=dimension, num_bits=num_bits)
    dataset = lance_spark.open(uri)
    theirs = recall_of_reference(uri, values[:20], metric, nprobes=4, refine_factor=1)
    ours = recall(dataset, values[:20], metric, nprobes=4, refine_factor=1, fast_search=True)
    assert ours >= theirs - 0.03
    assert theirs > 0.2
    searched(dataset, caplog)


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
def test_index_of_the_first_version_is_searched(tmp_path: Path, metric: str, caplog: pytest.LogCaptureFixture) -> None:
    uri, values = indexed(tmp_path, "IVF_PQ", metric, num_sub_vectors=8, index_file_version="legacy")
    assert not list(Path(uri).glob("_indices/*/auxiliary.idx"))
    dataset = lance_spark.open(uri)
    assert recall(dataset, values[:20], metric, nprobes=4, fast_search=True) >= 0.9
    searched(dataset, caplog)


@pytest.mark.parametrize("length", [20, 3000, -30])
def test_broken_index_of_the_first_version_costs_a_warning(
    tmp_path: Path, length: int, caplog: pytest.LogCaptureFixture
) -> None:
    uri, values = indexed(tmp_path, "IVF_PQ", num_sub_vectors=8, index_file_version="legacy")
    (path,) = Path(uri).glob("_indices/*/index.idx")
    content = path.read_bytes()
    # The end stays, so that the file is still one of the first version.
    path.write_bytes((content[:length] + content[-16:]).rjust(len(content), b"\0"))
    dataset = lance_spark.open(uri)
    with caplog.at_level(logging.WARNING):
        found = dataset.nearest("v", values[3])
    assert found.equals(dataset.nearest("v", values[3], use_index=False))
    assert "is not used" in caplog.text


@pytest.mark.parametrize("kind", ["IVF_FLAT", "IVF_PQ", "IVF_RQ", "IVF_HNSW_SQ"])
def test_rows_moved_by_deferred_compactions_are_found_where_they_are(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = {"num_sub_vectors": 8} if kind == "IVF_PQ" else {}
    uri, values = indexed(tmp_path, kind, **options)
    lance.dataset(uri).delete("id % 3 = 1")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=700, defer_index_remap=True)
    new = clustered(300, 32, "f4", seed=2)
    lance.write_dataset(pa.table({"id": range(5000, 5300), "v": vectors(new)}), uri, mode="append")
    lance.dataset(uri).delete("id % 3 = 0")
    dataset = lance_spark.open(uri)
    found = dataset.nearest("v", values[2], 2000, nprobes=4, fast_search=True, columns=["id"])["id"].to_pylist()
    assert sorted(found) == list(range(2, ROWS, 3))
    assert recall(dataset, values[2:300:30], nprobes=4) >= 0.9
    assert dataset.nearest("v", new[0], 1)["id"].to_pylist() == [5000 if 5000 % 3 else 5001]
    searched(dataset, caplog)


@pytest.mark.parametrize("kind", ["IVF_PQ", "IVF_RQ", "IVF_HNSW_FLAT"])
def test_delta_segments_are_searched_together(tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    options = {"num_sub_vectors": 8} if kind == "IVF_PQ" else {}
    uri, values = indexed(tmp_path, kind, **options)
    for step in range(2):
        new = clustered(400, 32, "f4", seed=3 + step)
        rows = pa.table({"id": range(10_000 * step + 10_000, 10_000 * step + 10_400), "v": vectors(new)})
        lance.write_dataset(rows, uri, mode="append")
        lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
        values = np.concatenate([values, new])
    assert len(lance.dataset(uri).list_indices()) == 3
    dataset = lance_spark.open(uri)
    assert recall(dataset, values[::100], nprobes=4, fast_search=True) >= 0.9
    searched(dataset, caplog)


class LiveOrNot:
    """All rows count."""

    may_exclude = False

    def __call__(self, row_ids: Any, /) -> Any:
        return row_ids, np.ones(len(row_ids), np.bool_)


@pytest.mark.parametrize("kind", ["IVF_HNSW_FLAT", "IVF_HNSW_SQ", "IVF_HNSW_PQ"])
def test_effort_of_a_walk_through_the_graph(tmp_path: Path, kind: str) -> None:
    uri = str(tmp_path / "t")
    values = clustered(3000, 32, "f4")
    write(uri, vectors(values))
    build(uri, kind, num_partitions=1)
    dataset = lance_spark.open(uri)
    visited = []
    for effort in (10, 400):
        probed = Probed()
        query = values[0].astype(np.float32)
        search = dataset.plan_nearest(NearestRequest("v", query, ef=effort))
        ((segment, _),) = chosen_segments(dataset.plan(["v"]), dataset.manifest, search.query, use_index=True)
        everything = LiveOrNot()
        nearest_of_segment(segment.opened(), query, Effort(10, 10, Probing(), effort), everything, probed)
        visited.append(probed.rows)
    assert visited == [10, 400]
    assert recall(dataset, values[:30], ef=400) >= (0.85 if kind.endswith("PQ") else 0.99)
    with pytest.raises(InvalidInputError, match="ef must be at least k"):
        dataset.nearest("v", values[0], 10, ef=9)


@pytest.mark.parametrize("share", [2, 40])
def test_walk_through_the_graph_returns_rows_of_the_filter_only(
    tmp_path: Path, share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lance_spark.table.vector_search.indexed._MAX_FILTERED_ROWS", 0)
    uri = str(tmp_path / "t")
    values = clustered(3000, 32, "f4")
    write(uri, vectors(values))
    build(uri, "IVF_HNSW_FLAT", num_partitions=1)
    dataset = lance_spark.open(uri)
    condition = f"id % {share} = 1"
    for query in values[:10]:
        exact = dataset.nearest("v", query, 10, filter=condition, use_index=False)["id"].to_pylist()
        found = dataset.nearest("v", query, 10, filter=condition, ef=200)["id"].to_pylist()
        assert all(id_ % share == 1 for id_ in found)
        assert len(set(exact) & set(found)) >= 9


def test_codes_of_rq_that_do_not_fill_bytes_are_refused() -> None:
    """Kernels read the signs of each row in words of as many bytes as the dimensions need."""
    described: dict[str, Any] = {"rotation_type": "fast", "query_estimator": "raw_query", "code_dim": 65, "num_bits": 5}
    described["fast_rotation_signs"] = [0] * 36
    file: Any = IndexFile.__new__(IndexFile)
    file._fields, file._reader = {}, SimpleNamespace(path="auxiliary.idx")
    file.metadata = {"storage_metadata": json.dumps([json.dumps(described)])}
    with pytest.raises(CorruptFileError, match="65 dimensions"):
        RabitStorage.of(file, IvfModel("IVF_RQ", Metric.L2, np.zeros((1, 65), np.float32)))
